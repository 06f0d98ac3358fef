"""pinfold image: the store, its sources, and images that mean harm."""
import base64
import hashlib
import json
import os
import pathlib
import pty
import random
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import termios
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hostile_images as hostile  # noqa: E402

USER = 61234


class Images:
    """`pinfold image` with a store of its own."""

    def __init__(self, program, folder, uid=0):
        self.program, self.store, self.uid = program, folder / "store", uid

    def argv(self, *arguments):
        return [str(self.program), *map(str, arguments)]

    def environment(self, **extra):
        return {"PATH": os.environ["PATH"], "HOME": str(self.store.parent), "PINFOLD_IMAGES": str(self.store), **extra}

    def call(self, *arguments, timeout=120, prefix=(), **extra):
        identity = {"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid != os.geteuid() else {}
        return subprocess.run([*prefix, *self.argv(*arguments)], env=self.environment(**extra), capture_output=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, **identity)

    def ok(self, *arguments, **extra):
        done = self.call(*arguments, **extra)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, verb, *arguments, **extra):
        return json.loads(self.ok(verb, "--json", *arguments, **extra))

    def refused(self, verb, *arguments, **extra):
        done = self.call(verb, "--json", *arguments, **extra)
        assert done.returncode == 125, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)["error"]

    def visible(self):
        """What a reader could find: names, images, layers."""
        return sorted(str(path.relative_to(self.store)) for folder in ("refs", "images", "layers")
                      for path in (self.store / folder).glob("*"))

    def leftovers(self):
        return list((self.store / "tmp").iterdir())

    def roots(self):
        return sorted(self.store.glob("layers/*/root"))

    def layers_of(self, name):
        shown = self.json("show", name)
        return [self.store / "layers" / layer["diff_id"][7:] / "root" for layer in shown["layers"]]


@pytest.fixture
def images(programs, tmp_path):
    return Images(programs / "pinfold-image", tmp_path, os.geteuid())


def tree_hash(root, attributes=True, mask=0o7777):
    """Everything that a tree says, as one digest; and line by line, for a message."""
    lines = []
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in ["."] * (folder == str(root)) + sorted(folders + files):
            path = pathlib.Path(folder) / name
            state = path.lstat()
            line = [str(path.relative_to(root)), stat.filemode(state.st_mode & (mask | 0o170000)), state.st_uid, state.st_gid]
            if stat.S_ISREG(state.st_mode):
                line += [state.st_size, hashlib.sha256(path.read_bytes()).hexdigest()]
            if stat.S_ISLNK(state.st_mode):
                line += [os.readlink(path)]
            if stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode):
                line += [state.st_rdev]
            if not stat.S_ISDIR(state.st_mode) or attributes:
                line += [int(state.st_mtime)]
            if attributes and not stat.S_ISLNK(state.st_mode):
                line += [(name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)) if name.startswith("user.")]
            lines.append(repr(line))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), lines


@pytest.fixture
def canary(tmp_path):
    """A tree outside of everything that no image may change."""
    root = tmp_path / "canary"
    (root / "folder").mkdir(parents=True)
    (root / "file").write_text("untouched")
    (root / "folder/inner").write_text("untouched")
    (root / "secret").write_text("untouched")
    (root / "secret").chmod(0o600)
    for path in [root / "file", root / "secret", root / "folder/inner", root / "folder", root]:
        os.utime(path, (1000, 1000))
    before = tree_hash(root)[0]
    yield root
    assert tree_hash(root)[0] == before


