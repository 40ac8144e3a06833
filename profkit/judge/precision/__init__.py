"""Measured precision: number of correct bits of an answer."""
