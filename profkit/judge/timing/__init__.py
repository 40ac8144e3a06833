"""Rounds of timed calls, and the clock outside of a candidate's process."""
