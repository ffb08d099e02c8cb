"""`/api/v1/partner`: what an organisation hands to its partners."""
