"""What the tables of config.json's fields are written in: see test_oci_fields.py.

A row names the fields that it shows, by pointers as in tests/conformance/oci/fields.txt; what it changes in a plain bundle, by
pointers (`-` is the end of a list); a script that runs inside, with what it has to print, or a check from outside; and values
that have to be refused, each with words that the refusal has to have.
"""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess

GONE = object() # the field is taken away


class Row:
    def __init__(self, fields, changes, expect, script=None, bad=(), why_skipped=lambda: None):
        self.fields, self.changes, self.expect, self.script = fields.split(), changes, expect, script
        self.bad, self.why_skipped = bad, why_skipped

    @property
    def name(self):
        return self.fields[0] + (f" {list(self.changes.values())[0]}"[:40] if self.changes else "")


def put(config, pointer, value):
    *words, last = pointer.strip("/").split("/")
    node = config
    for word in words:
        node = node[int(word)] if isinstance(node, list) else node.setdefault(word, {})
    last = last.replace("~1", "/")
    if isinstance(node, list):
        node.append(value) if last == "-" else node.__setitem__(int(last), value)
    elif value is GONE:
        node.pop(last, None)
    else:
        node[last] = value


def fill(value, tmp):
    """With the folder of the case in the place of {tmp}."""
    if isinstance(value, str):
        return value.replace("{tmp}", str(tmp))
    if isinstance(value, list):
        return [fill(one, tmp) for one in value]
    if isinstance(value, dict):
        return {fill(key, tmp): fill(one, tmp) for key, one in value.items()}
    return value


APPLETS = "sh cat echo sleep id ls mount env pwd tty touch hostname true stty grep mkdir dd uname sync chmod ln nice sort stat head"


class Runtime:
    """pinfold-oci on bundles with one root file system."""

    def __init__(self, program, home):
        self.program, self.home, self.root = str(program), pathlib.Path(home), pathlib.Path(home) / "root"
        self.count = 0
        self.rootfs = self.home / "rootfs"
        for name in "bin dev proc sys etc tmp root mnt shown".split():
            (self.rootfs / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(shutil.which("busybox"), self.rootfs / "bin/busybox")
        for name in APPLETS.split():
            os.symlink("busybox", self.rootfs / "bin" / name)
        (self.rootfs / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
        self.call("spec", "--bundle", self.home)
        self.plain = json.loads((self.home / "config.json").read_text())
        self.plain["process"]["terminal"] = False
        self.plain["root"] = {"path": str(self.rootfs), "readonly": False}
        del self.plain["process"]["rlimits"]

    def call(self, *words, **more):
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, **more}
        return subprocess.run([self.program, "--root", str(self.root), *map(str, words)], check=False, text=True, **more)

    def case(self, changes, args):
        self.count += 1
        tmp = self.home / f"case{self.count}"
        tmp.mkdir()
        config = copy.deepcopy(self.plain)
        config["process"]["args"] = list(args)
        for pointer, value in changes.items():
            put(config, pointer, fill(value, tmp))
        return Case(self, f"f{os.getpid()}-{self.count}", tmp, config)


class Case:
    def __init__(self, runtime, name, tmp, config):
        self.runtime, self.name, self.tmp, self.config, self.pid = runtime, name, tmp, config, 0

    def write(self):
        (self.tmp / "config.json").write_text(json.dumps(self.config))

    def call(self, *words, **more):
        return self.runtime.call(*words, **more)

    def create(self, *options):
        self.write()
        with open(self.tmp / "stderr", "w", encoding="utf-8") as err:
            code = self.call("create", "--bundle", self.tmp, *options, self.name, stdout=subprocess.DEVNULL, stderr=err).returncode
        return code, (self.tmp / "stderr").read_text()

    def state(self):
        return json.loads(self.call("state", self.name).stdout)

    def start(self):
        code, said = self.create()
        assert code == 0, said
        self.pid = self.state()["pid"]
        done = self.call("start", self.name)
        assert done.returncode == 0, done.stderr

    def status(self, key, pid="self"):
        text = pathlib.Path(f"/proc/{pid if pid != 'self' else self.pid}/status").read_text()
        return re.search(rf"^{key}:\s*(.*)$", text, re.M)[1]

    def clear(self):
        done = self.call("delete", "--force", self.name)
        assert done.returncode == 0 and not (self.runtime.root / self.name).exists(), done.stderr


def show(runtime, row):
    """The field does what it says. A check from outside gets a container whose process sleeps."""
    if row.script is not None:
        case = runtime.case(row.changes, ["sh", "-c", row.script])
        case.write()
        done = case.call("run", "--bundle", case.tmp, case.name)
        assert re.search(row.expect, done.stdout + done.stderr, re.M), (done.returncode, done.stdout, done.stderr)
        return
    case = runtime.case(row.changes, ["sleep", "60"])
    try:
        if not getattr(row.expect, "makes", False):
            case.start()
        row.expect(case)
    finally:
        case.clear()


def makes(check):
    """The check creates the container itself."""
    check.makes = True
    return check


def refuse(runtime, changes, words):
    """Refused at create, or at start where only the kernel knows, by name; and nothing is left."""
    case = runtime.case(changes, ["true"])
    code, said = case.create()
    if code == 0:
        done = case.call("start", case.name)
        code, said = done.returncode, done.stderr
        case.clear()
    assert code != 0 and re.search(words, said), (code, said)
    assert not (runtime.root / case.name).exists()
