"""The devices that users have registered for push messages."""
