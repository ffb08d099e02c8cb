"""Data of linked plants from an ESM: fetched from outside, shown with the plant."""