def plain_tree(folder, size=1):
    """A small root filesystem."""
    for name in ("etc", "usr/bin", "usr/lib", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (folder / "usr/bin/tool").write_bytes(b"\x7fELF" + b"x" * size)
    (folder / "usr/bin/tool").chmod(0o755)
    (folder / "bin").symlink_to("usr/bin")
    os.link(folder / "usr/bin/tool", folder / "usr/bin/tool2")
    return folder


@pytest.fixture
def layout(tmp_path):
    """A sound image of three layers, with whiteouts and an opaque directory."""
    make = tmp_path / "sound"
    make.mkdir()
    entry, tar = hostile.entry, hostile.tar
    directory = dict(kind=hostile.DIR, mode=0o755)
    layers = [
        tar(entry("etc", **directory), entry("etc/keep", data=b"keep"), entry("etc/gone", data=b"gone"), entry("d", **directory),
            entry("d/old", data=b"old"), entry("bin", **directory), entry("bin/sh", data=b"#!", mode=0o4755, uid=5, gid=6)),
        hostile.gzip.compress(tar(entry("etc", **directory), entry("etc/.wh.gone"), entry("d", **directory),
                                  entry("d/.wh..wh..opq"), entry("d/new", data=b"new")), mtime=0),
        hostile.zstd(tar(entry("etc", **directory), entry("etc/hard", data=b"hard"), entry("etc/hard2", hostile.HARD, link="etc/hard"))),
    ]
    types = [hostile.LAYER, hostile.LAYER + "+gzip", hostile.LAYER + "+zstd"]
    return hostile.Layout(layers, types).write(make)


def without_zstd(layout, folder):
    """The same image with plain layers, for others' tools that don't know zstd."""
    def blob(descriptor):
        return (layout / "blobs/sha256" / descriptor["digest"][7:]).read_bytes()
    manifest = json.loads(blob(json.loads((layout / "index.json").read_text())["manifests"][0]))
    (folder / "plain").mkdir()
    return hostile.Layout([hostile.plain(blob(layer)) for layer in manifest["layers"]]).write(folder / "plain")


# --- hostile images ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("case", hostile.CASES, ids=lambda case: case.name)
def test_hostile_image(images, canary, tmp_path, case):
    folder = tmp_path / "case"
    folder.mkdir()
    path = case.build(hostile.Place(folder, canary))
    begun = time.monotonic()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = images.call("import", "--json", *case.options, path, "hostile")
    assert time.monotonic() - begun < 60
    answer = json.loads(done.stdout)
    if done.returncode == 0:
        assert case.expect != "refused", answer
        for root in images.roots():
            hostile_free(root)
            if case.check is not None:
                case.check(root)
        assert images.json("verify")["faults"] == []
    else:
        assert done.returncode == 125 and case.expect != "inert", answer
        assert answer["error"]["kind"] in ("invalid", "refused", "syntax", "unsupported", "not_found", "usage", "system", "exhausted")
        assert answer["error"]["message"]
        assert images.visible() == [] or case.name.startswith("parent_") or only_layers(images)
    assert images.leftovers() == []
    del usage


def only_layers(images):
    """Layers of their own that were sound before another one failed may stay for gc; no image or name may."""
    assert not list((images.store / "refs").iterdir()) and not list((images.store / "images").iterdir())
    images.ok("gc")
    return images.visible() == []


def hostile_free(root):
    """What is never in the store, whatever an image says."""
    for path in hostile.all_paths(root):
        mode = path.lstat().st_mode
        assert not stat.S_ISBLK(mode) and not stat.S_ISSOCK(mode)
        assert not stat.S_ISCHR(mode) or path.lstat().st_rdev == 0
        assert stat.S_ISDIR(mode) or not mode & 0o6000


def test_memory_stays_bounded_with_names_and_windows_of_gigabytes(images, tmp_path):
    for name in ("tar_gnu_name_huge", "tar_pax_header_huge", "gzip_bomb", "zstd_with_a_huge_window"):
        case = next(case for case in hostile.CASES if case.name == name)
        folder = tmp_path / name
        folder.mkdir()
        path = case.build(hostile.Place(folder, tmp_path))
        # by a small process: a child's peak counts from before its exec, when it is as large as its parent
        script = "import os,sys;print(os.wait4(os.posix_spawn(sys.argv[1],sys.argv[1:],os.environ),0)[2].ru_maxrss)"
        done = subprocess.run([sys.executable, "-S", "-c", script, *images.argv("import", path, "x")], env=images.environment(),
                              capture_output=True, check=True)
        assert int(done.stdout) < 200 << 10, (name, done.stdout)


def test_a_single_flipped_bit_is_never_accepted(images, layout, canary):
    blobs = sorted((layout / "blobs/sha256").iterdir())
    chance = random.Random(7)
    accepted = []
    for number in range(1000):
        blob = chance.choice(blobs)
        data = bytearray(blob.read_bytes())
        bit = chance.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        good = blob.read_bytes()
        blob.write_bytes(data)
        shutil.rmtree(images.store, ignore_errors=True)  # else its own sound copy would do
        done = images.call("import", layout, "flipped")
        blob.write_bytes(good)
        if done.returncode == 0:
            accepted.append((number, blob.name, bit))
    assert accepted == []
    assert not list((images.store / "refs").iterdir()) and not list((images.store / "images").iterdir())
    images.ok("import", layout, "sound")


def test_a_blob_swapped_while_it_is_copied_is_refused_or_whole(images, layout):
    """The digest is of the bytes that are kept: whatever a writer does, what is accepted is sound."""
    blob = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    good, evil = blob.read_bytes(), b"\0" * blob.stat().st_size
    stop = pathlib.Path(str(layout) + ".stop")
    writer = subprocess.Popen([sys.executable, "-c", """
import sys, os
path, stop = sys.argv[1:]
good = open(path, 'rb').read()
while not os.path.exists(stop):
    for data in (bytes(len(good)), good):
        with open(path, 'r+b') as to: to.write(data)
""", str(blob), str(stop)])
    try:
        results = {images.call("import", layout, f"x{number}").returncode for number in range(60)}
    finally:
        stop.touch()
        writer.wait()
    assert results <= {0, 125}
    assert len(evil) == len(good)
    if images.store.exists():
        assert images.json("verify")["faults"] == []


# --- sources -------------------------------------------------------------------------------------------------------

def check_sound(images, name):
    low, middle, high = images.layers_of(name)
    assert (low / "etc/gone").read_bytes() == b"gone" and stat.S_IMODE((low / "bin/sh").stat().st_mode) == 0o755
    gone = (middle / "etc/gone").lstat()
    assert stat.S_ISCHR(gone.st_mode) and gone.st_rdev == 0
    assert os.getxattr(middle / "d", "user.overlay.opaque") == b"y" and sorted(os.listdir(middle / "d")) == ["new"]
    assert (high / "etc/hard").stat().st_ino == (high / "etc/hard2").stat().st_ino


def test_a_layout_directory_is_imported(images, layout):
    done = images.json("import", layout, "sound:v1")
    assert done["name"] == "sound:v1" and len(done["layers"]) == 3 and done["config"]["cmd"] == ["/bin/sh"]
    check_sound(images, "sound:v1")
    assert images.leftovers() == []


def test_a_layout_tar_is_imported_whatever_its_compression(images, layout, tmp_path):
    for name, flag in {"a.tar": "", "a.tgz": "-z", "a.tar.zst": "--zstd"}.items():
        subprocess.run(["tar", *([flag] if flag else []), "-cf", tmp_path / name, "-C", layout, "."], check=True)
        images.ok("import", tmp_path / name, name.replace(".", "-"))
        check_sound(images, name.replace(".", "-"))
    assert len({image["digest"] for image in images.json("ls")["images"]}) == 1


def test_the_source_gives_the_name_where_none_is_given(images, layout):
    assert images.json("import", layout)["name"] == "hostile"


def test_a_docker_archive_gets_the_same_layers(images, layout, tmp_path):
    layout = without_zstd(layout, tmp_path)  # which has no name in that archive
    images.ok("import", layout, "direct")
    subprocess.run(["skopeo", "copy", f"oci:{layout}:hostile", f"docker-archive:{tmp_path}/d.tar:team/app:3"], check=True,
                   capture_output=True)
    assert images.json("import", tmp_path / "d.tar")["name"] == "docker.io/team/app:3"
    first, second = images.json("show", "direct"), images.json("show", "docker.io/team/app:3")
    assert [layer["diff_id"] for layer in first["layers"]] == [layer["diff_id"] for layer in second["layers"]]
    check_sound(images, "docker.io/team/app:3")


@pytest.mark.parametrize("before", ["", "./"])
@pytest.mark.parametrize("layer", ["0/layer.tar", "\u00e4 \u00f6/l\u00e4yer:1.tar", "manifest.json.d/layer.tar", "layers/etc"])
def test_a_docker_archive_is_told_whatever_its_layers_are_called(images, tmp_path, before, layer):
    data = hostile.tar(hostile.entry("etc/x", data=b"hi"))
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["told"]}, "rootfs": {"type": "layers", "diff_ids": [hostile.digest(data)]}}
    members = [(layer, data), ("c.json", json.dumps(config).encode()),
               ("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": None, "Layers": [layer]}]).encode())]
    (tmp_path / "odd.tar").write_bytes(hostile.tar(*[hostile.entry(before + name, data=content) for name, content in members]))
    assert images.json("import", tmp_path / "odd.tar", "odd")["config"]["cmd"] == ["told"]


def test_a_root_filesystem_with_a_manifest_of_its_own_is_one(images, tmp_path):
    for content in (b"{}", b"[]", b"[7]", b"no JSON", b"[" * 100000):
        (tmp_path / "web.tar").write_bytes(hostile.tar(hostile.entry("manifest.json", data=content), hostile.entry("index.html", data=b"x")))
        assert images.json("import", tmp_path / "web.tar", "web")["config"]["cmd"] == ["/bin/sh"]


