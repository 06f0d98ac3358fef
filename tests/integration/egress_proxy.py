"""An upstream proxy for the egress tests: CONNECT and SOCKS5 on one port each, with or without a login.

egress_proxy.py HTTP_PORT SOCKS_PORT LOGIN PLACES: LOGIN is "" or USER:PASSWORD; PLACES is JSON, {"host": ["address", port]}:
where it leads what it is asked for. Each request is printed as a line.
"""
import base64
import json
import socket
import sys
import threading

LOGIN, PLACES = sys.argv[3], json.loads(sys.argv[4])


def say(**facts):
    sys.stdout.write(json.dumps(facts) + "\n")  # one write: there are threads
    sys.stdout.flush()


def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def join(client, target):
    threading.Thread(target=pump, args=(client, target), daemon=True).start()
    pump(target, client)


def exactly(client, size):
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise OSError("ended")
        data += more
    return data


def dial(host, port):
    say(asked=f"{host}:{port}")
    return socket.create_connection(PLACES[host] if host in PLACES else (host, port), timeout=60)


def http(client):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += exactly(client, 1)
    lines = head.decode().split("\r\n")
    login = [line.split(" ", 2)[2] for line in lines if line.lower().startswith("proxy-authorization: basic")]
    if LOGIN and (not login or base64.b64decode(login[0]).decode() != LOGIN):
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        return
    host, port = lines[0].split(" ")[1].rsplit(":", 1)
    try:
        target = dial(host.strip("[]"), int(port))
    except OSError:
        client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        return
    client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
    join(client, target)


def socks(client):
    methods = exactly(client, exactly(client, 2)[1])
    if LOGIN:
        if 2 not in methods:
            client.sendall(b"\5\xff")
            return
        client.sendall(b"\5\2")
        exactly(client, 1)
        user = exactly(client, exactly(client, 1)[0])
        password = exactly(client, exactly(client, 1)[0])
        good = f"{user.decode()}:{password.decode()}" == LOGIN
        client.sendall(b"\1\0" if good else b"\1\1")
        if not good:
            return
    else:
        client.sendall(b"\5\0")
    kind = exactly(client, 4)[3]
    host = exactly(client, exactly(client, 1)[0]).decode() if kind == 3 else \
        socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, exactly(client, 4 if kind == 1 else 16))
    port = int.from_bytes(exactly(client, 2), "big")
    try:
        target = dial(host, port)
    except OSError:
        client.sendall(b"\5\5\0\1\0\0\0\0\0\0")
        return
    client.sendall(b"\5\0\0\3\7example\0\0")  # a bound name: its length varies
    join(client, target)


def serve(port, handle):
    server = socket.create_server(("", port))
    say(listening=port)

    def one(client):
        try:
            with client:
                handle(client)
        except OSError:
            pass

    while True:
        threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()


threading.Thread(target=serve, args=(int(sys.argv[1]), http), daemon=True).start()
serve(int(sys.argv[2]), socks)
