"""A one-node Slurm that runs `srun --container=BUNDLE` by pinfold-oci, as docs/engines.md configures it."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

if os.geteuid() != 0:
    pytest.skip("Slurm is tried as root", allow_module_level=True)
NEEDED = ("slurmctld", "slurmd", "srun", "scancel", "munged", "busybox")
MISSING = [name for name in NEEDED if shutil.which(name) is None]
if MISSING:
    pytest.skip(f"not installed: {', '.join(MISSING)}", allow_module_level=True)

CONF = """ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd.log
SlurmctldPort={port}
SlurmdPort={next_port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=500 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
OCI = """RunTimeQuery="{oci} --root={home}/oci state %n.%u.%j.%s.%t"
RunTimeRun="{oci} --root={home}/oci run --bundle %b %n.%u.%j.%s.%t"
RunTimeKill="{oci} --root={home}/oci kill -a %n.%u.%j.%s.%t"
RunTimeDelete="{oci} --root={home}/oci delete --force %n.%u.%j.%s.%t"
"""


def free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def make_bundle(folder, oci):
    (folder / "rootfs/bin").mkdir(parents=True)
    for name in ("proc", "dev", "sys", "tmp"):
        (folder / "rootfs" / name).mkdir()
    shutil.copy(shutil.which("busybox"), folder / "rootfs/bin/busybox")
    for name in ("sh", "cat", "echo", "sleep", "true", "id"):
        os.symlink("busybox", folder / "rootfs/bin" / name)
    subprocess.run([oci, "spec", "--bundle", folder], check=True)
    config = json.loads((folder / "config.json").read_text())
    config["process"]["terminal"] = False
    (folder / "config.json").write_text(json.dumps(config))


class Slurm:
    def __init__(self, home, oci):
        self.home, self.daemons = home, []
        self.bundle = home / "bundle"
        make_bundle(self.bundle, oci)
        for name in ("etc", "state", "spool", "log", "munge"):
            (home / name).mkdir(mode=0o711 if name == "munge" else 0o755)
        port, next_port = free_ports()
        host = socket.gethostname().split(".")[0]
        (home / "etc/slurm.conf").write_text(CONF.format(home=home, host=host, port=port, next_port=next_port,
                                                         cpus=os.cpu_count()))
        (home / "etc/oci.conf").write_text(OCI.format(home=home, oci=oci))
        self.env = {**os.environ, "SLURM_CONF": str(home / "etc/slurm.conf")}

    def start(self, *argv):
        log = open(self.home / "log" / f"{pathlib.Path(argv[0]).name}.out", "wb")
        self.daemons.append(subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             start_new_session=True))

    def up(self):
        key = self.home / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.start("munged", "-F", "--force", f"--key-file={key}", f"--socket={self.home}/munge/socket",
                   f"--pid-file={self.home}/munge/pid", f"--log-file={self.home}/munge/log",
                   f"--seed-file={self.home}/munge/seed", "--num-threads=2")
        conf = str(self.home / "etc/slurm.conf")
        self.start("slurmctld", "-D", "-f", conf)
        self.start("slurmd", "-D", "-f", conf)
        deadline = time.monotonic() + 120
        while self.run("srun", "-t1", "true", timeout=60).returncode != 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
        return True

    def run(self, *argv, **more):
        more.setdefault("timeout", 60)
        try:
            return subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False, **more)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "timed out")

    def srun(self, *command, **more):
        return self.run("srun", f"--container={self.bundle}", *command, **more)

    def down(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()


@pytest.fixture(scope="module")
def slurm(programs, tmp_path_factory):
    home = tmp_path_factory.mktemp("slurm")
    for path in [home, *home.parents]:
        if path == pathlib.Path("/tmp"):
            break
        os.chmod(path, 0o755)
    cluster = Slurm(home, programs / "pinfold-oci")
    try:
        if not cluster.up():
            said = [log.read_text()[-300:] for log in (home / "log").glob("*.log")] # slurmd's may not be there yet
            pytest.skip(f"slurmd doesn't come up here: {said}")
        yield cluster
    finally:
        cluster.down()


def test_srun_passes_stdio_and_exit_codes(slurm):
    assert slurm.srun("/bin/echo", "hi").stdout == "hi\n"
    assert slurm.srun("/bin/cat", input="text").stdout == "text"
    for code in (0, 3, 4, 1):
        assert slurm.srun("/bin/sh", "-c", f"exit {code}").returncode == code
    done = slurm.srun("/bin/sh", "-c", "echo out; echo err >&2")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_the_step_is_in_the_container(slurm):
    assert slurm.srun("/bin/sh", "-c", "[ -e /bin/busybox ] && [ ! -e /usr ] && echo in").stdout == "in\n"
    assert slurm.srun("/no/such").returncode != 0


def test_scancel_ends_the_container_and_leaves_nothing(slurm):
    step = subprocess.Popen(["srun", f"--container={slurm.bundle}", "--job-name=long", "/bin/sh", "-c", "echo up; sleep 100"],
                            env=slurm.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert step.stdout.readline() == "up\n", step.communicate()
    slurm.run("scancel", "--name=long")
    assert step.wait(60) is not None
    deadline = time.monotonic() + 120
    while list((slurm.home / "oci").iterdir()):
        assert time.monotonic() < deadline, list((slurm.home / "oci").iterdir())
        time.sleep(0.2)
    assert slurm.srun("/bin/echo", "again").stdout == "again\n"
