"""`/api/v1/partner`: access of trading partners to an organisation."""
