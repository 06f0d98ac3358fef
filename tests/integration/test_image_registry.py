"""pinfold image pull from registries that mean harm: on loopback, each hearing what it is asked."""
import base64
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

import image_bytes
from image_store import images  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(shutil.which("skopeo") is None, reason="needs skopeo")
SECRET = base64.b64encode(b"tester:s3cret").decode()


class Registry(http.server.ThreadingHTTPServer):
    """Serves `answers`, path below /v2/app/ to bytes or to a function of the request's handler; a path of a blob that isn't
    among them never ends. With a `realm`, it wants a token from there first."""
    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.realm, self.heard, self.silence = answers, None, [], threading.Event()

    def address(self, host="127.0.0.1"):
        return f"{host}:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0].removeprefix("/v2/app/")
        self.server.heard.append((path, self.headers.get("Authorization")))
        if self.server.realm and not self.headers.get("Authorization", "").startswith("Bearer "):
            return self.answer(b"{}", 401, {"WWW-Authenticate": f'Bearer realm="{self.server.realm}",service="s",scope="repository:app:pull"'})
        answer = self.server.answers.get(path, b"{}" if path == "/v2/" else None)
        if callable(answer):
            return answer(self)
        if answer is not None:
            return self.answer(answer)
        if not path.startswith("blobs/"):
            return self.answer(b"{}", 404)
        return endless(self)

    do_HEAD = do_GET

    def answer(self, data, status=200, headers={}):
        self.send_response(status)
        for name, value in {"Content-Type": kind(data), "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


def kind(data):
    try:
        return json.loads(data).get("mediaType", "application/json")
    except (ValueError, AttributeError):
        return "application/octet-stream"


def endless(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", image_bytes.MANIFEST)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b" " * (1 << 20))


def silent(handler):
    handler.server.silence.wait(60)
    handler.close_connection = True


def leads_to(url):
    return lambda handler: handler.answer(b"", 307, {"Location": url})


@contextlib.contextmanager
def serving(answers):
    with Registry(answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.silence.set()
            server.shutdown()


def documents(layer_size, machines=False, layer=image_bytes.OTHER, **more):
    """A manifest whose one layer isn't served, by its tag; and where it is one of an index, also by its digest."""
    config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer]}}).encode()
    manifest = json.dumps({"schemaVersion": 2, "mediaType": image_bytes.MANIFEST,
                           "config": {"mediaType": image_bytes.CONFIG, "digest": image_bytes.digest(config), "size": len(config)},
                           "layers": [{"mediaType": image_bytes.LAYER, "digest": layer, "size": layer_size, **more}]}).encode()
    index = json.dumps({"schemaVersion": 2, "mediaType": image_bytes.INDEX, "manifests": [
        {"mediaType": image_bytes.MANIFEST, "digest": image_bytes.digest(manifest), "size": len(manifest),
         "platform": {"os": "linux", "architecture": "amd64"}}]}).encode()
    return {"manifests/1": index if machines else manifest, "manifests/" + image_bytes.digest(manifest): manifest,
            "blobs/" + image_bytes.digest(config): config}


GOOD = image_bytes.LAYER_OK
GOOD_BLOB = "blobs/" + image_bytes.digest(GOOD)


def sound(**more):
    return {**documents(len(GOOD), layer=image_bytes.digest(GOOD), **more), GOOD_BLOB: GOOD}


@pytest.fixture
def credentials(tmp_path):
    """An authfile with a password for each registry."""
    def write(*registries):
        path = tmp_path / "auth.json"
        path.write_text(json.dumps({"auths": {registry.address(): {"auth": SECRET} for registry in registries}}))
        return path
    return write


def pull(images, registry, *options, **more):
    return images.call("pull", "--json", "--insecure", *options, "--name", "app", f"{registry.address()}/app:1", **more)


def refused(images, done):
    assert done.returncode == 125, (done.stdout, done.stderr)
    assert images.visible() == [] and images.leftovers() == []
    return json.loads(done.stdout)["error"]


# --- more than was announced, or something else --------------------------------------------------------------------

@pytest.mark.parametrize("machines", [False, True])
def test_a_blob_that_never_ends_is_cut_off_at_what_was_announced(images, machines):
    with serving(documents(6 << 20, machines)) as registry:
        assert refused(images, pull(images, registry, timeout=60))["message"]


def test_a_manifest_that_never_ends_is_cut_off(images):
    with serving({**documents(10), "manifests/1": endless}) as registry:
        assert refused(images, pull(images, registry, timeout=60))["message"]


def test_a_layer_beyond_every_bound_is_not_even_asked_for(images):
    with serving(documents(1 << 40)) as registry:
        error = refused(images, pull(images, registry))
        assert error["kind"] == "refused" and "1099511627776 bytes" in error["message"]
        assert not any(path.startswith("blobs/") for path, _ in registry.heard)


