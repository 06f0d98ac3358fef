"""Killed at any call, out of room at any call: the store stays sound, and the next command goes on."""
import collections
import json
import os
import re
import shutil
import subprocess

import pytest

from image_store import check_sound, images, layout, plain_tree, push, registry  # noqa: F401 (fixtures)

EVERY = os.environ.get("PINFOLD_SWEEP_STRIDE") == "1"  # every call; the tests take a part of them


def consistent(images, layout, name="again"):
    """After anything: the next command works, and leaves nothing of what was cut short."""
    if images.store.exists():
        assert images.json("verify")["faults"] == []
    images.ok("import", layout, name)
    check_sound(images, name)
    assert images.leftovers() == []
    assert images.json("verify")["faults"] == []


def count_calls(images, arguments, calls, follow):
    """How often each of these calls is made, by the thread that makes it most often: strace counts so."""
    done = images.call(*arguments, prefix=["strace", *follow, "-qq", "-e", f"trace={calls}"])
    threads = collections.Counter(re.findall(rb"^(\[pid +\d+\] )?(\w+)\(", done.stderr, re.MULTILINE))
    counts = {}
    for (_, call), count in threads.items():
        counts[call.decode()] = max(count, counts.get(call.decode(), 0))
    return counts


def places(images, arguments, calls, most, follow=("-f",)):
    """Call and number of some places, evenly over all; the loader's own aren't among them. The arguments are tried once."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    loader, counts = (count_calls(images, which, calls, follow) for which in ([arguments[0], "--help"], arguments))
    every = [(call, number) for call, count in sorted(counts.items()) for number in range(loader.get(call, 0) + 1, count + 1)]
    assert len(every) > 10
    return every[::1 if EVERY else max(1, len(every) // most)]


def injected(images, arguments, call, number, what, follow=("-f",)):
    return images.call(*arguments, prefix=["strace", *follow, "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                           f"inject={call}:{what}:when={number}"])


ALL_CALLS = ("openat,openat2,mkdirat,renameat,renameat2,unlinkat,fsync,syncfs,write,pwrite64,read,pread64,flock,fchmod,fchown,utimensat,"
             "mknodat,symlinkat,linkat,ftruncate,fsetxattr,getdents64")


def test_killed_at_any_call_nothing_half_done_is_seen(images, layout):
    arguments = ["import", layout, "x"]
    for call, number in places(images, arguments, ALL_CALLS, 60):
        shutil.rmtree(images.store, ignore_errors=True)
        injected(images, arguments, call, number, "signal=KILL")
        consistent(images, layout)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EMFILE"])
def test_every_failing_call_is_reported_and_undone(images, layout, error):
    arguments = ["import", layout, "x"]
    failed = 0
    for call, number in places(images, arguments, ALL_CALLS, 50):
        shutil.rmtree(images.store, ignore_errors=True)
        done = injected(images, arguments, call, number, f"error={error}")
        assert done.returncode in (0, 125), (call, number, done.stderr)
        assert done.stderr.startswith(b"pinfold: ") or done.returncode == 0
        failed += done.returncode == 125
        if done.returncode == 0:  # what failed wasn't needed
            assert images.json("verify")["faults"] == []
            check_sound(images, "x")
        consistent(images, layout)
    assert failed > 20


@pytest.fixture
def full_store(images, layout, tmp_path):
    """An image that stays and one that goes; the function makes the store as it was."""
    images.ok("import", layout, "stays")
    images.ok("import", plain_tree(tmp_path / "tree"), "goes")
    images.ok("rm", "goes")
    whole = tmp_path / "whole"
    subprocess.run(["cp", "-a", images.store, whole], check=True)

    def again():
        shutil.rmtree(images.store)
        subprocess.run(["cp", "-a", whole, images.store], check=True)
    return again


GC_CALLS = "mkdirat,openat,renameat,renameat2,unlinkat,fsync,flock,getdents64,read"


@pytest.mark.parametrize("what", ["signal=KILL", "error=ENOSPC", "error=EIO"])
def test_gc_that_ends_at_any_call_leaves_a_store_that_is_sound(images, full_store, what):
    """It needs room itself: the folder that it works in, and the log of a file system."""
    ended = 0
    for call, number in places(images, ["gc"], GC_CALLS, 40):
        full_store()
        done = injected(images, ["gc"], call, number, what)
        ended += done.returncode != 0
        assert what == "signal=KILL" or done.returncode in (0, 125), (call, number, done.stderr)
        assert images.json("verify")["faults"] == []
        check_sound(images, "stays")
        images.ok("gc")
        assert len(images.roots()) == 3 and images.leftovers() == []
    assert ended > 15


@pytest.mark.parametrize("arguments", [["rm", "stays"], ["gc"]])
def test_room_is_made_on_a_disk_that_has_none_for_a_folder(images, full_store, arguments):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    done = images.call("gc", "--dry-run", prefix=["strace", "-f", "-qq", "-e", "trace=mkdirat"])
    made = [line for line in done.stderr.splitlines() if b"(" in line]
    number = next(number for number, line in enumerate(made, 1) if b'"tmp/w' in line)
    done = injected(images, arguments, "mkdirat", f"{number}+", "error=ENOSPC")
    assert done.returncode == 0, done.stderr
    assert len(images.roots()) == (4 if arguments[0] == "rm" else 3) and images.leftovers() == []
    assert not (images.store / "spare").exists()  # used up; without it there is no way
    assert b"ENOSPC" in injected(images, ["gc"], "mkdirat", f"{number - 1}+", "error=ENOSPC").stderr
    images.ok("gc")
    assert (images.store / "spare").is_dir()


def test_gc_takes_nothing_for_superfluous_after_half_a_list(images, full_store):
    """Each listing of a folder fails once; were names that can't be read none, every image would go."""
    for number in range(1, count_calls(images, ["gc"], "getdents64", ())["getdents64"] + 1):
        full_store()
        injected(images, ["gc"], "getdents64", number, "error=EIO", follow=())
        assert images.json("verify")["faults"] == [] and images.json("ls")["images"]
        check_sound(images, "stays")


@pytest.mark.parametrize("what", ["error=ENOSPC", "signal=KILL"])
def test_a_pull_that_ends_at_any_call_is_made_again(images, layout, registry, what):
    """The calls of pinfold itself; skopeo's own are in the tests of a pull into a full store, and of a killed one."""
    push(layout, registry, "app:1")
    pull = ["pull", "--insecure", "--name", "app", f"{registry}/app:1"]
    ended = 0
    for call, number in places(images, pull, ALL_CALLS, 20, follow=()):
        shutil.rmtree(images.store)
        done = injected(images, pull, call, number, what, follow=())
        ended += done.returncode != 0
        assert what == "signal=KILL" or done.returncode in (0, 125), (call, number, done.stderr)
        assert images.json("verify")["faults"] == []
        images.ok(*pull)
        check_sound(images, "app")
        assert images.leftovers() == []
    assert ended > 5


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
    workers = []
    for number in range(3):
        script = f"""for round in $(seq 25); do
            {images.program} import {layout if number else tree} n{number} >/dev/null || exit 1
            {images.program} show n{number} >/dev/null || exit 2
            {images.program} rm n{number} || exit 3
        done"""
        workers.append(subprocess.Popen(["sh", "-c", script], env=images.environment()))
    while any(worker.poll() is None for worker in workers):
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
