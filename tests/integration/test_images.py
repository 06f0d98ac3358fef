"""pinfold image: sources, names, gc, verify, export and the command line."""
import fcntl
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest

import image_bytes
from image_store import Images, USER, check_sound, for_two_machines, images, layout, plain_tree, tree_hash, without_zstd  # noqa: F401 (fixtures)


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
    data = image_bytes.tar(image_bytes.entry("etc/x", data=b"hi"))
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["told"]}, "rootfs": {"type": "layers", "diff_ids": [image_bytes.digest(data)]}}
    members = [(layer, data), ("c.json", json.dumps(config).encode()),
               ("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": None, "Layers": [layer]}]).encode())]
    (tmp_path / "odd.tar").write_bytes(image_bytes.tar(*[image_bytes.entry(before + name, data=content) for name, content in members]))
    assert images.json("import", tmp_path / "odd.tar", "odd")["config"]["cmd"] == ["told"]


def test_a_root_filesystem_with_a_manifest_of_its_own_is_one(images, tmp_path):
    for content in (b"{}", b"[]", b"[7]", b"no JSON", b"[" * 100000):
        (tmp_path / "web.tar").write_bytes(image_bytes.tar(image_bytes.entry("manifest.json", data=content), image_bytes.entry("index.html", data=b"x")))
        assert images.json("import", tmp_path / "web.tar", "web")["config"]["cmd"] == ["/bin/sh"]


def test_an_archive_of_an_old_docker_is_told_and_not_taken_for_files(images, tmp_path):
    name = "a" * 64
    members = [(f"{name}/layer.tar", image_bytes.LAYER_OK), (f"{name}/json", b"{}"), ("repositories", b'{"app": {"1": "%s"}}' % name.encode())]
    (tmp_path / "old.tar").write_bytes(image_bytes.tar(*[image_bytes.entry(path, data=data) for path, data in members]))
    error = images.refused("import", tmp_path / "old.tar", "old")
    assert error["kind"] == "unsupported" and "before 1.10" in error["message"] and "--format rootfs" in error["hint"]
    images.ok("import", "--format", "rootfs", tmp_path / "old.tar", "old")


@pytest.mark.parametrize("flag, name", [("-J", "xz"), ("-j", "bzip2")])
def test_a_compression_that_is_not_known_is_named(images, tmp_path, flag, name):
    tree = plain_tree(tmp_path / "tree")
    if subprocess.run(["tar", flag, "-cf", tmp_path / "tree.tar", "-C", tree, "."], capture_output=True).returncode:
        pytest.skip(f"needs {name}")
    error = images.refused("import", tmp_path / "tree.tar", "x")
    assert error["kind"] == "unsupported" and f"compressed by {name}" in error["message"] and "gzip and zstd" in error["hint"]


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
    index, mine, theirs = for_two_machines(layout, tmp_path)
    done = images.json("import", layout, "here")
    assert done["digest"] == mine and done["index"] == index
    assert images.json("import", "--platform", "linux/arm64/v8", layout, "there")["digest"] == theirs
    assert images.refused("import", "--platform", "linux/s390x", layout, "nowhere")["kind"] == "not_found"


def test_several_images_in_a_layout_need_a_choice(images, layout):
    index = json.loads((layout / "index.json").read_text())
    second = json.loads(json.dumps(index["manifests"][0]))
    second["annotations"]["org.opencontainers.image.ref.name"] = "other"
    index["manifests"].append(second)
    (layout / "index.json").write_text(json.dumps(index))
    assert "--ref" in images.refused("import", layout, "x")["hint"]
    images.ok("import", "--ref", "other", layout, "x")


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
    assert images.refused("show", "one@" + image_bytes.OTHER)["kind"] == "not_found"
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


