"""The Python client for asyncio against the real runtime."""
import asyncio
import os
import signal

import pytest

from client_python import aio, client, plain, run_async, sandbox, where  # noqa: F401 (fixtures)


def test_asyncio_tells_and_ends_a_supervisor_that_is_stopped(where):
    async def body():
        client = aio.SandboxClient(**where, answer_timeout=0.2)
        sandbox = await client.create(name="work")
        process = await sandbox.start(["sleep", "1000"])
        os.kill((await client.list())[0]["supervisor"], signal.SIGSTOP)
        for ask in (sandbox.show, sandbox.pause, process.kill):
            with pytest.raises(plain.SandboxExhausted, match="doesn't answer"):
                await ask()
        await sandbox.kill()
        process.close()
        await client.remove("work")

    asyncio.run(body(), debug=True)


def test_asyncio_runs_many_at_once(where):
    async def body(sandbox):
        results = await asyncio.gather(*(sandbox.shell(f"echo {number}") for number in range(40)))
        assert [result.stdout for result in results] == [f"{number}\n" for number in range(40)]

    run_async(where, body)


def test_asyncio_cancelling_ends_the_command(where):
    async def body(sandbox):
        task = asyncio.ensure_future(sandbox.shell("sleep 1000 & sleep 1000"))
        while not (await sandbox.show())["execs"]:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while (await sandbox.show())["execs"]:
            await asyncio.sleep(0.01)

    run_async(where, body)


def test_asyncio_streams_both_ways(where):
    async def body(sandbox):
        async with await sandbox.start(["sh", "-c", "cat; echo end >&2"], stdin=True) as process:

            async def feed():
                for _ in range(50):
                    await process.write(b"x" * 10_000)
                process.close_stdin()

            feeding = asyncio.ensure_future(feed())
            sizes = {"stdout": 0, "stderr": 0}
            async for name, data in process:
                sizes[name] += len(data)
            await feeding
            assert sizes == {"stdout": 500_000, "stderr": 4} and (await process.wait()).ok

    run_async(where, body)


def test_asyncio_signals_refusals_and_ends_are_told(where):
    async def body(sandbox):
        async with await sandbox.start(["sleep", "1000"]) as process:
            with pytest.raises(plain.InvalidRequest):
                await process.resize(1, 1)
            await process.signal(signal.SIGTERM)
            assert (await process.wait()).signal == "SIGTERM"
        async with await sandbox.start(["sleep", "1000"]) as process:
            await process.kill()
            assert (await process.wait()).signal == "SIGKILL"
        with pytest.raises(plain.InvalidRequest):
            async with await sandbox.start(["true"], cwd="relative"):
                pass
        await sandbox.write_file("/tmp/x", "y")
        assert await sandbox.read_file("/tmp/x") == b"y"
        assert [record.kind async for record in sandbox.logs(tail=1)] == ["end"]
        number = await sandbox.detach(["sh", "-c", "read x; echo got $x"], interactive=True)
        async with await sandbox.attach(number, stdin=True) as process:
            await process.write("it\n")
            assert (await process.wait()).stdout == "got it\n"
        process = await sandbox.start(["sleep", "1000"])
        os.kill((await sandbox.show())["supervisor"], signal.SIGKILL)
        with pytest.raises(plain.SandboxGone):
            await process.wait()
        process.close()

    run_async(where, body)
