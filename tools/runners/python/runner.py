# Runs one function of a tool and sends what came of it over the frame descriptor; docs/tool.md. Standard library
# only, Python 3.8 to 3.14. What only some calls need stands in more.py.
import sys

if __name__ == "__main__":  # else whoever has loaded it has done it
    _path0 = sys.path.pop(0) if sys.path and sys.path[0] == "" else None  # nothing of the workspace stands in for ours
import os

try:
    import _json  # what json is made of, without the modules that take longer to load than a call takes
except ImportError:
    import json

    loads, dumps = json.loads, json.JSONEncoder(allow_nan=False).encode
else:
    class Scan:
        strict, object_hook, object_pairs_hook, parse_float, parse_int, parse_constant, memo = True, None, None, float, int, float, {}

    _scan = _json.make_scanner(Scan)
    _encode = _json.make_encoder(None, None, _json.encode_basestring_ascii, None, ": ", ", ", False, False, False)

    def loads(text):
        return _scan(text, 0)[0]

    def dumps(value, join="".join):
        return join(_encode(value, 0))

NOTE_MAX = 400
VALUES_MAX, NOTES_MAX = 200000, 16  # one value more and the host would not read it
_os_write, _os_exit = os.write, os._exit
_loaded = {}


def use_more(code):
    _loaded["code"] = code


def load_more():
    if "more" not in _loaded:
        scope = _loaded["more"] = {"__name__": "pinfold_runner", "VALUES_MAX": VALUES_MAX}
        exec(compile(_loaded["code"], "<pinfold>", "exec"), scope)
    return _loaded["more"]


class Tool:
    """One call: its request, and the result on its way."""

    def __init__(self, nonce, given, packet):
        self.nonce = nonce
        # a number that nobody closes or writes to by habit; closed in programs that the tool starts
        import fcntl
        try:
            self.fd = fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, 200)
        except OSError:
            self.fd = os.dup(given)
        os.close(given)
        more_env, _, request = packet.rpartition(b"\0")  # variables that are handed in besides, a zero behind each
        self.request = loads(request.decode())
        self.notes = []
        self.values = 0
        self.state = self
        if self.request.get("env") is not None:
            self.take_environment(self.request["env"])
            for pair in filter(None, more_env.split(b"\0")):
                name, _, value = pair.partition(b"=")
                os.environb[name] = value

    def take_environment(self, given):
        """Of a call whose process was there before it."""
        for name in [name for name in os.environ if name not in given]:
            del os.environ[name]
        for name, value in given.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
        if "TZ" in given:
            import time
            time.tzset()

    def more(self):
        return load_more()

    def note(self, text):
        """Of any text: the tool's own names stand in it."""
        if len(self.notes) < NOTES_MAX:
            self.notes.append(text[:NOTE_MAX].encode("utf-8", "backslashreplace").decode())

    def plain(self, value, place=""):
        """The value as JSON has it; what JSON can't say becomes text, with a note."""
        self.values += 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self.text(value, place)
        if kind is int and -(1 << 63) <= value < 1 << 63:
            return value
        if kind is float and value - value == 0:
            return value
        if kind is list or kind is tuple:
            return [self.plain(item, "%s/%d" % (place, i)) for i, item in enumerate(value)]
        if kind is dict:
            return {self.key(k, place): self.plain(v, "%s/%s" % (place, k)) for k, v in value.items()}
        return self.more()["unusual"](self, value, place)

    def text(self, value, place):
        try:
            value.encode()
            return value
        except UnicodeEncodeError:
            self.note("%s: characters outside Unicode were escaped" % (place or "/"))
            return value.encode("utf-8", "backslashreplace").decode()

    def key(self, key, place):
        if type(key) is not str:
            self.note("%s: keys that are no text became text" % (place or "/"))
            key = str(key)
        if "\0" in key:
            self.note("%s: a zero in a key became \\0" % (place or "/"))
            key = key.replace("\0", "\\0")
        return self.text(key, place)

    def encode(self, value, what):
        """JSON of a value, or the JSON of its text."""
        self.values = 0
        try:
            plain = self.plain(value)
            if self.values <= VALUES_MAX:
                return dumps(plain)
            self.note("%s: more than %d values: given as the text of its JSON" % (what, VALUES_MAX))
            return dumps(dumps(plain))
        except RecursionError:
            self.note("%s: nested too deeply, or in itself: given as text" % what)
            return dumps(self.text(self.more()["safe_text"](value), what))

    def send(self, fields):
        fields.append('"notes": ' + dumps(self.notes))
        fields.append('"key": ' + dumps(self.request["key"]))
        payload = ("{" + ", ".join(fields) + "}").encode()
        head = self.nonce + b"\1\1\0\0" + len(payload).to_bytes(4, "big") + crc32c(payload, self).to_bytes(4, "big")
        data = memoryview(head + payload)
        while data:
            data = data[_os_write(self.fd, data[:1 << 20]):]


