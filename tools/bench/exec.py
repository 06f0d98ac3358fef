#!/usr/bin/python3
"""How long a warm exec of /usr/bin/true takes in a sandbox that is there already: pinfold beside its peers.

Rows: fork+exec on the host; `client`, a request over a connection that is kept open, until its result; `pinfold exec`,
the whole command; `crun exec` and `runc exec` into a container of theirs, where they are installed and work here.
Interleaved; medians and 95th percentiles, and ratios to fork+exec. The supervisor's private memory is told as well.

With `--vm SCRIPT` all of it runs in a virtual machine with real cgroup v2, which Debian's crun needs for `exec`: the script
is run as `SCRIPT --timeout SECONDS -- COMMAND`. An emulated machine is some 40 times slower, so that only the ratios count.

    tools/bench/exec.py [--runs N] [--pinfold PATH] [--json] [--vm SCRIPT]
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DEVNULL = os.open("/dev/null", os.O_RDWR)
SANDBOXES = ["bench", "another"]  # two, so that what they share isn't counted as private
QUIET = [(os.POSIX_SPAWN_DUP2, DEVNULL, number) for number in range(3)]


def timed(argv, env):
    """Nanoseconds from spawn to reaped; the command must succeed."""
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=QUIET)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter_ns() - start
    if status != 0:
        raise RuntimeError(f"{argv} ended with status {status}")
    return took


class Client:
    """One connection to a kept sandbox; docs/kept.md has the protocol."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(os.path.join(folder, "control"))
        text = json.dumps({"pinfold": 1, "id": 1, "verb": "exec", "args": ["/usr/bin/true"], "output": "capture"}).encode()
        self.request = struct.pack(">I", len(text)) + text
        self.buffer = b""

    def reply(self):
        while True:
            if len(self.buffer) >= 4:
                end = 4 + struct.unpack(">I", self.buffer[:4])[0]
                if len(self.buffer) >= end:
                    message, self.buffer = json.loads(self.buffer[4:end]), self.buffer[end:]
                    return message
            self.buffer += self.socket.recv(65536)

    def timed(self):
        start = time.perf_counter_ns()
        self.socket.sendall(self.request)
        while True:
            message = self.reply()
            if "result" in message:
                break
        took = time.perf_counter_ns() - start
        if message["result"]["exit_code"] != 0:
            raise RuntimeError(message)
        return took


class Peer:
    """A container of another runtime that sleeps; None where it can't be made here."""

    def __init__(self, runtime, folder, pinfold, env):
        self.argv0 = [shutil.which(runtime) or "/nonexistent", "--root", os.path.join(folder, runtime)]
        bundle = os.path.join(folder, f"{runtime}-bundle")
        subprocess.run([pinfold, "bundle", "export", bundle, "--", "/usr/bin/sleep", "1000"], check=True, env=env)
        path = os.path.join(bundle, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "time"]
        for key in ("uidMappings", "gidMappings"):
            config["linux"][key] = [{"containerID": 0, "hostID": 1879048192, "size": 65536}]
        config["ociVersion"] = "1.0.2"
        # Debian's crun can't bind a single file over what the root has no file for: its peer does without as well
        config["mounts"] = [m for m in config["mounts"] if not os.path.isfile(m.get("source", ""))]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        for directory in (folder, bundle):  # what is root inside must get to the bundle
            os.chmod(directory, 0o755)
        self.name = f"pinfold-bench-{os.getpid()}"
        subprocess.run([*self.argv0, "run", "--detach", "--bundle", bundle, self.name], check=True, stdin=DEVNULL,
                       stdout=DEVNULL, stderr=DEVNULL)

    def argv(self):
        """Without new privileges, as the bundle says: crun would load the filter before it sets the groups, which that denies."""
        return [*self.argv0, "exec", "--no-new-privs", self.name, "/usr/bin/true"]

    def close(self):
        subprocess.run([*self.argv0, "delete", "--force", self.name], stdout=DEVNULL, stderr=DEVNULL, check=False)


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Private_Clean", "Private_Dirty")))


