"""Are the functions still the ones we started with?

Before any candidate is imported, the functions that make, compare and time a result are written down with what they
are made of: torch's, Python's, profkit's own and the reference's; methods of classes, tables, and the hooks that torch
calls for every module too. After every step of a candidate they are looked at again. Whatever was replaced or changed
in place is put back and named. This is no sandbox: it tells of replaced functions, it does not contain code.
"""

from __future__ import annotations

import builtins
import copy
import functools
import gc
import inspect
import math
import os
import pickle
import random
import secrets
import signal
import socket
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter, is_, itemgetter
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import msgspec
import numpy
import torch
import torch.autograd.profiler
import torch.library
from torch.utils._device import DeviceContext

from profkit.runner.offence import OffenceError

_Place = tuple[str, Any]
_Made = tuple[CodeType, Any, Any]
"""A function's code, defaults and keyword defaults."""
_Held = dict[tuple[str, str], tuple[Any, Any, _Made | None]]
"""(place, name) -> the holder, the object and, of Python functions, what it is made of."""
_MISSING = object()
_ALL, _ANY, _MAP, _PARTS = all, any, map, gc.get_referents
"""Python's own, whatever a candidate calls so."""
_TORCH = str(Path(torch.__file__).parent)
_SHOWN = 4


@dataclass
class Seal:
    """What the watched places held, and how that is seen at a glance; `tables`: what was in dicts, lists and sets of
    profkit's, and in torch's lists of hooks for every module; `names`: those that a class defined itself; `things`: objects
    of profkit's by what they are for, with their type and some of what they hold.
    """

    held: _Held = field(default_factory=dict)
    glance: _Glance | None = None
    tables: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    names: dict[type, frozenset[str]] = field(default_factory=dict)
    modes: tuple[int, int] = (0, 0)
    overrides: frozenset[str] = frozenset()
    hooks: dict[str, Any] = field(default_factory=dict)
    tools: dict[int, str] = field(default_factory=dict)
    things: dict[str, tuple[Any, type, dict[str, Any]]] = field(default_factory=dict)
    listening: int = 0
    hiding: dict[str, tuple[ModuleType, frozenset[str]]] = field(default_factory=dict)
    """By module, which of Python's own names it has something else for."""
    found: _Found | None = None
    """What was found before a fork, which a process inherits."""


_SEAL = Seal()


@dataclass
class _Found:
    """What `seal` finds before it hears of a reference, as in Seal, and how many names each holder, and how many modules there
    were then.
    """

    held: _Held
    names: dict[type, frozenset[str]]
    hiding: dict[str, tuple[ModuleType, frozenset[str]]]
    tables: dict[str, Any]
    sizes: dict[Any, int]
    modules: int
    glance: _Glance

    def lasts(self) -> bool:
        """Whether it is what would be found now."""
        return _ALL(_names(holder) == size for holder, size in self.sizes.items()) and self.glance.same()


def _names(holder: Any) -> int:
    """How many names a module or class has; the list of warnings that Python has given in a module is none of its own."""
    return len(vars(holder)) - ("__warningregistry__" in vars(holder))


def prepare() -> None:
    """Find what `seal` writes down, for all processes that are forked from this one: it takes a fifth of what a candidate's
    process does.
    """
    _find()
    glance = _Glance(_SEAL.held, {})
    sizes = {
        base: _names(base) for holder, _, _ in _SEAL.held.values() for base in getattr(holder, "__mro__", (holder,))
    }
    tables = {name: table for name, (table, _) in _SEAL.tables.items()}
    _SEAL.found = _Found(_SEAL.held, _SEAL.names, _SEAL.hiding, tables, sizes, len(sys.modules), glance)
    # What it is made of is known by the second look.
    glance.same()


