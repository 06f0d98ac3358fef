"""pinfold commit: what a kept sandbox has changed becomes an image that others take, too."""
import json
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from test_run_image import BUSYBOX, WRITABLE, Box  # noqa: E402

pytestmark = pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static")
CHANGES = """echo new >/etc/new; echo more >>/etc/group; rm /etc/passwd; mkdir -p /srv/deep/er; ln -s new /etc/link
rm -r /opt; mkdir /opt; echo again >/opt/again; ln /etc/new /srv/hard; chmod 4755 /srv/hard; mkfifo /srv/pipe; touch /etc/resolv.conf"""


class Committer(Box):
    def kept(self, *arguments, code=0):
        done = self.pinfold.call([str(self.pinfold.program), *map(str, arguments)], env=self.environment())
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout.decode() + (done.stderr.decode() if code else "")

    def up(self, name, image, **policy):
        self.kept("up", name, "--image", image, "--policy", self.policy(**policy))

    def inside(self, name, script):
        return self.kept("exec", name, "--", "/bin/sh", "-c", script)

    def close(self):
        for sandbox in json.loads(self.kept("ls", "--json")):
            self.kept("rm", "--force", sandbox["name"])


@pytest.fixture
def box(pinfold, programs, tmp_path):
    if pinfold.rootless:
        tmp_path.chmod(0o755)
    box = Committer(pinfold, programs, tmp_path)
    yield box
    box.close()


def writable(box):
    """An ordinary user has one id, and is root inside."""
    return {**WRITABLE, "identity": {"user": 0, "group": 0, **({} if box.pinfold.rootless else {"ids": 65536})}}


def test_changes_become_an_image_that_runs_and_travels(box, tmp_path):
    box.build("base:1")
    box.up("work", "base:1", **writable(box))
    box.inside("work", CHANGES)
    made = json.loads(box.kept("commit", "--json", "--note", "a step", "work", "base:2"))
    assert len(made["layers"]) == 2 and made["signed_by"] == []
    assert box.inside("work", "cat /etc/new") == "new\n"  # it goes on
    look = "cat /etc/new /etc/link /srv/hard /opt/again; tail -n 1 /etc/group; ls /opt /etc; test -p /srv/pipe; test ! -u /srv/hard && stat -c %u:%g /etc/new"
    seen = box.output("base:2", "/bin/sh", "-c", look, policy=box.policy(**writable(box)))
    listed = seen.split()
    assert listed[:5] == ["new", "new", "new", "again", "more"] and listed[-1] == "0:0"
    assert "passwd" not in listed and "link" in listed
    assert box.output("base:1", "/bin/sh", "-c", "echo /etc/* /opt/*").split()[-2:] == ["/etc/resolv.conf", "/opt/*"]
    # what every sandbox gets of its own isn't the image's
    layer = box.store / "layers" / made["layers"][-1]["diff_id"].split(":")[1] / "root/etc"
    assert {path.name for path in layer.iterdir()} == {"new", "group", "passwd", "link"}
    box.image("export", "--tar", "base:2", box.pinfold.home / "out.tar")
    box.image("import", box.pinfold.home / "out.tar", "back")
    assert json.loads(box.image("show", "--json", "back"))["digest"] == made["digest"]
    if box.pinfold.rootless:
        return
    folder = tmp_path / "layout"
    box.image("export", "base:2", folder)
    subprocess.run(["skopeo", "inspect", f"oci:{folder}:2"], check=True, capture_output=True)
    subprocess.run(["umoci", "unpack", "--image", f"{folder}:2", tmp_path / "umoci"], check=True, capture_output=True)
    rootfs = tmp_path / "umoci/rootfs"
    assert (rootfs / "etc/new").read_text() == "new\n" and not (rootfs / "etc/passwd").exists()
    assert sorted(path.name for path in (rootfs / "opt").iterdir()) == ["again"]