def crc32c(data, tool):
    """RFC 3720, B.4."""
    if len(data) > 4096:
        return tool.more()["crc32c_long"](data, crc_step)
    return crc_step(0xFFFFFFFF, data) ^ 0xFFFFFFFF


def crc_step(crc, data):
    table = _loaded.get("table") or make_table()
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc


def make_table():
    table = _loaded["table"] = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


UNDUMPABLE = "@HEX@"  # undumpable.c


def is_closed():
    try:
        return os.stat("/proc/self/mem").st_uid != os.geteuid()
    except OSError:
        return True  # there is no /proc to look in


def load_undumpable():
    import _imp

    class Spec:
        name, origin = "pinfold", "/tmp/pinfold-%s.so" % os.urandom(8).hex()
    fd = os.open(Spec.origin, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, bytes.fromhex(UNDUMPABLE))
        os.close(fd)
        _imp.create_dynamic(Spec)
    except ImportError:
        pass  # it is no module; but it has been loaded
    finally:
        os.unlink(Spec.origin)


def close_memory(tool):
    """To programs that the tool starts: with what stands in it, they could make a result. A fork of the zygote has it
    from that."""
    if is_closed():
        return
    try:
        load_undumpable()
    except OSError:  # nothing can be written; what can do without takes longer to load
        try:
            import _ctypes
            _ctypes.call_function(_ctypes.dlsym(_ctypes.dlopen(None, 2), "prctl"), (4, 0, 0, 0, 0))
        except (ImportError, OSError):
            pass
    if not is_closed() and os.geteuid() != 0:  # to its root it looks the same
        tool.note("programs that the tool starts can read and change its memory, and so its result")


# What tells whether site has run: names that it defines or changes, and what looks around by itself.
SITE_SEEN = {"exit", "quit", "help", "copyright", "credits", "license", "site", "sysconfig", "distutils", "importlib", "pkgutil", "runpy", "eval", "exec",
             "__import__", "builtins", "__builtins__", "meta_path", "path_hooks", "prefix", "exec_prefix", "flags", "excepthook",
             "threading", "_thread", "concurrent", "to_thread", "run_in_executor"}  # and threads, which import at the same time
# of other systems: the standard library tries them
NOT_HERE = {"msvcrt", "nt", "winreg", "winsound", "_winapi", "_winreg", "_overlapped", "_scproxy", "vms_lib", "org", "java"}


class LateSite:
    """A cold interpreter starts without site, which takes longer than many a call: it runs before the first import that
    the standard library hasn't, and before a source that could see the difference."""

    def __init__(self):
        import _thread
        self.lock, self.begun = _thread.RLock(), False

    def find_spec(self, name, path=None, target=None):
        if path is not None or name in NOT_HERE:
            return None
        with self.lock:
            if self.begun and self in sys.meta_path:  # what site itself looks for
                return None
            self.run()
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def run(self):
        with self.lock:
            if self.begun:
                return
            self.begun = True
            first = sys.path.pop(0) if sys.path[:1] == [""] else None  # site would write the directory's name in its place
            import site
            site.main()
            if first is not None:
                sys.path.insert(0, first)
            if self in sys.meta_path:
                sys.meta_path.remove(self)

    def before(self, code):
        names, rest = set(), [code]
        while rest:
            code = rest.pop()
            names.update(part for name in code.co_names for part in name.split("."))
            rest.extend(const for const in code.co_consts if type(const) is type(code))
        if names & SITE_SEEN or "sys" in names and names & {"path", "modules"}:
            self.run()


def come_without_site():
    late = _loaded["site"] = LateSite()
    sys.meta_path.append(late)
    asked = [name for name in os.environ if name.startswith("PYTHON") and name not in ("PYTHONUNBUFFERED", "PYTHONWARNINGS")]
    if asked or "VIRTUAL_ENV" in os.environ:  # somebody has an interpreter of his own in mind
        late.run()


