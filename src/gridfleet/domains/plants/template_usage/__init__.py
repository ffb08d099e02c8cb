"""The plants of an organisation that use a device template."""
