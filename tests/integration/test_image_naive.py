"""The controls of test_image_hostile.py: what the same images do to a reader without the checks."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

import hostile_images as hostile
import image_bytes
from image_store import images  # noqa: F401 (a fixture)

UNPACKER = pathlib.Path(__file__).with_name("naive_unpacker.py")


@pytest.fixture(scope="module")
def led(tmp_path_factory):
    """For each case, what an unpacker that believes it has changed outside of its folder. Its world is made of what can't be
    written to and of what is thrown away."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    top = tmp_path_factory.mktemp("naive")
    folders = []
    for case in hostile.CASES[:hostile.LEADING_OUT]:
        folder = top / str(len(folders))
        for name in ("case", "out", "canary"):
            (folder / name).mkdir(parents=True)
        (folder / "canary/file").write_text("untouched")
        case.build(hostile.Place(folder / "case", folder / "canary"))
        folders.append(folder)
    host = [part for path in ("/usr", "/etc", sys.base_prefix, sys.prefix) for part in ("--ro-bind", path, path)]
    links = [part for name in ("bin", "lib", "lib64", "sbin") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    done = subprocess.run(["bwrap", *host, *links, "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", top, top,
                           "--unshare-all", "--die-with-parent", sys.executable, "-c", UNPACKER.read_text(), *folders],
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    changed = json.loads(done.stdout)
    return {hostile.CASES[int(number)].name: paths for number, paths in changed.items()}


KINDS = ("file", "directory", "symlink", "fifo", "hardlink")  # a device can't be made there
LED = {
    "names": [f"{kind}_named_{how}" for how in ("up", "up_deep", "dot_up", "absolute_up", "slashes_up") for kind in KINDS] + [
        "directory_named_only_up", "absolute_name_of_the_canary", "upward_name_by_pax", "upward_name_by_gnu_long_name",
        "upward_name_by_ustar_prefix"],
    "links": [f"{kind}_through_{how}_link" for how in ("absolute", "upward") for kind in KINDS if kind != "hardlink"] + [
        "file_over_canary_through_link", "file_through_root_link", "file_through_upward_canary_link", "file_through_proc",
        "chain_of_links_to_the_canary", "parent_swapped_in_a_later_layer"],
    "hard links": ["hardlink_to_absolute", "hardlink_to_upward", "hardlink_to_a_link_to_the_canary", "hardlink_to_a_link_then_written",
                   "hardlink_through_a_link", "hardlink_by_pax_linkpath"],
    "whiteouts": ["whiteout_of_up", "whiteout_of_opaque_up", "opaque_through_link", "whiteout_through_link"],
    "the same name twice": ["link_to_canary_becomes_file", "link_to_canary_becomes_directory"],
}


@pytest.mark.parametrize("group", LED)
def test_an_unpacker_without_these_checks_is_led_outside(led, group):
    assert [name for name in LED[group] if not led[name]] == []


def test_sound_layers_lead_nowhere(led):
    """The same unpacker keeps to its folder where a case is no such attack, so that what it shows is the attack's doing."""
    for name in ("doubled_slashes", "mode_setuid", "file_becomes_file", "whiteout_and_file_in_one_layer", "notes_of_aufs"):
        assert led[name] == []


@pytest.fixture
def layer_of(tmp_path):
    """The layer of a case, as a file."""
    def get(name):
        folder = tmp_path / name
        folder.mkdir()
        case = next(case for case in hostile.CASES if case.name == name)
        blobs = case.build(hostile.Place(folder, folder)) / "blobs/sha256"
        manifest = json.loads((blobs.parent.parent / "index.json").read_text())["manifests"][0]["digest"][7:]
        return blobs / json.loads((blobs / manifest).read_text())["layers"][0]["digest"][7:]
    return get


@pytest.mark.parametrize("name", ["trusted.overlay.redirect", "user.overlay.opaque", "user.overlay.metacopy"])
def test_tar_keeps_the_attributes_that_overlay_obeys(layer_of, tmp_path, name):
    if os.geteuid() != 0:
        pytest.skip("trusted attributes are root's")
    case = {"redirect": "trusted", "opaque": "opaque", "metacopy": "metacopy"}[name.split(".")[-1]]
    done = subprocess.run(["tar", "--xattrs", "--xattrs-include=*", "-xpf", layer_of(f"attribute_{case}"), "-C", tmp_path], capture_output=True)
    if b"not supported" in done.stderr:
        pytest.skip("this filesystem has no such attributes")
    assert os.getxattr(tmp_path / "d", name) == b"y"


def listed_by_tar(layer):
    done = subprocess.run(["tar", "--quoting-style=literal", "-tf", layer], capture_output=True, env={**os.environ, "LC_ALL": "C"})
    return sorted(os.fsdecode(name).rstrip("/") for name in done.stdout.splitlines())


def test_what_is_accepted_has_the_members_that_tar_lists(images, layer_of):
    names = [case.name for case in hostile.CASES if case.name.startswith("plain_")]
    assert len(names) > 10
    for name in names:
        layer = layer_of(name)
        images.ok("import", layer.parents[2], name)
        root, = images.layers_of(name)
        assert sorted(str(path.relative_to(root)) for path in image_bytes.all_paths(root)) == listed_by_tar(layer), name


def test_two_readers_of_what_is_refused_see_different_members(layer_of):
    """GNU tar, and Python's, which takes a link's content for members as Go's does."""
    differing = []
    for name in [case.name for case in hostile.CASES if case.name.startswith("split_")]:
        layer = layer_of(name)
        with tarfile.open(layer) as tar:
            try:
                seen = sorted(tar.getnames())
            except tarfile.TarError:
                seen = None
        if seen != listed_by_tar(layer):
            differing.append(name)
    assert {"split_symlink_with_content", "split_fifo_with_content", "split_sparse_without_a_map"} <= set(differing) and len(differing) > 8, differing


@pytest.mark.parametrize("name, program", [("gzip_bomb", "gzip"), ("zstd_bomb", "zstd")])
def test_a_bomb_goes_off_where_nobody_counts(layer_of, name, program):
    """As the one that is refused: 400 MiB from less than one. Its bytes are counted and thrown away."""
    bomb = layer_of(name)
    assert bomb.stat().st_size < 1 << 20
    done = subprocess.run(f"{program} -dcf {bomb} | wc -c", shell=True, capture_output=True, check=True)
    assert int(done.stdout) > 400 << 20


def test_a_lenient_reader_takes_documents_that_say_two_things(tmp_path):
    """Which of two values for one key counts is every reader's own choice; Python's takes the last one, and infinity."""
    taken = []
    for case in hostile.CASES:
        if not case.name.startswith(("index_", "manifest_", "config_")) or "_is_a_" in case.name:
            continue
        folder = tmp_path / case.name
        folder.mkdir()
        root = case.build(hostile.Place(folder, folder))
        try:
            documents = [json.loads(path.read_bytes()) for path in [root / "index.json", *(root / "blobs/sha256").iterdir()]
                         if path.read_bytes()[:1] in b"{["]
            taken += [case.name] if documents else []
        except (ValueError, RecursionError):
            pass
    for document in ("index", "manifest", "config"):
        assert {f"{document}_duplicate_keys", f"{document}_huge_number", f"{document}_too_large"} <= set(taken)