def test_a_root_filesystem_is_imported_from_directory_and_tar_alike(images, tmp_path):
    tree = plain_tree(tmp_path / "tree")
    subprocess.run(["tar", "-czf", tmp_path / "tree.tgz", "-C", tree, "."], check=True)
    images.ok("import", tree, "directory")
    images.ok("import", tmp_path / "tree.tgz", "tar")
    for name in ("directory", "tar"):
        root, = images.layers_of(name)
        assert tree_hash(root)[1] == tree_hash(tree)[1]


def test_the_same_directory_gives_the_same_digest(images, tmp_path):
    tree, again = plain_tree(tmp_path / "tree"), tmp_path / "again"
    shutil.copytree(tree, again, symlinks=True)
    os.unlink(again / "usr/bin/tool2")
    os.link(again / "usr/bin/tool", again / "usr/bin/tool2")
    digests = {images.json("import", path, "x", SOURCE_DATE_EPOCH="0")["digest"] for path in (tree, again)}
    assert len(digests) == 1


def test_an_index_for_several_machines_gives_the_one_of_the_platform(images, layout, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    arm = hostile.Layout([hostile.LAYER_OK], bend_config=lambda config: {**config, "architecture": "arm64"}).write(other)
    mine, theirs = (json.loads((path / "index.json").read_text())["manifests"][0] for path in (layout, arm))
    for blob in (arm / "blobs/sha256").iterdir():
        shutil.copy(blob, layout / "blobs/sha256")
    mine["platform"], theirs["platform"] = ({"os": "linux", "architecture": name} for name in ("amd64", "arm64"))
    data = json.dumps({"schemaVersion": 2, "mediaType": hostile.INDEX, "manifests": [theirs, mine]}).encode()
    (layout / "blobs/sha256" / hostile.digest(data)[7:]).write_bytes(data)
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {"mediaType": hostile.INDEX, "digest": hostile.digest(data), "size": len(data)}]}))
    done = images.json("import", layout, "here")
    assert done["digest"] == mine["digest"] and done["index"] == hostile.digest(data)
    assert images.json("import", "--platform", "linux/arm64/v8", layout, "there")["digest"] == theirs["digest"]
    assert images.refused("import", "--platform", "linux/s390x", layout, "nowhere")["kind"] == "not_found"


def test_several_images_in_a_layout_need_a_choice(images, layout):
    index = json.loads((layout / "index.json").read_text())
    second = json.loads(json.dumps(index["manifests"][0]))
    second["annotations"]["org.opencontainers.image.ref.name"] = "other"
    index["manifests"].append(second)
    (layout / "index.json").write_text(json.dumps(index))
    assert "--ref" in images.refused("import", layout, "x")["hint"]
    images.ok("import", "--ref", "other", layout, "x")


# --- the registry --------------------------------------------------------------------------------------------------

def registry_at(tmp_path, more):
    """Debian's docker-registry on loopback; what it says goes into a file."""
    if shutil.which("docker-registry") is None or shutil.which("skopeo") is None:
        pytest.skip("needs docker-registry and skopeo")
    port = 20000 + os.getpid() % 20000
    config = tmp_path / "registry.yml"
    config.write_text(json.dumps({"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
                                  "http": {"addr": f"127.0.0.1:{port}"}, **more}))
    log = open(tmp_path / "registry.log", "wb")
    server = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    deadline = time.monotonic() + 20
    while subprocess.run(["skopeo", "list-tags", "--tls-verify=false", f"docker://127.0.0.1:{port}/none"],
                         capture_output=True).stderr.find(b"refused") >= 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield f"127.0.0.1:{port}"
    server.kill()
    server.wait()


@pytest.fixture
def registry(tmp_path):
    yield from registry_at(tmp_path, {})


def push(layout, registry, name):
    subprocess.run(["skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{registry}/{name}"], check=True,
                   capture_output=True)


def test_pull_gets_an_image_with_its_digest(images, layout, registry):
    push(layout, registry, "team/app:1")
    done = images.json("pull", "--insecure", f"{registry}/team/app:1")
    raw = subprocess.run(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{registry}/team/app:1"],
                         capture_output=True, check=True).stdout
    assert done["digest"] == hostile.digest(raw) and done["name"] == f"{registry}/team/app:1"
    check_sound(images, done["name"])
    images.ok("pull", "--insecure", "--name", "app", f"{registry}/team/app:1")
    assert {image["name"] for image in images.json("ls")["images"]} == {"app", done["name"]}
    assert images.leftovers() == []


def test_pull_says_what_is_missing(images, registry):
    error = images.refused("pull", "--insecure", f"{registry}/no/such:1")
    assert "no/such" in error["message"] and "manifest unknown" in error["message"]
    error = images.refused("pull", f"{registry}/no/such:1", PATH="/nowhere")
    assert error["kind"] == "unsupported" and "apt install skopeo" in error["hint"]


@pytest.fixture
def locked_registry(tmp_path, layout):
    """A registry that wants a name and a password, with one image in it; and the file that has them."""
    crypt = pytest.importorskip("crypt", reason="makes the registry's password file")
    (tmp_path / "htpasswd").write_text("tester:" + crypt.crypt("s3cret", crypt.mksalt(crypt.METHOD_BLOWFISH)) + "\n")
    yield from registry_at(tmp_path, {"auth": {"htpasswd": {"realm": "test", "path": str(tmp_path / "htpasswd")}}})


def test_pull_takes_credentials_from_the_auth_file(images, layout, locked_registry, tmp_path):
    authfile = tmp_path / "auth.json"
    authfile.write_text(json.dumps({"auths": {locked_registry: {"auth": base64.b64encode(b"tester:s3cret").decode()}}}))
    subprocess.run(["skopeo", "copy", "--dest-tls-verify=false", "--dest-authfile", authfile, f"oci:{layout}", f"docker://{locked_registry}/app:1"],
                   check=True, capture_output=True)
    assert "app:1" in images.refused("pull", "--insecure", f"{locked_registry}/app:1")["message"]
    images.ok("pull", "--insecure", "--authfile", authfile, "--name", "given", f"{locked_registry}/app:1")
    images.ok("pull", "--insecure", "--name", "usual", f"{locked_registry}/app:1", REGISTRY_AUTH_FILE=str(authfile))
    assert len({image["digest"] for image in images.json("ls")["images"]}) == 1
    assert "s3cret" not in "".join(path.read_text(errors="replace") for path in images.store.rglob("*") if path.is_file())


def test_pull_goes_by_the_mirrors_that_are_configured(images, layout, registry, tmp_path):
    push(layout, registry, "team/app:1")
    folder = tmp_path / ".config/containers"
    folder.mkdir(parents=True)
    (folder / "registries.conf").write_text(f'[[registry]]\nlocation = "registry.invalid"\n[[registry.mirror]]\nlocation = "{registry}"\ninsecure = true\n')
    images.refused("pull", "--name", "app", "registry.invalid/team/app:1", HOME="/nowhere")
    images.ok("pull", "--name", "app", "registry.invalid/team/app:1", HOME=str(tmp_path))
    check_sound(images, "app")