def memory_of(supervisor):
    with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as file:
        pids = [supervisor, *map(int, file.read().split())]
    return sum(map(private_kib, pids))


def summary(name, times, base):
    times = sorted(times)
    median = statistics.median(times)
    return {"contender": name, "median_ms": round(median / 1e6, 3), "p95_ms": round(times[int(len(times) * 0.95)] / 1e6, 3),
            "times_fork_exec": round(median / base, 2)}


def make_peers(folder, pinfold, env):
    peers = {}
    for runtime in ("crun", "runc"):
        try:
            peers[runtime] = Peer(runtime, folder, pinfold, env)
            timed(peers[runtime].argv(), env)
        except (OSError, subprocess.CalledProcessError, RuntimeError) as error:
            if runtime in peers:
                peers.pop(runtime).close()
            print(f"{runtime} is left out: {error}", file=sys.stderr)
    return peers


def leave_v2():
    """Debian's crun can't use a hybrid host: in a mount namespace without the v2 tree it can."""
    if os.path.isdir("/sys/fs/cgroup/unified") and os.geteuid() == 0:
        script = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
        os.environ["PINFOLD_BENCH_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, *sys.argv])


def run_in(machine, options):
    """The same there, on the peers' own ground."""
    inside = ["/usr/bin/python3", os.path.abspath(__file__), "--runs", str(options.runs), "--pinfold", os.path.abspath(options.pinfold)]
    sys.exit(subprocess.call([machine, "--timeout", "1500", "--", *inside, *(["--json"] if options.json else [])]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--pinfold", default=os.path.join(HERE, "../../build/release/tools/pinfold/pinfold"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--vm", metavar="SCRIPT", help="run in the virtual machine that this script boots")
    options = parser.parse_args()
    if options.vm:
        run_in(options.vm, options)
    if "PINFOLD_BENCH_INSIDE" not in os.environ:
        leave_v2()
    with tempfile.TemporaryDirectory() as folder:
        state = os.path.join(folder, "state")
        os.mkdir(state, 0o700)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PINFOLD_STATE": state}
        pinfold = os.path.abspath(options.pinfold)
        for name in SANDBOXES:
            subprocess.run([pinfold, "up", name], check=True, env=env, stdout=DEVNULL)
        peers = make_peers(folder, pinfold, env)
        try:
            shown = json.loads(subprocess.run([pinfold, "show", "bench", "--json"], check=True, env=env, capture_output=True).stdout)
            idle_kib = memory_of(shown["supervisor"])
            client = Client(os.path.join(state, "sandboxes/bench"))
            contenders = {"fork+exec": lambda: timed(["/usr/bin/true"], env), "client": client.timed,
                          "pinfold exec": lambda: timed([pinfold, "exec", "bench", "--", "/usr/bin/true"], env)}
            for runtime, peer in peers.items():
                contenders[f"{runtime} exec"] = lambda peer=peer: timed(peer.argv(), env)
            times = {name: [] for name in contenders}
            for turn in range(options.runs + 20):
                for name, run in contenders.items():
                    took = run()
                    if turn >= 20:
                        times[name].append(took)
        finally:
            for peer in peers.values():
                peer.close()
            subprocess.run([pinfold, "rm", "--force", *SANDBOXES], check=True, env=env)
            subprocess.run([pinfold, "run", "--", "/usr/bin/true"], check=True, env=env)
    base = statistics.median(times["fork+exec"])
    rows = [summary(name, values, base) for name, values in times.items()]
    if options.json:
        print(json.dumps({"runs": options.runs, "idle_private_kib": idle_kib, "rows": rows}, indent=1))
        return
    for row in rows:
        print(f"{row['contender']:14} {row['median_ms']:8.3f} ms  p95 {row['p95_ms']:8.3f} ms  {row['times_fork_exec']:6.2f} x fork+exec")
    print(f"an idle sandbox: {idle_kib} KiB of private memory in its supervisor and init")


if __name__ == "__main__":
    main()
