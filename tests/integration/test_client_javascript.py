"""The JavaScript client: its own tests run by Node, its package by npm, its types by tsc."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools/clients/javascript"

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")


def test_every_test_of_the_client_passes(as_root):
    environment = {**os.environ, "PINFOLD": str(as_root.program), "PINFOLD_STATE": str(as_root.state)}
    command = ["node", "--test", ROOT / "tests/integration/client_javascript.mjs"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"pass (\d+)", done.stdout)[1]) > 10


def test_the_package_installs_without_a_registry(as_root, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    (tmp_path / "package.json").write_text("{}")
    subprocess.run(["npm", "install", "--offline", "--no-audit", "--no-fund", PACKAGE], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "check.mjs").write_text("import {SandboxClient} from 'pinfold'; console.log(typeof SandboxClient);")
    assert subprocess.check_output(["node", "check.mjs"], cwd=tmp_path) == b"function\n"
    assert json.loads((PACKAGE / "package.json").read_text()).get("dependencies") is None


def exported(text):
    return set(re.findall(r"^export (?:declare )?class (\w+)", text, re.M))


def test_every_class_has_a_type():
    source = (PACKAGE / "index.js").read_text()
    names = {name for group in re.findall(r"export \{([^}]*)\}", source) for name in re.findall(r"\w+", group)}
    assert names == exported((PACKAGE / "index.d.ts").read_text())


def test_the_types_hold(tmp_path):
    compiler = shutil.which("tsc")
    if compiler is None:
        pytest.skip("needs tsc")
    (tmp_path / "use.mts").write_text(
        f"import {{SandboxClient, ExecResult}} from '{PACKAGE}/index.js';\n"
        "const result: ExecResult = await (await new SandboxClient().create({memory: '1MiB'})).exec(['true']);\n"
        "const text: string = result.stdout;\n"
    )
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    done = subprocess.run([compiler, *options, "use.mts"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
