"""pinfold config, pinfold env: stored configurations of tool calls, and their variables."""
import json
import os
import sqlite3
import stat
import subprocess

import pytest

SECRET = "s3cr3t-value-of-a-test"


class Store:
    """The commands, with a store and keys of the test's own."""

    def __init__(self, pinfold):
        self.pinfold = pinfold
        self.folder, self.keys = pinfold.home / "config", pinfold.home / "keys"
        self.file = self.folder / "configurations.db"

        self.plain = pinfold.environment

    def env(self, **extra):
        return self.plain(PINFOLD_KEYS=str(self.keys), **extra)

    def raw(self, *words, input=b"", **extra):
        return self.pinfold.call([str(self.pinfold.program), *words], input=input, env=self.env(**extra))

    def __call__(self, family, verb, *words, content=None, input=None, **extra):
        """The JSON of a command that succeeds."""
        text = json.dumps(content).encode() if content is not None else (input or b"")
        done = self.raw(family, verb, "--json", *words, input=text, **extra)
        assert done.returncode == 0, done.stdout
        assert done.stderr == b""
        return json.loads(done.stdout)

    def refused(self, family, verb, *words, content=None, input=None, **extra):
        text = json.dumps(content).encode() if content is not None else (input or b"")
        done = self.raw(family, verb, "--json", *words, input=text, **extra)
        assert done.returncode == 125, done.stdout
        return json.loads(done.stdout)["error"]


@pytest.fixture
def store(pinfold):
    return Store(pinfold)


@pytest.fixture
def root_store(as_root):
    return Store(as_root)


def names(listing):
    return {(row["organisation"], row["name"]): row["default"] for row in listing["configurations"]}


def test_a_default_is_made_where_there_is_none(store):
    shown = store("config", "get")
    assert (shown["name"], shown["organisation"], shown["configuration"], shown["env"]) == ("default", "default", {}, [])
    assert names(store("config", "list", "--organisation", "acme")) == {("acme", "default"): True}
    assert names(store("config", "list", "--all")) == {("acme", "default"): True, ("default", "default"): True}


def test_several_of_an_organisation_and_one_default(store):
    store("config", "create", "a", "-", content={"memory": "64MiB"})
    store("config", "create", "--default", "b")
    assert names(store("config", "list")) == {("default", "a"): False, ("default", "b"): True}
    assert store("config", "default", "a")["name"] == "a"
    assert names(store("config", "list")) == {("default", "a"): True, ("default", "b"): False}
    store("config", "delete", "a")
    assert names(store("config", "list")) == {("default", "b"): False, ("default", "default"): True}
    assert store.refused("config", "default", "a")["kind"] == "not_found"
    assert store("config", "get")["name"] == "default"  # a refused choice changes nothing


def test_the_default_can_be_changed_before_anything_has_made_it(store):
    """Errors of calls without a configuration say: add this to the configuration 'default'."""
    assert store("config", "update", "default", "-", content={"pids": 9})["configuration"] == {"pids": 9}
    assert names(store("config", "list")) == {("default", "default"): True}


def test_an_update_changes_the_digest_and_undoing_it_brings_it_back(store):
    first = store("config", "create", "a", "-", content={"memory": "64MiB", "pids": 9})
    second = store("config", "update", "a", "-", content={"memory": None, "timeout": "3s"})
    assert second["configuration"] == {"pids": 9, "timeout": "3s"}
    assert second["digest"] != first["digest"]
    third = store("config", "update", "--replace", "a", "-", content={"pids": 9, "memory": "64MiB"})
    assert third["digest"] == first["digest"]


@pytest.mark.parametrize("content, pointer, message", [
    (b"{", "-:1", ""),
    (b"[]", "-:1:1", "object"),
    (b'{"polcy": "x"}', "-:1:2", "polcy"),
    (b'{"pids": 1, "pids": 2}', "/pids", ""),
    (b'\xef\xbb\xbf{}', "-:1", ""),
    (b'{"pip_requirements": ["x @ https://evil/x.whl"]}', "/pip_requirements/0", "part of a requirement"),
    (b'{"npm_requirements": ["file:../x"]}', "/npm_requirements/0", ""),
    (b'{"policy": "../../etc/passwd"}', "/policy", ""),
    (b"{" + b'"a":{' * 50 + b"}" * 51, "-:1", ""),
])
def test_bad_content_is_refused_with_its_place_and_stores_nothing(as_root, content, pointer, message):
    store = Store(as_root)
    error = store.refused("config", "create", "a", "-", input=content)
    assert pointer in error["pointer"] and message in error["message"], error
    assert not store.file.exists()
    store("config", "create", "a")
    store.refused("config", "update", "a", "-", input=content)
    assert store("config", "get", "a")["configuration"] == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "-x", "x" * 64, "\u00e4"])
def test_names_are_strict(root_store, name):
    assert root_store.raw("config", "create", "--", name).returncode == 125
    assert root_store.refused("config", "get", "--organisation", name)["kind"] == "usage"


