"""A client's connection: `pinfold tool serve`."""
import json
import os
import select
import subprocess


class Server:
    """A client's `tool serve`."""

    def __init__(self, pinfold, *options):
        self.process = pinfold.spawn([str(pinfold.program), "tool", "serve", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number, self.unread = 0, []

    def send(self, line):
        self.process.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.process.stdin.flush()

    def receive(self, seconds=60):
        """The next line: of two that come together one is kept, and isn't looked for in the pipe."""
        while not any(b"\n" in part for part in self.unread):
            assert select.select([self.process.stdout], [], [], seconds)[0], "no answer"
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            assert part, "it has ended"
            self.unread.append(part)
        line, rest = b"".join(self.unread).split(b"\n", 1)
        self.unread = [rest]
        return json.loads(line)

    def call(self, source, args=None, reuse="fingerprint", language="python", name="f", **fields):
        self.number += 1
        self.send({"id": self.number, "call": {"language": language, "name": name, "source": source, "args": args or {}, "reuse": reuse, **fields}})
        answer = self.receive()
        assert answer["id"] == self.number, answer
        return answer

    def value(self, source, args=None, **fields):
        answer = self.call(source, args, **fields)
        assert answer.get("result", {}).get("status") == "success", answer
        return answer["result"]["func_return"]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()
