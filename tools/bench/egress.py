#!/usr/bin/python3
"""What a connection costs that leaves a sandbox by name: pinfold's broker beside a direct one, slirp4netns and pasta.

One server on the host's loopback, one client program run by each contender: connect-to-first-byte (median of --connects,
interleaved rounds) and bulk throughput towards the program (best of --rounds). A contender that isn't installed or can't
start on this host is named and left out.

    tools/bench/egress.py [--pinfold PATH] [--libexec DIR] [--connects N] [--megabytes N] [--rounds N] [--json]
"""
import argparse
import json
import os
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
import json, socket, sys, time
host, port, connects, megabytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
place = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
times = []
for _ in range(connects):
    start = time.perf_counter_ns()
    s = socket.socket()
    s.connect(place)
    s.recv(1)
    times.append(time.perf_counter_ns() - start)
    s.close()
s = socket.create_connection(place)
s.recv(1)
s.sendall(b"B%d\\n" % megabytes)
left, buffer = megabytes << 20, bytearray(1 << 20)
start = time.perf_counter_ns()
while left > 0:
    got = s.recv_into(buffer)
    if not got:
        sys.exit("cut short")
    left -= got
print(json.dumps({"connect_ns": times, "bulk_ns": time.perf_counter_ns() - start}))
"""


def answer(client):
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            client.sendall(b"!")
            request = client.recv(64)
            block = bytes(1 << 20)
            for _ in range(int(request[1:]) if request[:1] == b"B" else 0):
                client.sendall(block)
        except OSError:
            pass  # the client has what it wanted


def serve():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1024)

    def accept():
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1]


class Contender:
    def __init__(self, name, argv, host, env=None):
        self.name, self.argv, self.host, self.env = name, argv, host, env
        self.connects, self.bulk, self.fault = [], [], None

    def measure(self, port, connects, megabytes):
        argv = [*self.argv, "/usr/bin/python3", "-c", CLIENT, self.host, str(port), str(connects), str(megabytes)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env,
                                   start_new_session=True)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = "", "no end within a minute"
            process.wait()
        if process.returncode != 0:
            self.fault = (err.strip().splitlines() or ["no output"])[-1]
            return
        facts = json.loads(out.splitlines()[-1])
        self.connects += facts["connect_ns"]
        self.bulk.append(megabytes / 1024 / (facts["bulk_ns"] / 1e9))


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


def contenders(options, folder, port):
    policy = os.path.join(folder, "policy.json")
    with open(policy, "w", encoding="utf-8") as file:
        json.dump({"pinfold": 1, "name": "bench", "extends": ["tool"],
                   "network": {"egress": [{"host": "host.pinfold.internal", "ports": [port]}]},
                   "resources": {"wall_time": "5m"}, "optional": ["memory", "swap", "cpus", "pids"]}, file)
    yield Contender("direct", [], "127.0.0.1")
    env = dict(os.environ)
    if options.libexec:
        env["PINFOLD_LIBEXEC"] = options.libexec
    yield Contender("pinfold", [options.pinfold, "run", "--policy", policy, "--"], "host.pinfold.internal", env)
    if shutil.which("slirp4netns"):
        yield Contender("slirp4netns", ["sh", "-c", SLIRP, folder], "10.0.2.2")
    if shutil.which("pasta"):
        yield Contender("pasta", ["pasta", "--config-net", "-q", "-T", str(port), "--"], "127.0.0.1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pinfold", default=shutil.which("pinfold") or "build/release/tools/pinfold/pinfold")
    parser.add_argument("--libexec")
    parser.add_argument("--connects", type=int, default=300)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    port = serve()
    with tempfile.TemporaryDirectory() as folder:
        field = list(contenders(options, folder, port))
        for _ in range(options.rounds):
            for one in field:
                if one.fault is None:
                    one.measure(port, options.connects, options.megabytes)
                    time.sleep(0.05)
    direct = field[0]
    rows = []
    for one in field:
        if one.fault is not None:
            print(f"{one.name}: left out: {one.fault}", file=sys.stderr)
            continue
        first, bulk = statistics.median(one.connects) / 1000, max(one.bulk)
        rows.append({"name": one.name, "first_byte_us": round(first, 1), "first_byte_ratio": round(
            first / (statistics.median(direct.connects) / 1000), 2), "gib_per_s": round(bulk, 2),
            "throughput_ratio": round(bulk / max(direct.bulk), 2)})
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':12} {'first byte':>12} {'x direct':>9} {'GiB/s':>8} {'x direct':>9}")
    for row in rows:
        print(f"{row['name']:12} {row['first_byte_us']:>9} us {row['first_byte_ratio']:>9} {row['gib_per_s']:>8} "
              f"{row['throughput_ratio']:>9}")


main()
