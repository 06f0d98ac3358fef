"""pinfold run --image: roots from the layers of the store, and images that want out of them."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import image_bytes as hostile  # noqa: E402
from image_bytes import CHAR, DIR, LINK, entry, tar  # noqa: E402
from image_store import make_key, sign, tree_hash  # noqa: E402

BUSYBOX = pathlib.Path("/bin/busybox")
APPLETS = "sh ls cat id touch mkdir echo pwd env stat sleep dd head readlink wc rm mv true test grep find sort".split()
pytestmark = pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static")

BASE = tar(entry("bin", DIR, mode=0o755), entry("bin/busybox", data=BUSYBOX.read_bytes() if BUSYBOX.exists() else b"", mode=0o755),
           *[entry(f"bin/{name}", LINK, link="busybox") for name in APPLETS],
           entry("etc", DIR, mode=0o755), entry("etc/passwd", data=b"root:x:0:0::/:/bin/sh\nalice:x:4321:88::/:/bin/sh\n"),
           entry("etc/group", data=b"root:x:0:\npeople:x:88:\nstaff:x:99:\n"), entry("opt", DIR, mode=0o777))
WRITABLE = {"filesystem": {"root": "overlay", "root_size": "8MiB", "write": ["/"]}, "identity": {"user": 0, "group": 0}}


class Box:
    """`pinfold` with a store of its own, in which each image has the base layer below its own ones."""

    def __init__(self, pinfold, programs, folder):
        self.pinfold, self.program, self.folder = pinfold, programs / "pinfold-image", folder
        self.store = pinfold.home / "images"
        self.made = 0

    def environment(self):
        return self.pinfold.environment(PINFOLD_IMAGES=str(self.store))

    def image(self, *arguments, code=0):
        done = self.pinfold.call([str(self.program), *map(str, arguments)], env=self.environment())
        assert done.returncode == code, done.stderr
        return done.stdout.decode()

    def layout(self, *layers, config=None):
        self.made += 1
        folder = self.folder / f"source{self.made}"
        folder.mkdir()
        layers = [BASE, *layers]

        def bend(value):
            value["config"] = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"], **(config or {})}
            return value
        return hostile.Layout(layers, bend_config=bend).write(folder)

    def build(self, name, *layers, config=None):
        return self.image("import", self.layout(*layers, config=config), name)

    def argv(self, name, *command, policy=None, options=()):
        return self.pinfold.argv(*command, policy=policy, options=["--image", name, *options])

    def call(self, name, *command, **kwargs):
        return self.pinfold.call(self.argv(name, *command, **kwargs), env=self.environment())

    def output(self, name, *command, **kwargs):
        done = self.call(name, *command, **kwargs)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.decode()

    def refused(self, name, *command, **kwargs):
        done = self.call(name, *command, **kwargs)
        assert done.returncode == 125, (done.stdout, done.stderr)
        return done.stderr.decode()

    def policy(self, **fields):
        return self.pinfold.policy(**fields)


@pytest.fixture
def box(pinfold, programs, tmp_path):
    return Box(pinfold, programs, tmp_path)


@pytest.fixture
def root_box(as_root, programs, tmp_path):
    return Box(as_root, programs, tmp_path)


def test_an_image_is_the_root_and_nothing_of_the_host_is_in_it(box):
    box.build("box")
    shown = box.output("box", "sh", "-c", "ls /; id -u; cat /etc/passwd; cat /etc/hosts; ls -A /tmp; ls /dev/null")
    assert shown.split("1000\n")[0].split() == ["bin", "dev", "etc", "opt", "proc", "tmp"]
    assert "alice" in shown and "localhost pinfold" in shown and "/dev/null" in shown


def test_a_read_only_root_is_read_only_and_tmp_is_not(box):
    box.build("box")
    done = box.call("box", "sh", "-c", "echo x > /tmp/x && touch /opt/x /etc/x /new; cat /tmp/x")
    assert done.stdout == b"x\n" and done.stderr.count(b"Read-only file system") == 3


def test_what_the_image_has_in_etc_is_kept(box):
    box.build("box", tar(entry("etc/hosts", data=b"own hosts\n"), entry("etc/resolv.conf", LINK, link="../run/nowhere")))
    assert box.output("box", "sh", "-c", "cat /etc/hosts; readlink /etc/resolv.conf; cat /etc/hostname") == \
        "own hosts\n../run/nowhere\npinfold\n"


def test_layers_lie_over_each_other_with_whiteouts_and_opaque_directories(box):
    box.build("box", tar(entry("data", DIR, mode=0o755), entry("data/a", data=b"1"), entry("data/b", data=b"1"),
                         entry("deep", DIR, mode=0o755), entry("deep/old", data=b"1")),
              tar(entry("data/a", data=b"2"), entry("data/.wh.b"), entry("deep", DIR, mode=0o755), entry("deep/.wh..wh..opq"),
                  entry("deep/new", data=b"2")))
    assert box.output("box", "sh", "-c", "cat /data/a; ls -A /data /deep") == "2/data:\na\n\n/deep:\nnew\n"


def test_the_same_layer_may_come_more_than_once(box):
    """Empty layers of steps that change nothing, and one that does again what a layer between has undone."""
    again = tar(entry("data", DIR, mode=0o755), entry("data/a", data=b"1"), entry("data/.wh.b"))
    between = tar(entry("data/a", data=b"2"), entry("data/b", data=b"2"), entry("data/c", data=b"2"))
    box.build("box", tar(), again, tar(), between, again, tar())
    assert box.output("box", "sh", "-c", "cat /data/a; ls -A /data") == "1a\nc\n"
    shown = json.loads(box.image("show", "--json", "box"))
    assert len(shown["layers"]) == 7 and shown["layers"][2] == shown["layers"][5]


def test_a_whiteout_in_the_only_layer_is_no_device(box, tmp_path):
    lone = hostile.Layout([tar(*[entry("bin", DIR, mode=0o755), entry("bin/busybox", data=BUSYBOX.read_bytes(), mode=0o755)],
                               entry("bin/.wh.gone"))]).write(tmp_path)
    box.image("import", lone, "lone")
    done = box.call("lone", "/bin/busybox", "stat", "/bin/gone")
    assert done.returncode == 1 and b"No such file" in done.stderr


def test_as_many_layers_as_an_image_may_have(root_box):
    root_box.build("tall", *[tar(entry(f"l{i:03}", data=b"%d" % i), entry("last", data=b"%d" % i)) for i in range(126)])
    assert root_box.output("tall", "sh", "-c", "cat /last; ls / | grep -c l[01]") == "125126\n"


# --- what an image says of itself ----------------------------------------------------------------------------------

def test_entrypoint_and_command_are_run_where_the_request_has_none(box):
    box.build("box", config={"Entrypoint": ["/bin/echo", "entry"], "Cmd": ["cmd"]})
    assert box.output("box") == "entry cmd\n"
    assert box.output("box", "echo", "mine") == "mine\n"
    box.build("none", config={"Cmd": []})
    assert "no command" in box.refused("none")


def test_the_environment_lies_over_the_policys_and_below_the_requests(box):
    box.build("box", config={"Env": ["PATH=/bin", "HOME=/image", "A=image", "LD_PRELOAD=/x.so", "LANG=C"]})
    lines = box.output("box", "env", options=["--env", "A=request"]).split("\n")
    assert {"PATH=/bin", "HOME=/image", "A=request", "USER=tool", "LANG=C.UTF-8"} <= set(lines)
    assert not [line for line in lines if line.startswith("LD_")]


def test_the_working_directory_is_the_images_unless_there_is_a_workspace(box, tmp_path):
    box.build("box", config={"WorkingDir": "/made/for it/"})
    assert box.output("box", "pwd") == "/made/for it\n"
    work = box.pinfold.home / "work"
    work.mkdir()
    os.chown(work, box.pinfold.uid, box.pinfold.uid)
    assert box.output("box", "pwd", options=["--workspace", str(work)]) == "/workspace\n"


@pytest.mark.parametrize("user, ids", [("4321", "4321:88"), ("alice", "4321:88"), ("alice:staff", "4321:99"), ("5:6", "5:6"), ("", "0:0")])
def test_the_user_is_the_images_where_the_policy_grants_root(box, user, ids):
    box.build("box", config={"User": user})
    granted = box.policy(identity={"user": 0, "group": 0})
    assert box.output("box", "sh", "-c", "echo $(id -u):$(id -g)", policy=granted) == ids + "\n"
    assert box.output("box", "sh", "-c", "echo $(id -u):$(id -g)") == "1000:1000\n"


def test_a_user_that_the_image_does_not_have_is_an_error_where_it_counts(box):
    box.build("box", config={"User": "nobody-there"})
    assert box.output("box", "id", "-u") == "1000\n"
    assert "'nobody-there'" in box.refused("box", "id", policy=box.policy(identity={"user": 0, "group": 0}))


def test_a_volume_is_there_and_writable_where_the_policy_says_so(box):
    box.build("box", config={"Volumes": {"/data/volume": {}, "/../x": {}}})
    done = box.call("box", "sh", "-c", "ls -d /data/volume && touch /data/volume/x")
    assert done.stdout == b"/data/volume\n" and b"Read-only" in done.stderr
    box.output("box", "touch", "/data/volume/x", policy=box.policy(filesystem={"write": ["/data/volume", "/tmp"]}))


# --- a root that is written to -------------------------------------------------------------------------------------

def test_an_overlay_root_is_written_to_and_thrown_away(box):
    box.build("box", tar(entry("etc/file", data=b"image")))
    before = tree_hash(box.store)
    policy = box.policy(**WRITABLE)
    assert box.output("box", "sh", "-c", "echo mine > /etc/file; rm /etc/passwd; mkdir /new; cat /etc/file; ls /", policy=policy) \
        .split() == ["mine", "bin", "dev", "etc", "new", "opt", "proc"]
    assert box.output("box", "cat", "/etc/file") == "image"
    assert tree_hash(box.store) == before


def test_an_overlay_root_is_no_larger_than_the_policy_says(box):
    box.build("box")
    done = box.call("box", "sh", "-c", "dd if=/dev/zero of=/opt/big bs=1M count=64 2>&1; stat -c %s /opt/big", policy=box.policy(**WRITABLE))
    assert b"No space left" in done.stdout and int(done.stdout.split()[-1]) <= 8 << 20


def test_two_sandboxes_share_the_layers_and_see_nothing_of_each_other(box):
    box.build("box")
    policy = box.policy(**WRITABLE)
    argv = box.argv("box", "sh", "-c", "echo one > /opt/mark; echo ready; cat; cat /opt/mark", policy=policy, options=["--stdin", "-"])
    first = box.pinfold.spawn(argv, env=box.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert first.stdout.readline() == b"ready\n"
        assert box.output("box", "sh", "-c", "ls -A /opt; echo two > /opt/mark; cat /opt/mark", policy=policy) == "two\n"
        out, _ = first.communicate(b"", timeout=60)
        assert out == b"one\n"
    finally:
        first.kill()
        first.wait()


def test_a_bundle_with_a_writable_root_is_not_written_to(pinfold):
    policy = pinfold.policy(**WRITABLE)
    bundle = pinfold.home / "bundle"
    command = [str(pinfold.program), "bundle", "export", "--policy", policy, str(bundle), "--", "sh", "-c", "touch /made && ls /made"]
    assert pinfold.call(command).returncode == 0
    done = pinfold.call([str(pinfold.program), "run", "--policy", policy, "--bundle", str(bundle)])
    assert (done.returncode, done.stdout) == (0, b"/made\n"), done.stderr
    assert not (bundle / "rootfs/made").exists()


# --- images that mean harm -----------------------------------------------------------------------------------------

@pytest.fixture
def canary(tmp_path):
    """A directory of the host's that everybody may write to."""
    folder = tmp_path / "canary"
    folder.mkdir()
    (folder / "secret").write_text("of the host")
    os.chmod(folder, 0o777)
    before = tree_hash(folder)
    yield folder
    assert tree_hash(folder) == before


