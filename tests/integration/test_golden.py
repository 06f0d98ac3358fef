"""What people read: help, plans and error lines, kept as files in tests/golden and read in review like code.

    tests/golden/update    writes them anew from the build; `git diff` then shows what changes for whom
"""
import json
import os
import pathlib
import platform
import re

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
HELP = {"run": ["run"], "plan": ["plan"], "bundle-export": ["bundle", "export"], "bundle-check": ["bundle", "check"], "doctor": ["doctor"]}
# of the host image's /etc: made on every host; all else that lies there depends on what is installed
OWN = {"etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"}


def check(name, text):
    path = GOLDEN / name
    if os.environ.get("PINFOLD_GOLDEN") == "update":
        path.write_text(text)
    assert path.exists(), f"{path} is missing: tests/golden/update makes it"
    assert text == path.read_text(), "tests/golden/update writes it anew, if this is what was meant"


def of_every_host(target):
    """Whether an entry of the host image is made wherever pinfold runs."""
    target = target.lstrip("/")
    return not (target.startswith("etc/") and target not in OWN) and not re.fullmatch("lib(32|64|x32)", target)


def without_facts(text):
    lines = [line for line in text.splitlines() if len(line.split()) < 2 or not line.startswith("  ") or of_every_host(line.split()[1])]
    return re.sub(r"^(namespaces .*) time$", r"\1", "\n".join(lines) + "\n", flags=re.M)


def without_facts_json(plan):
    plan["operations"] = [one for one in plan["operations"] if of_every_host(one["target"])]
    plan["namespaces"] = [one for one in plan["namespaces"] if one != "time"]
    if isinstance(plan.get("landlock"), dict):
        plan["landlock"]["abi"] = "ABI"
    return json.dumps(plan, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", HELP)
def test_help_is_as_it_was_read(as_root, name):
    done = as_root.call([as_root.program, *HELP[name], "--help"])
    assert (done.returncode, done.stderr) == (0, b"")
    check(f"help-{name}.txt", done.stdout.decode())


PLANS = {"strict": ("strict", []), "tool": ("tool", ["--workspace", "WORK:cow", "--memory", "64MiB", "--timeout", "2s"]),
         "build": ("build", ["--workspace", "WORK:cow", "--env", "A=b", "--tty"])}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the plans were read on x86_64")
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("form", ["txt", "json"])
def test_a_plan_is_as_it_was_read(as_root, name, form):
    work = as_root.home / "work"
    work.mkdir()
    policy, options = PLANS[name]
    options = [option.replace("WORK", str(work)) for option in options]
    argv = [as_root.program, "plan", "--policy", policy, *options, *(["--json"] if form == "json" else []), "--", "sh", "-c", "echo $HOME"]
    done = as_root.call(argv)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode().replace(str(as_root.home), "HOME")
    check(f"plan-{name}.{form}", without_facts(text) if form == "txt" else without_facts_json(json.loads(text)))


POLICIES = {
    "unknown-key": '{"pinfold": 1, "resources": {"memroy": "1MiB"}}', "syntax": '{"pinfold": 1,\n "resources": }',
    "size": '{"pinfold": 1, "resources": {"memory": "12 bananas"}}', "extends": '{"pinfold": 1, "extends": ["tol"]}',
    "version": '{"pinfold": 2}', "never": '{"pinfold": 1, "syscalls": {"allow": ["ptrace"]}}',
    "call": '{"pinfold": 1, "syscalls": {"deny": ["opnat"]}}',
    "small": '{"pinfold": 1, "resources": {"memory": "64MiB", "pids": 16, "wall_time": "5s"}, "filesystem": {"workspace": {"access": "read-only"}}}',
}
ERRORS = [
    ["nosuchverb"], ["rum"], ["run"], ["run", "--", ""], ["run", "--memroy", "1MiB", "--", "true"], ["run", "--memory", "lots", "--", "true"],
    ["run", "--timeout", "5 parsecs", "--", "true"], ["run", "--cpus", "-1", "--", "true"], ["run", "--env", "novalue", "--", "true"],
    ["run", "--env", "LD_PRELOAD=x", "--", "true"], ["run", "--policy", "tol", "--", "true"], ["run", "--policy", "HOME/none.json", "--", "true"],
    *(["run", "--policy", f"HOME/{name}.json", "--", "true"] for name in POLICIES if name != "small"),
    ["run", "--policy", "HOME/small.json", "--memory", "1GiB", "--pids", "100", "--timeout", "1h", "--workspace", "HOME/work", "--", "true"],
    ["run", "--workspace", "HOME/none", "--", "true"], ["run", "--workspace", "HOME/link", "--", "true"], ["run", "--workspace", "HOME", "--", "true"],
    ["run", "--workspace", "HOME/work:rw", "--", "true"], ["run", "--workspace", "HOME/work", "--workspace", "HOME/link", "--", "true"],
    ["run", "--image", "", "--", "true"], ["run", "--stdin", "HOME/work", "--", "cat"],
    ["run", "--workspace", "HOME/work", "--on-exit", "merge", "--", "true"], ["run", "--egress", "example.com", "--", "true"],
    ["run", "--egress", "example.com:443", "--", "true"], ["run", "--bundle", "HOME/none"], ["run", "--bundle", "HOME/work"],
    ["run", "--stdin", "HOME/none", "--", "true"], ["run", "--json", "--stream", "--", "true"], ["run", "--", "no-such-program"],
    ["run", "--", "/etc/passwd"], ["run", "--frames", "loud", "--", "true"],
    ["run", "--label", "a=1", "--label", "b=1", "--label", "a=2", "--", "true"], ["run", "--env", "A=1", "--env", "A=2", "--", "true"],
    ["run", "--secret", "../x", "--", "true"], ["bundle", "export", "HOME/none/b", "--", "true"],
    ["bundle", "check", "HOME/none"], ["bundle", "export"], ["bundle", "export", "HOME/b", "--policy", "strict", "--", "true"], ["plan"],
]


def test_error_lines_are_as_they_were_read(as_root):
    home = as_root.home
    (home / "work").mkdir()
    (home / "link").symlink_to("work")
    for name, text in POLICIES.items():
        (home / f"{name}.json").write_text(text)
    lines = []
    for arguments in ERRORS:
        done = as_root.call([as_root.program, *(one.replace("HOME", str(home)) for one in arguments)])
        said = (done.stdout + done.stderr).decode().replace(str(home), "HOME")
        lines.append(f"$ pinfold {' '.join(one or repr(one) for one in arguments)}\n{said}[{done.returncode}]\n")
    check("errors.txt", "\n".join(lines))
