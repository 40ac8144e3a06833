"""What a candidate's source says it might do behind the measurement's back: read, never run.

A suspicion is a doubt, not a verdict: honest code can look like this, and a trick can look like nothing.
What counts is found while it runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from collectors.doubt import Doubt
from profkit.targets.source import Source, calls, dotted


@dataclass(frozen=True)
class Suspicion:
    """`name` of what it looks like, the line that rests on and what is there; `code` of its doubt, "": the name."""

    name: str
    line: int
    what: str
    code: str = ""


_FIXES = {
    "fallback": "let it fail: a library's answer says nothing about this kernel",
    "reference": "compute it in the candidate",
    "frame inspection": "a candidate needs its inputs and weights, nothing of its caller",
    "memory reading": "a candidate needs its inputs and weights, nothing else in memory",
    "persisting-l2": "the cache is reset before every timed call; leave it to the hardware",
    "patching": "leave other people's functions alone",
    "tampering": "leave the measurement alone",
    "profiler detection": "run the same code measured or not",
    "exit": "return, or raise an exception",
    "threads": "finish all work before the call returns",
}
_REFERENCE_FILES = {"example_torchcode", "torchcode", "reference"}
OWN_FALLBACK = "fallback-own"
"""Code of a fallback that every call meets first: what is tried runs the candidate's own kernels, under no condition."""
_COMPILES = {"load_inline", "load", "compile", "CDLL", "warmup", "import_module"}


def suspicions(source: Source, reference: str = "") -> list[Suspicion]:
    """Everything suspicious, one a name, in the order of the lines. reference: the reference's file stem."""
    source, found = source.imported, dict[str, Suspicion]()
    every = (_fallback, _reference, _called, _patching, _written)
    for rule in every:
        for one in rule(source, reference):
            first = found.get(one.name)
            if first is None or one.line < first.line:
                found[one.name] = one
    return sorted(found.values(), key=lambda one: one.line)


def doubts(source: Source, impl: str, reference: str = "") -> list[Doubt]:
    """The suspicions as doubts of a run."""
    return [
        Doubt(f"{impl}: {f.name}", f"line {f.line}: {f.what}", _FIXES[f.name], f.code or f.name.replace(" ", "-"), impl)
        for f in suspicions(source, reference)
    ]


def _reachable(source: Source) -> Iterator[ast.FunctionDef]:
    """`forward` of ModelNew and the functions and methods of the file it calls, by name."""
    model = source.classes.get("ModelNew")
    waiting = (
        [n for n in model.body if isinstance(n, ast.FunctionDef) and n.name in ("forward", "__call__")] if model else []
    )
    seen: set[str] = set()
    while waiting:
        function = waiting.pop()
        if function.name in seen:
            continue
        seen.add(function.name)
        yield function
        for _, name in calls(function):
            called = source.functions.get(name.split(".")[-1])
            if called is not None and name.count(".") <= 1 and called.name != "__init__":
                waiting.append(called)


def _fallback(source: Source, _: str) -> Iterator[Suspicion]:
    """try/except on the way of a call whose handler goes on by another way."""
    for function in _reachable(source):
        for node in ast.walk(function):
            if not isinstance(node, ast.Try) or _builds(node) or _looks_up(node):
                continue
            for handler in node.handlers:
                if _goes_on(handler):
                    yield Suspicion(
                        "fallback",
                        handler.lineno,
                        f"an exception in {function.name} is answered by another computation",
                        OWN_FALLBACK if _first_of_all(source, function, node) else "",
                    )


_CHOOSES = (ast.If, ast.IfExp, ast.BoolOp, ast.For, ast.While, ast.Match, ast.Try, ast.Lambda, ast.FunctionDef)


def _first_of_all(source: Source, function: ast.FunctionDef, node: ast.Try) -> bool:
    """Whether every call of the model comes to this `try`, and every passage of it to the candidate's own kernels."""
    before = (n for n in ast.walk(function) if isinstance(n, ast.Return) and n.lineno < node.lineno)
    sure = function.name in ("forward", "__call__") and not any(before) and _always(source, node, function)
    return sure and any(_runs_own(source, one, node, set()) for one in node.body)


def _always(source: Source, node: ast.AST, inside: ast.AST) -> bool:
    """Whether nothing between a node and what it lies in chooses."""
    between = takewhile(lambda one: one is not inside, source.ancestors(node))
    return not any(isinstance(one, _CHOOSES) for one in between)


def _runs_own(source: Source, below: ast.AST, inside: ast.AST, seen: set[str]) -> bool:
    """Whether what is below a node launches, under no condition, what the file builds: itself or in its own functions."""
    for call, name in calls(below):
        if not _always(source, call, inside):
            continue
        if isinstance(call.func, ast.Subscript) or any(name.startswith(f"{one}.") for one in _built(source)):
            return True
        called = source.functions.get(name.split(".")[-1])
        if called is None or called.name in seen or name.count(".") > 1:
            continue
        if any(_runs_own(source, one, called, seen | {called.name}) for one in called.body):
            return True
    return False