def seal(reference: ModuleType | None = None) -> None:
    """Write down the state that later `check`s compare with; that of the reference's module as well."""
    if (found := _SEAL.found) is not None and found.lasts():
        _SEAL.held, _SEAL.names, _SEAL.hiding = dict(found.held), dict(found.names), dict(found.hiding)
        _SEAL.tables = {name: (table, copy.copy(table)) for name, table in found.tables.items()}
        _SEAL.glance = found.glance
        if len(sys.modules) != found.modules:
            _include_own()
    else:
        _find()
    if reference is not None:
        include(reference)
    _SEAL.modes, _SEAL.overrides, _SEAL.hooks, _SEAL.tools = _modes(), _overrides(), _hooks(), _tools()
    _listen()
    _SEAL.listening = len(_listeners)


def _find() -> None:
    """Write down what torch, Python and profkit have."""
    _SEAL.held, _SEAL.tables, _SEAL.names, _SEAL.hiding = {}, {}, {}, {}
    for place, holder in _places():
        _SEAL.held |= {(place, name): (holder, value, _made(value)) for name, value in _members(holder)}
        if isinstance(holder, ModuleType) and holder is not builtins:
            _SEAL.hiding[place] = holder, _hidden(holder)
    for place, kind in _layers():
        _hold(place, kind, vars(kind))
    for name, table in _hook_tables():
        _SEAL.tables[name] = (table, copy.copy(table))
    _include_own()


def _include_own() -> None:
    """Write down what those modules of profkit's have that are not written down."""
    for module in _own_modules():
        if module.__name__ not in _SEAL.hiding:
            include(module)
            _SEAL.hiding[module.__name__] = module, _hidden(module)


def include(module: ModuleType, *, data: bool = True) -> None:
    """Write down what a module has: functions, classes with their methods, tables. data: whether its variables and
    tables may not change either; a candidate may keep what it likes in its own.
    """
    _hold(module.__name__, module, vars(module), everything=data)
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            _hold(f"{module.__name__}.{name}", value, vars(value))
        elif data and type(value) in (dict, list, set) and not name.startswith("__") and value is not _SEAL.tables:
            _SEAL.tables[f"{module.__name__}.{name}"] = (value, copy.copy(value))


def keep(role: str, thing: Any, *names: str) -> None:
    """Write down the object that plays a role from now on: its type, that nothing of its own hides a method of that, and what
    it has under these names. A dict has to keep all that is in it.
    """
    if isinstance(thing, dict):
        _SEAL.tables[role] = (thing, dict(thing))
    else:
        _SEAL.things[role] = thing, type(thing), {name: vars(thing)[name] for name in names}


def _hold(place: str, holder: Any, members: Mapping[str, Any], *, everything: bool = False) -> None:
    _SEAL.glance = None
    if isinstance(holder, type):
        _SEAL.names[holder] = frozenset(members)
    for name, value in list(members.items()):
        if everything:
            if not name.startswith("__"):
                _SEAL.held[place, name] = (holder, value, _made(value))
        elif callable(value) or isinstance(value, (staticmethod, classmethod, property)):
            _SEAL.held[place, name] = (holder, value, _made(value))


def check() -> None:
    """Raise OffenceError "patched" naming what was replaced since `seal`, after putting it back."""
    replaced = restore()
    if replaced:
        more = f" and {len(replaced) - _SHOWN} more" if len(replaced) > _SHOWN else ""
        stays = replaced == [_AUDIT]
        raise OffenceError("patched", f"replaces {', '.join(replaced[:_SHOWN])}{more}{'' if stays else '; put back'}")


