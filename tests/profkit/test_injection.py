"""Names, reasons and output that try to command a terminal, a browser or a reader, through everything that is written."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from ptys import on_a_terminal
from synthetic_runs import make_run

from collectors.caveat import Caveat
from collectors.frame import build, host_of, set_host
from profkit.campaign.campaign import Count
from profkit.campaign.stages import Answer, WorkItem
from profkit.cli.group import invoke
from profkit.report import derived
from profkit.report.derived import write
from profkit.report.dialects import DIALECTS
from profkit.report.layout import without_markup, words
from profkit.report.writers import markdown, notebook, terminal
from profkit.rundir import harmless
from profkit.rundir.manifest import Command, Impl
from profkit.study.files import _harmless as shown_frame
from profkit.study.study import open_study

NASTY = {
    "tag": "<script>alert(1)</script>",
    "image": '<img src=x onerror="alert(1)">',
    "link": "](javascript:alert(1))[x](https://evil.example/)",
    "picture": "![x](https://evil.example/p.png)",
    "address": "www.evil.example",
    "hidden": "\U000e0041\U000e0042",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "colour": "\x1b[31mred\x9b0m",
    "bidi": "\u202egnp.exe\u2066",
    "lines": "a\n# Verdict: 99x faster\r\nb",
    "ticks": "a`</code><script>alert(1)</script>`b",
    "pipes": "a | 99x | b",
    "close": "</script><script>alert(1)</script>",
    "calls": "@someone and @some-org/team",
    "issues": "#123, GH-45 or some/where#6",
    "mail": "me@evil.example",
    "half": "lone ` @someone",
    "escaped": "\\` @someone \\`",
    "cells": "a ` b \\| @someone ` c",
    "erased": "\x1b[2J\x1b[8mhidden\x1b[3A",
    "log": "##[error]99x and ##vso[task.complete]",
    "command": "::error title=a::99x",
}
OPENINGS = (
    "# Verdict: 99x faster",
    "``` a fence that swallows the rest",
    "> quoted",
    "[T1]: javascript:alert(1)",
    "- an item",
    "1. a list",
    "| a | table |",
    "=====",
    "  ~~~",
    "::add-mask::faster",
)
"""What a paragraph, or an item of a list, must not begin with: a name of an exception may be anything."""
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
COLOURS = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(scope="module", params=["sample", "import"])
def run(request, tmp_path_factory):
    """A run with hostile words in the place of every name that is not ours."""
    folder = tmp_path_factory.mktemp("run") / "T1"
    return {"sample": measured, "import": imported}[request.param](folder)


def measured(folder):
    made = make_run(folder, {"reference": 2e-3, **{f"fast{word}": 1e-3 for word in NASTY.values()}})
    manifest = made.run.manifest
    for word in NASTY.values():
        tail = f"first\n{word}\nlast"
        manifest.impls.append(Impl(f"bad{word}", "candidate", f"{word}.py", "", "crash", f"it {word} fell", tail))
        manifest.caveats.append(Caveat(f"a caveat {word}", word, f"do {word}"))
        manifest.versions[word] = word
        manifest.commands.append(Command("measure", ["python", word], note=word))
    for at, word in enumerate(OPENINGS):
        manifest.impls.append(Impl(f"begins{at}", "candidate", "a.py", "", "crash", word))
        manifest.caveats.append(Caveat(word))
    manifest.device["name"] = f"Test GPU {''.join(NASTY.values())}"
    made.run.save()
    return folder


def imported(folder):
    """Kernels of hostile names in hostile ranges."""
    file = folder.parent / "kernels.csv"
    with file.open("w", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Name"])
        share = 100 / len(NASTY)
        rows.writerows([share, 1000 + at, 1, 1000 + at, f"k{word}"] for at, word in enumerate(NASTY.values()))
    assert invoke(["import", str(file), "-o", str(folder), "--quiet"]) == 0
    return folder


def said(folder):
    """Everything that is written of a run, by what it is."""
    study = open_study(folder)
    files = write(study)
    texts = {"terminal": terminal.summary(study) + terminal.next_steps(study, []), "report.md": markdown.report(study)}
    texts |= {file.name: file.read_text() for file in files if file.suffix in (".md", ".csv", ".json")}
    texts["metrics"] = derived.metrics(study)
    texts["notebook"] = notebook.html(study)
    return study, texts


def outside_code(text):
    """A Markdown document without its code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return re.sub(r"\\[\\`]|(?<!`)(`+)(?!`)(?:.*?[^`])?\1(?!`)", lambda found: "" if found[1] else found[0], text)


