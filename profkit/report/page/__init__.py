"""The pages: report.html of one run, and of several that are compared; self-contained, offline, in both languages."""
