"""Bills: what labelled runs and kept sandboxes have used, summed by a label, also when they are gone."""
import json
import os
import signal
import sqlite3
import subprocess
import time

import pytest

from kept_sandbox import eventually, kept, kept_by_root  # noqa: F401 (fixtures)

BURN = "import time\nx = bytearray(64 << 20)\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\ntime.sleep(0.3)"


def sums(pinfold, label, *options):
    done = pinfold.call([str(pinfold.program), "stats", "--by", label, "--json", *options])
    assert done.returncode == 0, done.stderr
    return {row["value"]: row for row in json.loads(done.stdout)["rows"]}


def test_runs_are_summed_by_label_with_what_the_kernel_counted(as_root):
    policy = as_root.policy(resources={"memory": "256MiB"})
    result = as_root.python(BURN, policy=policy, options=["--label", "tenant=a", "--label", "team=x"])
    for _ in range(3):
        as_root.run("true", policy=policy, options=["--label", "tenant=b"])
    as_root.run("true", policy=policy)
    rows = sums(as_root, "tenant")
    assert set(rows) == {"a", "b"} and (rows["a"]["runs"], rows["b"]["runs"]) == (1, 3)
    assert abs(rows["a"]["cpu_seconds"] - result["usage"]["cpu_ms"] / 1000) < 0.01
    # 64 MiB for some 0.7 seconds; more at no time than the peak for the whole of it
    assert 0.4 * (64 << 20) < rows["a"]["memory_byte_seconds"] < result["usage"]["memory_peak_bytes"] * result["usage"]["wall_ms"] / 1000 + 1
    by_team = sums(as_root, "team")
    assert by_team["x"]["runs"] == 1 and by_team[None]["runs"] == 3


def test_a_kept_sandbox_is_billed_while_it_lives_and_when_it_is_gone(kept_by_root):
    kept = kept_by_root
    kept.up("work", "--label", "tenant=a", resources={"memory": "256MiB"})
    kept.python("work", BURN)
    alive = sums(kept.pinfold, "tenant")["a"]
    assert alive["runs"] == 1 and 0.4 < alive["cpu_seconds"] < 2 and alive["memory_byte_seconds"] > 0.4 * (64 << 20)
    kept.exec("work", "true")
    kept.ok("rm", "--force", "work")
    gone = sums(kept.pinfold, "tenant")["a"]
    assert gone["runs"] == 2 and gone["sandboxes"] == 1 and gone["cpu_seconds"] >= alive["cpu_seconds"]
    assert gone["wall_seconds"] >= alive["wall_seconds"]


def test_what_is_written_to_memory_and_left_there_is_billed_while_nothing_runs(kept_by_root):
    kept = kept_by_root
    kept.up("work", "--label", "tenant=a", resources={"memory": "256MiB"}, filesystem={"tmp": "128MiB"})
    kept.exec("work", "sh", "-c", "head -c 67108864 /dev/zero > /tmp/x")
    before = sums(kept.pinfold, "tenant")["a"]["memory_byte_seconds"]
    time.sleep(0.5)
    assert sums(kept.pinfold, "tenant")["a"]["memory_byte_seconds"] - before > 0.45 * (64 << 20)


def test_an_ordinary_user_has_bills_as_well(pinfold):
    pinfold.run("true", options=["--label", "tenant=a"])
    assert sums(pinfold, "tenant")["a"]["runs"] == 1


def test_many_writers_and_readers_at_once_lose_and_double_nothing(as_root):
    policy = as_root.policy()
    runs = [as_root.spawn(as_root.argv("true", policy=policy, options=["--label", f"tenant=t{i % 4}"])) for i in range(24)]
    readers = [as_root.spawn([str(as_root.program), "stats", "--by", "tenant"], stdout=subprocess.DEVNULL) for _ in range(6)]
    assert {process.wait() for process in runs + readers} == {0}
    assert {value: row["runs"] for value, row in sums(as_root, "tenant").items()} == {f"t{i}": 6 for i in range(4)}