PLACES = ["dev", "proc", "sys", "tmp", "etc", "etc/resolv.conf", "workspace", "run", "data"]
TARGETS = ["{canary}", "{climb}{canary}", "/", ".", "/proc/1/root", "/proc/self/root{canary}", "nowhere", "/dev/null", "{self}"]
SEARCH = ("cat {canary}/secret; touch {canary}/x; for i in dev proc sys tmp etc workspace run data; do cat /$i/secret; "
          "touch /$i/hostile /$i/in/hostile; done; true")
LINKS = [(target, "plain") for target in TARGETS] + [("{canary}", "made"), ("/", "made"), ("{canary}", "there"), ("{climb}{canary}", "there")]


def linked(place, link, canary, how):
    """A layer with a link at the place; `there`: what the host has where it leads, the image has, too."""
    top = place.split("/")[0]
    parents = [entry(top, DIR, mode=0o755)] if "/" in place else [entry(f".wh.{place}")]
    parts = canary.parts[1:] if how == "there" else ()
    there = [entry("/".join(parts[:end]), DIR, mode=0o777) for end in range(1, len(parts) + 1)]
    return tar(*parents, *[part for part in there if part[0].name != place], entry(place, LINK, link=link))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target, how", LINKS)
def test_a_link_where_something_is_mounted_or_made_leads_nowhere_outside(box, canary, place, target, how):
    if how == "there" and place == canary.parts[1]:
        pytest.skip("it can't be a link and the directory that the link leads to")
    link = target.format(canary=canary, climb="../" * 20, self=place.split("/")[-1])
    config = {"WorkingDir": f"/{place}/made", "Volumes": {f"/{place}/volume": {}}} if how == "made" else {}
    box.build("box", linked(place, link, canary, how), config=config)
    work = box.pinfold.home / "work"
    work.mkdir()
    os.chown(work, box.pinfold.uid, box.pinfold.uid)
    policy = box.policy(filesystem={**WRITABLE["filesystem"], "write": ["/", "/tmp", "/dev/shm", "/data/in", "/run", "/workspace"]},
                        identity={"user": 0, "group": 0})
    done = box.call("box", "sh", "-c", SEARCH.format(canary=canary), policy=policy, options=["--workspace", str(work)])
    assert b"of the host" not in done.stdout
    assert done.returncode in (0, 125), done.stderr  # harmless, or refused in words
    if done.returncode == 125:
        assert done.stderr.startswith(b"pinfold: ") and done.stderr.count(b"\n") == 1
    if how == "there" and place in ("etc", "etc/resolv.conf", "run", "data"):
        assert done.returncode == 0, done.stderr  # the image's own directory, and nobody else's


