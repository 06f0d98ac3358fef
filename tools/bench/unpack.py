#!/usr/bin/python3
"""How fast layers are unpacked, beside `tar -x` on the same archive, and the store verified, beside sha256sum.

Two archives, many small files and few large ones, each plain, with gzip and with zstd. Runs are interleaved, and which goes
first alternates. What is decompressed is hashed on the way (the diff id), which tar doesn't do; the diff id of a plain layer
is the digest of its blob, which is known since that came into the store. "import" is all of it: the blob copied and hashed,
unpacked, every file hashed for the index, synced. The directory is a tmpfs where there is one, so that the disk's moods are
in neither; --directory names another.

    tools/bench/unpack.py [--runs N] [--build DIR] [--directory DIR] [--json]
"""
import argparse
import io
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make_archives(folder):
    random.seed(1)
    sorts = {"small": (10000, 200, 8000), "large": (80, 1000000, 3000000)}
    for name, (count, least, most) in sorts.items():
        with tarfile.open(folder / f"{name}.tar", "w") as archive:
            for number in range(count):
                if number % 50 == 0:
                    info = tarfile.TarInfo(f"usr/d{number // 50}")
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(info)
                info = tarfile.TarInfo(f"usr/d{number // 50}/f{number}")
                info.size = random.randint(least, most)
                words = random.randbytes(info.size // 4 + 1) * 2 + bytes(info.size)
                archive.addfile(info, io.BytesIO(words[:info.size]))
        subprocess.run(["gzip", "-k", folder / f"{name}.tar"], check=True)
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "-k", folder / f"{name}.tar"], check=True)
    return sorted(folder.glob("*.tar*"))


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def timed(argv, **environment):
    """Milliseconds of the whole process."""
    start = time.perf_counter_ns()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    return (time.perf_counter_ns() - start) / 1e6


def beside_tar(ours, archive, folder, runs):
    rows = {"ours": ours, "tar": lambda: timed(["tar", "-xpf", archive, "--numeric-owner", "-C", fresh(folder)])}
    times = {name: [] for name in rows}
    for turn in range(runs + 1):
        for name in sorted(rows, reverse=turn % 2 == 1):
            took = rows[name]()
            if turn > 0:
                times[name].append(took)
    return times


def verify(importer, archives, folder, runs):
    """All blobs and all layers again: about twice the bytes of the archives."""
    environment = {**os.environ, "PINFOLD_IMAGES": str(folder / "images")}
    for archive in archives:
        subprocess.run([importer, "import", archive, archive.name.replace(".", "-")], env=environment, check=True, stdout=subprocess.DEVNULL)
    files = [path for path in (folder / "images").rglob("*") if path.is_file() and not path.is_symlink()]
    times = {"ours": [], "sha256sum": []}
    for _ in range(runs):
        start = time.perf_counter_ns()
        subprocess.run([importer, "verify"], env=environment, check=True, stdout=subprocess.DEVNULL)
        times["ours"].append((time.perf_counter_ns() - start) / 1e6)
        start = time.perf_counter_ns()
        subprocess.run(["xargs", "-0", "sha256sum"], input=b"\0".join(os.fsencode(path) for path in files), check=True, stdout=subprocess.DEVNULL)
        times["sha256sum"].append((time.perf_counter_ns() - start) / 1e6)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--build", default=str(ROOT / "build/release"))
    parser.add_argument("--directory", default="/dev/shm" if os.path.ismount("/dev/shm") else None)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    build = pathlib.Path(options.build).resolve()
    rows = []
    with tempfile.TemporaryDirectory(prefix="pinfold-bench-", dir=options.directory) as scratch:
        scratch = pathlib.Path(scratch)
        archives = make_archives(scratch)
        out, unpacker, importer = scratch / "out", build / "tools/bench-unpack-layer", build / "tools/pinfold-image/pinfold-image"
        if not unpacker.exists():
            sys.exit(f"there is no {unpacker}: it is built with the tests (cmake --preset release -DPIN_TESTS=ON)")
        measured = {}
        for archive in archives:
            measured[archive.name] = beside_tar(lambda: timed([unpacker, archive, fresh(out)]), archive, out, options.runs)
            measured[f"import {archive.name}"] = beside_tar(
                lambda: timed([importer, "import", archive, "x"], PINFOLD_IMAGES=str(fresh(out) / "images")), archive, out, options.runs)
        shutil.rmtree(out)
        measured["verify"] = verify(importer, archives, scratch, options.runs)
    for name, times in measured.items():
        peer = next(key for key in times if key != "ours")
        mine, other = (statistics.median(times[key]) for key in ("ours", peer))
        rows.append({"name": name, "ms": round(mine, 1), "peer": peer, "peer_ms": round(other, 1), "speed": round(other / mine, 2),
                     "best_speed": round(min(times[peer]) / min(times["ours"]), 2)})
    if options.json:
        json.dump({"runs": options.runs, "rows": rows}, sys.stdout, indent=2)
        print()
        return
    print(f"{'':22}{'ms':>10}{'peer':>12}{'its ms':>10}{'speed':>8}{'of the best':>13}   ({options.runs} runs each, interleaved)")
    for row in rows:
        print(f"{row['name']:22}{row['ms']:10.1f}{row['peer']:>12}{row['peer_ms']:10.1f}{row['speed']:8.2f}{row['best_speed']:13.2f}")


if __name__ == "__main__":
    main()
