"""JUnit's XML, as CI systems read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree


@dataclass(frozen=True)
class Case:
    """One judged thing: `failure`, `skipped` (why), `seconds`, `says` for the log."""

    suite: str
    name: str
    seconds: float
    failure: str = ""
    skipped: str = ""
    says: str = ""


def document(name: str, cases: Sequence[Case]) -> bytes:
    """JUnit suite; times are the measured ones, not the duration of measuring."""
    counts = {"failures": sum(bool(one.failure) for one in cases), "skipped": sum(bool(one.skipped) for one in cases)}
    root = ElementTree.Element("testsuite", name=name, tests=str(len(cases)), errors="0")
    root.attrib |= {key: str(value) for key, value in counts.items()}
    for one in cases:
        case = ElementTree.SubElement(root, "testcase", classname=_legal(one.suite), name=_legal(one.name))
        if one.seconds == one.seconds:
            case.set("time", f"{one.seconds:.9f}")
        for tag, said in (("failure", one.failure), ("skipped", one.skipped)):
            if said:
                ElementTree.SubElement(case, tag, message=_legal(said))
        if one.says:
            ElementTree.SubElement(case, "system-out").text = _legal(one.says)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _legal(text: str) -> str:
    """Without the letters that XML has no way to write."""
    return "".join(letter for letter in text if letter in "\t\n" or " " <= letter < "\ufffe" or letter > "\uffff")
