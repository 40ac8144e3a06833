"""The documentation: links lead somewhere, commands exist, generated pages are up to date."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from analyzers.metrics import METRICS
from analyzers.records import tables
from profkit.cli.group import VERBS, cli

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def names(pages):
    return [str(page.relative_to(ROOT)) for page in pages]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "#")):
            assert (page.parent / target.split("#")[0]).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_no_path_of_a_machine(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(?:root|home|work|Users|tmp)/", text)


def test_metrics_page_has_every_metric():
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", text, re.M) == list(METRICS)


@pytest.mark.parametrize("verb", [verb for verbs in VERBS.values() for verb in verbs])
def test_the_help_of_every_verb_has_an_example(verb):
    said = CliRunner().invoke(cli, [verb, "--help"]).output
    assert re.search(rf"^ +profkit {verb}( |$)", said, re.M), said


def test_images_are_small():
    for image in (ROOT / "docs").glob("*.png"):
        assert image.stat().st_size < 300_000, image


def commands(page: Path) -> list[list[str]]:
    """The indented lines of a page that call profkit, as argument lists; what is after -- is not ours."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        text = line.strip().removeprefix("$ ")
        if line.startswith("    ") and "profkit " in text and not text.startswith(("python", "next:", "collect:")):
            part = re.split(r"profkit (?=[a-z]+ )", text, maxsplit=1)
            if len(part) == 2 and (not part[0] or part[0].endswith(("; ", "&& "))):
                found.append(shlex.split(part[1], comments=True))
    return found


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_commands_exist(page):
    """Every verb and every option of a command line that is shown is one the program has."""
    from profkit.cli.group import cli

    runner = CliRunner()
    for words in commands(page):
        ours = words[: words.index("--")] if "--" in words else words
        verb = ours[:2] if ours[0] == "kernelbench" else ours[:1]
        done = runner.invoke(cli, [*verb, "--help"])
        assert done.exit_code == 0, words
        for option in (word for word in ours if word.startswith("-") and word != "-"):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", done.output), (words, option)


def test_both_readmes_show_the_same_commands_and_pictures():
    """The Chinese readme is the same truth: commands, output and links are those of the English one."""
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
    assert commands(ROOT / "README.md") == commands(ROOT / "README.zh-CN.md")
    others = {"README.md", "README.zh-CN.md"}
    assert set(LINK.findall(english)) - others == set(LINK.findall(chinese)) - others


def test_every_cause_of_a_wait_stands_in_the_account():
    """In the order in which they are asked for."""
    text = (ROOT / "docs/how-numbers-are-made.md").read_text("utf-8")
    table = text[text.index("| cause | when |") :].split("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.M) == list(tables("causes.toml"))


def test_every_place_that_contributing_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(
        re.findall(r"`((?:tests|profkit|collectors|analyzers|roofline|benchmarks|docs|examples|S1)/[\w./]*)`", text)
    )
    assert len(named) > 20
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_pages_are_held_short():
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + [*(ROOT / "docs").glob("*.md")]
    words = {page.name: len(page.read_text("utf-8").split()) for page in pages}
    assert sum(words.values()) <= 15_000
    limits = {"README.md": 1500, "CHANGELOG.md": 600, "accuracy.md": 2500, "how-numbers-are-made.md": 3500}
    assert {name: words[name] for name, most in limits.items() if words[name] > most} == {}
