#!/usr/bin/env python3
"""How long create, start and delete of one bundle take, for pinfold-oci, runc and crun.

    tools/bench/oci.py --build BUILD [--rounds N] [--runtime NAME=PROGRAM…]

Prints for each runtime the median of the three together, and of each, in milliseconds, and its share of crun's. The
runtimes take turns, so that all meet the same load. crun refuses hybrid cgroups; there it runs in a private mount
namespace without the v2 tree.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    hidden = ["unshare", "-m", "sh", "-c", 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"', "sh"]
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        make_bundle(home / "bundle")
        shell = ["unshare", "-m", "sh", "-c", 'exec "$@"', "sh"]
        runtimes = {
            "pinfold-oci": [*shell, str(options.build / "tools/pinfold-oci/pinfold-oci"), "--root", str(home / "pinfold")],
            "crun": [*hidden, "crun", "--root", str(home / "crun")],
            "runc": [*shell, "runc", "--root", str(home / "runc")],
        }
        runtimes = {name: argv for name, argv in runtimes.items() if name == "pinfold-oci" or shutil.which(name)}
        seen = {name: [] for name in runtimes}
        for number in range(options.rounds):
            for name, argv in runtimes.items():
                seen[name].append(measure(argv, home / "bundle", f"bench-{os.getpid()}-{number}"))
        base = statistics.median(sum(times) for times in seen.get("crun", seen["pinfold-oci"]))
        for name, rounds in seen.items():
            total = statistics.median(sum(times) for times in rounds)
            parts = [statistics.median(times[i] for times in rounds) for i in range(3)]
            print(f"{name:12} {total:7.1f} ms (create {parts[0]:.1f}, start {parts[1]:.1f}, delete {parts[2]:.1f}), "
                  f"{total / base:.2f} of crun's")


if __name__ == "__main__":
    main()
