#!/usr/bin/python3
"""How long the auditor takes with a policy of 1,000 egress rules: lint, explain, explain --html, diff, score, why.

Each row is a whole command; the median of some runs beside fork+exec of /usr/bin/true in the same loop. The promise of
docs/auditor.md is 0.2 s for each.

    tools/bench/policy.py [--runs N] [--rules N] [--pinfold PATH] [--json]
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def timed(argv):
    start = time.perf_counter_ns()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    took = time.perf_counter_ns() - start
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{argv}: {done.stderr.decode()}")
    return took


def write(folder, name, rules):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        json.dump({"pinfold": 1, "network": {"egress": rules}}, file)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--pinfold", default=os.path.join(HERE, "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    values = parser.parse_args()
    rules = [{"host": f"h{i}.example.com" if i % 3 else f"*.h{i}.example.com", "ports": [443]} for i in range(values.rules)]
    with tempfile.TemporaryDirectory() as folder:
        many = write(folder, "many.json", rules)
        more = write(folder, "more.json", rules[1:] + [{"host": "new.example.org", "ports": [443]}])
        rows = {"fork+exec": ["/usr/bin/true"]}
        for verb in (["lint", many], ["explain", many], ["explain", "--html", many], ["score", many], ["diff", many, more],
                     ["why", many, "connect", "h500.example.com:443"]):
            rows[" ".join(word for word in verb if "/" not in word)] = [values.pinfold, "policy", *verb]
        took = {name: [] for name in rows}
        for _ in range(values.runs):
            for name, argv in rows.items():
                took[name].append(timed(argv))
    median = {name: statistics.median(times) / 1e6 for name, times in took.items()}
    if values.json:
        print(json.dumps({"rules": values.rules, "runs": values.runs, "median_ms": median}))
        return
    for name, ms in median.items():
        print(f"{name:32} {ms:8.1f} ms  {ms / median['fork+exec']:6.1f} x fork+exec")


if __name__ == "__main__":
    main()
