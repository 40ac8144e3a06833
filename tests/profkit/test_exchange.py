"""Tensors from process to process: whose pages they are."""

from __future__ import annotations

import mmap

import torch

from profkit.runner import exchange

CPU = torch.device("cpu")


def written(tmp_path, value):
    file = tmp_path / "1.pt"
    exchange.write(value, file)
    return file, file.open("r+b")


def changed_by(stream, was, to):
    """Write into the file that somebody holds open, as its writer could."""
    with mmap.mmap(stream.fileno(), 0) as memory:
        at = memory.find(was)
        assert at >= 0
        memory[at : at + len(to)] = to


def test_what_the_judge_writes_is_mapped_and_what_is_written_into_it_stays_here(tmp_path):
    file, stream = written(tmp_path, [torch.full((1 << 16,), 2.0)])
    with stream:
        (mine,) = exchange.read(file, CPU, trusted=True)
        assert not file.exists()
        with open("/proc/self/maps") as maps:
            start = [line for line in maps if str(file) in line]
        assert start
        mine[0] = 5.0
        assert stream.read().count(torch.tensor([5.0, 2.0]).numpy().tobytes()) == 0
    assert mine[:2].tolist() == [5.0, 2.0]


def test_what_a_candidate_writes_is_a_copy_before_anything_looks_at_it(tmp_path):
    file, stream = written(tmp_path, [torch.full((1 << 16,), 2.0)])
    with stream:
        (mine,) = exchange.read(file, CPU, trusted=False)
        changed_by(stream, torch.tensor([2.0, 2.0]).numpy().tobytes(), torch.tensor([7.0]).numpy().tobytes())
    assert mine.unique().tolist() == [2.0]
