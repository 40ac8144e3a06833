"""Other people's formats and rules, one folder each; VERBS are for the command line."""

from __future__ import annotations

from profkit.contests import gpucodeforces, kernelbench

VERBS = {**gpucodeforces.VERBS, **kernelbench.VERBS}
"""Verb -> what it does; `profkit.cli.contests` has a file of the verb's name."""