def test_a_manifest_that_is_not_the_one_that_was_asked_for_is_refused(images, tmp_path):
    """Even where skopeo lets it pass, which a program in its place does here."""
    wrapper = tmp_path / "wrapped"
    wrapper.mkdir()
    (wrapper / "manifest").write_bytes(documents(10)["manifests/1"])
    (wrapper / "skopeo").write_text(f"#!/bin/sh\ncat {wrapper}/manifest\n")
    (wrapper / "skopeo").chmod(0o755)
    error = images.refused("pull", "--name", "app", "registry.invalid/app@" + image_bytes.OTHER, PATH=f"{wrapper}:{os.environ['PATH']}")
    assert error["kind"] == "invalid" and "the registry gave" in error["message"]


@pytest.mark.parametrize("path", ["manifests/1", "blob"])
def test_a_registry_that_says_nothing_is_waited_for_as_long_as_was_said(images, path):
    with serving({**sound(), GOOD_BLOB if path == "blob" else path: silent}) as registry:
        error = refused(images, pull(images, registry, "--timeout", "3s", timeout=50))
        assert error["kind"] == "exhausted" and "--timeout" in error["hint"]


def test_a_registry_that_keeps_its_word_is_pulled_from(images):
    """The control: the same server, with what the manifest says."""
    with serving(sound()) as registry:
        assert pull(images, registry).returncode == 0


# --- somewhere else ------------------------------------------------------------------------------------------------

def test_a_layer_of_a_foreign_address_is_refused_before_anybody_is_asked(images, credentials, tmp_path):
    with serving({}) as recorder, serving({}) as registry:
        registry.answers.update(documents(len(GOOD), layer=image_bytes.digest(GOOD), urls=[f"http://{recorder.address()}/blobs/x"]))
        error = refused(images, pull(images, registry, "--authfile", credentials(registry, recorder)))
        assert "foreign layers" in error["message"] and recorder.heard == []
        # the control: skopeo alone goes there
        subprocess.run(["timeout", "20", "skopeo", "copy", "--src-tls-verify=false", f"docker://{registry.address()}/app:1", f"dir:{tmp_path}/out"],
                       capture_output=True)
        assert recorder.heard != []


def test_a_redirect_takes_no_password_along_and_its_bytes_must_be_right(images, credentials):
    """A host with the blobs is usual; what it gives counts by its digest."""
    evil = bytes(len(GOOD))
    with serving({"blobs/evil": evil, "blobs/good": GOOD}) as recorder, serving(sound()) as registry:
        for name in ("evil", "good"):
            recorder.heard.clear()
            registry.answers[GOOD_BLOB] = leads_to(f"http://{recorder.address('localhost')}/v2/app/blobs/{name}")
            done = pull(images, registry, "--authfile", credentials(registry))
            assert [auth for _, auth in recorder.heard] == [None]
            if name == "evil":
                refused(images, done)
        assert done.returncode == 0 and images.json("verify")["faults"] == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "gopher://127.0.0.1:1/", "/v2/app/" + GOOD_BLOB, "http://127.0.0.1:1/"])
def test_a_redirect_to_no_place_for_blobs_is_refused(images, url):
    with serving({**sound(), GOOD_BLOB: leads_to(url)}) as registry:
        refused(images, pull(images, registry, timeout=60))


def test_a_realm_elsewhere_gets_no_password_of_another_registry(images, credentials):
    """That it gets the registry's own is the protocol's way, and skopeo's: docs/images.md."""
    with serving({"/token": b'{"token": "t", "expires_in": 60}'}) as realm, serving(sound()) as registry, serving({}) as other:
        registry.realm = f"http://{realm.address()}/token"
        assert pull(images, registry, "--authfile", credentials(other)).returncode == 0
        assert realm.heard and {auth for _, auth in realm.heard} == {None}


def test_a_realm_that_is_no_address_is_refused(images, credentials):
    for where in ("file:///etc/passwd", "http://127.0.0.1:1/", "nonsense"):
        with serving(sound()) as registry:
            registry.realm = where
            refused(images, pull(images, registry, "--authfile", credentials(registry), timeout=60))


def test_without_tls_nothing_is_asked_and_no_password_said(images, credentials):
    with serving(sound()) as registry:
        done = images.call("pull", "--json", "--authfile", credentials(registry), "--name", "app", f"{registry.address()}/app:1")
        refused(images, done)
        assert registry.heard == []
        assert pull(images, registry, "--authfile", credentials(registry)).returncode == 0  # the control: where plain HTTP was allowed
