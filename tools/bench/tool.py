#!/usr/bin/env python3
"""What a tool call costs, cold and warm, beside `python3 -c pass` and a plain subprocess that runs a generated script.

usage: tool.py [--build DIR] [--rounds N] [--seconds S]     all in turn, so that they meet the same host
Then calls per second, and CPU per call, of 8 callers at once.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = "def add(a, b):\n    return a + b\n"
SCRIPT = SOURCE + "import json, sys\nprint(json.dumps({'result': add(**json.loads(sys.argv[1]))}))\n"
SCHEMA = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}
CALLERS = 8


def request(language, source, reuse):
    return {"language": language, "name": "add", "source": source, "args": {"a": 1, "b": "2"}, "json_schema": SCHEMA, "reuse": reuse}


def requests():
    script = "function add(a, b) { return a + b; }"
    typed = "export function add(a: number, b: number): number { return a + b; }"
    return {(language, reuse): request(language, source, reuse)
            for language, source in (("python", SOURCE), ("javascript", script), ("typescript", typed)) for reuse in ("cold", "fingerprint", "never")}


class Server:
    """A connected client: `tool serve`, one call at a time."""

    def __init__(self, pinfold, environment):
        self.process = subprocess.Popen([pinfold, "tool", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def call(self, call):
        self.process.stdin.write(json.dumps({"id": 1, "call": call}).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["result"]["func_return"] == 3, answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def generated_script():
    """As platforms without a sandbox do: a file, a process, its output."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(SCRIPT)
        file.flush()
        return subprocess.run(["/usr/bin/python3", file.name, '{"a": 1, "b": 2}'], stdout=subprocess.PIPE, check=True).stdout


def wait_for_pool(pinfold, environment, kinds):
    """Until what was used has been started anew: that is paid for behind the calls, and shown by the rates below."""
    for _ in range(500):
        shown = json.loads(subprocess.run([pinfold, "pool", "show", "--json"], env=environment, stdout=subprocess.PIPE, check=True).stdout)
        if sum(place["state"] == "idle" for place in shown["sandboxes"]) >= kinds:
            return
        time.sleep(0.01)


def commands(pinfold, server, environment):
    ask = requests()
    unseen = itertools.count()

    def new_source():  # nothing is cached: one that is seen again takes as long
        call = ask["typescript", "fingerprint"]
        server.call({**call, "source": f"{call['source']}\nexport const unseen{next(unseen)}: string = '';"})

    def call(data, *argv):
        return subprocess.run(argv, input=data, stdout=subprocess.PIPE, env=environment, check=True).stdout

    def tool(data):
        answer = json.loads(call(json.dumps(data).encode(), pinfold, "tool", "call"))
        assert answer["func_return"] == 3, answer

    return {
        "python3 -c pass": lambda: call(b"", "/usr/bin/python3", "-c", "pass"),
        "plain subprocess, generated script": generated_script,
        "pinfold run python3 -c pass": lambda: call(b"", pinfold, "run", "--", "python3", "-c", "pass"),
        "python cold, command": lambda: tool(ask["python", "cold"]),
        "python warm, client": lambda: server.call(ask["python", "fingerprint"]),
        "python ahead, client": lambda: server.call(ask["python", "never"]),
        "python warm, command": lambda: tool(ask["python", "fingerprint"]),
        "node -e 0": lambda: call(b"", "node", "-e", "0"),
        "javascript cold, command": lambda: tool(ask["javascript", "cold"]),
        "javascript warm, client": lambda: server.call(ask["javascript", "fingerprint"]),
        "typescript cold, command": lambda: tool(ask["typescript", "cold"]),
        "typescript warm, client, new source": new_source,
    }


def cpu():
    """Of everything on the machine: what supervisors and sandboxes use is nobody's child here."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def rate(make, seconds):
    """Calls per second, and milliseconds of CPU for each, of 8 callers."""
    counts, over = [0] * CALLERS, threading.Event()

    def work(number, job):
        while not over.is_set():
            job()
            counts[number] += 1
    jobs = [make() for _ in range(CALLERS)]
    threads = [threading.Thread(target=work, args=(n, job)) for n, (job, _) in enumerate(jobs)]
    before, started = cpu(), time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    took, used = time.perf_counter() - started, cpu() - before
    for _, close in jobs:
        close()
    return sum(counts) / took, used / max(1, sum(counts)) * 1000


def rates(pinfold, environment, seconds):
    ask = requests()["python", "fingerprint"]

    def connected():
        server = Server(pinfold, environment)
        return lambda: server.call(ask), server.close

    def plain():
        return generated_script, lambda: None
    for _ in range(CALLERS):  # each its own sandbox
        server = Server(pinfold, environment)
        server.call(ask)
        server.close()
    rate(connected, 1)
    time.sleep(1)
    return {"python warm, clients": rate(connected, seconds), "plain subprocess, generated script": rate(plain, seconds)}


def print_times(times):
    bases = {"python": sorted(times["python3 -c pass"]), "javascript": sorted(times["node -e 0"])}
    print(f"{'ms':36} {'p50':>7} {'p90':>7} {'p99':>7} {'p50 ratio':>10} {'p99 ratio':>10} {'p50 -':>8}")
    for name, values in times.items():
        values.sort()
        base = bases["javascript" if name.startswith(("javascript", "typescript", "node")) else "python"]
        at = lambda row, q: row[min(len(row) - 1, int(len(row) * q))]
        p50, p90, p99 = (at(values, q) for q in (0.5, 0.9, 0.99))
        print(f"{name:36} {p50:7.2f} {p90:7.2f} {p99:7.2f} {p50 / at(base, 0.5):10.2f} {p99 / at(base, 0.5):10.2f} {p50 - at(base, 0.5):+8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    pinfold = str(options.build / "tools/pinfold/pinfold")
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "PINFOLD_STATE": folder + "/state", "PINFOLD_CACHE": folder + "/cache"}
        os.mkdir(folder + "/state", 0o700)
        subprocess.run([pinfold, "pool", "set", "--ahead", "1", "--json"], env=environment, stdout=subprocess.DEVNULL, check=True)
        for (_, reuse), ask in requests().items():
            if reuse != "cold":
                subprocess.run([pinfold, "tool", "prepare"], input=json.dumps(ask).encode(), env=environment, check=True)
        server = Server(pinfold, environment)
        jobs = commands(pinfold, server, environment)
        times = {name: [] for name in jobs}
        for number in range(-3, options.rounds):
            wait_for_pool(pinfold, environment, 4)
            for name, job in jobs.items():
                started = time.perf_counter()
                job()
                if number >= 0:
                    times[name].append((time.perf_counter() - started) * 1000)
        server.close()
        print_times(times)
        print(f"\n{'%d callers' % CALLERS:36} {'calls/s':>8} {'CPU ms a call':>14}")
        for name, (calls, used) in rates(pinfold, environment, options.seconds).items():
            print(f"{name:36} {calls:8.0f} {used:14.2f}")
        subprocess.run([pinfold, "pool", "clear"], env=environment, stdout=subprocess.DEVNULL, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
