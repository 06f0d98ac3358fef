"""A small internet for the egress tests: servers at addresses of their own, and a recorder of all that reaches them.

Runs in a network namespace of its own: egress_internet.py CERTIFICATE KEY [PORT...]; it leaves these ports to others. Prints "ready", then reads commands from
stdin, one JSON line each, and answers each with one line: {"zone": {...}} replaces the names, {"seen": true} gives what
was recorded since the last time.
"""
import hashlib
import json
import random
import select
import socket
import ssl
import struct
import sys
import threading

LOCK = threading.Condition()
MARKER = 9  # the port of datagrams that say: what was sent before has been recorded
MARKS = [0]
SEEN = []
ZONE = {}
HITS = {}


def record(**facts):
    with LOCK:
        SEEN.append(facts)


def recorder():
    """Every IP packet from outside, but for the resolver's and the neighbours' business."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    while True:
        frame, where = tap.recvfrom(65535)
        if where[0] == "lo" or where[2] == socket.PACKET_OUTGOING:
            continue
        kind = struct.unpack("!H", frame[12:14])[0]
        if kind == 0x0800:
            head = (frame[14] & 15) * 4
            protocol, target, body = frame[23], socket.inet_ntoa(frame[30:34]), frame[14 + head:]
            size = struct.unpack("!H", frame[16:18])[0] - head
            if struct.unpack("!H", frame[20:22])[0] & 0x1FFF:  # a later fragment has no ports
                record(kind="packet", protocol=protocol, to=target, port=0, payload=size)
                continue
        elif kind == 0x86DD:
            protocol, target, body = frame[20], socket.inet_ntop(socket.AF_INET6, frame[38:54]), frame[54:]
            size = struct.unpack("!H", frame[18:20])[0]
        else:
            continue
        if protocol in (6, 17):
            port = struct.unpack("!H", body[2:4])[0]
            payload = size - ((body[12] >> 4) * 4 if protocol == 6 else 8)
            if protocol == 17 and port == MARKER:
                with LOCK:
                    MARKS[0] = max(MARKS[0], int(body[8:size]))
                    LOCK.notify_all()
                continue
            record(kind="packet", protocol=protocol, to=target, port=port, payload=payload)
        elif protocol not in (0, 2, 58):  # neighbours and groups
            record(kind="packet", protocol=protocol, to=target, port=0, payload=size)


def name_at(data, at):
    labels = []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += data[at] + 1
    return ".".join(labels).lower(), at + 1


def wire(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\0"


def answers(name, kind):
    """Records of the zone: addresses, "https:" with its data in hexadecimal, "cname:other", or lists of lists that take turns."""
    entry = ZONE.get(name)
    if entry is None:
        return None
    if entry and isinstance(entry[0], list):
        turn = HITS.get((name, kind), 0)
        HITS[(name, kind)] = turn + 1
        entry = entry[min(turn, len(entry) - 1)]
    records = []
    for value in entry:
        if value.startswith("cname:"):
            records.append((name, 5, wire(value[6:])))
            records += answers(value[6:], kind) or []
        elif value.startswith("https:"):
            records += [(name, 65, bytes.fromhex(value[6:]))] if kind == 65 else []
        elif ":" in value and kind == 28:
            records.append((name, 28, socket.inet_pton(socket.AF_INET6, value)))
        elif ":" not in value and kind == 1:
            records.append((name, 1, socket.inet_aton(value)))
    return records


def resolver(address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        data, client = server.recvfrom(2000)
        name, end = name_at(data, 12)
        kind = struct.unpack("!H", data[end:end + 2])[0]
        record(kind="question", name=name, type=kind)
        extra = b""
        if name.startswith("poison."):
            extra = forge(server, client, data, end, name, "203.0.113.5")
        if kind == 65 and name.startswith("silent."):
            continue
        if kind == 65 and name.startswith("noise."):
            server.sendto(data[:2] + b"\x81\x80\0\1\0\x40\0\0\0\0" + data[12:end + 4] + b"\xc0\x0c\0\x41\0\1" + bytes(4) + b"\xff\xff" + b"\xc0" * 300, client)
            continue
        whole = reply(data, end, name, kind, extra)
        server.sendto(whole if len(whole) <= 512 else whole[:2] + b"\x83\x80" + whole[4:6] + bytes(6) + data[12:end + 4], client)


def reply(data, end, name, kind, extra=b""):
    found = answers(name, kind)
    head = struct.pack("!HHHHHH", struct.unpack("!H", data[:2])[0], 0x8180 if found is not None else 0x8183, 1, len(found or []), 0,
                       2 if extra else 0)
    return head + data[12:end + 4] + b"".join(rr(*record) for record in found or []) + extra


def resolver_stream(client):
    while len(head := client.recv(2)) == 2:
        data = client.recv(struct.unpack("!H", head)[0])
        name, end = name_at(data, 12)
        whole = reply(data, end, name, struct.unpack("!H", data[end:end + 2])[0])
        client.sendall(struct.pack("!H", len(whole)) + whole)


def rr(owner, kind, value):
    return wire(owner) + struct.pack("!HHIH", kind, 1, 0, len(value)) + value


def forge(server, client, data, end, name, evil):
    """What a poisoner sends before the true answer: another id, another question; and with it, in it, another name's address."""
    ident = struct.unpack("!H", data[:2])[0]
    question, lie = data[12:end + 4], rr(name, 1, socket.inet_aton(evil))
    server.sendto(struct.pack("!HHHHHH", ident ^ 0x5555, 0x8180, 1, 1, 0, 0) + question + lie, client)
    other = wire("www.example.com") + data[end:end + 4]
    server.sendto(struct.pack("!HHHHHH", ident, 0x8180, 1, 1, 0, 0) + other + rr("www.example.com", 1, socket.inet_aton(evil)), client)
    return rr("www.example.com", 1, socket.inet_aton(evil)) + rr("api.example.com", 1, socket.inet_aton(evil))


