"""pinfold-oci with systemd as the cgroup manager, one script for all tests: in a virtual machine with real cgroup v2, and with
a systemd of its own, in namespaces of this host, where this has cgroups of version 1 (alone, or hybrid)."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import VM, build_directory

NEEDED = ("pinfold-oci", "pinfold-scope")
HERE = pathlib.Path(__file__).parent


def collect(share):
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox")
    shutil.copy(busybox, share)
    for name in NEEDED:
        found = next((path for path in build_directory().rglob(name) if path.is_file() and os.access(path, os.X_OK)), None)
        if found is None:
            pytest.skip(f"{name} isn't built: libsystemd is missing")
        shutil.copy(found, share)
    for script in ("oci_systemd.sh", "oci_systemd_podman.sh", "oci_systemd_rootless.sh", "oci_systemd_shared.sh"):
        shutil.copy(HERE / script, share)


# An ordinary user's podman is tried meanwhile: what it says has names of its own.
BOTH = """sh "$1/oci_systemd_rootless.sh" "$1" >/run/rootless-said 2>&1 &
sh "$1/oci_systemd.sh" "$1"
wait
sed "s/^/user-/" /run/rootless-said
"""


def in_machine(share):
    if not os.access(VM, os.X_OK):
        pytest.skip(f"no virtual machine with cgroup v2: {VM} is missing")
    done = subprocess.run([VM, "--systemd", "--share", share, "--timeout", "330", "--", "sh", "-c", BOTH, "sh", share],
                          capture_output=True, text=True, timeout=390, check=False)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    return done.stdout, done.stderr


def in_namespaces(share, script="oci_systemd.sh"):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if " - cgroup cgroup rw" not in (mounts := pathlib.Path("/proc/self/mountinfo").read_text()) or "name=systemd" not in mounts:
        pytest.skip("no cgroups of version 1 with systemd's own hierarchy here")
    for program in ("/lib/systemd/systemd", "/usr/bin/dbus-daemon"):
        if not os.access(program, os.X_OK):
            pytest.skip(f"needs {program}")
    done = subprocess.run(["bash", HERE / "oci_systemd_namespace.sh", share, share / script, share], capture_output=True,
                          text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    said = share / "said"
    return (said.read_text() if said.exists() else ""), done.stdout + done.stderr


@pytest.fixture(scope="module", params=[in_machine, in_namespaces], ids=["v2", "v1"])
def facts(tmp_path_factory, request):
    share = pathlib.Path(tmp_path_factory.mktemp("oci-systemd"))
    collect(share)
    out, err = request.param(share)
    return {"all": out + err, **dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)}


def test_the_container_lives_below_a_scope_of_systemd_s(facts):
    assert facts.get("create", "").strip() == "0", facts["all"]
    assert facts["place"] == facts["exec"].strip() == facts["stays"] == "/pods.slice/pods-a.slice/pinfold-one.scope/container"
    assert facts["everywhere"] == "0" # hierarchies in which it is elsewhere
    assert facts["unit"] == "active Slice=pods-a.slice"


def test_the_unit_has_the_properties_that_the_bundle_asks_for(facts):
    assert facts.get("TimeoutStopUSec") == "7s" and facts["Description"] == "a box" and facts["After"] == "2", facts["all"]


def test_a_property_that_isn_t_the_bundle_s_to_set_is_refused_by_name(facts):
    assert facts["slice"].startswith("1 ") and "org.systemd.property.Slice" in facts["slice"], facts["all"]
    assert facts["nonsense"].startswith("1 ") and "Nonsense" in facts["nonsense"], facts["all"]


def test_an_exec_takes_no_more_processes_than_its_own(facts):
    assert facts["tight"].split()[:1] == ["7"], facts["all"]


def test_limits_are_the_bundle_s_and_outlive_a_reload(facts):
    assert facts["limit"] == facts["reloaded"] == "50331648", facts["all"]
    assert facts["updated"] == "41943040" and facts["paused"] == "1"


def test_nothing_is_left_of_the_unit(facts):
    assert facts["left"].split() == ["inactive", "0"], facts["all"]


def test_systemd_knows_the_unit_s_processes(facts):
    assert facts["killed"] == "137", facts["all"]


def test_a_path_that_is_none_of_systemd_s_is_refused_by_name(facts):
    assert facts["plain"].startswith("1 ") and "slice:prefix:name" in facts["plain"]


@pytest.mark.parametrize("facts", [in_machine], indirect=True, ids=["v2"])
def test_an_ordinary_user_s_podman_runs_containers_in_its_own_systemd(facts):
    if any(shutil.which(program) is None for program in ("podman", "conmon", "newuidmap", "useradd")):
        pytest.skip("needs podman, conmon, newuidmap and useradd")
    home = "/user.slice/user-[0-9]+.slice/user@[0-9]+.service"
    assert re.fullmatch(home + "/user.slice/libpod-[0-9a-f]{64}.scope/container", facts.get("user-group", "")), facts["all"]
    assert facts["user-limits"].split() == ["67108864", "20"] and facts["user-exec"] == "inside", facts["all"]
    assert facts["user-left"] == "", facts["all"]
    # in a service, and with the operator's policy: the group of `--cgroups=split` is the service's own, and needs no grant
    assert re.fullmatch(f"0::{home}/app.slice/web.service/libpod-payload-[0-9a-f]{{64}}", facts["user-split"].strip()), facts["all"]


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    if shutil.which("podman") is None:
        pytest.skip("not installed: podman")
    share = pathlib.Path(tmp_path_factory.mktemp("oci-systemd"))
    collect(share)
    out, err = in_namespaces(share, "oci_systemd_podman.sh")
    return {"all": out + err, **dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)}


def test_podman_runs_containers_with_systemd_as_its_manager(podman):
    assert podman.get("run") == "hi", podman["all"]
    assert podman["place"] == f"/machine.slice/libpod-{podman['id']}.scope/container" and podman["limit"] == "67108864", podman["all"]
    assert podman["exec"] == "inside" and podman["paused"] == "paused" and podman["unit"] == "active", podman["all"]
    assert podman["code"] == "137", podman["all"]


def test_podman_s_pods_are_slices_of_systemd_s_and_leave_nothing(podman):
    assert podman["pod"] == "Running 2", podman["all"]
    assert podman["left"].split() == ["inactive"], podman["all"]
