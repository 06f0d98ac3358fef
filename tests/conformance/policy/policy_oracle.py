"""The order over policies against a model of its own of what a run may do.

Draws pairs of policies, most of them near each other, and asks `policy_compare` which is at most which. Where it
says that one is, no probe may be allowed by it and refused by the other: a connection with what is said on it
and how much, a file of the host seen or written, an amount, a name, an image with its signature. The model knows
the language from docs/policy.md alone, and nothing of the code. What is called wider without a probe that shows
it is no fault: the order may be cautious.

    policy_oracle.py POLICY_COMPARE [PAIRS [SEED]]
"""

import fnmatch
import functools
import ipaddress
import itertools
import json
import random
import subprocess
import sys

MIB, GIB = 1 << 20, 1 << 30
UNLIMITED = 1 << 63

# --- what policies are drawn from: few names, so that they meet ---

HOSTS = ["a.x.com", "*.x.com", "*.a.x.com", "x.com", "b.a.x.com", "host.pinfold.internal", "*.pinfold.internal"]
RANGES = ["93.0.0.0/8", "93.1.0.0/16", "93.1.2.3/32", "10.1.0.0/16", "10.1.2.3/32", "2600::/16", "2600:1::/32"]
PORTS = [[443], [80], ["1-100"], ["50-500"], ["1-65535"], [80, 443], ["101-442"], [8080]]
BUDGETS = ["m", "n"]
SOURCES = ["/srv", "/srv/a", "/srv/a/b", "/srv/c", "/data", "/empty"]
TARGETS = ["/m", "/m/a", "/m/a/b", "/m/c", "/n", "/workspace/a", "/workspace/c"]
WRITES = ["/tmp", "/m", "/m/a", "/m/a/b", "/m/c", "/n", "/workspace", "/workspace/a"]
SIZES = ["1MiB", 1048576, "1024KiB", "2MiB", "1GiB", "3GiB", "1TiB"]
TIMES = ["1s", "1000ms", "2s", "60s", "1m", "1h"]
CHOICES = {  # from the least to the most
    ("filesystem", "root"): ["read-only", "overlay"],
    ("filesystem", "root_storage"): ["memory", "disk"],
    ("filesystem", "workspace", "access"): ["none", "read-only", "copy-on-write", "read-write"],
    ("resources", "on_output_cap"): ["kill", "discard"],
    ("network", "unknown_names"): ["refused", "nxdomain"],
    ("syscalls", "on_deny"): ["kill", "errno"],
    ("audit", "on_failure"): ["refuse", "count"],
    ("audit", "sync"): [True, False],
    ("privileged",): [False, True],
    ("tty",): [False, True],
    ("engine", "unfiltered"): [False, True],
}
AMOUNTS = {  # the pool; whether "unlimited" may stand
    ("filesystem", "root_size"): (SIZES, True), ("filesystem", "workspace", "size"): (SIZES, True),
    ("filesystem", "tmp"): (SIZES, False), ("resources", "memory"): (SIZES, True), ("resources", "swap"): (SIZES, True),
    ("resources", "core"): (SIZES, True), ("resources", "stdout"): (SIZES, True), ("resources", "stderr"): (SIZES, True),
    ("resources", "frame"): (SIZES[:4], False), ("resources", "pids"): ([1, 64, 65, 4096], True),
    ("resources", "files"): ([8, 64, 1024, 1048576], False), ("resources", "cpus"): ([0.5, 1, "1", "1.5", 8], True),
    ("resources", "wall_time"): (TIMES, True), ("resources", "cpu_time"): (TIMES, True), ("resources", "grace"): (TIMES, False),
    ("network", "limits", "connections"): ([1, 16, 1024], True), ("network", "limits", "bytes_out"): (SIZES, True),
    ("network", "limits", "rate"): (SIZES, True), ("network", "limits", "idle"): (TIMES, True),
    ("network", "limits", "names"): ([1, 100], True), ("network", "limits", "drain"): (TIMES, False),
    ("identity", "ids"): ([1, 2, 65536], False),
}
WORDS = {  # lists of words that grant
    ("capabilities",): ["CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW", "CAP_SETUID"],
    ("frames",): ["fd", "stdout", "stdout-letta"],
    ("optional",): ["memory", "swap", "landlock", "secret-memory"],
    ("engine", "shares"): ["user", "pid", "network", "cgroup"],
    ("engine", "joins"): ["user", "pid", "network", "cgroup"],
    ("secrets",): ["KEY_A", "KEY_B", "TOKEN"],
    ("environment", "pass"): ["LANG", "TZ", "TERM"],
}
DEMANDS = {  # lists of words that refuse or demand
    ("audit", "record"): ["lifecycle", "egress", "syscalls"],
    ("audit", "require_labels"): ["tenant", "ticket"],
    ("audit", "require_labels_for", "secrets"): ["tenant", "ticket"],
    ("audit", "require_labels_for", "egress"): ["tenant", "ticket"],
    ("audit", "require_labels_for", "privileged"): ["tenant", "ticket"],
}
HOST_PATHS = ["/srv", "/srv/a", "/srv/*", "/srv/*/x", "/var", "/srv/a/x/y", "/s*", "/srv*"]
HOST_LISTS = [("engine", key) for key in ("roots", "read", "write", "cgroups")]
HOOKS = ["/usr/bin/a", "/usr/bin/a one", "/usr/bin/*", "/usr/bin/a *", "/usr/* one", "/usr/bin/a o*"]
REFUSE = ["LD_*", "LD_PRELOAD", "*_TOKEN", "*", "AWS_*", "*_*"]
DIGEST = "sha256:" + "ab" * 32
IMAGES = ["*", "host", "py*", "python-*", "python-3", "*-3", {"digest": DIGEST}, "sha*"]
KEYS = [["/k/1"], ["/k/2"], ["/k/1", "/k/2"]]
PUBLISH = ["80=127.0.0.1:0", "80=127.0.0.1:8080", "80=unix:web", "81=[::1]:0", "81=[::1]:81"]


