"""Times and counts of implementations, what they are compared with, and the one word for each."""
