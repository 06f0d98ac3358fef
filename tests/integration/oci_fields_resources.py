"""The fields of `linux.resources` on cgroup version 1: see oci_fields.py. Those of version 2 are oci_fields_v2.py."""
import os
import pathlib

from oci_fields import Row


def v1(controller, *files):
    """Skips where the host has no such controller of version 1, or the kernel no such file."""
    def why():
        folder = pathlib.Path("/sys/fs/cgroup") / controller
        if not (folder / "cgroup.procs").exists():
            return f"the host has no controller '{controller}' of cgroup version 1"
        if not any((group / file).exists() for file in files for group in [folder, *folder.glob("*/")]):
            return f"this kernel has no {files[0]}"
        return None
    return why


def resources(part, value):
    return {f"/linux/resources/{part}": value}


def cat(controller, *files):
    return "cd /sys/fs/cgroup/" + controller + "; cat " + " ".join(files)


def disk():
    """The numbers of a whole disk, which throttles want."""
    for name in sorted(os.listdir("/sys/block")):
        if not name.startswith(("loop", "ram", "zram", "dm-", "sr")):
            major, minor = pathlib.Path(f"/sys/block/{name}/dev").read_text().split(":")
            return int(major), int(minor)
    return 0, 0


MAJOR, MINOR = disk()
NEEDS_DISK = "needs a disk"


def throttle(rate, **change):
    return [{"major": MAJOR, "minor": MINOR, "rate": rate, **change}]


def throttle_row(field, file):
    bad = [(resources(f"blockIO/{field}", throttle(-1)), f"{field}/0/rate"), (resources(f"blockIO/{field}", throttle("1")), f"{field}/0/rate"),
           (resources(f"blockIO/{field}", [{"major": MAJOR, "rate": 1}]), "'minor' is missing"),
           (resources(f"blockIO/{field}", throttle(1, major="x")), f"{field}/0/major"), (resources(f"blockIO/{field}", throttle(1, minor=9999)), "throttle")]
    needed = v1("blkio", f"blkio.throttle.{file}")
    return Row(" ".join(f"/linux/resources/blockIO/{field}/*/{key}" for key in ("major", "minor", "rate")),
               resources(f"blockIO/{field}", throttle(123456)), f"^{MAJOR}:{MINOR} 123456$", cat("blkio", f"blkio.throttle.{file}"), bad=bad,
               why_skipped=lambda: needed() or (None if MAJOR else NEEDS_DISK))


def rule(**fields):
    return {"/linux/resources/devices": [{"allow": False, "access": "rwm"}, {"allow": True, **fields}],
            "/linux/devices": [{"path": "/dev/mine", "type": "c", "major": 10, "minor": 237, "fileMode": 0o666}]}


READ = "(exec 3</dev/mine && echo read); (exec 3>/dev/mine && echo written); true" # opening it does nothing
MEMORY = v1("memory", "memory.limit_in_bytes")
CPU = v1("cpu", "cpu.shares")
NO_DEVICES = v1("devices", "devices.list")
DEVICES = lambda: NO_DEVICES() or (None if os.path.exists("/dev/loop-control") else "needs /dev/loop-control") # noqa: E731
M32, M48, M16 = 32 << 20, 48 << 20, 16 << 20

