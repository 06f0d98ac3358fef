"""The live cgroup tests on real cgroup v2: in a virtual machine, as root and as ordinary users.

One boot serves all tests. PINFOLD_VM names the program that boots it (run-in-cgroup2-vm), PINFOLD_BUILD the build
directory; without the machine or the compiled test, these tests are skipped by name.
"""

import os
import pathlib
import shutil

import pytest

from vm import VM, boot

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PINFOLD_BUILD", REPOSITORY / "build"))
PROGRAMS = ("test_cgroup_live", "test_cgroup_life", "test_cgroup_faults", "pinfold-scope")


def find_program(name: str) -> pathlib.Path | None:
    return next((path for path in BUILD.rglob(name) if path.is_file() and os.access(path, os.X_OK)), None)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each run said: its name, and its exit status or count; `log` has everything else."""
    if not os.access(VM, os.X_OK):
        pytest.skip(f"no virtual machine with cgroup v2: {VM} is missing")
    programs = [find_program(name) for name in PROGRAMS]
    if None in programs:
        pytest.skip(f"{' or '.join(PROGRAMS)} isn't built in {BUILD}")
    share = pathlib.Path(tmp_path_factory.mktemp("cgroup-vm"))
    for program in programs:
        shutil.copy(program, share)
    shutil.copy(pathlib.Path(__file__).with_name("cgroup_vm.sh"), share)
    done = boot("--systemd", "--share", share, "--timeout", "300", "--", share / "cgroup_vm.sh", share, share / "log", timeout=400)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    facts["log"] = (share / "log").read_text(errors="replace")
    return facts


@pytest.mark.parametrize("who", ["root", "faults", "delegated", "scope"])
def test_every_limit_works_on_cgroup_v2(machine: dict[str, str], who: str) -> None:
    assert machine[who] == "0", machine["log"]


def test_a_user_without_delegation_is_told_so(machine: dict[str, str]) -> None:
    assert machine["undelegated"] == "0", machine["log"]
    assert "is not delegated to the user" in machine["log"].split("== undelegated")[1]


def test_nothing_is_left_in_the_cgroup_tree(machine: dict[str, str]) -> None:
    assert machine["left"] == "0"