def test_a_reader_that_was_killed_at_any_moment_leaves_bills_that_count_once(as_root):
    policy = as_root.policy()
    for round in range(12):
        as_root.run("true", policy=policy, options=["--label", "tenant=a"])
        reader = as_root.spawn([str(as_root.program), "stats", "--by", "tenant"], stdout=subprocess.DEVNULL)
        time.sleep(0.001 * round)
        reader.kill()
        reader.wait()
    assert sums(as_root, "tenant")["a"]["runs"] == 12
    assert sorted(p.name for p in (as_root.home / "bills").iterdir()) == ["bills.db"]


def test_torn_lines_and_hostile_labels_are_told_apart_from_bills(as_root):
    as_root.run("true", options=["--label", "tenant='; DROP TABLE bills; --"])
    spool = as_root.home / "bills" / "spool"
    with open(spool, "ab") as file:
        file.write(b'{"v":1,"id":"00"}\n\xff\xfe\n[]\n{"v":1,"id":"' + b"0" * 32 + b'","part":1,"kind":"run","cpu')
    done = json.loads(as_root.call([str(as_root.program), "stats", "--by", "tenant", "--json"]).stdout)
    assert done["skipped"] == 4 and [row["value"] for row in done["rows"]] == ["'; DROP TABLE bills; --"]


def test_a_supervisor_that_was_killed_keeps_what_was_billed(kept_by_root):
    kept = kept_by_root
    kept.up("work", "--label", "tenant=a")
    kept.exec("work", "true")
    assert sums(kept.pinfold, "tenant")["a"]["runs"] == 1
    os.kill(kept.show("work")["supervisor"], signal.SIGKILL)
    eventually(lambda: kept.list()[0]["state"] == "ended", "it is dead")
    assert sums(kept.pinfold, "tenant")["a"]["runs"] == 1


def test_since_leaves_older_bills_out(as_root):
    as_root.run("true", options=["--label", "tenant=a"])
    assert sums(as_root, "tenant", "--since", "1h")["a"]["runs"] == 1
    time.sleep(0.05)
    assert sums(as_root, "tenant", "--since", "10ms") == {}


def test_books_of_a_newer_version_are_left_alone(as_root):
    as_root.run("true", options=["--label", "tenant=a"])
    sums(as_root, "tenant")
    with sqlite3.connect(as_root.home / "bills" / "bills.db") as base:
        base.execute("PRAGMA user_version = 99")
    done = as_root.call([str(as_root.program), "stats", "--by", "tenant"])
    assert done.returncode == 125 and b"version 99" in done.stderr


def test_books_and_bills_of_an_older_version_are_taken_over(as_root):
    """The first books knew nothing of published ports, and neither did lines on the spool."""
    folder = as_root.home / "bills"
    as_root.run("true", options=["--label", "tenant=a"])
    sums(as_root, "tenant")
    with sqlite3.connect(folder / "bills.db") as base:
        base.executescript("ALTER TABLE bills DROP COLUMN published_out; ALTER TABLE bills DROP COLUMN published_in; PRAGMA user_version = 1")
    as_root.run("true", options=["--label", "tenant=a"])
    line = json.loads((folder / "spool").read_text())
    (folder / "spool").write_text(json.dumps({key: value for key, value in line.items() if not key.startswith("published")}) + "\n")
    row = sums(as_root, "tenant")["a"]
    assert row["runs"] == 2 and row["published_bytes_out"] == row["published_bytes_in"] == 0


def test_a_directory_that_others_may_enter_is_refused_and_the_run_says_so(as_root):
    folder = as_root.home / "bills"
    folder.mkdir(mode=0o755)
    result = as_root.json("true", options=["--label", "tenant=a"])
    assert result["status"] == "success" and "bill" in result["missing"]


@pytest.mark.parametrize("arguments", [["--by", "tenant", "work"], [], ["--by"]])
def test_wrong_uses_are_told(as_root, arguments):
    assert as_root.call([str(as_root.program), "stats", *arguments]).returncode == 125
