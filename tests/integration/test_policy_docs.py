"""The pages about profiles, groups and weights say what the data says: nothing is missing, and nothing too much."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PINFOLD_BUILD", ROOT / "build/ci"))
PROFILES = {"strict": None, "tool": "strict", "build": "tool", "oci": "build"}  # whose calls each one adds to
EXTENDS = {"strict": "tool", "tool": None, "build": "tool", "oci": "tool"}
X86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the pages count the calls of x86_64")


def answer(*arguments):
    done = subprocess.run([BUILD / "tools/pinfold/pinfold", "policy", *arguments], capture_output=True, timeout=60)
    return json.loads(done.stdout)


def calls(profile):
    return {c["call"] for c in answer("syscalls", "--json", profile)["calls"] if c["allowed"] != "no"} if profile else set()


def rows(profile):
    """(the words in backquotes of the first cell, of the second, its text, the last cell) of each row."""
    for line in (ROOT / f"docs/profiles/{profile}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            yield re.findall(r"`([^`]+)`", cells[0]), re.findall(r"`([^`]+)`", cells[1]), cells[-1].strip(" |")


@X86_64
@pytest.mark.parametrize("profile", PROFILES)
def test_the_page_of_a_profile_has_each_call_once_with_its_reason(profile):
    told = [call for names, _, why in rows(profile) for call in names if "." not in call and why]
    told = [call for call in told if not call.isupper() and call not in ("tty", "frames", "images", "capabilities")]
    assert sorted(told) == sorted(calls(profile) - calls(PROFILES[profile]))


def leaves(value, prefix=""):
    for key, inner in value.items():
        if isinstance(inner, dict) and key not in ("set",):
            yield from leaves(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, inner


SAID_ELSEWHERE = ("pinfold", "name", "description")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_page_of_a_profile_has_each_field_that_it_sets_with_its_value(profile):
    own, base = dict(leaves(answer("show", profile))), dict(leaves(answer("show", EXTENDS[profile]))) if EXTENDS[profile] else {}
    table = {names[0]: (values, why) for names, values, why in rows(profile) if "." in names[0] or names[0] in own}
    for field, value in own.items():
        grants = value not in ([], {}, False, "")
        changed = value != base[field] if base else grants
        if field not in SAID_ELSEWHERE and changed:
            assert field in table, field
    for field, (values, why) in table.items():
        assert len(why) > 4, field
        have = own[field]
        have = list(have) if isinstance(have, (list, dict)) else [json.dumps(have) if isinstance(have, bool) else str(have)]
        if values:
            assert sorted(values) == sorted(have), field


def test_the_page_of_groups_has_each_group_with_its_calls():
    groups, told = {}, {}
    for line in (ROOT / "policy/data/groups.txt").read_text().splitlines():
        if line.startswith("@"):
            groups[current := line.partition(":")[0]] = []
        elif not line.startswith("#"):
            groups[current] += line.split()
    for part in (ROOT / "docs/syscall-groups.md").read_text().split("\n## ")[1:]:
        head, _, body = part.partition("\n")
        lines = [line for line in body.splitlines() if line]
        told[head.partition(":")[0]] = re.findall(r"`([^`]+)`", lines[-1])
        assert len(lines) == 2 and len(lines[0]) > 20, head
    assert told == {name: sorted(members) for name, members in groups.items()}


@X86_64
def test_the_page_of_calls_has_each_argument_rule():
    """fchmodat2 is younger than the kernel whose calls the baselines name."""
    page = (ROOT / "docs/syscalls.md").read_text().partition("\n## Argument rules\n")[2].partition("\n## ")[0]
    told = {name for line in page.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])}
    filtered = {call["call"]: call["arguments"] for call in answer("syscalls", "--json", "build")["calls"] if call["arguments"]}
    assert told - {"fchmodat2"} == set(filtered)
    for name, counted in (("ioctl", "commands"), ("prctl", "options")):
        assert re.search(rf"^\| `{name}` \| {len(filtered[name])} {counted}\b", page, re.M), len(filtered[name])


def test_each_vulnerability_that_a_weight_cites_has_its_source():
    cited = set(re.findall(r"CVE-\d+-\d+", (ROOT / "policy/data/weights.json").read_text()))
    lines = [line.split("\t") for line in (ROOT / "policy/data/weights-sources.tsv").read_text().splitlines()[1:]]
    assert all(len(line) == 3 and all(line) for line in lines)
    assert sorted(line[0] for line in lines) == sorted(cited)


def test_each_test_that_the_page_of_attacks_names_exists():
    """Python tests and cmocka tests, without the case in brackets; a new name for a test is a new name there."""
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".c", ".cmake"))
    known = set(re.findall(r"\bdef (test_\w+)|\bvoid (\w+)\(void \*\*state\)|\b(fuzz_\w+)", sources))
    known = {name for names in known for name in names}
    named = set(re.findall(r"`(test_\w+|fuzz_\w+)", (ROOT / "docs/attacks.md").read_text()))
    assert len(named) > 200 and named - known == set()
