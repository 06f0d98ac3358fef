"""containerd's CRI with a handler of its own for pinfold-oci: the calls that a kubelet (and crictl) makes, by gRPC.

The pods are on the host's network, so that no CNI plugin is needed. Messages are encoded by hand: field numbers are those
of runtime/v1 in k8s.io/cri-api.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import tomllib

import pytest

from test_engines import BUSYBOX, image, needs, podman, wait_for  # noqa: F401 (fixtures)

grpc = pytest.importorskip("grpc", reason="needs python3-grpcio")
if os.geteuid() != 0:
    pytest.skip("engines are tried as root", allow_module_level=True)
NODE = 2  # NamespaceMode


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def encode(fields):
    """{number: int, str, bytes, dict, or a list of these}"""
    out = b""
    for number, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int):
                out += varint(number << 3) + varint(item)
            else:
                data = encode(item) if isinstance(item, dict) else item.encode() if isinstance(item, str) else item
                out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def decode(data):
    """{number: [int or bytes]}"""
    fields, at = {}, 0

    def take():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
    while at < len(data):
        key = take()
        if key & 7 == 0:
            value = take()
        else:
            size = take()
            value = data[at:at + size]
            at += size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def documented(language):
    """What docs/engines.md has of containerd's configuration: a new user would paste it."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/engines.md").read_text()
    return re.search(rf"## containerd and Kubernetes\n.*?```{language}\n(.*?)```", text, re.S)[1]


