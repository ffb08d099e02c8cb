"""Technical foundation without business terms."""
