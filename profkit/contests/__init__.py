"""Other people's formats and rules, one folder each; VERBS are for the command line."""

from __future__ import annotations

from profkit.contests import gpucodeforces, kernelbench

VERBS = {**gpucodeforces.VERBS, **kernelbench.VERBS}
"""Verb -> summary; its code is in `profkit.cli.contests`."""