def draw_terms(random, rule):
    if "host" in rule and rule["protocol"] == "tcp" and random.random() < 0.4:
        rule["inspect"] = random.choice(["auto", "tls", "http", "none"])
        if rule["inspect"] in ("auto", "tls") and random.random() < 0.6:
            rule["accept"] = random.sample(["no-name", "encrypted-hello", "plain-text"], random.randint(1, 2))
    if random.random() < 0.25:
        rule["budget"] = random.choice(BUDGETS)
    return rule


def draw_rule(random):
    rule = {"host": random.choice(HOSTS)} if random.random() < 0.7 else {"cidr": random.choice(RANGES)}
    return draw_terms(random, dict(rule, ports=random.choice(PORTS), protocol=random.choice(["tcp", "tcp", "udp"])))


def draw_deny(random):
    rule = {"host": random.choice(HOSTS)} if random.random() < 0.6 else {"cidr": random.choice(RANGES)}
    return dict(rule, ports=random.choice(PORTS)) if random.random() < 0.7 else rule


def draw_mount(random):
    return {"source": random.choice(SOURCES), "target": random.choice(TARGETS),
            "access": random.choice(["read-only", "read-write"])}


def draw_image(random):
    image = random.choice(IMAGES)
    if random.random() < 0.6:
        return image
    image = dict(image) if isinstance(image, dict) else {"pattern": image}
    return dict(image, require_signature=True, keys=random.choice(KEYS))


LISTS = {
    ("network", "egress"): (draw_rule, 4), ("network", "deny"): (draw_deny, 2),
    ("filesystem", "mounts"): (draw_mount, 4), ("filesystem", "write"): (lambda r: r.choice(WRITES), 4),
    ("images",): (draw_image, 3), ("environment", "refuse"): (lambda r: r.choice(REFUSE), 3),
    ("engine", "hooks"): (lambda r: r.choice(HOOKS), 3), ("network", "publish"): (lambda r: r.choice(PUBLISH), 3),
    **{path: (lambda r: r.choice(HOST_PATHS), 3) for path in HOST_LISTS},
}
FIELDS = list(CHOICES) + list(AMOUNTS) + list(WORDS) + list(DEMANDS) + list(LISTS) + [
    ("identity", "user"), ("identity", "group"), ("network", "upstream_proxy"), ("network", "budgets")]


def draw_amount(random, path):
    pool, unlimited = AMOUNTS[path]
    return random.choice(pool + ["unlimited"] if unlimited else pool)


