"""Where the time of a program goes: steps, idle time and its causes, and what changed between two records."""
