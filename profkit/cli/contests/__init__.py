"""The verbs of the contests, one file each."""
