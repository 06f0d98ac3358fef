"""pinfold-oci: hooks: when they run, what they are told, and what becomes of the container when they fail or don't end."""
import json
import subprocess
import time

import pytest

from kept_sandbox import gone
from oci_world import oci  # noqa: F401 (fixture)


def test_hooks_of_all_stages_run_in_their_order_with_the_state(oci, tmp_path):  # noqa: F811
    out = tmp_path / "hooks"
    script = tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ncat >> {out}\necho \" $1\" >> {out}\n")
    script.chmod(0o755)
    outside = lambda stage: [{"path": str(script), "args": ["hook", stage]}]
    inside = [{"path": "/bin/sh", "args": ["sh", "-c", "cat > /tmp/inside"]}]
    name = oci.start("sleep", "60", root__readonly=False, annotations={"a": "b"}, hooks={
        "prestart": outside("prestart"), "createRuntime": outside("createRuntime"), "startContainer": inside,
        "createContainer": outside("createContainer"), "poststart": outside("poststart"),
        "poststop": outside("poststop")})
    pid = oci.state(name)["pid"]
    oci.ok("delete", "--force", name)
    lines = out.read_text().splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["prestart", "createRuntime", "createContainer", "poststart",
                                                           "poststop"]
    first = json.loads(lines[0].rsplit(" ", 1)[0])
    assert first["id"] == name and first["pid"] == pid and first["annotations"] == {"a": "b"}
    assert json.loads((oci.home / "bundle1/rootfs/tmp/inside").read_text())["id"] == name


def test_a_failing_hook_fails_the_create_and_leaves_nothing(oci):  # noqa: F811
    bundle = oci.bundle("true", hooks={"createRuntime": [{"path": "/bin/false"}]})
    done = oci.call("create", "--bundle", bundle, oci.name())
    assert done.returncode != 0 and b"createRuntime hook #0" in done.stderr
    assert list(oci.root.iterdir()) == []


def test_a_poststart_hook_that_fails_stops_the_container(oci):  # noqa: F811
    name = oci.create("sleep", "1000", hooks={"poststart": [{"path": "/bin/false"}]})
    pid = oci.state(name)["pid"]
    done = oci.call("start", name)
    assert done.returncode == 1 and b"poststart hook #0" in done.stderr, done.stderr
    assert gone(pid) and oci.state(name)["status"] == "stopped"


def test_poststop_hooks_run_after_one_that_fails(oci, tmp_path):  # noqa: F811
    name = oci.create("true", hooks={"poststop": [{"path": "/bin/false"}, {"path": "/bin/touch", "args": ["touch", str(tmp_path / "ran")]}]})
    done = oci.ok("--log", tmp_path / "log", "delete", name)
    assert (tmp_path / "ran").exists() and done.stderr == b""
    assert "level=warning" in (tmp_path / "log").read_text() and "poststop hook #0" in (tmp_path / "log").read_text()


def test_a_hook_has_all_the_time_of_a_timeout_of_many_days(oci):  # noqa: F811
    """So many that their milliseconds don't fit 32 bits: what was left of them was 0.7 s."""
    done = oci.run("true", hooks={"createRuntime": [{"path": "/bin/sleep", "args": ["sleep", "1.5"], "timeout": 4294968}]})
    assert done.returncode == 0, done.stderr


def endless(stage, told):
    return {"hooks": {stage: [{"path": "/bin/sh", "args": ["sh", "-c", f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 1000"]}]}}


@pytest.mark.parametrize("verb, stage", [("create", "prestart"), ("create", "createRuntime"), ("start", "poststart"), ("run", "poststart")])
def test_a_hook_without_an_end_holds_up_no_forced_delete(oci, tmp_path, verb, stage):  # noqa: F811
    told, name = tmp_path / "told", oci.name()
    bundle = oci.bundle("sleep", "1000", **endless(stage, told))
    if verb == "start":
        oci.ok("create", "--bundle", bundle, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    words = [verb, name] if verb == "start" else [verb, "--bundle", bundle, name]
    with open(tmp_path / "errors", "wb") as errors, \
            subprocess.Popen(oci.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors) as waiting:
        try:
            deadline = time.monotonic() + 60
            while not told.exists():
                assert time.monotonic() < deadline and waiting.poll() is None
                time.sleep(0.01)
            oci.ok("delete", "--force", name)
            assert waiting.wait(60) == 1
        finally:
            waiting.kill()
    assert b"the container is being deleted" in (tmp_path / "errors").read_bytes()
    assert gone(int(told.read_text())) and list(oci.root.iterdir()) == []
