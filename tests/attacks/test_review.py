"""What a second pair of eyes tried: roots, sources and file systems of a bundle that somebody else wrote."""
import json
import os
import shutil
import stat
import subprocess
import threading
import time

import pytest

from test_mounts import make_bundle, needs_busybox, tree_of


def run_bundle(pinfold, bundle, config, options=(), **policy):
    (bundle / "config.json").write_text(json.dumps(config))
    fields = {"images": ["*"], **policy}
    return pinfold.call([str(pinfold.program), "run", "--policy", pinfold.policy(**fields), "--bundle", str(bundle), *options])


def shell(config, script):
    config["process"]["args"] = ["/bin/sh", "-c", script]


# ---- a root that is not in the bundle, whatever its path looks like ---------------------------------------------------

@needs_busybox
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("path", ["link/.", "link/rootfs", "rootfs/up/rootfs", "rootfs"])
def test_a_root_is_not_reached_through_a_link(pinfold, tmp_path, path, read_only):
    """The control is the root itself: it runs. The others lead to a root outside the bundle."""
    bundle, root, config = make_bundle(tmp_path, pinfold.uid)
    outside = tmp_path / "outside"
    outside.mkdir()
    subprocess.run(["cp", "-a", str(root), str(outside / "rootfs")], check=True)
    for folder in (outside, outside / "rootfs"):
        (folder / "canary").write_text("canary")
    subprocess.run(["cp", "-a", *(str(p) for p in root.iterdir()), str(outside)], check=True)
    (bundle / "link").symlink_to(outside)
    (root / "up").symlink_to(outside)
    config["root"] = {"path": path, "readonly": read_only}
    shell(config, "echo ran; busybox cat /canary")
    done = run_bundle(pinfold, bundle, config, filesystem={"root": "read-only" if read_only else "overlay"})
    if path == "rootfs":
        assert done.stdout == b"ran\n", done
    else:
        assert done.returncode == 125 and done.stdout == b"", done


@needs_busybox
@pytest.mark.parametrize("read_only", [True, False])
def test_the_devices_of_a_root_are_inert(as_root, tmp_path, read_only):
    """The control is the very same device in /dev."""
    bundle, root, config = make_bundle(tmp_path, 0)
    os.mknod(root / "disk", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    os.chmod(root / "disk", 0o666)
    config["root"]["readonly"] = read_only
    shell(config, "for d in /dev/zero /disk; do busybox head -c 3 $d | busybox wc -c; done")
    done = run_bundle(as_root, bundle, config, filesystem={"root": "read-only" if read_only else "overlay"})
    assert done.stdout.split() == [b"3", b"0"], done


@needs_busybox
@pytest.mark.parametrize("link", ["/below", "/", "/proc"])
def test_a_link_in_the_place_of_tmp_opens_nothing(as_root, tmp_path, link):
    """Landlock grants /tmp, and the root says what that is. The control is a tmpfs that the bundle asks for."""
    bundle, root, config = make_bundle(tmp_path, 0)
    config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] != "/tmp"]
    config["mounts"].append({"destination": "/var/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777", "size=1m"]})
    (root / "var/tmp").mkdir(parents=True)
    (root / "below").mkdir()
    (root / "tmp").rmdir()
    (root / "tmp").symlink_to(link)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "review", str(root / "below")], check=True)
    try:
        shell(config, "echo x >/below/planted; echo 5 >/proc/self/oom_score_adj && echo written; echo x >/var/tmp/control && echo control")
        done = run_bundle(as_root, bundle, config, filesystem={"write": ["/tmp", "/var/tmp"]})
        assert done.stdout == b"control\n" and not (root / "below/planted").exists(), done
    finally:
        subprocess.run(["umount", str(root / "below")], check=True)


# ---- sources ----------------------------------------------------------------------------------------------------------

