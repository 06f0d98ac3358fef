"""Files, names and numbers that somebody hostile, or nobody sane, hands to pinfold-oci; and policies that change beneath it.

Names (H1, K5) are those of docs/attacks.md.
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from oci_attacks import edit, outside, tree_of  # noqa: F401 (fixture)
from oci_world import oci  # noqa: F401 (fixture)
from oci_world import governed  # noqa: F401 (fixture)

PLAIN = '{"ociVersion": "1.0.2", "root": {"path": "rootfs"}, "process": {"args": ["true"], "cwd": "/"}'
TEXTS = {
    "empty": b"", "blank": b" \n", "no object": b"[]", "a number": b"7", "null": b"null", "cut off": PLAIN.encode(), "trailing": (PLAIN + "} x").encode(),
    "two": (PLAIN + "}" + PLAIN + "}").encode(), "a mark": b"\xef\xbb\xbf" + (PLAIN + "}").encode(), "wide": (PLAIN + "}").encode("utf-16"),
    "a zero byte": (PLAIN + ', "hostname": "a\\u0000b"}').encode(), "a raw zero": (PLAIN + "}\0").encode(),
    "bad UTF-8": PLAIN.encode() + b', "hostname": "\xff"}', "a surrogate": (PLAIN + ', "hostname": "\\ud800"}').encode(),
    "twice": (PLAIN + ', "root": {"path": "/"}}').encode(), "twice within": PLAIN.replace('"cwd": "/"', '"cwd": "/", "cwd": "/tmp"').encode() + b"}",
    "deep": (PLAIN + ', "annotations": ' + "[" * 100000 + "]" * 100000 + "}").encode(), "endless": (PLAIN + ', "hostname": "' + "x" * (80 << 20) + '"}').encode(),
    "infinite": (PLAIN + ', "process": {"oomScoreAdj": 1e999}}').encode(), "a comment": (PLAIN + " /* no */}").encode(), "quotes": b"{'ociVersion': '1.0.2'}",
    "not a number": (PLAIN + ', "hostname": NaN}').encode(),
}


@pytest.mark.parametrize("what", TEXTS)
def test_H1_a_file_that_is_no_config_is_one_clear_refusal(oci, what):  # noqa: F811
    folder = oci.bundle("true")
    assert oci.call("run", "--bundle", folder, oci.name()).returncode == 0
    (folder / "config.json").write_bytes(TEXTS[what])
    done = oci.call("create", "--bundle", folder, oci.name())
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"level=error" in done.stderr and len(done.stderr) < 2000, done
    assert list(oci.root.iterdir()) == []


PLACES = {
    "a pipe": lambda at, out: os.mkfifo(at), "a folder": lambda at, out: at.mkdir(), "a link out": lambda at, out: at.symlink_to(out / "canary"),
    "a loop": lambda at, out: at.symlink_to("config.json"), "endless zeros": lambda at, out: at.symlink_to("/dev/zero"), "gone": lambda at, out: None,
    "a terminal": lambda at, out: at.symlink_to("/dev/tty"), "a secret": lambda at, out: at.symlink_to("/etc/shadow"),
    "sparse": lambda at, out: (at.touch(), os.truncate(at, 1 << 40)),
}


@pytest.mark.parametrize("what", PLACES)
@pytest.mark.parametrize("file", ["config", "process", "resources", "policy"])
def test_H2_what_is_no_file_holds_nobody_up_and_is_not_shown(oci, outside, file, what):  # noqa: F811
    name = oci.start("sleep", "60")
    folder = oci.bundle("true")
    at = folder / ("config.json" if file == "config" else "given")
    if at.exists():
        at.unlink()
    PLACES[what](at, outside)
    words = {"config": ["create", "--bundle", folder, oci.name()], "process": ["exec", "--process", at, name],
             "resources": ["update", "--resources", at, name], "policy": ["--policy", at, "create", "--bundle", oci.bundle("true"), oci.name()]}[file]
    done = oci.call(*words)
    assert done.returncode in (1, 255) and b"root:" not in done.stderr and b"$" not in done.stderr, done


@pytest.mark.parametrize("mode, owner, link, ok", [(0o644, 0, False, True), (0o666, 0, False, False), (0o664, 0, False, False), (0o644, 61234, False, False),
                                                   (0o644, 0, True, False)])
def test_H2_a_policy_that_others_can_change_counts_for_nothing(governed, tmp_path, mode, owner, link, ok):  # noqa: F811
    governed.under()
    path = pathlib.Path(governed.policy)
    os.chown(path, owner, owner)
    os.chmod(path, mode)
    if link:
        (tmp_path / "link.json").symlink_to(path)
        governed.policy = str(tmp_path / "link.json")
    done = governed.run("true")
    assert (done.returncode == 0) == ok and (ok or b"policy" in done.stderr), done


IDS = ["", ".", "..", "../victim", "a/b", "/victim", "x" * 1025, "x" * 300, "-x", "a\nb", "a b", "\x1b[2J", "ä", "a\\b", "%s%n", "*", "~", "$(id)", "..%2fvictim"]
VERBS = [["create", "--bundle", "BUNDLE"], ["run", "--bundle", "BUNDLE"], ["start"], ["state"], ["kill"], ["delete"], ["delete", "--force"], ["pause"], ["resume"],
         ["ps"], ["events", "--stats"], ["update", "--pids-limit", "5"], ["exec"]]


@pytest.mark.parametrize("name", IDS)
def test_H5_a_name_leads_nowhere_whatever_the_verb(oci, tmp_path, name):  # noqa: F811
    """A container's folder beside the root stands for what a name with dots would reach."""
    bundle, good = oci.bundle("true"), oci.create("sleep", "60")
    victim = tmp_path / "victim"
    shutil.copytree(oci.root / good, victim, ignore=lambda folder, names: [n for n in names if not os.path.isfile(os.path.join(folder, n))])
    before = tree_of(victim)
    for verb in VERBS:
        words = [str(bundle) if word == "BUNDLE" else word for word in verb]
        done = oci.call(*words, "--", name, *(["true"] if verb == ["exec"] else []))
        forced = verb == ["delete", "--force"] and name.startswith("x" * 300) # deletes nothing, as asked
        assert done.returncode in (1, 255) or forced, (verb, done)
        assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") <= 1, done
        assert tree_of(victim) == before and sorted(path.name for path in oci.root.iterdir()) == [good]
    state = json.loads((victim / "state.json").read_text())
    os.kill(state["pid"], 0)


