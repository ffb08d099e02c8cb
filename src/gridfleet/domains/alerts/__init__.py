"""Alerts: rules that watch what plants measure, the alerts they raise, and what people do about them."""