def _built(source: Source) -> set[str]:
    """Names, dotted, that what a compiler made is assigned to."""
    return {
        dotted(target)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and re.search(r"(^|\.)(load_inline|CDLL)$|(^|cpp_extension\.)load$", dotted(node.value.func))
        for target in node.targets
    } - {""}


def _builds(node: ast.Try) -> bool:
    """Whether what is tried is an import or a compilation."""
    tried = [n for statement in node.body for n in ast.walk(statement)]
    names = {dotted(n.func).split(".")[-1] for n in tried if isinstance(n, ast.Call)}
    return bool(names & _COMPILES) or any(isinstance(n, (ast.Import, ast.ImportFrom)) for n in tried)


def _looks_up(node: ast.Try) -> bool:
    """Whether what is tried computes nothing: it takes something out of a table, or an attribute."""
    waiting: list[ast.AST] = list(node.body)
    for one in waiting:
        if isinstance(one, (ast.Call, ast.BinOp)):
            return False
        # What the key is made of is no answer.
        waiting += [one.value] if isinstance(one, ast.Subscript) else ast.iter_child_nodes(one)
    return True


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler neither raises nor merely notes something."""
    nodes = [n for statement in handler.body for n in ast.walk(statement)]
    if any(isinstance(n, ast.Raise) for n in nodes):
        return False
    silent = all(isinstance(statement, ast.Pass) for statement in handler.body)
    return (
        silent
        or any(isinstance(n, ast.Return) and n.value is not None for n in nodes)
        or any(isinstance(n, ast.Assign) and isinstance(n.value, (ast.Call, ast.BinOp)) for n in nodes)
    )


def _reference(source: Source, reference: str) -> Iterator[Suspicion]:
    """The reference imported, inherited from, or built and called."""
    files = _REFERENCE_FILES | ({reference} if reference else set())
    for node in ast.walk(source.tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if any(name.split(".")[-1] in files for name in names):
            yield Suspicion("reference", getattr(node, "lineno", 0), f"imports {', '.join(names)}")
    model = source.classes.get("ModelNew")
    # A class of that name in the file itself is the candidate's own.
    if model is None or "Model" in source.classes:
        return
    for call, name in calls(model):
        if name == "Model":
            yield Suspicion("reference", call.lineno, "builds the reference's Model")
    if any(dotted(base).split(".")[-1] == "Model" for base in model.bases):
        own = {n.name for n in model.body if isinstance(n, ast.FunctionDef)}
        if "forward" not in own:
            yield Suspicion("reference", model.lineno, "ModelNew inherits the reference's forward")
        for function in _reachable(source):
            if any(ast.unparse(call.func) == "super().forward" for call, _ in calls(function)):
                yield Suspicion("reference", function.lineno, "forward calls the reference's forward")


_CALLED = {
    "frame inspection": re.compile(
        r"(inspect\.(stack|currentframe|getouterframes|trace)|sys\._(getframe|current_frames)"
        r"|gc\.(get_objects|get_referrers|get_referents)|traceback\.(extract_stack|walk_stack|format_stack))$"
    ),
    "memory reading": re.compile(r"(^|\.)(from_address|string_at|memmove|wstring_at)$"),
    "profiler detection": re.compile(
        r"(_profiler_enabled|torch\.autograd\.profiler\.(?!record_function)|cuProfilerStop)"
    ),
    "exit": re.compile(r"^(os\._exit|os\.abort|os\.kill|os\.execv\w*|sys\.exit|exit|quit)$"),
    "threads": re.compile(r"(^|\.)(threading\.)?(Thread|Timer|start_new_thread)$"),
}


_STARTED = re.compile(r"\.(submit|apply_async|map_async|starmap_async|run_in_executor|run_coroutine_threadsafe)$")
"""What starts work elsewhere and gives something to ask for the answer."""


def _called(source: Source, _: str) -> Iterator[Suspicion]:
    for call, name in calls(source.tree):
        full = _full_name(source, name)
        for kind, pattern in _CALLED.items():
            if pattern.search(full) and not (kind == "threads" and _joined(source, call)):
                yield Suspicion(kind, call.lineno, f"calls {full}")
        if _STARTED.search(name) and isinstance(source.parents.get(call), ast.Expr):
            yield Suspicion("threads", call.lineno, f"calls {name} and asks for no answer")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in ("f_back", "f_locals", "f_globals"):
            yield Suspicion("frame inspection", node.lineno, f"reads {node.attr}")
        if isinstance(node, ast.Attribute) and node.attr in ("_is_profiler_enabled", "_profiler_enabled"):
            yield Suspicion("profiler detection", node.lineno, f"reads {node.attr}")


def _joined(source: Source, made: ast.Call) -> bool:
    """Whether what a call made gets a name that is joined somewhere, or lies in a list all of which is: the work is waited
    for.
    """
    above = [made, *source.ancestors(made)]
    assigned = next((node for node in above if isinstance(node, ast.Assign)), None)
    names = {dotted(target) for target in assigned.targets} if assigned else set()
    names |= {name.removesuffix(".append") for one in above[:2] for _, name in calls(one) if name.endswith(".append")}
    loops = (node for node in ast.walk(source.tree) if isinstance(node, (ast.For, ast.comprehension)))
    names |= {dotted(loop.target) for loop in loops if dotted(loop.iter) in names}
    return any(name in {f"{one}.join" for one in names - {""}} for _, name in calls(source.tree))


def _full_name(source: Source, name: str) -> str:
    """A dotted name with what it was imported as replaced by what it is."""
    first, _, rest = name.partition(".")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            known = {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            known = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        else:
            continue
        if first in known:
            return f"{known[first]}.{rest}" if rest else known[first]
    return name


_FOREIGN = {"torch", "time", "statistics", "builtins", "os", "numpy", "np", "profkit", "nn", "F"}


def _patching(source: Source, _: str) -> Iterator[Suspicion]:
    """Assignments to attributes of modules that are not the candidate's."""
    for node in ast.walk(source.tree):
        for target in node.targets if isinstance(node, ast.Assign) else []:
            name = dotted(target) if isinstance(target, ast.Attribute) else ""
            if name and _foreign(source, name) and not _local(source, node, name):
                yield Suspicion("patching", target.lineno, f"assigns {name}")
        sets = isinstance(node, ast.Call) and dotted(node.func) == "setattr" and node.args
        if isinstance(node, ast.Call) and sets and _foreign(source, dotted(node.args[0])):
            yield Suspicion("patching", node.lineno, f"sets an attribute of {dotted(node.args[0])}")


