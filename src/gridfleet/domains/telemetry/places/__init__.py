"""What stands where: whose a source is, and which metrics a layout holds."""
