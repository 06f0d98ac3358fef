"""Kept sandboxes on real cgroup v2: each command's own account, limits, freezing, and what is left."""
import json

import pytest

from vm import texts

SCRIPT = r"""
export PINFOLD_STATE=/run/pin-state PINFOLD_CACHE=/tmp PINFOLD_BILLS=/run/pin-bills
mkdir -m 700 /run/pin-state
pinfold up work --label tenant=a --memory 256MiB
note heavy;  pinfold exec work --json -- /usr/bin/python3 -c '
import time
x = bytearray(64 << 20)
end = time.process_time() + 0.3
while time.process_time() < end: pass' || true
note light;  pinfold exec work --json -- true
note fork;   pinfold exec work --json -- sh -c 'for i in 1 2 3 4 5 6; do sleep 0.2 & done; wait'
note memory; pinfold up big --memory 128MiB; pinfold exec big --json -- /usr/bin/python3 -c 'x = bytearray(10**9)' || true
note pause;  pinfold exec work --detach -- sleep 100; pinfold pause work; cat /sys/fs/cgroup/pinfold*/[0-9]*/cgroup.events | grep -c 'frozen 1'; pinfold resume work
note end;    pinfold exec work --json --timeout 1s -- sh -c 'setsid sleep 100 & sleep 100' || true
note bills;  pinfold stats --by tenant --json
pinfold rm --force work big
note left;   find /sys/fs/cgroup -path '*/pinfold*/[0-9]*' -type d | wc -l
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return texts(tmp_path_factory.mktemp("vm"), SCRIPT)


def usage(text):
    return json.loads(text)["usage"]


def test_each_command_has_its_own_account(seen):
    heavy, light, fork = usage(seen["heavy"]), usage(seen["light"]), usage(seen["fork"])
    assert heavy["cpu_ms"] >= 290 and heavy["memory_peak_bytes"] > 64 << 20
    assert 0 < light["memory_peak_bytes"] < 32 << 20  # of its time none can be said: a busy host emulates the machine
    assert fork["pids_peak"] >= 7 and light["pids_peak"] <= 2


def test_running_out_of_memory_is_told(seen):
    result = json.loads(seen["memory"].splitlines()[-1])
    assert result["status"] == "memory" and result["exit_code"] == 137


def test_a_pause_freezes_the_whole_group(seen):
    assert int(seen["pause"].splitlines()[-1]) >= 1


def test_a_time_limit_ends_what_left_its_session(seen):
    assert json.loads(seen["end"])["status"] == "timeout"


def test_it_is_billed(seen):
    row, = json.loads(seen["bills"])["rows"]
    assert row["value"] == "a" and row["runs"] == 5 and row["cpu_seconds"] > 0.29 and row["memory_byte_seconds"] > 0


def test_no_group_is_left(seen):
    assert seen["left"] == "0"