ROWS = [
    Row("/linux/resources/memory/limit", resources("memory/limit", M32), f"^{M32}$", cat("memory", "memory.limit_in_bytes"), bad=[
        (resources("memory/limit", -2), "memory/limit"), (resources("memory/limit", 1 << 63), "memory/limit|must be"),
        (resources("memory/limit", "32m"), "memory/limit")], why_skipped=MEMORY),
    Row("/linux/resources/memory/limit", resources("memory/limit", -1), "^9223372036854771712$", cat("memory", "memory.limit_in_bytes"), why_skipped=MEMORY),
    Row("/linux/resources/memory/swap", resources("memory", {"limit": M32, "swap": M48}), f"^{M48}$", cat("memory", "memory.memsw.limit_in_bytes"),
        bad=[(resources("memory", {"limit": M32, "swap": M16}), "memsw"), (resources("memory/swap", -2), "memory/swap")],
        why_skipped=v1("memory", "memory.memsw.limit_in_bytes")),
    Row("/linux/resources/memory/reservation", resources("memory/reservation", M16), f"^{M16}$", cat("memory", "memory.soft_limit_in_bytes"),
        bad=[(resources("memory/reservation", -2), "memory/reservation")], why_skipped=MEMORY),
    Row("/linux/resources/memory/swappiness", resources("memory/swappiness", 10), "^10$", cat("memory", "memory.swappiness"),
        bad=[(resources("memory/swappiness", 201), "swappiness"), (resources("memory/swappiness", -1), "swappiness")], why_skipped=MEMORY),
    Row("/linux/resources/memory/disableOOMKiller", resources("memory/disableOOMKiller", True), "^oom_kill_disable 1$",
        cat("memory", "memory.oom_control"), why_skipped=MEMORY),
    Row("/linux/resources/memory/useHierarchy", resources("memory/useHierarchy", True), "^1$", cat("memory", "memory.use_hierarchy"), why_skipped=MEMORY),
    Row("/linux/resources/memory/kernelTCP", resources("memory/kernelTCP", 1 << 20), f"^{1 << 20}$", cat("memory", "memory.kmem.tcp.limit_in_bytes"),
        bad=[(resources("memory/kernelTCP", -2), "kernelTCP")], why_skipped=v1("memory", "memory.kmem.tcp.limit_in_bytes")),
    Row("/linux/resources/memory/checkBeforeUpdate", resources("memory/checkBeforeUpdate", True), "ran", "echo ran"),
    Row("/linux/resources/cpu/shares", resources("cpu/shares", 512), "^512$", cat("cpu", "cpu.shares"),
        bad=[(resources("cpu/shares", -1), "cpu/shares")], why_skipped=CPU),
    Row("/linux/resources/cpu/quota /linux/resources/cpu/period", resources("cpu", {"quota": 20000, "period": 50000}), "^20000\n50000$",
        cat("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"), bad=[
            (resources("cpu/quota", 1), "quota"), (resources("cpu/quota", -2), "cpu/quota"), (resources("cpu/period", -1), "cpu/period"),
            (resources("cpu/period", 1), "period")], why_skipped=CPU),
    Row("/linux/resources/cpu/burst", resources("cpu", {"quota": 20000, "period": 50000, "burst": 1000}), "^1000$", cat("cpu", "cpu.cfs_burst_us"),
        bad=[(resources("cpu/burst", -1), "cpu/burst"), (resources("cpu", {"quota": 20000, "burst": 90000}), "burst")],
        why_skipped=v1("cpu", "cpu.cfs_burst_us")),
    Row("/linux/resources/cpu/idle", resources("cpu/idle", 1), "^1$", cat("cpu", "cpu.idle"), bad=[(resources("cpu/idle", 2), "cpu/idle")],
        why_skipped=v1("cpu", "cpu.idle")),
    Row("/linux/resources/cpu/realtimePeriod", resources("cpu/realtimePeriod", 500000), "^500000$", cat("cpu", "cpu.rt_period_us"),
        bad=[(resources("cpu/realtimePeriod", -1), "realtimePeriod"), (resources("cpu/realtimePeriod", 1 << 63), "rt_period|realtimePeriod")],
        why_skipped=v1("cpu", "cpu.rt_period_us")),
    Row("/linux/resources/cpu/realtimeRuntime", resources("cpu/realtimeRuntime", 0), "^0$", cat("cpu", "cpu.rt_runtime_us"), # the groups above have none to give
        bad=[(resources("cpu/realtimeRuntime", 2000000), "rt_runtime|realtimeRuntime"), (resources("cpu/realtimeRuntime", -2), "realtimeRuntime")],
        why_skipped=v1("cpu", "cpu.rt_runtime_us")),
    Row("/linux/resources/cpu/cpus", resources("cpu/cpus", "0"), "^0$", cat("cpuset", "cpuset.cpus"),
        bad=[(resources("cpu/cpus", "4095"), "cpuset.cpus"), (resources("cpu/cpus", "one"), "cpuset.cpus")], why_skipped=v1("cpuset", "cpuset.cpus")),
    Row("/linux/resources/cpu/mems", resources("cpu/mems", "0"), "^0$", cat("cpuset", "cpuset.mems"),
        bad=[(resources("cpu/mems", "1023"), "cpuset.mems"), (resources("cpu/mems", "one"), "cpuset.mems")], why_skipped=v1("cpuset", "cpuset.mems")),
    Row("/linux/resources/pids/limit", resources("pids/limit", 20), "^20$", cat("pids", "pids.max"), bad=[
        (resources("pids", {}), "'limit' is missing"), (resources("pids/limit", -2), "pids/limit"), (resources("pids/limit", "20"), "pids/limit")],
        why_skipped=v1("pids", "pids.max")),
    Row("/linux/resources/pids/limit", resources("pids/limit", -1), "^max$", cat("pids", "pids.max"), why_skipped=v1("pids", "pids.max")),
    Row("/linux/resources/blockIO/weight", resources("blockIO/weight", 500), "^(default )?500$", cat("blkio", "blkio.*weight 2>/dev/null"),
        bad=[(resources("blockIO/weight", 65536), "blockIO/weight"), (resources("blockIO/weight", 5000), "weight")],
        why_skipped=v1("blkio", "blkio.weight", "blkio.bfq.weight")),
    Row(" ".join(f"/linux/resources/blockIO/weightDevice/*/{key}" for key in ("major", "minor", "weight")),
        resources("blockIO/weightDevice", [{"major": MAJOR, "minor": MINOR, "weight": 400}]), f"^{MAJOR}:{MINOR} 400$|weight",
        cat("blkio", "blkio.*weight_device 2>/dev/null") + " || echo weight", bad=[
            (resources("blockIO/weightDevice", [{"major": MAJOR, "weight": 1}]), "'minor' is missing"),
            (resources("blockIO/weightDevice", [{"major": MAJOR, "minor": MINOR, "weight": 65536}]), "weightDevice/0/weight")],
        why_skipped=v1("blkio", "blkio.weight_device", "blkio.bfq.weight_device")),
    throttle_row("throttleReadBpsDevice", "read_bps_device"), throttle_row("throttleWriteBpsDevice", "write_bps_device"),
    throttle_row("throttleReadIOPSDevice", "read_iops_device"), throttle_row("throttleWriteIOPSDevice", "write_iops_device"),
    Row(" ".join(f"/linux/resources/devices/*/{key}" for key in ("allow", "type", "major", "minor", "access")),
        rule(type="c", major=10, minor=237, access="rwm"), "^read\nwritten$", READ, bad=[
            ({"/linux/resources/devices": [{"access": "rwm"}]}, "'allow' is missing"), (rule(type="x"), "devices/1/type"), (rule(type="c", access="q"), "access"),
            (rule(type="c", major="1"), "devices/1/major"), (rule(type="c", minor="5"), "devices/1/minor")], why_skipped=DEVICES),
    Row("/linux/resources/devices/*/access", rule(type="c", major=10, minor=237, access="r"), "^read\n.*not permitted", READ, why_skipped=DEVICES),
    Row("/linux/resources/devices/*/minor", rule(type="c", major=10, minor=236, access="rwm"), "not permitted", READ, why_skipped=DEVICES),
    Row("/linux/resources/devices/*/type", rule(type="b", major=10, minor=237, access="rwm"), "not permitted", READ, why_skipped=DEVICES),
    Row("/linux/resources/hugepageLimits/*/pageSize /linux/resources/hugepageLimits/*/limit",
        resources("hugepageLimits", [{"pageSize": "2MB", "limit": 4 << 20}]), f"^{4 << 20}$", cat("hugetlb", "hugetlb.2MB.limit_in_bytes"), bad=[
            (resources("hugepageLimits", [{"pageSize": "2MB"}]), "'limit' is missing"), (resources("hugepageLimits", [{"limit": 1}]), "'pageSize' is missing"),
            (resources("hugepageLimits", [{"pageSize": "../x", "limit": 1}]), "hugepageLimits"), (resources("hugepageLimits", [{"pageSize": "2MB", "limit": -1}]), "hugepageLimits/0/limit"),
            (resources("hugepageLimits", [{"pageSize": "3MB", "limit": 1}]), "3MB|hugetlb")], why_skipped=v1("hugetlb", "hugetlb.2MB.limit_in_bytes")),
    Row("/linux/resources/network/classID", resources("network/classID", 0x100001), f"^{0x100001}$", cat("net_cls", "net_cls.classid"),
        bad=[(resources("network/classID", -1), "classID"), (resources("network/classID", 1 << 32), "classID")], why_skipped=v1("net_cls", "net_cls.classid")),
    Row("/linux/resources/network/priorities/*/name /linux/resources/network/priorities/*/priority",
        resources("network/priorities", [{"name": "lo", "priority": 3}]), "^lo 3$", cat("net_prio", "net_prio.ifpriomap"), bad=[
            (resources("network/priorities", [{"name": "lo"}]), "'priority' is missing"), (resources("network/priorities", [{"priority": 1}]), "'name' is missing"),
            (resources("network/priorities", [{"name": "lo", "priority": -1}]), "priorities/0/priority")], why_skipped=v1("net_prio", "net_prio.ifpriomap")),
    Row("/linux/resources/rdma/*/hcaHandles /linux/resources/rdma/*/hcaObjects", {}, "ran", "echo ran", bad=[
        (resources("rdma", {"mlx": {"hcaHandles": -1}}), "hcaHandles"), (resources("rdma", {"mlx": {"hcaObjects": 1 << 32}}), "hcaObjects"),
        (resources("rdma", {"nosuch": {"hcaHandles": 3, "hcaObjects": 10}}), "rdma")]),
    Row("/linux/resources/unified/*", {}, "ran", "echo ran", bad=[
        (resources("unified", {"cgroup.procs": "1"}), "unified"), (resources("unified", {"../memory.high": "1"}), "unified"),
        (resources("unified", {"memory.high": 5}), "unified/memory.high"), (resources("unified", {"memory.nosuch": "1"}), "unified|memory.nosuch")]),
]
