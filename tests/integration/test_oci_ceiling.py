"""pinfold-oci under a policy: what an engine's bundle may ask for, and what it gets."""
import json
import os
import shutil
import subprocess

import pytest

from oci_world import FILTER, NETWORK_NONE, governed, oci, without  # noqa: F401 (fixtures)


# what is granted

def test_what_engines_send_by_default_runs_with_both_filters(governed):  # noqa: F811
    done = governed.run("cat", "/proc/self/status")
    assert done.returncode == 0, done.stderr
    status = dict(line.split(":\t", 1) for line in done.stdout.decode().splitlines() if ":\t" in line)
    assert status["Seccomp_filters"] == "2"


def test_without_a_policy_it_is_a_plain_runtime_and_says_so(oci, governed):  # noqa: F811
    assert json.loads(oci.ok("features").stdout)["annotations"]["io.pinfold.ceiling"] == "none"
    assert json.loads(governed.ok("features").stdout)["annotations"]["io.pinfold.ceiling"] == "oci"
    assert oci.run("true", hooks={"prestart": [{"path": "/bin/true"}]}).returncode == 0


def test_limits_that_a_bundle_leaves_open_are_the_policy_s(governed):  # noqa: F811
    governed.under(resources={"files": 99, "core": 0})
    done = governed.run("sh", "-c", "ulimit -n; ulimit -c", process__rlimits=[])
    assert done.stdout.split() == [b"99", b"0"], done.stderr


def test_a_tmpfs_without_a_size_gets_the_policy_s(governed):  # noqa: F811
    governed.under(filesystem={"tmp": "3MiB"})
    folder = governed.bundle("cat", "/proc/mounts")
    config = json.loads((folder / "config.json").read_text())
    config["mounts"] = [m for m in config["mounts"] if m["type"] != "tmpfs"]
    config["mounts"] += [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}]
    (folder / "config.json").write_text(json.dumps(config))
    done = governed.call("run", "--bundle", folder, governed.name())
    assert b" /tmp tmpfs rw,relatime,size=3072k" in done.stdout, done.stderr + done.stdout


# what is refused

def bind(source, target="/mnt", *options):
    return {"destination": target, "type": "bind", "source": source, "options": ["rbind", *options]}


