"""Verbs about a whole program."""
