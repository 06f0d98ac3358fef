"""`pinfold image` with a store of its own, and what its tests are about: a sound image, a registry, keys."""
import base64
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import time

import pytest

import image_bytes


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
    entry, tar = image_bytes.entry, image_bytes.tar
    directory = dict(kind=image_bytes.DIR, mode=0o755)
    layers = [
        tar(entry("etc", **directory), entry("etc/keep", data=b"keep"), entry("etc/gone", data=b"gone"), entry("d", **directory),
            entry("d/old", data=b"old"), entry("bin", **directory), entry("bin/sh", data=b"#!", mode=0o4755, uid=5, gid=6)),
        gzip.compress(tar(entry("etc", **directory), entry("etc/.wh.gone"), entry("d", **directory),
                                  entry("d/.wh..wh..opq"), entry("d/new", data=b"new")), mtime=0),
        image_bytes.zstd(tar(entry("etc", **directory), entry("etc/hard", data=b"hard"), entry("etc/hard2", image_bytes.HARD, link="etc/hard"))),
    ]
    types = [image_bytes.LAYER, image_bytes.LAYER + "+gzip", image_bytes.LAYER + "+zstd"]
    return image_bytes.Layout(layers, types).write(make)


def without_zstd(layout, folder):
    """The same image with plain layers, for others' tools that don't know zstd."""
    def blob(descriptor):
        return (layout / "blobs/sha256" / descriptor["digest"][7:]).read_bytes()
    manifest = json.loads(blob(json.loads((layout / "index.json").read_text())["manifests"][0]))
    (folder / "plain").mkdir()
    return image_bytes.Layout([image_bytes.plain(blob(layer)) for layer in manifest["layers"]]).write(folder / "plain")


def for_two_machines(layout, tmp_path):
    """Makes the layout's image one of an index; the digests of the index, of that image and of the one for arm64."""
    other = tmp_path / "other"
    other.mkdir()
    arm = image_bytes.Layout([image_bytes.LAYER_OK], bend_config=lambda config: {**config, "architecture": "arm64"}).write(other)
    mine, theirs = (json.loads((path / "index.json").read_text())["manifests"][0] for path in (layout, arm))
    for blob in (arm / "blobs/sha256").iterdir():
        shutil.copy(blob, layout / "blobs/sha256")
    mine["platform"], theirs["platform"] = ({"os": "linux", "architecture": name} for name in ("amd64", "arm64"))
    data = json.dumps({"schemaVersion": 2, "mediaType": image_bytes.INDEX, "manifests": [theirs, mine]}).encode()
    (layout / "blobs/sha256" / image_bytes.digest(data)[7:]).write_bytes(data)
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {"mediaType": image_bytes.INDEX, "digest": image_bytes.digest(data), "size": len(data)}]}))
    return image_bytes.digest(data), mine["digest"], theirs["digest"]


def check_sound(images, name):
    low, middle, high = images.layers_of(name)
    assert (low / "etc/gone").read_bytes() == b"gone" and stat.S_IMODE((low / "bin/sh").stat().st_mode) == 0o755
    gone = (middle / "etc/gone").lstat()
    assert stat.S_ISCHR(gone.st_mode) and gone.st_rdev == 0
    assert os.getxattr(middle / "d", "user.overlay.opaque") == b"y" and sorted(os.listdir(middle / "d")) == ["new"]
    assert (high / "etc/hard").stat().st_ino == (high / "etc/hard2").stat().st_ino


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
    for path in image_bytes.all_paths(out):
        if not path.is_symlink():
            for attribute in os.listxattr(path):
                if attribute.startswith("user.overlay."):
                    os.removexattr(path, attribute)
    return out


def registry_at(tmp_path, more):
    """Debian's docker-registry on loopback; what it says goes into a file."""
    if shutil.which("docker-registry") is None or shutil.which("skopeo") is None:
        pytest.skip("needs docker-registry and skopeo")
    config, log = tmp_path / "registry.yml", tmp_path / "registry.log"

    def listening(port):
        """The server, or None: somebody else has taken the port since it was found free."""
        config.write_text(json.dumps({"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
                                      "http": {"addr": f"127.0.0.1:{port}"}, **more}))
        with open(log, "wb") as out:
            server = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=out, stderr=out)
        deadline = time.monotonic() + 60
        while b"listening on" not in log.read_bytes():
            assert time.monotonic() < deadline, log.read_bytes()
            if server.poll() is not None:
                return None
            time.sleep(0.01)
        return server
    for _ in range(20):
        port = free_port()
        if server := listening(port):
            break
    else:
        raise AssertionError(log.read_text())
    yield f"127.0.0.1:{port}"
    server.kill()
    server.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def registry(tmp_path):
    yield from registry_at(tmp_path, {})


def push(layout, registry, name):
    subprocess.run(["skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{registry}/{name}"], check=True,
                   capture_output=True)


KEYS = {"ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "ed25519": ["-algorithm", "ED25519"],
        "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}


def make_key(folder, kind):
    private, public = folder / f"{kind}.key", folder / f"{kind}.pub"
    subprocess.run(["openssl", "genpkey", *KEYS[kind], "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def sign(layout, private, digest=None, payload_type="cosign container image signature", bend=lambda text: text,
         layer_type="application/vnd.dev.cosign.simplesigning.v1+json", bend_raw=lambda raw: base64.b64encode(raw).decode()):
    """Adds a signature as cosign writes it; `bend` changes the payload before it is signed, `bend_raw` the signature."""
    index = json.loads((layout / "index.json").read_text())
    digest = digest or index["manifests"][0]["digest"]
    payload = json.dumps({"critical": {"identity": {"docker-reference": "x"}, "image": {"docker-manifest-digest": digest},
                                       "type": payload_type}, "optional": None})
    payload = bend(payload).encode()
    message = layout.parent / "payload"
    message.write_bytes(payload)
    if "ed25519" in str(private):
        how = ["pkeyutl", "-sign", "-rawin", "-inkey", private, "-in", message]
    else:
        how = ["dgst", "-sha256", "-sign", private, message]
    raw = subprocess.run(["openssl", *map(str, how)], check=True, capture_output=True).stdout
    blobs = layout / "blobs/sha256"

    def put(data):
        (blobs / image_bytes.digest(data)[7:]).write_bytes(data)
        return {"digest": image_bytes.digest(data), "size": len(data)}

    config = b'{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":[]}}'
    manifest = {"schemaVersion": 2, "mediaType": image_bytes.MANIFEST, "config": {"mediaType": image_bytes.CONFIG, **put(config)}, "layers": [
        {"mediaType": layer_type, **put(payload), "annotations": {"dev.cosignproject.cosign/signature": bend_raw(raw)}}]}
    index["manifests"].append({"mediaType": image_bytes.MANIFEST, **put(json.dumps(manifest).encode()),
                               "annotations": {"org.opencontainers.image.ref.name": "sha256-" + digest[7:] + ".sig"}})
    (layout / "index.json").write_text(json.dumps(index))
