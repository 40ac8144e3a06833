"""The verbs of the contests: one-line summaries, and the file each verb is in."""

from __future__ import annotations

VERBS = {
    "new": "A complete contest submission folder that already runs.",
    "check": "What gets a contest submission rejected, each with its fix.",
    "score": "Points and ranking of a season's folder, by the contest's rules.",
    "prompt": "Write prompt.txt from a reference, with profiling evidence where there is a run.",
    "kernelbench": "KernelBench's files: evaluate, baseline, analyze, ask models.",
}
FILES = {verb: "kernelbench" if verb == "kernelbench" else "gpucodeforces" for verb in VERBS}
