# A code context, which keeps the variables of its cells; docs/code.md. Each cell comes over a socket of its own as four
# descriptors: its request, its output, and its result's way. Standard library only, Python 3.8 and later.
import sys

_path0 = sys.path.pop(0) if sys.path and sys.path[0] == "" else None  # nothing of the workspace stands in for ours
import ast
import fcntl
import json
import linecache
import os
import queue
import signal
import socket
import struct
import threading
import traceback

OURS = "<string>"  # our file, as "-c" names it
RESULTS_MAX, VALUES_MAX, DEPTH_MAX, NOTES_MAX = 1000, 100000, 100, 16
ROOM = socket.CMSG_SPACE(16 * 4)
PR_SET_DUMPABLE = 4
cells, stopped = queue.SimpleQueue(), set()
main_thread = threading.get_ident()


class Cell:
    """One cell: its request, where its output goes, and what it has shown so far."""

    def __init__(self, number, nonce, fds):
        self.number, self.nonce, self.fds = number, nonce, fds
        self.running = False
        self.results, self.notes, self.error = [], [], None

    def take(self):
        with open(self.fds["request"], "rb") as file:
            self.request = json.loads(file.read())

    def note(self, text):
        if len(self.notes) < NOTES_MAX:
            self.notes.append(clean(text))

    def show(self, value):
        if len(self.results) < RESULTS_MAX:
            self.results.append(bundle(value, self))
        else:
            self.note("more than %d results: the others were left out" % RESULTS_MAX)

    def send(self, count):
        payload = json.dumps({"key": self.request["key"], "execution_count": count, "results": self.results,
                              "error": self.error, "notes": self.notes}).encode()
        head = b"\1\1\0\0" + struct.pack(">II", len(payload), crc32c(payload))
        data = memoryview(self.nonce + head + payload)
        while data:
            data = data[os.write(self.fds["frame"], data[:1 << 20]):]


def interrupt(number):
    """Also one that hasn't begun."""
    stopped.add(number)
    cell = now
    if cell is not None and cell.number == number and cell.running:
        signal.pthread_kill(main_thread, signal.SIGINT)


