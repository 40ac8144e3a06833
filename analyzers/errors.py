"""AnalyzeError; the tree of errors is in collectors/errors.py."""

from __future__ import annotations

from collectors.errors import ProfkitError


class AnalyzeError(ProfkitError):
    """Input that cannot be analyzed; the message names the place."""
