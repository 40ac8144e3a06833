import pytest

from collectors.ncu.log import diagnose, profiled, reason

MESSAGES = {
    "permission": "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0.",
    "busy": "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
    "is concurrently collecting profiling data.",
    "sandbox": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded",
    "lock": "==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock",
    "launch": "==ERROR== LaunchFailed",
    "memory": "==ERROR== Failed to allocate 8589934592 bytes of memory for saving device state.",
    "backup": "==WARNING== Backing up device memory in system memory. Kernel replay might be slow. Consider using "
    '"--replay-mode application" to avoid memory save-and-restore.',
    "no kernels": "==WARNING== No kernels were profiled.",
    "target": "==ERROR== The application returned an error code (11).",
    "metrics": "==WARNING== Unable to access the following 2 metrics: a__b.sum, c__d.sum.",
    "metric": "==ERROR== Failed to find metric sm__throughput",
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_known_messages_have_a_kind_and_a_fix(kind):
    (found,) = diagnose(f"noise\n{MESSAGES[kind]}\nmore noise\n{MESSAGES[kind]}")
    assert found.kind == kind
    assert found.fix
    assert found.message in MESSAGES[kind]


def test_unknown_tagged_lines_are_kept_and_prof_lines_are_not():
    found = diagnose("==PROF== Connected to process 7 (x)\n==ERROR== Something new.\n==WARNING== Careful.")
    assert [(one.kind, one.message, one.level) for one in found] == [
        ("error", "Something new.", "error"),
        ("warning", "Careful.", "warning"),
    ]


@pytest.mark.parametrize(
    "line", ["Out of memory", "OutOfMemory: tried to allocate 2 GB", "Failed to allocate memory", "error: LaunchFailed"]
)
def test_what_the_program_says_itself_is_no_message_of_ncu(line):
    assert diagnose(f"==PROF== Connected to process 7 (x)\n{line}\n") == []
    assert len(diagnose(f"{line}\nloss 0.5==ERROR== {line}\n")) == 1


CLOCKS = "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, ..."


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        (f"{MESSAGES['target']}\n{MESSAGES['no kernels']}\n{MESSAGES['permission']}", "permission"),
        # The export breaks off: nothing later says why.
        (f"==PROF== Profiling 1: 0%\n{MESSAGES['backup']}\n", "backup"),
        (CLOCKS, None),
    ],
)
def test_the_best_reason_is_the_one_to_fix_first(log, kind):
    best = reason(diagnose(log))
    assert (best.kind if best is not None else None) == kind


def test_profiled_counts_launches_once():
    line = '==PROF== Profiling "k" - {}: 0%....50%....100% - 1 pass'
    assert profiled("\n".join([line.format(0), line.format(1), line.format(1)])) == 2
    assert profiled("") == 0


@pytest.mark.parametrize("kind", ["launch", "memory", "backup"])
def test_what_replay_needs_names_the_ways_round_it(kind):
    best = reason(diagnose(MESSAGES[kind]))
    assert best is not None
    assert all(way in best.fix for way in ("--replay-mode application", "fewer metrics", "input smaller"))
