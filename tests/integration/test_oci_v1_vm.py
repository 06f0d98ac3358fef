"""Controllers of cgroup version 1 that few hosts still have (net_cls, net_prio, hugetlb): in a virtual machine with version 1
alone, one boot for the rows of oci_fields_resources.py and for the figures of `events`."""
import json
import os
import pathlib
import re
import shutil

import pytest

from oci_fields_resources import ROWS
from vm import boot, of_version_1

HERE = pathlib.Path(__file__).parent
WORD = "network|hugepage"
NAMES = [row.name for row in ROWS if re.search(WORD, row.name)]


@pytest.fixture(scope="module")
def said(programs, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("engines' runtimes are tried as root")
    if shutil.which("busybox") is None:
        pytest.skip("needs busybox")
    share = pathlib.Path(tmp_path_factory.mktemp("oci-v1"))
    machine = of_version_1(share)
    shutil.copy(programs / "pinfold-oci", share)
    for file in [*HERE.glob("oci_fields*.py"), HERE / "oci_v1.sh"]:
        shutil.copy(file, share)
    done = boot("--share", share, "--timeout", "200", "--", "sh", share / "oci_v1.sh", share, WORD, timeout=300, machine=machine)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {"all": done.stdout[-3000:] + done.stderr[-3000:], "lines": lines}


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_resource_is_carried_out_or_refused_on_version_1_alone(said, number):
    mine = [line for line in said["lines"] if line.get("case", "").startswith(f"{number} ")]
    assert mine[0]["case"] == f"{number} {NAMES[number]}" and len(mine) > 1, said["all"]
    assert all(line["fault"] is None for line in mine), mine


def test_events_have_the_figures_of_huge_pages(said):
    pages = next(line for line in said["lines"] if line.get("type") == "stats")["data"]["hugetlb"]
    assert pages["2MB"] == {"failcnt": 0}, said["all"]