def test_the_sandbox_stands_still_while_it_is_read(box):
    """Each pass writes its number into /z and then into /a; the layer is read the other way round, with what takes a while
    between: if passes went on meanwhile, /z would be ahead."""
    if box.pinfold.rootless:
        pytest.skip("an ordinary user has no freezer on this host")
    box.build("base")
    box.up("busy", "base", **{**writable(box), "filesystem": {"root": "overlay", "root_size": "64MiB", "write": ["/"]}})
    box.inside("busy", "mkdir /m; for i in a b c d e f g h; do dd if=/dev/zero of=/m/$i bs=1048576 count=4 2>/dev/null; done")
    box.kept("exec", "busy", "--detach", "--", "/bin/sh", "-c",
             "i=0; while true; do i=$((i+1)); echo $i >/z.new; mv /z.new /z; echo $i >/a.new; mv /a.new /a; done")
    box.inside("busy", "until test -e /a; do sleep 0.01; done")  # an exec is running before its first pass is done
    for turn in range(5):
        box.kept("commit", "busy", f"turn:{turn}")
        a, z = map(int, box.output(f"turn:{turn}", "/bin/sh", "-c", "cat /a /z").split())
        assert a in (z, z - 1)


def test_a_sandbox_without_changes_of_an_image_is_refused(box):
    box.build("base")
    box.up("sealed", "base")
    assert "can't be written" in box.kept("commit", "sealed", "new", code=125)
    box.kept("up", "host", "--policy", box.policy())
    assert "host" in box.kept("commit", "host", "new", code=125)
    assert "nobody" in box.kept("commit", "nobody", "new", code=125)
    assert "digest" in box.kept("commit", "sealed", "sha256:" + "0" * 64, code=125)


def test_names_that_would_be_whiteouts_are_refused_with_the_path(box):
    box.build("base")
    box.up("odd", "base", **writable(box))
    box.inside("odd", "touch /etc/.wh.group")
    assert "would be taken for a whiteout" in box.kept("commit", "odd", "new", code=125)


def test_a_committed_image_is_a_base_again_until_there_are_too_many_layers(box):
    box.build("step")
    for turn in range(3):
        box.up(f"s{turn}", "step", **writable(box))
        box.inside(f"s{turn}", f"echo {turn} >>/etc/turns")
        box.kept("commit", f"s{turn}", "step")
        box.kept("rm", "--force", f"s{turn}")
    assert box.output("step", "/bin/cat", "/etc/turns").split() == ["0", "1", "2"]


def test_gc_leaves_the_base_of_a_sandbox_that_is_committed_later(box):
    box.build("base")
    box.up("work", "base", **writable(box))
    box.inside("work", "echo kept >/etc/kept")
    box.image("rm", "base")
    box.image("gc")
    box.kept("commit", "work", "later")
    assert box.output("later", "/bin/cat", "/etc/kept") == "kept\n"


def test_podman_runs_what_was_committed(box, tmp_path):
    if box.pinfold.rootless or shutil.which("podman") is None:
        pytest.skip("needs root and podman")
    box.build("base")
    box.up("work", "base", **writable(box))
    box.inside("work", "echo by-pinfold >/etc/made")
    box.kept("commit", "work", "made")
    box.image("export", "--tar", "made", tmp_path / "made.tar")
    folder = pathlib.Path(f"/tmp/pin-commit-{int(time.time() * 1000) % 1000000}")
    podman = ["podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
    try:
        name = subprocess.run([*podman, "pull", "-q", f"oci-archive:{tmp_path}/made.tar"], check=True, capture_output=True, text=True).stdout.strip()
        mounted = subprocess.run([*podman, "image", "mount", name], check=True, capture_output=True, text=True).stdout.strip()
        assert (pathlib.Path(mounted) / "etc/made").read_text() == "by-pinfold\n"
        subprocess.run([*podman, "image", "umount", name], check=True, capture_output=True)
    finally:
        subprocess.run([*podman, "rmi", "--all", "--force"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