def test_the_manifest_names_the_handler_of_the_configuration():
    yaml = pytest.importorskip("yaml", reason="needs python3-yaml")
    manifest = yaml.safe_load(documented("yaml"))
    assert manifest == {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "pinfold"}, "handler": "pinfold"}
    runtimes = tomllib.loads(documented("toml"))["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    assert manifest["handler"] in runtimes


class Cri:
    def __init__(self, socket):
        self.socket = socket
        self.channel = grpc.insecure_channel(f"unix://{socket}")
        self.log = None

    def call(self, name, fields):
        method = self.channel.unary_unary(f"/runtime.{self.version}.RuntimeService/{name}", request_serializer=encode,
                                          response_deserializer=decode)
        return method(fields, timeout=60)

    def find_version(self):
        for self.version in ("v1", "v1alpha2"):  # their messages are the same; some builds have one of them alone
            try:
                return bool(self.call("Version", {}))
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                    raise
        return False

    def pod(self, name, handler="pinfold", **more):
        config = {1: {1: name, 2: name, 3: "default"}, 3: str(self.log),
                  8: {1: "/pinfold-test", 2: {1: {1: NODE}, 9: {1: 0}}}, **more}
        return self.call("RunPodSandbox", {1: config, 2: handler})[1][0].decode(), config

    def container(self, pod, config, name, *command, **linux):
        made = self.call("CreateContainer", {1: pod, 2: {
            1: {1: name}, 2: {1: self.image}, 3: list(command), 11: f"{name}.log",
            15: {2: {3: {1: NODE}, 15: {1: 0}}, **linux}}, 3: config})
        return made[1][0].decode()

    def status(self, container):
        return decode(self.call("ContainerStatus", {1: container})[1][0])

    def wait(self, container):
        deadline = time.monotonic() + 60
        while self.status(container)[3][0] != 2:  # CONTAINER_EXITED
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self.status(container)

    def end(self, pod):
        self.call("StopPodSandbox", {1: pod})
        self.call("RemovePodSandbox", {1: pod})


@pytest.fixture(scope="module")
def cri(programs, podman, tmp_path_factory):  # noqa: F811
    needs("containerd", "ctr")
    home = tmp_path_factory.mktemp("cri")
    (home / "config.toml").write_text(f"""version = 2
root = "{home}/root"
state = "{home}/state"
[grpc]
  address = "{home}/sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:latest"
  restrict_oom_score_adj = true
  disable_apparmor = true
""" + documented("toml").replace("/usr/bin/pinfold-oci", str(programs / "pinfold-oci")))
    with open(home / "log", "wb") as log:
        daemon = subprocess.Popen(["containerd", "-c", str(home / "config.toml")], stdout=log, stderr=log)
    try:
        wait_for(home / "sock", daemon)
        done = podman("import", "--change", "ENTRYPOINT [\"/bin/sleep\",\"1000000\"]", podman.tar, "localhost/pause")
        assert done.returncode == 0, done.stderr
        for name in ("bb", "pause"):
            assert podman("save", "--format", "docker-archive", "-o", home / name, f"localhost/{name}").returncode == 0
            subprocess.run(["ctr", "-a", home / "sock", "-n", "k8s.io", "images", "import", home / name], check=True,
                           stdout=subprocess.DEVNULL)
        client = Cri(home / "sock")
        if not client.find_version():
            pytest.skip("this containerd has no CRI: " + (home / "log").read_text()[-300:])
        client.image, client.log = "localhost/bb:latest", home / "logs"
        yield client
    finally:
        daemon.terminate()
        daemon.wait(60)
        for mounted in reversed([line.split()[1] for line in open("/proc/mounts", encoding="utf-8")]):
            if mounted.startswith(str(home)):
                subprocess.run(["umount", "-l", mounted], check=False)
        shutil.rmtree(home, ignore_errors=True)


def test_crictl_runs_a_pod_with_the_handler(cri, tmp_path):
    """The same by the tool that an operator has: Debian 12 has no package of it, nor have PyPI, npm and Go's module proxy, so
    that it is skipped unless somebody has put it there."""
    needs("crictl")
    config = {"metadata": {"name": "crictl", "namespace": "default", "uid": "crictl"}, "log_directory": str(cri.log),
              "linux": {"cgroup_parent": "/pinfold-test", "security_context": {"namespace_options": {"network": NODE}}}}
    container = {"metadata": {"name": "c"}, "image": {"image": cri.image}, "command": ["/bin/sleep", "1000"], "log_path": "crictl.log",
                 "linux": {"security_context": {"namespace_options": {"network": NODE}}}}
    (tmp_path / "pod.json").write_text(json.dumps(config))
    (tmp_path / "container.json").write_text(json.dumps(container))

    def crictl(*words):
        done = subprocess.run(["crictl", "--runtime-endpoint", f"unix://{cri.socket}", "--image-endpoint", f"unix://{cri.socket}", *map(str, words)],
                              capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
    pod = crictl("runp", "--runtime", "pinfold", tmp_path / "pod.json")
    try:
        name = crictl("create", pod, tmp_path / "container.json", tmp_path / "pod.json")
        crictl("start", name)
        assert crictl("exec", "--sync", name, "echo", "in") == "in"
        crictl("stop", "--timeout", "0", name)
        crictl("rm", name)
    finally:
        crictl("stopp", pod)
        crictl("rmp", pod)


def test_a_pod_with_the_handler_runs_a_container_to_its_exit_code(cri):
    pod, config = cri.pod("one")
    try:
        container = cri.container(pod, config, "c", "/bin/sh", "-c", "echo hi; exit 7")
        cri.call("StartContainer", {1: container})
        status = cri.wait(container)
        assert status[7][0] == 7
        assert "stdout F hi" in (cri.log / "c.log").read_text()
        cri.call("RemoveContainer", {1: container})
    finally:
        cri.end(pod)


def test_exec_stop_and_the_states_between(cri):
    pod, config = cri.pod("two")
    try:
        container = cri.container(pod, config, "c", "/bin/sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.1; done")
        assert cri.status(container)[3] == [0] if 3 in cri.status(container) else True  # CONTAINER_CREATED
        cri.call("StartContainer", {1: container})
        done = cri.call("ExecSync", {1: container, 2: ["/bin/sh", "-c", "echo in; echo err >&2; exit 4"], 3: 10})
        assert (done[1], done[2], done[3]) == ([b"in\n"], [b"err\n"], [4])
        filtered = cri.call("ExecSync", {1: container, 2: ["/bin/grep", "Seccomp:", "/proc/self/status"], 3: 10})
        assert filtered[1] == [b"Seccomp:\t2\n"]
        cri.call("UpdateContainerResources", {1: container, 2: {4: 80 << 20}})
        cri.call("StopContainer", {1: container, 2: 10})
        assert cri.wait(container)[7][0] == 3
    finally:
        cri.end(pod)


def test_what_can_not_be_executed_is_told(cri):
    pod, config = cri.pod("three")
    try:
        container = cri.container(pod, config, "c", "nosuch")
        with pytest.raises(grpc.RpcError) as error:
            cri.call("StartContainer", {1: container})
        assert "executable file not found in $PATH" in error.value.details()
        with pytest.raises(grpc.RpcError) as error:
            cri.pod("four", handler="no-such-handler")
        assert "no runtime for" in error.value.details()
    finally:
        cri.end(pod)
