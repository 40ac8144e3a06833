"""HTML pages of one run and of comparisons: self-contained, offline, in both languages."""
