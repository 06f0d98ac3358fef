"""Every verb of the auditor on every kind of subject, in every form that it prints; and what goes wrong with each."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema isn't installed")

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "conformance/schemas/sarif-2.1.0-rtm.5.json"
WALLS = {"namespaces": [{"type": name} for name in ("pid", "mount", "network", "ipc", "uts", "user")]}
BUNDLE = {"ociVersion": "1.2.0", "root": {"path": "rootfs"}, "linux": WALLS,
          "process": {"cwd": "/", "args": ["true"], "user": {"uid": 0, "gid": 0}, "noNewPrivileges": True}}
POLICY = ('{"pinfold": 1, "name": "p", "images": ["host"], "optional": ["memory", "swap", "cpus", "pids"],\n'
          ' "network": {"egress": [{"host": "*.example.com", "ports": [443], "budget": "shared"}],\n'
          '             "budgets": [{"name": "shared", "connections": 5}]}, "secrets": ["KEY"]}\n')
SUBJECTS = ["file", "bundle", "exported", "sandbox"]
CASES = [{"deny": "syscall mount"}, {"name": "fails <&\"'\x01>", "allow": "syscall mount"}, {"deny": "secret OTHER"}]


@pytest.fixture
def subject(pinfold, tmp_path):
    """(kind) -> the options and the argument that name it."""
    policy, bundle = tmp_path / "p.json", tmp_path / "bundle"
    policy.write_text(POLICY)
    policy.chmod(0o644)
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps(BUNDLE))
    exported = tmp_path / "out" / "exported"  # with destinations, which "oci" grants none of
    exported.parent.mkdir()
    exported.parent.chmod(0o777)  # for the run as an ordinary user
    for words in (["up", "box", "--policy", str(policy)], ["bundle", "export", "--policy", str(policy), str(exported), "--", "true"]):
        done = pinfold.call([str(pinfold.program), *words])
        assert done.returncode == 0, done.stderr
    yield {"file": ([], str(policy)), "bundle": (["--bundle", str(bundle)], "oci"),
           "exported": (["--bundle", str(exported)], str(policy)), "sandbox": ([], "sandbox:box")}
    pinfold.call([str(pinfold.program), "rm", "--force", "box"])


def call(pinfold, *words):
    done = pinfold.call([str(pinfold.program), "policy", *words])
    assert done.returncode in (0, 1), (words, done.stderr)
    assert done.stdout and not done.stderr, (words, done.stderr)
    return done


FORMS = [  # the verb with its options, what comes behind the subject, and what its output is
    (["show"], [], "json"), (["show", "--effective"], [], "text"), (["show", "--effective", "--json"], [], "json"),
    (["show", "--json"], [], "json"), (["lint"], [], "text"), (["lint", "--json"], [], "json"), (["lint", "--sarif"], [], "json"),
    (["score"], [], "text"), (["score", "--json"], [], "json"), (["explain"], [], "text"), (["explain", "--json"], [], "json"),
    (["explain", "--html"], [], "html"), (["why"], ["secret", "KEY"], "text"), (["why", "--json"], ["secret", "KEY"], "json"),
    (["test"], ["CASES"], "tap"), (["test", "--json"], ["CASES"], "json"), (["test", "--format", "junit"], ["CASES"], "junit"),
    (["diff"], ["SAME"], "text"), (["diff", "--json"], ["SAME"], "json"), (["syscalls"], [], "text"),
    (["syscalls", "--json"], [], "json"), (["syscalls", "--bpf"], [], "text"), (["syscalls", "--oci"], [], "json"),
]


def check(form, text):
    if form == "json":
        json.loads(text)
    elif form == "html":
        assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    elif form == "tap":
        assert text.startswith("TAP version 14\n1..3\n") or "1..3" in text
    elif form == "junit":
        check_junit(text)


@pytest.mark.parametrize("kind", SUBJECTS)
def test_every_verb_answers_about_every_subject_in_every_form(pinfold, subject, tmp_path, kind):
    options, name = subject[kind]
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps(CASES))
    for verb, behind, form in FORMS:
        words = [{"CASES": str(cases), "SAME": name}.get(word, word) for word in behind]
        done = call(pinfold, verb[0], *options, *verb[1:], name, *words)
        check(form, done.stdout.decode())
        if verb[0] == "diff":  # a bundle against its ceiling
            assert done.returncode == 0
        if verb[0] == "test":
            assert done.returncode == 1  # one of the cases fails


def test_two_bundles_are_compared(pinfold, subject, tmp_path):
    wide = tmp_path / "wide"
    wide.mkdir()
    capabilities = {name: ["CAP_KILL"] for name in ("bounding", "effective", "permitted")}
    (wide / "config.json").write_text(json.dumps({**BUNDLE, "process": {**BUNDLE["process"], "capabilities": capabilities}}))
    names = f"bundle:{tmp_path}/bundle", f"bundle:{wide}"
    assert call(pinfold, "diff", *names).returncode == 1 and call(pinfold, "diff", *reversed(names)).returncode == 0
    assert b"CAP_KILL" in call(pinfold, "diff", *names).stdout
    assert call(pinfold, "score", "--json", names[0]).stdout == call(pinfold, "score", "--json", *subject["bundle"][0]).stdout


@pytest.mark.parametrize("kind", SUBJECTS)
def test_findings_are_sarif_by_its_schema(pinfold, subject, kind):
    options, name = subject[kind]
    sarif = json.loads(call(pinfold, "lint", *options, "--sarif", name).stdout)
    validator = jsonschema.Draft4Validator(json.loads(SCHEMA.read_text()), format_checker=jsonschema.FormatChecker())
    assert [error.message for error in validator.iter_errors(sarif)] == []
    assert sarif["runs"][0]["results"]


def test_the_schema_finds_fault_with_what_is_none(pinfold, subject):
    sarif = json.loads(call(pinfold, "lint", "--sarif", subject["file"][1]).stdout)
    sarif["runs"][0]["results"][0]["level"] = "dreadful"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(sarif, json.loads(SCHEMA.read_text()), jsonschema.Draft4Validator)


# The elements and attributes that Jenkins' junit-10.xsd knows: (attributes that must be there, others, children).
JUNIT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors", "disabled"}, {"testsuite"}),
    "testsuite": ({"name", "tests"}, {"failures", "errors", "time", "disabled", "skipped", "skips", "timestamp", "hostname", "id",
                                      "package", "file", "log", "url", "version", "group"},
                  {"testsuite", "properties", "testcase", "system-out", "system-err"}),
    "testcase": ({"name", "classname"}, {"time", "status", "class", "file", "line", "assertions", "group", "url"},
                 {"skipped", "error", "failure", "system-out", "system-err", "properties"}),
    "failure": (set(), {"message", "type"}, set()), "error": (set(), {"message", "type"}, set()), "skipped": (set(), {"message", "type"}, set()),
}


def check_junit(text):
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag in ("testsuites", "testsuite")
    for element in root.iter():
        must, may, children = JUNIT[element.tag]
        assert must <= set(element.attrib) <= must | may, (element.tag, element.attrib)
        assert {child.tag for child in element} <= children, element.tag
    suite = next(root.iter("testsuite"))
    assert int(suite.get("tests")) == len(suite.findall("testcase"))
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) == 1


# --- what goes wrong ---

def fails(pinfold, words, expected, env=None):
    for verb, behind in (("lint", []), ("score", []), ("explain", []), ("show", []), ("syscalls", []), ("why", ["secret", "KEY"])):
        done = pinfold.call([str(pinfold.program), "policy", verb, *words, *behind], env=env)
        assert done.returncode == 2 and not done.stdout, (verb, done)
        assert re.search(expected, done.stderr.decode()), (verb, done.stderr)
        as_json = pinfold.call([str(pinfold.program), "policy", verb, "--json", *words, *behind], env=env)
        assert as_json.returncode == 2 and json.loads(as_json.stdout)["error"]["message"], (verb, as_json)
    for pair in ([*words, "tool"], ["tool", *words] if len(words) == 1 else [*words, "tool"]):
        assert pinfold.call([str(pinfold.program), "policy", "diff", *pair], env=env).returncode == 2


def test_a_sandbox_that_is_not_there(pinfold):
    fails(pinfold, ["sandbox:none"], "no sandbox 'none'|there is no sandbox")


def test_a_sandbox_that_has_died_still_says_what_it_was_made_with(pinfold, subject):
    show = pinfold.call([str(pinfold.program), "show", "box", "--json"])
    os.kill(json.loads(show.stdout)["supervisor"], signal.SIGKILL)
    done = pinfold.call([str(pinfold.program), "policy", "why", "--json", "sandbox:box", "secret", "OTHER"])
    assert done.returncode == 1 and json.loads(done.stdout)["rule"] == "/secrets"


def test_a_sandbox_whose_copy_of_the_policy_is_damaged(pinfold, subject):
    copy, = pinfold.state.glob("sandboxes/box/policy.json")
    copy.write_text(copy.read_text()[:-20])
    fails(pinfold, ["sandbox:box"], "policy")


@pytest.mark.parametrize("config, expected", [
    (None, "config.json"), ("", "config.json|JSON|empty"), ("{", "JSON|config.json"), ("[]", "object|config.json"),
    ('{"ociVersion": "1.2.0", "root": {"path": 3}}', "path"),
    (json.dumps({**BUNDLE, "linux": {**WALLS, "seccomp": {"defaultAction": "SCMP_ACT_MAYBE"}}}), "defaultAction|SCMP_ACT_MAYBE")])
def test_a_broken_bundle(pinfold, tmp_path, config, expected):
    bundle = tmp_path / "broken"
    bundle.mkdir()
    if config is not None:
        (bundle / "config.json").write_text(config)
    fails(pinfold, ["--bundle", str(bundle), "oci"], expected)


def test_a_bundle_beyond_its_ceiling_is_refused_with_the_field(pinfold, tmp_path):
    bundle = tmp_path / "wide"
    bundle.mkdir()
    capabilities = {name: ["CAP_SYS_ADMIN"] for name in ("bounding", "effective", "permitted")}
    (bundle / "config.json").write_text(json.dumps({**BUNDLE, "process": {**BUNDLE["process"], "capabilities": capabilities}}))
    fails(pinfold, ["--bundle", str(bundle), "oci"], "CAP_SYS_ADMIN")


def test_a_page_needs_room_to_be_written(pinfold, subject):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(pinfold.program), "policy", "explain", "--html", "tool"], stdout=full, stderr=subprocess.PIPE,
                              env=pinfold.environment())
    assert done.returncode == 2 and done.stderr


def test_no_subject_is_left_behind(pinfold, subject, tmp_path):
    """A sandbox's folder that somebody has made a link is no sandbox."""
    shutil.copytree(pinfold.state / "sandboxes/box", tmp_path / "copy", ignore=shutil.ignore_patterns("control"))
    (pinfold.state / "sandboxes/linked").symlink_to(tmp_path / "copy")
    done = pinfold.call([str(pinfold.program), "policy", "lint", "sandbox:linked"])
    assert done.returncode == 2, done
