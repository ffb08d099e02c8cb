"""What an ESM knows of the plants that are linked to it: brought up to date from outside, shown with the plant."""
