"""What importing may ask of every format."""

import gzip

import pytest

from collectors import READERS, CollectError, format_of, formats, read
from collectors.counters import COUNTERS
from collectors.frame import TOOLS


@pytest.mark.parametrize("name", READERS)
def test_a_format_says_all_that_is_asked_of_it(name):
    found = format_of(name)
    assert found.name == name
    assert all(found.vendor in counter.recipes for counter in COUNTERS.values())
    assert name in TOOLS
    with pytest.raises(CollectError, match="no format"):
        format_of("frame")


def test_files_of_one_format_stand_alone_unless_they_say_otherwise(tmp_path):
    heads = {tmp_path / "a": "", tmp_path / "b": ""}
    for one in formats():
        if one.name != "trtexec":
            assert one.companions(heads) == {path: {} for path in heads}


def test_a_profile_takes_the_companions_that_are_named_as_it_is(tmp_path):
    layers, times, profile = '{"Layers": []}', '[{"latencyMs": 1}]', '[{"count": 3}]'
    heads = {"b.graph": layers, "a.profile": profile, "b.profile": profile, "a.timing": times, "a.graph": layers}
    heads = {tmp_path / f"{name}.json": head for name, head in heads.items()}
    assert format_of("trtexec").companions(heads) == {
        tmp_path / "a.profile.json": {"times": tmp_path / "a.timing.json", "layers": tmp_path / "a.graph.json"},
        tmp_path / "b.profile.json": {"layers": tmp_path / "b.graph.json"},
    }
    alone = {tmp_path / "b.graph.json": layers, tmp_path / "a.timing.json": times}
    assert format_of("trtexec").companions(alone) == {tmp_path / "b.graph.json": {"times": tmp_path / "a.timing.json"}}


@pytest.mark.parametrize(
    ("name", "head", "what", "fix"),
    [
        (
            "x.nvvp",
            '<?xml version="1.0"?>\n<session version="2" name="x.nvvp">',
            "settings and no launches",
            "nvprof -o",
        ),
        ("pmc_perf.csv", "Dispatch_ID,Kernel_Name,GPU_ID,TCC_HIT[0]\n1,k,0,5\n", "rocprof-compute", "rocprofv3 --pmc"),
        ("out.txt", "\n0. Top Stats\n0.1 Top Kernels\n", "rocprof-compute", "rocprofv3 --pmc"),
        ("p.hatchet", '[\n  {"children": [{"frame": {"name": "k"}}]}]', "Proton", "export_chrome_trace"),
        ("b.json", '{"meta": {"version": {"nvbench": {"major": 0}}}}', "nvbench", "ncu --csv"),
        ("b.md", "# Devices\n\n## [0] `RTX 2060`\n* SM Version: 750\n", "nvbench", "ncu --csv"),
        ("s.txt", "log\n+---+----+\n| Time (%) | Total Time (ns) |\n", "nsys's table with frames", "--format csv"),
        ("pmc_dispatch_info.csv", "Dispatch_ID,Kernel_Name,GPU_ID\n0,k,0\n", "rocprof-compute", "rocprofv3 --pmc"),
        (
            "results.json",
            '{ "traceEvents":[{}\n,{"args":{"BeginNs":"7"}}\n]}',
            "Chrome trace of rocprof",
            "results.csv",
        ),
        (
            "vllm.log",
            "(Worker_TP0 pid=9)   Name    Self CPU %      Self CPU\n",
            "a log with a table",
            "before each line",
        ),
        ("x.nsys-rep", "binary", "recording of nsys", "nsys export --type sqlite"),
        ("x.qdrep", "binary", "recording of nsys", "nsys export --type sqlite"),
        (
            "x.ncu-rep",
            "version https://git-lfs.github.com/spec/v1\noid sha256:92\n",
            "pointer of git LFS",
            "git lfs pull",
        ),
        ("long.csv", "x" * 200_000 + "\nabc\n", "not an export of Nsight", "--page raw"),
        ("nul.csv", "a\0b\nabc\n", "not an export of Nsight", "--page raw"),
        (
            "s.csv",
            'kernel_id,kernel_name,grid_size,device\n1,k,"(224, 1, 1)",0\n',
            "not an export of Nsight",
            "--page raw",
        ),
    ],
)
def test_what_is_not_read_is_named_with_what_to_export(tmp_path, name, head, what, fix):
    (tmp_path / name).write_text(head)
    with pytest.raises(CollectError, match=what) as caught:
        read(tmp_path / name)
    assert fix in caught.value.fix
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(CollectError, match="leads nowhere"):
        read(tmp_path / "a")


@pytest.mark.parametrize(
    ("data", "what", "fix"),
    [
        (gzip.compress(b"Time (%),Total Time (ns)\n", mtime=0), "not text: compressed", "unpack it"),
        (b"(\xb5/\xfd\x04\x00", "not text: compressed", "unpack it"),
        (b"PK\x03\x04\x14\x00", "an archive", "CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00\x00", "not text", "CSV"),
        (b'"ID";"Process ID";"Process Name";"Host Name";"Kernel Name"\r\n', "not an export of", "unchanged"),
    ],
)
def test_what_is_no_export_is_refused(tmp_path, data, what, fix):
    (tmp_path / "x.csv").write_bytes(data)
    with pytest.raises(CollectError, match=what) as caught:
        read(tmp_path / "x.csv")
    assert fix in caught.value.fix
