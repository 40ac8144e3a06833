"""Verbs for contests, by file."""

VERBS = {"gpucodeforces": ("new", "check", "score", "prompt"), "kernelbench": ("kernelbench",)}