def listener(port, family=socket.AF_INET6, address=""):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind((address, port))
    server.listen(4096)
    return server


def serve(server, handle):
    while True:
        client, _ = server.accept()
        threading.Thread(target=guarded, args=(handle, client), daemon=True).start()


def guarded(handle, client):
    port = client.getsockname()[1]
    try:
        with client:
            handle(client)
    except OSError as error:
        record(kind="broken", port=port, error=str(error))


def http(client):
    """Answers each request with its path; everything that came is recorded."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = client.recv(65536)
            if not more:
                return
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        record(kind="request", head=head.decode("latin-1"))
        path = (head + b" /").split(b" ")[1]
        if path.startswith(b"/to/"):
            client.sendall(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % path[4:])
            continue
        body = b"x" * int(path[7:]) if path.startswith(b"/bytes/") else path
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def tls(context):
    def handle(client):
        first = client.recv(1, socket.MSG_PEEK)
        record(kind="tls", bytes=len(first))
        with context.wrap_socket(client, server_side=True) as secured:
            http(secured)
    return handle


def echo(client):
    """Sends everything back once the other side has ended: both halves of the connection are needed."""
    data = b""
    while True:
        more = client.recv(1 << 20)
        if not more:
            break
        data += more
    client.sendall(b"%d:" % len(data) + data[:1000])


def slow(client):
    """Never reads and never ends."""
    client.sendall(b"here\n")
    threading.Event().wait(60)


def says_bye(client):
    """Ends its own half first, and goes on to count what comes."""
    client.sendall(b"bye\n")
    client.shutdown(socket.SHUT_WR)
    total = 0
    while data := client.recv(1 << 16):
        total += len(data)
    record(kind="counted", bytes=total)


def refuses(client):
    """Reads a little, answers, and resets: what comes after the little is never read."""
    client.recv(10)
    client.sendall(b"no\n")
    while not select.select([client], [], [], 60)[0]:
        pass


def greet(client):
    client.sendall(b"hello\n")
    while client.recv(65536):
        pass


def megabytes(count):
    """No two alike, and the same for everybody."""
    block = random.Random(7).randbytes(1 << 20)
    for i in range(count):
        turn = i * 4099 % len(block)
        yield block[turn:] + block[:turn]


def digests(client):
    """Of all that comes behind the first eight bytes, until the end; then as many megabytes as those have asked for."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    wanted, digest, total = int(client.recv(8, socket.MSG_WAITALL)), hashlib.sha256(), 0
    while data := client.recv(1 << 16):
        digest.update(data)
        total += len(data)
    client.sendall(digest.hexdigest().encode() + b"%12d" % total)
    for one in megabytes(wanted):
        client.sendall(one)


def resets_late(client):
    """Reads five megabytes at full speed, and resets in the middle of more."""
    read_much(client)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stops_late(client):
    """Reads as much, and nothing more."""
    read_much(client)
    threading.Event().wait(60)


def read_much(client):
    total = 0
    while total < 5_000_000 and (data := client.recv(1 << 20)):
        total += len(data)


def udp_echo(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", port))
    while True:
        data, client = server.recvfrom(65535)
        for _ in range(40 if data == b"flood" else 0):
            server.sendto(bytes(1000), client)
        server.sendto(b"echo:" + data, client)


def start(target, *arguments):
    threading.Thread(target=target, args=arguments, daemon=True).start()


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    start(recorder)
    start(resolver, "192.0.2.53")
    start(serve, listener(53, socket.AF_INET, "192.0.2.53"), resolver_stream)
    if "80" not in sys.argv[3:]:
        start(serve, listener(80), http)
    if "443" not in sys.argv[3:]:
        start(serve, listener(443), tls(context))
    start(serve, listener(7000), echo)
    start(serve, listener(7001), slow)
    start(serve, listener(7002), greet)
    start(udp_echo, 7003)
    start(serve, listener(7004), says_bye)
    start(serve, listener(7005), refuses)
    start(serve, listener(7006), digests)
    start(serve, listener(7007), resets_late)
    start(serve, listener(7008), stops_late)
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = {}
        with LOCK:
            if "zone" in command:
                ZONE.clear()
                HITS.clear()
                ZONE.update(command["zone"])
            if "seen" in command:
                all_seen = LOCK.wait_for(lambda: MARKS[0] >= command["mark"], 1)
                answer = {"all": all_seen, "seen": SEEN[:]}
                SEEN.clear()
        print(json.dumps(answer), flush=True)


main()
