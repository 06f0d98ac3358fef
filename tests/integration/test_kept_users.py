"""exec --user by name: the names are the sandbox's own, and its files may mean harm."""
import os
import subprocess
import sys

import pytest

from test_kept_books import BECOMING, books, root_books  # noqa: F401 (fixtures)

PASSWD = "root:x:0:0\nweb:x:33:44\nsly:x:0:0\nfar:x:70000:1\nbad:x:-1:5\n"

LEASE = ("import fcntl, os, signal, sys\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nfd = os.open(sys.argv[1], os.O_RDWR)\n"
         "fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('held', flush=True)\nsys.stdin.read()")


@pytest.fixture
def named(root_books):
    """A sandbox that may become others, and the directory that is its /etc."""
    folder = root_books.pinfold.home / "etc"
    folder.mkdir()
    (folder / "passwd").write_text(PASSWD)
    (folder / "group").write_text("data:x:55:\nfar:x:70000:\n")
    root_books.up("work", **{**BECOMING, "filesystem": {"mounts": [{"source": str(folder), "target": "/etc", "access": "read-write"}]}})
    return root_books, folder


def ids(books, user):
    done = books.json("work", "sh", "-c", "id -u; id -g; id -G", options=["--user", user])
    assert done["status"] == "success", done
    return done["stdout"].split()


def refused(books, user):
    done = books.json("work", "id", options=["--user", user])
    assert "exit_code" not in done and "error" in done, done
    return done["error"]


def test_names_are_those_of_the_sandboxs_own_files(named):
    books, folder = named
    assert ids(books, "web") == ["33", "44", "44"]
    assert ids(books, "web:data") == ids(books, "33:data") == ["33", "55", "55"]
    assert ids(books, "root")[0] == "0"
    assert "no user" in refused(books, "games")["message"]  # the host has one
    (folder / "passwd").write_text("games:x:5:6\n")
    assert ids(books, "games") == ["5", "6", "6"] and "no user" in refused(books, "web")["message"]
    said = [record["facts"].get("user") for record in books.records("work") if record["kind"] == "start"]
    assert "33:44" in said and "33:55" in said


def test_a_name_gives_nothing_that_its_number_would_not(named):
    books, _ = named
    assert refused(books, "far")["pointer"] == "/identity/ids" == refused(books, "70000")["pointer"]
    assert refused(books, "web:far")["pointer"] == "/identity/ids"
    assert "root's alone" in refused(books, "sly")["hint"]  # nobody is 0 by accident
    assert ids(books, "0")[0] == "0"  # who says 0 means it
    for name in ("bad", "web:none", "we", "web:", ":data", "web:data:1", "web\nroot", "x" * 300):
        assert refused(books, name)["kind"] == "invalid", name


def test_without_the_policys_word_a_name_is_nobody_else(books):
    books.up("work", identity={"user": 1000, "group": 1000})
    assert refused(books, "root")["kind"] == "refused"
    assert books.exec("work", "id", "-u", options=["--user", "1000"]).stdout == b"1000\n"


@pytest.mark.parametrize("trap", ["a link", "a link to a directory", "a fifo", "a directory", "a large file", "a lease", "a zero byte"])
def test_a_passwd_file_that_is_a_trap_knows_nobody_and_holds_up_nobody(named, trap):
    """Before it, the name is found; the link leads to a file that has the name."""
    books, folder = named
    passwd = folder / "passwd"
    assert ids(books, "web")[0] == "33"
    held = None
    if trap == "a link":
        passwd.rename(folder / "other")
        passwd.symlink_to("/etc/other")
    elif trap == "a link to a directory":
        passwd.unlink()
        passwd.symlink_to("/")
    elif trap == "a fifo":
        passwd.unlink()
        os.mkfifo(passwd)
    elif trap == "a directory":
        passwd.unlink()
        passwd.mkdir()
    elif trap == "a large file":
        passwd.write_text(PASSWD + "#" * (2 << 20))
    elif trap == "a lease":
        held = subprocess.Popen([sys.executable, "-c", LEASE, str(passwd)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert held.stdout.readline() == b"held\n"
    else:
        passwd.write_bytes(b"\0" + PASSWD.encode())
    try:
        assert "no user" in refused(books, "web")["message"]
        assert ids(books, "33")[0] == "33"  # and a number asks no file
    finally:
        if held is not None:
            held.communicate()
