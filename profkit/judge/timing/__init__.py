"""Rounds of timed calls, and the judge's clock for candidates in other processes."""