def test_verify_names_each_damage_among_many_files(images, tmp_path):
    """Enough files for several threads, in an order that holds whoever hashes them, with other kinds between."""
    tree = plain_tree(tmp_path / "tree")
    for folder in ("a", "a/b", "c"):
        (tree / folder).mkdir()
        for number in range(60):
            (tree / folder / f"f{number}").write_bytes(os.urandom(number * 997))
        (tree / folder / "f30-link").symlink_to("f30")
        os.mkfifo(tree / folder / "f5-pipe")
    images.ok("import", tree, "many")
    assert images.json("verify")["faults"] == []
    layer, = images.layers_of("many")
    with open(layer / "a/b/f59", "r+b") as file:
        file.write(b"\xff" * 64)
    (layer / "c/f0").unlink()
    (layer / "a/f10").chmod(0o600)
    faults = {(fault["what"].split(" ")[-1], fault["detail"]) for fault in json.loads(images.call("verify", "--json").stdout)["faults"]}
    assert faults == {("/a/b/f59", "changed"), ("/c/f0", "missing"), ("/c", "changed"), ("/a/f10", "changed")}


def damage(layer, how):
    file = layer / "etc/keep"
    if how == "changed":
        file.write_text("bent")
    elif how == "missing":
        file.unlink()
    elif how == "extra":
        (layer / "etc/extra").write_text("extra")
    elif how == "no tree":
        shutil.rmtree(layer)
    else:
        (layer.parent / how).unlink()  # what the store itself keeps beside it


@pytest.mark.parametrize("how", ["changed", "missing", "extra", "no tree", "tree", "sizes"])
def test_a_damaged_layer_is_replaced_by_the_next_import(images, layout, how):
    images.ok("import", layout, "one")
    damage(images.layers_of("one")[0], how)
    assert images.call("verify").returncode == 1
    images.ok("import", layout, "one")
    assert images.json("verify")["faults"] == []
    check_sound(images, "one")
    assert images.leftovers() == []


def test_a_damaged_layer_in_use_is_left_alone_and_said(images, layout):
    digest = images.json("import", layout, "one")["digest"]
    low = images.layers_of("one")[0]
    damage(low, "changed")
    hold = os.open(images.store / "images" / digest.split(":")[1], os.O_RDONLY)
    fcntl.flock(hold, fcntl.LOCK_SH)  # as a sandbox does
    assert "a sandbox runs from it" in images.refused("import", layout, "one")["message"]
    assert (low / "etc/keep").read_text() == "bent" and images.leftovers() == []
    os.close(hold)
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


def test_a_link_upward_is_followed_while_names_change_elsewhere(images, tmp_path):
    """The kernel gives up on ".." below a root whenever anything is renamed on the way, anywhere: openat2(2), EAGAIN."""
    entry = image_bytes.entry
    entries = [entry("up", image_bytes.LINK, link="../../.."), entry("other", image_bytes.DIR, mode=0o755)]
    for number in range(200):
        entries += [entry(f"up/{number}", data=b"x"), entry(f"other/{number}", data=b"y")]
    layout = image_bytes.Layout([image_bytes.tar(*entries)]).write(tmp_path)
    script = "import os,sys\nos.chdir(sys.argv[1])\nopen('a', 'w')\nwhile True: os.rename('a', 'b'); os.rename('b', 'a')"
    busy = tmp_path / "busy"
    busy.mkdir()
    renamer = subprocess.Popen([sys.executable, "-c", script, busy])
    try:
        for _ in range(2):
            images.ok("import", layout, "one")
            assert len(list(images.layers_of("one")[0].iterdir())) == 202
            images.ok("rm", "one")
            images.ok("gc")
    finally:
        renamer.kill()
        renamer.wait()


def test_the_store_belongs_to_its_user_alone(images, layout):
    images.ok("import", layout, "one")
    assert stat.S_IMODE(images.store.stat().st_mode) == 0o700
    images.store.chmod(0o755)
    assert images.refused("ls")["kind"] == "refused"
    images.store.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(images.store, USER, USER)
        assert images.refused("ls")["kind"] == "refused"


