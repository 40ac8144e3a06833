"""RooflineError; the tree of errors is in collectors/errors.py."""

from __future__ import annotations

from collectors.errors import ProfkitError


class RooflineError(ProfkitError):
    """An invalid ceiling, device or figure."""
