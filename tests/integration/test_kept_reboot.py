"""A host that loses its power while sandboxes live, and what is found and cleared after its next boot."""
import json
import shutil
import subprocess

import pytest

from conftest import VM
from vm import observe

MOUNT = r"""
for module in loop ext4; do modprobe $module; done
mkdir /run/disk && mount -o loop "$1" /run/disk || { echo "@cannot"; exit; }
export PINFOLD_STATE=/run/disk/state PINFOLD_CACHE=/tmp PINFOLD_BILLS=/run/disk/bills PINFOLD_AUDIT=/run/disk/log/audit.jsonl
"""

FIRST = MOUNT + r"""
mkdir -m 700 $PINFOLD_STATE /run/disk/log
echo '{"pinfold": 1, "name": "p", "audit": {"record": ["lifecycle"]}}' > /run/policy; chmod 600 /run/policy
for name in a b; do pinfold up $name --policy /run/policy --label tenant=x; done
pinfold exec a -- echo from a
pinfold exec a --detach -- sleep 1000
pinfold exec b --detach -- sh -c 'while :; do echo more; sleep 0.01; done'
for i in $(seq 100); do [ $(pinfold logs b | wc -l) -ge 50 ] && break; sleep 0.1; done
note boot; cat /proc/sys/kernel/random/boot_id
note listed; pinfold ls --json
sync -f /run/disk
echo b > /proc/sysrq-trigger
sleep 60
"""

SECOND = MOUNT + r"""
note boot; cat /proc/sys/kernel/random/boot_id
note listed; pinfold ls --json
note exec; pinfold exec a -- true 2>&1; echo $?
note up; pinfold up a 2>&1; echo $?
note logs; pinfold logs a; pinfold logs b | sort -u; pinfold logs b --json | tail -1
note audit; pinfold audit verify; echo $?
note run; pinfold run -- true; echo $?
note slots; tr -d '\0' < $PINFOLD_STATE/slots | wc -c
note again; pinfold rm a b; pinfold up a; pinfold exec a -- echo again; pinfold rm --force a
note left; ls $PINFOLD_STATE/sandboxes | wc -l; find /sys/fs/cgroup -path '*/pinfold*/[0-9]*' -type d | wc -l
"""


def boot(folder, script):
    """What it printed, by its notes."""
    parts, everything = observe(folder, script, folder / "disk")
    if "cannot" in parts:
        pytest.skip("the virtual machine can't mount a disk")
    return parts, everything


def test_what_lived_when_the_power_went_is_found_and_cleared(tmp_path):
    if not VM.exists():
        pytest.skip("no virtual machine here: PINFOLD_VM names the script")
    if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        pytest.skip("mkfs.ext4 isn't here")
    with open(tmp_path / "disk", "wb") as disk:
        disk.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(tmp_path / "disk")], check=True, env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})
    before, everything = boot(tmp_path, FIRST)
    assert "listed" in before, everything
    assert [s["state"] for s in json.loads(before["listed"][0])] == ["running", "running"]
    after, everything = boot(tmp_path, SECOND)
    assert "left" in after, everything
    assert after["boot"] != before["boot"]
    assert [s["state"] for s in json.loads(after["listed"][0])] == ["ended", "ended"]
    assert after["exec"][-1] == "125" and "ended" in after["exec"][0]
    assert after["up"][-1] == "125"  # its log is still to be read
    assert after["logs"][:2] == ["from a", "more"] and json.loads(after["logs"][2])["kind"] == "stdout"
    assert after["audit"][-1] == "0", after["audit"]
    assert after["run"] == ["0"] and after["slots"] == ["0"]
    assert after["again"] == ["a", "again"] and after["left"] == ["0", "0"]
