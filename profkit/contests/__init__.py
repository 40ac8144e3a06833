"""Formats and rules of contests, one folder each."""
