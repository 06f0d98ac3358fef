"""What each profile is for: Python's own tests of its standard library, package managers from a local directory, pure
computation; under the profile as it is, but for the limits of time and memory.

tests/integration/test_programs.py has the shell tools, git and Node under `tool`.
"""
import importlib.util
import json
import shutil

import pytest

from conftest import needs

# without network, a terminal, or more memory than a tool gets
MODULES = ["base64", "binascii", "bisect", "configparser", "contextlib", "copy", "csv", "dataclasses", "difflib", "enum",
           "fractions", "gzip", "hashlib", "heapq", "html", "json", "math", "operator", "pathlib", "pprint", "queue", "re",
           "shlex", "string", "struct", "tempfile", "textwrap", "urlparse", "uuid", "zlib"]


@pytest.fixture
def profile(pinfold, tmp_path):
    """A command under a profile, in a workspace of its own; its result."""
    folder = pinfold.home / "work"
    folder.mkdir()

    def run(name, *command, workspace=True, **resources):
        policy = pinfold.policy(extends=[name], resources={"wall_time": "120s", "memory": "1GiB", **resources})
        access = ":cow" if name == "build" else ""
        for path in [folder, *folder.rglob("*")] if pinfold.rootless else []:
            shutil.chown(path, pinfold.uid, pinfold.uid)
        options = ["--workspace", f"{folder}{access}"] if workspace else []
        return pinfold.call(pinfold.argv(*command, policy=policy, options=["--json", *options]), timeout=200)
    run.folder = folder
    return run


def result_of(done):
    result = json.loads(done.stdout)
    assert result.get("exit_code") == 0, (result, done.stderr)
    return result


@pytest.mark.skipif(importlib.util.find_spec("test.test_json") is None or importlib.util.find_spec("test.test_bisect") is None,
                    reason="Debian's libpython3.11-testsuite isn't installed")
def test_pythons_own_tests_of_its_standard_library_pass_under_tool(profile, pinfold):
    if pinfold.rootless:
        pytest.skip("an ordinary user's filter is the same, and this takes a while")
    names = [f"test_{module}" for module in MODULES]
    found = [name for name in names if importlib.util.find_spec(f"test.{name}") is not None]
    result = result_of(profile("tool", "python3", "-m", "test", "-u", "none", "--tempdir", "/tmp", *found, pids=128))
    assert f"All {len(found)} tests OK" in result["stdout"] and len(found) > 25, result["stdout"][-2000:]


@needs("jq")
def test_jq_under_tool(profile):
    assert result_of(profile("tool", "jq", "-cn", '[range(5)] | map(. * 2) | {a: add}'))["stdout"] == '{"a":20}\n'


@pytest.mark.skipif(importlib.util.find_spec("numpy") is None, reason="numpy isn't installed")
def test_numpy_under_tool(profile):
    source = "import numpy as n; a = n.arange(250000.).reshape(500, 500); print(round(float((a @ a).trace())) > 0)"
    assert result_of(profile("tool", "python3", "-c", source))["stdout"] == "True\n"


@needs("cmake", "gcc", "make")
def test_cmake_configures_builds_and_tests_under_build(profile):
    (profile.folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.18)\nproject(x C)\nenable_testing()\n"
                                                   "add_executable(x x.c)\nadd_test(NAME x COMMAND x)\n")
    (profile.folder / "x.c").write_text("int main(void) { return 0; }\n")
    result = result_of(profile("build", "sh", "-ec", "cmake -S . -B out >/dev/null; make -C out -s -j4; cd out; ctest | tail -n 3"))
    assert "100% tests passed" in result["stdout"]


PIP = ("python3 -m pip install -q --no-index --no-build-isolation --target t ./package && "
       "PYTHONPATH=t python3 -c 'import greet; print(greet.word)'")


@pytest.mark.skipif(importlib.util.find_spec("pip") is None or importlib.util.find_spec("setuptools") is None,
                    reason="pip or setuptools isn't installed")
def test_pip_installs_from_a_local_directory_under_build(profile):
    package = profile.folder / "package"
    package.mkdir()
    (package / "setup.py").write_text("from setuptools import setup\nsetup(name='greet', version='1', py_modules=['greet'])\n")
    (package / "greet.py").write_text("word = 'hello'\n")
    assert result_of(profile("build", "sh", "-c", PIP))["stdout"].endswith("hello\n")


@needs("npm", "node")
def test_npm_installs_from_a_local_directory_under_build(profile):
    package = profile.folder / "greet"
    package.mkdir()
    (package / "package.json").write_text('{"name": "greet", "version": "1.0.0", "main": "index.js"}')
    (package / "index.js").write_text("module.exports = 'hello';\n")
    (profile.folder / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    script = "npm install --offline --no-audit --no-fund --silent ./greet && node -p 'require(\"greet\")'"
    assert result_of(profile("build", "sh", "-c", script))["stdout"].endswith("hello\n")


@pytest.mark.parametrize("command", [
    ["python3", "-c", "print(sum(i * i for i in range(100000)))"],
    ["sh", "-c", "seq 1000 | awk '{s += $1} END {print s}'"],
    ["python3", "-c", "import decimal, fractions, json, re, statistics; print(statistics.mean(range(100)))"],
])
def test_pure_computation_runs_under_strict(profile, command):
    assert result_of(profile("strict", *command, workspace=False, memory="256MiB"))["stdout"].strip()


@needs("python3")
def test_strict_has_no_sockets_and_nothing_to_write_but_tmp(profile):
    source = ("import socket\ntry: socket.socket(); print('socket')\nexcept OSError as e: print(e.errno)\n"
              "open('/tmp/x', 'w').close()\ntry: open('/dev/shm/x', 'w'); print('shm')\nexcept OSError: print('no')")
    assert result_of(profile("strict", "python3", "-c", source, workspace=False, memory="256MiB"))["stdout"] == "1\nno\n"
