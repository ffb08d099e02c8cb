"""Sites: what partners have set at a plant."""
