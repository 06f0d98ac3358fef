#!/usr/bin/python3
"""What a connection costs that leaves a sandbox by name: pinfold's broker beside a direct one, slirp4netns and pasta.

One server on the host's loopback, one client program run by each contender, in interleaved rounds: connect-to-first-byte
(median of --connects a round; one connection right after the other, and each alone, a millisecond after the last one's end, so
that nothing of that runs into it), bulk throughput both ways (best of --rounds), the processor time that the process between the
two takes for a GiB, and its resident memory for each of --held connections. Then what a list adds to a run of /bin/true
(median of --starts pairs). pasta is there twice: by its tap device, as for any other host, and spliced, as it does for ports
of the host's own loopback only. A contender that isn't installed or can't start on this host is named and left out.

    tools/bench/egress.py [--pinfold PATH] [--libexec DIR] [--connects N] [--megabytes N] [--rounds N] [--held N] [--starts N]
                          [--only NAME]... [--json]
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

CLIENT = """
import json, resource, socket, sys, time
host, port, connects, megabytes, held = sys.argv[1], *map(int, sys.argv[2:])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
place = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
def opened():
    s = socket.create_connection(place, timeout=60)
    s.recv(1)
    return s
def ask(what):
    s.sendall(what)
    return s.recv(1)
def connected(pause):
    time.sleep(pause)
    start = time.perf_counter_ns()
    s = socket.socket()
    s.connect(place)
    s.recv(1)
    took = time.perf_counter_ns() - start
    s.close()
    return took
facts = {"connect_ns": [connected(0) for _ in range(connects)], "alone_ns": [connected(0.001) for _ in range(connects)]}
s = opened()
if megabytes:
    ask(b"C\\n")
    left, buffer = megabytes << 20, bytearray(1 << 20)
    start = time.perf_counter_ns()
    s.sendall(b"D%d\\n" % megabytes)
    while left > 0:
        got = s.recv_into(buffer)
        if not got:
            sys.exit("cut short")
        left -= got
    facts["in_ns"] = time.perf_counter_ns() - start
    start = time.perf_counter_ns()
    s.sendall(b"U%d\\n" % megabytes)
    for _ in range(megabytes):
        s.sendall(buffer)
    s.recv(1)
    facts["out_ns"] = time.perf_counter_ns() - start
    ask(b"C\\n")
if held:
    ask(b"M\\n")
    others = [opened() for _ in range(held)]
    ask(b"M\\n")
