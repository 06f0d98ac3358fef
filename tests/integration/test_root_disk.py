"""filesystem.root_storage "disk": what is written to a root lies on a disk of its own, of the policy's size."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from image_bytes import DIR, entry, tar  # noqa: E402
from test_commit import CHANGES, Committer  # noqa: E402
from test_run_image import BUSYBOX  # noqa: E402

pytestmark = [pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static"),
              pytest.mark.skipif(not os.path.exists("/dev/loop-control"), reason="this machine has no loop devices")]
ROOT = {"user": 0, "group": 0}
FILL = "dd if=/dev/zero of=/opt/big bs=1M count={} 2>&1; stat -c %s /opt/big"


class DiskBox(Committer):
    def __init__(self, pinfold, programs, folder):
        super().__init__(pinfold, programs, folder)
        self.scratch = pinfold.home / "scratch"

    def environment(self):
        return self.pinfold.environment(PINFOLD_IMAGES=str(self.store), PINFOLD_SCRATCH=str(self.scratch))

    def on_disk(self, size="32MiB", storage="disk", identity=None, **fields):
        files = {"root": "overlay", "root_size": size, "root_storage": storage, "write": ["/"]}
        return self.policy(filesystem=files, identity=identity or ROOT, **fields)

    def devices(self):
        """The loop devices whose file was made in this box's folder."""
        found = []
        for told in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
            try:
                if told.read_text().startswith(f"{self.scratch}/"):
                    found.append(told.parent.parent)
            except OSError:
                pass  # it has just been taken down
        return found

    def await_none(self):
        end = time.monotonic() + 60
        while self.devices():
            assert time.monotonic() < end, "a disk outlives its sandbox"
            time.sleep(0.02)
        assert not self.scratch.exists() or list(self.scratch.iterdir()) == []


@pytest.fixture
def box(as_root, programs, tmp_path):
    box = DiskBox(as_root, programs, tmp_path)
    yield box
    box.close()
    box.await_none()


def test_a_root_on_disk_is_no_larger_than_the_policy_says(box):
    box.build("box")
    done = box.call("box", "sh", "-c", FILL.format(64), policy=box.on_disk())
    assert b"No space left" in done.stdout, done
    assert 24 << 20 < int(done.stdout.split()[-1]) <= 32 << 20
    names = "i=0; while echo x >/opt/$i; do i=$((i+1)); done; echo $i"
    done = box.call("box", "sh", "-c", names, policy=box.on_disk(size="4MiB"))
    assert b"No space left" in done.stderr and 100 < int(done.stdout) < 1024, done


@pytest.mark.parametrize("fill", ["exec 3>/opt/u; rm /opt/u; dd if=/dev/zero bs=1M count=64 >&3",
                                  "busybox fallocate -l 67108864 /opt/a",
                                  "for i in a b c d e f g h; do dd if=/dev/zero of=/opt/$i bs=1M count=8; done",
                                  "for i in a b c d e f g h; do mkdir /$i; dd if=/dev/zero of=/$i/x bs=1M count=8 & done; wait"])
def test_no_way_to_fill_a_root_on_disk_goes_past_its_size(box, fill):
    """What it has written is on the device, whose size is the policy's: it fills up, and the next byte is refused."""
    box.build("box")
    script = f"({fill}) >/dev/null 2>&1; dd if=/dev/zero of=/opt/last bs=1M count=32 2>&1; df -k / | tail -n 1"
    done = box.call("box", "sh", "-c", script.replace("df ", "busybox df ").replace("tail ", "busybox tail "), policy=box.on_disk(size="32MiB"))
    assert b"No space left" in done.stdout, done
    total, used = map(int, done.stdout.split(b"\n")[-2].split()[1:3])
    assert 16 << 10 < used <= total <= 32 << 10


def test_what_is_on_disk_is_not_the_sandboxs_memory(box):
    box.build("box")
    fill = FILL.format(96)
    resources = {"memory": "48MiB"}
    done = box.call("box", "sh", "-c", fill, policy=box.on_disk(size="160MiB", resources=resources))
    assert done.returncode == 0 and int(done.stdout.split()[-1]) == 96 << 20, done
    done = box.call("box", "sh", "-c", fill, policy=box.on_disk(size="160MiB", storage="memory", resources=resources))
    assert done.returncode == 137, done


