"""Commands to all plants of an organisation, by what and by whom they were issued."""
