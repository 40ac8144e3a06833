"""Times and counts of implementations, their comparison, and the verdict on each."""
