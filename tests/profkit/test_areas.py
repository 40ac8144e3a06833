"""Tensors from process to process, in files and in memory that both see: what they are there, and whose pages."""

import math
import mmap
import socket
import subprocess
import sys

import pytest
import torch

from profkit.guest.tensors import exchange
from profkit.judge import remote
from profkit.launch.protocol import Job, Subject

CPU = torch.device("cpu")
CHILD = """
import sys, torch
from profkit.guest.tensors import exchange
device = torch.device("cuda")
memory = exchange.opened(bytes.fromhex(sys.argv[1]), int(sys.argv[2]), device)
print(int(memory.sum()))
memory.fill_(3)
torch.cuda.synchronize()
"""


def two(bytes_=1 << 20):
    """Both ends of one area."""
    memory = torch.zeros(bytes_, dtype=torch.uint8)
    return exchange.Area(memory), exchange.Area(memory), memory


VALUES = {
    "plain": torch.arange(12.0).view(3, 4),
    "transposed": torch.arange(12.0).view(3, 4).t(),
    "offset": torch.arange(100.0)[7:19],
    "strided": torch.arange(100)[3:60:4],
    "expanded": torch.tensor([1.0, 2.0]).expand(5, 2),
    "scalar": torch.tensor(7, dtype=torch.int8),
    "empty": torch.empty(0, 3),
    "flags": torch.tensor([True, False, True]),
    "half": torch.arange(5).to(torch.bfloat16),
    "complex": torch.tensor([1 + 2j]),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_tensor_comes_over_with_its_layout_and_alignment(name):
    value = VALUES[name]
    mine, theirs, memory = two()
    placed = mine.put({"x": [value, 3]})
    memory_used = memory.numel() - mine.left
    assert exchange.size_of([value], CPU) == memory_used
    (got, other) = theirs.take(placed)["x"]
    assert other == 3
    assert got.dtype == value.dtype
    assert got.stride() == value.stride() or not value.numel()
    assert torch.equal(got, value)
    assert got.storage_offset() % 64 == (
        0 if value.is_contiguous() and name != "offset" else value.storage_offset() % 64
    )


def test_what_is_read_is_a_copy_of_that_moment():
    mine, theirs, memory = two()
    placed = mine.put([torch.ones(100)])
    (got,) = theirs.take(placed)
    memory.fill_(0)
    assert got.sum() == 100


def test_every_nesting_comes_over():
    mine, theirs, _ = two()
    values = torch.max(torch.rand(3, 4), 0)
    (got,) = theirs.take(mine.put([values]))
    assert all(torch.equal(a, b) for a, b in zip(got, values, strict=True))


def test_what_was_read_makes_room_again_and_what_was_not_stays():
    mine, theirs, _ = two(2048)
    first, second = (mine.put([torch.full((100,), float(n))]) for n in (1, 2))
    assert [float(theirs.take(one)[0][0]) for one in (first, second)] == [1.0, 2.0]
    assert mine.left < 2048
    mine.rewind()
    assert mine.left == 2048


LIKE = torch.empty(4, device="meta")


@pytest.mark.parametrize("place", [(1 << 20, 0), (0, 1 << 40), (0, 64), (0, -1), (-512, 0), (7, 0), (True, 0)])
def test_what_lies_elsewhere_is_refused(place):
    _, theirs, _ = two()
    with pytest.raises(ValueError, match="lies nowhere"):
        theirs.take({"__lies_at__": [place], "value": [LIKE]})


@pytest.mark.parametrize(
    ("places", "value"),
    [([], LIKE), ([3], LIKE), (["ab"], LIKE), (None, LIKE), ([(0, 0)], LIKE.new_empty(1 << 40)), ([(0.0, 0)], LIKE)],
)
def test_what_is_no_place_is_refused(places, value):
    _, theirs, _ = two()
    with pytest.raises((TypeError, ValueError, StopIteration)):
        theirs.take({"__lies_at__": places, "value": value})


def test_what_is_no_plain_tensor_goes_by_the_host():
    odd = [torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.complex64).conj(), torch.eye(2).to_sparse()]
    for one in odd:
        assert exchange.size_of([torch.ones(2), one], CPU) == 0
    assert exchange.size_of([1, "x"], CPU) == 0


def test_room_is_shared_once_for_what_is_wanted_and_files_hold_what_finds_none(tmp_path, monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    job = Job("judge", "A", [], channels={"mine": ours.detach()}, exchange=str(tmp_path))
    (tmp_path / "mine").mkdir()
    one = remote.Remote(Subject("mine", "candidate", "x.py"), job, CPU, None)
    one.device, asked = torch.device("cuda"), []
    monkeypatch.setattr(exchange, "allocate", lambda bytes_, _: (torch.zeros(bytes_, dtype=torch.uint8), b""))
    monkeypatch.setattr(one, "ask", lambda question, way, **_: asked.append(way) or {"shared": way == "given"})
    for room in ({"given": 1 << 20}, {"given": 1 << 10, "answer": 1 << 10}):
        one.share(room)
    assert asked == ["given", "answer"]
    assert set(one._areas) == {"given"}
    given = one._areas["given"]
    one.hand_over([torch.ones(3)])
    used = given.size - given.left
    assert used > 0
    one.hand_over([torch.ones(1 << 20)])
    assert given.size - given.left == used
    theirs.close()
    one.channel.close()


def test_no_memory_beyond_its_part_of_the_device_is_shared(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1 << 30, 1 << 31))
    monkeypatch.setattr(exchange, "_driver", lambda: None)
    with pytest.raises(exchange.NotSharedError):
        exchange.allocate(300 << 20, torch.device("cuda"))


def test_a_file_says_where_a_tensor_lies(tmp_path):
    mine, theirs, memory = two()
    exchange.write(exchange.describe((torch.ones(50), 4, None)), tmp_path / "1.pt", mine)
    assert memory.view(torch.float32)[:50].sum() == 50
    told = exchange.read(tmp_path / "1.pt", CPU, trusted=False, area=theirs)
    got, number, nothing = exchange.restore(told, CPU)
    assert (got.sum(), number, nothing) == (50, 4, None)


def test_memory_is_given_back_when_the_process_that_has_it_open_is_gone():
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    freed = []
    exchange.leave(sleeper.pid, [torch.zeros(size, dtype=torch.uint8) for size in (1 << 10, 1 << 11)])
    assert exchange.give_back(freed.append) == 0
    sleeper.communicate(b"\n")
    assert exchange.give_back(freed.append) == 3 << 10
    assert [one.numel() for one in freed] == [1 << 10, 1 << 11]
    assert exchange.give_back(freed.append) == 0


@pytest.mark.gpu
def test_memory_that_is_freed_is_there_again():
    device = torch.device("cuda")
    before = torch.cuda.mem_get_info(device)[0]
    memory, _ = exchange.allocate(256 << 20, device)
    assert torch.cuda.mem_get_info(device)[0] < before - (128 << 20)
    exchange.free(memory)
    assert torch.cuda.mem_get_info(device)[0] > before - (128 << 20)


@pytest.mark.gpu
def test_another_process_sees_the_memory_of_this_one():
    device = torch.device("cuda")
    torch.cuda.mem_get_info(device)
    memory, handle = exchange.allocate(4096, device)
    memory.fill_(2)
    torch.cuda.synchronize()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, handle.hex(), "4096"], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["8192"]
    assert int(memory[:4096].sum()) == 3 * 4096


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