def restore() -> list[str]:
    """Put everything back as it was at `seal`; the names of what was not."""
    found: list[str] = []
    glance = _SEAL.glance = _SEAL.glance or _Glance(_SEAL.held, {})
    wrapped: _Held = {}
    for (place, name), (holder, value, made) in (glance.left if glance.same() else _SEAL.held).items():
        now = _now(holder, name)
        if now is value and (made is None or _is_made_of(value, made)):
            continue
        if now is not value and _lawful(now, value):
            wrapped[place, name] = (holder, value, made)
            continue
        found.append(f"{place}.{name}")
        _put_back(holder, name, value, made)
    if wrapped.keys() != glance.left.keys():
        _SEAL.glance = _Glance(_SEAL.held, wrapped)
    found += (
        _restore_names()
        + _restore_hiding()
        + _restore_tables()
        + _restore_things()
        + _restore_modes()
        + _restore_hooks()
        + _restore_tools()
    )
    return found + _restore_overrides()


def _places() -> Iterator[_Place]:
    """Modules and classes whose functions decide what a result or a time is."""
    yield from (
        ("torch", torch),
        ("torch.Tensor", torch.Tensor),
        ("torch.nn.functional", torch.nn.functional),
    )
    yield from (("torch.nn", torch.nn), ("torch.nn.Module", torch.nn.Module), ("torch.linalg", torch.linalg))
    yield from (
        ("torch.cuda", torch.cuda),
        ("torch.cuda.Event", torch.cuda.Event),
        ("torch.cuda.Stream", torch.cuda.Stream),
    )
    yield from (
        ("torch.cuda.CUDAGraph", torch.cuda.CUDAGraph),
        ("torch.random", torch.random),
        ("torch.fft", torch.fft),
    )
    yield from (
        ("torch._C", torch._C),
        ("torch._C._nn", torch._C._nn),
        ("torch.autograd.profiler.profile", torch.autograd.profiler.profile),
    )
    yield from (("torch.special", torch.special), ("torch.library", torch.library))
    yield from (
        ("builtins", builtins),
        ("time", time),
        ("statistics", statistics),
        ("math", math),
        ("os", os),
    )
    yield from (("numpy", numpy), ("numpy.random", numpy.random), ("sys", sys), ("threading", threading))
    # What hands data and questions over: a candidate that hears of them could work before it is called.
    yield from (("torch.serialization", torch.serialization), ("torch._utils", torch._utils), ("pickle", pickle))
    yield from (("torch.UntypedStorage", torch.UntypedStorage), ("msgspec.json", msgspec.json))
    yield from (("msgspec.msgpack", msgspec.msgpack),)
    yield from (("socket.socket", socket.socket),)
    yield from (("random", random), ("random.SystemRandom", random.SystemRandom), ("secrets", secrets))


def _layers() -> Iterator[tuple[str, type]]:
    """torch's layers: whose methods a reference is made of."""
    for name, value in vars(torch.nn).items():
        if isinstance(value, type) and issubclass(value, torch.nn.Module):
            yield f"torch.nn.{name}", value


def _hook_tables() -> Iterator[tuple[str, Any]]:
    """torch's tables of functions that every module calls, and of those that are called with whatever is loaded."""
    holder = torch.nn.modules.module
    for name, value in vars(holder).items():
        if name.startswith("_global_") and isinstance(value, dict):
            yield f"torch.nn.modules.module.{name}", value
    loaders: list[Any] = torch.serialization._package_registry
    yield "torch.serialization's loaders", loaders
    yield "gc.callbacks", gc.callbacks


def _restore_names() -> list[str]:
    """Functions that classes have of their own since, where they inherited one or had none."""
    found = []
    for kind, names in _SEAL.names.items():
        if len(vars(kind)) == len(names):
            continue
        for name in [n for n in vars(kind) if n not in names and callable(vars(kind)[n])]:
            found.append(f"{kind.__module__}.{kind.__qualname__}.{name}")
            delattr(kind, name)
    return found


_PYTHONS = frozenset(name for name in vars(builtins) if not name.startswith("_"))


def _hidden(module: ModuleType) -> frozenset[str]:
    """Python's own names that stand for something else in the functions of a module."""
    return frozenset() if vars(module).keys().isdisjoint(_PYTHONS) else _PYTHONS & vars(module).keys()


