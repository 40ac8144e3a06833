"""Caveats of a study beyond those of the analyzers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from collectors.caveat import Caveat
from profkit.study.declared import outside_ranges

if TYPE_CHECKING:
    from profkit.rundir.manifest import Impl
    from profkit.study.study import Study


def caveats_of(study: Study) -> Iterator[Caveat]:
    """Caveats of launches, timeline, measurement, ceilings and each candidate."""
    manifest, launches, frame = study.manifest, study.launches, study.captured.timeline
    if launches is not None and not manifest.impls and not study.of_operators:
        yield from outside_ranges(launches)
    if frame is not None and frame is not launches and not manifest.impls and not study.of_operators:
        yield from frame.attrs.get("caveats", ())
    yield from manifest.caveats
    if gone := study.run.gone:
        missing = f"files of this run are gone: {', '.join(gone)}"
        yield Caveat(missing, "their data is missing here", "restore them, or measure again")
    yield from (caveat for one in study.budgets.values() if (caveat := one.caveat()) is not None)
    yield from () if study.of_operators else _of_ceilings(study)
    yield from (caveat for name, one in study.whose.items() if (caveat := one.caveat(name)) is not None)
    yield from (caveat for one in manifest.candidates if (caveat := _fragility(one)) is not None)
    yield from (one.caveat() for one in study.reduced_precision)


def _of_ceilings(study: Study) -> Iterator[Caveat]:
    """Caveat that no ceiling is known, or none was measured."""
    roof = study.roofline
    if not roof.ceilings:
        unnamed = study.manifest.sample.kind == "import" and roof.device.startswith("unknown device")
        yield Caveat(
            f"no ceiling is known for {roof.device}",
            "no roofline, no lower bound, no share of peak"
            + ("" if study.manifest.device.get("kind") == "rocm" else " but ncu's own of DRAM"),
            "name the GPU: `profkit import FILE --device NAME`"
            if unnamed
            else "add it to roofline/devices.toml, with its source",
        )
    elif all(ceiling.source == "datasheet" for ceiling in roof.ceilings):
        yield Caveat(
            "all ceilings are datasheet figures, which no kernel reaches",
            "shares of peak read low by 5 to 20 %",
            "`profkit ceilings` measures this device's own once; --ncu gives the peaks at the real clock",
            "datasheet-roofs",
        )


def _fragility(impl: Impl) -> Caveat | None:
    """Unusual inputs on which a correct candidate is wrong, fails or refuses."""
    if not impl.fragile or not impl.ok:
        return None
    return Caveat(
        f"{impl.name}: not right for every input that the task may have",
        "; ".join(impl.fragile),
        "declare possible inputs with input_domain() in the reference",
        "fragile",
        impl.name,
    )
