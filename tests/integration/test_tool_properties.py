"""Laws of the conversion of arguments, over random schemas and values, with jsonschema as the judge of what is right."""
import json
import os
import random
import subprocess

import pytest

from conftest import build_directory

jsonschema = pytest.importorskip("jsonschema")
ROUNDS = int(os.environ.get("PINFOLD_PROPERTY_ROUNDS", "3000"))
TEXTS = ["", "a", "ab", "é", "𝄞x", "12", "1e3", "-0", "true", "null", "[1]", '{"a": 1}', " 1", "1 ", "0x1", "NaN", "a/b~c", "\n", "\x00", "9" * 30, "\u2028"]
NUMBERS = [0, 1, -1, 2, 7, 10, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -2.5, 1.0, 3.0, 1e300, 1e-300, 0.1]  # a real past 2**53 is no integer here: it may have been another
KEYS = ["a", "b", "c", "d/e", "f~g", "é"]


@pytest.fixture(scope="module")
def convert():
    process = subprocess.Popen([build_directory() / "tests/unit/args_harness"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(schema, args):
        process.stdin.write(json.dumps({"schema": {"name": "f", "parameters": schema}, "args": args}).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())
    yield ask
    process.stdin.close()
    assert process.wait(60) == 0  # whatever came


def valid(schema, value):
    """None: the judge goes round in a circle of references."""
    try:
        return jsonschema.Draft202012Validator(schema).is_valid(value)
    except RecursionError:
        return None


class Maker:
    """Random schemas of the known keywords, and values that fit them more or less."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, chance=0.5):
        return self.random.random() < chance

    def value(self, depth=0):
        kind = self.random.randrange(7 if depth < 4 else 5)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == 6:
            return {key: self.value(depth + 1) for key in self.random.sample(KEYS, self.random.randrange(4))}
        return [None, self.maybe(), self.random.choice(NUMBERS), self.random.choice(NUMBERS), self.random.choice(TEXTS)][kind]

    def schema(self, depth=0):
        kind = self.random.choice(["integer", "number", "string", "boolean", "null", "enum", "const", "array", "object", "anyOf", "types", "any", "ref"][:7 if depth > 3 else 13])
        return getattr(self, "of_" + kind, lambda _: {"type": kind})(depth)

    def bounds(self, low, high, chance=0.4):
        made = {}
        if self.maybe(chance):
            made[low] = self.random.choice([-3, 0, 1, 2])
        if self.maybe(chance):
            made[high] = self.random.choice([2, 3, 10, 2**53])
        return made

    def of_integer(self, _):
        return {"type": "integer", **self.bounds("minimum", "maximum"), **({"multipleOf": self.random.choice([1, 2, 5])} if self.maybe(0.2) else {})}

    def of_number(self, _):
        return {"type": "number", **self.bounds("exclusiveMinimum", "exclusiveMaximum")}

    def sizes(self, low, high):
        return {key: max(0, min(most, 4)) for key, most in self.bounds(low, high).items()}

    def of_string(self, _):
        return {"type": "string", **self.sizes("minLength", "maxLength")}

    def of_enum(self, depth):
        return {"enum": [self.value(3) for _ in range(self.random.randrange(1, 5))]}

    def of_const(self, depth):
        return {"const": self.value(3)}

    def of_array(self, depth):
        return {"type": "array", **self.sizes("minItems", "maxItems"), **({"items": self.schema(depth + 1)} if self.maybe(0.8) else {})}

    def of_object(self, depth):
        properties = {key: self.schema(depth + 1) for key in self.random.sample(KEYS, self.random.randrange(4))}
        made = {"type": "object", "properties": properties, "additionalProperties": self.random.choice([False, True, self.schema(4)])}
        if properties and self.maybe():
            made["required"] = self.random.sample(sorted(properties), self.random.randrange(1, len(properties) + 1))
        return made

    def of_anyOf(self, depth):
        return {self.random.choice(["anyOf", "allOf"]): [self.schema(depth + 1) for _ in range(self.random.randrange(1, 4))]}

    def of_types(self, _):
        return {"type": self.random.sample(["integer", "string", "null", "boolean", "number"], 2)}

    def of_any(self, _):
        return self.random.choice([{}, True, {"title": "t", "description": "d"}])

    def of_ref(self, _):
        return {"$ref": "#/$defs/" + self.random.choice("xy")}

    def fitting(self, schema, root, depth=0):
        """A value that the schema may have been meant for."""
        if schema is True or depth > 8 or self.maybe(0.08):
            return self.value(3)
        if "$ref" in schema:
            return self.fitting(root["$defs"][schema["$ref"][-1]], root, depth + 1)
        for key in ("anyOf", "allOf"):
            if key in schema:
                return self.fitting(self.random.choice(schema[key]), root, depth + 1)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        kind = self.random.choice(kind) if isinstance(kind, list) else kind
        if kind == "array":
            return [self.fitting(schema.get("items", True), root, depth + 1) for _ in range(self.random.randrange(schema.get("minItems", 0), 5))]
        if kind == "object":
            return {key: self.fitting(inner, root, depth + 1) for key, inner in schema["properties"].items() if key in schema.get("required", ()) or self.maybe(0.7)}
        if self.maybe(0.2):
            return self.value(4)
        return {"integer": self.random.choice([1, 2, 5, 7, 10, 2**53]), "number": self.random.choice(NUMBERS), "string": self.random.choice(TEXTS),
                "boolean": self.maybe(), "null": None}.get(kind, 1)

    def case(self):
        root = self.of_object(0)
        root["$defs"] = {"x": self.schema(4), "y": self.schema(3)}
        args = self.fitting(root, root)
        return root, args if isinstance(args, dict) else {"a": args}


def same(a, b):
    """As JSON: 1 and 1.0 are one number, true is none."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def cases(seed):
    for number in range(ROUNDS):
        yield Maker(seed * 1000003 + number).case()


def test_what_is_right_already_passes_and_is_left_as_it_is(convert):
    passed = 0
    for schema, args in cases(1):
        if not valid(schema, args):
            continue
        got = convert(schema, args)
        assert "args" in got, (schema, args, got)
        assert same(got["args"], args), (schema, args, got)
        passed += 1
    assert passed > ROUNDS // 10


def test_what_comes_out_is_right_and_stays_as_it_is(convert):
    taken = refused = converted = 0
    for schema, args in cases(2):
        got = convert(schema, args)
        if "args" not in got:
            refused += 1
            continue
        taken += 1
        converted += not same(got["args"], args)
        assert valid(schema, got["args"]), (schema, args, got)
        again = convert(schema, got["args"])
        assert same(again.get("args"), got["args"]), (schema, args, got, again)
    assert min(taken, refused) > ROUNDS // 20 and converted > ROUNDS // 100


def test_a_refusal_names_a_place_in_the_arguments(convert):
    for schema, args in cases(3):
        got = convert(schema, args)
        if "args" in got:
            continue
        assert got["findings"]
        for finding in got["findings"]:
            parts = finding["pointer"].split("/")[1:]
            assert parts[0] == "args" and finding["message"]
            place = args
            for position, part in enumerate(parts[1:], 1):
                name = part.replace("~1", "/").replace("~0", "~")
                if isinstance(place, str):  # a list or an object in a string
                    place = json.loads(place)
                if isinstance(place, list):
                    place = place[int(name)]
                elif name in place:
                    place = place[name]
                else:
                    assert position == len(parts) - 1, (finding, args)  # the one that is missing


def test_defaults_are_put_in_where_arguments_are_missing_and_nowhere_else(convert):
    for number in range(ROUNDS // 4):
        maker = Maker(number)
        inner = {key: maker.random.choice([{"type": "integer", "default": 5}, {"type": "string", "default": "é"}, {"type": ["null", "boolean"], "default": None},
                                           {"type": "array", "items": {}, "default": [1, {"a": None}]}, {"type": "number", "default": -0.5}]) for key in KEYS}
        given = {key: {"integer": 1, "string": "x", "array": [], "number": 2.5}.get(schema["type"] if isinstance(schema["type"], str) else "", True)
                 for key, schema in inner.items() if maker.maybe()}
        got = convert({"type": "object", "properties": inner}, given)
        assert same(got.get("args"), {key: given.get(key, schema["default"]) for key, schema in inner.items()}), (inner, given, got)


def test_a_default_that_its_own_schema_refuses_is_the_schemas_word(convert):
    for inner, default in (({"type": "integer"}, "5"), ({"enum": ["a"]}, "b"), ({"type": "string"}, None), ({"type": "array", "items": {"type": "integer"}}, ["x"])):
        schema = {"type": "object", "properties": {"a": {**inner, "default": default}, "b": {"type": "integer"}}}
        assert convert(schema, {"b": "1"}) == {"args": {"a": default, "b": 1}}, inner


@pytest.mark.parametrize("text", ["9" * 400, "1" + "0" * 18, "-9223372036854775808", "9223372036854775807", "9223372036854775808", "1e400", "-1e-400", "0.1e1", "--1", "1.", ".5", "+3", "",
                                  "1_000", "٣", "0b1", "1e", "e1", "infinity", "nan", " 4"])
def test_numbers_in_text_are_read_as_json_would_or_refused(convert, text):
    """Python reads it; what becomes of it is that number or a refusal, never another number."""
    for kind in ("integer", "number"):
        got = convert({"type": "object", "properties": {"a": {"type": kind}}}, {"a": text})
        if "args" in got:
            number = got["args"]["a"]
            assert number == (int(text) if text.lstrip("+-").isdigit() else float(text)) and (kind == "number" or number == int(number)), (text, got)


def test_depth_is_bounded_and_said(convert):
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}}
    for depth, fits in ((10, True), (500, False)):
        value = []
        for _ in range(depth):
            value = [value]
        got = convert(schema, {"a": value})
        assert ("args" in got) == fits and (fits or "deep" in got["findings"][0]["message"])
    loop = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/x"}}}
    assert "deep" in convert(loop, {"a": 1})["findings"][0]["message"]
