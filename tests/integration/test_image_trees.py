"""The same trees as others' tools make of an image, and images that come and go between them."""
import os
import shutil
import subprocess
import tarfile
import tempfile

import pytest

import image_bytes
from image_store import images, layout, merged, plain_tree, tree_hash, without_zstd  # noqa: F401 (fixtures)


def corpus(entry, tar):
    """Layers that honest tools could write, each list an image."""
    directory = dict(kind=image_bytes.DIR, mode=0o755)
    long = "/".join(["a-rather-long-name-of-a-directory"] * 8)
    yield "plain", [tar(entry("a", **directory), entry("a/f", data=b"1", mode=0o640, uid=10, gid=20, mtime=5))]
    yield "whiteouts", [tar(entry("a", **directory), entry("a/f", data=b"1"), entry("a/g", data=b"2"), entry("b", **directory),
                            entry("b/h", data=b"3")), tar(entry("a", **directory), entry("a/.wh.f"), entry(".wh.b"))]
    yield "opaque", [tar(entry("a", **directory), entry("a/f", data=b"1"), entry("a/s", **directory), entry("a/s/x", data=b"x")),
                     tar(entry("a", **directory), entry("a/.wh..wh..opq"), entry("a/g", data=b"2"))]
    yield "opaque_after", [tar(entry("a", **directory), entry("a/f", data=b"1")),
                           tar(entry("a", **directory), entry("a/g", data=b"2"), entry("a/.wh..wh..opq"))]
    yield "replaced", [tar(entry("a", **directory), entry("a/f", data=b"1"), entry("l", image_bytes.LINK, link="a"), entry("f", data=b"f")),
                       tar(entry("a", image_bytes.LINK, link="f"), entry("l", **directory), entry("l/in", data=b"2"))]
    yield "hardlinks", [tar(entry("f", data=b"1" * 5000), entry("g", image_bytes.HARD, link="f"), entry("d", **directory),
                            entry("d/h", image_bytes.HARD, link="f"), entry("s", image_bytes.LINK, link="f"))]
    yield "long_names", [tar(entry(long, **directory), entry(long + "/" + "n" * 255, data=b"1"),
                             entry("l", image_bytes.LINK, link="t" * 300))]
    yield "gnu_long_names", [tar(entry(long, **directory), entry(long + "/" + "n" * 200, data=b"1"), format=tarfile.GNU_FORMAT)]
    yield "utf8", [tar(entry("é", data=b"1"), entry("e\u0301", data=b"2"), entry("日本", data=b"3"), entry("a b\tc", data=b"4"),
                       entry("s\u0301", image_bytes.LINK, link="e\u0301"), entry("ha\u0308rd", image_bytes.HARD, link="e\u0301"))]
    yield "large_ids", [tar(entry("f", data=b"1", uid=70000, gid=3000000000), entry("g", data=b"1", uid=4294967294))]
    yield "attributes", [tar(entry("f", data=b"1", pax={"SCHILY.xattr.user.note": "hello"}),
                             entry("d", mode=0o755, kind=image_bytes.DIR, pax={"SCHILY.xattr.user.note": "dir"}))]
    yield "dirs_twice", [tar(entry("d", kind=image_bytes.DIR, mode=0o700, uid=1), entry("d/f", data=b"1"),
                             entry("d", kind=image_bytes.DIR, mode=0o711, uid=2, mtime=77))]
    yield "through_own_link", [tar(entry("usr/lib", **directory), entry("lib", image_bytes.LINK, link="usr/lib"), entry("lib/x", data=b"1"))]
    yield "file_whited_and_made", [tar(entry("f", data=b"1"), entry("d", **directory), entry("d/x", data=b"1")),
                                   tar(entry(".wh.f"), entry("f", data=b"2"), entry(".wh.d"), entry("d", **directory), entry("d/y", data=b"3"))]
    yield "dots", [tar(entry("./", **directory), entry("./f", data=b"1"), entry("./d/", **directory), entry("./d/g", data=b"2"))]
    yield "fifo", [tar(entry("p", image_bytes.FIFO, mode=0o600))]
    yield "empty", [tar()]
    yield "modes", [tar(*[entry(f"m{mode:o}", data=b"", mode=mode) for mode in (0, 0o1, 0o10, 0o100, 0o444, 0o777, 0o1777)],
                        entry("sticky", image_bytes.DIR, mode=0o1777), entry("group", image_bytes.DIR, mode=0o2775))]
    yield "many", [tar(*[entry(f"d{n % 50}/f{n}", data=str(n).encode()) for n in range(500)])]
    yield "five_layers", [tar(entry("f", data=b"%d" % n), entry(f"g{n}", data=b"x"), *([entry(f".wh.g{n - 1}")] if n else []))
                          for n in range(5)]
    sparse = image_bytes.pax_block(image_bytes.record(b"GNU.sparse.major", b"1") + image_bytes.record(b"GNU.sparse.minor", b"0") + image_bytes.record(
        b"GNU.sparse.name", b"sparse") + image_bytes.record(b"GNU.sparse.realsize", b"100000")) + image_bytes.header(
            b"GNUSparseFile.0/sparse", real_size=1024) + image_bytes.padded(b"1\n50000\n512\n") + b"s" * 512 + image_bytes.END
    yield "sparse", [sparse]


@pytest.mark.parametrize("name, layers", list(corpus(image_bytes.entry, image_bytes.tar)), ids=lambda value: value if isinstance(value, str) else "")
def test_the_tree_is_that_of_umoci(images, tmp_path, name, layers):
    if os.geteuid() != 0 or shutil.which("umoci") is None:
        pytest.skip("needs root and umoci")
    layout = image_bytes.Layout(layers).write(tmp_path)
    images.ok("import", layout, "x")
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:hostile", tmp_path / "umoci"], check=True, capture_output=True)
    ours = tree_hash(merged(images, "x", tmp_path))[1]
    theirs = tree_hash(tmp_path / "umoci/rootfs")[1]
    # umoci leaves the time of a directory that no entry names as it happened to be, the root's above all
    implied = {"many": 51, "through_own_link": 2, "long_names": 8, "gnu_long_names": 8}.get(name, 1)
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


def test_files_that_would_be_somebody_elses_lose_that_when_changes_are_committed(images, layout, tmp_path):
    """Inside, no_new_privs makes them inert; a runtime that the image is exported to may do without."""
    images.ok("import", layout, "base")
    upper = plain_tree(tmp_path / "upper")
    for name, mode in {"su": 0o4755, "wall": 0o2755, "both": 0o6711, "plain": 0o755}.items():
        (upper / name).write_text(name)
        (upper / name).chmod(mode)
    (upper / "group").mkdir()
    (upper / "group").chmod(0o2775)
    done = images.json("commit", "base", upper, "changed")
    assert "3 files have lost their set-user-id or set-group-id bits" in done["notes"]
    images.ok("export", "changed", tmp_path / "out")
    blob = tmp_path / "out/blobs/sha256" / done["layers"][-1]["blob"][7:]
    with tarfile.open(blob) as layer:
        modes = {member.name: member.mode for member in layer if member.name in ("su", "wall", "both", "plain", "group")}
    assert modes == {"su": 0o755, "wall": 0o755, "both": 0o711, "plain": 0o755, "group": 0o2775}