def with_mounts(*more):
    return {"mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, *more]}


MAPS = [{"containerID": 0, "hostID": 0, "size": 1000}]
OWN = [{"containerID": 0, "hostID": 200000, "size": 65536}]
USERNS = {"linux__namespaces": [*NETWORK_NONE, {"type": "user"}]}
REFUSED = {
    "host ids": ({**USERNS, "linux__uidMappings": MAPS, "linux__gidMappings": OWN}, b"/linux/uidMappings"),
    "host groups": ({**USERNS, "linux__uidMappings": OWN, "linux__gidMappings": MAPS}, b"/linux/gidMappings"),
    "a user's ids": ({**USERNS, "linux__uidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
                      "linux__gidMappings": OWN}, b"/linux/uidMappings"),
    "writable host path": (with_mounts(bind("/etc")), b"/engine/write"),
    "readable host path": (with_mounts(bind("/etc", "/mnt", "ro")), b"/engine/read"),
    "the whole host": (with_mounts(bind("/")), b"/engine/write"),
    "a way around the roots": (with_mounts(bind("/var/lib/docker/volumes/../../../../etc")), b"can't be bound"),
    "root of the host": ({"root__path": "/"}, b"/engine/roots"),
    "root outside": ({"root__path": "../rootfs"}, b"/root/path"),
    "hook": ({"hooks": {"prestart": [{"path": "/bin/true"}]}}, b"/engine/hooks"),
    "hook of another name": ({"hooks": {"poststop": [{"path": "/usr/sbin/dockerd", "args": ["other"]}]}}, b"/engine/hooks"),
    "hook with a variable": ({"hooks": {"prestart": [{"path": "/usr/sbin/dockerd", "args": ["libnetwork-setkey"],
                                                     "env": ["LD_PRELOAD=/var/lib/docker/volumes/x/so"]}]}}, b"would change"),
    "hook inside": ({"hooks": {"startContainer": [{"path": "/bin/true"}]}}, b"/hooks/startContainer"),
    "seccomp off": ({"linux__seccomp": None}, b"/engine/unfiltered"),
    "a filter of nothing": ({"linux__seccomp": {"defaultAction": "SCMP_ACT_ALLOW"}}, b"/engine/unfiltered"),
    "an agent": ({"linux__seccomp": {**FILTER, "listenerPath": "/run/x", "syscalls": [
        {"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]}}, b"/linux/seccomp"),
    "an agent for all else": ({"linux__seccomp": {**FILTER, "defaultAction": "SCMP_ACT_NOTIFY", "listenerPath": "/run/x"}},
                              b"/linux/seccomp"),
    "host pid": (without("pid"), b"/engine/shares"), "host network": (without("network"), b"/engine/shares"),
    "host ipc": (without("ipc"), b"/engine/shares"), "host uts": ({**without("uts"), "hostname": ""}, b"/engine/shares"),
    "capability": ({"process__capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}, b"/capabilities"),
    "ambient capability": ({"process__capabilities": {"ambient": ["CAP_SYS_PTRACE"]}}, b"/capabilities"),
    "device": ({"linux__devices": [{"type": "c", "path": "/dev/kmsg", "major": 1, "minor": 11}]}, b"/linux/devices"),
    "device by another name": ({"linux__devices": [{"type": "c", "path": "/dev/null", "major": 1, "minor": 11}]},
                               b"/linux/devices"),
    "device rule": ({"linux__resources": {"devices": [{"allow": True, "access": "rwm"}]}}, b"/linux/resources/devices"),
    "unmasked": ({"linux__maskedPaths": []}, b"/linux/maskedPaths"),
    "writable sysctls": ({"linux__readonlyPaths": []}, b"/linux/readonlyPaths"),
    "writable sysfs": (with_mounts({"destination": "/sys", "type": "sysfs", "source": "sysfs"}), b"/mounts/1"),
    "writable cgroups": (with_mounts({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}), b"/mounts/1"),
    "over proc": (with_mounts({"destination": "/proc/sys", "type": "tmpfs", "source": "tmpfs"}), b"/mounts/1"),
    "bind over proc": (with_mounts(bind("/var/lib/docker/volumes/x", "/proc/sys")), b"/mounts/1"),
    "debugfs": (with_mounts({"destination": "/d", "type": "debugfs", "source": "debugfs"}), b"/mounts/1"),
    "a block device": (with_mounts({"destination": "/d", "type": "ext4", "source": "/dev/vda"}), b"/mounts/1"),
    "mounts travel": ({"linux__rootfsPropagation": "shared"}, b"/linux/rootfsPropagation"),
    "shared bind": (with_mounts(bind("/var/lib/docker/volumes/x", "/mnt", "rshared")), b"/mounts/1"),
    "host sysctl": ({"linux__sysctl": {"kernel.core_pattern": "|/x"}}, b"/linux/sysctl"),
    "injected sysctl": ({"linux__sysctl": {"kernel.shm_rmid_forced": "1\nkernel.core_pattern=|/x"}}, b"/linux/sysctl"),
    "group of others": ({"linux__cgroupsPath": "/pinfold-ceiling-test"}, b"/engine/cgroups"),
    "a way around the groups": ({"linux__cgroupsPath": "/docker/../x"}, b"/linux/cgroupsPath"),
    "never killed": ({"process__oomScoreAdj": -1000}, b"/process/oomScoreAdj"),
    "real time": ({"process__scheduler": {"policy": "SCHED_FIFO", "priority": 10}}, b"/process/scheduler"),
    "real-time limit": ({"process__rlimits": [{"type": "RLIMIT_RTPRIO", "soft": 9, "hard": 9}]}, b"/process/rlimits"),
    "no oom killer": ({"linux__resources": {"memory": {"disableOOMKiller": True}}}, b"disableOOMKiller"),
    "raw cgroup file": ({"linux__resources": {"unified": {"memory.min": "1"}}}, b"/linux/resources/unified"),
    "a block": ({"pinfold": {"labels": {}}}, b"/pinfold"),
    "secrets": ({"annotations": {"io.pinfold.secrets": '["KEY"]'}}, b"io.pinfold.secrets"),
    "egress": ({"annotations": {"io.pinfold.egress": '[{"to": "api.example.com", "ports": ["443"], "protocol": "tcp"}]'}},
               b"/network/egress"),
}


# what a plain runtime can't do here either, and why: these have no control

IMPOSSIBLE = {
    "hook of another name": "ends with an error", "hook with a variable": "ends with an error", "hook inside": "no such program inside",
    "an agent": "there is no agent", "an agent for all else": "there is no agent", "root outside": "there is no such root",
    "a way around the roots": "the folder may be missing", "a way around the groups": "refused by everybody", "bind over proc": "the folder is missing", "shared bind": "the folder is missing",
    "a block device": "this disk can't be mounted", "host sysctl": "no namespace has it", "injected sysctl": "the kernel refuses the value",
    "never killed": "root may lack CAP_SYS_RESOURCE", "real time": "the group may have no real time", "a block": "a policy has to grant it",
    "raw cgroup file": "needs cgroup v2", "secrets": "a policy has to grant it", "egress": "a policy has to grant it",
    "root of the host": "its /bin/true would run on the host's mounts", "real-time limit": "above the caller's own",
    "no oom killer": "needs cgroup v1"}


@pytest.mark.parametrize("case", REFUSED)
def test_what_breaks_the_wall_is_refused_by_name_and_runs_without_the_ceiling(governed, oci, case):  # noqa: F811
    changes, words = REFUSED[case]
    done = governed.run("true", **changes)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    if case not in IMPOSSIBLE:
        oci.count = 100 # the two share a folder
        plain = oci.run("true", **{"linux__seccomp": FILTER, **changes})
        assert plain.returncode == 0, plain.stderr


def under_manager(governed, manager, *args, **changes):  # noqa: F811
    argv = governed.argv("run", "--bundle", governed.bundle(*args, **changes), governed.name())
    verb = argv.index("run")
    return subprocess.run([*argv[:verb], "--cgroup-manager", manager, *argv[verb:]], capture_output=True, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, "PINFOLD_LIBEXEC": str(governed.program.parent), **governed.env})


def test_a_container_without_a_group_has_neither_devices_nor_a_way_past_the_limits(governed):  # noqa: F811
    own = {**USERNS, "linux__uidMappings": OWN, "linux__gidMappings": OWN}
    refused = under_manager(governed, "disabled", "true")
    assert refused.returncode == 1 and b"--cgroup-manager" in refused.stderr and b"devices" in refused.stderr, refused.stderr
    assert under_manager(governed, "cgroupfs", "true").returncode == 0
    os.chmod(governed.bundle("true") / "rootfs", 0o755)
    done = under_manager(governed, "disabled", "echo", "ran", **own)
    assert done.returncode == 0 and done.stdout == b"ran\n", done.stderr
    governed.under(resources={"pids": 20})
    refused = under_manager(governed, "disabled", "true", **own)
    assert refused.returncode == 1 and b"--cgroup-manager" in refused.stderr, refused.stderr


def test_a_group_of_the_bundle_s_is_where_the_policy_lets_it_be(governed):  # noqa: F811
    place = f"pinfold-ceiling-{os.getpid()}"
    governed.under(engine={"cgroups": {"add": [f"/{place}"]}})
    done = governed.run("cat", "/proc/self/cgroup", linux__cgroupsPath=f"/{place}")
    assert done.returncode == 0 and f":/{place}\n".encode() in done.stdout, (done.stdout, done.stderr)


def test_every_field_is_listed_at_once(governed):  # noqa: F811
    done = governed.run("true", process__oomScoreAdj=-1000, linux__seccomp=None, root__path="/",
                        hooks={"prestart": [{"path": "/bin/true"}]}, linux__sysctl={"vm.swappiness": "1"})
    for words in (b"oomScoreAdj", b"unfiltered", b"/engine/roots", b"/engine/hooks", b"vm.swappiness"):
        assert words in done.stderr
    assert not governed.root.exists() or list(governed.root.iterdir()) == []


def test_the_host_s_namespace_is_refused_by_its_path_too(governed):  # noqa: F811
    spaces = [ns if ns["type"] != "network" else {"type": "network", "path": f"/proc/{os.getpid()}/ns/net"} for ns in NETWORK_NONE]
    done = governed.run("true", linux__namespaces=spaces)
    assert done.returncode == 1 and b"host's own network namespace" in done.stderr, done.stderr


def test_a_container_s_namespace_may_be_joined(governed):  # noqa: F811
    name = governed.start("sleep", "60")
    pid = governed.state(name)["pid"]
    spaces = [ns if ns["type"] != "network" else {"type": "network", "path": f"/proc/{pid}/ns/net"} for ns in NETWORK_NONE]
    done = governed.run("ls", "-l", "/proc/self/ns/net", linux__namespaces=spaces)
    assert os.readlink(f"/proc/{pid}/ns/net").encode() in done.stdout, done.stderr


def test_a_link_in_the_place_of_the_root_or_of_a_bind_is_refused(governed, tmp_path):  # noqa: F811
    folder = governed.bundle("true")
    shutil.rmtree(folder / "rootfs")
    os.symlink("/", folder / "rootfs")
    done = governed.call("run", "--bundle", folder, governed.name())
    assert done.returncode == 1 and b"symbolic link" in done.stderr, done.stderr
    (tmp_path / "volume").mkdir()
    os.symlink("/etc", tmp_path / "volume/link")
    governed.under(engine={"write": [str(tmp_path / "volume")]})
    done = governed.run("true", **with_mounts(bind(str(tmp_path / "volume/link"))))
    assert done.returncode == 1 and b"symbolic link" in done.stderr, done.stderr


def test_hooks_binds_and_roots_that_are_listed_are_granted(governed, tmp_path):  # noqa: F811
    (tmp_path / "data").mkdir()
    os.symlink("/bin/sh", tmp_path / "hook")
    governed.under(engine={"write": [str(tmp_path / "data")], "hooks": [f"{os.path.realpath('/bin/sh')} x"]})
    done = governed.run("touch", "/mnt/inside", hooks={"prestart": [{"path": str(tmp_path / "hook"), "args": [
        "x", "-c", f"touch {tmp_path}/ran"]}]}, **with_mounts(bind(str(tmp_path / "data"))))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data/inside").exists() and (tmp_path / "ran").exists()


def test_a_hook_s_link_that_is_turned_after_create_is_judged_again(governed, tmp_path):  # noqa: F811
    (tmp_path / "data").mkdir()
    os.symlink(os.path.realpath("/bin/true"), tmp_path / "data/hook")
    governed.under(engine={"write": [str(tmp_path / "data")], "hooks": [f"{os.path.realpath('/bin/true')} x"]})
    (tmp_path / "evil").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    os.chmod(tmp_path / "evil", 0o755)
    hook = {"path": str(tmp_path / "data/hook"), "args": ["x"]}
    name = governed.start("true", hooks={"poststop": [hook]}, **with_mounts(bind(str(tmp_path / "data"))))
    governed.wait(name)
    os.unlink(hook["path"])
    os.symlink(tmp_path / "evil", hook["path"]) # as whoever writes to the bind can
    done = governed.call("delete", name)
    assert b"does not grant" in done.stderr and not (tmp_path / "ran").exists(), done.stderr


@pytest.mark.parametrize("options", [["ro"], ["rrw", "ro"]])
def test_what_may_be_read_can_not_be_written_beneath_other_mounts_either(governed, tmp_path, options):  # noqa: F811
    below = tmp_path / "data/below"
    below.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", below], check=True)
    try:
        governed.under(engine={"read": [str(tmp_path / "data")]})
        done = governed.run("sh", "-c", "touch /mnt/x; touch /mnt/below/x; true",
                            **with_mounts(bind(str(tmp_path / "data"), "/mnt", *options)))
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "data/x").exists() and not (below / "x").exists()
    finally:
        subprocess.run(["umount", below], check=True)


DISK = [{"containerID": 0, "hostID": 200000, "size": 65536}]


def run_idmapped(runtime, data, maps, *options):
    """With a user namespace of its own, and the folder at /mnt with other ids on the disk: by maps of the mount, or its own."""
    mount = {**bind(str(data), "/mnt", *options), **({"uidMappings": maps, "gidMappings": maps} if maps else {})}
    dev = {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=1m"]}
    folder = runtime.bundle("sh", "-c", "busybox cp /bin/busybox /mnt/left && busybox chmod 4755 /mnt/left; true", **with_mounts(dev, mount), **USERNS,
                            linux__uidMappings=OWN, linux__gidMappings=OWN)
    (folder / "rootfs/mnt").mkdir()
    return runtime.call("run", "--bundle", folder, runtime.name())


def test_an_idmapped_mount_leaves_no_set_id_program_of_the_host_s_root(governed, oci, tmp_path):  # noqa: F811
    data = tmp_path / "data"
    data.mkdir()
    oci.count = 100 # the two share a folder
    done = run_idmapped(oci, data, DISK)
    assert done.returncode == 0, done.stderr
    left = os.stat(data / "left")
    assert left.st_uid == 0 and left.st_mode & 0o4000 # so it is without a policy
    (data / "left").unlink()
    for fields in ({"engine": {"write": [str(data)], "shares": {"remove": ["user"]}}},
                   {"engine": {"write": [str(data)]}, "identity": {"user": 1000, "group": 1000}}):
        governed.under(**fields)
        for refused in (run_idmapped(governed, data, DISK), run_idmapped(governed, data, None, "idmap")):
            assert refused.returncode == 1 and b"the host's id 0 at '/mnt'" in refused.stderr, refused.stderr
    governed.under(engine={"write": [str(data)], "shares": {"remove": ["user"]}})
    os.chown(data, 200000, 200000)
    assert run_idmapped(governed, data, DISK, "ro").returncode == 0 and not (data / "left").exists()
    assert run_idmapped(governed, data, [{**DISK[0], "containerID": 200000}]).returncode == 0
    assert os.stat(data / "left").st_uid == 200000


def test_groups_are_the_policy_s_in_create_and_exec(governed):  # noqa: F811
    governed.under(identity={"user": 65534, "group": 65534}, capabilities=[])
    user = {"process__user": {"uid": 65534, "gid": 65534}, "process__capabilities": {}}
    more = {"process__user": {"uid": 65534, "gid": 65534, "additionalGids": [6]}, "process__capabilities": {}}
    assert b"/process/user/additionalGids" in governed.run("true", **more).stderr
    name = governed.start("sleep", "60", **user)
    assert b"/process/user/additionalGids" in governed.call("exec", "--additional-gids", "6", name, "true").stderr


def test_privileged_takes_devices_and_masks_but_no_hooks(governed):  # noqa: F811
    governed.under(privileged=True, engine={"unfiltered": True})
    rules = {"linux__resources": {"devices": [{"allow": True, "access": "rwm"}]}, "linux__maskedPaths": [],
             "linux__readonlyPaths": [], "linux__seccomp": None}
    assert governed.run("true", **rules).returncode == 0
    assert governed.run("true", hooks={"prestart": [{"path": "/bin/true"}]}, **rules).returncode == 1


# exec and update are under the same ceiling

def test_exec_gets_no_more_than_the_container(governed, tmp_path):  # noqa: F811
    name = governed.start("sleep", "60")
    assert b"/capabilities" in governed.call("exec", "--cap", "CAP_SYS_ADMIN", name, "true").stderr
    process = {"args": ["true"], "cwd": "/", "user": {"uid": 0, "gid": 0},
               "capabilities": {"bounding": ["CAP_SYS_ADMIN"], "effective": ["CAP_SYS_ADMIN"]}}
    (tmp_path / "process.json").write_text(json.dumps(process))
    assert b"/capabilities" in governed.call("exec", "--process", tmp_path / "process.json", name).stderr
    done = governed.ok("exec", name, "cat", "/proc/self/status")
    assert b"Seccomp_filters:\t2" in done.stdout


def test_exec_holds_to_the_policy_of_create_and_not_to_the_command_line(governed):  # noqa: F811
    governed.under(name="narrow")
    name = governed.start("sleep", "60")
    governed.under(name="wide", capabilities={"add": ["CAP_SYS_ADMIN"]})
    assert b"/capabilities" in governed.call("exec", "--cap", "CAP_SYS_ADMIN", name, "true").stderr


def test_update_raises_nothing_above_the_policy(governed):  # noqa: F811
    governed.under(resources={"memory": "64MiB", "swap": "64MiB", "pids": 20})
    name = governed.start("sleep", "60")
    assert b"/resources/pids" in governed.call("update", "--pids-limit", "50", name).stderr
    assert b"/resources/memory" in governed.call("update", "--memory", str(128 << 20), name).stderr
    governed.ok("update", "--pids-limit", "10", name)
    assert b"/resources/pids" in governed.run("true", linux__resources={"pids": {"limit": 21}}).stderr


def test_half_of_a_limit_changes_no_other_half(governed):  # noqa: F811
    governed.under(resources={"cpus": 0.5, "memory": "128MiB", "swap": 0})
    name = governed.start("sleep", "60", linux__resources={"memory": {"limit": 32 << 20}})
    assert b"/cpu/period" in governed.call("update", "--cpu-period", "1000", name).stderr
    assert b"/memory/swap" in governed.call("update", "--memory-swap", str(128 << 20), name).stderr
    (governed.home / "half.json").write_text(json.dumps({"cpu": {"period": 1000}}))
    assert b"/cpu/period" in governed.call("update", "--resources", governed.home / "half.json", name).stderr
    governed.ok("update", "--cpu-period", "50000", "--cpu-quota", "25000", name)


def test_a_limit_of_zero_asks_for_nothing_and_lifts_none(governed):  # noqa: F811
    governed.under(resources={"pids": 20, "memory": "64MiB", "swap": "64MiB", "cpus": 0.5})
    zero = {"pids": {"limit": 0}, "memory": {"limit": 0, "swap": 0, "reservation": 0}, "cpu": {"quota": 0, "period": 0, "shares": 0}}
    script = "cd /sys/fs/cgroup; cat pids*/pids.max memory*/memory.limit_in_bytes cpu*/cpu.cfs_quota_us || cat pids.max memory.max cpu.max"
    name = governed.start("sleep", "60", linux__resources=zero)
    before = governed.ok("exec", name, "sh", "-c", script).stdout.split()
    assert before[:3] in ([b"20", str(64 << 20).encode(), b"50000"],), before
    governed.ok("update", "--resources", "-", name, input=json.dumps(zero).encode())
    assert governed.ok("exec", name, "sh", "-c", script).stdout.split() == before


# which policy counts

def annotated(name):
    return {"annotations": {"io.pinfold.policy": name}}


def test_a_bundle_may_choose_less_and_never_more(governed, tmp_path):  # noqa: F811
    folder = tmp_path / "installed"
    folder.mkdir()
    for name, fields in {"less": {"capabilities": []}, "more": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}}.items():
        (folder / f"{name}.json").write_text(json.dumps({"pinfold": 1, "name": name, "extends": ["oci"], **fields}))
    governed.env["PINFOLD_POLICY_PATH"] = str(folder)
    done = governed.run("true", **annotated("more"))
    assert done.returncode == 1 and b"grants more than 'oci'" in done.stderr, done.stderr
    done = governed.run("true", **annotated("less"))
    assert done.returncode == 1 and b"'less' grants []" in done.stderr, done.stderr
    assert governed.run("true", process__capabilities={}, **annotated("less")).returncode == 0
    for name in ("../more", str(folder / "more.json"), "more.json", ""):
        assert governed.run("true", **annotated(name)).returncode == 1


def test_without_an_operator_s_policy_an_annotation_is_still_a_ceiling(oci, governed):  # noqa: F811
    done = oci.run("true", linux__seccomp=None, **annotated("oci"))
    assert done.returncode == 1 and b"/engine/unfiltered" in done.stderr


def test_a_policy_that_can_not_be_kept_beneath_an_engine_is_refused(governed):  # noqa: F811
    governed.policy = "tool"
    done = governed.run("true")
    for pointer in (b"/resources/wall_time", b"/resources/stdout"):
        assert pointer in done.stderr


@pytest.mark.parametrize("fault", ["{", '{"pinfold": 1, "hooks": []}', None])
def test_a_policy_that_can_not_be_read_is_no_policy_to_do_without(governed, tmp_path, fault):  # noqa: F811
    governed.policy = str(tmp_path / "broken.json")
    if fault is not None:
        (tmp_path / "broken.json").write_text(fault)
    assert governed.run("true").returncode == 1