NUMBERS = [("memory", "limit"), ("memory", "swap"), ("memory", "reservation"), ("cpu", "shares"), ("cpu", "quota"), ("cpu", "period"), ("pids", "limit"),
           ("memory", "swappiness"), ("blockIO", "weight")]
ODD = [-2, 2 ** 63, 2 ** 64, 2 ** 64 + 4096, 1e3, 1.5, "1e3", "64m", True, [1], {}, 2 ** 200]


@pytest.mark.parametrize("group, field", NUMBERS)
def test_H6_a_limit_that_is_none_is_refused_and_never_another_one(oci, group, field):  # noqa: F811
    name = oci.start("sleep", "60", linux__resources={"pids": {"limit": 77}})
    for value in ODD:
        if value == 2 ** 63 and field in ("shares", "period"):
            continue # of 64 bits without a sign
        done = oci.call("create", "--bundle", oci.bundle("true", linux__resources={group: {field: value}}), oci.name())
        assert done.returncode == 1 and list(oci.root.iterdir()) == [oci.root / name], (value, done)
        done = oci.call("update", "--resources", "-", name, input=json.dumps({group: {field: value}}).encode())
        assert done.returncode == 1, (value, done)
    for option in ("--memory", "--memory-swap", "--cpu-share", "--pids-limit", "--cpu-quota", "--blkio-weight"):
        for value in ("-2", str(2 ** 63), "1e3", "64m", "", " 5", "0x10", "5 ", "+5"):
            done = oci.call("update", f"{option}={value}", name)
            assert done.returncode == 1, (option, value, done)
    assert json.loads(oci.ok("events", "--stats", name).stdout)["data"]["pids"]["limit"] == 77


