"""Secrets from a program of the operator's, for runs and for kept sandboxes."""
import json
import os
import pathlib
import time

import pytest

from kept_sandbox import Kept


class Store(Kept):
    def __init__(self, pinfold):
        super().__init__(pinfold)
        self.program = pinfold.home / "secrets-command"
        self.seen = pinfold.home / "seen"
        self.seen.mkdir()
        os.chown(self.seen, pinfold.uid, pinfold.uid)
        self.log = pinfold.home / "log" / "audit.jsonl"
        self.env = pinfold.environment(PINFOLD_SECRETS=str(pinfold.home / "none"), PINFOLD_SECRETS_COMMAND=str(self.program),
                                       PINFOLD_AUDIT=str(self.log), LEAKED="from the caller")

    def write(self, script, mode=0o755):
        self.program.unlink(missing_ok=True)
        self.program.write_text("#!/bin/sh\n" + script)
        os.chown(self.program, self.pinfold.uid, self.pinfold.uid)
        self.program.chmod(mode)

    def call(self, verb, *arguments, **kwargs):
        return self.pinfold.call(self.argv(verb, *arguments), env=self.env, **kwargs)

    def run(self, *command, secrets=("KEY",)):
        asked = [part for name in secrets for part in ("--secret", name)]
        return json.loads(self.call("run", "--policy", self.pinfold.policy(secrets=["KEY", "OTHER"]), "--json", *asked, "--", *command).stdout)


@pytest.fixture
def store(pinfold):
    store = Store(pinfold)
    yield store
    store.close()


def test_its_output_is_the_value_and_is_masked(store):
    store.write('printf "value of %s\\n" "$1"')
    assert store.run("sh", "-c", 'echo "$KEY" ${#KEY}')["stdout"] == "*** 12\n"


def test_it_sees_a_clean_environment_no_input_and_one_argument(store):
    store.write(f'env > {store.seen}/env; cat > {store.seen}/in; echo "$#:$1" > {store.seen}/args; ls /proc/self/fd > {store.seen}/fds; echo some value')
    store.run("true")
    names = {line.split("=")[0] for line in (store.seen / "env").read_text().splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "PWD", "_", "SHLVL", "OLDPWD"} and (store.seen / "in").read_text() == ""
    assert (store.seen / "args").read_text() == "1:KEY\n" and (store.seen / "fds").read_text().split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("script, wanted", [
    ("exit 1", "nobody has it"), ("exit 3", "exit status 3"), ("kill -9 $$", "signal 9"), ("echo abc", "shorter than"),
    ("head -c 100000 /dev/zero | tr '\\0' x", "longer than")])
def test_a_value_that_cannot_be_had_refuses_the_run(store, script, wanted):
    store.write(script)
    result = store.run("true")
    assert wanted in result["error"]["message"] and "KEY" in result["error"]["message"]


def test_what_it_prints_as_errors_is_shown_to_nobody(store):
    store.write("echo very-secret-in-stderr >&2; exit 4")
    done = store.call("run", "--policy", store.pinfold.policy(secrets=["KEY"]), "--secret", "KEY", "--", "true")
    assert done.returncode == 125 and b"very-secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o644])
def test_a_program_that_others_could_change_is_not_run(store, mode):
    store.write("echo some value", mode=mode)
    assert "isn't a program" in store.run("true")["error"]["message"]


def test_a_name_that_the_policy_does_not_list_is_never_asked_for(store):
    store.write(f"touch {store.seen}/asked; echo some value")
    assert "error" in store.run("true", secrets=["NOTHING"]) and not (store.seen / "asked").exists()


def await_end(pid):
    """A process that has been killed dies when it next gets a processor; nobody may have taken its end then."""
    until = time.monotonic() + 60
    while True:
        try:
            if " Z " in pathlib.Path(f"/proc/{pid}/stat").read_text():
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        assert time.monotonic() < until, f"{pid} lives"
        time.sleep(0.01)


def test_one_that_hangs_is_ended_with_what_it_has_started(as_root):
    store = Store(as_root)
    store.write(f"sleep 1000 & echo $! > {store.seen}/pid; sleep 1000")
    started = time.monotonic()
    assert "ten seconds" in store.run("true")["error"]["message"] and time.monotonic() - started < 60
    await_end((store.seen / "pid").read_text().strip())


def test_a_kept_sandbox_asks_for_each_command_and_lets_the_others_go_on(store):
    store.write('echo first value')
    store.up("work", secrets=["KEY"])
    assert store.json("work", "sh", "-c", "echo ${#KEY}", options=["--secret", "KEY"])["stdout"] == "11\n"
    store.write(f'touch {store.seen}/asked; until [ -e {store.seen}/go ]; do sleep 0.02; done; echo another value')
    slow = store.pinfold.spawn(store.argv("exec", "work", "--secret", "KEY", "--", "sh", "-c", "test ${#KEY} = 13"), env=store.env)
    while not (store.seen / "asked").exists():
        assert slow.poll() is None
        time.sleep(0.01)
    assert store.exec("work", "true").returncode == 0 and slow.poll() is None
    (store.seen / "go").touch()
    assert slow.wait(60) == 0


def test_a_client_that_leaves_while_its_secret_is_asked_for_leaves_nothing(store):
    store.write(f'echo $$ > {store.seen}/pid; exec sleep 1000')
    store.up("work", secrets=["KEY"])
    slow = store.pinfold.spawn(store.argv("exec", "work", "--secret", "KEY", "--", "true"), env=store.env)
    while not (store.seen / "pid").exists() or not (store.seen / "pid").read_text():
        time.sleep(0.01)
    slow.kill()
    slow.wait()
    until = time.monotonic() + 60
    while store.show("work")["execs"] and time.monotonic() < until:
        time.sleep(0.01)
    assert store.show("work")["execs"] == []
    await_end((store.seen / "pid").read_text().strip())


def test_the_log_says_where_the_value_came_from(store):
    store.write("echo some value")
    policy = store.pinfold.policy(secrets=["KEY"], audit={"record": ["lifecycle"]})
    store.call("run", "--policy", policy, "--secret", "KEY", "--", "true")
    records = [json.loads(line) for line in store.log.read_text().splitlines()]
    assert [r["data"]["from"] for r in records if r["event"] == "secret"] == ["command"]