@pytest.mark.parametrize("place", ["dev", "proc", "tmp", "etc", "sys"])
def test_a_file_where_a_directory_is_needed_is_refused_in_words(box, place):
    box.build("box", tar(entry(f".wh.{place}"), entry(place, data=b"file")) if place == "etc" else tar(entry(place, data=b"file")))
    done = box.call("box", "true")
    assert done.returncode == (0 if place == "sys" else 125), done.stderr


WHO = "#include <stdio.h>\n#include <unistd.h>\nint main(void) { return printf(\"%d %d\\n\", (int)geteuid(), (int)getegid()) < 0; }\n"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_programs_with_set_id_bits_are_inert(box, tmp_path):
    """A program that asks nobody to give its ids back, as busybox does. The control is the same file outside, where it becomes root."""
    who = tmp_path / "who"
    subprocess.run(["gcc", "-static", "-o", who, "-xc", "-"], input=WHO, text=True, check=True)
    box.build("box", tar(entry("set", DIR, mode=0o755), entry("set/id", data=who.read_bytes(), mode=0o6755)))
    assert box.output("box", "sh", "-c", "stat -c %a /set/id; /set/id") == "755\n1000 1000\n"
    kept = next(box.store.glob("layers/*/root/set/id"))
    os.chmod(kept, 0o6755)  # as if the store had kept the bits
    assert box.output("box", "sh", "-c", "stat -c %a /set/id; /set/id") == "6755\n1000 1000\n"
    if os.geteuid() == kept.stat().st_uid == 0:
        held = os.open(kept, os.O_RDONLY)
        outside = subprocess.check_output(["who"], executable=f"/proc/self/fd/{held}", pass_fds=[held], user=1000, group=1000, extra_groups=[])
        os.close(held)
        assert outside == b"0 0\n"


