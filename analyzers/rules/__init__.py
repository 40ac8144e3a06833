"""Rules that explain lost time: evidence -> case; texts in the TOML file beside each module."""
