"""What users watch: the changes of an organisation's plants, alerts and commands, as they are committed."""
