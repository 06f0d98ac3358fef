"""pinfold-oci: what a container's process finds: its terminal, its descriptors, the fields of config.json by a row each."""
import array
import json
import os
import socket
import subprocess

import pytest

from oci_world import oci  # noqa: F401 (fixture)


def take_terminal(oci, tmp_path, *words):  # noqa: F811
    path = str(tmp_path / "console")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    server.settimeout(60)
    oci.ok(*words[:1], "--console-socket", path, *words[1:])
    connection, _ = server.accept()
    fds = array.array("i")
    _, ancillary, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(4))
    fds.frombytes(ancillary[0][2])
    server.close()
    os.unlink(path)
    return fds[0]


def read_until(fd, words):
    text = b""
    while words not in text:
        text += os.read(fd, 4096)
    os.close(fd)
    return text


def test_the_terminal_goes_to_the_console_socket(oci, tmp_path):  # noqa: F811
    name = oci.name()
    bundle = oci.bundle("sh", "-c", "tty; ls -l /dev/console; echo ready; sleep 60", process__terminal=True)
    master = take_terminal(oci, tmp_path, "create", "--bundle", bundle, name)
    oci.ok("start", name)
    assert b"/dev/pts/0" in read_until(master, b"ready")
    second = take_terminal(oci, tmp_path, "exec", "--tty", "--detach", name, "sh", "-c", "tty; echo ready")
    assert b"/dev/pts/" in read_until(second, b"ready")
    assert b"console socket" in oci.call("create", "--bundle", bundle, oci.name()).stderr


def test_a_console_socket_whose_peer_takes_nobody_is_a_failure(oci, tmp_path):  # noqa: F811
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        path = tmp_path / "s"
        listening.bind(str(path))
        listening.listen(0)
        first.connect(str(path)) # there is room for no other
        done = oci.call("create", "--bundle", oci.bundle("true", process__terminal=True), "--console-socket", path, oci.name())
        assert done.returncode == 1 and b"console socket" in done.stderr, done.stderr


@pytest.mark.parametrize("field", ["hostname", "domainname"])
def test_a_container_that_shares_the_host_s_names_leaves_them_as_they_are(oci, field):  # noqa: F811
    """Engines write "" for none: in the host's UTS namespace that must set nothing, and a name is refused there."""
    shared = [{"type": kind} for kind in ("pid", "mount", "ipc", "network")]
    before = os.uname().nodename, open("/proc/sys/kernel/domainname", encoding="ascii").read()
    assert oci.call("run", "--bundle", oci.bundle("true", linux__namespaces=shared, **{"hostname": "", field: ""}), oci.name()).returncode == 0
    assert (os.uname().nodename, open("/proc/sys/kernel/domainname", encoding="ascii").read()) == before
    refused = oci.call("run", "--bundle", oci.bundle("true", linux__namespaces=shared, **{"hostname": "", field: "mine"}), oci.name())
    assert refused.returncode != 0 and f"unable to set {field} without a private UTS namespace".encode() in refused.stderr


