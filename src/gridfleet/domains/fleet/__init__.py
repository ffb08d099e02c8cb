"""All plants of an organisation together: what overviews, maps and totals show."""
