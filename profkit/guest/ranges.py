"""NVTX ranges in the domain `profkit`, nested sample / implementation / phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

DOMAIN = "profkit"


@contextmanager
def annotated(*names: str) -> Iterator[None]:
    """Push the names, outermost first; pop them whatever happens."""
    import nvtx

    for name in names:
        nvtx.push_range(name, domain=DOMAIN)
    try:
        yield
    finally:
        for _ in names:
            nvtx.pop_range(domain=DOMAIN)
