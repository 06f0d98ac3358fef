"""Images that mean harm: none is accepted, or what it brings is inert; nothing outside changes."""
import gzip
import io
import json
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import zlib

import pytest

import hostile_images as hostile
import image_bytes
from image_store import canary, images, layout  # noqa: F401 (fixtures)


@pytest.mark.parametrize("case", hostile.CASES, ids=lambda case: case.name)
def test_hostile_image(images, canary, tmp_path, case):
    folder = tmp_path / "case"
    folder.mkdir()
    path = case.build(hostile.Place(folder, canary))
    begun = time.monotonic()
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


def only_layers(images):
    """Layers of their own that were sound before another one failed may stay for gc; no image or name may."""
    assert not list((images.store / "refs").iterdir()) and not list((images.store / "images").iterdir())
    images.ok("gc")
    return images.visible() == []


def hostile_free(root):
    """What is never in the store, whatever an image says."""
    for path in image_bytes.all_paths(root):
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


def reads_well(data):
    """Whether a reader that asks for no digest would take these bytes for a sound document or layer."""
    try:
        if data[:1] == b"{":
            return json.loads(data) is not None
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data), mode="r:") as tar:
            return len(tar.getmembers()) > 0
    except (ValueError, OSError, EOFError, tarfile.TarError, zlib.error):
        return False


def test_a_single_flipped_bit_is_never_accepted(images, layout, canary):
    blobs = sorted((layout / "blobs/sha256").iterdir())
    chance = random.Random(7)
    accepted, passed_for_sound = [], 0
    for number in range(1000):
        blob = chance.choice(blobs)
        data = bytearray(blob.read_bytes())
        bit = chance.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        good = blob.read_bytes()
        blob.write_bytes(data)
        passed_for_sound += reads_well(bytes(data))
        shutil.rmtree(images.store, ignore_errors=True)  # else its own sound copy would do
        done = images.call("import", layout, "flipped")
        blob.write_bytes(good)
        if done.returncode == 0:
            accepted.append((number, blob.name, bit))
    assert accepted == [] and passed_for_sound > 300
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


def test_there_are_as_many_as_the_catalogue_asks_for():
    assert len({case.name for case in hostile.CASES}) == len(hostile.CASES) >= 120