class Page(HTMLParser):
    """Scripts that are not the page's own, handlers, and links that run something."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.script = False

    def handle_starttag(self, tag, attrs):
        self.script = tag == "script"
        self.bad += [
            f"{name}={value}"
            for name, value in attrs
            # A data attribute is a name that the page's script compares, never a place to go.
            if name.startswith("on") or ("javascript:" in (value or "") and not name.startswith("data-"))
        ]

    def handle_endtag(self, tag):
        self.script = False

    def handle_data(self, data):
        if self.script and data.strip().startswith("alert(1)"):
            self.bad.append(data)


class Rendered(HTMLParser):
    """The texts of a rendered document outside code, where a host looks for names and numbers; where links go."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.places: list[str] = []
        self.code = 0
        self.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(document))

    def handle_starttag(self, tag, attrs):
        self.code += tag in ("code", "pre")
        self.places += [value for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag):
        self.code -= tag in ("code", "pre")

    def handle_data(self, data):
        if not self.code:
            self.texts.append(data)


CALL = re.compile(r"@[\w.]|#\d|\bGH-\d", re.I)


def check_rendered(name, document):
    """Nobody is called, no issue hears of it, no link leads elsewhere."""
    page = Rendered(document)
    assert [text for text in page.texts if CALL.search(text)] == [], name
    assert [place for place in page.places if not re.fullmatch(r"[\w.-]+", place)] == [], name


PICTURE = re.compile(r'^  <img alt="([^"<>]*)" src="[\w-]+\.png" width="800">$', re.M)
"""The one tag that is ours: a picture beside the document, whose words are escaped."""


def check(name, text, *, form="markdown"):
    assert len(PICTURE.findall(text)) == (name == "pr")
    assert not any(re.search(r"\]\(", words) for words in PICTURE.findall(text))
    text = PICTURE.sub("", text)
    bare = COLOURS.sub("", text) if name == "terminal" else text
    assert not UNSEEN.search(bare), (name, UNSEEN.search(bare))
    assert not re.search(r"^\s*::\w|##\w*\[", bare, re.M), name  # what a CI system obeys
    if form == "markdown":
        check_rendered(name, text)
        plain = outside_code(text)
        assert not re.search(r"<(?:script|img|/script|/code)", plain), name
        assert not re.search(r"\]\((?:javascript|https?):", plain), name
        assert not re.search(r"\b(?:(?:https?|ftp)://|www\.)", plain), name
        for word in OPENINGS:
            assert not re.search(rf"^(?:- )?{re.escape(word.strip())}", plain, re.M), (name, word)
    if form == "html":
        page = Page()
        page.feed(text)
        assert page.bad == []
    shown = outside_code(bare) if form == "markdown" else bare
    assert not re.search(r"^\s*(?:# *)?Verdict: 99x faster", shown, re.M), name


def test_everything_written_is_harmless(run):
    study, texts = said(run)
    for name, text in texts.items():
        check(name, text, form="html" if name == "notebook" else "markdown" if name.endswith(".md") else "data")
    assert json.loads(texts["metrics"])["impls"]
    rows = list(csv.reader(io.StringIO(texts["kernels.csv"])))
    assert len({len(row) for row in rows}) == 1
    assert len(study.verdicts) + len(rows) - 1 >= len(NASTY)


