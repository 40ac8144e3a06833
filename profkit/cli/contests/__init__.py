"""Verbs for contests: one-line summaries, and the file of each verb."""

from __future__ import annotations

VERBS = {
    "new": "Make a complete contest submission folder that runs.",
    "check": "List defects that get a contest submission rejected, with fixes.",
    "score": "Compute points and ranking of a season by the contest's rules.",
    "prompt": "Write prompt.txt from a reference, with evidence from a run if there is one.",
    "kernelbench": "Work with KernelBench: evaluate, baseline, analyze, ask models.",
}
FILES = {verb: "kernelbench" if verb == "kernelbench" else "gpucodeforces" for verb in VERBS}
