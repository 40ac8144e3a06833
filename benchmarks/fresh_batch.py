"""What a batch costs that is drawn into fresh memory each step, in the drawing and round it. No GPU needed.

    python benchmarks/fresh_batch.py [--images 32,64,256] [--times 12]

One thread draws images of 3 x 224 x 224 in FP32, copies them out as a transfer would, runs 600 short operators and frees them:
drawn into fresh memory, into memory that is kept, and not drawn at all. CPU seconds of that thread, medians, and pages that were
faulted in.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise

WAYS = ("fresh", "kept", "ready")
PARTS = ("draw", "copy out", "operators", "free")


def turn(way: str, kept: object) -> Iterator[float]:
    """The moments [s] between the parts of one step of a thread, after each of them."""
    import torch

    assert isinstance(kept, torch.Tensor)
    staged = torch.empty_like(kept).fill_(0.0)
    small = torch.ones(64, 8)
    yield time.thread_time()
    batch = torch.randn(kept.shape) if way == "fresh" else kept.normal_() if way == "kept" else kept
    yield time.thread_time()
    staged.copy_(batch)
    yield time.thread_time()
    for _ in range(600):
        small = small * 1.0001
    yield time.thread_time()
    del batch
    yield time.thread_time()


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", default="32,64,256")
    parser.add_argument("--times", type=int, default=12)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for images in map(int, asked.images.split(",")):
        kept = torch.randn(images, 3, 224, 224)
        print(f"{images} images, {kept.nbytes / 1e6:.3g} MB; CPU ms of {', '.join(PARTS)}; pages of the drawing")
        rows: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        for _ in range(asked.times):
            for way in WAYS:
                moments, pages = [], []
                for moment in turn(way, kept):
                    moments.append(moment)
                    pages.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
                took = [1e3 * (b - a) for a, b in pairwise(moments)]
                rows[way].append([*took, pages[1] - pages[0]])
        for way, found in rows.items():
            *middle, faults = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"  {way}: {', '.join(f'{one:.3g}' for one in middle)}; {faults:.0f}")


if __name__ == "__main__":
    main()
