"""Tools that use the network: what the policy lists is there, and nothing else; cold and warm, in both languages."""
import json
import shutil

import pytest

from egress_world import NEEDS_ROOT, inside, internet, world  # noqa: F401: fixtures

pytestmark = NEEDS_ROOT
URLLIB = """
import ssl, urllib.request
def f(url, certificate=None):
    context = ssl.create_default_context(cadata=certificate) if certificate else None
    with urllib.request.urlopen(url, timeout=60, context=context) as answer:
        return [answer.status, answer.read().decode()]
"""
FETCH = "export async function f(url) { const r = await fetch(url); return [r.status, await r.text()]; }"
ASYNCIO = """
import asyncio
async def f(hosts):
    async def one(host):
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, 80), 10)
            writer.write(b"GET /" + host.encode() + b" HTTP/1.0\\r\\nHost: " + host.encode() + b"\\r\\n\\r\\n")
            answer = (await reader.readuntil(host.encode())).decode()
            writer.close()
        except OSError as error:
            return type(error).__name__
        return answer.split("\\r\\n\\r\\n")[-1]
    return await asyncio.gather(*map(one, hosts))
"""


def call(inside, policy, source, language="python", **args):  # noqa: F811
    schema = {"name": "f", "parameters": {"type": "object", "properties": {key: {} for key in args}}}
    request = {"language": language, "name": "f", "source": source, "args": args, "json_schema": schema}
    argv = ["nsenter", f"--net=/run/netns/{inside.internet.host}", *inside.identity(), str(inside.program), "tool", "call", "--policy", policy]
    done = inside.call(argv, input=json.dumps(request).encode())
    return json.loads(done.stdout)


def listed(inside):  # noqa: F811
    return inside.reach({"host": "api.example.com", "ports": [80, 443]})


def test_urllib_reaches_a_listed_host(inside):  # noqa: F811
    result = call(inside, listed(inside), URLLIB, url="http://api.example.com/there")
    assert result["func_return"] == [200, "/there"], result
    assert result["usage"]["egress"]["allowed"] == 1 and result["usage"]["egress"]["bytes_in"] > 0


def test_urllib_checks_the_certificate_itself(inside):  # noqa: F811
    certificate = inside.internet.certificate.read_text()
    result = call(inside, listed(inside), URLLIB, url="https://api.example.com/there", certificate=certificate)
    assert result["status"] == "success", result
    assert call(inside, listed(inside), URLLIB, url="https://api.example.com/there")["func_return"]["type"] == "URLError"


@pytest.mark.parametrize("url", ["http://www.example.com/", "http://api.example.com:7000/", "http://192.0.2.10/", "http://10.66.0.1/", "http://169.254.169.254/latest"])
def test_urllib_reaches_nothing_else(inside, url):  # noqa: F811
    result = call(inside, listed(inside), URLLIB, url=url)
    assert result["status"] == "error" and "URLError" in result["func_return"]["traceback"], result
    assert result["usage"]["egress"]["allowed"] == 0


def test_asyncio_among_listed_and_other_hosts(inside):  # noqa: F811
    result = call(inside, listed(inside), ASYNCIO, hosts=["api.example.com", "www.example.com"])
    assert result["status"] == "success", result
    assert result["func_return"][0] == "/api.example.com" and result["func_return"][1] in ("gaierror", "ConnectionResetError", "ConnectionRefusedError"), result


@pytest.mark.skipif(shutil.which("node", path="/usr/bin:/usr/local/bin") is None, reason="the host has no node")
def test_fetch_reaches_a_listed_host_and_no_other(inside):  # noqa: F811
    assert call(inside, listed(inside), FETCH, "javascript", url="http://api.example.com/n")["func_return"] == [200, "/n"]
    assert call(inside, listed(inside), FETCH, "javascript", url="http://www.example.com/n")["func_return"]["type"] == "TypeError"
