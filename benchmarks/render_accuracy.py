"""The tables of docs/accuracy.md from the outputs under docs/recorded/.

    python benchmarks/render_accuracy.py [--check]

A recording is a text file: lines "# key: value" that say how it came about (command, date, commit, machine, versions,
maybe a note), an empty line, then the output as the script printed it, without names of machines and users. In the page
it stands between `<!-- recorded: NAME -->` and `<!-- end -->`; Markdown tables as they are, other output indented.
`<!-- recorded: NAME /PATTERN/ -->` shows the lines in which the pattern is found, and links the whole. --check: write
nothing, exit 1 when the page differs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "accuracy.md"
HEAD = ("command", "date", "commit", "machine", "versions")
_BLOCK = re.compile(r"(<!-- recorded: ([\w-]+)(?: /([^\n]+?)/)? -->\n).*?(<!-- end -->)", re.S)


def recording(name: str) -> tuple[dict[str, str], str]:
    """How a recording came about, and the output. Raises ValueError where the head lacks a key."""
    head, _, body = (DOCS / "recorded" / f"{name}.txt").read_text("utf-8").partition("\n\n")
    facts = dict(line.removeprefix("# ").split(": ", 1) for line in head.splitlines())
    missing = [key for key in HEAD if not facts.get(key)]
    if missing:
        raise ValueError(f"docs/recorded/{name}.txt says no {', '.join(missing)}")
    return facts, body.rstrip("\n")


def rendered(page: str) -> str:
    """The page with every block as its recording has it. Raises ValueError where a pattern finds no line."""

    def block(found: re.Match[str]) -> str:
        facts, body = recording(found[2])
        shown = [line for line in body.splitlines() if found[3] is None or re.search(found[3], line)]
        if not shown:
            raise ValueError(f"docs/recorded/{found[2]}.txt has no line with {found[3]}")
        lines = []
        for at, line in enumerate(shown):
            table = line.startswith("|")
            if at and table != shown[at - 1].startswith("|") and shown[at - 1]:
                lines.append("")
            lines.append(line if table else f"    {line}".rstrip())
        told = [f"`{facts['command']}`", facts["date"], f"commit {facts['commit']}", facts["machine"]]
        told.append(f"[whole](recorded/{found[2]}.txt)" if found[3] else facts["versions"])
        return f"{found[1]}\n" + "\n".join([", ".join(told) + ".", "", *lines]) + f"\n\n{found[4]}"

    return _BLOCK.sub(block, page)


def main() -> int:
    page = PAGE.read_text("utf-8")
    made = rendered(page)
    if "--check" in sys.argv[1:]:
        return int(made != page)
    PAGE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
