#!/usr/bin/python3
"""How fast pinfold moves a command's output, beside `cat` through pipes of the same size.

The command writes SIZE bytes of zeros to its standard output; the reader is /dev/null behind a pipe. GB/s, and CPU
seconds per GB of the mover alone: pinfold's own processes (the supervisor), or `cat`. Interleaved, medians.

    tools/bench/collect.py [--runs N] [--gib N] [--pinfold PATH] [--json]
"""
import argparse
import fcntl
import json
import os
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
F_SETPIPE_SZ = 1031
PIPE = 1 << 20


def drain(fd, total):
    """Reads to the end by splice into /dev/null, which costs the reader next to nothing."""
    sink = os.open("/dev/null", os.O_WRONLY)
    while True:
        moved = os.splice(fd, sink, PIPE)
        if moved == 0:
            break
        total[0] += moved
    os.close(sink)


def run(make):
    """Seconds and CPU seconds of the children until the end of their output."""
    source, target = os.pipe()
    fcntl.fcntl(target, F_SETPIPE_SZ, PIPE)
    total = [0]
    reader = threading.Thread(target=drain, args=(source, total))
    start = time.perf_counter()
    reader.start()
    cpu = make(target)
    os.close(target)
    reader.join()
    os.close(source)
    return time.perf_counter() - start, cpu, total[0]


def spawn(argv, stdin, stdout):
    actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)]
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)


def reap(pid):
    """Waits for the process; its own CPU seconds, without its children's."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"status {status}")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--gib", type=int, default=2)
    parser.add_argument("--pinfold", default=os.path.join(HERE, "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    size = options.gib << 30
    writer = ["/usr/bin/head", "-c", str(size), "/dev/zero"]
    policy = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
    json.dump({"pinfold": 1, "name": "bench", "resources": {"stdout": "unlimited", "wall_time": "5m", "cpus": 2}}, policy)
    policy.close()
    null = os.open("/dev/null", os.O_RDWR)

    def by_cat(target):
        inner, outer = os.pipe()
        fcntl.fcntl(outer, F_SETPIPE_SZ, PIPE)
        os.set_inheritable(inner, False)
        producer = spawn(writer, null, outer)
        os.close(outer)
        mover = spawn(["/usr/bin/cat"], inner, target)
        os.close(inner)
        cpu = reap(mover)
        reap(producer)
        return cpu

    def by_pinfold(frames):
        def make(target):
            command = [options.pinfold, "run", "--policy", policy.name, "--frames", frames, "--", *writer]
            return reap(spawn(command, null, target))
        return make

    rows = {"cat": by_cat, "pinfold": by_pinfold("none"), "pinfold, frames": by_pinfold("stdout-letta")}
    speeds = {name: [] for name in rows}
    cpus = {name: [] for name in rows}
    for turn in range(options.runs + 1):
        for name, make in rows.items():
            took, cpu, total = run(make)
            if total != size:
                raise RuntimeError(f"{name}: {total} of {size} bytes arrived")
            if turn > 0:
                speeds[name].append(size / took / 1e9)
                cpus[name].append(cpu / (size / 1e9))
    os.unlink(policy.name)
    base = statistics.median(speeds["cat"])
    result = [{"name": name, "gb_per_s": round(statistics.median(speeds[name]), 3),
               "cpu_s_per_gb": round(statistics.median(cpus[name]), 3),
               "ratio_to_cat": round(statistics.median(speeds[name]) / base, 3)} for name in rows]
    if options.json:
        json.dump({"runs": options.runs, "gib": options.gib, "rows": result}, sys.stdout, indent=2)
        print()
        return
    print(f"{'':18}{'GB/s':>8}{'CPU s/GB':>10}{'to cat':>8}   ({options.runs} runs of {options.gib} GiB, CPU of the mover alone)")
    for row in result:
        print(f"{row['name']:18}{row['gb_per_s']:8.2f}{row['cpu_s_per_gb']:10.3f}{row['ratio_to_cat']:8.2f}")


if __name__ == "__main__":
    main()
