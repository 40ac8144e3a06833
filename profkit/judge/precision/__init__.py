"""Measured precision: to how many bits an answer is right."""