def draw_field(random, path):
    if path in CHOICES:
        return random.choice(CHOICES[path])
    if path in AMOUNTS:
        return draw_amount(random, path)
    if path in WORDS or path in DEMANDS:
        pool = WORDS.get(path) or DEMANDS[path]
        return random.sample(pool, random.randint(0, len(pool)))
    if path in LISTS:
        draw, most = LISTS[path]
        return [draw(random) for _ in range(random.randint(0, most))]
    if path[0] == "identity":
        return random.choice([0, 1000, 1001])
    if path[1] == "budgets":
        return [{"name": name, "bytes_out": random.choice(SIZES[3:]), "connections": random.choice([4, 16])}
                for name in BUDGETS]
    return random.choice([{"url": "", "secret": ""}, {"url": "http://p.example.com:3128", "secret": ""},
                          {"url": "socks5://10.0.0.1:1080", "secret": "KEY_A"}])


def get(policy, path):
    for key in path:
        policy = policy[key]
    return policy


def put(policy, path, value):
    for key in path[:-1]:
        policy = policy.setdefault(key, {})
    policy[path[-1]] = value


def draw_policy(random):
    policy = {"pinfold": 1}
    for path in FIELDS:
        put(policy, path, draw_field(random, path))
    return policy


def edit(random, policy):
    """Another policy that differs in few places: in most pairs of those one is at most the other."""
    other = json.loads(json.dumps(policy))
    focus = random.choice([FIELDS, [("network", "egress"), ("network", "budgets"), ("network", "deny")],
                           [("filesystem", "mounts"), ("filesystem", "write"), ("filesystem", "workspace", "access")],
                           [("images",)], HOST_LISTS + [("engine", "hooks"), ("environment", "refuse")]])
    for path in [random.choice(focus) for _ in range(random.randint(1, 3))]:
        items = get(other, path)
        what = random.random()
        if not isinstance(items, list) or path[-1] == "budgets" or what < 0.2:
            put(other, path, draw_field(random, path))
        elif what < 0.6 and items:
            items.pop(random.randrange(len(items)))
        elif what < 0.7:
            random.shuffle(items)
        elif path in LISTS:
            items.insert(random.randint(0, len(items)), LISTS[path][0](random))
    return other


# --- the model: what a run may do ---

def amount(value):
    if value == "unlimited":
        return UNLIMITED
    if not isinstance(value, str):
        return value
    for unit, factor in (("KiB", 1024), ("MiB", MIB), ("GiB", GIB), ("TiB", 1024 * GIB), ("ms", 1), ("s", 1000),
                         ("m", 60000), ("h", 3600000)):
        if value.endswith(unit):
            return int(value[:-len(unit)]) * factor
    return float(value)


def matches(pattern, text):
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