def test_what_exists_is_not_made_again_and_what_does_not_is_not_found(root_store):
    root_store("config", "create", "a")
    assert root_store.refused("config", "create", "a")["kind"] == "exists"
    for words in (["get", "b"], ["delete", "b"], ["update", "b", "-"]):
        assert root_store.refused("config", *words, input=b"{}")["kind"] == "not_found"


def test_variables_are_set_listed_and_unset(store):
    store("env", "set", "A=1", "B=x=y", "C=")
    store("env", "set", "--null", "PATH")
    listed = store("env", "list")["env"]
    assert [(v["name"], v["kind"], v["value"]) for v in listed] == [
        ("A", "value", "1"), ("B", "value", "x=y"), ("C", "value", ""), ("PATH", "null", None)]
    assert store.refused("env", "unset", "A", "NOPE")["kind"] == "not_found"
    assert len(store("env", "list")["env"]) == 4  # all of them or none
    assert [v["name"] for v in store("env", "unset", "A", "B", "C")["env"]] == ["PATH"]
    for words in (["A"], ["=x"], ["9=x"], ["a-b=x"], ["--null", "A=1"], ["--secret", "A=1"]):
        assert store.refused("env", "set", *words)["kind"] == "usage", words
    assert store.refused("env", "set", "--configuration", "nope", "A=1")["kind"] == "not_found"


def test_a_secret_is_sealed_at_rest_and_never_listed(store):
    store("env", "set", "--secret", "KEY", input=SECRET.encode() + b"\n")
    assert store("env", "list")["env"] == [{"name": "KEY", "kind": "secret", "value": None}]
    assert SECRET.encode() not in store.raw("env", "list").stdout + store.raw("config", "get").stdout
    for path in [*store.folder.iterdir(), *store.keys.iterdir()]:
        assert SECRET.encode() not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) in (0o600, 0o400)
    assert stat.S_IMODE((store.keys / "environment.key").stat().st_mode) == 0o400
    assert stat.S_IMODE(store.folder.stat().st_mode) == stat.S_IMODE(store.keys.stat().st_mode) == 0o700
    with sqlite3.connect(store.file) as base:
        before = base.execute("SELECT sealed FROM variable").fetchone()
    store("env", "set", "--secret", "KEY", input=SECRET.encode())
    with sqlite3.connect(store.file) as base:
        assert base.execute("SELECT sealed FROM variable").fetchone() != before  # a new nonce each time


def unsealed(store, **extra):
    with sqlite3.connect(store.file) as base:
        rows = base.execute("SELECT organisation, configuration.name, variable.name, sealed FROM variable"
                            " JOIN configuration ON id = configuration WHERE sealed IS NOT NULL").fetchall()
    keys = ("organisation", "configuration", "name", "sealed")
    return store.raw("config", "unseal", input=json.dumps([dict(zip(keys, row)) for row in rows]).encode(), **extra)


def test_a_sealed_value_is_bound_to_its_place_and_its_key(root_store):
    store = root_store
    store("env", "set", "--secret", "KEY", input=SECRET.encode())
    assert unsealed(store).stdout == f"KEY={SECRET}\0".encode()
    with sqlite3.connect(store.file) as base:
        base.execute("UPDATE variable SET name = 'OTHER'")
    moved = unsealed(store)
    assert moved.returncode == 125 and moved.stdout == b"" and b"of another variable" in moved.stderr
    with sqlite3.connect(store.file) as base:
        base.execute("UPDATE variable SET name = 'KEY', sealed = substr(sealed, 1, 42) || "
                     "CASE substr(sealed, 43, 1) WHEN '0' THEN '1' ELSE '0' END || substr(sealed, 44)")
    assert b"damaged" in unsealed(store).stderr
    store("env", "set", "--secret", "KEY", input=SECRET.encode())
    (store.keys / "environment.key").unlink()
    missing = unsealed(store)
    assert missing.returncode == 125 and b"environment.key" in missing.stderr and not (store.keys / "environment.key").exists()
    store("env", "set", "--secret", "NEW", input=SECRET.encode())  # makes another key
    assert b"sealed with another key" in unsealed(store).stderr


def test_the_key_is_the_hosts_credential_where_there_is_one(root_store):
    credentials = root_store.pinfold.home / "credentials"
    credentials.mkdir()
    (credentials / "pinfold.environment-key").write_bytes(b"k" * 32)
    given = {"CREDENTIALS_DIRECTORY": str(credentials)}
    root_store("env", "set", "--secret", "KEY", input=SECRET.encode(), **given)
    assert not root_store.keys.exists()
    assert unsealed(root_store, **given).stdout == f"KEY={SECRET}\0".encode()
    assert unsealed(root_store).returncode == 125
    (credentials / "pinfold.environment-key").write_bytes(b"k" * 31)
    assert root_store.refused("env", "set", "--secret", "KEY", input=SECRET.encode(), **given)["kind"] == "syntax"


