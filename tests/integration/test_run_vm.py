"""The whole command on real cgroup v2: one boot of the virtual machine, many observations in it."""
import json
import os
import shlex
import subprocess

import pytest

from conftest import VM, build_directory

SCRIPT = r"""
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PINFOLD_STATE=/run/pin-state PINFOLD_CACHE=/tmp
mkdir -m 700 /run/pin-state
note() { printf '@%s\n' "$1"; }
note group;   pinfold run -- cat /proc/self/cgroup
note host
pinfold run -- sh -c 'echo up; sleep 20' >/run/up &
until grep -q up /run/up; do sleep 0.1; done
for file in memory.max memory.swap.max pids.max cpu.max; do cat /sys/fs/cgroup/pinfold*/[0-9]*/$file; done
kill %1; wait
note memory;  pinfold run --json -- /usr/bin/python3 -c 'x = bytearray(10**9)' || true
note pids;    pinfold run --json --pids 8 -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait' || true
note timeout; pinfold run --json --timeout 2s -- sh -c 'trap "" TERM; sleep 100' || true
note usage;   pinfold run --json --io epoll -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done' || true
note landlock; pinfold run --json -- sh -c 'touch /usr/x /tmp/y && echo no' || true
note left;    find /sys/fs/cgroup -path '*/pinfold*/[0-9]*' -type d | wc -l
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    if not VM.exists():
        pytest.skip("no virtual machine here: PINFOLD_VM names the script")
    folder = tmp_path_factory.mktemp("vm")
    script = folder / "script"
    program = build_directory() / "tools/pinfold"
    script.write_text(f"PATH={shlex.quote(str(program))}:$PATH\n" + SCRIPT.replace("export PATH=", f"export PATH={program}:"))
    done = subprocess.run([str(VM), "--share", str(folder), "--share", str(build_directory()), "--timeout", "240", "--", "bash", str(script)],
                          capture_output=True, text=True, timeout=300)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    parts = {}
    for line in done.stdout.splitlines():
        if line.startswith("@"):
            parts[line[1:]] = current = []
        elif parts:
            current.append(line)
    assert "left" in parts, done.stdout + done.stderr
    return {name: "\n".join(lines) for name, lines in parts.items()}


def test_the_sandbox_sees_its_own_group_as_the_root(seen):
    assert seen["group"] == "0::/"


def test_the_limits_of_the_policy_are_the_groups(seen):
    assert seen["host"].splitlines() == ["536870912", "0", "64", "100000 100000"]


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