FIELDS = [
    ({"process__user": {"uid": 1000, "gid": 1001, "additionalGids": [7]}}, "id", b"uid=1000(user) gid=1001 groups=7"),
    ({"process__user": {"uid": 0, "gid": 0, "umask": 0o077}}, "umask", b"0077"),
    ({"process__cwd": "/made/here", "root__readonly": False}, "pwd", b"/made/here"),
    ({"process__noNewPrivileges": False}, "cat /proc/self/status", b"NoNewPrivs:\t0"),
    ({"process__oomScoreAdj": 500}, "cat /proc/self/oom_score_adj", b"500"),
    ({"process__rlimits": [{"type": "RLIMIT_NOFILE", "soft": 50, "hard": 60}]}, "ulimit -n; ulimit -Hn", b"50\n60"),
    ({"process__capabilities": {"bounding": ["CAP_KILL"], "permitted": ["CAP_KILL"], "inheritable": ["CAP_KILL"],
                                "effective": ["CAP_KILL"], "ambient": ["CAP_KILL"]}},
     "cat /proc/self/status", b"CapAmb:\t0000000000000020"),
    ({"process__ioPriority": {"class": "IOPRIO_CLASS_IDLE", "priority": 0}}, "ionice -p $$ || busybox ionice -p $$", b"idle"),
    ({"process__scheduler": {"policy": "SCHED_BATCH", "nice": 5}}, "cat /proc/self/stat", b" 25 5 "),
    ({"hostname": "somewhere"}, "hostname", b"somewhere"),
    ({"domainname": "example"}, "cat /proc/sys/kernel/domainname", b"example"),
    ({"linux__sysctl": {"kernel.msgmax": "4096"}}, "cat /proc/sys/kernel/msgmax", b"4096"),
    ({"linux__personality": {"domain": "LINUX32"}}, "busybox uname -m", b"i686"),
    ({"linux__maskedPaths": ["/proc/cpuinfo"]}, "cat /proc/cpuinfo; echo end", b"end"),
    ({"linux__readonlyPaths": ["/tmp"], "root__readonly": False}, "touch /tmp/x || echo refused", b"refused"),
    ({"root__readonly": True}, "touch /x || echo refused", b"refused"),
    ({"linux__devices": [{"path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 3, "gid": 4}]},
     "ls -ln /dev/mine", b"crw-r-----    1 3        4           1,   5"),
    ({"linux__rootfsPropagation": "rslave"}, "cat /proc/self/mountinfo", b" / ro,"),
    ({"linux__resources": {"memory": {"limit": 33554432}}}, "busybox grep -H . /proc/self/cgroup", b"memory"),
    ({"linux__namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "time", "cgroup")],
      "linux__timeOffsets": {"boottime": {"secs": 864000, "nanosecs": 0}}}, "cat /proc/uptime", b"8"),
    ({"linux__namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user")],
      "linux__uidMappings": [{"containerID": 0, "hostID": 300000, "size": 65536}],
      "linux__gidMappings": [{"containerID": 0, "hostID": 300000, "size": 65536}]}, "cat /proc/self/uid_map; id -u",
     b"300000"),
    ({"linux__seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
        {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}}, "busybox mkdir /tmp/q", b"not implemented"),
]


@pytest.mark.parametrize("changes, script, words", FIELDS, ids=[next(iter(field[0])) for field in FIELDS])
def test_a_field_of_config_json_is_carried_out(oci, changes, script, words):  # noqa: F811
    done = oci.run("sh", "-c", script, **changes)
    assert words in b" ".join((done.stdout + done.stderr).split(b"  ")) or words in done.stdout + done.stderr, done


REFUSED = [
    ({"linux__sysctl": {"kernel.panic": "1"}}, b"/linux/sysctl"),
    ({"process__apparmorProfile": "some-profile"}, b"apparmor"),
    ({"process__selinuxLabel": "a:b:c:d"}, b"selinux"),
    ({"linux__rootfsPropagation": "sideways"}, b"/linux/rootfsPropagation"),
    ({"linux__personality": {"domain": "SOLARIS"}}, b"ersonality"),
    ({"process__cwd": "relative"}, b"cwd"),
    ({"process__args": []}, b"args"),
    ({"process__scheduler": {"policy": "SCHED_SOMETIMES"}}, b"/process/scheduler"),
    ({"linux__uidMappings": [{"containerID": 0, "hostID": 1, "size": 1}]}, b"/linux/uidMappings"),
    ({"linux__timeOffsets": {"boottime": {"secs": 1, "nanosecs": 0}}}, b"/linux/timeOffsets"),
    ({"linux__nosuchfield": 1}, b"nosuchfield"),
    ({"annotations": {"io.pinfold.egress": '[{"host": "example.com", "ports": [443]}]'}}, b"io.pinfold.egress"),
    ({"annotations": {"io.pinfold.policy": "no-such-policy"}}, b"no-such-policy"),
]


@pytest.mark.parametrize("changes, words", REFUSED, ids=[next(iter(field[0])) for field in REFUSED])
def test_what_can_not_be_carried_out_is_refused_by_name(oci, changes, words):  # noqa: F811
    done = oci.call("create", "--bundle", oci.bundle("true", **changes), oci.name())
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not oci.root.exists() or list(oci.root.iterdir()) == []


def test_mount_options_reach_the_mounts(oci, tmp_path):  # noqa: F811
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/file").write_text("here")
    folder = oci.bundle("sh", "-c", "cat /shown/file; touch /shown/x || echo ro; cat /up/passwd; mount", root__readonly=False)
    config = json.loads((folder / "config.json").read_text())
    config["mounts"] += [
        {"destination": "/shown", "type": "bind", "source": str(tmp_path / "shown"), "options": ["rbind", "ro", "nosuid"]},
        {"destination": "/etc", "type": "tmpfs", "source": "etc", "options": ["tmpcopyup", "size=1m"]},
        {"destination": "/up", "type": "bind", "source": str(folder / "rootfs/etc"), "options": ["bind", "rslave"]}]
    (folder / "config.json").write_text(json.dumps(config))
    done = oci.call("run", "--bundle", folder, oci.name())
    assert b"here" in done.stdout and b"ro\n" in done.stdout and b"root:x" in done.stdout, done
    assert b"/shown type" in done.stdout and b"etc on /etc type tmpfs" in done.stdout


def test_no_descriptor_and_no_variable_of_the_caller_s_reaches_the_container(oci):  # noqa: F811
    read, write = os.pipe()
    os.set_inheritable(write, True)
    done = oci.call("run", "--bundle", oci.bundle("sh", "-c", "ls /proc/self/fd; env"), oci.name(), pass_fds=[write],
                    env={**os.environ, "SECRET": "x"})
    os.close(read), os.close(write)
    assert done.stdout.split()[:4] == [b"0", b"1", b"2", b"3"] and b"SECRET" not in done.stdout


def test_descriptors_that_are_to_be_kept_are_kept(oci):  # noqa: F811
    read, write = os.pipe()
    os.write(write, b"kept")
    os.close(write)
    argv = oci.argv("run", "--preserve-fds", "1", "--bundle", oci.bundle("sh", "-c", "cat <&3"), oci.name())
    done = subprocess.run(["bash", "-c", f'exec 3<&{read}; exec "$@"', "bash", *argv], pass_fds=[read], capture_output=True,
                          check=False, timeout=60)
    os.close(read)
    assert done.stdout == b"kept", done.stderr


def test_the_runtime_s_own_file_can_not_be_written_from_inside(oci):  # noqa: F811
    """CVE-2019-5736: the program of the container is a script whose interpreter is the runtime itself."""
    folder = oci.bundle("/evil", root__readonly=False)
    evil = folder / "rootfs/evil"
    evil.write_text("#!/proc/self/exe\n")
    evil.chmod(0o755)
    before = oci.program.read_bytes()
    oci.call("run", "--bundle", folder, oci.name())
    name = oci.start("sh", "-c", "while :; do for p in /proc/[0-9]*/exe; do (: >> $p) 2>/dev/null && echo wrote $p > /tmp/out; done; done",
                     root__readonly=False)
    for _ in range(20):
        oci.call("exec", name, "true")
    assert oci.program.read_bytes() == before


# a filter's agent (without a ceiling)

def test_an_agent_gets_the_listener_with_the_state(oci, tmp_path):  # noqa: F811
    path = tmp_path / "agent"
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    agent.bind(str(path))
    agent.listen(1)
    agent.settimeout(20)
    changes = {"linux__seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": str(path), "listenerMetadata": "meta",
                                  "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_NOTIFY"}]}}
    name = oci.create("sh", "-c", "echo ready; sleep 60", **changes)
    connection, _ = agent.accept()
    connection.settimeout(20)
    oci.ok("start", name)
    data, descriptors, _, _ = socket.recv_fds(connection, 65536, 1)
    told = json.loads(data)
    assert told["fds"] == ["seccompFd"] and told["metadata"] == "meta"
    assert told["state"]["id"] == name and told["pid"] == oci.state(name)["pid"]
    assert os.readlink(f"/proc/self/fd/{descriptors[0]}") == "anon_inode:seccomp notify"
    os.close(descriptors[0])
