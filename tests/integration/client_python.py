"""The Python clients of this tree, and the sandboxes that their tests use."""
import asyncio
import contextlib
import pathlib
import sys
import time

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "tools/clients/python"
sys.path.insert(0, str(PACKAGE))

import pinfold as plain  # noqa: E402
from pinfold import aio  # noqa: E402

ADD = "def add(a: int, b: int):\n    print('adding')\n    return a + b"


def eventually(check, deadline=60):
    until = time.monotonic() + deadline
    while not check():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def where(as_root):
    return {"program": as_root.program, "state": as_root.state}


@pytest.fixture
def client(where):
    client = plain.SandboxClient(**where)
    yield client
    for sandbox in client.list():
        client.remove(sandbox["name"])


@pytest.fixture
def sandbox(client):
    with client.create(name="work", labels={"tenant": "a"}) as sandbox:
        yield sandbox


def run_async(where, body):
    """`body(sandbox)` in a sandbox of its own."""

    async def whole():
        client = aio.SandboxClient(**where)
        async with await client.create(name="work", labels={"tenant": "a"}) as sandbox:
            await body(sandbox)
        assert await client.list() == []

    asyncio.run(whole(), debug=True)


def supervisor_of(client, name):
    return next(one["supervisor"] for one in client.list() if one["name"] == name)


def remove_all(client):
    """Also what calls are having started behind them."""
    quiet = 0
    while quiet < 5:
        found = client.list()
        quiet = 0 if found else quiet + 1
        for sandbox in found:
            with contextlib.suppress(plain.SandboxNotFound):  # the pool removes its own as well
                client.remove(sandbox["name"])
        time.sleep(0.1)
