"""The resources of config.json on real cgroup version 2: in a virtual machine, one boot for all rows of oci_fields_v2.py."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import VM
from oci_fields_v2 import rows

HERE = pathlib.Path(__file__).parent
NAMES = [name for number, row in enumerate(rows()) for name in
         [f"{number} {row.name}", *[f"{number} {row.fields[0]} not {list(changes.values())[0]}" for changes, _ in row.bad]]]


@pytest.fixture(scope="module")
def ends(programs, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("engines' runtimes are tried as root")
    if not os.access(VM, os.X_OK):
        pytest.skip(f"no virtual machine with cgroup v2: {VM} is missing")
    if shutil.which("busybox") is None:
        pytest.skip("needs busybox")
    share = pathlib.Path(tmp_path_factory.mktemp("oci-fields-vm"))
    shutil.copy(programs / "pinfold-oci", share)
    for file in HERE.glob("oci_fields*.py"):
        shutil.copy(file, share)
    done = subprocess.run([VM, "--share", share, "--timeout", "200", "--", "/usr/bin/python3", share / "oci_fields_v2.py", share / "pinfold-oci",
                           "/run/fields"], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"all": done.stdout[-3000:] + done.stderr[-3000:], **{one["case"]: one["fault"] for one in said}}


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_resource_is_carried_out_or_refused_on_version_2(ends, number):
    faults = {name: fault for name, fault in ends.items() if name.split(" ")[0] == NAMES[number].split(" ")[0]}
    mine = [name for name in faults if without_numbers(name) == without_numbers(NAMES[number])]
    assert mine, ends["all"]
    assert all(faults[name] is None for name in mine), [faults[name] for name in mine]


def without_numbers(name):
    """The disk of the machine isn't the host's."""
    return name if "Device" not in name else name.split("{", maxsplit=1)[0]
