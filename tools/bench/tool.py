#!/usr/bin/env python3
"""What a cold tool call costs, beside `python3 -c pass` and a plain subprocess that runs a generated script.

usage: tool.py [--build DIR] [--rounds N]      all commands in turn, so that they meet the same host
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = "def add(a, b):\n    return a + b\n"
SCRIPT = SOURCE + "import json, sys\nprint(json.dumps({'result': add(**json.loads(sys.argv[1]))}))\n"
SCHEMA = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}


def request(language, source):
    return json.dumps({"language": language, "name": "add", "source": source, "args": {"a": 1, "b": "2"}, "json_schema": SCHEMA}).encode()


def generated_script():
    """As platforms without a sandbox do: a file, a process, its output."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(SCRIPT)
        file.flush()
        return subprocess.run(["/usr/bin/python3", file.name, '{"a": 1, "b": 2}'], stdout=subprocess.PIPE, check=True).stdout


def commands(build, environment):
    pinfold = str(build / "tools/pinfold/pinfold")

    def call(data, *argv):
        return subprocess.run(argv, input=data, stdout=subprocess.PIPE, env=environment, check=True).stdout

    def tool(data):
        answer = json.loads(call(data, pinfold, "tool", "call"))
        assert answer["func_return"] == 3, answer

    return {
        "python3 -c pass": lambda: call(b"", "/usr/bin/python3", "-c", "pass"),
        "plain subprocess, generated script": generated_script,
        "pinfold run true": lambda: call(b"", pinfold, "run", "--", "true"),
        "pinfold run python3 -c pass": lambda: call(b"", pinfold, "run", "--", "python3", "-c", "pass"),
        "pinfold tool call, python": lambda: tool(request("python", SOURCE)),
        "node -e 0": lambda: call(b"", "node", "-e", "0"),
        "pinfold tool call, javascript": lambda: tool(request("javascript", "function add(a, b) { return a + b; }")),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "PINFOLD_STATE": folder + "/state", "PINFOLD_CACHE": folder + "/cache"}
        os.mkdir(folder + "/state", 0o700)
        jobs = commands(options.build, environment)
        times = {name: [] for name in jobs}
        for number in range(-3, options.rounds):
            for name, job in jobs.items():
                started = time.perf_counter()
                job()
                if number >= 0:
                    times[name].append((time.perf_counter() - started) * 1000)
    base = sorted(times["python3 -c pass"])[options.rounds // 2]
    print(f"{'ms':36} {'p50':>7} {'p90':>7} {'p99':>7} {'p50 - python3 -c pass':>22}")
    for name, values in times.items():
        values.sort()
        p50, p90, p99 = (values[min(len(values) - 1, int(len(values) * q))] for q in (0.5, 0.9, 0.99))
        print(f"{name:36} {p50:7.2f} {p90:7.2f} {p99:7.2f} {p50 - base:+22.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
