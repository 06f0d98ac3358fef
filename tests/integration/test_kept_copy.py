"""Kept sandboxes: files that are copied in and out, by descriptor and through no link."""
import os
import shutil
import time

import pytest

from kept_sandbox import kept, kept_by_root  # noqa: F401 (fixtures)


def test_the_caller_s_private_files_are_copied_and_then_are_the_sandbox_s(kept_by_root):
    kept_by_root.up("work")
    private = kept_by_root.pinfold.home / "private"
    private.mkdir(mode=0o700)
    (private / "file").write_text("mine\n")
    os.chmod(private / "file", 0o600)
    kept_by_root.ok("cp", str(private), "work:/tmp/copy")
    done = kept_by_root.exec("work", "sh", "-c", "cat /tmp/copy/file; stat -c %u /tmp/copy /tmp/copy/file; id -u")
    assert done.stdout.split() == [b"mine", *[done.stdout.split()[-1]] * 3]


def test_files_and_trees_are_copied_in_and_out(kept, tmp_path):
    kept.up("work")
    source = kept.pinfold.home / "tree"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_bytes(bytes(range(256)) * 1000)
    (source / "run").write_text("#!/bin/sh\necho ran\n")
    os.chmod(source / "run", 0o755)
    for path in [source, source / "sub", source / "sub/file", source / "run"]:
        os.chown(path, kept.pinfold.uid, kept.pinfold.uid)
    kept.ok("cp", str(source), "work:/tmp")
    assert kept.exec("work", "/tmp/tree/run").stdout == b"ran\n"
    assert kept.exec("work", "sh", "-c", "echo more >> /tmp/tree/sub/file").returncode == 0, "it isn't the sandbox user's"
    target = kept.pinfold.home / "back"
    kept.ok("cp", "work:/tmp/tree", str(target))
    assert (target / "sub/file").read_bytes() == bytes(range(256)) * 1000 + b"more\n"
    assert os.access(target / "run", os.X_OK)


def test_where_one_stands_on_the_host_has_a_name(kept_by_root, tmp_path):
    kept_by_root.up("work")
    here = tmp_path / "here"
    here.mkdir()
    (here / "file").write_text("it")
    assert kept_by_root.call("cp", ".", "work:/tmp", cwd=here).returncode == 0
    assert kept_by_root.exec("work", "cat", "/tmp/here/file").stdout == b"it"
    (tmp_path / "below").mkdir()
    for target in (".", ".."):
        assert kept_by_root.call("cp", "work:/tmp/here", target, cwd=tmp_path / "below").returncode == 0
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["here"]
    assert kept_by_root.call("cp", "/", "work:/tmp").returncode == 125


def test_no_link_is_followed_out_of_a_sandbox_or_out_of_its_root(kept):
    kept.up("work")
    kept.exec("work", "sh", "-c", "mkdir /tmp/t; ln -s /etc/shadow /tmp/t/link; mkfifo /tmp/t/pipe; echo plain > /tmp/t/file; ln -s /etc /tmp/dir")
    target = kept.pinfold.home / "out"
    done = kept.call("cp", "work:/tmp/t", str(target))
    assert done.returncode == 0 and sorted(p.name for p in target.iterdir()) == ["file"] and b"2 links" in done.stderr
    assert kept.call("cp", "work:/tmp/dir/hostname", str(kept.pinfold.home / "x")).returncode == 125
    assert kept.call("cp", "work:/tmp/t/../../../../etc/hostname", str(kept.pinfold.home / "x")).returncode == 125
    secret = kept.pinfold.home / "secret"
    secret.write_text("mine")
    os.chown(secret, kept.pinfold.uid, kept.pinfold.uid)
    kept.exec("work", "sh", "-c", "ln -s /etc/passwd /tmp/trap; ln -s / /tmp/root")
    assert kept.call("cp", str(secret), "work:/tmp/trap").returncode == 125
    assert kept.call("cp", str(secret), "work:/tmp/root/tmp/x").returncode == 125
    assert kept.show("work")["state"] == "running"


def test_a_copy_is_bounded_whatever_size_a_file_claims(kept):
    kept.up("work")
    kept.exec("work", "truncate", "-s", "1T", "/tmp/huge")
    done = kept.call("cp", "--limit", "1MiB", "work:/tmp/huge", str(kept.pinfold.home / "huge"))
    assert done.returncode == 125 and b"more bytes" in done.stderr
    assert (kept.pinfold.home / "huge").stat().st_size <= 1 << 20


def test_holes_stay_holes_whichever_way_they_are_copied(kept):
    """They count like bytes, but take no room and no time."""
    kept.up("work", filesystem={"tmp": "8MiB"})
    there, back = kept.pinfold.home / "there", kept.pinfold.home / "back"
    with open(there, "wb") as file:
        for place, data in ((0, b"first"), (1 << 29, b"middle"), ((1 << 30) - 1, b"l")):
            file.seek(place)
            file.write(data)
        file.truncate((1 << 30) + 12345)
    os.chmod(there, 0o644)
    kept.ok("cp", str(there), "work:/tmp/inside")
    kept.ok("cp", "work:/tmp/inside", str(back))
    for path in (there, back):
        facts = path.stat()
        assert facts.st_size == (1 << 30) + 12345 and facts.st_blocks * 512 < 1 << 20
        with open(path, "rb") as file:
            read = [(file.seek(place), file.read(8).rstrip(b"\0")) for place in (0, 1 << 29, (1 << 30) - 1, 12345)]
        assert read == [(0, b"first"), (1 << 29, b"middle"), ((1 << 30) - 1, b"l"), (12345, b"")]


def test_a_copy_that_does_not_fit_says_of_which_file(kept):
    kept.up("work", filesystem={"tmp": "1MiB"})
    tree = kept.pinfold.home / "tree"
    tree.mkdir(mode=0o755)
    (tree / "big\n").write_bytes(b"x" * (2 << 20))
    done = kept.call("cp", str(tree), "work:/tmp/tree")
    assert done.returncode == 125 and b"copy 'big\\n': write: No space left" in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_directory_that_can_not_be_read_to_its_end_is_no_end_of_it(kept_by_root):
    """Half of a tree would be taken for the whole, and half of the sandboxes for all."""
    kept = kept_by_root
    kept.up("work")
    tree = kept.pinfold.home / "tree"
    tree.mkdir(mode=0o755)
    for number in range(3):
        (tree / f"file{number}").write_text("")
    for argv in (kept.argv("cp", str(tree), "work:/tmp/tree"), kept.argv("ls")):
        failing = ["-e", "trace=getdents64", "-e", "inject=getdents64:error=EIO:when=2+"]
        done = kept.pinfold.call(["strace", "-o", "/dev/null", *failing, *argv])
        assert done.returncode == 125 and b"read a directory: " in done.stderr and b"EIO" in done.stderr, (argv, done)