def many(count):
    return {
        "mounts": lambda c: c.update(mounts=[{"destination": "/proc", "type": "proc", "source": "proc"}] + [
            {"destination": f"/tmp/m{i}", "type": "tmpfs", "source": "tmpfs"} for i in range(count)]),
        "variables": lambda c: c["process"].update(env=["PATH=/bin"] + [f"V{i}=x" for i in range(count)]),
        "arguments": lambda c: c["process"].update(args=["true"] + ["x"] * count),
        "namespaces": lambda c: c["linux"].update(namespaces=c["linux"]["namespaces"] * count),
        "masks": lambda c: c["linux"].update(maskedPaths=[f"/proc/none{i}" for i in range(count)]),
        "hooks": lambda c: c.update(hooks={"poststop": [{"path": "/bin/true"}] * count}),
        "annotations": lambda c: c.update(annotations={f"a{i}": "x" for i in range(count)}),
        "groups": lambda c: c["process"].update(user={"uid": 0, "gid": 0, "additionalGids": list(range(count))}),
        "limits": lambda c: c["process"].update(rlimits=[{"type": "RLIMIT_NOFILE", "soft": 9, "hard": 9}] * count),
        "devices": lambda c: c["linux"].update(devices=[{"path": f"/dev/d{i}", "type": "c", "major": 1, "minor": 3} for i in range(count)]),
        "id maps": lambda c: c["linux"].update(uidMappings=[{"containerID": i, "hostID": 100000 + i, "size": 1} for i in range(count)]),
        "filter": lambda c: c["linux"].update(seccomp={"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": i, "op": "SCMP_CMP_EQ"}]} for i in range(count)]}),
        "options": lambda c: c["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"] * count}),
    }


