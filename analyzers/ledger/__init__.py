"""A program's operations: time, lower bound and possible gain of each."""
