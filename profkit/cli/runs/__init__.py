"""The verbs about many runs, one file each."""
