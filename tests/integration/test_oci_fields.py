"""Every field of config.json, with cases where it is carried out and cases where it is refused by name.

tests/conformance/oci/fields.txt lists the fields, from the specification's own schema. The tables are oci_fields_*.py.
"""
import json
import os
import pathlib
import re
import shutil

import pytest

import oci_fields_linux
import oci_fields_process
import oci_fields_resources
from oci_fields import Runtime, refuse, show

if os.geteuid() != 0:
    pytest.skip("engines' runtimes are tried as root", allow_module_level=True)
if shutil.which("busybox") is None:
    pytest.skip("needs busybox", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIELDS = dict(line.split() for line in (ROOT / "tests/conformance/oci/fields.txt").read_text().splitlines() if line[0] == "/")
ROWS = oci_fields_process.ROWS + oci_fields_linux.ROWS + oci_fields_resources.ROWS
BAD = [(row, number) for row in ROWS for number in range(len(row.bad))]
# of the specification and not offered: refused by name, whatever their value
NOT_OFFERED = {
    "/process/commandLine": "dir", "/process/user/username": "me", "/process/execCPUAffinity": {"initial": "0"},
    "/linux/intelRdt": {"closID": "x"}, "/linux/memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0"},
    "/linux/netDevices": {"eth0": {"name": "eth1"}}, "/linux/resources/memory/kernel": 1 << 20,
    "/linux/resources/blockIO/leafWeight": 100, "/linux/personality/flags": ["x"],
    "/linux/resources/blockIO/weightDevice/*/leafWeight": 100,
    "/windows": {}, "/solaris": {}, "/vm": {}, "/zos": {}, "/freebsd": {},
}
WRONG = {"string": 7, "integer": "7", "boolean": "true", "array": {"a": 1}, "object": ["a"]}


@pytest.fixture(scope="module")
def runtime(programs, tmp_path_factory):
    return Runtime(programs / "pinfold-oci", tmp_path_factory.mktemp("fields"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_field_is_carried_out(runtime, row):
    if row.why_skipped():
        pytest.skip(row.why_skipped())
    show(runtime, row)


@pytest.mark.parametrize("row, number", BAD, ids=lambda value: value.name if hasattr(value, "name") else str(value))
def test_a_value_that_can_not_be_is_refused_by_name(runtime, row, number):
    refuse(runtime, *row.bad[number])


def concrete(pointer):
    """The place of a field in a bundle that has lists of one."""
    return pointer.replace("/*/", "/0/").replace("/*", "/0") if "annotations" not in pointer else pointer


@pytest.mark.parametrize("field", NOT_OFFERED)
def test_what_is_not_offered_is_refused_by_name(runtime, field):
    parent, _, last = field.partition("/*/")
    changes = {parent: [{last: NOT_OFFERED[field], "major": 7, "minor": 0}]} if last else {field: NOT_OFFERED[field]}
    if field == "/linux/personality/flags":
        changes["/linux/personality/domain"] = "LINUX"
    refuse(runtime, changes, f"'{field.rpartition('/')[2]}' is not offered")


def wrap(field, value):
    """`field` with the value, in the smallest objects and lists that hold it."""
    words = field.strip("/").split("/")
    for depth in range(len(words) - 1, 0, -1):
        above = "/" + "/".join(words[:depth])
        value = ([value] if FIELDS.get(above) == "array" else {"key" if words[depth] == "*" else words[depth]: value})
    return words[0], value


@pytest.mark.parametrize("field", [name for name in FIELDS if not any(name.startswith(other) for other in NOT_OFFERED)])
def test_a_value_of_another_type_is_refused_by_name(runtime, field):
    top, value = wrap(field, WRONG[FIELDS[field]])
    place = re.sub("/\\*", "/(0|key)", field)
    refuse(runtime, merged(runtime.plain, top, value), f"must be .*{place}\\)")


def merged(plain, top, value):
    old = plain.get(top)
    return {f"/{top}": {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value}


def test_no_field_of_the_specification_is_without_its_cases():
    known = {field for row in ROWS for field in row.fields}
    assert known <= set(FIELDS)
    leaves = {name for name in FIELDS if not any(other.startswith(name + "/") for other in FIELDS)}
    offered = {name for name in leaves if not any(name == other or name.startswith(other + "/") for other in NOT_OFFERED)}
    assert offered - known == set()
    assert known & set(NOT_OFFERED) == set()


def test_a_key_that_the_specification_does_not_have_is_refused_by_name(runtime):
    for parent in [name for name, kind in FIELDS.items() if kind == "object" and any(other.startswith(name + "/") and
                   not other.startswith(name + "/*") for other in FIELDS) and not any(name.startswith(other) for other in NOT_OFFERED)]:
        top, value = wrap(parent + "/nosuchkey", 1)
        refuse(runtime, merged(runtime.plain, top, value), "nosuchkey")


def test_every_option_of_mounts_that_features_names_is_shown(runtime):
    told = set(json.loads(runtime.call("features").stdout)["mountOptions"])
    shown = {word for row in oci_fields_linux.ROWS for word in words_of(row)}
    assert told - shown - {"idmap", "ridmap", "bind", "rbind", "norelatime", "rnorelatime", "rrelatime"} == set()


def words_of(row):
    for value in row.changes.values():
        if isinstance(value, dict):
            yield from value.get("options", [])
            yield from value.get("shows", "").split()


UPDATES = {"memory": ("67108864", "memory/memory.limit_in_bytes"), "memory-reservation": ("33554432", "memory/memory.soft_limit_in_bytes"),
           "memory-swap": ("134217728", "memory/memory.memsw.limit_in_bytes"), "cpu-period": ("50000", "cpu/cpu.cfs_period_us"),
           "cpu-quota": ("20000", "cpu/cpu.cfs_quota_us"), "cpu-share": ("300", "cpu/cpu.shares"), "cpu-burst": ("1000", "cpu/cpu.cfs_burst_us"),
           "cpu-idle": ("1", "cpu/cpu.idle"), "cpuset-cpus": ("0", "cpuset/cpuset.cpus"), "cpuset-mems": ("0", "cpuset/cpuset.mems"),
           "pids-limit": ("33", "pids/pids.max")}


@pytest.mark.skipif(not os.path.exists("/sys/fs/cgroup/memory/cgroup.procs"), reason="reads files of cgroup version 1")
def test_each_option_of_update_reaches_the_group_and_refuses_what_can_not_be(runtime):
    case = runtime.case({"/linux/resources/cpu": {"quota": 50000}, "/linux/resources/memory": {"limit": 1 << 27, "swap": 1 << 28}}, ["sleep", "60"])
    case.start()
    try:
        for option, (value, file) in UPDATES.items():
            path = pathlib.Path("/sys/fs/cgroup") / file
            if not any((path.parent / "..").glob(f"{path.parent.name}/*/{path.name}")):
                continue # this kernel hasn't got it
            done = case.call("update", f"--{option}", value, case.name)
            assert done.returncode == 0, (option, done.stderr)
            assert case.call("exec", case.name, "cat", f"/sys/fs/cgroup/{file}").stdout.strip() == value, option
            for bad in ("x", "-5", "1e3"):
                refused = case.call("update", f"--{option}", bad, case.name)
                assert refused.returncode == 1 and refused.stderr.strip(), (option, bad)
        before = {"memory": {"limit": 4096, "checkBeforeUpdate": True}}
        refused = case.call("update", "--resources", "-", case.name, input=json.dumps(before))
        assert refused.returncode == 1 and "below the current usage" in refused.stderr, refused.stderr
    finally:
        case.clear()