@pytest.mark.parametrize("value", [b"", b"abc", b"abc\n", b"zero\0byte", b"x" * (64 * 1024 + 2)])
def test_what_can_not_be_masked_or_handed_over_is_no_secret(root_store, value):
    assert root_store.refused("env", "set", "--secret", "KEY", input=value)["kind"] == "invalid"
    assert root_store("env", "list")["env"] == []


def test_the_name_of_a_secret_has_its_bounds(root_store):
    root_store("env", "set", "--secret", "K" * 127, input=SECRET.encode())
    assert root_store.refused("env", "set", "--secret", "K" * 128, input=SECRET.encode())["kind"] == "usage"


def test_a_damaged_store_is_refused_and_left_as_it_is(root_store):
    store = root_store
    for number in range(40):
        store("env", "set", *(f"V{number}_{i}={'x' * 200}" for i in range(20)))
    whole = store.file.read_bytes()
    for damaged in (b"no database", whole[:5000], whole[:4096] + b"\xff" * 8192 + whole[12288:]):
        store.file.write_bytes(damaged)
        error = store.refused("config", "list")
        assert error["kind"] == "syntax" and "damaged" in error["message"] and str(store.file) in error["pointer"], error
        assert store.file.read_bytes() == damaged
    store.file.write_bytes(whole)
    assert len(store("env", "list")["env"]) == 800


def test_a_store_of_another_program_or_of_a_later_version_is_not_touched(root_store):
    store = root_store
    store.folder.mkdir(mode=0o700)
    with sqlite3.connect(store.file) as base:
        base.execute("CREATE TABLE other (x)")
    os.chmod(store.file, 0o600)
    assert "isn't a store" in store.refused("config", "list")["message"]
    store.file.unlink()
    store("config", "list")
    with sqlite3.connect(store.file) as base:
        base.execute("PRAGMA user_version = 99")
    before = store.file.read_bytes()
    assert store.refused("config", "list")["kind"] == "unsupported"
    assert store.file.read_bytes() == before


def test_a_store_of_the_first_version_is_brought_up(root_store):
    store = root_store
    store("config", "create", "old", "-", content={"pids": 3})
    with sqlite3.connect(store.file) as base:
        base.execute("DROP TABLE variable")
        base.execute("PRAGMA user_version = 1")
    store("env", "set", "--configuration", "old", "A=1")
    assert store("config", "get", "old")["env"] == ["A"]


def test_a_store_that_others_can_enter_is_refused(root_store):
    root_store("config", "list")
    for path in (root_store.folder, root_store.file):
        mode = path.stat().st_mode
        path.chmod(mode | 0o044)
        assert root_store.refused("config", "list")["kind"] == "refused"
        path.chmod(mode)
    root_store("config", "list")


def test_many_writers_at_once_lose_nothing(root_store):
    store = root_store
    running = [store.pinfold.spawn([str(store.pinfold.program), "config", "create", f"c{number}"], env=store.env(),
                                   stdout=subprocess.DEVNULL) for number in range(16)]
    running += [store.pinfold.spawn([str(store.pinfold.program), "env", "set", f"V{number}={number}"], env=store.env(),
                                    stdout=subprocess.DEVNULL) for number in range(16)]
    assert [process.wait(timeout=60) for process in running] == [0] * 32
    assert len(store("config", "list")["configurations"]) == 17
    assert len(store("env", "list")["env"]) == 16


def test_a_writer_that_is_killed_leaves_the_store_whole(root_store):
    store = root_store
    store("config", "create", "a")
    for delay in range(8):
        process = store.pinfold.spawn([str(store.pinfold.program), "env", "set", *(f"K{i}={delay}" for i in range(200))],
                                      env=store.env(), stdout=subprocess.DEVNULL)
        try:
            process.wait(timeout=0.004 * delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        values = {v["value"] for v in store("env", "list")["env"]}
        assert len(values) <= 1 and len(store("env", "list")["env"]) in (0, 200)


def test_text_for_people(root_store):
    root_store("config", "create", "--default", "web", "-", content={"description": "\u001b[31mred"})
    listing = root_store.raw("config", "list").stdout.decode()
    assert "*web" in listing and "\u001b" not in listing
    root_store("env", "set", "A=\u001b[1m")
    assert "\u001b" not in root_store.raw("env", "list").stdout.decode()
    for words in (["config", "--help"], ["env", "--help"], ["config", "create", "--help"], ["env", "set", "--help"],
                  ["config", "man", "create"], ["env", "man", "set"], ["config", "completion"]):
        done = root_store.raw(*words)
        assert done.returncode == 0 and len(done.stdout) > 100, words
    assert json.loads(root_store.raw("config", "get", "web", "--json").stdout)["name"] == "web"  # as the examples have it
    for words in (["update", "web", "-"], ["create", "new", "-", "--default"], ["update", "new", "--json", "-"]):
        assert root_store.raw("config", *words, input=b'{"memory": "1GiB"}').returncode == 0, words
    assert b"did you mean 'default'" in root_store.raw("config", "defalt").stderr