def test_device_nodes_of_an_image_are_nothing(box):
    box.build("box", tar(entry("dev", DIR, mode=0o755), entry("dev/sda", hostile.BLOCK, device=(254, 0), mode=0o666),
                         entry("dev/null", CHAR, device=(1, 1), mode=0o666), entry("memory", CHAR, device=(1, 1), mode=0o666)))
    shown = box.output("box", "sh", "-c", "ls /dev; stat -c %F:%t:%T /dev/null /memory; head -c 1 /memory | wc -c")
    assert "sda" not in shown and "character special file:1:3\nregular empty file:0:0\n0\n" in shown


def test_ids_beyond_the_sandboxs_own_belong_to_nobody(root_box):
    root_box.build("box", tar(entry("far", data=b"x", uid=70000, gid=70000, mode=0o600), entry("near", data=b"near", uid=7, mode=0o600)))
    done = root_box.call("box", "sh", "-c", "stat -c %u:%g /far /near; cat /far; cat /near", policy=root_box.policy(
        identity={"user": 0, "group": 0}, capabilities=["CAP_DAC_OVERRIDE"]))
    assert done.stdout == b"65534:65534\n7:0\nnear" and b"denied" in done.stderr


# --- what the policy says of images --------------------------------------------------------------------------------

def test_a_policy_grants_images_by_name_and_by_digest(box):
    box.build("team/tools:v1")
    digest = json.loads(box.image("show", "--json", "team/tools:v1"))["digest"]
    for name, images, granted in [("team/tools:v1", ["team/*"], True), ("team/tools:v1", ["other-*"], False),
                                  ("team/tools:v1", [{"digest": digest}], True), (digest, [{"digest": digest}], True),
                                  (digest, ["team/*"], False), (f"team/tools:v1@{digest}", ["team/tools:v1"], True),
                                  ("team/tools:v1", ["host"], False)]:
        done = box.call(name, "true", policy=box.policy(images=images))
        assert (done.returncode == 0) == granted, (name, images, done.stderr)
        assert granted or b"doesn't list the image" in done.stderr


