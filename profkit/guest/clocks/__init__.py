"""Clocks of one process: events, CUPTI, wall."""