def test_pull_obeys_the_policy_of_skopeo(images, layout, registry, tmp_path):
    push(layout, registry, "team/app:1")
    folder = tmp_path / ".config/containers"
    folder.mkdir(parents=True)
    (folder / "policy.json").write_text(json.dumps({"default": [{"type": "reject"}]}))
    assert "rejected by policy" in images.refused("pull", "--insecure", f"{registry}/team/app:1", HOME=str(tmp_path))["message"]
    assert images.json("ls")["images"] == []


def test_pull_shows_how_far_it_is_on_a_terminal(images, layout, registry):
    push(layout, registry, "team/app:1")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 200))
    pull = subprocess.Popen(images.argv("pull", "--insecure", f"{registry}/team/app:1"), env=images.environment(), stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        shown += piece
        if not piece:
            break
    os.close(ours)
    assert pull.wait() == 0 and b"Copying blob" in shown


def test_a_pull_that_is_killed_leaves_nothing_and_no_skopeo(images, layout, registry, tmp_path):
    push(layout, registry, "team/app:1")
    for turn in range(12):
        pull = subprocess.Popen(images.argv("pull", "--insecure", "--name", "app", f"{registry}/team/app:1"), env=images.environment(PINFOLD_TEST=str(tmp_path)),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.02 * turn)
        pull.kill()
        pull.wait()
        deadline = time.monotonic() + 10
        while running_with(f"PINFOLD_TEST={tmp_path}"):
            assert time.monotonic() < deadline, "skopeo outlives the pull"
            time.sleep(0.01)
        if images.store.exists():
            assert images.json("verify")["faults"] == []
    images.ok("pull", "--insecure", "--name", "app", f"{registry}/team/app:1")
    check_sound(images, "app")
    assert images.leftovers() == []


def running_with(variable):
    """Processes that have this in their environment."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:
            pass
    return found


def test_a_pull_into_a_full_store_says_so_and_leaves_nothing(images, layout, registry, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    push(layout, registry, "team/app:1")
    small = tmp_path / "small"
    small.mkdir()
    command = " ".join(map(str, images.argv("pull", "--insecure", "--name", "app", f"{registry}/team/app:1")))
    whole = 0
    for pages in (16, 20, 24, 28, 32, 48, 64, 128):
        script = f"mount -t tmpfs -o size={pages * 4096},mode=700 none {small}; {command}; code=$?; ls {small}/tmp {small}/images >&2; exit $code"
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=images.environment(PINFOLD_IMAGES=str(small)), capture_output=True, text=True)
        left = done.stderr.splitlines()
        assert done.returncode in (0, 125), done.stderr
        whole += done.returncode == 0
        if done.returncode == 125:
            assert "space" in done.stderr or "ENOSPC" in done.stderr, done.stderr
            assert not [line for line in left if len(line) == 17 and line.startswith("w")]
    assert whole < 8


def test_two_pulls_of_one_image_do_the_work_once(images, layout, registry, tmp_path):
    push(layout, registry, "team/app:1")
    wrapper = tmp_path / "wrapped"
    wrapper.mkdir()
    (wrapper / "skopeo").write_text(f"#!/bin/sh\necho \"$1\" >> {tmp_path}/calls\nexec {shutil.which('skopeo')} \"$@\"\n")
    (wrapper / "skopeo").chmod(0o755)
    environment = images.environment(PATH=f"{wrapper}:{os.environ['PATH']}")
    pulls = [subprocess.Popen(images.argv("pull", "--insecure", "--name", f"n{number}", f"{registry}/team/app:1"), env=environment,
                              stdout=subprocess.DEVNULL) for number in range(4)]
    assert [pull.wait() for pull in pulls] == [0] * 4
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("inspect") == 4 and calls.count("copy") == 1
    assert len({image["digest"] for image in images.json("ls")["images"]}) == 1


# --- names, gc, verify, export -------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["", "host", "host:1", "../x", "a/../b", "/a", "a/", "a//b", "a:", "a:b:c", "-a", ".a", "a..b", "a b",
                                  "a\nb", "a+b", "a,b", "x" * 201, "a:" + "t" * 129, "a@sha256:12", "a:.t", "é"])
def test_names_that_are_none_are_refused(images, layout, name):
    assert images.refused("import", layout, name)["kind"] in ("invalid", "usage")
    assert images.refused("show", name)["kind"] in ("invalid", "not_found", "usage")


def test_names_come_and_go(images, layout):
    digest = images.json("import", layout, "one")["digest"]
    images.ok("tag", "one", "localhost:5000/team/two:v2")
    assert images.json("show", "localhost:5000/team/two:v2")["digest"] == digest
    assert images.json("show", f"one@{digest}")["digest"] == digest and images.json("show", digest)["name"] is None
    assert images.refused("show", "one@" + hostile.OTHER)["kind"] == "not_found"
    images.ok("rm", "one")
    assert images.refused("show", "one")["kind"] == "not_found"
    assert [image["name"] for image in images.json("ls")["images"]] == ["localhost:5000/team/two:v2"]


def test_gc_takes_what_has_no_name_and_says_so_first(images, layout, tmp_path):
    images.ok("import", layout, "one")
    images.ok("import", plain_tree(tmp_path / "tree"), "two")
    assert images.json("gc")["images"] == 0
    images.ok("rm", "one")
    before = images.visible()
    dry = images.json("gc", "--dry-run")
    assert (dry["images"], dry["layers"], dry["blobs"]) == (1, 3, 5) and images.visible() == before
    wet = images.json("gc")
    assert {**dry, "dry_run": False} == wet
    assert images.json("verify")["faults"] == [] and len(images.roots()) == 1
    images.ok("rm", "two")
    images.ok("gc")
    assert images.visible() == [] and not list((images.store / "blobs").iterdir())


def test_gc_leaves_an_image_that_is_held(images, layout):
    import fcntl
    digest = images.json("import", layout, "one")["digest"]
    images.ok("rm", "one")
    hold = os.open(images.store / "images" / digest[7:], os.O_RDONLY)
    fcntl.flock(hold, fcntl.LOCK_SH)
    assert images.json("gc")["held"] == 1 and len(images.roots()) == 3
    os.close(hold)
    assert images.json("gc")["images"] == 1 and images.roots() == []


def test_verify_names_every_damage(images, layout):
    images.ok("import", layout, "one")
    low, middle, high = images.layers_of("one")
    assert images.json("verify")["faults"] == []
    (low / "etc/keep").write_text("kept")
    (middle / "d/new").unlink()
    (high / "etc/extra").write_text("extra")
    blob = max((images.store / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    with open(blob, "r+b") as to:
        to.write(b"\xff")
    done = images.call("verify", "--json")
    faults = {(fault["what"], fault["detail"]) for fault in json.loads(done.stdout)["faults"]}
    assert done.returncode == 1
    for expected in [(f"layer sha256:{low.parent.name} /etc/keep", "changed"), (f"layer sha256:{middle.parent.name} /d/new", "missing"),
                     (f"layer sha256:{high.parent.name} /etc/extra", "extra"), (f"blob sha256:{blob.name}", "damaged")]:
        assert expected in faults
    assert len(faults) == 6  # and the two directories whose times have changed


def test_a_damaged_blob_is_replaced_by_the_next_import(images, layout):
    images.ok("import", layout, "one")
    for blob in (images.store / "blobs").iterdir():
        with open(blob, "r+b") as to:
            to.write(b"\xff")
    images.ok("import", layout, "one")
    assert images.json("verify")["faults"] == []


@pytest.mark.parametrize("as_tar", [False, True])
def test_export_is_accepted_by_others_and_comes_back_the_same(images, layout, tmp_path, as_tar):
    digest = images.json("import", layout, "one:v1")["digest"]
    out = tmp_path / "out"
    images.ok("export", *(["--tar"] if as_tar else []), "one:v1", out)
    transport = "oci-archive" if as_tar else "oci"
    seen = subprocess.run(["skopeo", "inspect", f"{transport}:{out}:v1"], capture_output=True, check=True).stdout
    assert json.loads(seen)["Digest"] == digest
    images.ok("rm", "one:v1")
    images.ok("gc")
    assert images.json("import", out, "back")["digest"] == digest
    check_sound(images, "back")
    if not as_tar:
        subprocess.run(["umoci", "stat", "--image", f"{out}:v1"], check=True, capture_output=True)


def test_the_store_belongs_to_its_user_alone(images, layout):
    images.ok("import", layout, "one")
    assert stat.S_IMODE(images.store.stat().st_mode) == 0o700
    images.store.chmod(0o755)
    assert images.refused("ls")["kind"] == "refused"
    images.store.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(images.store, USER, USER)
        assert images.refused("ls")["kind"] == "refused"


@pytest.mark.parametrize("mask", ["000", "077", "777"])
def test_the_umask_of_the_caller_changes_nothing(images, layout, mask):
    images.call("import", str(layout), "one", prefix=["sh", "-c", f'umask {mask}; exec "$0" "$@"'])
    low, _, _ = images.layers_of("one")
    assert stat.S_IMODE(low.stat().st_mode) == 0o755 and stat.S_IMODE((low / "etc").stat().st_mode) == 0o755
    assert stat.S_IMODE(images.store.stat().st_mode) == 0o700


def test_an_ordinary_users_store_is_the_users(programs, layout, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    for path in [tmp_path, *tmp_path.parents]:
        if path == pathlib.Path("/tmp"):
            break
        path.chmod(0o755)
    home = tmp_path / "user"
    home.mkdir()
    os.chown(home, USER, USER)
    images = Images(programs / "pinfold-image", home, USER)
    images.ok("import", layout, "one")
    check_sound(images, "one")
    low, middle, _ = images.layers_of("one")
    assert all(path.lstat().st_uid == USER for path in [low, *hostile.all_paths(low)])
    tree = plain_tree(home / "tree")
    closed = tree / "closed"
    closed.mkdir()
    (closed / "file").write_text("x")
    (closed / "file").chmod(0o400)
    closed.chmod(0o500)
    subprocess.run(["chown", "-R", f"{USER}:{USER}", tree], check=True)
    images.ok("import", tree, "two")
    images.ok("rm", "one", "two")
    images.ok("gc")
    assert images.visible() == []


def test_resolving_takes_the_same_time_with_a_thousand_names(images, layout):
    images.ok("import", layout, "first")
    digest = images.json("show", "first")["digest"]

    def reads():
        done = images.call("show", "first", prefix=["strace", "-f", "-c", "-e", "trace=openat,read,getdents64"])
        return int(next(line for line in done.stderr.decode().splitlines() if line.endswith("total")).split()[-2])

    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    few = reads()
    for number in range(1000):
        (images.store / "refs" / f"name{number},latest").write_text(digest + "\n")
    assert reads() == few
    assert len(images.json("ls")["images"]) == 1001


# --- signatures ----------------------------------------------------------------------------------------------------

KEYS = {"ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "ed25519": ["-algorithm", "ED25519"],
        "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}


def make_key(folder, kind):
    private, public = folder / f"{kind}.key", folder / f"{kind}.pub"
    subprocess.run(["openssl", "genpkey", *KEYS[kind], "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def sign(layout, private, digest=None, payload_type="cosign container image signature"):
    """Adds a signature as cosign writes it."""
    index = json.loads((layout / "index.json").read_text())
    digest = digest or index["manifests"][0]["digest"]
    payload = json.dumps({"critical": {"identity": {"docker-reference": "x"}, "image": {"docker-manifest-digest": digest},
                                       "type": payload_type}, "optional": None}).encode()
    message = layout.parent / "payload"
    message.write_bytes(payload)
    if "ed25519" in str(private):
        how = ["pkeyutl", "-sign", "-rawin", "-inkey", private, "-in", message]
    else:
        how = ["dgst", "-sha256", "-sign", private, message]
    raw = subprocess.run(["openssl", *map(str, how)], check=True, capture_output=True).stdout
    blobs = layout / "blobs/sha256"

    def put(data):
        (blobs / hostile.digest(data)[7:]).write_bytes(data)
        return {"digest": hostile.digest(data), "size": len(data)}

    import base64
    config = b'{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[]}}'
    manifest = {"schemaVersion": 2, "mediaType": hostile.MANIFEST, "config": {"mediaType": hostile.CONFIG, **put(config)}, "layers": [
        {"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", **put(payload),
         "annotations": {"dev.cosignproject.cosign/signature": base64.b64encode(raw).decode()}}]}
    index["manifests"].append({"mediaType": hostile.MANIFEST, **put(json.dumps(manifest).encode()),
                               "annotations": {"org.opencontainers.image.ref.name": "sha256-" + digest[7:] + ".sig"}})
    (layout / "index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("kind", KEYS)
def test_a_signature_by_a_named_key_is_accepted(images, layout, tmp_path, kind):
    private, public = make_key(tmp_path, kind)
    sign(layout, private)
    done = images.json("import", "--require-signature", "--key", public, layout, "signed")
    der = subprocess.run(["openssl", "pkey", "-pubin", "-in", public, "-outform", "DER"], check=True, capture_output=True).stdout
    assert done["signed_by"] == [hostile.digest(der)]
    assert images.json("gc")["blobs"] == 0
    assert images.json("verify")["faults"] == []


def test_without_a_good_signature_nothing_is_unpacked(images, layout, tmp_path):
    private, public = make_key(tmp_path, "ecdsa")
    (tmp_path / "more").mkdir()
    _, other = make_key(tmp_path / "more", "ecdsa")

    def refused(*keys):
        error = images.refused("import", "--require-signature", *[part for key in keys for part in ("--key", key)], layout, "x")
        assert images.visible() == []
        return error

    assert "without signatures" in refused(public)["hint"]
    sign(layout, private, digest=hostile.OTHER)
    assert "without signatures" in refused(public)["hint"]
    sign(layout, private, payload_type="something else")
    assert refused(public)["kind"] == "refused"
    sign(layout, private)
    assert "by other keys" in refused(other)["hint"]
    assert images.refused("import", "--require-signature", layout, "x")["kind"] == "usage"
    private.write_text("no key")
    assert images.refused("import", "--key", private, layout, "x")["kind"] == "invalid"
    images.ok("import", "--require-signature", "--key", other, "--key", public, layout, "x")


def test_kept_signatures_are_checked_later_and_travel_with_an_export(images, layout, tmp_path):
    private, public = make_key(tmp_path, "ed25519")
    (tmp_path / "more").mkdir()
    _, other = make_key(tmp_path / "more", "ed25519")
    sign(layout, private)
    assert images.json("import", layout, "x")["signed_by"] == []
    assert images.refused("verify", "--key", other, "x")["kind"] == "refused"
    images.ok("verify", "--key", public, "x")
    assert len(images.json("show", "x")["signed_by"]) == 1
    images.ok("export", "x", tmp_path / "out")
    images.ok("rm", "x")
    images.ok("gc")
    images.ok("import", "--require-signature", "--key", public, tmp_path / "out", "y")


def test_a_signed_image_is_pulled_with_its_signature(images, layout, registry, tmp_path):
    private, public = make_key(tmp_path, "ecdsa")
    push(layout, registry, "team/app:1")
    pulled = images.json("pull", "--insecure", f"{registry}/team/app:1")
    assert images.refused("pull", "--insecure", "--key", public, "--require-signature", f"{registry}/team/app:1")["kind"] == "refused"
    tag = "sha256-" + pulled["digest"][7:] + ".sig"
    sign(layout, private, digest=pulled["digest"])
    subprocess.run(["skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}:{tag}", f"docker://{registry}/team/app:{tag}"], check=True,
                   capture_output=True)
    done = images.json("pull", "--insecure", "--key", public, "--require-signature", f"{registry}/team/app:1")
    assert len(done["signed_by"]) == 1


# --- the same tree as another unpacker -----------------------------------------------------------------------------

def merged(images, name, folder):
    """The layers as overlay shows them, copied out by tar."""
    roots = images.layers_of(name)
    out = folder / "merged"
    out.mkdir()
    if len(roots) == 1:
        roots = [folder / "empty", *roots]
        roots[0].mkdir()
    lower = ":".join(map(str, reversed(roots)))
    script = f"mount -t overlay overlay -o ro,userxattr,lowerdir={lower} {out} && tar -C {out} --xattrs -cf {folder}/merged.tar ."
    subprocess.run(["unshare", "-m", "sh", "-c", script], check=True)
    subprocess.run(["tar", "-C", out, "--xattrs", "--xattrs-include=user.*", "-xpf", folder / "merged.tar"], check=True)
    for path in hostile.all_paths(out):
        if not path.is_symlink():
            for attribute in os.listxattr(path):
                if attribute.startswith("user.overlay."):
                    os.removexattr(path, attribute)
    return out


def corpus(entry, tar):
    """Layers that honest tools could write, each list an image."""
    directory = dict(kind=hostile.DIR, mode=0o755)
    long = "/".join(["a-rather-long-name-of-a-directory"] * 8)
    yield "plain", [tar(entry("a", **directory), entry("a/f", data=b"1", mode=0o640, uid=10, gid=20, mtime=5))]
    yield "whiteouts", [tar(entry("a", **directory), entry("a/f", data=b"1"), entry("a/g", data=b"2"), entry("b", **directory),
                            entry("b/h", data=b"3")), tar(entry("a", **directory), entry("a/.wh.f"), entry(".wh.b"))]
    yield "opaque", [tar(entry("a", **directory), entry("a/f", data=b"1"), entry("a/s", **directory), entry("a/s/x", data=b"x")),
                     tar(entry("a", **directory), entry("a/.wh..wh..opq"), entry("a/g", data=b"2"))]
    yield "opaque_after", [tar(entry("a", **directory), entry("a/f", data=b"1")),
                           tar(entry("a", **directory), entry("a/g", data=b"2"), entry("a/.wh..wh..opq"))]
    yield "replaced", [tar(entry("a", **directory), entry("a/f", data=b"1"), entry("l", hostile.LINK, link="a"), entry("f", data=b"f")),
                       tar(entry("a", hostile.LINK, link="f"), entry("l", **directory), entry("l/in", data=b"2"))]
    yield "hardlinks", [tar(entry("f", data=b"1" * 5000), entry("g", hostile.HARD, link="f"), entry("d", **directory),
                            entry("d/h", hostile.HARD, link="f"), entry("s", hostile.LINK, link="f"))]
    yield "long_names", [tar(entry(long, **directory), entry(long + "/" + "n" * 255, data=b"1"),
                             entry("l", hostile.LINK, link="t" * 300))]
    yield "gnu_long_names", [tar(entry(long, **directory), entry(long + "/" + "n" * 200, data=b"1"), format=hostile.tarfile.GNU_FORMAT)]
    yield "utf8", [tar(entry("é", data=b"1"), entry("e\u0301", data=b"2"), entry("日本", data=b"3"), entry("a b\tc", data=b"4"),
                       entry("s\u0301", hostile.LINK, link="e\u0301"), entry("ha\u0308rd", hostile.HARD, link="e\u0301"))]
    yield "large_ids", [tar(entry("f", data=b"1", uid=70000, gid=3000000000), entry("g", data=b"1", uid=4294967294))]
    yield "attributes", [tar(entry("f", data=b"1", pax={"SCHILY.xattr.user.note": "hello"}),
                             entry("d", mode=0o755, kind=hostile.DIR, pax={"SCHILY.xattr.user.note": "dir"}))]
    yield "dirs_twice", [tar(entry("d", kind=hostile.DIR, mode=0o700, uid=1), entry("d/f", data=b"1"),
                             entry("d", kind=hostile.DIR, mode=0o711, uid=2, mtime=77))]
    yield "through_own_link", [tar(entry("usr/lib", **directory), entry("lib", hostile.LINK, link="usr/lib"), entry("lib/x", data=b"1"))]
    yield "file_whited_and_made", [tar(entry("f", data=b"1"), entry("d", **directory), entry("d/x", data=b"1")),
                                   tar(entry(".wh.f"), entry("f", data=b"2"), entry(".wh.d"), entry("d", **directory), entry("d/y", data=b"3"))]
    yield "dots", [tar(entry("./", **directory), entry("./f", data=b"1"), entry("./d/", **directory), entry("./d/g", data=b"2"))]
    yield "fifo", [tar(entry("p", hostile.FIFO, mode=0o600))]
    yield "empty", [tar()]
    yield "modes", [tar(*[entry(f"m{mode:o}", data=b"", mode=mode) for mode in (0, 0o1, 0o10, 0o100, 0o444, 0o777, 0o1777)],
                        entry("sticky", hostile.DIR, mode=0o1777), entry("group", hostile.DIR, mode=0o2775))]
    yield "many", [tar(*[entry(f"d{n % 50}/f{n}", data=str(n).encode()) for n in range(500)])]
    yield "five_layers", [tar(entry("f", data=b"%d" % n), entry(f"g{n}", data=b"x"), *([entry(f".wh.g{n - 1}")] if n else []))
                          for n in range(5)]
    sparse = hostile.pax_block(hostile.record(b"GNU.sparse.major", b"1") + hostile.record(b"GNU.sparse.minor", b"0") + hostile.record(
        b"GNU.sparse.name", b"sparse") + hostile.record(b"GNU.sparse.realsize", b"100000")) + hostile.header(
            b"GNUSparseFile.0/sparse", real_size=1024) + hostile.padded(b"1\n50000\n512\n") + b"s" * 512 + hostile.END
    yield "sparse", [sparse]


@pytest.mark.parametrize("name, layers", list(corpus(hostile.entry, hostile.tar)), ids=lambda value: value if isinstance(value, str) else "")
def test_the_tree_is_that_of_umoci(images, tmp_path, name, layers):
    if os.geteuid() != 0 or shutil.which("umoci") is None:
        pytest.skip("needs root and umoci")
    layout = hostile.Layout(layers).write(tmp_path)
    images.ok("import", layout, "x")
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:hostile", tmp_path / "umoci"], check=True, capture_output=True)
    ours = tree_hash(merged(images, "x", tmp_path))[1]
    theirs = tree_hash(tmp_path / "umoci/rootfs")[1]
    # umoci leaves the time of a directory that no entry names as it happened to be, the root's above all
    implied = {"many": 51, "through_own_link": 2}.get(name, 1)
    differing = [pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
    assert len(ours) == len(theirs) and len(differing) <= implied, differing


def test_layers_are_lowers_of_an_overlay_in_a_user_namespace(images, layout, tmp_path):
    images.ok("import", layout, "x")
    (tmp_path / "top").mkdir()
    lower = ":".join(map(str, reversed(images.layers_of("x"))))
    done = subprocess.run(["unshare", "-U", "-r", "-m", "sh", "-c", f"""
        mount -t overlay overlay -o ro,userxattr,lowerdir={lower} {tmp_path}/top && cd {tmp_path}/top && find . | sort"""],
                          capture_output=True)
    if b"permission denied" in done.stderr.lower() or b"not permitted" in done.stderr.lower():
        pytest.skip("this host has no user namespaces, or no overlay in them")
    assert done.stdout.decode().split() == [".", "./bin", "./bin/sh", "./d", "./d/new", "./etc", "./etc/hard", "./etc/hard2",
                                            "./etc/keep"]


def test_an_image_built_by_umoci_says_what_it_was_told(images, tmp_path):
    if os.geteuid() != 0 or shutil.which("umoci") is None:
        pytest.skip("needs root and umoci")
    image = f"{tmp_path}/built:v1"

    def umoci(*arguments):
        subprocess.run(["umoci", *map(str, arguments)], check=True, capture_output=True)

    umoci("init", "--layout", tmp_path / "built")
    umoci("new", "--image", image)
    for step in ("one", "two"):
        umoci("unpack", "--image", image, tmp_path / step)
        root = plain_tree(tmp_path / step / "rootfs") if step == "one" else tmp_path / step / "rootfs"
        if step == "two":
            (root / "etc/passwd").unlink()
            (root / "etc/added").write_text("added")
        umoci("repack", "--image", image, tmp_path / step)
    umoci("config", "--image", image, "--config.user", "7:8", "--config.env", "A=b", "--config.workingdir", "/etc", "--config.cmd",
          "/bin/sh", "--config.label", "k=v", "--config.volume", "/data", "--config.entrypoint", "/bin/tool")
    done = images.json("import", tmp_path / "built", "built")
    config = done["config"]
    assert (config["user"], config["workdir"], config["cmd"], config["entrypoint"]) == ("7:8", "/etc", ["/bin/sh"], ["/bin/tool"])
    assert "A=b" in config["env"] and config["labels"]["k"] == "v" and config["volumes"] == ["/data"]
    out = merged(images, "built", tmp_path)
    assert (out / "etc/added").read_text() == "added" and not (out / "etc/passwd").exists()


@pytest.fixture
def short_path():
    """podman wants its folder's path within 50 bytes."""
    with tempfile.TemporaryDirectory(prefix="pin-", dir="/tmp") as path:
        yield path


def test_podman_takes_an_export_and_gives_it_back(images, layout, tmp_path, short_path):
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip("needs root and podman")
    podman = ["podman", "--root", f"{short_path}/root", "--runroot", f"{short_path}/run", "--storage-driver", "vfs"]
    before = images.json("import", layout, "one:v1")
    images.ok("export", "--tar", "one:v1", tmp_path / "out.tar")
    done = subprocess.run([*podman, "pull", "-q", f"oci-archive:{tmp_path}/out.tar"], check=True, capture_output=True)
    subprocess.run([*podman, "save", "-q", "--format", "oci-archive", "-o", tmp_path / "back.tar", done.stdout.decode().strip()],
                   check=True, capture_output=True)
    after = images.json("import", tmp_path / "back.tar", "two")
    assert [layer["diff_id"] for layer in before["layers"]] == [layer["diff_id"] for layer in after["layers"]]
    assert before["config"] == after["config"]


@pytest.mark.parametrize("first", [0, 700000])
def test_changes_become_a_layer_that_shows_the_same_tree(images, layout, tmp_path, first):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount an overlay")
    images.ok("import", without_zstd(layout, tmp_path), "base")
    lower = ":".join(map(str, reversed(images.layers_of("base"))))
    for name in ("upper", "work", "top", "expected"):
        (tmp_path / name).mkdir()
    script = f"""set -e; cd {tmp_path}; mount -t overlay overlay -o userxattr,lowerdir={lower},upperdir=upper,workdir=work top; cd top
    rm etc/keep; rm -r d; mkdir d; echo again > d/again; echo more >> etc/hard; ln etc/hard2 etc/hard3; ln -s hard etc/soft
    mkfifo etc/pipe; mkdir -m 1777 fresh; chown {first}:{first + 7} fresh; setfattr -n user.note -v hello etc/hard 2>/dev/null || true
    tar -C {tmp_path}/top --xattrs --sort=name -cf {tmp_path}/expected.tar ."""
    subprocess.run(["unshare", "-m", "sh", "-c", script], check=True)
    done = images.json("commit", "--first-id", first, "base", tmp_path / "upper", "changed")
    assert len(done["layers"]) == 4 and done["history"][-1:] in ([], [{"created_by": "pinfold image commit", "comment": None, "empty_layer": False}])
    subprocess.run(["tar", "-C", tmp_path / "expected", "--xattrs", "--xattrs-include=user.note", "-xpf", tmp_path / "expected.tar"], check=True)
    os.chown(tmp_path / "expected/fresh", 0, 7)
    ours = tree_hash(merged(images, "changed", tmp_path))[1]
    assert ours == tree_hash(tmp_path / "expected")[1]
    assert images.json("verify")["faults"] == []
    images.ok("export", "changed", tmp_path / "out")
    subprocess.run(["umoci", "unpack", "--image", f"{tmp_path}/out:latest", tmp_path / "umoci"], check=True, capture_output=True)
    assert not (tmp_path / "umoci/rootfs/etc/keep").exists() and (tmp_path / "umoci/rootfs/d/again").exists()


# --- killed, and out of room ---------------------------------------------------------------------------------------

def consistent(images, layout, name="again"):
    """After anything: the next command works, and leaves nothing of what was cut short."""
    if images.store.exists():
        assert images.json("verify")["faults"] == []
    images.ok("import", layout, name)
    check_sound(images, name)
    assert images.leftovers() == []
    assert images.json("verify")["faults"] == []


def count_calls(images, arguments, calls):
    done = images.call(*arguments, prefix=["strace", "-f", "-qq", "-e", f"trace={calls}"])
    return len([line for line in done.stderr.splitlines() if b"(" in line])


CALLS = ["openat,openat2,mkdirat", "renameat,renameat2,unlinkat,fsync,syncfs", "write,pwrite64,read,pread64", "flock,fchmod,utimensat"]


@pytest.mark.parametrize("calls", CALLS)
def test_killed_at_any_call_nothing_half_done_is_seen(images, layout, tmp_path, calls):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    images.ok("ls")
    total = count_calls(images, ["import", layout, "x"], calls)
    assert total > 10
    for when in range(1, total + 1, max(1, total // 40)):
        shutil.rmtree(images.store, ignore_errors=True)
        images.call("import", layout, "x", prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
                                                   f"inject={calls}:signal=KILL:when={when}"])
        consistent(images, layout)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EMFILE"])
@pytest.mark.parametrize("calls", ["write,pwrite64", "openat,openat2,mkdirat,mknodat,symlinkat,linkat", "renameat,renameat2,fsync,syncfs",
                                   "fchmod,fchown,utimensat,ftruncate,fsetxattr"])
def test_every_failing_call_is_reported_and_undone(images, layout, calls, error):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    images.ok("import", layout, "warm")
    shutil.rmtree(images.store)
    total = count_calls(images, ["import", layout, "x"], calls)
    for when in range(1, total + 1, max(1, total // 25)):
        shutil.rmtree(images.store, ignore_errors=True)
        done = images.call("import", layout, "x", prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
                                                          f"inject={calls}:error={error}:when={when}"])
        assert done.returncode in (0, 125, 127), done.stderr  # 127: the loader's own call
        if done.returncode == 125:
            assert done.stderr.startswith(b"pinfold: ") or not done.stderr
        consistent(images, layout)


def test_gc_killed_at_any_call_leaves_a_store_that_is_sound(images, layout, tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    calls = "renameat,renameat2,unlinkat,flock"
    tree = plain_tree(tmp_path / "tree")

    def fill():
        shutil.rmtree(images.store, ignore_errors=True)
        images.ok("import", layout, "stays")
        images.ok("import", tree, "goes")
        images.ok("rm", "goes")

    fill()
    total = count_calls(images, ["gc"], calls)
    for when in range(1, total + 1):
        fill()
        images.call("gc", prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
                                  f"inject={calls}:signal=KILL:when={when}"])
        assert images.json("verify")["faults"] == []
        check_sound(images, "stays")
        images.ok("gc")
        assert len(images.roots()) == 3 and images.leftovers() == []


def test_a_full_disk_is_said_and_nothing_stays(images, layout, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    big = plain_tree(tmp_path / "big", size=3 << 20)
    small = images.store
    small.mkdir(mode=0o700)
    script = f"""mount -t tmpfs -o size=2m,mode=0700 tmpfs {small} || exit 1
    {images.program} import --json {big} x; code=$?
    {images.program} verify --json; ls {small}/tmp {small}/refs {small}/images; exit $code"""
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=images.environment(), capture_output=True)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 125 and json.loads(lines[0])["error"]["kind"] == "exhausted"
    assert json.loads(lines[1])["faults"] == []
    assert [line for line in lines[2:] if line and not line.endswith(":")] == []


def test_imports_and_gc_at_the_same_time_never_lose_an_image(images, layout, tmp_path):
    tree = plain_tree(tmp_path / "tree")
    images.ok("ls")
    deadline = time.monotonic() + 8
    workers = []
    for number in range(3):
        script = f"""while [ $(date +%s) -lt {int(time.time()) + 8} ]; do
            {images.program} import {layout if number else tree} n{number} >/dev/null || exit 1
            {images.program} show n{number} >/dev/null || exit 2
            {images.program} rm n{number} || exit 3
        done"""
        workers.append(subprocess.Popen(["sh", "-c", script], env=images.environment()))
    while time.monotonic() < deadline:
        done = images.call("gc")
        assert done.returncode == 0, done.stderr
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert images.json("verify")["faults"] == []
    images.ok("gc")
    assert images.visible() == [] and images.leftovers() == []


def test_an_interrupted_import_is_swept_by_the_next(images, layout):
    images.ok("import", layout, "one")
    (images.store / "tmp/w0123456789abcdef/layer/root/deep").mkdir(parents=True)
    images.ok("import", layout, "two")
    assert images.leftovers() == []


# --- the command line ----------------------------------------------------------------------------------------------

VERBS = ["pull", "import", "ls", "show", "tag", "rm", "gc", "verify", "export", "commit", "build"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(images, verb):
    text = images.ok(verb, "--help")
    assert f"pinfold image {verb}" in text and "--json" in text


def test_an_unknown_verb_gets_a_suggestion(images):
    done = images.call("verfy")
    assert done.returncode == 125 and b"did you mean 'verify'" in done.stderr


def test_a_store_that_was_never_made_is_an_empty_one(images):
    assert images.json("ls") == {"images": []}
    assert not images.store.exists()
