"""Packages made by the tests, and an index of both installers that serves them on the loopback."""
import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import urllib.parse
import zipfile


def wheel(name, version, files=None, scripts=None, requires=()):
    """A wheel's file name and bytes; `files` maps paths to text, `scripts` names to "module:function"."""
    made = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    entries = dict(files if files is not None else {f"{name}.py": f"VERSION = {version!r}\n"})
    entries[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)
    entries[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        entries[f"{info}/entry_points.txt"] = "[console_scripts]\n" + "".join(f"{k} = {v}\n" for k, v in scripts.items())
    record = "".join(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},{len(text.encode())}\n"
                     for path, text in entries.items())
    entries[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in entries.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", made.getvalue()


def tar(folder, files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mode = len(text.encode()), 0o755 if path.startswith("bin/") else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


BACKEND = """import base64, hashlib, zipfile
NAME, VERSION = {name!r}, {version!r}
def build_wheel(folder, config=None, metadata=None):
    attack()
    name = f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
    info = f"{{NAME}}-{{VERSION}}.dist-info"
    with zipfile.ZipFile(f"{{folder}}/{{name}}", "w") as archive:
        archive.writestr(f"{{NAME}}.py", f"VERSION = {{VERSION!r}}\\nSEEN = {{seen()!r}}\\n")
        archive.writestr(f"{{info}}/METADATA", f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n")
        archive.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{{info}}/RECORD", "")
    return name
"""


def sdist(name, version, attack="def attack(): pass\ndef seen(): return None\n"):
    """A source package whose build runs `attack` (its functions attack() and seen()) without any other package."""
    project = f'[project]\nname = "{name}"\nversion = "{version}"\n[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    return f"{name}-{version}.tar.gz", tar(f"{name}-{version}", {
        "pyproject.toml": project, "backend.py": attack + BACKEND.format(name=name, version=version),
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"})


class Index:
    """`with Index() as index:` serves a simple index at /simple/ and a registry of npm at /npm/."""

    def __init__(self):
        self.pip, self.npm, self.asked = {}, {}, []
        self.elsewhere = {}  # by name: the origin that keeps its files
        self.gate = threading.Event()
        self.gate.set()  # closed by a test that wants an installation to hang

    def add(self, made):
        file, data = made
        name = file.split("-")[0].lower().replace("_", "-")
        self.pip.setdefault(name, {})[file] = data
        return hashlib.sha256(data).hexdigest()

    def add_npm(self, name, version, files, **package):
        facts = {"name": name, "version": version, **package}
        data = tar("package", {"package.json": json.dumps(facts), **files})
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        self.npm.setdefault(name, {})[version] = (facts, data, integrity)
        return integrity

    def __enter__(self):
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                index.asked.append(self.path)
                index.gate.wait(60)
                data, kind = index.answer(urllib.parse.unquote(self.path), self.headers["Host"])
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def pip_url(self):
        return f"http://127.0.0.1:{self.port}/simple/"

    @property
    def npm_url(self):
        return f"http://127.0.0.1:{self.port}/npm/"

    def answer(self, path, host):
        parts = path.strip("/").split("/")
        if parts[0] == "simple" and len(parts) == 2 and parts[1] in self.pip:
            links = "".join(f'<a href="{self.elsewhere.get(parts[1], "")}/files/{parts[1]}/{file}#sha256={hashlib.sha256(data).hexdigest()}">{file}</a>\n'
                            for file, data in self.pip[parts[1]].items())
            return f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html"
        if parts[0] == "files":
            return self.pip.get(parts[1], {}).get(parts[2]), "application/octet-stream"
        if parts[0] == "npm" and parts[-1].endswith(".tgz"):
            name, version = "/".join(parts[1:-1]), parts[-1][:-4]
            return self.npm.get(name, {}).get(version, (None, None))[1], "application/octet-stream"
        name = "/".join(parts[1:])
        if parts[0] == "npm" and name in self.npm:
            versions = {version: {**facts, "dist": {"integrity": integrity, "tarball": f"http://{host}/npm/{name}/{version}.tgz"}}
                        for version, (facts, _, integrity) in self.npm[name].items()}
            return json.dumps({"name": name, "dist-tags": {"latest": max(versions)}, "versions": versions}).encode(), "application/json"
        return None, "text/plain"
