"""What SuperAdmins do to the service itself: it owns no table."""
