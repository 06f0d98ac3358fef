#!/usr/bin/python3
"""Many kept sandboxes on one machine, and how fast output streams out of one.

Rows: a warm exec by a connected client, with one sandbox and with N idle ones beside it (p25: a busy machine's noise is
above it); what N idle ones cost in private memory and CPU; `ls --label --json` over all; bytes per second of 1 GiB of
zeros through `pinfold exec` into a pipe, beside `cat` through two pipes, in turns.

    tools/bench/kept.py [--sandboxes 500] [--ended 500] [--pinfold PATH] [--json]
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import exec as warm  # tools/bench/exec.py: the client and what it measures

HERE = os.path.dirname(os.path.abspath(__file__))
STREAM_BYTES = 1 << 30


def quarter(values):
    return sorted(values)[len(values) // 4] / 1e6


def latency(folder, name, runs):
    client = warm.Client(os.path.join(folder, "sandboxes", name))
    return quarter([client.timed() for _ in range(runs + 20)][20:])


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def supervisors(call):
    return [call("show", name, "--json")["supervisor"] for name in ("bench", "i0", "i1", "i2")]


def seconds(argv, env):
    """Until a reader in a pipe has all of it."""
    start = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as process:
        size = 0
        while part := os.read(process.stdout.fileno(), 1 << 20):
            size += len(part)
    if size != STREAM_BYTES or process.returncode != 0:
        raise RuntimeError(f"{argv}: {size} bytes, exit code {process.returncode}")
    return time.perf_counter() - start


def stream(pinfold, env):
    zeros = f"head -c {STREAM_BYTES} /dev/zero"
    contenders = {"cat": ["sh", "-c", f"{zeros} | cat"], "pinfold exec": [pinfold, "exec", "bench", "--", "sh", "-c", zeros]}
    times = {name: [] for name in contenders}
    for _ in range(3):
        for name, argv in contenders.items():
            times[name].append(seconds(argv, env))
    return {name: STREAM_BYTES / min(values) / 1e9 for name, values in times.items()}


def end_some(folder, count):
    """Directories of sandboxes that have ended, as `rm` would find them."""
    all_of = os.path.join(folder, "sandboxes")
    for i in range(count):
        place = os.path.join(all_of, f"ended{i}")
        os.mkdir(place, 0o700)
        with open(os.path.join(all_of, "bench", "sandbox.json"), encoding="utf-8") as file:
            facts = json.load(file)
        facts["name"] = f"ended{i}"
        with open(os.path.join(place, "sandbox.json"), "w", encoding="utf-8") as file:
            json.dump(facts, file)
        open(os.path.join(place, "lock"), "wb").close()


def measure(options, folder, env):
    pinfold = os.path.abspath(options.pinfold)

    def call(*arguments):
        done = subprocess.run([pinfold, *arguments], check=True, env=env, stdout=subprocess.PIPE)
        return json.loads(done.stdout) if "--json" in arguments else None
    policy = os.path.join(folder, "policy.json")
    with open(policy, "w", encoding="utf-8") as file:
        json.dump({"pinfold": 1, "name": "bench", "resources": {"stdout": "unlimited", "wall_time": "5m"}}, file)
    figures = {}
    call("up", "bench", "--policy", policy, "--label", "tenant=a")
    figures["exec_alone_ms"] = latency(env["PINFOLD_STATE"], "bench", options.runs)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: call("up", f"i{i}", "--policy", policy, "--label", "tenant=b"), range(options.sandboxes)))
    figures["exec_among_many_ms"] = latency(env["PINFOLD_STATE"], "bench", options.runs)
    figures["growth"] = figures["exec_among_many_ms"] / figures["exec_alone_ms"]
    idle = supervisors(call)[1:]
    before = sum(map(ticks, idle))
    time.sleep(5)
    figures["idle_ticks_in_5_s"] = sum(map(ticks, idle)) - before
    figures["idle_private_kib"] = max(map(warm.memory_of, idle))
    end_some(env["PINFOLD_STATE"], options.ended)
    listing = [pinfold, "ls", "--label", "tenant=a", "--json"]
    figures["ls_ms"] = quarter([warm.timed(listing, env) for _ in range(40)])
    figures["listed"] = options.sandboxes + options.ended + 1
    figures["stream_gb_per_s"] = stream(pinfold, env)
    figures["stream_ratio"] = figures["stream_gb_per_s"]["pinfold exec"] / figures["stream_gb_per_s"]["cat"]
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sandboxes", type=int, default=500)
    parser.add_argument("--ended", type=int, default=500)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--pinfold", default=os.path.join(HERE, "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = tempfile.mkdtemp()
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PINFOLD_STATE": os.path.join(folder, "state"),
           "PINFOLD_BILLS": os.path.join(folder, "bills")}
    os.mkdir(env["PINFOLD_STATE"], 0o700)
    try:
        figures = measure(options, folder, env)
    finally:
        names = os.listdir(os.path.join(env["PINFOLD_STATE"], "sandboxes"))
        subprocess.run([options.pinfold, "rm", "--force", *names], check=False, env=env)
        subprocess.run([options.pinfold, "run", "--", "/usr/bin/true"], check=False, env=env)
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    print(f"warm exec, client      {figures['exec_alone_ms']:8.3f} ms alone, {figures['exec_among_many_ms']:8.3f} ms beside "
          f"{options.sandboxes} idle sandboxes: {figures['growth']:.2f} x")
    print(f"an idle sandbox        {figures['idle_private_kib']} KiB of private memory, {figures['idle_ticks_in_5_s']} ticks of three in 5 s")
    print(f"ls --label --json      {figures['ls_ms']:8.1f} ms over {figures['listed']} sandboxes")
    rates = figures["stream_gb_per_s"]
    print(f"streaming              {rates['pinfold exec']:.2f} GB/s, cat {rates['cat']:.2f} GB/s: {figures['stream_ratio']:.2f} x")


if __name__ == "__main__":
    main()