def test_an_image_that_is_not_there_and_names_that_are_none(box):
    box.build("box")
    assert "no image 'none' in the store" in box.refused("none", "true")
    for name in ("host:latest", "../../etc", "BOX", "", "sha256:" + "0" * 64, "box@sha256:" + "0" * 64):
        box.refused(name, "true")


def test_a_signature_is_asked_for_before_anything_is_mounted(box, tmp_path):
    keys = box.pinfold.home / "keys"
    keys.mkdir()
    private, public = make_key(keys, "ecdsa")
    _, other = make_key(keys, "ed25519")
    for path in (keys, public, other):
        os.chmod(path, 0o755)
    layout = box.layout()
    sign(layout, private)
    box.image("import", "--key", public, layout, "signed")
    box.build("plain", tar(entry("differs")))

    def rule(*key, pattern="*"):
        return {"pattern": pattern, "require_signature": True, "keys": [str(path) for path in key]}
    assert box.output("signed", "echo", "ok", policy=box.policy(images=[rule(public)])) == "ok\n"
    assert box.output("signed", "echo", "ok", policy=box.policy(images=[rule(other), rule(public, pattern="sig*")])) == "ok\n"
    assert box.output("plain", "echo", "ok", policy=box.policy(images=[rule(public), "plain"])) == "ok\n"
    assert "requires a signature" in box.refused("plain", "true", policy=box.policy(images=[rule(public)]))
    assert "requires a signature" in box.refused("signed", "true", policy=box.policy(images=[rule(other)]))
    assert "no-such-key" in box.refused("signed", "true", policy=box.policy(images=[rule(keys / "no-such-key")]))
    assert not box.pinfold.leftovers()


# --- the store meanwhile -------------------------------------------------------------------------------------------

