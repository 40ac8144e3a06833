"""Named ranges: who hears them, what is written, what a crash leaves."""

import os
import subprocess
import sys
import threading

import pytest

from profkit import annotate, annotation
from profkit.annotation import read_declared


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch):
    monkeypatch.delenv(annotation.VARIABLE, raising=False)
    monkeypatch.setattr(annotation, "_listener", None)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "work.jsonl"
    annotation.listen(file=str(path))
    return path


class Domain:
    """Stands for NVTX's domain under a tool."""

    def __init__(self):
        self.said = []

    def get_event_attributes(self, message):
        return message

    def push_range(self, message):
        self.said.append(message)

    def pop_range(self):
        self.said.append("pop")


def test_without_a_listener_nothing_happens():
    with annotate("anything/at all", flops=-1) as one:
        assert one.name == "anything/at all"
        assert pytest.importorskip("torch")._C._is_multithreading_enabled()


def test_nested_ranges_and_their_work_add_up(file):
    for _ in range(3):
        with annotate("block"), annotate("attention", flops={"tensor_bf16": 5}, bytes=7):
            pass
    found = read_declared(file)
    assert found["block/attention"] == annotation.Declared(3, {"tensor_bf16": 15.0}, 21.0)
    assert found["block"] == annotation.Declared(3, None, None)


def test_a_decorator_keeps_name_and_result(file):
    @annotate("double", flops=1)
    def double(x: int) -> int:
        "Twice."
        return 2 * x

    assert (double(4), double.__name__, double.__doc__) == (8, "double", "Twice.")
    assert read_declared(file)["double"].passages == 1


def test_a_decorator_hears_of_a_listener_that_comes_later(tmp_path):
    @annotate("late")
    def work() -> None:
        return None

    work()
    annotation.listen(file=str(tmp_path / "w"))
    work()
    assert read_declared(tmp_path / "w")["late"].passages == 1


def test_an_exception_ends_the_range_and_does_not_count(file):
    with pytest.raises(ZeroDivisionError), annotate("outer"), annotate("bad", flops=1):
        raise ZeroDivisionError
    with annotate("next"):
        pass
    assert set(read_declared(file)) == {"next"}


def test_threads_have_stacks_of_their_own(file):
    barrier = threading.Barrier(4)

    def run(number: int) -> None:
        with annotate(f"t{number}"):
            barrier.wait()
            for _ in range(50):
                with annotate("in", flops=1):
                    pass

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = read_declared(file)
    assert {path: one.passages for path, one in found.items() if "/" in path} == {f"t{n}/in": 50 for n in range(4)}


def test_forked_children_write_under_ids_of_their_own(file):
    with annotate("a", flops=1):
        pass
    pid = os.fork()
    if pid == 0:
        with annotate("a", flops=1):
            pass
        os._exit(0)
    os.waitpid(pid, 0)
    assert read_declared(file)["a"].passages == 2


def test_a_crash_leaves_all_completed_ranges(tmp_path):
    path = tmp_path / "w.jsonl"
    code = (
        "import os, signal\nfrom profkit import annotate\n"
        "for i in range(5):\n    with annotate('step', flops=2): pass\n"
        "with annotate('last'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, annotation.VARIABLE: str(path)}, check=False)
    assert done.returncode == -9
    found = read_declared(path)
    assert (set(found), found["step"].passages, found["step"].flops) == ({"step"}, 5, {"": 10.0})


def test_a_cut_file_loses_its_last_line_alone(file):
    for _ in range(3):
        with annotate("a", flops=1, bytes=1):
            pass
    whole = file.read_bytes()
    for end in range(len(whole)):
        file.write_bytes(whole[:end])
        passages = read_declared(file)["a"].passages if read_declared(file) else 0
        assert passages <= whole[:end].count(b"\n") + 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"name": ""},
        {"name": "a", "flops": -1},
        {"name": "a", "bytes": float("nan")},
        {"name": "a", "flops": {"fp32": float("inf")}},
    ],
)
def test_what_cannot_be_is_refused_when_it_is_heard(file, wrong):
    name = wrong.pop("name")
    with pytest.raises(ValueError, match="annotate"), annotate(name, **wrong):
        pass


def test_a_tool_hears_names_alone_in_order(monkeypatch):
    domain = Domain()
    monkeypatch.setattr(annotation, "_attached", lambda: domain)
    annotation.listen()
    with annotate("a", flops=1), annotate("b"):
        pass
    assert domain.said == ["a", "b", "pop", "pop"]


def test_without_a_tool_nvtx_is_not_used():
    assert annotation._attached() is None
    assert annotation.listen() is None


def test_backward_runs_in_the_calling_thread_while_a_range_is_open(file):
    torch = pytest.importorskip("torch")
    enabled = torch._C._is_multithreading_enabled
    assert enabled()
    with annotate("outer"):
        with annotate("backward"):
            assert not enabled()
        assert not enabled()
    assert enabled()


def compiled(function, **options):
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, backend=backend, **options), graphs, torch.ones(4)


@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.xdist_group("dynamo")
@pytest.mark.slow
def test_a_range_in_a_compiled_function_changes_no_graph(tmp_path, heard):
    if heard:
        annotation.listen(file=str(tmp_path / "w"))

    def work(x):
        with annotate("inner", flops=1):
            y = x * 2
        return y + 1

    function, graphs, x = compiled(work, fullgraph=True)
    with annotate("outer", flops=7):
        assert function(x).tolist() == [3.0] * 4
    assert len(graphs) == 1
    # What was compiled is one piece: the range round the call alone is recorded.
    assert set(read_declared(tmp_path / "w")) == ({"outer"} if heard else set())


@pytest.mark.xdist_group("dynamo")
def test_a_decorated_function_compiles_whole(file):
    @annotate("decorated")
    def work(x):
        return x + 1

    function, graphs, x = compiled(work, fullgraph=True)
    assert function(x).tolist() == [2.0] * 4
    assert len(graphs) == 1


@pytest.mark.xdist_group("dynamo")
def test_a_range_made_before_costs_a_graph_break_and_no_error(file):
    made = annotate("made", flops=2)

    def work(x):
        with made:
            return x + 1

    function, _, x = compiled(work)
    assert function(x).tolist() == [2.0] * 4
    assert read_declared(file)["made"].passages == 1


@pytest.mark.slow
def test_the_first_range_of_a_process_may_be_in_a_compiled_function(tmp_path):
    pytest.importorskip("torch")
    code = (
        "import torch\nfrom profkit import annotate\n"
        "def work(x):\n    with annotate('a', flops=1):\n        return x + 1\n"
        "print(torch.compile(work, backend='eager', fullgraph=True)(torch.ones(2)).tolist())\n"
        "with annotate('after', flops=1): pass\n"
    )
    path = tmp_path / "w"
    env = {**os.environ, annotation.VARIABLE: str(path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr
    assert set(read_declared(path)) == {"after"}
