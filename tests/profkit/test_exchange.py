"""Tensors from process to process: what they are there, and whose pages."""

import math
import mmap

import pytest
import torch

from profkit.guest.tensors import exchange

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


@pytest.mark.parametrize("trusted", [True, False])
def test_what_is_read_is_what_was_written(tmp_path, trusted):
    base = torch.arange(24.0)
    tensors = [base.view(4, 6).t()[1:], base[3:5], torch.ones(()), torch.empty(0, 3), torch.ones(1).expand(5, 2)]
    tensors += [torch.ones(3, dtype=one) for one in (torch.bfloat16, torch.bool, torch.complex64, torch.float8_e5m2)]
    plain = {"a": (1, None, -math.inf), 3: [True, "ä", {}], "": ()}
    file, stream = written(tmp_path, {"tensors": tuple(tensors), "plain": plain})
    stream.close()
    read = exchange.read(file, CPU, trusted=trusted)
    assert read["plain"] == plain
    assert [*read["plain"]] == [*plain]
    assert type(read["tensors"]) is tuple
    for mine, before in zip(read["tensors"], tensors, strict=True):
        assert (mine.dtype, mine.shape, mine.stride()) == (before.dtype, before.shape, before.stride())
        assert torch.equal(mine.to(torch.cfloat), before.to(torch.cfloat))
    view, same, *_ = read["tensors"]
    view[2, 0] = 7.0  # Its memory is another's too.
    assert same[0] == 7.0


def test_a_file_that_ends_early_is_refused(tmp_path):
    file, stream = written(tmp_path, [torch.ones(4)])
    stream.close()
    file.write_bytes(file.read_bytes()[:30])
    with pytest.raises(Exception, match=r"(?i)archive|pickle|load"):
        exchange.read(file, CPU, trusted=False)
    assert not file.exists()


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