LONG = {  # CVE-2021-43784: a length of 16 bits that wraps
    "id maps' text": many(6000)["id maps"],
    "a root's path": lambda c: c["root"].update(path="rootfs/" + "./" * 40000),
    "a target": lambda c: c["mounts"].append({"destination": "/tmp/" + "y/" * 40000, "type": "tmpfs", "source": "tmpfs"}),
    "a source": lambda c: c["mounts"].append({"destination": "/tmp", "type": "bind", "source": "/" + "./" * 40000, "options": ["bind"]}),
    "an option": lambda c: c["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["size=" + "1" * 70000]}),
    "a host name": lambda c: c.update(hostname="h" * 70000), "a cwd": lambda c: c["process"].update(cwd="/" + "./" * 40000),
    "a group": lambda c: c["linux"].update(cgroupsPath="/x/" + "y" * 70000), "a sysctl": lambda c: c["linux"].update(sysctl={"kernel.msgmax": "1" * 70000}),
    "a label": lambda c: c["process"].update(selinuxLabel="l" * 70000), "a variable": lambda c: c["process"].update(env=["V=" + "x" * 200000]),
    "a namespace": lambda c: c["linux"].update(namespaces=[{"type": "network", "path": "/proc/self/ns/../" * 5000 + "net"}]),
}


@pytest.mark.parametrize("what", many(0))
def test_H7_ten_thousand_of_anything_run_or_are_refused_whole(oci, what):  # noqa: F811
    folder = oci.bundle("true", root__readonly=False)
    edit(folder, many(500 if what == "hooks" else 10000)[what])  # each hook is a process: 10,000 of them are a minute
    done = oci.call("run", "--bundle", folder, oci.name())
    assert done.returncode in (0, 1), (done.returncode, done.stderr[:500])
    assert done.returncode == 0 or (b"level=error" in done.stderr and len(done.stderr) < 8200), done.stderr[:500]
    few = oci.bundle("true", root__readonly=False)
    edit(few, many(1)[what])
    assert what == "id maps" or oci.call("run", "--bundle", few, oci.name()).returncode == 0


@pytest.mark.parametrize("what", LONG)
def test_H7_a_text_without_end_runs_or_is_refused_and_never_cut(oci, what):  # noqa: F811
    folder = oci.bundle("/bin/sh", "-c", "busybox hostname; echo ${#V}", root__readonly=False)
    edit(folder, LONG[what])
    done = oci.call("run", "--bundle", folder, oci.name())
    assert done.returncode in (0, 1) and len(done.stderr) < 8200, (done.returncode, done.stderr[:500])
    assert done.returncode == 1 or what not in ("a host name", "a target", "an option", "a sysctl", "a group", "a label", "id maps' text"), done.stdout[:200]


DESTINATIONS = ["/", "//", "/.", "/tmp/..", "/../..", "", ".", "..", "/proc/..", "/proc/self", "/proc/1/root", "/proc/self/fd/3", "/dev/../..", "/link", "/link/x"]


@pytest.mark.parametrize("at", DESTINATIONS)
def test_H9_a_destination_is_never_outside_the_root(oci, outside, at):  # noqa: F811
    for source in ({"type": "tmpfs", "source": "tmpfs"}, {"type": "bind", "source": str(outside), "options": ["rbind", "ro"]}):
        folder = oci.bundle("cat", "/proc/self/mountinfo", root__readonly=False)
        (folder / "rootfs/link").symlink_to(outside)
        edit(folder, lambda c: c["mounts"].append({"destination": at, **source}))  # noqa: B023
        before = len([line for line in open("/proc/self/mountinfo", encoding="utf-8") if str(oci.home) in line])
        done = oci.call("run", "--bundle", folder, oci.name())
        assert done.returncode in (0, 1, 127), done
        assert len([line for line in open("/proc/self/mountinfo", encoding="utf-8") if str(oci.home) in line]) == before


# ---- policies that change ---------------------------------------------------------------------------------------------

def test_H11_a_container_keeps_its_policy_whatever_becomes_of_the_file(governed):  # noqa: F811
    """The file is made wider, then narrower, and then gone, while the container lives: `exec` and `update` hold to the first."""
    governed.under(resources={"pids": 50}, audit={"record": ["lifecycle"]})
    path = pathlib.Path(governed.policy)
    narrow = json.loads(path.read_text())
    name = governed.start("sleep", "60")
    wide = {**narrow, "resources": {"pids": 500}, "capabilities": {"add": ["CAP_SYS_ADMIN"]}, "privileged": True}

    def admin():
        return governed.call("exec", "--cap", "CAP_SYS_ADMIN", name, "true").returncode

    def pids(number):
        return governed.call("update", "--pids-limit", str(number), name).returncode
    for text in (narrow, wide, {"pinfold": 1, "extends": ["strict"]}, None):
        if text is None:
            path.unlink()
        else:
            path.write_text(json.dumps(text))
        assert admin() == 255 and pids(400) == 1 and pids(40) == 0, text
        assert governed.call("exec", name, "true").returncode == 0, text
    hashes = [line["data"]["policy"] for line in governed.log() if line["sandbox"] == name and "policy" in line["data"]]
    assert len(hashes) > 3 and all(one == hashes[0] for one in hashes), hashes
    path.write_text(json.dumps(wide))
    other = governed.start("sleep", "60")
    assert governed.call("update", "--pids-limit", "400", other).returncode == 0, "with the wider file it is granted"


def test_H11_a_policy_that_is_exchanged_while_it_is_read_is_one_of_the_two(governed, tmp_path):  # noqa: F811
    from oci_attacks import ROUNDS, Exchange  # pylint: disable=import-outside-toplevel
    governed.under(resources={"files": 111})
    first = pathlib.Path(governed.policy)
    governed.under(resources={"files": 222})
    second = pathlib.Path(governed.policy)
    governed.policy, seen = str(first), set()
    folder, name = governed.bundle("sh", "-c", "ulimit -n", process__rlimits=[]), governed.name()
    with Exchange(first, second):
        for _ in range(min(ROUNDS, 200)):
            done = governed.call("run", "--bundle", folder, name)
            seen.add(done.stdout)
            assert done.stdout in (b"111\n", b"222\n"), done
    assert seen == {b"111\n", b"222\n"}


# ---- K: state that is not what was written ----------------------------------------------------------------------------

def spoil(path, how):
    text = path.read_bytes()
    {"cut": lambda: path.write_bytes(text[:len(text) // 2]), "empty": lambda: path.write_bytes(b""), "a byte": lambda: path.write_bytes(b"\xff" + text[1:]),
     "a list": lambda: path.write_bytes(b"[]"), "types": lambda: path.write_text('{"pid": "1", "cgroup": 7, "bundle": [], "annotations": "x", "boot": {}}'),
     "pid 1": lambda: path.write_text(json.dumps({**json.loads(text), "pid": 1})), "pid -1": lambda: path.write_text(json.dumps({**json.loads(text), "pid": -1})),
     "pid 0": lambda: path.write_text(json.dumps({**json.loads(text), "pid": 0})),
     "another boot": lambda: path.write_text(json.dumps({**json.loads(text), "boot": "00000000-0000-0000-0000-000000000000"})),
     "a link": lambda: (path.unlink(), path.symlink_to("/etc/shadow")), "a pipe": lambda: (path.unlink(), os.mkfifo(path)),
     "missing": path.unlink, "an empty object": lambda: path.write_bytes(b"{}"),
     "a directory": lambda: (path.unlink(), path.mkdir())}[how]()


def has_ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("how", ["cut", "empty", "a byte", "a list", "types", "pid 1", "pid -1", "pid 0", "another boot", "a link", "a pipe", "missing",
                                 "an empty object", "a directory"])
def test_K5_K6_a_state_that_is_damaged_hits_nobody_else_and_is_cleared(oci, how):  # noqa: F811
    """No verb signals, freezes or moves anything but the container; a bystander in the same group as the test lives on. In the end
    `delete --force` removes what there is, the container's processes too."""
    bystander = subprocess.Popen(["sleep", "100"])
    try:
        name = oci.start("sleep", "60")
        pid = oci.state(name)["pid"]
        path = oci.root / name / "state.json"
        spoil(path, how)
        for verb in (["state"], ["kill", "--all"], ["kill"], ["pause"], ["resume"], ["ps"], ["events", "--stats"], ["delete"], ["delete", "--force"]):
            done = oci.call(*verb[:1], *verb[1:], name)
            assert done.returncode in (0, 1) and b"root:" not in done.stderr + done.stdout, (verb, done)
            assert bystander.poll() is None, verb
            if not path.parent.exists():
                break
        assert pathlib.Path("/proc/self/cgroup").exists() and os.path.exists("/proc/1")
        assert not path.parent.exists() and has_ended(pid)
        assert oci.groups(name) == []
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("group", ["../..", "/", "pinfold-oci/../..", "/..", "."])
def test_K5_a_group_that_is_none_of_a_container_s_is_never_touched(oci, group):  # noqa: F811
    bystander = subprocess.Popen(["sleep", "100"])
    name = oci.start("sleep", "60")
    link = oci.root / name / "cgroup"
    own = os.readlink(link)
    try:
        link.unlink()
        link.symlink_to(group)
        for verb in (["kill", "--all"], ["pause"], ["delete", "--force"]):
            assert oci.call(*verb, name).returncode == 1, verb
            assert bystander.poll() is None, verb
    finally:
        link.unlink()
        link.symlink_to(own)
        bystander.kill()
        bystander.wait()
    oci.ok("delete", "--force", name)


def test_K5_what_is_kept_of_a_container_is_for_its_owner_alone(oci):  # noqa: F811
    name = oci.create("sleep", "60")
    facts = os.stat(oci.root / name)
    assert stat.S_IMODE(facts.st_mode) == 0o700 and facts.st_uid == 0
    assert all(stat.S_IMODE(os.lstat(path).st_mode) & 0o077 == 0 for path in (oci.root / name).iterdir() if path.is_file())


@pytest.mark.parametrize("what", ["no variables", "umask 0", "umask 777", "no cwd", "a long root", "a read-only root", "a full root", "no stdio"])
def test_K10_whatever_it_is_called_with_it_runs_or_says_why_not(oci, tmp_path, what):  # noqa: F811
    folder, name, more = oci.bundle("/bin/sh", "-c", "umask; echo ran"), oci.name(), {}
    argv = oci.argv("run", "--bundle", folder, name)
    if what == "no variables":
        more["env"] = {}
    elif what.startswith("umask"):
        more["umask"] = int(what.split()[1], 8)
    elif what == "no cwd":
        gone = tmp_path / "gone"
        gone.mkdir()
        argv = ["/bin/sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *argv]
    elif what == "a long root":
        argv[2] = str(tmp_path / "/".join(["l" * 60] * 4))
    elif what in ("a read-only root", "a full root"):
        argv[2] = str(tmp_path / "small")
        os.mkdir(argv[2])
        option = "ro" if what == "a read-only root" else "size=4k,nr_inodes=3"
        argv = ["unshare", "-m", "/bin/sh", "-c", 'mount -t tmpfs -o "$0" t "$1" && shift && exec "$@"', option, argv[2], *argv]
    elif what == "no stdio":
        argv = ["/bin/sh", "-c", '"$@" <&- 2>&-', "sh", *argv]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, **more)
    if what in ("a read-only root", "a full root"):
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1, done
    else:
        assert done.returncode == 0 and done.stdout == b"0022\nran\n", done
    assert not oci.root.exists() or list(oci.root.iterdir()) == []


# ---- words of the command line ----------------------------------------------------------------------------------------

WORDS = {
    ("--log-format=yaml", "list"): "invalid log-format: yaml", ("list", "--format", "yaml"): "invalid format: yaml", ("ps", "--format=", "ID"): "invalid format: ",
    ("--cgroup-manager", "none", "list"): "invalid cgroup-manager: none", ("--rootless=maybe", "list"): "invalid rootless: maybe",
    ("delete", "--force=maybe", "ID"): 'invalid boolean value "maybe" for -force: parse error', ("create", "--preserve-fds", "abc", "x"):
    'invalid value "abc" for flag -preserve-fds: parse error', ("create", "--preserve-fds=-1", "x"): "invalid value", ("events", "--interval", "0s", "ID"): "invalid value",
    ("events", "--interval", "often", "ID"): "invalid value", ("events", "--interval=5", "ID"): "invalid value", ("create", "--bundle"): "flag needs an argument: -bundle",
    ("create", "--tty", "x"): "flag provided but not defined: -tty", ("create", "-z", "x"): "flag provided but not defined: -z", ("bogus",): "no help topic for 'bogus'",
    ("state",): '"state" needs: ID', ("state", "a", "b"): '"state" needs: ID', ("kill", "ID", "NOSUCH"): 'unknown signal "NOSUCH"', ("kill", "ID", "-1"): "",
    ("kill", "ID", "99"): 'unknown signal "99"', ("kill", "ID", "9x"): "unknown signal", ("kill", "ID", ""): "unknown signal", ("kill", "ID", "SIGSIGKILL"): "unknown signal",
    ("exec", "ID"): "process args cannot be empty", ("exec", "--cap", "CAP_NONE", "ID", "true"): 'unknown capability "CAP_NONE"',
    ("exec", "--tty", "--detach", "ID", "true"): "cannot allocate tty", ("exec", "--cwd", "tmp", "ID", "true"): "", ("exec", "--cgroup", "/x", "ID", "true"): "not offered",
    ("exec", "--additional-gids", "x", "ID", "true"): "parsing group", ("exec", "--process", "/nonexistent", "ID"): "no such file or directory",
    ("exec", "--env", "NOEQUALS", "ID", "true"): "", ("create", "--bundle", "/nonexistent", "x"): "no such file or directory", ("update", "--memory", "x", "ID"): "invalid value",
    ("update", "--resources", "/nonexistent", "ID"): "no such file or directory", ("spec", "--bundle", "/nonexistent"): "no such file or directory",
    ("resume", "ID"): "not paused", ("start", "ID"): "already running", ("checkpoint", "ID"): "not offered", ("restore", "ID"): "not offered",
}


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_word_that_is_none_is_refused_in_text_json_and_on_stderr(oci, tmp_path, words):  # noqa: F811
    name = oci.start("sleep", "60")
    told = WORDS[words]
    call = [name if word == "ID" else word for word in words]
    done = oci.call(*call)
    expected = 255 if words[0] == "exec" else 1
    assert done.returncode == expected or told == "", done
    if told == "":
        assert done.returncode in (0, 1, 255) and (done.returncode == 0 or done.stderr.count(b"\n") == 1)
        return
    line = done.stderr.decode()
    assert line.startswith('time="') and " level=error msg=" in line and line.endswith('"\n') and line.count("\n") == 1
    assert told.replace('"', '\\"') in line, line
    if not words[0].startswith("--"):
        done = oci.call("--log", tmp_path / "log", "--log-format=json", *call)
        last = json.loads((tmp_path / "log").read_text().splitlines()[-1])
        assert done.returncode == expected and last["level"] == "error" and told in last["msg"] and told in done.stderr.decode()
        assert set(last) == {"level", "msg", "time"}
        oci.call("--log", tmp_path / "text", *call)
        assert (tmp_path / "text").read_text().startswith('time="')
