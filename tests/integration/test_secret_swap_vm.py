"""Secrets while the machine swaps: in the virtual machine, whose swap is its own."""
import pytest

from vm import observe

SWAP = r"""
export PINFOLD_STATE=/run/pin-state PINFOLD_CACHE=/tmp PINFOLD_BILLS=/run/pin-bills PINFOLD_SECRETS=/run/pin-secrets
mkdir -m 700 /run/pin-state /run/pin-secrets
mount -t ramfs -o mode=700 ramfs /run/pin-secrets # /run is a tmpfs, which may be swapped out
disk=$1/swap
modprobe loop; loop=$(losetup -f --show $disk); mkswap $loop >/dev/null; swapon $loop; echo 100 >/proc/sys/vm/swappiness
note swap; cat /proc/swaps
other=control$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
umask 077; (printf needle; head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n') >/run/pin-secrets/KEY # in no variable of this shell
echo '{"pinfold": 1, "name": "swap", "secrets": ["KEY"], "resources": {"wall_time": "1h", "memory": "256MiB"}}' >/run/policy.json
pinfold up work --policy /run/policy.json --secret KEY --secret KEY:file >/dev/null
pinfold exec --detach work -- sh -c 'x=$KEY; cat /run/secrets/KEY >/dev/null; sleep 1000'
for i in 1 2 3; do pinfold exec work -- sh -c 'echo $KEY' ; done
# the control: the same kind of value in memory of somebody who doesn't lock it
OTHER=$other /usr/bin/python3 -c 'import os, time; kept = [os.environ["OTHER"] * 50 for _ in range(2000)]; print("ready", flush=True); time.sleep(1000)' >/run/ready &
until grep -q ready /run/ready; do sleep 0.1; done
supervisor=$(pinfold show work --json | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["supervisor"])')
# the kernel is asked to take all that it can from everybody; what it can't is an error that says nothing
for group in /sys/fs/cgroup/*/memory.reclaim; do echo 1G >$group; done 2>/dev/null
note locked; grep -E 'VmLck|VmSwap' /proc/$supervisor/status
note used; tail -n 1 /proc/swaps
note control; echo $other
note alive; pinfold exec work -- echo alive
pinfold rm --force work; kill %1; swapoff $loop; losetup -d $loop; sync
note secret; cat /run/pin-secrets/KEY; echo
note left
"""


def test_secrets_are_not_in_swap_when_all_else_is(tmp_path):
    """What was swapped out is searched on the disk itself; the same search finds what nobody has locked."""
    with open(tmp_path / "swap", "wb") as disk:
        disk.truncate(64 << 20)
    seen, everything = observe(tmp_path, SWAP, tmp_path)
    assert "left" in seen, everything
    if "/dev/loop" not in "\n".join(seen["swap"]):
        pytest.skip(f"the machine can't swap: {everything[-300:]}")
    assert int(seen["used"][0].split()[3]) > 0, everything
    disk, unlocked, secret = (tmp_path / "swap").read_bytes(), seen["control"][0], seen["secret"][0]
    assert secret.startswith("needle") and len(secret) == 30
    if unlocked.encode() not in disk:
        pytest.skip("the kernel chose other pages: nothing can be concluded")
    assert secret.encode() not in disk
    assert seen["alive"] == ["alive"]
