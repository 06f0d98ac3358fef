"""`events`: notices of memory that ran out, and the end."""
import json
import os
import subprocess

import pytest

from oci_world import oci  # noqa: F401 (fixture)

EAT = "head -c 64m /dev/zero | tail -c 64m >/dev/null"  # tail keeps all of it

pytestmark = pytest.mark.skipif(not any(os.path.exists(f"/sys/fs/cgroup/{file}") for file in ("memory/cgroup.procs", "cgroup.controllers")),
                                reason="no cgroup counts memory here")


def follow(runtime, name):
    """`events` of a container, once it listens: the figures of the beginning have come."""
    told = subprocess.Popen(runtime.argv("events", "--interval", "1h", name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = json.loads(told.stdout.readline())
    assert (first["type"], first["id"]) == ("stats", name)
    return told


def rest(told):
    out, err = told.communicate(timeout=60)
    assert told.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def only_kills(told, name):
    """How many are told: the kernel may kill another process before the memory of the first is free."""
    events = rest(told)
    assert all(event == {"type": "oom", "id": name} for event in events), events
    return len(events)


def eat(oci, name):  # noqa: F811
    """In processes of which each is chosen before any other of the container, however little memory it has."""
    process = json.loads((oci.home / f"bundle{oci.count}/config.json").read_text())["process"]
    process.update(args=["sh", "-c", EAT], oomScoreAdj=1000)
    file = oci.home / "eater.json"
    file.write_text(json.dumps(process))
    return oci.call("exec", "--process", file, name)


def test_a_process_that_is_killed_for_its_memory_is_told_at_once(oci):  # noqa: F811
    name = oci.start("sleep", "100", linux__resources={"memory": {"limit": 24 << 20, "swap": 24 << 20}})
    told = follow(oci, name)
    try:
        eat(oci, name)
        assert json.loads(told.stdout.readline()) == {"type": "oom", "id": name}  # with the next figures an hour away
        assert oci.state(name)["status"] == "running"
        oci.ok("delete", "--force", name)
        only_kills(told, name)
    finally:
        told.kill()
        told.wait()


def test_a_kill_that_ends_the_container_is_told_too(oci):  # noqa: F811
    name = oci.create("sh", "-c", f"{EAT}; exit 1", linux__resources={"memory": {"limit": 24 << 20, "swap": 24 << 20}})
    told = follow(oci, name)
    try:
        oci.ok("start", name)
        assert only_kills(told, name) > 0
    finally:
        told.kill()
        told.wait()


def test_memory_that_suffices_is_no_event(oci):  # noqa: F811
    name = oci.create("sh", "-c", "head -c 1m /dev/zero | tail -c 1m >/dev/null", linux__resources={"memory": {"limit": 64 << 20}})
    told = follow(oci, name)
    try:
        oci.ok("start", name)
        assert rest(told) == []
    finally:
        told.kill()
        told.wait()


def test_the_end_is_no_failure_and_a_stopped_container_has_no_events(oci):  # noqa: F811
    name = oci.start("true")
    oci.wait(name)
    done = oci.call("events", "--stats", name)
    assert done.returncode == 1 and b"is not running" in done.stderr
