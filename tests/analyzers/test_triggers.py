"""Every rule on an H200: kernels built to trigger it, and siblings built not to; samples of S1 where they do."""

import sys
from functools import cache
from pathlib import Path

import pytest

from analyzers.rules.findings import RULES
from analyzers.rules.rule import COLLECT, PROGRAM
from collectors.counters import counter_set
from profkit.study.study import open_study

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/data/triggers"
H200 = ROOT / "examples/h200"
sys.path.insert(0, str(ROOT / "tests/triggers"))

import kernels  # noqa: E402  (a script beside the tests, not a package)

SAMPLES = [
    # rule, variant, (sample, implementation) that triggers it, (sample, implementation) that does not
    ("launch-bound", "", ("ICMTNY", "ori"), ("ICMTNY", "cuda")),
    ("host-bound", "", ("ICMTNY", "reference"), ("ICDQRM", "cuda")),
    ("host-bound", "one", ("ICMTNY", "cuda"), ("ICMTNY", "reference")),
    ("fuse", "", ("ICKGLU", "reference"), ("ICKGLU", "triton")),
    ("fuse", "", ("ICGRMS", "reference"), ("ICGRMS", "cuda")),
    ("launch-gaps", "", ("ICNPLY", "reference"), ("ICNPLY", "cuda")),
    ("small-grid", "", ("ICVXKH", "cuda"), ("ICDQRM", "cuda")),
    ("latency", "", ("ICFSMX", "reference"), ("ICFSMX", "cuda")),
    ("dram-excess", "", ("ICNPLY", "reference"), ("ICNPLY", "cuda")),
    ("l2-bound", "", ("ICJTRP", "reference"), ("ICJTRP", "cuda")),
    ("uncoalesced", "suspected", ("ICJTRP", "reference"), ("ICJTRP", "cuda")),
    ("uncoalesced", "stores", ("ICJTRP", "ori"), ("ICJTRP", "reference")),
    ("use-tensor-cores", "exact", ("ICPDGM", "cuda"), ("ICPDGM", "reference")),
    ("pipe-bound", "behind", ("ICHTCM", "triton"), ("ICHTCM", "cuda")),
    ("pipe-bound", "tensor-full", ("ICHTCM", "reference"), ("ICHTCM", "triton")),
    ("dram-bound", "headroom", ("ICJTRP", "cuda"), ("ICDQRM", "cuda")),
    ("modelled", "near", ("ICDQRM", "reference"), ("ICDQRM", "cuda")),
]


@cache
def findings(path, *, shallow=False):
    """A recorded run's findings; shallow: as if the deep counters had not been collected."""
    run = open_study(path)
    if shallow and run.launches is not None:
        own = set(counter_set("deep")) - set(counter_set("default"))
        deep = [name for name in run.launches if name in own]
        plain = run.launches.drop(columns=deep)
        run.__dict__["launches"] = plain
        if not run.manifest.impls:
            captured = run.captured
            run.__dict__["captured"] = type(captured)(plain, captured.timeline)
    return [one for one in run.findings() if one.severity != COLLECT]


def told(found, rule, impl, variant=""):
    return [one for one in found if (one.rule, one.impl) == (rule, impl) and variant in ("", one.variant)]


@pytest.mark.xdist_group("triggers")
@pytest.mark.parametrize(("rule", "variant", "hit", "miss"), SAMPLES)
def test_samples_of_s1(rule, variant, hit, miss):
    for (sample, impl), wanted in ((hit, True), (miss, False)):
        found = findings(H200 / sample, shallow=True)
        assert bool(told(found, rule, impl, variant)) == wanted, [one.title for one in found]


@pytest.fixture(scope="module")
def program():
    return {shallow: findings(RECORDED / "kernels", shallow=shallow) for shallow in (False, True)}


@pytest.mark.parametrize("pair", kernels.PAIRS, ids=lambda pair: f"{pair.rule}-{pair.hit}")
def test_kernels_built_for_it(program, pair):
    found = program[pair.shallow]
    mine = [one for one in found if one.impl == pair.hit]
    titles = [one.title for one in mine]
    assert told(found, pair.rule, pair.hit, pair.variant), titles
    assert not told(found, pair.rule, pair.miss, pair.variant), pair.miss
    if pair.first:
        assert mine[0].rule == pair.rule, titles


def test_a_slow_host():
    found = findings(RECORDED / "slow_host")
    assert told(found, "host-bound", "reference")
    assert not told(found, "host-bound", "candidate")


def test_every_rule_has_a_trigger_on_an_h200():
    """In this file's tables, or among the kernels of test_rules.py."""
    from test_rules import PAIRS

    named = {rule for rule, *_ in PAIRS} | {rule for rule, *_ in SAMPLES} | {p.rule for p in kernels.PAIRS}
    named |= {"operators"}  # On a CPU alone: test_program_rules.py.
    named |= {"busy-unit"}  # It reads sections that no recording of ours asks for: test_rules.py has it.
    # Whole programs are tried on recorded traces: test_program_rules.py.
    assert {one.name for one in RULES.values() if one.level != PROGRAM} == named