@needs_busybox
@pytest.mark.parametrize("source", ["real/data", "link/data"])
def test_a_source_that_the_policy_grants_is_not_left_by_a_link(pinfold, tmp_path, source):
    """Who may write in a granted directory could plant the link. The control is the directory that has none."""
    bundle, root, config = make_bundle(tmp_path, pinfold.uid)
    (root / "mnt").mkdir()
    granted, outside = tmp_path / "granted", tmp_path / "outside"
    for folder in (granted / "real/data", outside / "data"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("real\n" if granted in folder.parents else "canary\n")
    (granted / "link").symlink_to(outside)
    config["mounts"].append({"destination": "/mnt", "type": "bind", "source": str(granted / source), "options": ["bind", "ro"]})
    shell(config, "busybox cat /mnt/file")
    done = run_bundle(pinfold, bundle, config, filesystem={"mounts": [{"source": str(granted), "target": "/mnt", "access": "read-only"}]})
    assert b"canary" not in done.stdout and (done.stdout == b"real\n" or source == "link/data"), done


def test_a_link_leads_no_mount_out_of_what_the_site_grants(pinfold, tmp_path):
    """Whoever may write below the place could plant it; a policy alone means whatever it names."""
    granted, elsewhere = tmp_path / "granted", tmp_path / "elsewhere"
    (elsewhere / "sub").mkdir(parents=True)
    (granted / "sub").mkdir(parents=True)
    (elsewhere / "sub" / "file").write_text("reached")
    (granted / "sub" / "file").write_text("granted")
    (granted / "link").symlink_to(elsewhere)
    site, open_site = tmp_path / "site.json", tmp_path / "open.json"
    site.write_text(json.dumps({"pinfold": 1, "filesystem": {"mounts": [{"source": str(granted), "target": "/mnt", "access": "read-only"}]}}))
    open_site.write_text('{"pinfold": 1}')
    for path in (site, open_site):
        path.chmod(0o644)

    def show(source, *options):
        policy = pinfold.policy(filesystem={"mounts": [{"source": str(granted / source), "target": "/mnt", "access": "read-only"}]})
        return pinfold.run("cat", "/mnt/file", policy=policy, options=list(options))
    refused = show("link/sub", "--site", str(site))
    assert refused.returncode == 125 and b"a symbolic link leads to" in refused.stderr and refused.stderr.count(b"\n") == 1, refused
    assert show("sub", "--site", str(site)).stdout == b"granted"
    assert show("link/sub").stdout == show("link/sub", "--site", str(open_site)).stdout == b"reached"


@needs_busybox
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("access", ["read-only", "copy-on-write", "read-write"])
def test_a_bundle_does_not_choose_a_workspace_of_the_host(pinfold, tmp_path, access, named):
    """Root's keys, say. The control is the caller, who names the same directory."""
    bundle, root, config = make_bundle(tmp_path, pinfold.uid)
    (root / "workspace").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "file").write_text("canary\n")
    for path in (outside, outside / "file"):
        os.chown(path, pinfold.uid, pinfold.uid)
    before = tree_of(outside)
    config["pinfold"] = {"workspace": {"source": str(outside), "target": "/workspace", "access": access}}
    shell(config, "busybox cat /workspace/file; echo x >/workspace/planted")
    done = run_bundle(pinfold, bundle, config, ["--workspace", str(outside)] if named else [])
    assert (b"canary" in done.stdout) == named, done
    assert (tree_of(outside) == before) == (not named or access != "read-write"), done


@needs_busybox
@pytest.mark.parametrize("options", [["nr_blocks=100000"], ["size=1m", "nr_blocks=100000"], ["size=1m"]])
def test_a_tmpfs_has_no_more_than_the_policy_grants(as_root, tmp_path, options):
    bundle, root, config = make_bundle(tmp_path, 0)
    (root / "more").mkdir()
    config["mounts"].append({"destination": "/more", "type": "tmpfs", "source": "tmpfs", "options": options})
    shell(config, "busybox df -k /more | busybox tail -1")
    done = run_bundle(as_root, bundle, config, filesystem={"tmp": "2MiB"})
    if done.returncode == 0:
        assert int(done.stdout.split()[1]) <= 2048, done
    else:
        assert options != ["size=1m"] and done.returncode == 125, done


# ---- what an engine's container is given in a root of a stranger's ----------------------------------------------------

