"""Bundles and roots that want mounts, masks or writes of pinfold-oci's to be elsewhere than in the container.

Each attack is real and has a control: the same attempt by a naive tool, or on a bundle that was granted the thing. The names
(A2, B5) are those of docs/attacks.md. Races have 250 rounds; PINFOLD_RACE_ROUNDS=1000 is the full run.
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from oci_attacks import MNT_DETACH, MS_BIND, MS_REC, PROC, ROUNDS, Exchange, edit, in_a_child, libc, outside, tree_of, with_python  # noqa: F401 (fixture)
from oci_world import oci  # noqa: F401 (fixture)
from oci_world import governed  # noqa: F401 (fixture)

# ---- B: files and mounts ----------------------------------------------------------------------------------------------

LINKS = ["proc", "dev", "tmp", "sys", "etc", "dev/pts", "dev/shm", "dev/null", "dev/console", "dev/mqueue", "proc/sys", "etc/resolv.conf"]
TARGETS = ["{outside}", "/", "../../../../../../../..", "/proc/self/root", "/proc/1/root", "/proc/self/fd/3", "."]


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("name", LINKS)
def test_B1_a_root_whose_places_are_links_leads_nowhere(oci, outside, tmp_path, name, terminal):  # noqa: F811
    """CVE-2019-19921, 2023-27561, 2025-31133, 2025-52565. A console is asked for as well: its bind is one more place."""
    (tmp_path / "given").write_text("nameserver 192.0.2.1\n")
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    script = ("echo x >/tmp/planted; echo x >/dev/planted; echo x >/etc/resolv.conf; echo x >/proc/sys/kernel/core_pattern; echo x >/dev/null; "
              "cat /canary /etc/canary /tmp/canary /dev/canary /sys/canary /etc/shadow; true")
    for target in TARGETS:
        folder = oci.bundle("sh", "-c", script, root__readonly=False)
        at = folder / "rootfs" / name
        if at.is_dir():
            shutil.rmtree(at)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(target.format(outside=outside))
        edit(folder, lambda c: c["mounts"].append({"destination": "/etc/resolv.conf", "type": "bind", "source": str(tmp_path / "given"),
                                                   "options": ["bind"]}))
        edit(folder, lambda c: c["process"].update(terminal=terminal))
        done = oci.call("run", "--bundle", folder, oci.name())
        assert b"alive" not in done.stdout and b"root:" not in done.stdout, done
        assert pathlib.Path("/proc/sys/kernel/core_pattern").read_text() == pattern
        assert str(outside) not in pathlib.Path("/proc/self/mountinfo").read_text()


def test_B1_control_a_naive_tool_mounts_where_the_link_leads(oci, outside):  # noqa: F811
    folder = oci.bundle("true")
    (folder / "rootfs/tmp").rmdir()
    (folder / "rootfs/tmp").symlink_to(outside)

    def naive():
        assert libc.mount(b"tmpfs", bytes(folder / "rootfs/tmp"), b"tmpfs", 0, None) == 0
        return str(outside) in pathlib.Path("/proc/self/mountinfo").read_text()
    assert in_a_child(naive)


MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/etc/passwd", "/sys/firmware", "/proc/acpi", "/proc/scsi"]


@pytest.mark.parametrize("null", ["a file", "a link out", "a link to a knob", "a folder", "another device", "gone"])
def test_B1_what_masks_is_never_the_image_s(oci, outside, null):  # noqa: F811
    """CVE-2025-31133: a false /dev/null of the image's is bound over what is masked, and is then readable and writable."""
    folder = oci.bundle("sh", "-c", "for p in " + " ".join(MASKED) + "; do [ -f $p ] && cat $p; (echo x >$p) 2>/dev/null; done; true",
                        root__readonly=False, linux__maskedPaths=MASKED)
    edit(folder, lambda c: c.update(mounts=[PROC, {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]}]))
    at = folder / "rootfs/dev/null"
    {"a file": lambda: at.write_text("false null"), "a link out": lambda: at.symlink_to(outside / "canary"),
     "a link to a knob": lambda: at.symlink_to("/proc/sys/kernel/core_pattern"), "a folder": at.mkdir,
     "another device": lambda: os.mknod(at, 0o666 | stat.S_IFCHR, os.makedev(1, 5)), "gone": lambda: None}[null]()
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    done = oci.call("run", "--bundle", folder, oci.name())
    assert done.returncode in (0, 1) and done.stdout == b"", done
    assert pathlib.Path("/proc/sys/kernel/core_pattern").read_text() == pattern
    edit(folder, lambda c: c["linux"].update(maskedPaths=[]))
    if done.returncode == 0:
        assert oci.call("run", "--bundle", folder, oci.name()).stdout != b"", "without the masks there is something to read"


