"""The whole command on real cgroup v2: one boot of the virtual machine, many observations in it."""
import json
import os

import pytest

from vm import texts

SCRIPT = r"""
export PINFOLD_STATE=/run/pin-state PINFOLD_CACHE=/tmp
mkdir -m 700 /run/pin-state
note group;   pinfold run -- cat /proc/self/cgroup
note host
pinfold run -- sh -c 'echo up; sleep 20' >/run/up &
until grep -q up /run/up; do sleep 0.1; done
for file in memory.max memory.swap.max pids.max cpu.max; do cat /sys/fs/cgroup/pinfold*/[0-9]*/$file; done
kill %1; wait
echo '{"pinfold": 1, "name": "slow", "resources": {"wall_time": "5m"}}' >/run/slow.json # a busy host, and a slow machine in it
note memory;  pinfold run --policy /run/slow.json --json -- /usr/bin/python3 -c 'x = bytearray(10**9)' || true
note pids;    pinfold run --json --pids 8 -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait' || true
note timeout; pinfold run --json --timeout 2s -- sh -c 'trap "" TERM; sleep 100' || true
note usage;   pinfold run --json --io epoll -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done' || true
note landlock; pinfold run --json -- sh -c 'touch /usr/x /tmp/y && echo no' || true
printf '#!/bin/sh\ncat >/dev/null\necho "$1" >>/run/crashes\n' >/run/helper; chmod 755 /run/helper
echo '|/run/helper %e' >/proc/sys/kernel/core_pattern
note crash
(ulimit -c 0; exec sh -c 'kill -SEGV $$') || true
pinfold run -- /usr/bin/python3 -c 'import os; os.kill(os.getpid(), 11)'; echo $?
zero='import ctypes, os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print(resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True)
ctypes.CDLL(None).syscall(160, 4, ctypes.byref((ctypes.c_ulong * 2)())); os.kill(os.getpid(), 11)'
for profile in tool build; do
    echo '{"pinfold": 1, "name": "zero", "extends": ["'$profile'"]}' >/run/zero.json
    pinfold run --policy /run/zero.json -- /usr/bin/python3 -c "$zero"; echo $?
done
sleep 1; cat /run/crashes
note doctor
for pattern in '|/run/helper %e' '@/run/socket'; do echo "$pattern" >/proc/sys/kernel/core_pattern; pinfold doctor | grep -A1 crashes; done
echo core >/proc/sys/kernel/core_pattern
note clock
for jump in '+1 year' '-2 years'; do
    pinfold run --json --timeout 3s -- sleep 100 & sleep 1; date -s "$jump" >/dev/null; wait $! || true
done
note left;    find /sys/fs/cgroup -path '*/pinfold*/[0-9]*' -type d | wc -l
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return texts(tmp_path_factory.mktemp("vm"), SCRIPT)


def test_the_sandbox_sees_its_own_group_as_the_root(seen):
    assert seen["group"] == "0::/"


def test_the_limits_of_the_policy_are_the_groups(seen):
    assert seen["host"].splitlines() == ["536870912", "0", "64", "100000 100000"]


def test_a_crash_inside_is_not_handed_to_the_host_s_program_for_crashes(seen):
    """A limit of 0, as outside here, doesn't keep it from being run: so a program inside that wants one is told that it has it, and
    keeps its byte."""
    assert seen["crash"].splitlines() == ["139", "1", "139", "1", "139", "sh"]


def test_a_host_whose_crashes_go_to_a_socket_is_told_so(seen):
    """No limit keeps them from it, since Linux 6.16; this kernel takes the pattern for a file's name, the doctor reads it all the same."""
    told = seen["doctor"].splitlines()
    assert told[0] == "ok   crashes          core_pattern |/run/helper %e", told
    assert told[2] == "no   crashes          core_pattern @/run/socket" and "whatever resources.core says" in told[3], told


def test_a_jump_of_the_host_s_clock_ends_a_run_neither_sooner_nor_later(seen):
    for result in map(json.loads, seen["clock"].splitlines()):
        assert result["status"] == "timeout" and 2900 <= result["usage"]["wall_ms"] < 60000, result
    assert len(seen["clock"].splitlines()) == 2


def test_no_group_is_left(seen):
    assert seen["left"] == "0"


def test_the_memory_limit_kills_the_tree_and_reports_it(seen):
    result = json.loads(seen["memory"])
    assert result["status"] == "memory" and result["exit_code"] == 137
    assert 256 << 20 < result["usage"]["memory_peak_bytes"] <= 512 << 20


def test_the_process_limit_holds(seen):
    assert json.loads(seen["pids"])["usage"]["pids_peak"] <= 8


def test_a_tree_that_ignores_signals_is_killed(seen):
    assert json.loads(seen["timeout"])["status"] == "timeout"


def test_processor_time_and_peaks_are_the_kernels(seen):
    usage = json.loads(seen["usage"])["usage"]
    assert usage["cpu_ms"] > 0 and usage["memory_peak_bytes"] > 0 and usage["pids_peak"] >= 2


def test_an_older_landlock_holds_as_well(seen):
    result = json.loads(seen["landlock"])
    assert result["exit_code"] != 0 and "no" not in result["stdout"].split()
