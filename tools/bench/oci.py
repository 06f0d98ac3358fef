#!/usr/bin/env python3
"""How long create, start and delete of one bundle take, and what a run holds in memory: pinfold-oci, runc and crun.

    tools/bench/oci.py --build BUILD [--rounds N] [--runtime NAME=PROGRAM…]

Prints for each runtime the median of the three together, and of each, in milliseconds, and its share of crun's and of
runc's. The runtimes take turns, so that all meet the same load. crun refuses hybrid cgroups; there it runs in a private
mount namespace without the v2 tree, and what that takes around nothing (`true`, in the same turns, less `true` alone) is
taken off its time. Then the resident and the proportional set of the runtime's own process,
in KiB, while the container of a `run` in the foreground sleeps.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time


def make_bundle(folder):
    for name in ("bin", "dev", "proc", "sys"):
        (folder / "rootfs" / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), folder / "rootfs/bin/busybox")
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    config = json.loads((folder / "config.json").read_text())
    config["process"].update(terminal=False, args=["/bin/busybox", "true"])
    for kind in list(config["process"]["capabilities"]):
        if kind == "ambient":
            del config["process"]["capabilities"][kind]
    (folder / "config.json").write_text(json.dumps(config))


def measure(argv, bundle, name):
    times = []
    for words in (["create", "--bundle", str(bundle), name], ["start", name], ["delete", "--force", name]):
        before = time.perf_counter()
        subprocess.run([*argv, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        times.append((time.perf_counter() - before) * 1000)
    return times


def sizes_of(pid):
    rollup = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return [int(rollup[key].split()[0]) for key in ("Rss", "Pss")]


def hold(argv, bundle, name):
    """The sizes of the runtime's process while its container runs."""
    process = subprocess.Popen([*argv, "run", "--bundle", str(bundle), name], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        process.stdout.readline()  # the container says that it is up
        time.sleep(0.1)
        return sizes_of(process.pid)
    finally:
        subprocess.run([*argv, "delete", "--force", name], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        process.wait(20)


def take(argv):
    before = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - before) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    hidden = ["unshare", "-m", "sh", "-c", 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh"]
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        make_bundle(home / "bundle")
        runtimes = {
            "pinfold-oci": [str(options.build / "tools/pinfold-oci/pinfold-oci"), "--root", str(home / "pinfold")],
            "crun": [*hidden, "crun", "--root", str(home / "crun")],
            "runc": ["runc", "--root", str(home / "runc")],
        }
        runtimes = {name: argv for name, argv in runtimes.items() if name == "pinfold-oci" or shutil.which(name)}
        seen, floor = {name: [] for name in runtimes}, []
        for number in range(options.rounds):
            floor.append(take([*hidden, "true"]) - take(["true"]))
            for name, argv in runtimes.items():
                seen[name].append(measure(argv, home / "bundle", f"bench-{os.getpid()}-{number}"))
        wrapper = {name: statistics.median(floor) if name == "crun" else 0 for name in runtimes}
        totals = {name: statistics.median(sum(times) for times in rounds) - 3 * wrapper[name] for name, rounds in seen.items()}
        for name, rounds in seen.items():
            parts = [statistics.median(times[i] for times in rounds) - wrapper[name] for i in range(3)]
            shares = ", ".join(f"{totals[name] / totals[other]:.2f} of {other}'s" for other in ("crun", "runc") if other in totals)
            print(f"{name:12} {totals[name]:7.1f} ms (create {parts[0]:.1f}, start {parts[1]:.1f}, delete {parts[2]:.1f}), {shares}")
        config = json.loads((home / "bundle/config.json").read_text())
        config["process"]["args"] = ["/bin/busybox", "sh", "-c", "echo up; exec /bin/busybox sleep 60"]
        (home / "bundle/config.json").write_text(json.dumps(config))
        for name, argv in runtimes.items():
            rss, pss = hold(argv, home / "bundle", f"hold-{os.getpid()}")
            print(f"{name:12} {rss} KiB resident, {pss} KiB proportional while its container runs")


if __name__ == "__main__":
    main()