@pytest.mark.parametrize("name", [n if n == "pr" else pytest.param(n, marks=pytest.mark.slow) for n in DIALECTS])
@pytest.mark.parametrize("lang", ["en", pytest.param("zh", marks=pytest.mark.slow)])
def test_every_dialect_is_harmless(run, name, lang, tmp_path, capsys):
    """By the command, as a reader gets it; a dialect that refuses such a run must do so harmlessly."""
    dialect, file = DIALECTS[name], tmp_path / "report.txt"
    code = invoke(["report", str(run), "--for", name, "--lang", lang, "-o", str(file)])
    told = capsys.readouterr()
    check("stderr", told.err + told.out, form="data")
    assert (code, file.exists()) in ((0, True), (2, False))
    if file.exists():
        check(name, file.read_text(), form="markdown" if dialect.markdown else "html" if name == "html" else "data")


def test_a_comment_below_a_pull_request_is_harmless(tmp_path, capsys):
    measured(tmp_path / "runs/T1")
    invoke(["gate", str(tmp_path / "runs"), str(tmp_path / "runs"), "-o", str(tmp_path / "out")])
    text = (tmp_path / "out/comment.md").read_text()
    check_rendered("comment", text)
    ours = r"<!-- profkit -->|</?details>|<summary>\d+ caveats</summary>|</?sub>"
    assert not re.search(r"<[a-z/!]", outside_code(re.sub(ours, "", text)), re.I)
    assert text.count("@&#8203;someone") >= 2
    assert not UNSEEN.search(text + capsys.readouterr().out)


VERBS = """
import json, sys
from profkit.cli.group import invoke
for words in json.loads(sys.argv[1]):
    print("$", *map(ascii, words), "->", invoke(words))
"""
SEQUENCE = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*[@-~]|.)?|[\x80-\x9f]", re.S)
OURS = re.compile("\x1b\\[(?:[0-4]|[39][0-7])m|\r?\x1b\\[(?:2K|1A|\\?25[lh])")
"""Colours, and how a line is drawn again."""


@pytest.mark.parametrize("wish", ["colour", "plain"])
@pytest.mark.slow
def test_a_terminal_is_told_nothing_by_others(wish, tmp_path):
    """A recording of the verbs that show names: letters, line ends and our colours, and every name as its code."""
    folder, samples = measured(tmp_path / "runs/T1"), tmp_path / "samples"
    for number, word in enumerate(NASTY.values()):
        sample = samples / f"{number}{word.replace('/', '_')}"
        sample.mkdir(parents=True)
        (sample / "run_code.py").write_text("nothing")
        (sample / "readme.md").write_text(f"# {word}\n\ncontestant: x{word}\n")
    other = imported(tmp_path / "runs/T2")
    verbs = [
        ["report", str(folder)],
        ["explain", str(folder)],
        ["explain", str(other)],
        ["compare", str(folder), str(folder)],
        ["list", str(samples), "--runs", str(folder.parent)],
        ["list", str(samples), "--runs", str(folder.parent), "--json"],
        ["history", "--runs", str(folder.parent)],
        ["check", str(samples)],
        ["score", str(samples), "--runs", str(folder.parent)],
        ["roofline", str(other), "-o", str(tmp_path / "r.png")],
        ["import", str(tmp_path / f"none{NASTY['clipboard']}{NASTY['bidi']}.csv")],
        ["profile", NASTY["erased"] + NASTY["clipboard"]],
    ]
    wishes = {"NO_COLOR": "1"} if wish == "plain" else {}
    said = on_a_terminal(VERBS, width=200, words=[json.dumps(verbs)], whole=True, **wishes).decode()
    allowed = OURS if wish == "colour" else re.compile("$.")
    assert sorted({one for one in SEQUENCE.findall(said) if not allowed.fullmatch(one)}) == []
    assert not UNSEEN.search(OURS.sub("", said).replace("\r\n", "\n"))
    assert "-> 70" not in said
    assert "Usage:" not in said
    assert "\x1b[31mred" not in said
    assert not re.search(r"^(?:# )?Verdict", said, re.M)
    for shown in (r"\x1b]52;c;", r"\u202e", r"\x1b[2J", r"\x1b[31mred\x9b0m", "<script>", r"a\n# Verdict"):
        assert shown in said, shown
    assert bool(OURS.search(said)) == (wish == "colour")


