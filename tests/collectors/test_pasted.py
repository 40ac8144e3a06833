"""Exports as people paste them: colours, quotes, times of a build's log, text of two bytes a letter, in every format."""

from __future__ import annotations

import random
import re

import pytest
from test_followed import PARTS

from collectors import CollectError, pasted, read

STAMP = "2026-11-23T20:00:00.1234567Z "


def each(dress):
    return lambda text: "".join(dress.format(line) + "\n" for line in text.splitlines())


DRESSES = {
    "quoted": each("> {}"),
    "quoted close": each(">{}"),
    "quoted twice": each("> > {}"),
    "a mail": lambda text: "On Monday somebody wrote:\n\n" + each("> {}")(text) + "\nThanks!\n",
    "colours": lambda text: "\n".join(f"\x1b[1;32m{line}\x1b[0m" if line else line for line in text.split("\n")),
    "what grep marks": lambda text: re.sub(r"(?<=[a-z])(?=\d)", "\x1b[01;31m\x1b[K", text),
    "a build": each(STAMP + "{}"),
    "a quoted build in colours": lambda text: each("> " + STAMP + "\x1b[36m{}\x1b[0m")(text),
    "a file of Windows": lambda text: each("> {}")(text).replace("\n", "\r\n"),
}
WIDE = ("utf-16-le", "utf-16-be", "utf-16")


def as_read(path, content):
    path.write_bytes(content)
    try:
        return read(path)
    except CollectError as error:
        return str(error) if str(path) in str(error) else error


def same(found, whole):
    if any(isinstance(one, (str, CollectError)) for one in (whole, found)):
        return found == whole
    return found.equals(whole) and found.attrs["doubts"] == whole.attrs["doubts"]


@pytest.mark.parametrize("dress", [*DRESSES, *WIDE])
@pytest.mark.parametrize("name", [*PARTS])
def test_what_stands_about_the_lines_changes_nothing(tmp_path, name, dress):
    whole = as_read(tmp_path / "x", PARTS[name].encode())
    content = PARTS[name].encode(dress) if dress in WIDE else DRESSES[dress](PARTS[name]).encode()
    found = as_read(tmp_path / "x", content)
    # Tables for programs, and JSON in one line, are refused where words stand round them.
    may_refuse = name.startswith(("kineto", "rocprof", "cupti", "trtexec layers", "trtexec times"))
    assert (may_refuse and isinstance(found, str)) or same(found, whole)


@pytest.mark.parametrize("name", ["ncu raw", "nsys trace", "nsys sum", "nvprof csv", "trtexec log", "rocprof 3"])
def test_a_pasted_export_that_is_cut_is_refused_or_what_its_own_cut_gives(tmp_path, name):
    text, chance = PARTS[name], random.Random(name)
    for _ in range(12):
        cut = text[: chance.randrange(1, len(text))]
        dressed = "\n".join(f"> {line}" for line in cut.split("\n"))
        found, plain = (as_read(tmp_path / "x", one.encode()) for one in (dressed, cut))
        assert isinstance(found, str) or same(found, plain)


def test_a_line_that_is_not_quoted_among_quoted_ones_is_not_lost(tmp_path):
    lines = PARTS["nsys trace"].splitlines()
    path = tmp_path / "x"
    path.write_text("".join(f"> {line}\n" if at != 2 else f"{line}\n" for at, line in enumerate(lines)))
    assert len(read(path)) == len(lines) - 1


@pytest.mark.parametrize(
    "text",
    ["", "\n", "a > b\nc > d\n", "> one\ntwo\nthree\n", "2026-11-23T20:00:00Z x\nno time\n", "\x1b[2J\n"],
)
def test_what_is_not_pasted_is_left_as_it_is(text):
    assert pasted.plain(text) == text


def test_many_layers_of_quotes_end(tmp_path):
    layers = "> 2026-11-23T20:00:00Z " * 500
    assert isinstance(as_read(tmp_path / "x", (layers + "x\n").encode() * 9), str)
