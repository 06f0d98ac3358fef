# Starts the runner for a cold call: its code comes before the call on standard input, compiled already where this Python
# is of the version that it was compiled for. docs/tool.md "Python".
import sys

_path0 = sys.path.pop(0) if sys.path and sys.path[0] == "" else None  # nothing of the workspace stands in for ours
import marshal
import os


def read_input():
    """All of standard input, which is empty afterwards."""
    data = b"".join(iter(lambda: os.read(0, 1 << 20), b""))
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return data


def start():
    sizes, data = read_input().split(b"\n", 1)
    parts = []
    for size in map(int, sizes.split()):
        parts.append(data[:size])
        data = data[size:]
    compiled, source, more = parts
    magic = getattr(sys.modules.get("_frozen_importlib_external"), "MAGIC_NUMBER", None)
    if compiled[:4] == magic:
        code = marshal.loads(compiled[4:])
    else:
        code = compile(source.decode(), "<pinfold>", "exec", 0, True)
    scope = {"__name__": "pinfold_runner", "_path0": _path0}
    exec(code, scope)
    scope["use_more"](more.decode())
    scope["come_without_site"]()
    environ = os.environ
    scope["main"](bytes.fromhex(environ.pop("PINFOLD_FRAME_NONCE")), int(environ.pop("PINFOLD_FRAME_FD")), b"\0" + data)


start()
