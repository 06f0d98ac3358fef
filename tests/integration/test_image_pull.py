"""pinfold image pull: from a registry on loopback, with skopeo's own credentials, mirrors and policy."""
import base64
import json
import os
import pathlib
import pty
import shutil
import subprocess
import termios
import time

import pytest

import image_bytes
from image_store import check_sound, for_two_machines, images, layout, push, registry, registry_at, without_zstd  # noqa: F401 (fixtures)


def test_pull_gets_an_image_with_its_digest(images, layout, registry):
    push(layout, registry, "team/app:1")
    done = images.json("pull", "--insecure", f"{registry}/team/app:1")
    raw = subprocess.run(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{registry}/team/app:1"],
                         capture_output=True, check=True).stdout
    assert done["digest"] == image_bytes.digest(raw) and done["name"] == f"{registry}/team/app:1"
    check_sound(images, done["name"])
    images.ok("pull", "--insecure", "--name", "app", f"{registry}/team/app:1")
    assert {image["name"] for image in images.json("ls")["images"]} == {"app", done["name"]}
    assert images.leftovers() == []


def test_pull_chooses_from_an_index_and_keeps_its_digest(images, layout, registry, tmp_path):
    layout = without_zstd(layout, tmp_path)
    index, mine, theirs = for_two_machines(layout, tmp_path)
    subprocess.run(["skopeo", "copy", "--all", "--preserve-digests", "--dest-tls-verify=false", f"oci:{layout}", f"docker://{registry}/team/app:1"],
                   check=True, capture_output=True)
    here = images.json("pull", "--insecure", f"{registry}/team/app:1")
    assert (here["digest"], here["index"]) == (mine, index)
    there = images.json("pull", "--insecure", "--platform", "linux/arm64", "--name", "there", f"{registry}/team/app@{index}")
    assert (there["digest"], there["index"]) == (theirs, index)
    assert images.refused("pull", "--insecure", "--platform", "linux/s390x", f"{registry}/team/app:1")["kind"] == "not_found"
    check_sound(images, here["name"])


def test_pull_mends_what_is_missing_and_repairs_what_is_damaged(images, layout, registry):
    push(layout, registry, "app:1")
    pull = ["pull", "--insecure", "--name", "app", f"{registry}/app:1"]
    images.ok(*pull)
    largest = max((images.store / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    for part in (images.layers_of("app")[1], largest):
        shutil.rmtree(part) if part.is_dir() else part.unlink()
        assert images.call("verify").returncode == 1
        images.ok(*pull)
        assert images.json("verify")["faults"] == []
    (images.layers_of("app")[0] / "etc/keep").write_text("bent")
    largest.write_bytes(bytes(largest.stat().st_size))
    images.ok(*pull)  # all is there: nothing is read
    assert images.call("verify").returncode == 1
    images.ok("pull", "--repair", *pull[1:])
    assert images.json("verify")["faults"] == []
    check_sound(images, "app")


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
        deadline = time.monotonic() + 60
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