def _restore_hiding() -> list[str]:
    """Names that modules have of their own since, where their functions mean Python's."""
    found = []
    for place, (module, before) in _SEAL.hiding.items():
        for name in _hidden(module) - before:
            found.append(f"{place}.{name}")
            delattr(module, name)
    return found


def _restore_tables() -> list[str]:
    """Tables that hold other things than they did; they are filled as they were."""
    found = []
    for name, (table, before) in _SEAL.tables.items():
        if len(table) == len(before) and _same_contents(table, before):
            continue
        found.append(name)
        table.clear()
        table.extend(before) if isinstance(table, list) else table.update(before)
    return found


def _restore_things() -> list[str]:
    """Objects that are of another type now, hide a method, or hold other things."""
    found = []
    for role, (thing, kind, held) in _SEAL.things.items():
        own = vars(thing)
        hidden = [name for name in own if callable(getattr(kind, name, None))]
        others = [name for name, value in held.items() if own.get(name, _MISSING) is not value]
        found += [f"{role}.{name}" for name in (*hidden, *others)]
        for name in hidden:
            del own[name]
        own.update(held)
        if type(thing) is not kind:
            found.append(f"the type of {role}")
            thing.__class__ = kind
    return found


def _same_contents(table: Any, before: Any) -> bool:
    """Whether the very same things are in it; numbers may be equal ones."""
    if isinstance(table, dict):
        return all(key in table and _one(table[key], value) for key, value in before.items())
    if isinstance(table, list):
        return all(map(_one, table, before))
    return bool(table == before)


def _one(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, (int, float, str)) and one == other)


_UNSTEADY = {"builtins": {"_"}, "sys": {"displayhook", "last_exc", "last_value", "last_type", "excepthook"}}


def _members(holder: Any) -> Iterator[tuple[str, Any]]:
    """The callables of a module or class, inherited ones too: an override would hide those."""
    skip = _UNSTEADY.get(getattr(holder, "__name__", ""), set())
    for name in dir(holder) if isinstance(holder, type) else list(vars(holder)):
        value = _now(holder, name)
        if value is _MISSING or name in skip or name in ("__doc__", "__abstractmethods__", "__class__"):
            continue
        if callable(value) or isinstance(value, (staticmethod, classmethod, property)):
            yield name, value


def _now(holder: Any, name: str) -> Any:
    """What a module or class has under a name, inherited or not, without running anything of it."""
    for base in holder.__mro__ if isinstance(holder, type) else (holder,):
        value = base.__dict__.get(name, _MISSING)
        if value is not _MISSING:
            return value
    return _MISSING


def _own_modules() -> Iterator[ModuleType]:
    yield from (module for name, module in list(sys.modules.items()) if name.startswith("profkit.") and module)


