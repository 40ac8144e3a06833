"""Analysis of a run directory, each part computed once."""