def hear(control):
    """In a thread: what comes from the supervisor, a line and a descriptor each."""
    rest, fds, parts = b"", [], {}
    while True:
        data, rights, _, _ = control.recvmsg(4096, ROOM, socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(1)
        for _, _, numbers in rights:
            fds.extend(struct.unpack("=%di" % (len(numbers) // 4), numbers))
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "interrupt" in said:
                interrupt(said["interrupt"])
                continue
            said = said["msg"]
            parts[said["as"]] = fds.pop(0)
            if said["as"] == "frame":
                cells.put(Cell(said["cell"], bytes.fromhex(said["nonce"]), parts))
                parts = {}


def make_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


def crc32c(data):
    """RFC 3720, B.4."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc_table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def clean(text):
    return str(text).encode("utf-8", "backslashreplace").decode()


def plain(value, left, depth=0):
    """The value where JSON says the same, else ValueError."""
    left[0] -= 1
    kind = type(value)
    if left[0] < 0 or depth > DEPTH_MAX:
        raise ValueError
    if value is None or kind is bool or (kind is int and -(1 << 63) <= value < 1 << 63) or (kind is float and value - value == 0):
        return value
    if kind is str:
        value.encode()  # UnicodeEncodeError is a ValueError
        return value
    if kind is list or kind is tuple:
        return [plain(item, left, depth + 1) for item in value]
    if kind is dict and all(type(key) is str and "\0" not in key for key in value):
        return {plain(key, left): plain(item, left, depth + 1) for key, item in value.items()}
    raise ValueError


def as_base64(value):
    import base64
    return value if isinstance(value, str) else base64.b64encode(bytes(value)).decode()


def as_text(value):
    if not isinstance(value, str):
        raise TypeError("no text: %s" % type(value).__name__)
    return clean(value)


def as_json(value):
    return plain(value, [VALUES_MAX])


TYPES = {"text/plain": as_text, "text/html": as_text, "image/png": as_base64, "application/json": as_json}
METHODS = {"_repr_html_": "text/html", "_repr_png_": "image/png", "_repr_json_": "application/json"}


def own_reprs(value, cell):
    """What the value's methods say of it; a method that fails is a note."""
    if isinstance(value, type):
        return
    for method, kind in METHODS.items():
        try:
            said = getattr(value, method, None)
            said = said() if callable(said) else None
            said = said[0] if isinstance(said, tuple) and kind != "application/json" else said
            if said is not None:
                yield kind, TYPES[kind](said)
        except Exception as error:
            cell.note("%s: %s: %s" % (method, type(error).__name__, error))


def bundle(value, cell):
    made = dict(own_reprs(value, cell))
    try:
        made["text/plain"] = clean(repr(value))
    except Exception as error:
        made["text/plain"] = "<%s: its repr() raises %s>" % (type(value).__name__, type(error).__name__)
    if "application/json" not in made and isinstance(value, (dict, list)):
        try:
            made["application/json"] = as_json(value)
        except ValueError:
            pass  # its text has to do
    if "image/png" not in made and type(value).__name__ == "Figure" and hasattr(value, "savefig"):
        made["image/png"] = figure_png(value)
    return made


def figure_png(figure):
    import io
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return as_base64(file.getvalue())


def show_figures(cell, value):
    """Those that the cell has drawn with pyplot, and left open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if figure is not value:
            cell.show(figure)
    pyplot.close("all")


def run_code(tree, name, space, mode):
    code = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    value = eval(code, space)
    if code.co_flags & 0x80:  # CO_COROUTINE: it awaits
        return event_loop().run_until_complete(value)
    return value


loops = []


def event_loop():
    import asyncio
    if not loops:
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[0])
    return loops[0]


def evaluate(cell, name, space):
    """Shows the value of the last expression."""
    source = cell.request["code"]
    linecache.cache[name] = (len(source), None, [line + "\n" for line in source.split("\n")], name)
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    if tree.body:
        run_code(tree, name, space, "exec")
    value = run_code(ast.Expression(last.value), name, space, "eval") if last is not None else None
    if value is not None:
        space["_"] = value
        cell.show(value)
    show_figures(cell, value)


def describe(error):
    place = error.__traceback__
    while place is not None and not place.tb_frame.f_code.co_filename.startswith("cell-"):
        place = place.tb_next  # ours stand above the cell's
    try:
        message = clean(error)
    except Exception:
        message = ""
    try:
        whole = traceback.TracebackException(type(error), error, place)
        whole.stack = traceback.StackSummary.from_list([at for at in whole.stack if at.filename != OURS])
        trace = clean("".join(whole.format()))
    except Exception:
        trace = None
    return {"type": clean(type(error).__name__), "message": message, "traceback": trace}


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass  # closed, replaced, or nobody reads


def open_streams():
    """Also again, where a cell has closed them."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name, None)
        if stream is None or stream is getattr(sys, "__%s__" % name) or getattr(stream, "closed", False):
            setattr(sys, name, open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False))


def run(cell, space, count):
    global now
    now = cell
    for at, name in enumerate(("stdout", "stderr"), 1):
        os.dup2(cell.fds[name], at)
        os.close(cell.fds[name])
    open_streams()
    try:
        try:
            cell.running = True
            if cell.number in stopped:
                raise KeyboardInterrupt
            evaluate(cell, "cell-%d" % count, space)
        finally:
            cell.running = False
    except BaseException as error:
        cell.running = False
        cell.error = describe(error)


def serve_cell(cell, space, count, kept):
    cell.take()
    run(cell, space, count)
    if os.getpid() != kept[0]:
        flush()
        os._exit(0)  # a child that the cell has made, and that has come to the cell's end
    flush()
    for at, fd in enumerate(kept[1:], 1):
        os.dup2(fd, at)
    stopped.clear()
    try:
        cell.send(count)
    except OSError:
        pass  # who has asked is gone
    finally:
        os.close(cell.fds["frame"])


def on_interrupt(number, frame):
    if now is not None and now.running:
        raise KeyboardInterrupt


def close_memory():
    """To programs that cells start: with what stands in it they could make a cell's result. False where that can't be had."""
    try:
        import ctypes
        return ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    except (ImportError, OSError):
        return False


def serve():
    is_closed = close_memory()
    control = socket.socket(fileno=fcntl.fcntl(int(os.environ.pop("NODE_CHANNEL_FD")), fcntl.F_DUPFD_CLOEXEC, 200))
    os.close(3)
    os.close(4)  # for interpreters without a call for what we have done already
    signal.signal(signal.SIGINT, on_interrupt)
    module = type(sys)("__main__")
    module.__builtins__ = __builtins__
    module.display = lambda *values: [now.show(value) for value in values] and None
    sys.modules["__main__"] = module
    sys.argv = [""]
    os.environ.setdefault("MPLBACKEND", "agg")
    if _path0 is not None:
        sys.path.insert(0, _path0)
    kept = [os.getpid()] + [os.dup(fd) for fd in (1, 2)]
    threading.Thread(target=hear, args=(control,), daemon=True).start()
    count = 0
    while True:
        count += 1
        cell = cells.get()
        if not is_closed:
            cell.note("programs that cells start can read and change the context's memory, and so its results")
        serve_cell(cell, module.__dict__, count, kept)


now, own, crc_table = None, sys.modules["__main__"], make_table()
serve()
