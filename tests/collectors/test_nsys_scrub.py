"""A sqlite export without its machine: the same launches, and nothing of the environment in its bytes."""

import sqlite3

import pandas as pd
import pytest
from nsys_exports import Base, Nvtx, Op, sqlite_export

from collectors import CollectError, read
from collectors.nsys.scrub import scrub

SECRETS = ("TOKEN=hush", "box-17.example.org", "/home/somebody/train.py", "daemon-of-theirs", "somebody")


@pytest.fixture
def export(tmp_path):
    ops = [Op(1000, 50, "gemm<int>(float *)", call=900), Op(2000, 10, "", kind="memcpy", call=1900)]
    path = sqlite_export(
        tmp_path / "r.sqlite",
        ops,
        [Nvtx(0, 5000, "step"), Nvtx(800, 1500, "inner", registered=True)],
        Base(warnings=["CUDA buffers of /home/somebody/train.py were lost"], devices=["NVIDIA H200"]),
    )
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
    base.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
    base.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
    base.execute("CREATE TABLE PROCESSES (name TEXT)")
    base.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', ?)", (SECRETS[0],))
    base.execute("INSERT INTO META_DATA_CAPTURE VALUES ('COMMAND', ?)", (SECRETS[2],))
    rows = [("EXPORT_HOST", SECRETS[1]), ("EXPORT_USER", SECRETS[4]), ("EXPORT_PRODUCT_VERSION", "2025.3")]
    base.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", rows)
    base.execute("INSERT INTO PROCESSES VALUES (?)", (SECRETS[3],))
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(900, SECRETS[3]), (901, SECRETS[0])])
    base.commit()
    # What is deleted stays in the file's free pages.
    base.execute("DELETE FROM PROCESSES")
    base.commit()
    base.close()
    return path


def test_the_launches_stay_and_the_machine_goes(export):
    before = read(export)
    assert all(word.encode() in export.read_bytes() for word in SECRETS)
    scrub(export)
    after = read(export)
    pd.testing.assert_frame_equal(before, after)
    assert before.attrs["devices"] == after.attrs["devices"]
    assert len(before.attrs["caveats"]) == len(after.attrs["caveats"])
    data = export.read_bytes()
    assert not [word for word in SECRETS if word.encode() in data]
    assert b"2025.3" in data
    assert not list(export.parent.glob("*.part"))


def test_a_copy_leaves_the_original_alone(export, tmp_path):
    whole = export.read_bytes()
    scrub(export, tmp_path / "copy.sqlite")
    assert export.read_bytes() == whole
    assert SECRETS[0].encode() not in (tmp_path / "copy.sqlite").read_bytes()


def test_what_is_no_whole_database_is_refused_and_left(export, tmp_path):
    export.write_bytes(export.read_bytes()[:-4096])
    cut = export.read_bytes()
    with pytest.raises(CollectError, match="cut"):
        scrub(export)
    assert export.read_bytes() == cut
    with pytest.raises(CollectError, match="cannot be opened"):
        scrub(tmp_path / "none.sqlite")


def test_a_place_that_cannot_be_written_is_named(export, tmp_path):
    with pytest.raises(CollectError, match="no-folder"):
        scrub(export, tmp_path / "no-folder" / "copy.sqlite")
