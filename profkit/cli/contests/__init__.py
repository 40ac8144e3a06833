"""The verbs of the contests."""
