"""Client libraries: `plant` for a plant's software, `partner` for a trading partner's software."""
