"""Frames and roofline -> verdicts: what ran, how fast, against which limit, and how far to trust it."""
