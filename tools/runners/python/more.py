# What the runner needs in some calls only: unusual values, typed arguments, agent states, exceptions, long check sums.
import sys

# what tools import most, and what takes long: loaded ahead in processes that wait for a call
PRELOADED = ("asyncio", "base64", "collections", "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fcntl", "functools",
             "hashlib", "inspect", "io", "itertools", "json", "linecache", "math", "pathlib", "re", "string", "textwrap", "threading",
             "time", "traceback", "typing", "urllib.parse", "uuid")


def preload():
    for name in PRELOADED:
        try:
            __import__(name)
        except ImportError:
            pass  # an image without it


def safe_text(value):
    try:
        return str(value)
    except BaseException as error:
        return "<%s whose text can't be made: %s>" % (type(value).__name__, type(error).__name__)


def kind_of(value):
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)


def from_bytes(value):
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        import base64
        return base64.b64encode(value).decode()


def as_dict(value):
    """Dataclasses, pydantic models, named tuples: their fields; None where it is none of them."""
    kind = type(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if hasattr(kind, "model_dump") and hasattr(kind, "model_fields"):
        return value.model_dump()
    if hasattr(kind, "__fields__") and hasattr(kind, "parse_obj"):
        return value.dict()
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, value))
    if isinstance(value, dict):
        return dict(value)
    return None


def unusual(tool, value, place):
    """A value of another type than JSON's."""
    here = place or "/"
    fields = as_dict(value)
    if fields is not None:
        return tool.plain(fields, place)
    enum = sys.modules.get("enum")
    if enum and isinstance(value, enum.Enum):
        return tool.plain(value.value, place)
    for base in (str, float, list, tuple):
        if isinstance(value, base) and type(value) is not base:
            return tool.plain(base(value), place)
    if isinstance(value, int) and type(value) is not int:
        return tool.plain(int(value), place)
    if type(value).__module__.split(".")[0] == "numpy" and hasattr(value, "tolist"):
        return tool.plain(value.tolist(), place)
    if isinstance(value, (set, frozenset)):
        tool.note("%s: %s became a list" % (here, kind_of(value)))
        try:
            value = sorted(value)
        except TypeError:
            value = list(value)
        return tool.plain(value, place)
    if isinstance(value, (bytes, bytearray)):
        text = from_bytes(value)
        tool.note("%s: %s became text%s" % (here, kind_of(value), "" if text.encode() == value else ", in base64"))
        return text
    if isinstance(value, BaseException):
        tool.note("%s: an exception became text" % here)
        return tool.text("%s: %s" % (type(value).__name__, safe_text(value)), place)
    tool.note("%s: %s became text" % (here, kind_of(value)))
    isoformat = getattr(value, "isoformat", None)
    if type(value).__module__ == "datetime" and isoformat:
        return isoformat()
    if type(value) is int:  # beyond 64 bits; str() has a limit of its own
        return str(value) if value.bit_length() < 8192 else hex(value)
    return tool.text(safe_text(value), place)


def convert(function, args, module):
    """Arguments whose annotation is a model, a dataclass or an enumeration become that."""
    import typing
    try:
        hints = typing.get_type_hints(function, module.__dict__)
    except Exception:
        return args  # annotations that mean nothing: the tool sees what came
    return {name: build(value, hints[name], typing) if name in hints else value for name, value in args.items()}


def build(value, hint, typing):
    if isinstance(hint, type):
        if isinstance(value, dict) and hasattr(hint, "model_validate"):
            return hint.model_validate(value)
        if isinstance(value, dict) and hasattr(hint, "parse_obj"):
            return hint.parse_obj(value)
        if isinstance(value, dict) and hasattr(hint, "__dataclass_fields__"):
            kinds = typing.get_type_hints(hint, vars(sys.modules.get(hint.__module__, sys)))
            return hint(**{k: build(v, kinds[k], typing) if k in kinds else v for k, v in value.items()})
        enum = sys.modules.get("enum")
        if enum and issubclass(hint, enum.Enum) and not isinstance(value, hint):
            return hint[value] if isinstance(value, str) and value in hint.__members__ else hint(value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, set, frozenset, tuple) and isinstance(value, list) and inner:
        kinds = inner if origin is tuple and inner[-1] is not Ellipsis else [inner[0]] * len(value)
        return origin(build(v, k, typing) for v, k in zip(value, kinds)) if len(kinds) == len(value) else value
    if origin is dict and isinstance(value, dict) and len(inner) == 2:
        return {k: build(v, inner[1], typing) for k, v in value.items()}
    if origin is not None and type(None) in inner and value is None:
        return None
    if origin is typing.Union or getattr(origin, "__name__", "") == "UnionType":
        return build_one_of(value, [k for k in inner if k is not type(None)], typing)
    return value


