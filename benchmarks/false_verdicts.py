"""How often is "faster" or "slower" said of two equal kernels on a drifting machine?

    python benchmarks/false_verdicts.py [timings.csv]     # needs no GPU

An A/A test: both sides draw from the same samples (log-normal noise of 0.5 % with 2 % outliers, or the
kept samples of one implementation of a real timings.csv), and the clock drifts by 2 % over the
measurement. Interleaved: rounds of three samples a side in random order, as profkit takes them.
Sequential: all of A, then all of B, as most scripts do, judged on the very same numbers.
Printed: share of false verdicts at the 1 % threshold (wanted: at most 5 %), share of intervals that exclude
"equal", and the bias of the ratio.
"""

from __future__ import annotations

import csv
import sys

import numpy as np

from analyzers.verdicts.statistics import ratio

TRIES, ROUNDS, PER_ROUND, DRIFT = 400, 34, 3, 0.02


def noise(rng: np.random.Generator, count: int, real: np.ndarray | None) -> np.ndarray:
    if real is not None:
        return rng.choice(real / np.median(real), count)
    values = np.exp(rng.normal(0, 0.005, count))
    return values * np.where(rng.random(count) < 0.02, 1.05, 1.0)


def one(rng: np.random.Generator, real: np.ndarray | None, interleaved: bool) -> tuple[str, bool, float]:
    count = 2 * ROUNDS * PER_ROUND
    values = noise(rng, count, real) * (1 + DRIFT * np.arange(count) / count)
    if interleaved:
        sides = values.reshape(ROUNDS, 2, PER_ROUND)
        first = rng.random(ROUNDS) < 0.5
        a = np.where(first[:, None], sides[:, 0], sides[:, 1]).ravel()
        b = np.where(first[:, None], sides[:, 1], sides[:, 0]).ravel()
    else:
        a, b = values[: count // 2], values[count // 2 :]
    rounds = np.repeat(np.arange(ROUNDS), PER_ROUND)
    found = ratio(a, b, rounds, rounds)
    return found.verdict, not found.low <= 1 <= found.high, found.value - 1


def main() -> None:
    real = None
    if len(sys.argv) > 1:
        with open(sys.argv[1], encoding="utf-8") as stream:
            rows = [
                r
                for r in csv.DictReader(stream)
                if r["impl"] == "reference" and r["method"] == "event" and r["kept"] == "1"
            ]
        real = np.array([float(row["seconds"]) for row in rows])
    print(
        f"A/A, {DRIFT:.0%} drift, {ROUNDS} rounds of {PER_ROUND}, {TRIES} tries, samples: {sys.argv[1] if real is not None else 'simulated'}"
    )
    print(f"{'scheme':14}{'false at 1 %':>14}{'excludes equal':>16}{'bias':>10}")
    for scheme in ("interleaved", "sequential"):
        rng = np.random.default_rng(7)
        results = [one(rng, real, scheme == "interleaved") for _ in range(TRIES)]
        false = np.mean([verdict in ("faster", "slower") for verdict, _, _ in results])
        apart, bias = np.mean([r[1] for r in results]), np.mean([r[2] for r in results])
        print(f"{scheme:14}{false:14.1%}{apart:16.1%}{bias:10.2%}")


if __name__ == "__main__":
    main()