def test_the_device_has_the_size_and_is_gone_with_a_killed_run(box):
    box.build("box")
    argv = box.argv("box", "sh", "-c", "echo x >/opt/x; echo ready; cat", policy=box.on_disk(size="8MiB"),
                    options=["--stdin", "-"])
    run = box.pinfold.spawn(argv, env=box.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert run.stdout.readline() == b"ready\n"
        device, = box.devices()
        assert int((device / "size").read_text()) * 512 == 8 << 20
        assert list(box.scratch.iterdir()) == []  # it never had a name that could be left
        assert stat.S_IMODE(box.scratch.stat().st_mode) == 0o700
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate()
    box.await_none()


def test_changes_on_disk_are_committed_with_their_owners(box):
    box.build("base", tar(entry("opt", DIR, mode=0o755), entry("opt/old", data=b"old")))
    identity = {**ROOT, "ids": 65536}
    box.kept("up", "work", "--image", "base", "--policy",
             box.on_disk(identity=identity, capabilities=["CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE"], syscalls={"baseline": "oci"}))
    box.inside("work", CHANGES)
    box.inside("work", "echo given >/srv/given; busybox chown 4321:88 /srv/given; rm -r /srv/deep; mkdir /srv/deep; mv /srv/hard /moved")
    assert box.inside("work", "ls /opt; cat /moved; stat -c %u:%g / /srv/given") == "again\nnew\n0:0\n4321:88\n"
    made = json.loads(box.kept("commit", "--json", "work", "next"))
    assert len(made["layers"]) == 3
    seen = box.output("next", "sh", "-c", "ls /opt /srv; cat /moved /etc/new; stat -c %u:%g /srv/given; test -e /etc/passwd || echo gone",
                      policy=box.on_disk(identity=identity))
    assert seen.split() == ["/opt:", "again", "/srv:", "deep", "given", "pipe", "new", "new", "4321:88", "gone"]
    assert box.output("base", "sh", "-c", "ls /opt") == "old\n"


def test_neighbours_on_disk_see_nothing_of_each_other_and_no_device(box):
    box.build("box")
    policy = box.on_disk(size="8MiB", identity={**ROOT, "ids": 65536})
    for name in ("one", "two"):
        box.kept("up", name, "--image", "box", "--policy", policy)
        box.inside(name, f"echo {name} >/opt/mark; dd if=/dev/zero of=/opt/fill bs=1M count=64 2>/dev/null; true")
    assert box.inside("one", "cat /opt/mark; ls /opt") == "one\nfill\nmark\n"
    assert len(box.devices()) == 2
    for device in box.devices():
        number = device.name.removeprefix("loop")
        attack = f"busybox mknod /b b 7 {number} || busybox mknod /tmp/b b 7 {number} || test -e /dev/{device.name} || test -e /dev/loop-control"
        assert "rc=1" in box.inside("one", f"({attack}) 2>/dev/null; echo rc=$?")
    shown = box.inside("one", "cat /proc/self/mountinfo")
    assert "/dev/loop" not in shown and str(box.scratch) not in shown


@pytest.mark.parametrize("crowd", [6])
def test_disks_made_at_once_are_as_many_as_sandboxes(box, crowd):
    box.build("box")
    argv = box.argv("box", "sh", "-c", "dd if=/dev/zero of=/opt/fill bs=1M count=2 2>/dev/null && echo ready; cat", policy=box.on_disk(size="8MiB"),
                    options=["--stdin", "-"])
    runs = [box.pinfold.spawn(argv, env=box.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(crowd)]
    try:
        assert [run.stdout.readline() for run in runs] == [b"ready\n"] * crowd
        assert len(box.devices()) == crowd
    finally:
        ends = [run.communicate(b"", timeout=60) and run.returncode for run in runs]
    assert ends == [0] * crowd


def test_a_root_on_disk_is_refused_where_nobody_could_hold_it_to_its_size(pinfold, programs, tmp_path):
    box = DiskBox(pinfold, programs, tmp_path)
    box.build("box")
    if pinfold.rootless:
        assert "ordinary user" in box.refused("box", "true", policy=box.on_disk())
        return
    assert "needs a size" in box.refused("box", "true", policy=box.on_disk(size="unlimited"))
    assert "at least 4MiB" in box.refused("box", "true", policy=box.on_disk(size="1MiB"))
    assert "at most 8TiB" in box.refused("box", "true", policy=box.on_disk(size="9TiB"))
    assert "no room" in box.refused("box", "true", policy=box.on_disk(size="8TiB"))
    assert "host image" in box.refused("host", "true", policy=box.on_disk())
    assert box.devices() == []


@pytest.mark.parametrize("bend, said", [(lambda folder: folder.chmod(0o755), "open to others"),
                                        (lambda folder: os.chown(folder, 12345, 12345), "belongs to uid 12345"),
                                        (lambda folder: (folder.rmdir(), folder.symlink_to("/")), "Not a directory"),
                                        (lambda folder: (folder.rmdir(), folder.write_text("")), "Not a directory")])
def test_a_folder_of_disks_that_is_not_roots_own_is_refused(box, bend, said):
    box.build("box")
    box.scratch.mkdir(mode=0o700)
    bend(box.scratch)
    assert said in box.refused("box", "true", policy=box.on_disk())
    box.scratch.unlink() if not box.scratch.is_dir() or box.scratch.is_symlink() else box.scratch.rmdir()


def test_memory_is_no_disk(box):
    box.build("box")
    with_memory = pathlib.Path("/dev/shm") / f"pinfold-test-{os.getpid()}-{id(box)}"
    with_memory.mkdir(mode=0o700)
    try:
        box.scratch = with_memory
        assert "is in memory" in box.refused("box", "true", policy=box.on_disk())
    finally:
        with_memory.rmdir()


def test_a_bundle_asks_for_a_disk_and_the_policy_grants_it(box, tmp_path):
    box.build("box")
    bundle = tmp_path / "bundle"
    box.pinfold.call([str(box.pinfold.program), "bundle", "export", "--policy", box.on_disk(), "--image", "box", str(bundle), "--",
                      "sh", "-c", FILL.format(64)], env=box.environment())
    asked = json.loads((bundle / "config.json").read_text())["pinfold"]["rootOverlay"]
    assert asked == {"size": 32 << 20, "storage": "disk"}
    argv = [str(box.pinfold.program), "run", "--bundle", str(bundle)]
    done = box.pinfold.call([*argv, "--policy", box.on_disk()], env=box.environment())
    assert b"No space left" in done.stdout and 24 << 20 < int(done.stdout.split()[-1]) <= 32 << 20, done
    done = box.pinfold.call([*argv, "--policy", box.on_disk(storage="memory")], env=box.environment())
    assert done.returncode == 125 and b"/filesystem/root_storage" in done.stderr, done
