"""Rules that explain lost time: evidence in, case out, texts in the TOML beside each module."""