def find_function(tree, name):
    """The definition that the name has in the end, wherever it stands outside other functions and classes."""
    found, names, rest = None, [], list(tree.body)
    while rest:
        node = rest.pop(0)
        kind = type(node).__name__
        if kind in ("FunctionDef", "AsyncFunctionDef"):
            names.append(node.name)
            if node.name == name:
                found = node
        elif kind != "ClassDef":
            for field in ("body", "orelse", "finalbody", "handlers"):
                part = getattr(node, field, None)
                if isinstance(part, list):
                    rest.extend(part)
    return found, names


def load(tool):
    request, source = tool.request, tool.request["source"]
    module = type(sys)("tool")
    module.__file__ = "tool.py"
    module.client = None
    sys.modules["tool"] = module
    if source.startswith("\ufeff"):  # as files may begin
        source = source[1:]
    tree = compile(source, "tool.py", "exec", 0x400, True)  # ast.PyCF_ONLY_AST, without ours of __future__
    node, names = find_function(tree, request["name"])
    if node is None:
        raise NameError("the source defines no function '%s'; it has: %s" % (request["name"], ", ".join(names) or "none"))
    if sys.version_info >= (3, 14) and ("multiprocessing" in source or "concurrent" in source):
        import multiprocessing
        multiprocessing.set_start_method("fork")  # a server's new interpreter could not import the tool
    if _path0 is not None:
        sys.path.insert(0, _path0)
    code = compile(tree, "tool.py", "exec", 0, True)
    if "site" in _loaded:
        _loaded["site"].before(code)
    exec(code, module.__dict__)
    return module, node


def call(tool):
    request = tool.request
    module, node = load(tool)
    function = module.__dict__[request["name"]]
    wanted = node.args
    only_by_place = [a.arg for a in getattr(wanted, "posonlyargs", [])]
    names = only_by_place + [a.arg for a in wanted.args + wanted.kwonlyargs]
    args = request["args"]
    hints = [a.annotation for a in wanted.args + wanted.kwonlyargs + getattr(wanted, "posonlyargs", [])]
    if any(h is not None and getattr(h, "id", "") not in ("str", "int", "float", "bool") for h in hints):
        args = tool.more()["convert"](function, args, module)
    if "agent_state" in names:
        tool.state = args["agent_state"] = tool.more()["load_state"](request)
    if "agent_id" in names and "agent_id" not in args:
        args["agent_id"] = request["agent_id"]
    placed = []
    for name in only_by_place:
        if name not in args:
            break
        placed.append(args.pop(name))
    value = function(*placed, **args)
    if hasattr(value, "__await__"):
        import asyncio

        async def wait():
            return await value
        value = asyncio.run(wait())
    return value


def end(tool, fields, code):
    try:
        threads = sys.modules.get("threading")
        left = threads.active_count() - 1 if threads else 0
        if left > 0:
            tool.note("%d threads were still running when the function had returned" % left)
    except Exception:
        pass
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException:
            pass  # closed, replaced, or what it leads to is gone
    try:
        tool.send(fields)
    finally:
        _os_exit(code)


def main(nonce, fd, packet):
    tool = Tool(nonce, fd, packet)
    close_memory(tool)
    try:
        value = call(tool)
        fields = ['"ok": true', '"func_return": ' + tool.encode(value, "func_return")]
        if tool.state is not tool:
            fields.append('"agent_state": ' + tool.more()["state_json"](tool))
    except BaseException as error:
        fields = tool.more()["failed"](tool, error)
    end(tool, fields, 0)


def read_input():
    """All of standard input, which is empty afterwards."""
    with open(0, "rb", closefd=False) as stdin:
        packet = stdin.read()
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return packet


def load_ahead():
    load_more()["preload"]()
    make_table()
    find_function(compile("def f(): pass", "<pinfold>", "exec", 0x400, True), "f")  # makes the types of syntax trees


def wait_ahead(more, nonce, fd):
    """Started before there is a call: all is loaded, and the supervisor told so."""
    use_more(more)
    load_ahead()
    _os_write(fd, nonce + b"\1\3" + bytes(10))  # a frame of kind progress, without a payload


if __name__ == "__main__":  # ahead of its call
    _nonce, _fd = bytes.fromhex(os.environ.pop("PINFOLD_FRAME_NONCE")), int(os.environ.pop("PINFOLD_FRAME_FD"))
    wait_ahead(sys.argv.pop(), _nonce, _fd)
    main(_nonce, _fd, read_input())