print(json.dumps(facts))
"""

BETWEEN = ("pinfold-broker", "slirp4netns", "pasta", "pasta.avx2", "passt", "passt.avx2")


def family(pid):
    """A process and all that it has started."""
    yield pid
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


class Watch:
    """Of the process between client and server: the processor time and memory that it has taken."""

    def __init__(self):
        self.root, self.cpu, self.memory = None, [], []

    def processes(self):
        for pid in family(self.root):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in BETWEEN:
                yield pid

    def note(self, what):
        try:
            found = list(self.processes()) if self.root else []
            if what == b"C":
                fields = [pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in found]
                self.cpu.append(sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK"))
            else:
                texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in found]
                self.memory.append(sum(int(t.split("VmRSS:")[1].split()[0]) for t in texts))
        except OSError:
            pass  # one has just ended: the figure is missing


WATCH = Watch()


def upload(client, megabytes):
    left, buffer = megabytes << 20, bytearray(1 << 20)
    while left > 0:
        got = client.recv_into(buffer)
        if not got:
            return
        left -= got
    client.sendall(b".")


def answer(client):
    block = bytes(1 << 20)
    with client, client.makefile("rb", buffering=0) as lines:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            client.sendall(b"!")
            while line := lines.readline().strip():
                if line[:1] == b"D":
                    for _ in range(int(line[1:])):
                        client.sendall(block)
                elif line[:1] == b"U":
                    upload(client, int(line[1:]))
                else:
                    WATCH.note(line[:1])
                    client.sendall(b".")
        except OSError:
            pass  # the client has what it wanted


def serve():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(4096)

    def accept():
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1]


class Contender:
    def __init__(self, name, argv, host, env=None):
        self.name, self.argv, self.host, self.env = name, argv, host, env
        self.connects, self.alone, self.into, self.out, self.cpu, self.memory, self.fault = [], [], [], [], [], None, None

    def run(self, port, connects, megabytes, held):
        argv = [*self.argv, "/usr/bin/python3", "-c", CLIENT, self.host, *map(str, (port, connects, megabytes, held))]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env,
                                   start_new_session=True)
        WATCH.root, WATCH.cpu, WATCH.memory = process.pid, [], []
        try:
            out, err = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()[0], "no end within 90 seconds"
        return json.loads(out.splitlines()[-1]) if process.returncode == 0 else (err.strip().splitlines() or ["no output"])[-1]

    def measure(self, port, connects, megabytes):
        facts = self.run(port, connects, megabytes, 0)
        if isinstance(facts, str):
            self.fault = facts
            return
        self.connects += facts["connect_ns"]
        self.alone += facts["alone_ns"]
        self.into.append(megabytes / 1024 / (facts["in_ns"] / 1e9))
        self.out.append(megabytes / 1024 / (facts["out_ns"] / 1e9))
        if len(WATCH.cpu) == 2:
            self.cpu.append((WATCH.cpu[1] - WATCH.cpu[0]) / (2 * megabytes / 1024))

    def hold(self, port, held):
        facts = self.run(port, 0, 0, held)
        if not isinstance(facts, str) and len(WATCH.memory) == 2:
            self.memory = (WATCH.memory[1] - WATCH.memory[0]) / held


SLIRP = """
unshare -rn sh -c 'echo $$ >"$0/pid"; while [ ! -e "$0/go" ]; do sleep 0.01; done; exec "$@"' "$0" "$@" &
while [ ! -s "$0/pid" ]; do sleep 0.01; done
slirp4netns --configure --mtu=65520 "$(cat "$0/pid")" tap0 >/dev/null 2>&1 &
slirp=$!
sleep 0.5
touch "$0/go"
wait %1
code=$?
kill $slirp
rm -f "$0/pid" "$0/go"
exit $code
"""


def policy(folder, name, egress):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"pinfold": 1, "name": "bench", "extends": ["tool"], "network": {"egress": egress, "limits": {"connections": 4096}},
                   "resources": {"wall_time": "5m"}, "optional": ["memory", "swap", "cpus", "pids"]}, file)
    return path


def pasta(port):
    """As root it would become nobody, who may not make the namespace; its addresses are fixed, so that any host will do."""
    root = ["--runas", "0"] if os.geteuid() == 0 else []
    common = ["pasta", *root, "-q", "--config-net", "-a", "10.0.2.100", "-n", "24", "-g", "10.0.2.2", "-t", "none", "-u", "none", "-U", "none"]
    return Contender("pasta", [*common, "-T", "none", "--"], "10.0.2.2"), \
        Contender("pasta-spliced", [*common, "-T", str(port), "--"], "127.0.0.1")


def contenders(options, folder, port, env):
    path = policy(folder, "policy.json", [{"host": "host.pinfold.internal", "ports": [port]}])
    yield Contender("direct", [], "127.0.0.1")
    yield Contender("pinfold", [options.pinfold, "run", "--policy", path, "--"], "host.pinfold.internal", env)
    if shutil.which("slirp4netns"):
        yield Contender("slirp4netns", ["sh", "-c", SLIRP, folder], "10.0.2.2")
    if shutil.which("pasta"):
        yield from pasta(port)


def set_up(options, folder, env):
    """What a list adds to a run, in milliseconds: the median of the differences of pairs."""
    paths = [policy(folder, "without.json", []), policy(folder, "with.json", [{"host": "host.pinfold.internal", "ports": [9]}])]
    taken = ([], [])
    for _ in range(options.starts):
        for path, times in zip(paths, taken):
            start = time.perf_counter_ns()
            subprocess.run([options.pinfold, "run", "--policy", path, "--", "true"], env=env, check=True, stdin=subprocess.DEVNULL)
            times.append((time.perf_counter_ns() - start) / 1e6)
    return statistics.median(b - a for a, b in zip(*taken))


def row_of(one, direct):
    first, base = (statistics.median(c.connects) / 1000 for c in (one, direct))
    alone, alone_base = (statistics.median(c.alone) / 1000 for c in (one, direct))
    return {"name": one.name, "first_byte_us": round(first, 1), "first_byte_ratio": round(first / base, 2),
            "alone_us": round(alone, 1), "alone_ratio": round(alone / alone_base, 2),
            "in_gib_per_s": round(max(one.into), 2), "in_ratio": round(max(one.into) / max(direct.into), 2),
            "out_gib_per_s": round(max(one.out), 2), "out_ratio": round(max(one.out) / max(direct.out), 2),
            "cpu_s_per_gib": round(statistics.median(one.cpu), 2) if one is not direct and one.cpu else None,
            "kib_per_held": round(one.memory, 1) if one is not direct and one.memory is not None else None}


COLUMNS = (("first byte us", "first_byte_us"), ("x direct", "first_byte_ratio"), ("alone us", "alone_us"),
           ("x direct", "alone_ratio"), ("in GiB/s", "in_gib_per_s"), ("x direct", "in_ratio"),
           ("out GiB/s", "out_gib_per_s"), ("x direct", "out_ratio"), ("cpu s/GiB", "cpu_s_per_gib"), ("KiB/held", "kib_per_held"))


def show(rows, added):
    print(f"{'':14}" + "".join(f"{title:>14}" for title, _ in COLUMNS))
    for row in rows:
        print(f"{row['name']:14}" + "".join(f"{'-' if row[key] is None else row[key]:>14}" for _, key in COLUMNS))
    if added is not None:
        print(f"a list adds {added:.2f} ms to a run")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pinfold", default=shutil.which("pinfold") or "build/release/tools/pinfold/pinfold")
    parser.add_argument("--libexec")
    for name, default in (("connects", 300), ("megabytes", 1024), ("rounds", 5), ("held", 1000), ("starts", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", action="append", help="this contender beside the direct connection")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    port = serve()
    env = dict(os.environ, **({"PINFOLD_LIBEXEC": options.libexec} if options.libexec else {}))
    with tempfile.TemporaryDirectory() as folder:
        field = [c for c in contenders(options, folder, port, env) if not options.only or c.name in ("direct", *options.only)]
        for _ in range(options.rounds):
            for one in field:
                if one.fault is None:
                    one.measure(port, options.connects, options.megabytes)
                    time.sleep(0.05)
        for one in field if options.held else []:
            if one.fault is None:
                one.hold(port, options.held)
        added = set_up(options, folder, env) if options.starts else None
    for one in field:
        if one.fault is not None:
            print(f"{one.name}: left out: {one.fault}", file=sys.stderr)
    rows = [row_of(one, field[0]) for one in field if one.fault is None]
    if options.json:
        print(json.dumps({"contenders": rows, "set_up_ms": added}, indent=2))
    else:
        show(rows, added)


main()