def _local(source: Source, node: ast.AST, name: str) -> bool:
    """Whether the first part of a dotted name is a variable of the function that a node is in."""
    first = name.partition(".")[0]
    within = [one for one in source.ancestors(node) if isinstance(one, (ast.FunctionDef, ast.Lambda))]
    nodes = [inner for function in within for inner in ast.walk(function)]
    if any(isinstance(inner, ast.Global) and first in inner.names for inner in nodes):
        return False
    stored = (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return first in stored or any(isinstance(inner, ast.arg) and inner.arg == first for inner in nodes)


def _foreign(source: Source, name: str) -> bool:
    """Whether a name belongs to somebody else's module and is no setting of torch's."""
    full = _full_name(source, name)
    return full.split(".")[0] in _FOREIGN and not re.search(r"\.(backends|_inductor|_dynamo)\.", full)


_WRITTEN = {
    "persisting-l2": re.compile(
        r"cudaLimitPersistingL2CacheSize|accessPolicyWindow|AccessPolicyWindow|cudaAccessPropertyPersisting"
        r"|CU_LIMIT_PERSISTING|CU_ACCESS_PROPERTY_PERSISTING|PERSISTING_L2"
    ),
    "memory reading": re.compile(r"/proc/(self|\d+|\{)?.*\b(mem|maps)\b"),
    "profiler detection": re.compile(r"NV_COMPUTE_PROFILER|CUDA_INJECTION64_PATH|NSYS_PROFILING|NVTX_INJECTION64"),
    "tampering": re.compile(
        r"PROFKIT_|\.events\.jsonl|\.job\.json|sys\.argv|\bprofkit\.runner\b"
        r"|\b(user|site)customize\b|\boom_(score_)?adj\b"
    ),
}


_OFFERED = {"profkit", "profkit.annotate"}
"""What a candidate may import of profkit: its names for ranges."""


def _inner(source: Source, node: ast.AST, name: str) -> bool:
    """Whether a whole name is one of profkit's that is not offered, however profkit was imported."""
    if "profkit" not in source.text or not name or isinstance(source.parents.get(node), ast.Attribute):
        return False
    full = _full_name(source, name)
    return full.startswith("profkit.") and full not in _OFFERED


def _written(source: Source, _: str) -> Iterator[Suspicion]:
    """Words in strings (CUDA sources, environment variables, paths) and the names of the code itself."""
    for number, text in source.strings():
        for name, pattern in _WRITTEN.items():
            found = pattern.search(text)
            if found:
                yield Suspicion(name, number + text.count("\n", 0, found.start()), f"contains {found[0]}")
    for node in ast.walk(source.tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        imported += [f"{node.module}.{a.name}" for a in node.names] if isinstance(node, ast.ImportFrom) else []
        if (
            name == "sys.argv"
            or _inner(source, node, name)
            or any(i.split(".")[0] == "profkit" and i not in _OFFERED for i in imported)
        ):
            yield Suspicion("tampering", getattr(node, "lineno", 0), f"uses {name or imported[0]}")
