"""Good and bad policy files, with what the reader and the schema must each say about them.

A case's verdict is written down here by hand; neither the reader nor the schema is asked for it. Where the two
differ, the case names the reason, one of REASONS: what a JSON Schema can't see.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterator

REASONS = {
    "text": "the schema judges values; the reader judges the text too (encoding, duplicate keys, depth)",
    "range": "a number inside a string has no range for a schema",
    "decimals": "multipleOf is not exact for binary numbers",
    "integer": "to a schema 1.0 and 1e3 are integers; the reader wants them written as such",
    "address": "whether the bits after a prefix are zero, and how IPv6 is spelt, is beyond a pattern",
    "ports": "whether a range of ports runs upwards and ends by 65535 is beyond a pattern",
    "suffix": "which names are public suffixes is in a list of its own",
    "idna": "which characters can stand in a name, and how long its A-labels are, is in tables of their own",
    "budget": "whether a budget that a rule names is there, once, is beyond a schema",
    "calls": "the reader knows the names of the calls and groups, and those that no policy may allow",
    "mask": "whether a value is of the bits of its mask is beyond a schema",
    "merge": "what can be removed depends on what is extended",
    "root": "'/' may be written in an overlay alone, and what the root is depends on what is extended",
    "extends": "whether a policy that is extended exists, or loops, is not in the file",
    "bytes": "a schema counts characters, the reader bytes",
}


@dataclass(frozen=True)
class Case:
    name: str
    text: bytes
    good: bool  # what the reader must say
    reason: str | None = None  # why the schema can't see a fault; None: it says the same


def nest(pointer: str, value: Any) -> dict[str, Any]:
    """{"pinfold": 1} with `value` at "/resources/memory" or the like."""
    policy: dict[str, Any] = {"pinfold": 1}
    *parents, last = pointer.strip("/").split("/")
    here = policy
    for part in parents:
        here = here.setdefault(part, {})
    here[last] = value
    return policy


DIGEST = "sha256:" + "0123456789abcdef" * 4
ANY_WRONG_TYPE = [None, [1], {"x": 1}, 1.5, -1]
STRINGS_WRONG = ["x", 1, None, True, [1], [None], [["A"]], [{"A": 1}], {}, {"add": "A"}, {"adds": []}]

SIZES_GOOD = ["1MiB", "64MiB", "1048576", "1048576B", "1024KiB", "1GiB", 1048576, 1 << 40]
SIZES_BAD = ["", "1MB", "1 MiB", "1mib", "-1", "+1", "0x10", "1.5GiB", "1e3", "MiB", "1MiB\n", "١MiB", True,
             *ANY_WRONG_TYPE]
SIZES_RANGE = ["99999999999999999999", "18446744073709551616B", "16777216TiB", "1048577TiB"]
SIZES_INTEGER = [1048576.0, 1e9]

TIMES_GOOD = ["1ms", "30s", "15m", "24h", "0001s"]
TIMES_BAD = ["", "30", "30 s", "1d", "1us", "-1s", "1.5s", "s", "1S", 30, 0, True, "30s\n", *ANY_WRONG_TYPE]
TIMES_RANGE = ["8761h", "18446744073709551616ms", "9223372036854775807h"]

EGRESS = "/network/egress"
DENY = "/network/deny"
HOSTS_GOOD = ["example.com", "EXAMPLE.com", "example.com.", "*.example.com", "a", "localhost", "xn--bcher-kva.de",
              "_srv._tcp.example.com", "a-b.c-d", "1.example.com", "3com.com", "x" * 63 + ".com", "0xg", "1x",
              ".".join(["a" * 63] * 3 + ["b" * 61]), "*." + ".".join(["a" * 63] * 3 + ["b" * 61]) + "."]
SUFFIXES = ["com", "co.uk", "CO.UK", "github.io", "s3.amazonaws.com", "nosuchtld", "xn--p1ai", "рф", "公司.cn"]
HOSTS_BAD = ["", "*", "*.", ".", "..", ".a", "a..b", "a.b..", "*a.b", "a.*", "a.*.b", "*.*.a", "-a.b", "a-.b",
             "1.2.3.4", "127.1", "2130706433", "0x7f000001", "a.0x1f", "a.1", "*.1", "10.", "0x", "::1", "[::1]",
             "a:443", "http://a.b", "a/b", "a b", " a", "a ", "a\n", "a\t", "a.b%2e", "x" * 64 + ".com",
             "a,b", "a_b.c!", ".".join(["a" * 63] * 3 + ["b" * 62]), 1, None, ["a"], True]
HOSTS_IDN = ["büch.de", "*.büch.de", "BÜCHER.example.", "bu\u0308cher.example", "例え.テスト", "日本語。ＪＰ", "نامه‌ای.example", "straße.de",
             "_dmarc.büch.de", "ａｐｉ.example.com", "faß.xn--bcher-kva.de", "xn--bcher-kva.bücher.de", "ü" * 50 + ".example"]
HOSTS_NOT_IDN = ["☕.example", "a\u2024b.de", "\u0301a.de", "a\u200d.de", "\u00ad.de", "bü--x.de", "ü" * 60 + ".de", "１２７.０.0.1", "℀.de",
                 "ü：1.de", "xn--bücher-kva.de", "xn--api.ü.de", "ẞ.de", "\u0378.de", "٤.1", "ü\u3000b.de"]
HOSTS_IDN_BAD = ["ü..de", ".ü", "-ü.de", "ü-.de", "*.*.ü", "*ü.de", "ü b.de", "ü/a", "ü:443", "[ü]", "ü%2e.de", "ü.1", "ü" * 64 + ".de", "a。1"]
CIDRS_GOOD = ["10.0.0.0/8", "10.1.2.3", "10.1.2.3/32", "0.0.0.0/0", "255.255.255.255", "192.168.0.0/16", "::/0",
              "2001:db8::/32", "2001:DB8::1", "fe80::/10", "::1", "::1/128", "64:ff9b::/96"]
CIDRS_BAD = ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/08", "10.0.0/8", "10.0.0.0.0/8", "256.0.0.0", "010.0.0.0/8",
             "10.0.0.0/8 ", "10.0.0.0/-1", "10.0.0.0/8/8", "::/129", "::/01", "example.com", "fe80::1%eth0",
             "10.0.0.0/8\n", 10, None, True]
CIDRS_ADDRESS = ["10.0.0.1/8", "10.1.2.3/31", "2001:db8::1/64", "::1/0", "1::2::3", "12345::", ":", ":::", "1:2:3",
                 "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "1:2:3:4:5:6:7:8:9", "fe80:"]
PORTS_GOOD = [[1], [65535], [443, 80], ["1-65535"], ["8000-8100", 22], ["22-22"], [443, 443]]
PORTS_BAD = [[], [0], [65536], [-1], ["443"], ["0-1"], ["1-"], ["-1"], ["01-2"], ["1 - 2"], ["1-2-3"], ["a-b"],
             [None], [True], [[1]], "443", 443, None, {}, [1.5], ["1-2\n"]]
PORTS_RANGE = [["2-1"], ["1-65536"], ["1-99999"]]

PATHS_GOOD = ["/tmp", "/a", "/a/b/c", "/..a", "/a..", "/...", "/a b", "/ü", "/.hidden", "/" + "x" * 255]
PATHS_BAD = ["", "a", "./a", "../a", "//", "//a", "/a/", "/a//b", "/.", "/..", "/a/.", "/a/..", "/a/../b", "/./a",
             "/a\n", "/a\x00b", "/a\x7f", "/\x1b", "~", "/" + "x" * 256, 1, None, True, ["/a"]]


def values() -> Iterator[tuple[str, Any, bool, str | None]]:
    """(pointer, value, good, reason)"""
    def good(pointer: str, items: list[Any]) -> Iterator[tuple[str, Any, bool, str | None]]:
        for item in items:
            yield pointer, item, True, None

    def bad(pointer: str, items: list[Any], reason: str | None = None) -> Iterator[tuple[str, Any, bool, str | None]]:
        for item in items:
            yield pointer, item, False, reason

    for field in ("memory", "swap", "core", "stdout", "stderr"):
        yield from good(f"/resources/{field}", [*SIZES_GOOD, "unlimited"])
        yield from bad(f"/resources/{field}", SIZES_BAD)
        yield from bad(f"/resources/{field}", SIZES_RANGE, "range")
        yield from bad(f"/resources/{field}", SIZES_INTEGER, "integer")
    yield from bad("/resources/memory", [0, 1048575])
    yield from bad("/resources/memory", ["0", "1023KiB"], "range")
    yield from good("/resources/swap", [0, "0", "0B"])
    yield from bad("/resources/swap", [(1 << 60) + 1])
    yield from good("/resources/frame", ["1MiB", 0, "1GiB"])
    yield from bad("/resources/frame", ["unlimited", (1 << 30) + 1])
    yield from bad("/resources/frame", ["2GiB"], "range")
    for pointer in ("/filesystem/root_size", "/filesystem/workspace/size"):
        yield from good(pointer, [*SIZES_GOOD, "unlimited", 0])
        yield from bad(pointer, SIZES_BAD)
        yield from bad(pointer, SIZES_RANGE, "range")
    yield from good("/filesystem/tmp", SIZES_GOOD)
    yield from bad("/filesystem/tmp", [*SIZES_BAD, "unlimited"])

    for field in ("wall_time", "cpu_time"):
        yield from good(f"/resources/{field}", [*TIMES_GOOD, "unlimited", "8760h"])
        yield from bad(f"/resources/{field}", TIMES_BAD)
        yield from bad(f"/resources/{field}", [*TIMES_RANGE, "0s"], "range")
    yield from good("/resources/grace", [*TIMES_GOOD[:3], "0s", "0ms", "1h"])
    yield from bad("/resources/grace", [*TIMES_BAD, "unlimited"])
    yield from bad("/resources/grace", ["2h", "3601s"], "range")

    yield from good("/resources/cpus", [1, 0.5, 0.01, 1000, 2.25, "1", "0.5", "2.125", "unlimited"])
    yield from bad("/resources/cpus", [0, -1, -0.5, 0.001, 1001, 1e9, "", "1.", ".5", "1.2345", "one", "1/2", "-1", " 1",
                                       "1\n", None, True, [1], {}])
    yield from bad("/resources/cpus", [0.0105, 0.33333], "decimals")
    yield from bad("/resources/cpus", ["0", "0.001", "1001", "9999999"], "range")
    for field, low, high, unlimited in (("pids", 1, 4194304, True), ("files", 8, 1073741816, False)):
        yield from good(f"/resources/{field}", [low, high, 100] + (["unlimited"] if unlimited else []))
        yield from bad(f"/resources/{field}", [low - 1, high + 1, -1, "64", "", None, True, [64], 1.5]
                       + ([] if unlimited else ["unlimited"]))
        yield from bad(f"/resources/{field}", [64.0, 1e3], "integer")
    for field in ("user", "group"):
        yield from good(f"/identity/{field}", [0, 1000, 4294967294])
        yield from bad(f"/identity/{field}", [-1, 4294967295, "root", "0", None, False, 1.5])
    yield from good("/identity/ids", [1, 65536, 1048576])
    yield from bad("/identity/ids", [0, 1048577, "unlimited", None])

    words: dict[str, tuple[str, ...]] = {
        "/resources/on_output_cap": ("discard", "kill"),
        "/filesystem/root": ("read-only", "overlay"),
        "/filesystem/root_storage": ("memory", "disk"),
        "/filesystem/workspace/access": ("none", "read-only", "copy-on-write", "read-write"),
        "/syscalls/baseline": ("strict", "tool", "build", "oci"),
        "/syscalls/on_deny": ("errno", "kill"),
        "/network/unknown_names": ("nxdomain", "refused"),
        "/audit/on_failure": ("refuse", "count"),
    }
    for pointer, known in words.items():
        yield from good(pointer, list(known))
        yield from bad(pointer, ["", known[0].upper(), known[0] + " ", known[0][:-1], known[0] + "\n", "x", 0, None, True,
                                 [known[0]], {}])
    for pointer in ("/privileged", "/tty", "/engine/unfiltered", "/audit/sync"):
        yield from good(pointer, [True, False])
        yield from bad(pointer, [0, 1, "true", "", None, [], {}])

    sets: dict[str, tuple[str, ...]] = {
        "/capabilities": ("CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_CHECKPOINT_RESTORE"),
        "/frames": ("fd", "stdout", "stdout-letta"),
        "/optional": ("memory", "swap", "cpus", "pids", "landlock"),
        "/audit/record": ("lifecycle", "egress", "syscalls"),
        "/engine/shares": ("user", "pid", "network", "ipc", "uts", "cgroup"),
        "/engine/joins": ("user", "pid", "network", "ipc", "uts", "cgroup"),
    }
    for pointer, known in sets.items():
        yield from good(pointer, [[], list(known), [known[0], known[0]], {"add": [known[0]]}, {"add": [], "remove": []}])
        yield from bad(pointer, [*STRINGS_WRONG, [known[0].swapcase()], [known[0] + "\n"], ["x"], [""],
                                 {"add": [known[0]], "x": []}, {"remove": [1]}, {"add": None}])
    yield from good("/frames", [{"remove": ["fd"]}, {"remove": ["fd"], "add": ["fd"]}])
    yield from bad("/capabilities", [{"remove": ["CAP_CHOWN"]}], "merge")
    yield from bad("/frames", [{"remove": ["fd", "fd"]}], "merge")
    yield from bad("/filesystem/write", [["/"], ["/tmp", "/"], {"add": ["/"]}], "root")
    yield from good("/filesystem", [{"root": "overlay", "write": ["/"]}, {"root": "overlay", "write": {"add": ["/"]}}])

    names: dict[str, tuple[list[str], list[str]]] = {
        "/secrets": (["A", "_a", "OPENAI_API_KEY", "a.b-c", "x" * 128],
                     ["", "1A", "-a", ".a", "a b", "*", "A*", "a/b", "a\n", "x" * 129, "ü"]),
        "/environment/pass": (["LANG", "_", "a1", "x" * 128], ["", "1A", "A-B", "LC_*", "*", "A=B", "A\n", "x" * 129]),
        "/environment/refuse": (["LD_*", "*", "*_TOKEN", "A*B*C", "_"], ["", "1A", "A-B", "A**", "**", "A B", "A\n"]),
        "/audit/require_labels": (["tenant", "a.b", "0", "x" * 63],
                                  ["", ".a", "-a", "a..b", "a b", "a/b", "x" * 64, "a\n", "*"]),
        **{f"/audit/require_labels_for/{cause}": (["tenant", "a.b"], ["", ".a", "a b", "*"])
           for cause in ("secrets", "egress", "privileged")},
        "/filesystem/write": ([*PATHS_GOOD, "/dev/shm", "/dev/shm/x", "/process", "/devel", "/system"],
                              [p for p in PATHS_BAD if isinstance(p, str)]
                              + ["/proc", "/proc/self", "/sys", "/sys/fs/cgroup", "/dev", "/dev/null", "/dev/shmx"]),
        "/network/publish": (["8080=127.0.0.1:18080", "1=127.0.0.1:0", "65535=[::1]:65535", "3000=unix:web", "3000=unix:a.b_c-d",
                              "80=unix:" + "x" * 63],
                             ["", "8080", "8080=", "=127.0.0.1:1", "0=127.0.0.1:1", "08=127.0.0.1:1", "65536=127.0.0.1:1",
                              "80=127.0.0.1", "80=127.0.0.1:", "80=127.0.0.1:01", "80=127.0.0.1:65536", "80=127.0.0.1:-1",
                              "80=127.0.0.1:+1", "80=127.0.0.1: 1", "80=127.0.0.2:1", "80=0.0.0.0:1", "80=localhost:1",
                              "80=::1:1", "80=[::]:1", "80=[::1]", "80=[::1]:00", "80=unix:", "80=unix:.x", "80=unix:a/b",
                              "80=unix:a..b", "80=unix:" + "x" * 64, "80=unix:a\n", "80=unix:/run/x", "80=tcp:1", "*",
                              " 80=unix:a", "80 =unix:a", "80=Unix:a", "80=127.0.0.1:1 ", "80=127.0.0.1:1=2", "80=unix:ü"]),
        "/engine/hooks": (["/usr/bin/x", "/usr/bin/x arg", "/opt/*", "/a *"],
                          ["", "/", "x", "/ x", "/a  b", "/a b c", "/a ", "/a\n", "/**", "/a\x00"]),
        **{f"/engine/{key}": ([*PATHS_GOOD, "/srv/*", "/home/*/x"],
                              [p for p in PATHS_BAD if isinstance(p, str)] + ["/", "/proc", "/proc/1", "/a/**"])
           for key in ("roots", "read", "write")},
    }
    for pointer, (right, wrong) in names.items():
        yield from good(pointer, [[item] for item in right] + [[], right, {"add": right}])
        yield from bad(pointer, [[item] for item in wrong] + [{"add": [item]} for item in wrong[:3]] + STRINGS_WRONG)
    yield from bad("/secrets", [{"remove": ["A"]}], "merge")
    yield from good("/filesystem/write", [{"remove": ["/tmp"]}])

    yield from good("/environment/set", [{}, {"A": ""}, {"PATH": "/bin", "_x1": "ü\n\t"}, {"HOME": None}])
    yield from bad("/environment/set", [{"A": 1}, {"A": ["x"]}, {"A-B": ""}, {"": ""}, {"1": ""}, {"A\n": ""}, [], "A=B",
                                        None, {"*": ""}])
    yield from bad("/environment/set", [{"NOT_SET": None}], "merge")

    yield from good(EGRESS, [[{"host": host, "ports": [443]}] for host in HOSTS_GOOD])
    yield from bad(EGRESS, [[{"host": host, "ports": [443]}] for host in HOSTS_BAD])
    yield from good(EGRESS, [[{"host": host, "ports": [443]}] for host in HOSTS_IDN])
    yield from bad(EGRESS, [[{"host": host, "ports": [443]}] for host in HOSTS_NOT_IDN], "idna")
    yield from bad(EGRESS, [[{"host": host, "ports": [443]}] for host in HOSTS_IDN_BAD])
    yield from good(EGRESS, [[{"cidr": cidr, "ports": [443]}] for cidr in CIDRS_GOOD])
    yield from bad(EGRESS, [[{"cidr": cidr, "ports": [443]}] for cidr in CIDRS_BAD])
    yield from bad(EGRESS, [[{"cidr": cidr, "ports": [443]}] for cidr in CIDRS_ADDRESS], "address")
    yield from bad(EGRESS, [[{"host": f"*.{name}", "ports": [443]}] for name in SUFFIXES], "suffix")
    yield from good(DENY, [[{"host": f"*.{name}"}] for name in SUFFIXES])
    yield from good(EGRESS, [[{"host": "a.b", "ports": ports}] for ports in PORTS_GOOD])
    yield from bad(EGRESS, [[{"host": "a.b", "ports": ports}] for ports in PORTS_BAD])
    yield from bad(EGRESS, [[{"host": "a.b", "ports": ports}] for ports in PORTS_RANGE], "ports")
    yield from good(EGRESS, [[], [{"host": "a.b", "ports": [53], "protocol": "udp"}, {"cidr": "10.0.0.0/8", "ports": [1]}],
                             {"add": [{"host": "a.b", "ports": [1]}]}])
    yield from bad(EGRESS, [[{"host": "a.b"}], [{"ports": [1]}], [{}], ["a.b:443"], [{"host": "a.b", "cidr": "10.0.0.0/8",
                            "ports": [1]}], [{"host": "a.b", "port": [1]}], [{"host": "a.b", "ports": [1], "protocol": "sctp"}],
                            [{"host": "a.b", "ports": [1], "protocol": None}], [{"host": "a.b", "ports": [1], "x": 1}], None,
                            {"add": [{"host": "a.b"}]}, {"host": "a.b", "ports": [1]}])
    yield from bad(EGRESS, [{"remove": [{"host": "a.b", "ports": [1]}]}], "merge")
    yield from good(DENY, [[{"host": "*.a.b"}], [{"cidr": "10.0.0.0/8", "ports": ["1-1023"]}], []])
    yield from bad(DENY, [[{"host": "*"}], [{}], [{"host": "a.b", "protocol": "tcp"}], [{"ports": [1]}],
                          [{"host": "a.b", "ports": []}]])

    named = {"host": "a.b", "ports": [443]}
    yield from good(EGRESS, [[{**named, "inspect": word}] for word in ("auto", "tls", "http", "none")])
    yield from good(EGRESS, [[{**named, "accept": words}] for words in ([], ["no-name"], ["plain-text", "encrypted-hello"])])
    yield from good(EGRESS, [[{**named, "inspect": "tls", "accept": ["no-name"]}], [{**named, "protocol": "tcp", "accept": []}]])
    yield from bad(EGRESS, [[{**named, **more}] for more in (
        {"inspect": "TLS"}, {"inspect": None}, {"inspect": ["tls"]}, {"inspect": "x"}, {"accept": "no-name"}, {"accept": ["x"]},
        {"accept": [1]}, {"accept": None}, {"inspect": "none", "accept": ["no-name"]}, {"inspect": "http", "accept": []},
        {"protocol": "udp", "inspect": "tls"}, {"protocol": "udp", "accept": []}, {"budget": 1}, {"budget": ""},
        {"budget": "a b"}, {"budget": None}, {"tls": True})])
    yield from bad(EGRESS, [[{"cidr": "10.0.0.0/8", "ports": [443], **more}] for more in ({"inspect": "none"}, {"accept": []})])
    yield from bad(EGRESS, [[{**named, "budget": "nowhere"}]], "budget")
    network = "/network"
    models = {"name": "models", "bytes_out": "1GiB"}
    yield from good(network, [{"budgets": [models], "egress": [{**named, "budget": "models"}]},
                              {"budgets": [models, {"name": "b", "rate": 1024, "idle": "1m", "connections": 1}]},
                              {"budgets": [{"name": "all", "connections": 1, "connections_total": 4294967295, "bytes_out": 1,
                                            "bytes_in": "unlimited", "rate": "1MiB", "idle": "8760h", "lifetime": "1s"}]},
                              {"budgets": {"add": [models]}}, {"budgets": []}])
    yield from bad(network, [{"budgets": value} for value in (
        [{}], [{"name": "a"}], [{"bytes_out": 1}], [{**models, "name": "a/b"}], [{**models, "name": None}],
        [{**models, "names": 1}], [{**models, "x": 1}], ["models"], models, None, [{**models, "rate": 1023}],
        [{**models, "connections": 0}], [{**models, "bytes_in": -1}], [{**models, "idle": 5}])])
    yield from bad(network, [{"budgets": [models, {**models, "rate": 1024}]},
                             {"budgets": [models], "egress": [{**named, "budget": "model"}]}], "budget")
    yield from bad(network, [{"budgets": {"remove": [models]}}], "merge")
    limits = "/network/limits"
    for field in ("connections", "connections_total", "names", "names_rate"):
        yield from good(f"{limits}/{field}", [1, 4294967295, "unlimited"])
        yield from bad(f"{limits}/{field}", [0, -1, 4294967296, "1", None, True, [1]])
    for field in ("bytes_out", "bytes_in"):
        yield from good(f"{limits}/{field}", [*SIZES_GOOD, 1, "unlimited"])
        yield from bad(f"{limits}/{field}", [*SIZES_BAD, 0])
    yield from good(f"{limits}/rate", [1024, "1MiB", "unlimited"])
    yield from bad(f"{limits}/rate", [1023, 0])
    yield from good(f"{limits}/drain", ["0s", "10s", "1h"])
    yield from bad(f"{limits}/drain", TIMES_BAD + ["unlimited"])
    yield from bad(f"{limits}/drain", ["3601s"], "range")
    for field in ("idle", "lifetime"):
        yield from good(f"{limits}/{field}", ["1s", "30m", "unlimited"])
        yield from bad(f"{limits}/{field}", TIMES_BAD)
        yield from bad(f"{limits}/{field}", ["0s", "999ms", "8761h"], "range")

    proxy = "/network/upstream_proxy"
    yield from good(f"{proxy}/url", ["", "http://proxy.example.com:3128", "socks5://10.0.0.1:1080", "http://[2001:db8::1]:65535", "http://P:1"])
    yield from bad(f"{proxy}/url", ["proxy:3128", "https://proxy:3128", "http://proxy", "http://user:pw@proxy:3128", "http://proxy:0",
                                    "http://proxy:3128/", "http://proxy:3128 ", "http://:3128", "socks://p:1", "HTTP://p:1", None, 1, [], True])
    yield from bad(f"{proxy}/url", ["http://proxy:65536", "http://1.2.3.999:1", "http://-a:1", "http://[:::]:1"],
                   "address")
    yield from good(f"{proxy}/secret", ["", "PROXY_LOGIN"])
    yield from bad(f"{proxy}/secret", ["a b", "1A", None, 1, ["A"]])

    images = "/images"
    yield from good(images, [[], ["*"], ["host"], ["python-3.12"], ["registry.example:5000/a/b:1.2@x+y"], ["a*b*c"],
                             [{"pattern": "a*"}], [{"digest": DIGEST}], [{"digest": DIGEST, "require_signature": False}],
                             [{"pattern": "a", "require_signature": True, "keys": ["/etc/keys/a.pub"]}], ["x" * 255],
                             [{"pattern": "a", "keys": []}]])
    yield from bad(images, [[""], ["**"], ["a b"], ["a\n"], ["ü"], ["x" * 256], [{}], [{"pattern": "a", "digest": DIGEST}],
                            [{"digest": "sha256:00"}], ["sha256:*"], [{"pattern": "sha256:ab*"}], [{"digest": DIGEST.upper()}], [{"digest": DIGEST + "0"}],
                            [{"pattern": "a", "require_signature": True}], [{"pattern": "a", "keys": ["/k"]}],
                            [{"pattern": "a", "require_signature": True, "keys": []}],
                            [{"pattern": "a", "require_signature": True, "keys": ["k"]}],
                            [{"pattern": "a", "require_signature": 1, "keys": ["/k"]}],
                            [{"pattern": "a", "x": 1}], *STRINGS_WRONG[:1], [1], None])

    mounts = "/filesystem/mounts"
    yield from good(mounts, [[], [{"source": "/srv/a", "target": "/a"}], [{"source": "/dev/x", "target": "/x",
                             "access": "read-write"}], {"add": [{"source": "/etc/a.conf", "target": "/etc/a.conf"}]}])
    yield from good(mounts, [[{"source": path, "target": "/x"}] for path in PATHS_GOOD])
    yield from good(mounts, [[{"source": "/x", "target": path}] for path in PATHS_GOOD])
    yield from bad(mounts, [[{"source": path, "target": "/x"}] for path in [*PATHS_BAD, "/", "/proc", "/proc/1"]])
    yield from bad(mounts, [[{"source": "/x", "target": path}]
                            for path in [*PATHS_BAD, "/", "/proc", "/proc/x", "/sys", "/sys/x", "/dev", "/dev/shm"]])
    yield from bad(mounts, [[{"source": "/a"}], [{"target": "/a"}], [{}], ["/a:/b"], [{"source": "/a", "target": "/b",
                            "access": "none"}], [{"source": "/a", "target": "/b", "access": "copy-on-write"}],
                            [{"source": "/a", "target": "/b", "ro": True}], [{"source": "/a", "target": "/b", "access": 1}]])

    def arg(**parts: Any) -> list[Any]:
        return [{"name": "memfd_create", "args": [{"index": 1, "op": "eq", "value": 1, **parts}]}]

    for pointer in ("/syscalls/allow", "/syscalls/deny"):
        yield from good(pointer, [[], ["read"], ["@inotify"], [{"name": "read"}], [{"name": "read", "args": []}],
                                  [{"name": "@inotify", "args": []}], {"add": ["read"]}])
        yield from bad(pointer, [[""], ["Read"], ["read "], ["re-ad"], ["@"], ["@@x"], ["*"], ["1x"], ["read\n"], [1], [None],
                                 [{}], [{"args": []}], [{"name": 1}], [{"name": "read", "x": 1}], [{"name": "read", "args": {}}],
                                 [{"name": "@inotify", "args": [{"index": 0, "op": "eq", "value": 0}]}], "read", None,
                                 ["x" * 129], {"add": ["*"]}])
        yield from bad(pointer, [["no_such_call"], ["@nosuchgroup"], [{"name": "raed"}]], "calls")
    yield from bad("/syscalls/allow", [["ptrace"], ["@mount"], ["@module", "bpf"]], "calls")
    yield from bad("/syscalls/deny", [{"remove": ["read"]}], "merge")
    yield from good("/syscalls/allow", [arg(), arg(index=5), arg(value="0xff"), arg(value="0xFFFFFFFFFFFFFFFF"),
                                        arg(value=2**63 - 1), arg(op="le"), arg(op="masked_eq", mask=7),
                                        arg(op="masked_eq", mask="0xffffffff")])
    yield from bad("/syscalls/allow", [arg(op="masked_eq", mask=6), arg(op="masked_eq", mask=0)], "mask")
    yield from bad("/syscalls/allow", [arg(index=6), arg(index=-1), arg(index="1"), arg(op="=="), arg(op="SCMP_CMP_EQ"),
                                       arg(value=-1), arg(value="1"), arg(value="0x"), arg(value="0x" + "1" * 17),
                                       arg(value="0xg"), arg(value=None), arg(mask=1), arg(op="masked_eq"), arg(x=1),
                                       [{"name": "memfd_create", "args": [{"index": 0, "op": "eq"}]}],
                                       [{"name": "memfd_create", "args": [{"op": "eq", "value": 1}]}],
                                       [{"name": "memfd_create", "args": [{"index": 0, "value": 1}]}],
                                       [{"name": "memfd_create", "args": [{"index": 0, "op": "eq", "value": 1}] * 7}]])

    yield from good("/name", ["a", "web-tools", "a.b_c", "9", "x" * 63])
    yield from bad("/name", ["", ".a", "-a", "a..b", "a b", "a/b", "x" * 64, "a\n", 1, None, ["a"]])
    yield from good("/description", ["", "a\nb\tc", "ü" * 100, "x" * 1024])
    yield from bad("/description", ["\x07", "a\rb", "\x7f", "x" * 1025, 1, None])
    yield from bad("/description", ["ü" * 1000], "bytes")
    yield from good("/extends", [[], ["tool"], ["strict", "build"], ["tool", "tool"]])
    yield from bad("/extends", ["tool", None, {}, [1], [None], [""], ["a b"], ["*"], {"add": ["tool"]}, ["a..b"]])
    yield from bad("/extends", [["nope"], ["./nope.json"], ["/nonexistent/x"], ["tool", "nope.json"]], "extends")

    for pointer in ("/filesystem", "/filesystem/workspace", "/resources", "/network", "/network/limits", "/syscalls", "/identity",
                    "/environment", "/audit"):
        yield from good(pointer, [{}])
        yield from bad(pointer, [[], None, "x", 1, True, {"unknown": 1}, {"": 1}])
    for key in ("nmae", "Name", "", "resource", "$schema", "memory", "pinfold ", "é"):
        yield f"/{key}", 1, False, None


def texts() -> Iterator[tuple[str, bytes, bool, str | None]]:
    """(name, text, good, reason) of whole files."""
    yield "least", b'{"pinfold": 1}', True, None
    yield "spaces", b' \t\r\n{ "pinfold"\n:\t1 }\r\n', True, None
    yield "escapes", b'{"pinfold": 1, "n\\u0061me": "\\u0061"}', True, None
    yield "surrogates", '{"pinfold": 1, "description": "\\ud83d\\ude00"}'.encode(), True, None
    yield "no-version", b"{}", False, None
    yield "version-0", b'{"pinfold": 0}', False, None
    yield "version-2", b'{"pinfold": 2}', False, None
    yield "version-text", b'{"pinfold": "1"}', False, None
    yield "version-true", b'{"pinfold": true}', False, None
    yield "version-real", b'{"pinfold": 1.0}', False, "integer"
    yield "list", b"[]", False, None
    yield "null", b"null", False, None
    yield "number", b"1", False, None
    yield "bom", b'\xef\xbb\xbf{"pinfold": 1}', False, "text"
    yield "utf-16", '{"pinfold": 1}'.encode("utf-16"), False, "text"
    yield "latin-1", b'{"pinfold": 1, "description": "\xfc"}', False, "text"
    yield "overlong", b'{"pinfold": 1, "description": "\xc0\xaf"}', False, "text"
    yield "surrogate-bytes", b'{"pinfold": 1, "description": "\xed\xa0\x80"}', False, "text"
    yield "beyond-unicode", b'{"pinfold": 1, "description": "\xf4\x90\x80\x80"}', False, "text"
    yield "half-character", b'{"pinfold": 1, "description": "\xe2\x82"}', False, "text"
    yield "nul", b'{"pinfold": 1, "description": "\x00"}', False, "text"
    yield "nul-escape", b'{"pinfold": 1, "description": "\\u0000"}', False, None
    yield "nul-after", b'{"pinfold": 1}\x00', False, "text"
    yield "lone-surrogate", b'{"pinfold": 1, "description": "\\ud800"}', False, "text"
    yield "control", b'{"pinfold": 1, "description": "\n"}', False, "text"
    yield "empty", b"", False, "text"
    yield "blank", b" \n", False, "text"
    yield "cut", b'{"pinfold": 1', False, "text"
    yield "trailing-text", b'{"pinfold": 1} x', False, "text"
    yield "two-documents", b'{"pinfold": 1}{"pinfold": 1}', False, "text"
    yield "trailing-comma", b'{"pinfold": 1,}', False, "text"
    yield "comment", b'{"pinfold": 1 /* c */}', False, "text"
    yield "line-comment", b'// c\n{"pinfold": 1}', False, "text"
    yield "single-quotes", b"{'pinfold': 1}", False, "text"
    yield "bare-key", b"{pinfold: 1}", False, "text"
    yield "nan", b'{"pinfold": 1, "resources": {"cpus": NaN}}', False, "text"
    yield "infinity", b'{"pinfold": 1, "resources": {"cpus": Infinity}}', False, "text"
    yield "leading-zero", b'{"pinfold": 01}', False, "text"
    yield "plus", b'{"pinfold": +1}', False, "text"
    yield "hexadecimal", b'{"pinfold": 0x1}', False, "text"
    yield "huge-integer", b'{"pinfold": 1, "resources": {"memory": 99999999999999999999}}', False, None
    yield "huge-real", b'{"pinfold": 1, "resources": {"cpus": 1e999}}', False, None
    yield "duplicate", b'{"pinfold": 1, "tty": true, "tty": true}', False, "text"
    yield "duplicate-escaped", b'{"pinfold": 1, "tty": true, "t\\u0074y": true}', False, "text"
    yield "duplicate-deep", b'{"pinfold": 1, "resources": {"pids": 1, "pids": 2}}', False, "text"
    yield "duplicate-variable", b'{"pinfold": 1, "environment": {"set": {"A": "1", "A": "2"}}}', False, "text"
    yield "duplicate-version", b'{"pinfold": 1, "pinfold": 1}', False, "text"
    yield "deep", b'{"pinfold": 1, "x": ' + b"[" * 40 + b"]" * 40 + b"}", False, None
    yield "very-deep", b"[" * 1500 + b"]" * 1500, False, "text"
    yield "extends-itself", b'{"pinfold": 1, "extends": ["./text-extends-itself.json"]}', False, "extends"
    many = ",".join(f'"S{i}"' for i in range(4096)).encode()
    yield "many", b'{"pinfold": 1, "secrets": [' + many + b"]}", True, None
    yield "too-many", b'{"pinfold": 1, "secrets": [' + many + b',"T"]}', False, None
    hosts = ",".join(f'{{"host":"h{i}.example.com","ports":[443]}}' for i in range(1000)).encode()
    yield "thousand-hosts", b'{"pinfold": 1, "network": {"egress": [' + hosts + b"]}}", True, None


def cases() -> Iterator[Case]:
    for index, (pointer, value, good, reason) in enumerate(values()):
        text = json.dumps(nest(pointer, value) if pointer != "/" else {"pinfold": 1, "": value}).encode()
        name = f"{pointer.strip('/').replace('/', '-') or 'top'}-{index:04}"
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
        yield Case(name, text, good, reason)
    for name, text, good, reason in texts():
        yield Case(f"text-{name}", text, good, reason)
