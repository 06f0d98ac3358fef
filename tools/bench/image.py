#!/usr/bin/python3
"""How long a run takes from an image of five layers, beside the same program from the host image.

The program is busybox's `true`, static in both; images are made of it and of files around it. Runs are interleaved. The
number of images in the store has its own row: names are files, and resolving one reads two of them.

    tools/bench/image.py [--runs N] [--pinfold PATH] [--names N] [--json]
"""
import argparse
import hashlib
import io
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DEVNULL = os.open("/dev/null", os.O_RDWR)
BUSYBOX = "/bin/busybox"


def timed(argv, environment):
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=[(os.POSIX_SPAWN_DUP2, DEVNULL, n) for n in (0, 1)])
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter_ns() - start
    if status != 0:
        raise RuntimeError(f"{argv} ended with status {status}")
    return took / 1e6


def layer(folder, number):
    """The tree after this many layers: each adds a hundred small files in ten folders."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/true").write_bytes(pathlib.Path(BUSYBOX).read_bytes())
    (folder / "bin/true").chmod(0o755)
    for name in range(100):
        place = folder / f"usr/{name % 10}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"file{number}-{name}").write_text("x" * 100)


def save(archive, layers):
    """What `docker save` writes, with a layer for each list of files."""
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}
    with tarfile.open(archive, "w") as whole:
        def put(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            whole.addfile(info, io.BytesIO(data))
        for number, data in enumerate(layers):
            config["rootfs"]["diff_ids"].append("sha256:" + hashlib.sha256(data).hexdigest())
            put(f"{number}/layer.tar", data)
        put("config.json", json.dumps(config).encode())
        put("manifest.json", json.dumps([{"Config": "config.json", "RepoTags": [f"bench:{len(layers)}"],
                                          "Layers": [f"{n}/layer.tar" for n in range(len(layers))]}]).encode())


def make_images(importer, environment, scratch, counts):
    for count in counts:
        layers = []
        for number in range(count):
            tree = pathlib.Path(scratch) / f"{count}-{number}"
            tree.mkdir()
            layer(tree, number)
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as archive:
                archive.add(tree, arcname=".")
            layers.append(out.getvalue())
        save(pathlib.Path(scratch) / f"{count}.tar", layers)
        subprocess.run([importer, "import", "--format", "docker", f"{scratch}/{count}.tar", f"bench:{count}"], env=environment, check=True,
                       stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--names", type=int, default=1000)
    parser.add_argument("--pinfold", default=str(HERE / "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    pinfold = os.path.abspath(options.pinfold)
    importer = os.path.join(os.path.dirname(pinfold), "../pinfold-image/pinfold-image")
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-") as scratch:
        environment = {**os.environ, "PINFOLD_IMAGES": f"{scratch}/images"}
        make_images(importer, environment, scratch, (1, 5, 20))
        run = [pinfold, "run", "--image"]
        rows = {"host image": [*run, "host", "--", BUSYBOX, "true"]}
        for count in (1, 5, 20):
            rows[f"{count} layers"] = [*run, f"bench:{count}", "--", "/bin/true"]
        rows[f"5 layers, {options.names} names"] = rows["5 layers"]
        crowd(scratch, options.names)
        stores = {name: f"{scratch}/{'crowd' if 'names' in name else 'images'}" for name in rows}
        times = measure(rows, {name: {**environment, "PINFOLD_IMAGES": store} for name, store in stores.items()}, options.runs)
    host = statistics.median(times["host image"])
    result = [{"name": name, "median_ms": round(statistics.median(values), 3), "p95_ms": round(statistics.quantiles(values, n=20)[18], 3),
               "ratio": round(statistics.median(values) / host, 3)} for name, values in times.items()]
    if options.json:
        json.dump({"runs": options.runs, "rows": result}, sys.stdout, indent=2)
        print()
        return
    print(f"{'':24}{'median ms':>12}{'p95 ms':>12}{'of the host image':>20}   ({options.runs} runs each, interleaved)")
    for row in result:
        print(f"{row['name']:24}{row['median_ms']:12.3f}{row['p95_ms']:12.3f}{row['ratio']:20.2f}")


def crowd(scratch, names):
    """A copy of the store in which many names stand for the image."""
    shutil.copytree(f"{scratch}/images", f"{scratch}/crowd", symlinks=True)
    os.chmod(f"{scratch}/crowd", 0o700)
    for number in range(names):
        shutil.copy(f"{scratch}/crowd/refs/bench,5", f"{scratch}/crowd/refs/name{number},v1")


def measure(rows, environments, runs):
    times = {name: [] for name in rows}
    for turn in range(runs + 5):
        for name, argv in rows.items():
            took = timed(argv, environments[name])
            if turn >= 5:
                times[name].append(took)
    return times


if __name__ == "__main__":
    main()