def test_an_error_that_quotes_a_file_is_harmless(tmp_path, capsys):
    path = tmp_path / "a\x1b]52;c;ZXZpbA==\x07\u202e.csv"
    path.write_text("nothing\n")
    assert invoke(["import", str(path), "-o", str(tmp_path / "run")]) == 2
    told = capsys.readouterr()
    assert not UNSEEN.search(told.err)
    assert r"\x1b]52" in told.err


def test_what_is_harmless_stays_as_it_is():
    text = "void gemm<float, 4>(T *)\tå 中文 → x"
    assert harmless.lines(text) == text
    assert harmless.line("a\tb\n\x1b\u202e") == r"a\tb\n\x1b\u202e"
    assert harmless.line("\U000e0041") == r"\U000e0041", "a letter that only machines read"
    for same in ("plain", "*em* x", "`code` x", "-1.5 is less", "#1 best", "1.5x as fast"):
        assert words(same) == same
    assert [words(one) for one in OPENINGS[:7]] == [
        r"\# Verdict: 99x faster",
        r"\``` a fence that swallows the rest",
        r"\> quoted",
        r"\[T1]: javascript:alert(1)",
        r"\- an item",
        r"1\. a list",
        r"\| a | table |",
    ]
    document = "# a\n\n| x < 1 | `f<int>` |\n\n```\n<script>\n```\n![roofline](roofline.png) 2 <3"
    assert without_markup(document) == document
    assert (
        without_markup("a <b> [x](//evil.example) [y](javascript:1)")
        == r"a &lt;b> [x]\(//evil.example) [y]\(javascript:1)"
    )


def test_the_lines_of_a_campaign_are_harmless():
    item = WorkItem("key", "a\x1b]52;c;x\x07", "a", "a")
    assert not UNSEEN.search(Count(1, 1).line(item, Answer("r", line="b\x1b[2J")))


def test_a_range_that_names_a_hole_is_shown_harmless():
    """Its name comes by what the host did, which is no column of the launches."""
    frame = build({"kernel": ["k"], "start": [0.0], "time": [1.0]}, tool="nsys")
    calls = {"call": ["cudaLaunchKernel", NASTY["colour"]], "start": 0.0, "time": 1.0, "thread": 1, "launch": -1}
    set_host(frame, pd.DataFrame({**calls, "kind": ["call", "range"]}))
    told = host_of(shown_frame(frame))["call"].tolist()
    assert told == ["cudaLaunchKernel", harmless.line(NASTY["colour"])]
    assert "\x1b" not in told[1]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("::error::x", ": :error::x"),
        ("  ::add-mask::x", "  : :add-mask::x"),
        ("first\n::stop-commands::x", "first\n: :stop-commands::x"),
        ("a ##[error]x", "a # #[error]x"),
        ("##vso[task.complete]", "# #vso[task.complete]"),
        ("at::native::softmax<float>(int)", "at::native::softmax<float>(int)"),
        ("## a heading [1]", "## a heading [1]"),
    ],
)
def test_what_a_ci_system_obeys_has_a_space_in_it(word, shown):
    assert harmless.lines(word) == shown
    assert harmless.lines(shown) == shown
    assert harmless.line(word) == (shown if "\n" not in word else "first\\n::stop-commands::x")
