"""Meaning of a run directory, each thing computed once."""