@needs_busybox
@pytest.mark.parametrize("own_dev", [True, False])
@pytest.mark.parametrize("target", ["{outside}", "/../..{outside}", "../../../../../../../../..{outside}", None])
def test_the_links_of_dev_are_made_in_the_container(as_root, tmp_path, target, own_dev):
    """The control is a /dev that is no link: it gets its links, and the process runs."""
    bundle, root, config = make_bundle(tmp_path, 0)
    outside = tmp_path / "outside"
    outside.mkdir()
    if target is not None:
        (root / "dev").rmdir()
        (root / "dev").symlink_to(target.replace("{outside}", str(outside)))
        (root / str(outside)[1:]).mkdir(parents=True)  # where it leads in the container there is a directory, too
    config["linux"]["namespaces"] = [{"type": t} for t in ("pid", "mount", "network", "ipc", "uts")]
    config["mounts"] = [m for m in config["mounts"] if m["destination"] == "/proc" or (own_dev and m["destination"] == "/dev")]
    config["process"]["user"] = {"uid": 0, "gid": 0}
    shell(config, "busybox readlink /dev/fd")
    (bundle / "config.json").write_text(json.dumps(config))
    program = as_root.program.parent / "pinfold-oci"
    name = f"review-{os.getpid()}"
    done = as_root.call([str(program), "--root", str(tmp_path / "containers"), "run", "--bundle", str(bundle), name])
    as_root.call([str(program), "--root", str(tmp_path / "containers"), "delete", "--force", name])
    assert not list(outside.iterdir()), done
    if target is None:
        assert done.stdout == b"/proc/self/fd\n", done


# ---- what the owner of a workspace can do while root merges into it ---------------------------------------------------

STRACE = shutil.which("strace")
OWNER = 61235


def swap(trap, workspace, stop):
    """Waits for what root has made and not given away yet, and puts root's own in its place."""
    while not stop.is_set():
        for name in os.listdir(workspace):
            at = workspace / name
            facts = os.lstat(at)
            if at != trap and name != "control" and facts.st_uid == 0 and trap.exists():
                (os.rmdir if stat.S_ISDIR(facts.st_mode) else os.unlink)(at)
                os.rename(trap, at)
                return
        time.sleep(0.001)


@pytest.mark.skipif(STRACE is None, reason="needs strace, which holds root between two calls")
@pytest.mark.parametrize("kind", ["directory", "symlink"])
def test_what_the_owner_puts_in_the_way_of_a_merge_stays_roots(as_root, tmp_path, kind):
    """The control is what the sandbox made: that does get the workspace's owner, where nobody is in the way."""
    for path in (tmp_path, workspace := tmp_path / "workspace"):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    os.chown(workspace, OWNER, OWNER)
    trap, made, held = workspace / "trap", "mkdir {}", "mkdirat"
    if kind == "directory":
        trap.mkdir(mode=0o700)
        (trap / "secret").write_text("root's")
    else:
        trap.write_text("root's")
        trap.chmod(0o600)
        made, held = "ln -s target {}", "symlinkat"
    argv = as_root.argv("/bin/sh", "-c", made.format("control"), options=["--workspace", f"{workspace}:cow", "--on-exit", "merge"])
    assert as_root.call(argv).returncode == 0
    assert os.lstat(workspace / "control").st_uid == OWNER
    before = os.stat(trap).st_ino
    stop = threading.Event()
    racer = threading.Thread(target=swap, args=(trap, workspace, stop))
    racer.start()
    try:
        argv[argv.index("-c") + 1] = made.format("fresh")
        as_root.call([STRACE, "-o", "/dev/null", "-e", f"trace={held}", "-e", f"inject={held}:delay_exit=200000", *argv])
    finally:
        stop.set()
        racer.join()
    assert not trap.exists(), "nobody was in the way"
    found = [facts for facts in map(os.lstat, workspace.iterdir()) if facts.st_ino == before]
    assert all(facts.st_uid == 0 and stat.S_IMODE(facts.st_mode) in (0o600, 0o700) for facts in found), found
