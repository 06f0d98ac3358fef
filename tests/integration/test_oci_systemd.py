"""pinfold-oci with systemd as the cgroup manager: in a virtual machine with real cgroup v2, one boot for all tests."""
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import VM, build_directory

NEEDED = ("pinfold-oci", "pinfold-scope")


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    if not os.access(VM, os.X_OK):
        pytest.skip(f"no virtual machine with cgroup v2: {VM} is missing")
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox")
    share = pathlib.Path(tmp_path_factory.mktemp("oci-systemd"))
    shutil.copy(busybox, share)
    for name in NEEDED:
        found = next((path for path in build_directory().rglob(name) if path.is_file() and os.access(path, os.X_OK)), None)
        if found is None:
            pytest.skip(f"{name} isn't built: libsystemd is missing")
        shutil.copy(found, share)
    script = pathlib.Path(__file__).with_name("oci_systemd.sh")
    shutil.copy(script, share)
    done = subprocess.run([VM, "--systemd", "--share", share, "--timeout", "200", "--", share / script.name, share],
                          capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    return {"all": done.stdout + done.stderr,
            **dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)}


def test_the_container_lives_below_a_scope_of_systemd_s(facts):
    assert facts["create"].strip() == "0", facts["all"]
    assert facts["place"] == facts["exec"] == "/pods.slice/pods-a.slice/pinfold-one.scope/container"
    assert facts["unit"] == "active Slice=pods-a.slice"


def test_limits_are_the_bundle_s_and_outlive_a_reload(facts):
    assert facts["limit"] == facts["reloaded"] == "50331648", facts["all"]
    assert facts["updated"] == "41943040" and facts["paused"] == "1"


def test_nothing_is_left_of_the_unit(facts):
    assert facts["left"].split() == ["inactive", "0"], facts["all"]


def test_a_path_that_is_none_of_systemd_s_is_refused_by_name(facts):
    assert facts["plain"].startswith("1 ") and "slice:prefix:name" in facts["plain"]
