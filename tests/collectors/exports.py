"""Writes exports as Nsight Compute would, in any dialect, from launches whose numbers are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field

BASE_UNITS = {
    "device__attribute_clock_rate": "",
    "dram__bytes.sum": "byte",
    "gpu__time_duration.sum": "ns",
    "launch__registers_per_thread": "register/thread",
    "sm__cycles_elapsed.avg.per_second": "hz",
    "sm__sass_thread_inst_executed_op_fadd_pred_on.sum": "inst",
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum": "inst",
    "sm__sass_thread_inst_executed_op_fmul_pred_on.sum": "inst",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "%",
}
_LONG = {"ns": "nsecond", "us": "usecond", "ms": "msecond", "s": "second", "hz": "cycle/second"}
_AUTO = {
    "byte": [("byte", 1.0), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9), ("Tbyte", 1e12)],
    "ns": [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
    "hz": [("hz", 1.0), ("Khz", 1e3), ("Mhz", 1e6), ("Ghz", 1e9)],
}
_LOCALES = {"C": ("", "."), "en_US": (",", "."), "de_DE": (".", ","), "fr_FR": (" ", ","), "fr_nbsp": ("\u202f", ",")}
PUSH_POP = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
START_STOP = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"


@dataclass(frozen=True)
class Launch:
    """A launch: metrics in base units (ns, byte, hz, %), None where the tool has no value."""

    kernel: str
    metrics: dict[str, float | None]
    ranges: tuple[tuple[str, str], ...] = ()
    grid: tuple[int, int, int] = (16, 32, 1)
    block: tuple[int, int, int] = (256, 1, 1)


@dataclass(frozen=True)
class Dialect:
    """How an export is written. auto: scaled units, six decimals on the raw page, two on the details page."""

    page: str = "raw"
    locale: str = "C"
    auto: bool = False
    long_units: bool = False
    nvtx: bool = True
    coloured: bool = False
    units_row: bool = True
    instances: bool = False
    missing: str = "n/a"
    before: tuple[str, ...] = ("==PROF== Connected to process 7 (/usr/bin/python3)",)
    between: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    newline: str = "\n"
    encoding: str = "utf-8"
    rules: tuple[tuple[str, str, str], ...] = ()
    body_labels: bool = False
    first_id: int = 0
    process: int = 4711
    extra: dict[str, str] = field(default_factory=dict)


def number(value: float, decimals: int, locale: str) -> str:
    """A number as printf with grouping would print it; whole numbers without decimals unless scaled."""
    group, mark = _LOCALES[locale]
    text = f"{value:,.{decimals}f}"
    return text.replace(",", "\0").replace(".", mark).replace("\0", group)


def write(launches: Sequence[Launch], dialect: Dialect) -> bytes:
    """The export as bytes."""
    lines = [*dialect.before]
    lines += _raw(launches, dialect) if dialect.page == "raw" else _details(launches, dialect)
    lines += dialect.after
    text = "".join(line + dialect.newline for line in lines)
    if dialect.encoding == "utf-8-bom":
        return b"\xef\xbb\xbf" + text.encode()
    return text.encode(dialect.encoding)


def row(cells: Sequence[str]) -> str:
    """A CSV line with every cell quoted."""
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def _keys(dialect: Dialect) -> list[str]:
    ranges = [PUSH_POP, START_STOP] if dialect.nvtx else []
    who, what = ("ID", "Process ID", "Process Name", "Host Name"), ("Block Size", "Grid Size", "Device", "CC")
    return [*who, *ranges, "Kernel Name", "Context", "Stream", *what]


def _identity(i: int, launch: Launch, dialect: Dialect) -> list[str]:
    ranges = [nvtx_cell(launch.ranges, coloured=dialect.coloured), ""] if dialect.nvtx else []
    who = (str(i + dialect.first_id), str(dialect.process), "python3", "127.0.0.1")
    shape = ("({}, {}, {})".format(*sizes) for sizes in (launch.block, launch.grid))
    return [*who, *ranges, launch.kernel, "1", "7", *shape, "0", "9.0"]


def nvtx_cell(ranges: Sequence[tuple[str, str]], *, coloured: bool) -> str:
    """The ranges round a launch as ncu prints them."""
    tail = "none:none:RGB:0xff00ff00:ASCII:{}" if coloured else "none:none:none:none:none:none"
    texts = [f'"{domain}:{name}:{tail.format(name)}"' for domain, name in ranges]
    return "4711  " + "  ".join(texts) + " " if texts else ""


def _metrics(launches: Sequence[Launch]) -> list[str]:
    return [name for name in BASE_UNITS if any(name in launch.metrics for launch in launches)]


def _unit(name: str, largest: float, dialect: Dialect) -> tuple[str, float]:
    unit, factor = BASE_UNITS[name], 1.0
    if dialect.auto and unit in _AUTO:
        unit, factor = [one for one in _AUTO[unit] if one[1] <= max(largest, 1.0)][-1]
    if dialect.long_units:
        unit = {"Ghz": "cycle/nsecond", "Mhz": "cycle/usecond", "Khz": "cycle/msecond"}.get(unit, _LONG.get(unit, unit))
    return unit, factor


def _cell(value: float | None, factor: float, dialect: Dialect, *, scaled: bool) -> str:
    if value is None:
        return dialect.missing
    decimals = 6 if scaled and dialect.page == "raw" else 0 if value / factor == int(value / factor) else 2
    locale = "C" if scaled and dialect.locale == "en_US" else dialect.locale
    text = number(value / factor, decimals, locale)
    return f"{text} ({text}; {text})" if dialect.instances else text


def _raw(launches: Sequence[Launch], dialect: Dialect) -> list[str]:
    names = _metrics(launches)
    units = {}
    for name in names:
        values = [launch.metrics.get(name) or 0.0 for launch in launches]
        units[name] = _unit(name, max(values, default=0.0), dialect)
    keys = _keys(dialect)
    lines = [row([*keys, *names, *dialect.extra])]
    if dialect.units_row:
        lines.append(row([*([""] * len(keys)), *(units[name][0] for name in names), *("" for _ in dialect.extra)]))
    for i, launch in enumerate(launches):
        cells = [
            _cell(launch.metrics.get(name), units[name][1], dialect, scaled=dialect.auto and bool(BASE_UNITS[name]))
            for name in names
        ]
        lines.append(row([*_identity(i, launch, dialect), *cells, *dialect.extra.values()]))
        lines += dialect.between
    return lines


def _details(launches: Sequence[Launch], dialect: Dialect) -> list[str]:
    body = ["Body Item Label"] if dialect.body_labels else []
    metric, rule = ("Name", "Unit", "Value"), ("Name", "Type", "Description")
    told = (*(f"Metric {one}" for one in metric), *(f"Rule {one}" for one in rule))
    lines = [row([*_keys(dialect), "Section Name", *body, *told, "Estimated Speedup Type", "Estimated Speedup"])]
    gain = number(12.5, 2, dialect.locale)
    for i, launch in enumerate(launches):
        who, empty = _identity(i, launch, dialect), [""] * len(body)
        for name in _metrics([launch]):
            value = launch.metrics[name]
            unit, factor = _unit(name, value or 0.0, dialect)
            cells = [name, "" if value is None else unit, _cell(value, factor, dialect, scaled=False)]
            lines.append(row([*who, "Command line profiler metrics", *empty, *cells]) + ",")
        lines += [row([*who, "SpeedOfLight", *empty, "", "", "", *one, "local", gain]) for one in dialect.rules]
        lines += dialect.between
    return lines
