"""The fields of `mounts` and `linux` but its resources: see oci_fields.py."""
import json
import os
import pathlib
import socket
import subprocess

from oci_fields import GONE, Row, makes

SPACES = [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]
FILES = {"mount": "mnt", "network": "net"}


def mounted(**fields):
    return {"/mounts/-": {"destination": "/mnt", "type": "tmpfs", "source": "none", **fields}}


def bound(*options, **fields):
    return mounted(type="bind", source="{tmp}", options=["bind", *options], **fields)


def mount_of(pid, target):
    """Attributes of the mount, fields between, options of its file system: of the last mount at the target."""
    lines = [line.split() for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    line = [one for one in lines if one[4] == target][-1]
    dash = line.index("-")
    return set(line[5].split(",")), line[6:dash], set(line[dash + 3].split(",")), line[dash + 1]


def attribute(word, there=True):
    def check(case):
        assert (word in mount_of(case.pid, "/mnt")[0]) == there, mount_of(case.pid, "/mnt")
    return check


def option(word):
    def check(case):
        assert word in mount_of(case.pid, "/mnt")[2], mount_of(case.pid, "/mnt")
    return check


def below(option_words, word, target="/mnt/below", there=True, source="rw"):
    """A bind of a tree with a mount in it."""
    @makes
    def check(case):
        tree = case.tmp / "tree"
        (tree / "below").mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", source, "none", tree / "below"], check=True)
        try:
            case.config["mounts"].append({"destination": "/mnt", "type": "bind", "source": str(tree), "options": option_words})
            case.start()
            assert (word in mount_of(case.pid, target)[0]) == there, mount_of(case.pid, target)
        finally:
            case.call("delete", "--force", case.name)
            subprocess.run(["umount", tree / "below"], check=True)
    return check


def travels(word, mark):
    """What the mount's line of mountinfo says of its propagation; a slave needs a shared source."""
    @makes
    def check(case):
        tree = case.tmp / "tree"
        tree.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", tree], check=True)
        subprocess.run(["mount", "--make-shared", tree], check=True)
        try:
            case.config["mounts"].append({"destination": "/mnt", "type": "bind", "source": str(tree), "options": ["rbind", word]})
            case.start()
            fields = mount_of(case.pid, "/mnt")[1]
            assert (mark is None and fields == []) or any(mark is not None and one.startswith(mark) for one in fields), fields
        finally:
            case.call("delete", "--force", case.name)
            subprocess.run(["umount", tree], check=True)
    return check


FLAGS = [Row("/mounts/*/options/*", bound(word), attribute(shown)) for word, shown in {
    "ro": "ro", "nosuid": "nosuid", "nodev": "nodev", "noexec": "noexec", "noatime": "noatime", "nodiratime": "nodiratime",
    "nosymfollow": "nosymfollow", "rw": "rw", "relatime": "relatime", "defaults": "rw"}.items()]
FLAGS += [Row("/mounts/*/options/*", bound(no, yes), attribute(no, there=False)) for no, yes in {
    "ro": "rw", "nosuid": "suid", "nodev": "dev", "noexec": "exec", "nodiratime": "diratime", "nosymfollow": "symfollow",
    "noatime": "atime"}.items()]
FLAGS += [Row("/mounts/*/options/*", bound("strictatime"), attribute("relatime", there=False)),
          Row("/mounts/*/options/*", bound("strictatime", "nostrictatime"), attribute("relatime"))]
FLAGS += [Row("/mounts/*/options/*", {"/annotations": {"shows": word}}, below(["rbind", word], shown, source="ro" if word == "rrw" else "rw"))
          for word, shown in {
    "rro": "ro", "rnosuid": "nosuid", "rnodev": "nodev", "rnoexec": "noexec", "rnoatime": "noatime", "rnodiratime": "nodiratime",
    "rnosymfollow": "nosymfollow", "rrw": "rw", "ro": "rw"}.items()]
FLAGS += [Row("/mounts/*/options/*", {"/annotations": {"shows": " ".join(words)}}, below(["rbind", *words], shown, there=False))
          for words, shown in {("rnosuid", "rsuid"): "nosuid", ("rnodev", "rdev"): "nodev", ("rnoexec", "rexec"): "noexec",
                               ("rnodiratime", "rdiratime"): "nodiratime", ("rnosymfollow", "rsymfollow"): "nosymfollow",
                               ("rnoatime", "ratime"): "noatime", ("rstrictatime",): "relatime"}.items()]
FLAGS += [Row("/mounts/*/options/*", {"/annotations": {"shows": "rstrictatime rnostrictatime"}},
              below(["rbind", "rstrictatime", "rnostrictatime"], "relatime"))]
FLAGS += [Row("/mounts/*/options/*", {"/annotations": {"shows": word}}, travels(word, mark)) for word, mark in {
    "private": None, "rprivate": None, "shared": "shared:", "rshared": "shared:", "slave": "master:", "rslave": "master:",
    "unbindable": "unbindable", "runbindable": "unbindable"}.items()]
FLAGS += [Row("/mounts/*/options/*", mounted(options=[word]), option(shown)) for word, shown in {
    "size=1m": "size=1024k", "mode=700": "mode=700", "nr_inodes=50": "nr_inodes=50", "sync": "sync", "dirsync": "dirsync",
    "lazytime": "lazytime", "async": "rw", "nolazytime": "rw", "silent": "rw", "loud": "rw", "mand": "rw", "nomand": "rw",
    "noiversion": "rw"}.items()]

OWN = [{"containerID": 0, "hostID": 300000, "size": 65536}]
USERNS = {"/linux/namespaces/-": {"type": "user"}, "/linux/uidMappings": OWN, "/linux/gidMappings": OWN}
TO_1000 = [{"containerID": 0, "hostID": 1000, "size": 1}]


def idmapped(*options, **more):
    return bound(*options, uidMappings=[{"containerID": 0, "hostID": 1000, "size": 10}],
                 gidMappings=[{"containerID": 0, "hostID": 2000, "size": 10}], **more)


def owner_is_mapped(case):
    st = os.stat(f"/proc/{case.pid}/root/mnt/config.json")
    assert (st.st_uid, st.st_gid) == (1000, 2000), st


def owner_is_the_container_s(case):
    st = os.stat(f"/proc/{case.pid}/root/mnt/config.json")
    assert (st.st_uid, st.st_gid) == (300000, 300000), st # its root


MOUNTS = [
    Row("/mounts/*/destination /mounts/*/type /mounts/*/source", mounted(source="named"), "^named on /mnt type tmpfs", "mount", bad=[
        (mounted(destination="relative"), "/mounts/"), (mounted(destination=GONE) and {"/mounts/-": {"type": "tmpfs"}}, "'destination' is missing"),
        (mounted(type="nosuchfs"), "nosuchfs"), (mounted(type="bind", source="/no/such", options=["bind"]), "no such file"),
        (mounted(type="bind", options=["bind"], source=""), "/mounts/|source")]),
    Row("/mounts/*/destination", mounted(destination="/deep/er/made"), "/deep/er/made type tmpfs", "mount"),
    Row("/mounts/*/source", {"/mounts/-": {"destination": "/mnt/x", "type": "bind", "source": "config.json", "options": ["bind"]}},
        "ociVersion", "cat /mnt/x"), # relative to the bundle
    Row("/mounts/*/options/*", mounted(destination="/etc", options=["tmpcopyup"]), "^root:x", "mount | grep -q 'on /etc type tmpfs' && cat /etc/passwd",
        bad=[(mounted(options=["nosuchoption"]), "nosuchoption"), (mounted(options=["remount"]), "remount"), (mounted(options=["size=x"]), "size"),
             (mounted(options=["iversion"]), "iversion")]),
    Row(" ".join(f"/mounts/*/{kind}Mappings/*/{key}" for kind in ("uid", "gid") for key in ("containerID", "hostID", "size")),
        idmapped(), owner_is_mapped, bad=[
            (bound(uidMappings=[{"containerID": -1, "hostID": 1, "size": 1}]), "uidMappings/0/containerID"),
            (bound(uidMappings=[{"containerID": 0, "hostID": 1 << 32, "size": 1}]), "uidMappings/0/hostID"),
            (bound(uidMappings=[{"containerID": 0, "hostID": 1}]), "'size' is missing"),
            (bound(uidMappings=TO_1000), "/mounts/"), (bound(gidMappings=TO_1000), "/mounts/"),
            (bound(gidMappings=[{"containerID": 0, "hostID": 1, "size": -1}]), "gidMappings/0/size")]),
    *[Row("/mounts/*/options/*", {**bound(option), **USERNS}, owner_is_the_container_s, bad=[
        (bound(option), "without maps"), (bound(option + "=uids=0-1000-1;gids=0-1000-1"), option + "=uids=")])
      for option in ("idmap", "ridmap")],
]


# namespaces

def space_is_own(kind):
    def check(case):
        file = FILES.get(kind, kind)
        assert os.readlink(f"/proc/{case.pid}/ns/{file}") != os.readlink(f"/proc/self/ns/{file}")
    return check


def space_is_shared(kind):
    def check(case):
        file = FILES.get(kind, kind)
        assert os.readlink(f"/proc/{case.pid}/ns/{file}") == os.readlink(f"/proc/self/ns/{file}")
    return check


def joins(kind):
    """The namespace of another container."""
    @makes
    def check(case):
        other = case.runtime.case({"/linux/namespaces": [*SPACES, {"type": "cgroup"}, {"type": "time"}]}, ["sleep", "60"])
        other.start()
        file = FILES.get(kind, kind)
        try:
            spaces = [one for one in SPACES if one["type"] != kind]
            case.config["linux"]["namespaces"] = [*spaces, {"type": kind, "path": f"/proc/{other.pid}/ns/{file}"}]
            case.start()
            assert os.readlink(f"/proc/{case.pid}/ns/{file}") == os.readlink(f"/proc/{other.pid}/ns/{file}")
        finally:
            case.call("delete", "--force", case.name)
            other.clear()
    return check


def with_space(kind):
    return {"/linux/namespaces": [*[one for one in SPACES if one["type"] != kind], {"type": kind}]}


def clock(name):
    def check(case):
        lines = pathlib.Path(f"/proc/{case.pid}/timens_offsets").read_text().splitlines()
        assert [line.split() for line in lines if line.startswith(name)] == [[name, "864000", "5"]], lines
    return check


def offset(name, **fields):
    return {"/linux/namespaces/-": {"type": "time"}, f"/linux/timeOffsets/{name}": {"secs": 864000, "nanosecs": 5, **fields}}


SPACE_ROWS = [Row("/linux/namespaces/*/type", with_space(kind), space_is_own(kind))
              for kind in ("pid", "network", "ipc", "uts", "mount", "cgroup", "time")]
SPACE_ROWS += [Row("/linux/namespaces/*/type", {"/linux/namespaces": [one for one in SPACES if one["type"] != kind], **more}, space_is_shared(kind))
               for kind, more in {"network": {}, "ipc": {}, "cgroup": {}, "uts": {"/hostname": ""}}.items()]
SPACE_ROWS += [Row("/linux/namespaces/*/path", {"/annotations": {"joins": kind}}, joins(kind))
               for kind in ("pid", "network", "ipc", "uts", "cgroup", "time")]
SPACE_ROWS += [
    Row("/linux/namespaces/*/type", {"/linux/namespaces": SPACES}, space_is_own("ipc"), bad=[
        ({"/linux/namespaces/-": {"type": "nosuch"}}, "/linux/namespaces/5"), ({"/linux/namespaces/-": {"type": "pid"}}, "stands twice"),
        ({"/linux/namespaces/-": {"path": "/proc/self/ns/user"}}, "'type' is missing"),
        ({"/linux/namespaces/0/path": "/no/such"}, "/linux/namespaces"), ({"/linux/namespaces/0/path": "/proc/self/ns/net"}, "/linux/namespaces"),
        ({"/linux/namespaces/0/path": "/etc/passwd"}, "/linux/namespaces")]),
    Row(" ".join(f"/linux/{kind}Mappings/*/{key}" for kind in ("uid", "gid") for key in ("containerID", "hostID", "size")), USERNS,
        "0 +300000 +65536\n *0 +300000 +65536", "cat /proc/self/uid_map /proc/self/gid_map", bad=[
            ({**USERNS, "/linux/uidMappings": [{"containerID": 0, "hostID": 1}]}, "'size' is missing"),
            ({**USERNS, "/linux/uidMappings": [{"containerID": -1, "hostID": 1, "size": 1}]}, "uidMappings/0/containerID"),
            ({**USERNS, "/linux/gidMappings": [{"containerID": 0, "hostID": -1, "size": 1}]}, "gidMappings/0/hostID"),
            ({**USERNS, "/linux/gidMappings": [{"containerID": 0, "hostID": 0, "size": 0}]}, "gid|id map"),
            ({"/linux/uidMappings": OWN}, "/linux/uidMappings"), ({"/linux/namespaces/-": {"type": "user"}}, "/linux/uidMappings")]),
    *[Row(f"/linux/timeOffsets/{name}/secs /linux/timeOffsets/{name}/nanosecs", offset(name), clock(name), bad=[
        (offset(name, nanosecs=1000000000), f"{name}/nanosecs"), (offset(name, nanosecs=-1), f"{name}/nanosecs"),
        (offset(name, secs="1"), f"{name}/secs"), ({f"/linux/timeOffsets/{name}": {"secs": 1, "nanosecs": 0}}, "/linux/timeOffsets")])
      for name in ("monotonic", "boottime")],
]


# the rest

def device(**fields):
    return {"/linux/devices": [{"path": "/dev/mine", "type": "c", "major": 1, "minor": 5, **fields}]}


@makes
def group_is_named(case):
    case.config["linux"]["cgroupsPath"] = f"/{case.name}" # of this case alone, and nothing above it stays
    case.start()
    lines = pathlib.Path(f"/proc/{case.pid}/cgroup").read_text().splitlines()
    groups = {line.split(":", 2)[2] for line in lines if ":memory:" in line or ":pids:" in line or line.startswith("0::")}
    assert any(one.endswith(f"/{case.name}") for one in groups), lines


def root_travels(word, mark):
    def check(case):
        fields = mount_of(case.pid, "/")[1]
        assert (mark is None and fields == []) or any(mark is not None and one.startswith(mark) for one in fields), fields
    return check


OTHERS = [
    Row(" ".join(f"/linux/devices/*/{key}" for key in "path type major minor fileMode uid gid".split()),
        device(fileMode=0o640, uid=3, gid=4), "^crw-r-----.* 3 +4 +1, +5 ", "ls -ln /dev/mine", bad=[
            (device(type="x"), "/linux/devices/0/type"), (device(path=GONE) and {"/linux/devices": [{"type": "c", "major": 1, "minor": 3}]}, "'path' is missing"),
            (device(major=-1), "/linux/devices"), (device(minor=1 << 40), "/linux/devices"), ({"/linux/devices": [{"path": "/dev/x", "type": "b"}]}, "/linux/devices"),
            (device(fileMode=-1), "fileMode"), (device(uid=-1), "/linux/devices/0/uid"), (device(gid=1 << 32), "/linux/devices/0/gid")]),
    Row("/linux/devices/*/type", device(type="b", major=7, minor=0), "^brw", "ls -ln /dev/mine"),
    Row("/linux/devices/*/type", device(type="u"), "^crw", "ls -ln /dev/mine"),
    Row("/linux/devices/*/type", {"/linux/devices": [{"path": "/dev/fifo", "type": "p"}]}, "^prw", "ls -ln /dev/fifo"),
    Row("/linux/cgroupsPath", {}, group_is_named,
        bad=[({"/linux/cgroupsPath": "../../x"}, "cgroup"), ({"/linux/cgroupsPath": "/a/../b"}, "cgroup")]),
    Row("/linux/sysctl/*", {"/linux/sysctl": {"kernel.msgmax": "4096"}}, "^4096$", "cat /proc/sys/kernel/msgmax", bad=[
        ({"/linux/sysctl": {"kernel.panic": "1"}}, "kernel.panic"), ({"/linux/sysctl": {"kernel.msgmax": "x"}}, "msgmax"),
        ({"/linux/sysctl": {"net.ipv4/../../kernel/panic": "1"}}, "/linux/sysctl|no such"), ({"/linux/sysctl": {"net.nosuch": "1"}}, "nosuch"),
        ({"/linux/sysctl": {"kernel.shm_rmid_forced": "1\nx"}}, "shm_rmid_forced")]),
    Row("/linux/sysctl/*", {"/linux/sysctl": {"net.ipv4.ip_forward": "1"}}, "^1$", "cat /proc/sys/net/ipv4/ip_forward"),
    Row("/linux/maskedPaths/*", {"/linux/maskedPaths": ["/proc/cpuinfo", "/etc", "/no/such"]}, "^end$", "cat /proc/cpuinfo; ls /etc; echo end",
        bad=[({"/linux/maskedPaths": ["relative"]}, "/linux/maskedPaths")]),
    Row("/linux/readonlyPaths/*", {"/linux/readonlyPaths": ["/tmp", "/no/such"]}, "Read-only", "touch /tmp/x",
        bad=[({"/linux/readonlyPaths": ["relative"]}, "/linux/readonlyPaths")]),
    Row("/linux/mountLabel", {"/linux/mountLabel": "system_u:object_r:x_t:s0"}, "warning.*mountLabel", "true",
        why_skipped=lambda: "the host has SELinux" if os.path.exists("/sys/fs/selinux/enforce") else None),
    *[Row("/linux/rootfsPropagation", {"/linux/rootfsPropagation": word}, root_travels(word, mark),
          bad=[({"/linux/rootfsPropagation": "sideways"}, "/linux/rootfsPropagation")] if word == "private" else [])
      for word, mark in {"private": None, "rprivate": None, "shared": "shared:", "rshared": "shared:", "unbindable": "unbindable",
                         "runbindable": "unbindable"}.items()],
    Row("/linux/personality/domain", {"/linux/personality": {"domain": "LINUX32"}}, "^i686$", "uname -m",
        bad=[({"/linux/personality": {"domain": "SOLARIS"}}, "/linux/personality/domain"), ({"/linux/personality": {}}, "'domain' is missing")]),
]


# seccomp

def filtered(action="SCMP_ACT_ERRNO", names=("mkdir", "mkdirat"), default="SCMP_ACT_ALLOW", **more):
    rule = {key: more.pop(key) for key in ("args", "errnoRet") if key in more}
    return {"/linux/seccomp": {"defaultAction": default, "syscalls": [{"names": list(names), "action": action, **rule}], **more}}


MADE = "mkdir /tmp/made; echo code $?; busybox rmdir /tmp/made"
DENIED = "not permitted"
DENY = {"SCMP_ACT_KILL": "code 159", "SCMP_ACT_KILL_PROCESS": "code 159", "SCMP_ACT_KILL_THREAD": "code 159", "SCMP_ACT_TRAP": "code 159",
        "SCMP_ACT_ERRNO": "Operation not permitted", "SCMP_ACT_TRACE": "not implemented|not permitted", "SCMP_ACT_LOG": "code 0"}
# the shell is process 1 and passes SIGCHLD over: kill(1, 17)
SEND = "kill -17 1 && echo sent"


def compared(**fields):
    return filtered(names=["kill"], args=[{"index": 1, "value": 17, "op": "SCMP_CMP_EQ", **fields}])


@makes
def agent_gets_the_listener(case):
    agent = socket.socket(socket.AF_UNIX)
    path = f"/tmp/agent-{case.name}"
    agent.bind(path)
    try:
        agent.listen(1)
        agent.settimeout(20)
        case.config["linux"]["seccomp"] = filtered("SCMP_ACT_NOTIFY", listenerPath=path, listenerMetadata="meta")["/linux/seccomp"]
        code, said = case.create()
        assert code == 0, said
        connection, _ = agent.accept()
        connection.settimeout(20)
        assert case.call("start", case.name).returncode == 0
        data, descriptors, _, _ = socket.recv_fds(connection, 65536, 1)
    finally:
        os.unlink(path)
    told = json.loads(data)
    assert told["metadata"] == "meta" and told["fds"] == ["seccompFd"] and told["state"]["id"] == case.name
    assert os.readlink(f"/proc/self/fd/{descriptors[0]}") == "anon_inode:seccomp notify"
    os.close(descriptors[0])


SECCOMP = [
    *[Row("/linux/seccomp/syscalls/*/action /linux/seccomp/syscalls/*/names/*", filtered(action), words, MADE) for action, words in DENY.items()],
    Row("/linux/seccomp/syscalls/*/action", filtered("SCMP_ACT_ALLOW"), "code 0", MADE, bad=[
        (filtered("SCMP_ACT_NOPE"), "syscalls/0/action"), (filtered(names=[]), "names"), (filtered(names=["no_such_call"]), "no_such_call"),
        ({"/linux/seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"]}]}}, "'action' is missing"),
        ({"/linux/seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"action": "SCMP_ACT_LOG"}]}}, "names")]),
    Row("/linux/seccomp/syscalls/*/errnoRet", filtered(errnoRet=38), "not implemented", MADE,
        bad=[(filtered(errnoRet=5000), "/linux/seccomp"), (filtered(errnoRet=-1), "errnoRet"),
             (filtered("SCMP_ACT_KILL", errnoRet=1), "errno")]),
    *[Row(f"/linux/seccomp/syscalls/*/args/*/{field}", compared(**change), words, SEND) for field, change, words in [
        ("op", {}, DENIED), ("value", {"value": 16}, "^sent"), ("op", {"op": "SCMP_CMP_NE"}, "^sent"),
        ("op", {"op": "SCMP_CMP_NE", "value": 16}, DENIED), ("op", {"op": "SCMP_CMP_LT", "value": 18}, DENIED),
        ("op", {"op": "SCMP_CMP_LT"}, "^sent"), ("op", {"op": "SCMP_CMP_LE"}, DENIED), ("op", {"op": "SCMP_CMP_LE", "value": 16}, "^sent"),
        ("op", {"op": "SCMP_CMP_GE"}, DENIED), ("op", {"op": "SCMP_CMP_GE", "value": 18}, "^sent"),
        ("op", {"op": "SCMP_CMP_GT", "value": 16}, DENIED), ("op", {"op": "SCMP_CMP_GT"}, "^sent"),
        ("index", {"index": 0, "value": 1}, DENIED), ("index", {"index": 0}, "^sent"),
        ("valueTwo", {"op": "SCMP_CMP_MASKED_EQ", "value": 16, "valueTwo": 16}, DENIED),
        ("valueTwo", {"op": "SCMP_CMP_MASKED_EQ", "value": 16, "valueTwo": 0}, "^sent")]],
    Row("/linux/seccomp/syscalls/*/args/*/op", compared(), DENIED, SEND, bad=[
        (compared(index=6), "args/0/index"), (compared(op="SCMP_CMP_XX"), "args/0/op"), (compared(value=-1), "args/0/value"),
        (compared(valueTwo=-1), "args/0/valueTwo"), (compared(value=1 << 64), "value|not JSON")]),
    Row("/linux/seccomp/defaultAction /linux/seccomp/defaultErrnoRet", filtered("SCMP_ACT_ALLOW", default="SCMP_ACT_ALLOW"), "code 0", MADE, bad=[
        (filtered(default="SCMP_ACT_NOPE"), "defaultAction"), ({"/linux/seccomp": {"syscalls": []}}, "'defaultAction' is missing"),
        (filtered(default="SCMP_ACT_ERRNO", defaultErrnoRet=-1), "defaultErrnoRet"), (filtered(default="SCMP_ACT_ERRNO", defaultErrnoRet=70000), "defaultErrnoRet")]),
    Row("/linux/seccomp/architectures/*", filtered(architectures=["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]),
        "not permitted", MADE, bad=[(filtered(architectures=["SCMP_ARCH_NOPE"]), "architectures/0"),
                                    (filtered(architectures=[""]), "architectures/0")]),
    *[Row("/linux/seccomp/architectures/*", filtered(architectures=names), "not permitted", MADE) # ours is judged whatever else is
      for names in (["SCMP_ARCH_S390X"], ["SCMP_ARCH_AARCH64"], [])],
    *[Row("/linux/seccomp/flags/*", filtered(flags=[f"SECCOMP_FILTER_FLAG_{flag}"]), "not permitted", MADE,
          bad=[(filtered(flags=["SECCOMP_FILTER_FLAG_NOPE"]), "flags/0")] if flag == "LOG" else [])
      for flag in ("LOG", "SPEC_ALLOW", "TSYNC")],
    Row("/linux/seccomp/listenerPath /linux/seccomp/listenerMetadata", {}, agent_gets_the_listener, bad=[
        (filtered("SCMP_ACT_NOTIFY"), "listenerPath"), (filtered(listenerPath="/run/nobody"), "listenerPath"),
        (filtered("SCMP_ACT_NOTIFY", listenerPath="/no/such/agent"), "/no/such/agent"),
        (filtered("SCMP_ACT_NOTIFY", listenerPath="/no/such", listenerMetadata=7), "listenerMetadata"),
        (filtered("SCMP_ACT_NOTIFY", names=["write"], listenerPath="/tmp"), "write|agent|listener")]),
]

ROWS = FLAGS + MOUNTS + SPACE_ROWS + OTHERS + SECCOMP
