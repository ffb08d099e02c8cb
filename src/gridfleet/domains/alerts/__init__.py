"""Alerts: rules that check measurements, the alerts that they raise, and what users do with them."""
