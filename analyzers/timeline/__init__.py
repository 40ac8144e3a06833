"""Timeline of a program: steps, idle time and its causes, comparison of two records."""
