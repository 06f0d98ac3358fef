#!/usr/bin/python3
"""What a supervisor holds in memory while a command floods its output: idle, and at most, for each way that output goes.

`run` plain, with --json (which keeps what the policy's cap lets it, and discards the rest) and with --stream; a kept sandbox's
`exec`, whose supervisor is the one in the background. Private memory (smaps_rollup), looked at all the while; the sandbox's own
is none of it. The bar is what is held more than when idle: 32 MiB.

    tools/bench/flood.py [--gib N] [--pinfold PATH] [--json]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_KIB = 32 * 1024


def private_kib(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))
    except OSError:  # it has ended
        return 0


def watched(process, pid, idle_s):
    """(idle, most): the command waits for `idle_s` before it writes."""
    time.sleep(idle_s / 2)
    idle = most = private_kib(pid)
    while process.poll() is None:
        most = max(most, private_kib(pid))
        time.sleep(0.02)
    if process.returncode != 0:
        raise RuntimeError(f"{process.args} ended with {process.returncode}")
    return idle, most


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=int, default=10)
    parser.add_argument("--pinfold", default=os.path.join(HERE, "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    flood = ["sh", "-c", f"sleep 1; head -c {options.gib << 30} /dev/zero | tr '\\0' x"]
    rows = []
    with tempfile.TemporaryDirectory(prefix="pinfold-flood-") as scratch:
        policies = {}
        for name, cap in (("whole", "unlimited"), ("capped", "8MiB")):
            policies[name] = os.path.join(scratch, f"{name}.json")
            with open(policies[name], "w", encoding="utf-8") as file:
                json.dump({"pinfold": 1, "name": name, "resources": {"stdout": cap, "wall_time": "30m", "cpus": 2}}, file)
        for name, policy, extra in (("run", "whole", []), ("run --json", "capped", ["--json"]), ("run --stream", "whole", ["--stream"])):
            argv = [options.pinfold, "run", "--policy", policies[policy], *extra, "--", *flood]
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
            rows.append((name, *watched(process, process.pid, 1)))
        box = f"flood-{os.getpid()}"
        subprocess.run([options.pinfold, "up", box, "--policy", policies["capped"]], check=True, stdout=subprocess.DEVNULL)
        try:
            shown = json.loads(subprocess.run([options.pinfold, "show", box], check=True, capture_output=True).stdout)
            process = subprocess.Popen([options.pinfold, "exec", box, "--", *flood], stdout=subprocess.DEVNULL)
            rows.append(("exec, kept", *watched(process, shown["supervisor"], 1)))
        finally:
            subprocess.run([options.pinfold, "rm", "--force", box], check=True, stdout=subprocess.DEVNULL)
    result = [{"name": name, "idle_kib": idle, "most_kib": most, "of_limit": round((most - idle) / LIMIT_KIB, 3)} for name, idle, most in rows]
    if options.json:
        json.dump({"gib": options.gib, "rows": result}, sys.stdout, indent=2)
        print()
        return
    print(f"{'':14}{'idle KiB':>10}{'most KiB':>10}{'of the 32 MiB':>15}   ({options.gib} GiB)")
    for row in result:
        print(f"{row['name']:14}{row['idle_kib']:10}{row['most_kib']:10}{row['of_limit']:15.3f}")


if __name__ == "__main__":
    main()
