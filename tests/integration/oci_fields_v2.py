"""The fields of `linux.resources` on cgroup version 2: see oci_fields.py.

    oci_fields_v2.py PINFOLD-OCI FOLDER       runs all rows, as root on such a host; a JSON object a line says how each ended
    oci_fields_v2.py PINFOLD-OCI FOLDER WORD  those of version 1 (oci_fields_resources.py) whose name has the word
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import traceback

from oci_fields import Row, Runtime, refuse, show
from oci_fields_resources import ROWS, resources, rule


def cat(*files):
    return "cd /sys/fs/cgroup; cat " + " ".join(files)


def disk():
    """A loop device where there is no other: throttles want a disk."""
    for name in sorted(os.listdir("/sys/block")):
        if name.startswith(("vd", "sd", "nvme")):
            return name
    subprocess.run("modprobe -q loop; truncate -s 8M /run/loop-file; losetup -f /run/loop-file", shell=True, check=False)
    attached = subprocess.run(["losetup", "-j", "/run/loop-file"], capture_output=True, text=True, check=False).stdout
    return os.path.basename(attached.split(":")[0])


def numbers():
    try:
        return tuple(map(int, pathlib.Path(f"/sys/block/{disk()}/dev").read_text().split(":")))
    except (OSError, ValueError):
        return 0, 0


M32, M48, M16 = 32 << 20, 48 << 20, 16 << 20
READ = "(exec 3</dev/mine && echo read); (exec 3>/dev/mine && echo written); true"


def one(major, minor, **more):
    return [{"major": major, "minor": minor, **more}]


def rows():
    major, minor = numbers() if os.geteuid() == 0 and os.path.exists("/sys/fs/cgroup/cgroup.controllers") else (7, 0)
    refused = {"memory/swappiness": 10, "memory/disableOOMKiller": True, "memory/kernelTCP": 1 << 20, "cpu/realtimePeriod": 500000,
               "cpu/realtimeRuntime": 1000, "network/priorities": [{"name": "lo", "priority": 3}], "network/classID": 0x100001}
    yield from [
        Row("/linux/resources/memory/limit", resources("memory/limit", M32), f"^{M32}$", cat("memory.max")),
        Row("/linux/resources/memory/limit", resources("memory/limit", -1), "^max$", cat("memory.max")),
        Row("/linux/resources/memory/swap", resources("memory", {"limit": M32, "swap": M48}), f"^{M16}$", cat("memory.swap.max"),
            bad=[(resources("memory", {"limit": M32, "swap": M16}), "memory/swap")]),
        Row("/linux/resources/memory/swap", resources("memory", {"limit": M32, "swap": -1}), "^max$", cat("memory.swap.max")),
        Row("/linux/resources/memory/reservation", resources("memory/reservation", M16), f"^{M16}$", cat("memory.low")),
        Row("/linux/resources/cpu/shares", resources("cpu/shares", 1024), "^39$", cat("cpu.weight")),
        Row("/linux/resources/cpu/quota /linux/resources/cpu/period", resources("cpu", {"quota": 20000, "period": 50000}), "^20000 50000$", cat("cpu.max"),
            bad=[(resources("cpu/quota", 1), "cpu"), (resources("cpu/period", 1), "cpu")]),
        Row("/linux/resources/cpu/quota", resources("cpu/quota", -1), "^max 100000$", cat("cpu.max")),
        Row("/linux/resources/cpu/burst", resources("cpu", {"quota": 20000, "period": 50000, "burst": 1000}), "^1000$", cat("cpu.max.burst"),
            bad=[(resources("cpu", {"quota": 20000, "burst": 90000}), "burst")]),
        Row("/linux/resources/cpu/idle", resources("cpu/idle", 1), "^1$", cat("cpu.idle"), bad=[(resources("cpu/idle", -1), "cpu")]),
        Row("/linux/resources/cpu/cpus", resources("cpu/cpus", "0"), "^0$", cat("cpuset.cpus"), bad=[(resources("cpu/cpus", "x"), "cpuset.cpus")]),
        Row("/linux/resources/cpu/mems", resources("cpu/mems", "0"), "^0$", cat("cpuset.mems"), bad=[(resources("cpu/mems", "x"), "cpuset.mems")]),
        Row("/linux/resources/pids/limit", resources("pids/limit", 20), "^20$", cat("pids.max")),
        Row("/linux/resources/blockIO/weight", resources("blockIO/weight", 500), "^default (500|4950)$", cat("io.weight io.bfq.weight 2>/dev/null"),
            bad=[(resources("blockIO/weight", 65536), "blockIO/weight")]),
        *[Row(" ".join(f"/linux/resources/blockIO/{field}/*/{key}" for key in ("major", "minor", "rate")),
              resources(f"blockIO/{field}", one(major, minor, rate=123456)), f"{major}:{minor} .*{key}=123456", cat("io.max"),
              bad=[(resources(f"blockIO/{field}", one(major, 9999, rate=1)), "io.max")])
          for field, key in {"throttleReadBpsDevice": "rbps", "throttleWriteBpsDevice": "wbps", "throttleReadIOPSDevice": "riops",
                             "throttleWriteIOPSDevice": "wiops"}.items()],
        Row("/linux/resources/devices/*/allow", rule(type="c", major=10, minor=237, access="rwm"), "^read\nwritten$", READ),
        Row("/linux/resources/devices/*/access", rule(type="c", major=10, minor=237, access="r"), "^read\n.*not permitted", READ),
        Row("/linux/resources/devices/*/minor", rule(type="c", major=10, minor=236, access="rwm"), "not permitted", READ),
        Row("/linux/resources/devices/*/type", rule(type="b", major=10, minor=237, access="rwm"), "not permitted", READ),
        Row("/linux/resources/hugepageLimits/*/pageSize /linux/resources/hugepageLimits/*/limit",
            resources("hugepageLimits", [{"pageSize": "2MB", "limit": 4 << 20}]), f"^{4 << 20}$", cat("hugetlb.2MB.max"),
            bad=[(resources("hugepageLimits", [{"pageSize": "3MB", "limit": 1}]), "3MB")]),
        Row("/linux/resources/rdma/*/hcaHandles", {}, "ran", "echo ran", bad=[(resources("rdma", {"nosuch": {"hcaHandles": 3}}), "rdma")]),
        Row("/linux/resources/unified/*", resources("unified", {"memory.high": "33554432", "pids.max": "33"}), "^33554432\n33$", cat("memory.high", "pids.max"),
            bad=[(resources("unified", {"cgroup.procs": "1"}), "unified"), (resources("unified", {"cgroup.freeze": "1"}), "unified"),
                 (resources("unified", {"memory.nosuch": "1"}), "memory.nosuch"), (resources("unified", {"memory.high": "x"}), "memory.high")]),
        Row("/linux/resources/memory/limit", {}, "ran", "echo ran", bad=[
            (resources(part, value), part.split("/")[1] + "|net_cls|net_prio") for part, value in refused.items()]),
    ]


def attempt(name, run):
    try:
        run()
    except Exception: # pylint: disable=broad-except: whatever it is, the test shows it
        return {"case": name, "fault": traceback.format_exc()[-1500:]}
    return {"case": name, "fault": None}


def main(program, folder, word=None):
    runtime = Runtime(program, folder)
    for number, row in enumerate(rows() if word is None else [row for row in ROWS if re.search(word, row.name)]):
        print(json.dumps(attempt(f"{number} {row.name}", lambda one=row: show(runtime, one))), flush=True)
        for changes, words in row.bad:
            name = f"{number} {row.fields[0]} not {list(changes.values())[0]}"
            print(json.dumps(attempt(name, lambda change=changes, word=words: refuse(runtime, change, word))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
