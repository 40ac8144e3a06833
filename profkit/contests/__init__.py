"""Other people's formats and rules, one folder each."""