def test_another_user_reads_and_runs_nothing_of_the_store(images, layout):
    """In a folder that others can enter. With the store's mode as other engines had it, the same user does."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        images.store = pathlib.Path(folder) / "store"
        images.ok("import", layout, "one")
        low = images.layers_of("one")[0]

        def other(*command):
            return subprocess.run(command, user=USER, group=USER, extra_groups=[], capture_output=True).returncode == 0

        attempts = [("cat", low / "etc/keep"), ("ls", images.store / "blobs"), ("test", "-x", low / "bin/sh")]
        assert [other(*command) for command in attempts] == [False] * 3
        for path in (images.store, images.store / "blobs", images.store / "layers", low.parent):
            path.chmod(0o755)
        assert [other(*command) for command in attempts] == [True] * 3
        assert images.refused("ls")["kind"] == "refused"  # and it isn't used so


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
    assert all(path.lstat().st_uid == USER for path in [low, *image_bytes.all_paths(low)])
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


def test_names_are_removed_together_or_not_at_all(images, layout):
    for name in ("one", "two"):
        images.ok("import", layout, name)
    refused = images.refused("rm", "one", "three", "two")
    assert refused["kind"] == "not_found" and "three" in refused["message"]
    assert images.refused("rm", "one", "a b")["kind"] == "invalid"
    assert len(images.json("ls")["images"]) == 2
    assert images.json("rm", "one", "two", "one")["removed"] == ["one", "two", "one"]  # named twice, and gone once
    assert images.json("ls")["images"] == []


def test_a_directory_with_the_store_in_it_is_no_image(images, layout):
    images.ok("import", layout, "one")
    refused = images.refused("import", images.store.parent, "two")
    assert refused["kind"] == "invalid" and "the store of the images is in it, as 'store'" in refused["message"], refused
    assert images.leftovers() == [] and len(images.json("ls")["images"]) == 1


def test_what_is_wrong_with_a_name_or_a_target_is_said(images, layout, tmp_path):
    assert "too long" in images.refused("import", layout, "a" * 300)["message"]
    images.ok("import", layout, "one")
    images.ok("export", "one", tmp_path / "out")
    assert "another directory" in images.refused("export", "one", tmp_path / "out")["hint"]


LOSSES = image_bytes.tar(
    image_bytes.entry("su", mode=0o4755), image_bytes.entry("mine", uid=0), image_bytes.entry("hers", uid=4321), image_bytes.entry("far", gid=65536),
    image_bytes.entry("null", image_bytes.CHAR, device=(1, 3)), image_bytes.entry("caps", pax={"SCHILY.xattr.security.capability": "x", "SCHILY.xattr.user.a": "b"}),
    image_bytes.entry("group", image_bytes.DIR, mode=0o2775))


@pytest.mark.parametrize("uid, owners", [(0, "1 entries belong to ids of 65536 and more, which are nobody's in a sandbox"),
                                         (USER, "2 entries have other owners than root, and are yours: only root's store keeps owners")])
def test_what_the_store_keeps_otherwise_is_told(programs, tmp_path, uid, owners):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    tmp_path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, uid, uid)
    images = Images(programs / "pinfold-image", home, uid)
    layout = image_bytes.Layout([LOSSES, image_bytes.LAYER_OK]).write(tmp_path)
    expected = [owners, "1 files have lost their set-user-id or set-group-id bits", "1 devices are empty files without permissions",
                "1 entries have lost file capabilities, ACLs or other attributes"]
    assert images.json("import", layout, "x")["notes"] == expected
    assert images.json("import", layout, "y")["notes"] == expected == images.json("show", "y")["notes"]
    done = images.call("import", layout, "z")
    assert done.stderr.decode().splitlines() == ["pinfold: " + note for note in expected]
    (home / "store/layers" / images.json("show", "x")["layers"][0]["diff_id"][7:] / "sizes").write_text("10240 bytes 7 entries\n")
    assert images.json("show", "x")["notes"] == []  # a layer of an older store


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
