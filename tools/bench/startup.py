#!/usr/bin/python3
"""How long a whole command takes that runs /usr/bin/true in a sandbox: pinfold beside its peers.

Every contender gets the root that pinfold's host image has and runs the same program; crun and runc the limits and the
filter too, bwrap its namespaces alone (and, in a row of its own, nothing but /usr). Runs are interleaved (one of each, again and
again), so that a drift of the machine's speed meets all alike. Medians, 95th percentiles, and ratios of medians.

    tools/bench/startup.py [--runs N] [--pinfold PATH] [--json]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEVNULL = os.open("/dev/null", os.O_RDWR)
QUIET = [(os.POSIX_SPAWN_DUP2, DEVNULL, 0), (os.POSIX_SPAWN_DUP2, DEVNULL, 1), (os.POSIX_SPAWN_DUP2, DEVNULL, 2)]


def timed(argv):
    """Nanoseconds from spawn to reaped; the command must succeed."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, file_actions=QUIET)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter_ns() - start
    if status != 0:
        raise RuntimeError(f"{argv} ended with status {status}")
    return took


class Worker:
    """Times commands in a mount namespace without the v2 tree, which Debian's crun needs on a hybrid host."""

    CODE = """
import os, sys, time
null = os.open("/dev/null", os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, null, n) for n in range(3)]
argv = sys.argv[1:]
for line in sys.stdin:
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], [a.replace("@", line.strip()) for a in argv],
                         {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, file_actions=quiet)
    _, status = os.waitpid(pid, 0)
    print(time.perf_counter_ns() - start, status, flush=True)
"""

    def __init__(self, argv):
        setup = "umount /sys/fs/cgroup/unified 2>/dev/null; exec /usr/bin/python3 -c \"$0\" \"$@\""
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", setup, self.CODE, *argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.count = 0

    def timed(self):
        self.count += 1
        self.process.stdin.write(f"{os.getpid()}x{id(self)}x{self.count}\n")
        self.process.stdin.flush()
        took, status = self.process.stdout.readline().split()
        if status != "0":
            raise RuntimeError(f"status {status}")
        return int(took)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def export_bundle(pinfold, folder, seccomp):
    """The bundle that `pinfold run -- /usr/bin/true` resolves to: the same root, mounts and limits for everybody."""
    subprocess.run([pinfold, "bundle", "export", folder, "--", "/usr/bin/true"], check=True)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    # what Debian's runtimes would refuse or need: no time namespace there, maps for the user namespace
    config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "time"]
    config["ociVersion"] = "1.0.2"
    # Debian's crun can't bind a single file in a user namespace: its peers do without those two
    config["mounts"] = [m for m in config["mounts"] if not os.path.isfile(m.get("source", ""))]
    for key in ("uidMappings", "gidMappings"):
        config["linux"][key] = [{"containerID": 0, "hostID": 1879048192, "size": 65536}]
    if not seccomp:
        del config["linux"]["seccomp"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    os.chmod(folder, 0o755)
    return config


def bwrap_arguments(folder, config):
    """All namespaces and the same root; no limits, no filter, no Landlock: bubblewrap has none of its own."""
    arguments = ["--unshare-all", "--new-session", "--die-with-parent", "--clearenv", "--hostname", "pinfold", "--uid", "1000",
                 "--gid", "1000", "--ro-bind", os.path.join(folder, "rootfs"), "/"]
    for mount in config["mounts"]:
        if "source" in mount and mount["source"].startswith("/"):
            arguments += ["--ro-bind", mount["source"], mount["destination"]]
    return arguments + ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]


def contenders(pinfold, scratch):
    os.chmod(scratch, 0o755)  # what is root inside must get to the bundle
    rows, workers = {}, []
    rows["fork+exec"] = lambda: timed(["/usr/bin/true"])
    rows["unshare"] = lambda: timed(["/usr/bin/unshare", "-Urmpinu", "--fork", "/usr/bin/true"])
    bundle, bare = os.path.join(scratch, "bundle"), os.path.join(scratch, "bare")
    config = export_bundle(pinfold, bundle, True)
    export_bundle(pinfold, bare, False)
    if shutil.which("bwrap"):
        command = [shutil.which("bwrap"), *bwrap_arguments(bundle, config), "/usr/bin/true"]
        rows["bwrap"] = lambda: timed(command)
        usr = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
        small = [shutil.which("bwrap"), "--unshare-all", *usr, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/usr/bin/true"]
        rows["bwrap, /usr only"] = lambda: timed(small)
    if shutil.which("runc") and os.geteuid() == 0:
        counter = iter(range(10**9))
        rows["runc"] = lambda: timed([shutil.which("runc"), "--root", scratch + "/runc", "run", "-b", bundle,
                                      f"bench{os.getpid()}x{next(counter)}"])
    if shutil.which("crun") and os.geteuid() == 0:
        for name, folder in (("crun", bundle), ("crun, no filter", bare)):
            worker = Worker([shutil.which("crun"), "--root", scratch + "/crun", "run", "-b", folder, "bench@"])
            workers.append(worker)
            rows[name] = worker.timed
    rows["pinfold"] = lambda: timed([pinfold, "run", "--", "/usr/bin/true"])
    return rows, workers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--pinfold", default=os.path.join(HERE, "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-") as scratch:
        rows, workers = contenders(os.path.abspath(options.pinfold), scratch)
        times = {name: [] for name in rows}
        for turn in range(options.runs + 5):
            for name, run in rows.items():
                took = run()
                if turn >= 5:
                    times[name].append(took / 1e6)
        for worker in workers:
            worker.close()
    medians = {name: statistics.median(values) for name, values in times.items()}
    result = [{"name": name, "median_ms": round(medians[name], 3),
               "p95_ms": round(statistics.quantiles(values, n=20)[18], 3),
               "pinfold_ratio": round(medians["pinfold"] / medians[name], 3)} for name, values in times.items()]
    if options.json:
        json.dump({"runs": options.runs, "rows": result}, sys.stdout, indent=2)
        print()
        return
    print(f"{'':18}{'median ms':>12}{'p95 ms':>12}{'pinfold / it':>14}   ({options.runs} runs each, interleaved)")
    for row in result:
        print(f"{row['name']:18}{row['median_ms']:12.3f}{row['p95_ms']:12.3f}{row['pinfold_ratio']:14.2f}")


if __name__ == "__main__":
    main()