def beneath(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def has_port(ports, port):
    return any(port == part if isinstance(part, int) else int(part.split("-")[0]) <= port <= int(part.split("-")[1])
               for part in ports)


def name_matches(pattern, name):
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else pattern == name


@functools.cache
def in_range(range_text, address):
    return ipaddress.ip_address(address) in ipaddress.ip_network(range_text)


def names(rule, probe, grants):
    """Whether the rule names the host; no wildcard grants the host's own loopback."""
    if "host" not in rule or probe["host"] is None:
        return False
    internal = probe["host"] == "host.pinfold.internal" and rule["host"].startswith("*")
    return name_matches(rule["host"], probe["host"]) and not (grants and internal)


def names_address(rule, probe):
    return "cidr" in rule and probe["address"] is not None and in_range(rule["cidr"], probe["address"])


def inspection(rule, port):
    if "cidr" in rule or rule["protocol"] == "udp":
        return "none"
    mode = rule.get("inspect", "auto")
    return mode if mode != "auto" else {443: "tls", 80: "http"}.get(port, "none")


def counting(rules, port):
    """The rule with the widest terms: least inspected, without a budget."""
    def width(rule):
        mode = inspection(rule, port)
        accept = rule.get("accept", []) if mode == "tls" else []
        looks = {"none": 100, "tls": 2, "http": 1}[mode]
        looks += ("no-name" in accept) + 2 * ("encrypted-hello" in accept) + 4 * ("plain-text" in accept)
        return -looks, "budget" in rule, rule.get("budget", "")
    return min(rules, key=width) if rules else None


def connects(policy, probe):
    network = policy["network"]
    for rule in network["deny"]:
        if has_port(rule.get("ports", ["1-65535"]), probe["port"]) and \
                (names(rule, probe, False) or names_address(rule, probe)):
            return False
    there = [rule for rule in network["egress"] if rule["protocol"] == probe["protocol"] and
             has_port(rule["ports"], probe["port"])]
    named = [rule for rule in there if names(rule, probe, True)]
    ranged = [rule for rule in there if names_address(rule, probe)]
    if probe["host"] and not named:
        return False
    private = probe["address"] and probe["address"].startswith(("10.", "127."))
    if private and not ranged and not (probe["host"] == "host.pinfold.internal" and probe["address"] == "127.0.0.1"):
        return False
    rule = counting(ranged, probe["port"]) or counting(named, probe["port"])
    if rule is None:
        return False
    mode, said = inspection(rule, probe["port"]), probe["said"]
    good = mode == "none" or said == mode or mode == "tls" and said in rule.get("accept", [])
    if "budget" in rule:
        budget = next(b for b in network["budgets"] if b["name"] == rule["budget"])
        good = good and probe["bytes"] <= amount(budget["bytes_out"])
    return good and probe["bytes"] <= amount(network["limits"]["bytes_out"])


CONNECTIONS = [
    {"host": host, "address": address, "port": port, "protocol": protocol, "said": said, "bytes": size}
    for host, address in [("a.x.com", None), ("x.com", None), ("q.x.com", None), ("b.a.x.com", None),
                          ("host.pinfold.internal", "127.0.0.1"), ("q.pinfold.internal", None),
                          ("a.x.com", "93.1.2.3"), ("q.x.com", "10.1.2.3"), ("a.x.com", "10.1.9.9"),
                          (None, "93.1.2.3"), (None, "93.9.9.9"), (None, "10.1.2.3"), (None, "2600:1::5")]
    for port in (1, 80, 100, 120, 443, 500, 8080)
    for protocol in ("tcp", "udp")
    for said in (("raw", "tls", "http", "no-name", "encrypted-hello", "plain-text") if protocol == "tcp" and host else ("raw",))
    for size in (1, 3 * MIB, 4 * 1024 * GIB)]


def shown(policy, path):
    """What of the host, or of the workspace, a run finds at a path inside, and whether it may write there."""
    filesystem = policy["filesystem"]
    access = filesystem["workspace"]["access"]
    source, writable = None, False
    if access != "none" and beneath(path, "/workspace"):
        source, writable = "WORKSPACE" + path[len("/workspace"):], access == "read-write"
    for mount in filesystem["mounts"]:  # the later lies over the earlier
        if beneath(path, mount["target"]):
            writes = any(beneath(path, entry) and not beneath(entry, "/workspace") for entry in filesystem["write"])
            writes = writes or beneath(path, "/workspace") and access in ("copy-on-write", "read-write")
            source, writable = mount["source"] + path[len(mount["target"]):], mount["access"] == "read-write" and writes
    return source, writable


PLACES = [prefix + tail for prefix in ("/m", "/n", "/workspace") for tail in
          [""] + ["/" + "/".join(parts) for size in (1, 2, 3, 4) for parts in itertools.product("abc", repeat=size)]]


def files(policy):
    found = set()
    for path in PLACES:
        source, writable = shown(policy, path)
        if source is not None and source.count("/") <= 3:  # which every target can show
            found.add(("sees", source))
            if writable:
                found.add(("writes", source))
    return found


def runs_image(policy, name, digest, signers):
    for rule in policy["images"]:
        rule = {"pattern": rule} if isinstance(rule, str) else rule
        if not (rule["digest"] == digest if "digest" in rule else matches(rule["pattern"], name)):
            continue
        if not rule.get("require_signature") or set(rule["keys"]) & set(signers):
            return True
    return False


def may(policy):
    """All that is asked, as a set."""
    found = files(policy)
    for path, pool in CHOICES.items():
        found |= {(path, word) for word in pool[:pool.index(get(policy, path)) + 1]}
    for path, (pool, _) in AMOUNTS.items():
        found |= {(path, value) for value in map(amount, pool + ["unlimited"]) if value <= amount(get(policy, path))}
    for path in WORDS:
        found |= {(path, word) for word in get(policy, path)}
    for path, pool in DEMANDS.items():
        found |= {(path, word) for word in pool if word not in get(policy, path)}
    found |= {("connect", i) for i, probe in enumerate(CONNECTIONS) if connects(policy, probe)}
    for path in HOST_LISTS:
        for probe in ("/srv", "/srv/a", "/srv/a/x", "/srv/b/x/z", "/var/q", "/sx", "/srvx/y", "/srv/*", "/etc"):
            if any(matches(entry, probe) or matches(entry + "/*", probe) for entry in get(policy, path)):
                found.add((path, probe))
    for program, first in itertools.product(("/usr/bin/a", "/usr/bin/b", "/usr/a"), (None, "one", "two")):
        if any(matches(hook, program + " " + first) if " " in hook and first else " " not in hook and matches(hook, program)
               for hook in policy["engine"]["hooks"]):
            found.add(("hook", program, first))
    for name in ("LD_PRELOAD", "LD_X", "X_TOKEN", "AWS_A", "PLAIN", "A_B"):
        if not any(matches(pattern, name) for pattern in policy["environment"]["refuse"]):
            found.add(("variable", name))
    for name, digest, signers in itertools.product(("host", "python-3", "pypy", "node-3", "sha256x"), (None, DIGEST),
                                                   ((), ("/k/1",), ("/k/2",))):
        if runs_image(policy, name, digest, signers):
            found.add(("image", name, digest, signers))
    for port, place in itertools.product((80, 81), ("127.0.0.1:0", "127.0.0.1:8080", "unix:web", "[::1]:0", "[::1]:81")):
        at = place.rsplit(":", 1)[0]
        if any(entry in ("%d=%s" % (port, place), "%d=%s:0" % (port, at)) for entry in policy["network"]["publish"]):
            found.add(("publish", port, place))
    for key in ("user", "group"):
        found |= {(key, value) for value in (0, 1000, 1001) if policy["identity"][key] in (0, value)}
    found.add(("proxy", json.dumps(policy["network"]["upstream_proxy"], sort_keys=True)))
    return found


def check(pairs, seed, compare):
    draw = random.Random(seed)
    counts = {"at most": 0, "cautious": 0, "pairs": 0}
    base, base_may = None, None
    for number in range(pairs):
        if number % 8 == 0:
            base = draw_policy(draw)
            base_may = may(base)
        other = edit(draw, base)
        other_may = may(other)
        compare.stdin.write(json.dumps(base) + "\n" + json.dumps(other) + "\n")
        compare.stdin.flush()
        answer = compare.stdout.readline().strip()
        if len(answer) != 3:
            sys.exit(f"seed {seed}, pair {number}: no answer to\n{json.dumps(base)}\n{json.dumps(other)}")
        counts["pairs"] += 1
        for at_most, (a, a_may), (b, b_may) in ((answer[0], (base, base_may), (other, other_may)),
                                                (answer[1], (other, other_may), (base, base_may))):
            more = a_may - b_may
            if at_most == "1" and more:
                shown_more = [CONNECTIONS[m[1]] if m[0] == "connect" else m for m in sorted(more, key=str)[:4]]
                sys.exit(f"seed {seed}, pair {number}: said to be at most the other, and may do more: {shown_more}\n"
                         f"{json.dumps(a)}\n{json.dumps(b)}")
            counts["at most"] += at_most == "1"
            counts["cautious"] += at_most == "0" and not more
        if answer[2] == "1" and base_may != other_may:
            sys.exit(f"seed {seed}, pair {number}: one digest for two policies that differ\n{json.dumps(base)}\n{json.dumps(other)}")
    return counts


def main():
    pairs, seed = (int(value) for value in (sys.argv[2:] + ["500", "1"][len(sys.argv) - 2:])[:2])
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as compare:
        counts = check(pairs, seed, compare)
        compare.stdin.close()
    print(counts)
    if counts["at most"] < pairs // 4:
        sys.exit("too few pairs are in order: the check says little")


if __name__ == "__main__":
    main()