def test_an_image_that_runs_is_not_taken_away(box):
    box.build("box", tar(entry("late", data=b"still here")))
    argv = box.argv("box", "sh", "-c", "echo ready; cat; cat /late", options=["--stdin", "-"])
    running = box.pinfold.spawn(argv, env=box.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert running.stdout.readline() == b"ready\n"
        box.image("rm", "box")
        box.image("gc")
        assert list(box.store.glob("layers/*/root/late"))
        out, _ = running.communicate(b"", timeout=60)
        assert out == b"still here"
    finally:
        running.kill()
        running.wait()
    box.image("gc")
    assert not list(box.store.glob("layers/*"))


def test_a_layer_that_is_not_in_the_store_any_more_is_told(box):
    box.build("box", tar(entry("x")))
    shutil.rmtree(next(box.store.glob("layers/*/root/x")).parent)
    assert "isn't in the store" in box.refused("box", "true")


def test_a_killed_run_leaves_nothing_and_holds_nothing(box):
    box.build("box")
    argv = box.argv("box", "sh", "-c", "echo ready; sleep 60")
    running = box.pinfold.spawn(argv, env=box.environment(), stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    running.kill()
    running.communicate()
    deadline = time.monotonic() + 60
    box.image("rm", "box")
    while list(box.store.glob("layers/*")) and time.monotonic() < deadline:
        box.image("gc")  # the sandbox is dying, and its init may hold the lock a moment longer
    assert not list(box.store.glob("layers/*"))


def test_the_plan_of_an_image_names_its_layers(box):
    box.build("box", tar(entry("x")))
    command = [str(box.pinfold.program), "plan", "--policy", box.policy(), "--image", "box", "--json", "--", "true"]
    done = box.pinfold.call(command, env=box.environment())
    plan = json.loads(done.stdout)
    assert plan["root"]["from"] == "layers" and plan["root"]["read_only"] is True
    assert [pathlib.Path(layer["source"]).name for layer in plan["root"]["layers"]] == ["root", "root"]
    assert [layer.get("idmap", "none") for layer in plan["root"]["layers"]] == ["none" if box.pinfold.rootless else "sandbox"] * 2


def test_an_ordinary_user_with_many_ids_is_refused_in_words(programs, tmp_path, box):
    if not box.pinfold.rootless:
        pytest.skip("root's images have all ids")
    box.build("box")
    assert "" != box.refused("box", "true", policy=box.policy(identity={"user": 1000, "group": 1000, "ids": 65536}))


def test_images_built_by_umoci_run(root_box, tmp_path):
    if shutil.which("umoci") is None:
        pytest.skip("needs umoci")
    image = f"{tmp_path}/built:v1"

    def umoci(*arguments):
        subprocess.run(["umoci", *map(str, arguments)], check=True, capture_output=True)
    umoci("init", "--layout", tmp_path / "built")
    umoci("new", "--image", image)
    umoci("unpack", "--image", image, tmp_path / "one")
    (tmp_path / "one/rootfs/bin").mkdir()
    shutil.copy(BUSYBOX, tmp_path / "one/rootfs/bin/busybox")
    umoci("repack", "--image", image, tmp_path / "one")
    umoci("config", "--image", image, "--config.entrypoint", "/bin/busybox", "--config.cmd", "echo", "--config.cmd", "built")
    root_box.image("import", tmp_path / "built", "built")
    assert root_box.output("built") == "built\n"


def test_an_ordinary_user_with_subordinate_ids_has_many_in_an_image(box, tmp_path):
    """The ids are set aside in a mount namespace of the test's own; what belongs to the user belongs to the sandbox's."""
    if not box.pinfold.rootless or shutil.which("newuidmap") is None:
        pytest.skip("for an ordinary user, with newuidmap")
    box.build("many", tar(entry("opt/hers", data=b"read by who runs\n", mode=0o600, uid=4321)))
    own = box.pinfold.uid
    files = {"subuid": f"{own}:700000:65536\n", "subgid": f"{own}:700000:65536\n",
             "passwd": pathlib.Path("/etc/passwd").read_text() + f"pinfold-test:x:{own}:{own}::/:/bin/sh\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)
    policy = {**WRITABLE, "identity": {"user": 0, "group": 0, "ids": 65536}, "capabilities": ["CAP_CHOWN", "CAP_SETUID", "CAP_SETGID"],
              "optional": ["memory", "swap", "cpus", "pids", "landlock"]}
    command = box.argv("many", "/bin/sh", "-c", "cat /opt/hers; stat -c %u:%g /opt/hers; touch /opt/mine; cat /proc/self/uid_map; id -u",
                       policy=box.policy(**policy))
    script = f"for name in {' '.join(files)}; do mount --bind {tmp_path}/$name /etc/$name; done; " \
             f"exec setpriv --reuid {own} --regid {own} --clear-groups -- \"$@\""
    done = subprocess.run(["unshare", "--mount", "sh", "-ec", script, "sh", *command], env=box.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["read by who runs", "0:0"] and lines[-1] == "0"
    maps = [tuple(map(int, line.split())) for line in lines[2:-1]]
    assert maps == [(0, own, 1), (1, 700000, 65535)]


LOOK = """cd /; stat -c %Y srv/holes; for path in $(find etc opt srv usr var -xdev 2>/dev/null | sort); do
stat -c '%n %F %a %u:%g %h' $path | grep -v ' directory '; test -f $path -a ! -L $path && head -c 100 $path; test -L $path && readlink $path; done; true"""


def test_a_bundle_of_an_image_is_the_same_sandbox(box):
    box.build("many", tar(entry("srv", DIR), entry("srv/old", data=b"old"), entry("srv/gone", data=b"gone"), entry("usr/deep", DIR), entry("usr/deep/a", data=b"a"),
                          entry("var/file", data=b"below"), entry("srv/first", data=b"linked"), entry("srv/second", tarfile.LNKTYPE, link="srv/first"),
                          entry("srv/holes", data=b"x" + bytes(300000), mtime=12345)),
              tar(entry("srv/.wh.gone"), entry("srv/old", data=b"new", mode=0o640, uid=7, gid=8), entry("usr/deep/.wh..wh..opq"), entry("usr/deep/b", data=b"b"),
                  entry("var/file", DIR), entry("var/file/inside", data=b"now a directory"), entry("srv/link", LINK, link="/etc/passwd"),
                  entry("srv/pipe", tarfile.FIFOTYPE, mode=0o622)))
    for name, policy in {"sealed": {}, "open": WRITABLE}.items():
        policy = box.policy(**policy)
        folder = box.pinfold.home / name
        argv = [str(box.pinfold.program), "bundle", "export", "--policy", policy, "--image", "many", str(folder), "--", "/bin/sh", "-c", LOOK]
        done = box.pinfold.call(argv, env=box.environment())
        assert done.returncode == 0, done.stderr
        again = box.pinfold.call([str(box.pinfold.program), "run", "--policy", policy, "--bundle", str(folder)], env=box.environment())
        assert again.returncode == 0, again.stderr
        assert again.stdout.decode() == box.output("many", "/bin/sh", "-c", LOOK, policy=policy)
        assert b"srv/old" in again.stdout and b"srv/gone" not in again.stdout and b"deep/a" not in again.stdout
        assert (folder / "rootfs/srv/holes").stat().st_blocks * 512 <= 300001 + 4096


def test_a_bundle_of_an_image_that_wants_out_stays_below_its_folder(box):
    canary = box.pinfold.home / "canary"
    canary.mkdir()
    (canary / "kept").write_text("kept")
    os.chown(canary, box.pinfold.uid, box.pinfold.uid)
    out = str(canary)
    box.build("sly", tar(entry("srv", DIR), entry("srv/to", DIR), entry("srv/to/kept", data=b"in the image"), entry("home", LINK, link=out)),
              tar(entry("srv/to", LINK, link=out)), tar(entry("srv/to", DIR), entry("srv/to/.wh.kept"), entry("srv/to/new", data=b"new"), entry("var", LINK, link=out)))
    folder = box.pinfold.home / "bundle"
    done = box.pinfold.call([str(box.pinfold.program), "bundle", "export", "--policy", box.policy(), "--image", "sly", str(folder), "--", "/bin/true"],
                            env=box.environment())
    assert done.returncode in (0, 125)
    assert [path.name for path in canary.iterdir()] == ["kept"] and (canary / "kept").read_text() == "kept"
    assert sorted(path.name for path in (folder / "rootfs/srv/to").iterdir()) == ["new"]


def test_an_image_built_by_buildah_runs(box, tmp_path):
    """By buildah itself, or by podman, which has it inside."""
    builder = next(([tool, *words] for tool, words in (("buildah", ["bud"]), ("podman", ["build"])) if shutil.which(tool)), None)
    if builder is None or box.pinfold.rootless:
        pytest.skip("needs root, and buildah or podman")
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(BUSYBOX, context / "busybox")
    (context / "Dockerfile").write_text("FROM scratch\nCOPY busybox /bin/sh\nCOPY busybox /bin/id\nCOPY Dockerfile /etc/made\nENV MADE=elsewhere\n"
                                        "WORKDIR /etc\nUSER 77:88\nENTRYPOINT [\"/bin/sh\", \"-c\"]\nCMD [\"id -u; id -g; pwd; echo $MADE; read line <made; echo $line\"]\n")
    folder = pathlib.Path(f"/tmp/pin-build-{os.getpid()}")  # podman wants a short path
    where = ["--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
    try:
        subprocess.run([builder[0], *where, builder[1], "--network", "none", "-t", "made:1", str(context)], check=True, capture_output=True)
        subprocess.run([builder[0], *where, "push", "-q", "made:1", f"oci:{tmp_path}/made:1"], check=True, capture_output=True)
    finally:
        subprocess.run([builder[0], *where, "rmi", "--all", "--force"], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    box.image("import", tmp_path / "made", "made")
    policy = box.policy(identity={"user": 0, "group": 0, "ids": 65536})
    done = box.pinfold.call([str(box.pinfold.program), "run", "--policy", policy, "--image", "made"], env=box.environment())
    assert done.stdout.decode().split("\n")[:5] == ["77", "88", "/etc", "elsewhere", "FROM scratch"], done.stderr
