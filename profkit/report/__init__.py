"""Renderers: from a run and its analysis to text for a terminal, a PR or a program."""