def _inner(value: Any) -> Any:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _made(value: Any) -> _Made | None:
    """What a Python function is made of; None for anything else."""
    inner = _inner(value)
    code = getattr(inner, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    keywords = inner.__kwdefaults__
    return code, inner.__defaults__, None if keywords is None else dict(keywords)


def _is_made_of(value: Any, made: _Made) -> bool:
    now = _made(value)
    if now is None or now[0] is not made[0] or now[1] is not made[1]:
        return False
    return now[2] is made[2] or (now[2] is not None and made[2] is not None and _same_contents(now[2], made[2]))


def _lawful(now: Any, before: Any) -> bool:
    """Whether torch itself put a wrapper round its own function, as torch._dynamo does with a few."""
    made = _made(now)
    if made is None or not made[0].co_filename.startswith(_TORCH):
        return False
    within = [cell.cell_contents for cell in getattr(now, "__closure__", None) or ()]
    return inspect.unwrap(now) is before or any(inner is before for inner in within)


class _Glance:
    """Tells whether what is held is as it was, but for what is `left` to be looked at one by one. In columns, and of functions
    by all that each refers to: a candidate is looked at after each of its steps, and a step of the interpreter's for each thing
    held takes four times as long, as asking a function for its code is an event that Python's audit hooks are told of.
    """

    def __init__(self, held: _Held, left: _Held) -> None:
        self.left = left
        self._orders: dict[type, tuple[type, ...]] = {}
        self._hiding: dict[type, set[str]] = {}
        """Names that a class has from one behind it in the order: of its own it would hide that."""
        self._made: dict[int, tuple[Any, _Made]] = {}
        places: dict[Any, dict[str, Any]] = {}
        for (place, name), (holder, value, made) in held.items():
            if (place, name) in left:
                continue
            found = holder
            if isinstance(holder, type):
                self._orders[holder] = holder.__mro__
                for found in holder.__mro__:
                    if name in found.__dict__:
                        break
                    self._hiding.setdefault(found, set()).add(name)
            places.setdefault(found, {})[name] = value
            if made is not None:
                inner = _inner(value)
                self._made[id(inner)] = inner, made
        # The first name twice: of one alone an itemgetter gives no tuple.
        self._columns = [
            (itemgetter(next(iter(own)), *own), holder.__dict__, [next(iter(own.values())), *own.values()])
            for holder, own in places.items()
        ]
        self._functions = [function for function, _ in self._made.values()]
        self._parts: list[Any] = []
        self._keywords: list[tuple[dict[str, Any], list[Any]]] = []

    def same(self) -> bool:
        """Whether it is; False too where that cannot be told."""
        try:
            return (
                _ALL(_ALL(_MAP(is_, names(place), values)) for names, place, values in self._columns)
                and _ALL(_MAP(is_, _MAP(attrgetter("__mro__"), self._orders), self._orders.values()))
                and _ALL(kind.__dict__.keys().isdisjoint(names) for kind, names in self._hiding.items())
                and self._same_functions()
            )
        except (AttributeError, KeyError):
            return False

    def _same_functions(self) -> bool:
        parts = _PARTS(*self._functions)
        if _identical(parts, self._parts) and _ALL(
            _identical([*own, *own.values()], kept) for own, kept in self._keywords
        ):
            return True
        self._parts = []
        if not _ALL(_is_made_of(function, made) for function, made in self._made.values()):
            return False
        keywords = [function.__kwdefaults__ for function, made in self._made.values() if made[2] is not None]
        # Looked at twice, lest another thread had changed some while the first were written down.
        if _identical(parts, _PARTS(*self._functions)):
            self._parts, self._keywords = parts, [(own, [*own, *own.values()]) for own in keywords]
        return True


def _identical(some: list[Any], others: list[Any]) -> bool:
    """Whether the very same things are in both lists."""
    return len(some) == len(others) and _ALL(_MAP(is_, some, others))


def _put_back(holder: Any, name: str, value: Any, made: _Made | None) -> None:
    inner = _inner(value)
    if made is not None and not _is_made_of(value, made):
        inner.__code__, inner.__defaults__, inner.__kwdefaults__ = made
    if _now(holder, name) is value:
        return
    if isinstance(holder, type) and any(vars(base).get(name) is value for base in holder.__mro__[1:]):
        delattr(holder, name)
    else:
        setattr(holder, name, value)


def _modes() -> tuple[int, int]:
    """Dispatch and function modes that stand on torch's stacks."""
    return torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()


def _restore_modes() -> list[str]:
    found = []
    while torch._C._len_torch_dispatch_stack() > _SEAL.modes[0]:
        torch._C._pop_torch_dispatch_stack(None)
        found.append("torch's dispatcher by a mode left on")
    while torch._C._len_torch_function_stack() > _SEAL.modes[1]:
        mode = torch._C._pop_torch_function_stack()
        # A default device is such a mode; settings.py sees to it.
        if type(mode) is not DeviceContext:
            found.append("torch's functions by a mode left on")
    return found


def _hooks() -> dict[str, Any]:
    """Functions that Python calls by itself."""
    handlers = {f"signal handler {number.name}": signal.getsignal(number) for number in _signals()}
    return {"sys.settrace": sys.gettrace(), "sys.setprofile": sys.getprofile(), **handlers}


@functools.cache
def _signals() -> tuple[signal.Signals, ...]:
    return tuple(sorted(set(signal.Signals) & signal.valid_signals()))


def _restore_hooks() -> list[str]:
    found = [name for name, value in _hooks().items() if value is not _SEAL.hooks.get(name) and _is_new(value)]
    for name in found:
        before = _SEAL.hooks.get(name)
        if name == "sys.settrace":
            sys.settrace(before)
        elif name == "sys.setprofile":
            sys.setprofile(before)
        else:
            signal.signal(signal.Signals[name.split()[-1]], before)
    return found


_listeners: deque[str] = deque()
"""One for each audit hook that was added since `_listen`: nobody can ask Python for them, nor take one out."""


_AUDIT = "Python's audit hooks by one more, which stays"


@functools.cache
def _listen() -> None:
    """Hear of audit hooks that are added: those are told of what this process opens and deletes, between calls too."""
    sys.addaudithook(_heard)


def _heard(event: str, _: Any) -> None:
    if event == "sys.addaudithook" and not _of_library(sys._getframe(1).f_code):
        _listeners.append(event)


_LIBRARIES = os.path.dirname(os.path.dirname(torch.__file__)) + os.sep
_OPEN, _COMPILE = open, compile


def _of_library(code: CodeType) -> bool:
    """Whether code is what the file of a package beside torch says: torch's compiler imports filelock, which adds a hook about
    forks from Python 3.12 on.
    """
    if not code.co_filename.startswith(_LIBRARIES):
        return False
    try:
        with _OPEN(code.co_filename, "rb") as file:
            todo = [_COMPILE(file.read(), code.co_filename, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return False
    while todo:
        one = todo.pop()
        if one == code:
            return True
        todo += [const for const in one.co_consts if isinstance(const, CodeType)]
    return False


_TOOLS = range(6)


def _tools() -> dict[int, str]:
    """Names of the tools that Python tells what it runs, by their numbers; from 3.12 on."""
    monitoring = getattr(sys, "monitoring", None)
    named = {number: monitoring.get_tool(number) for number in _TOOLS} if monitoring is not None else {}
    return {number: name for number, name in named.items() if name is not None}


def _restore_tools() -> list[str]:
    """Tools that Python tells what it runs, taken out again, and audit hooks, which stay and are told of once."""
    monitoring: Any = getattr(sys, "monitoring", None)
    audits, _SEAL.listening = len(_listeners) - _SEAL.listening, len(_listeners)
    new = _tools().keys() - _SEAL.tools.keys()
    for number in new:
        monitoring.set_events(number, 0)
        monitoring.free_tool_id(number)
    return [f"sys.monitoring's tool {number}" for number in sorted(new)] + [_AUDIT] * (audits > 0)


def _is_new(value: Any) -> bool:
    """Whether a hook is somebody's function; the defaults of the system are none."""
    return callable(value)


_HERE = ("/CPU", "/CUDA", "Autograd")


def _overrides() -> frozenset[str]:
    """Operators that Python code has an implementation registered for."""
    return frozenset(getattr(torch.library, "_impls", ()))


def _restore_overrides() -> list[str]:
    """Operators of torch's own overridden since, for the devices we run on; the libraries that hold them are taken out."""
    new = {key for key in _overrides() - _SEAL.overrides if key.startswith("aten/") and key.endswith(_HERE)}
    if new:
        for library in [item for item in gc.get_objects() if type(item) is torch.library.Library]:
            if new & set(getattr(library, "_op_impls", ())):
                library._destroy()
    return [f"torch.ops.{key.split('/')[0]}.{key.split('/')[1]}" for key in sorted(new)]