def test_B2_B5_a_target_that_a_neighbour_exchanges_is_never_outside(oci, outside, tmp_path):  # noqa: F811
    """CVE-2021-30465, CVE-2024-45310: the target lies on a volume that somebody else writes to. A bind that lands outside the root
    isn't seen inside; folders that are made outside are seen by the fixture."""
    volume, marker = tmp_path / "volume", tmp_path / "marker"
    (volume / "d/x").mkdir(parents=True)
    marker.mkdir()
    (marker / "mark").write_text("mark")
    (volume / "link").symlink_to(outside)
    folder = oci.bundle("sh", "-c", "cat /proc/self/mountinfo; cat /vol/d/canary; true", root__readonly=False)
    plain = json.loads((folder / "config.json").read_text())
    bind = {"type": "bind", "options": ["bind"]}
    answers = {}
    with Exchange(volume / "d", volume / "link"):
        for number in range(ROUNDS):
            plain_mounts = [*plain["mounts"], {**bind, "destination": "/vol", "source": str(volume)},
                            {**bind, "destination": f"/vol/d/n{number}/deep", "source": str(marker)},
                            {"destination": "/vol/d/x", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"]}]
            (folder / "config.json").write_text(json.dumps({**plain, "mounts": plain_mounts}))
            done = oci.call("run", "--bundle", folder, oci.name() if number == 0 else oci.names[-1])
            answers[done.returncode] = answers.get(done.returncode, 0) + 1
            assert b"alive" not in done.stdout, done.stdout
            if done.returncode == 0:
                targets = [line.split()[4] for line in done.stdout.decode().splitlines() if " " in line]
                assert any(target.endswith(f"/n{number}/deep") for target in targets), targets
                assert any(target.endswith("/x") for target in targets), targets
    assert answers.get(0, 0) > ROUNDS // 20, answers
    control, link = tmp_path / "control", volume / ("link" if (volume / "link").is_symlink() else "d")
    control.mkdir()
    link.unlink()
    link.symlink_to(control)

    def naive():
        for number in range(100000):
            path = os.path.join(volume, "d", f"m{number}")
            if os.path.islink(volume / "d"):
                continue
            os.mkdir(path)
            if (control / f"m{number}").exists():
                return True
        return False
    with Exchange(volume / "d", volume / "link"):
        assert in_a_child(naive), "the control never lost the race: nothing is shown"


def test_B3_what_is_written_to_proc_is_written_to_procfs(oci, tmp_path):  # noqa: F811
    """CVE-2025-52881: labels, scores and sysctls go to a /proc that the bundle, or a link, has put there."""
    fake = tmp_path / "fake"
    for name in ("sys/kernel/msgmax", "sys/net/ipv4/ip_forward", "self/oom_score_adj", "self/attr/exec", "1/oom_score_adj", "thread-self/attr/exec"):
        (fake / name).parent.mkdir(parents=True, exist_ok=True)
        (fake / name).write_text("canary")
    before = tree_of(fake)
    spoil = {"bind": [{"destination": "/proc", "type": "bind", "source": str(fake), "options": ["bind"]}],
             "bind after": [PROC, {"destination": "/proc", "type": "bind", "source": str(fake), "options": ["bind"]}],
             "self after": [PROC, {"destination": "/proc/sys/kernel", "type": "bind", "source": str(fake / "sys/kernel"), "options": ["bind"]}],
             "tmpfs": [{"destination": "/proc", "type": "tmpfs", "source": "tmpfs"}],
             "none": [], "before": [{"destination": "/proc", "type": "bind", "source": str(fake), "options": ["bind"]}, PROC]}
    for mounts in spoil.values():
        for link in (False, True):
            folder = oci.bundle("true", root__readonly=False, mounts=mounts, linux__sysctl={"kernel.msgmax": "4096", "net.ipv4.ip_forward": "1"},
                                process__oomScoreAdj=300, linux__maskedPaths=[], linux__readonlyPaths=[])
            if link:
                (folder / "rootfs/proc").rmdir()
                (folder / "rootfs/proc").symlink_to(fake)
            oci.call("run", "--bundle", folder, oci.name())
            assert tree_of(fake) == before
    (tmp_path / "naive").symlink_to(fake)
    (tmp_path / "naive/sys/kernel/msgmax").write_text("4096")
    assert tree_of(fake) != before


def test_B3_a_proc_that_is_exchanged_meanwhile_gets_no_write(oci, tmp_path):  # noqa: F811
    """Two containers on one root, one of which exchanges /proc with a link to files of its own."""
    folder = oci.bundle("cat", "/proc/sys/kernel/msgmax", root__readonly=False, linux__sysctl={"kernel.msgmax": "4096"}, process__oomScoreAdj=300)
    root, fake = folder / "rootfs", folder / "rootfs/tmp/fake"
    (fake / "sys/kernel").mkdir(parents=True)
    (fake / "sys/kernel/msgmax").write_text("canary")
    (root / "link").symlink_to("tmp/fake")
    name, codes = oci.name(), set()
    with Exchange(root / "proc", root / "link"):
        for _ in range(ROUNDS):
            done = oci.call("run", "--bundle", folder, name)
            codes.add(done.returncode)
            assert done.returncode != 0 or done.stdout in (b"4096\n", b"canary"), done
            assert (fake / "sys/kernel/msgmax").read_text() == "canary"
    assert 0 in codes

    def naive():
        for _ in range(100000):
            try:
                fd = os.open(root / "proc/sys/kernel/msgmax", os.O_WRONLY | os.O_TRUNC)
                os.write(fd, b"4096")
                os.close(fd)
            except OSError:
                continue
            if (fake / "sys/kernel/msgmax").read_text() == "4096":
                return True
        return False
    with Exchange(root / "proc", root / "link"):
        assert in_a_child(naive)


# by one look at each name: they are exchanged inside as well
LOOK = ("for d in /proc /other; do (cd $d; [ -e self/status ] || exit; cat keys; (echo 8192 >sys/kernel/msgmax) 2>/dev/null && echo written); "
        "done; true")


def test_B3_masks_are_on_the_procfs_wherever_its_folder_has_gone(oci):  # noqa: F811
    """As above, but with two folders: what is masked by its path alone would be in the other one."""
    folder = oci.bundle("sh", "-c", LOOK, root__readonly=False, linux__maskedPaths=["/proc/keys"], linux__readonlyPaths=["/proc/sys"])
    root, name, codes = folder / "rootfs", oci.name(), set()
    for path in ("proc/sys/kernel", "other/sys/kernel"):
        (root / path).mkdir(parents=True)
    for path in ("proc/keys", "other/keys"):
        (root / path).touch()
    with Exchange(root / "proc", root / "other"):
        for _ in range(ROUNDS):
            done = oci.call("run", "--bundle", folder, name)
            codes.add(done.returncode)
            assert done.stdout == b"", done
    assert 0 in codes

    def naive():
        for _ in range(20000):
            assert libc.mount(b"proc", bytes(root / "proc"), b"proc", 0, None) == 0
            libc.mount(b"/dev/null", bytes(root / "proc/keys"), None, MS_BIND, None)
            for one in ("proc", "other"):
                if os.path.exists(root / one / "self/status") and os.stat(root / one / "keys").st_rdev == 0:
                    return True
            while libc.umount2(bytes(root / "proc"), MNT_DETACH) == 0 or libc.umount2(bytes(root / "other"), MNT_DETACH) == 0:
                pass
            for one in ("proc", "other"):
                while libc.umount2(bytes(root / one / "keys"), MNT_DETACH) == 0:
                    pass
        return False
    with Exchange(root / "proc", root / "other"):
        assert in_a_child(naive)


def test_B4_a_source_that_is_exchanged_is_never_outside_what_the_policy_grants(governed, outside, tmp_path):  # noqa: F811
    volume = tmp_path / "volume"
    (volume / "d").mkdir(parents=True)
    (volume / "d/canary").write_text("own")
    (volume / "link").symlink_to(outside)
    governed.under(engine={"write": [str(volume)]})
    folder, name, said = governed.bundle("cat", "/mnt/canary"), governed.name(), set()
    edit(folder, lambda c: c["mounts"].append({"destination": "/mnt", "type": "bind", "source": str(volume / "d"), "options": ["rbind"]}))
    with Exchange(volume / "d", volume / "link"):
        for _ in range(ROUNDS):
            done = governed.call("run", "--bundle", folder, name)
            said.add(done.stdout)
            assert done.stdout in (b"own", b""), done
    assert said == {b"own", b""}

    def naive():
        for _ in range(100000):
            if not os.path.islink(volume / "d") and (volume / "d/canary").read_text() == "alive":
                return True
        return False
    with Exchange(volume / "d", volume / "link"):
        assert in_a_child(naive)


def test_B5_what_is_removed_is_never_outside(oci, outside):  # noqa: F811
    """The folder of a container is exchanged with a link, or holds links: `delete` takes away links, not what they lead to."""
    for spoil in ("link in it", "folder in it", "a link"):
        name = oci.create("sleep", "60")
        path = oci.root / name
        pid = oci.state(name)["pid"]
        if spoil == "link in it":
            (path / "more").symlink_to(outside)
        elif spoil == "folder in it":
            (path / "more/deep").mkdir(parents=True)
            (path / "more/deep/link").symlink_to(outside)
        else:
            os.rename(path, oci.home / "kept")
            path.symlink_to(outside)
        done = oci.call("delete", "--force", name)
        assert (outside / "canary").exists()
        if spoil == "a link":
            assert done.returncode == 1, done
            path.unlink()
            os.kill(pid, 9)
            os.rename(oci.home / "kept", path)
            oci.ok("delete", "--force", name)


LEAVE = """
import os, sys
here = os.open('/', os.O_RDONLY)
os.mkdir('/tmp/inner'); os.chroot('/tmp/inner')
os.fchdir(here)
for _ in range(50): os.chdir('..')
os.chroot('.')
print(sorted(os.listdir('/')))
"""


@pytest.mark.parametrize("option", [[], ["--no-pivot"]])
def test_B6_a_second_chroot_leads_to_the_container_s_root_and_no_further(oci, outside, option):  # noqa: F811
    """With CAP_SYS_CHROOT, which engines give: the old way out of a chroot leads into whatever lies beneath."""
    caps = {kind: ["CAP_SYS_CHROOT", "CAP_DAC_OVERRIDE"] for kind in ("bounding", "permitted", "effective")}
    folder = oci.bundle("/usr/bin/python3", "-I", "-c", LEAVE, root__readonly=False, process__capabilities=caps)
    edit(folder, with_python)
    done = oci.call("run", *option, "--bundle", folder, oci.name())
    names = os.listdir(folder / "rootfs")
    assert done.returncode == 0 and "home" not in done.stdout.decode() and set(eval(done.stdout)) <= {*names, "usr", "lib", "lib64"}, done
    plain = oci.bundle("true")

    def naive():
        (plain / "rootfs/tmp").mkdir(exist_ok=True)
        os.chroot(plain / "rootfs")
        os.chdir("/")
        here = os.open("/", os.O_RDONLY)
        os.mkdir("/tmp/inner")
        os.chroot("/tmp/inner")
        os.fchdir(here)
        for _ in range(50):
            os.chdir("..")
        os.chroot(".")
        return os.path.exists(outside / "canary")
    assert in_a_child(naive)


@pytest.mark.parametrize("option", [[], ["--no-pivot"]])
def test_B6_the_mounts_of_a_container_are_those_of_its_bundle(oci, option):  # noqa: F811
    folder = oci.bundle("cat", "/proc/self/mountinfo")
    config = json.loads((folder / "config.json").read_text())
    done = oci.call("run", *option, "--bundle", folder, oci.name())
    places = {line.split()[4] for line in done.stdout.decode().splitlines()}
    asked = {"/", *(mount["destination"] for mount in config["mounts"]), *config["linux"]["maskedPaths"], *config["linux"]["readonlyPaths"]}
    extra = {place for place in places - asked if not place.startswith("/sys/fs/cgroup/")}
    assert places and not extra, extra


def test_B7_no_mount_travels_in_or_out_where_the_host_s_tree_is_shared(oci, tmp_path):  # noqa: F811
    caps = {kind: ["CAP_SYS_ADMIN"] for kind in ("bounding", "permitted", "effective")}
    (tmp_path / "shared/in").mkdir(parents=True)
    script = "mount -t tmpfs tmpfs /mnt/in; echo up; read line; grep -c later /proc/self/mountinfo; true"
    bind = {"destination": "/mnt", "type": "bind", "source": str(tmp_path / "shared")}
    folders = {}
    for kind, options, root in (("private", ["rbind"], None), ("shared", ["rbind", "rshared"], "shared")):
        folders[kind] = oci.bundle("sh", "-c", script, root__readonly=False, process__capabilities=caps,
                                   **({"linux__rootfsPropagation": root} if root else {}))
        os.symlink("busybox", folders[kind] / "rootfs/bin/grep")
        edit(folders[kind], lambda c: c["mounts"].append({**bind, "options": options}))  # noqa: B023

    def travels(kind):
        def child():
            assert libc.mount(b"tmpfs", bytes(tmp_path / "shared"), b"tmpfs", 0, None) == 0
            os.mkdir(tmp_path / "shared/in")
            os.mkdir(tmp_path / "shared/later")
            assert libc.mount(None, b"/", None, MS_REC | 0x100000, None) == 0 # MS_SHARED
            process = subprocess.Popen(oci.argv("run", "--bundle", folders[kind], f"t{os.getpid()}"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert process.stdout.readline() == b"up\n"
            out = str(tmp_path / "shared/in") in pathlib.Path("/proc/self/mountinfo").read_text()
            assert libc.mount(b"tmpfs", bytes(tmp_path / "shared/later"), b"tmpfs", 0, None) == 0
            said, _ = process.communicate(b"\n")
            return out or said.strip() != b"0"
        return child
    assert not in_a_child(travels("private"))
    assert in_a_child(travels("shared"))


ADMIN = {
    "B8 remount /data": "mount -o remount,rw,bind /data", "B8 a tmpfs": "mount -t tmpfs t /tmp", "B8 a bind": "mount -o bind /bin /tmp",
    "B8 a mask off": "busybox umount /proc/keys", "B8 a new proc": "mount -t proc p /tmp", "B8 an overlay": "mount -t overlay -o lowerdir=/bin:/etc o /tmp",
    "D3 a cgroup tree": "mount -t cgroup -o none,name=pinfoldtest c /tmp", "D9 the host name": "hostname stolen", "D9 the domain": "busybox dnsdomainname stolen || "
    "busybox sh -c 'echo stolen >/proc/sys/kernel/domainname'",
}


@pytest.mark.parametrize("what", ADMIN)
def test_B8_D3_D9_what_only_an_administrator_may_is_refused(oci, what):  # noqa: F811
    usr = {"destination": "/data", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}
    for caps, expected in ((["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SYS_CHROOT", "CAP_MKNOD", "CAP_SETFCAP"], False), (["CAP_SYS_ADMIN"], True)):
        folder = oci.bundle("sh", "-c", f"{{ {ADMIN[what]}; }} >/dev/null 2>&1 && echo done", root__readonly=False,
                            process__capabilities={kind: caps for kind in ("bounding", "permitted", "effective")},
                            **({"linux__readonlyPaths": []} if expected else {}))
        edit(folder, lambda c: c["mounts"].append(usr))
        done = oci.call("run", "--bundle", folder, oci.name())
        if what in ("B8 remount /data", "D9 the domain") and expected:
            continue # what an administrator's mount may do there depends on the host
        assert (b"done" in done.stdout) == expected, (caps, done)
    assert os.uname().nodename != "stolen"


WRITE = """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, function):
    try:
        function()
        print('done', name)
    except (OSError, ValueError) as error:
        print('refused', name)
at = '/data/file'
fd = os.open(at, os.O_RDONLY)
attempt('open', lambda: os.open(at, os.O_WRONLY))
attempt('reopen', lambda: os.open(f'/proc/self/fd/{fd}', os.O_WRONLY))
attempt('map', lambda: mmap.mmap(fd, 4, mmap.MAP_SHARED, mmap.PROT_WRITE))
attempt('chmod', lambda: os.fchmod(fd, 0o777))
attempt('chown', lambda: os.fchown(fd, 0, 0))
attempt('times', lambda: os.utime(at, (1, 1)))
attempt('attribute', lambda: os.setxattr(at, 'user.x', b'y'))
attempt('unnamed', lambda: os.open('/data', os.O_TMPFILE | os.O_WRONLY))
attempt('link', lambda: os.link(at, '/data/new'))
attempt('rename', lambda: os.rename(at, '/data/other'))
attempt('truncate', lambda: os.truncate(at, 0))
attempt('device', lambda: os.mknod('/data/pipe', 0o600))
"""


def test_B9_what_is_read_only_can_not_be_written_in_any_way(oci, tmp_path):  # noqa: F811
    for option in ("ro", "rro", "rw"):
        data = tmp_path / option
        data.mkdir()
        (data / "file").write_text("text")
        before = tree_of(data)
        folder = oci.bundle("/usr/bin/python3", "-I", "-c", WRITE, root__readonly=False)
        edit(folder, with_python)
        edit(folder, lambda c: c["mounts"].append({"destination": "/data", "type": "bind", "source": str(data), "options": ["rbind", option]}))  # noqa: B023
        done = oci.call("run", "--bundle", folder, oci.name())
        said = done.stdout.decode().split("\n")[:-1]
        assert len(said) == 12, done
        if option == "rw":
            assert sum(line.startswith("done") for line in said) >= 10, said
        else:
            assert not any(line.startswith("done") for line in said) and tree_of(data) == before, said