def build_one_of(value, kinds, typing):
    for kind in kinds:
        try:
            built = build(value, kind, typing)
        except Exception:
            continue
        if built is not value or (isinstance(kind, type) and isinstance(value, kind)):
            return built
    return value


class State(dict):
    """An agent state from JSON: a dict whose keys are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value

    def __delattr__(self, name):
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None


def as_state(value):
    if isinstance(value, dict):
        return State((k, as_state(v)) for k, v in value.items())
    return [as_state(v) for v in value] if isinstance(value, list) else value


def load_state(request):
    if request["agent_state_encoding"] != "pickle" or request["agent_state"] is None:
        return as_state(request["agent_state"])
    import base64
    import pickle
    return pickle.loads(base64.b64decode(request["agent_state"]))  # in the sandbox, where the tool could do the same


def state_json(tool):
    if tool.request["agent_state_encoding"] != "pickle" or tool.state is None:
        return tool.encode(tool.state, "agent_state")
    import base64
    import pickle
    return tool.encode(base64.b64encode(pickle.dumps(tool.state)).decode(), "agent_state")


def own_lines(error, source):
    """The traceback from the tool's first line on, with the text of its lines."""
    import linecache
    import traceback
    linecache.cache["tool.py"] = (len(source), None, source.splitlines(True), "tool.py")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != "tool.py":
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    return lines if trace is not None else [line for line in lines if "<pinfold>" not in line and "<string>" not in line]


def failed(tool, error):
    """The fields of a call that ended in an exception."""
    try:
        message = safe_text(error)
        if isinstance(error, SystemExit):
            message = "the tool called sys.exit(%s)" % ("" if error.code is None else safe_text(error.code))
        try:
            trace = "".join(own_lines(error, tool.request["source"]))
        except BaseException:
            trace = "".join("%s: %s\n" % (type(error).__name__, message))
        if len(trace) > 65536:
            trace = trace[:32768] + "\n…\n" + trace[-32768:]
        value = {"type": type(error).__name__, "message": message[:65536], "traceback": trace}
        fields = ['"ok": false', '"func_return": ' + tool.encode(value, "func_return")]
        if isinstance(tool.state, dict):
            fields.append('"agent_state": ' + state_json(tool))
        return fields
    except BaseException:
        return ['"ok": false', '"func_return": {"type": "Exception", "message": "it can\'t be told", "traceback": null}']


def times(a, b):
    """Polynomials over GF(2), bits reversed, modulo that of CRC-32C; 1 is 0x80000000."""
    product = 0
    while b:
        if b & 0x80000000:
            product ^= a
        b = b << 1 & 0xFFFFFFFF
        a = a >> 1 ^ (0x82F63B78 if a & 1 else 0)
    return product


def power(exponent):
    """x to the exponent."""
    result, square = 0x80000000, 0x40000000
    while exponent:
        if exponent & 1:
            result = times(result, square)
        square = times(square, square)
        exponent >>= 1
    return result


def crc32c_long(data, crc_step):
    """Folds the message onto its second half with shifts of whole numbers: a hundred times a loop over bytes."""
    rest = int.from_bytes(data, "little") ^ 0xFFFFFFFF
    size = len(data) * 8
    while size > 8192:
        keep = (size // 16 + 8) * 8  # bits of the second half, in whole bytes
        first = size - keep
        high = rest & (1 << first) - 1  # the low bits come first, and have the high powers
        factor, product, place = power(keep), 0, 0
        while factor:
            if factor & 1:
                product ^= high << place
            factor >>= 1
            place += 1
        rest = rest >> first ^ product << (keep - first - 31)
        size = keep
    return crc_step(0, rest.to_bytes(size // 8, "little")) ^ 0xFFFFFFFF
