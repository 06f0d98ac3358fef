"""OCI's own validation programs (runtime-tools), each that runc 1.1 or crun 1.8 passes on such a machine.

tools/build-oci-validation makes them. The other programs fail for every runtime on cgroup v1 without all controllers, ask
for more than this machine's root may, or contradict the specification: see OTHERS.
"""
import io
import os
import pathlib
import shlex
import subprocess
import tarfile

import pytest

if os.geteuid() != 0:
    pytest.skip("engines' runtimes are tried as root", allow_module_level=True)
ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("PINFOLD_OCI_VALIDATION", ROOT / "build/oci-validation")) \
    / "gopath/src/github.com/opencontainers/runtime-tools"
if not list(TOOLS.glob("../../../../../made-*")):
    pytest.skip("not built: tools/build-oci-validation", allow_module_level=True)

PROGRAMS = """
    config_updates_without_affect create default delete_only_create_resources delete_resources hooks hooks_stdin
    hostname kill kill_no_effect killsig linux_cgroups_cpus linux_cgroups_devices linux_cgroups_pids
    linux_cgroups_relative_cpus linux_cgroups_relative_devices linux_cgroups_relative_pids linux_devices
    linux_masked_paths linux_mount_label linux_ns_itype linux_ns_nopath linux_ns_path linux_ns_path_type
    linux_readonly_paths linux_rootfs_propagation linux_seccomp linux_sysctl linux_uid_mappings mounts pidfile poststart poststart_fail poststop poststop_fail
    prestart prestart_fail process process_oom_score_adj process_user root_readonly_true state
""".split()
OTHERS = {
    "delete": "counts on `delete` to refuse a created container, which engines need it to remove",
    "linux_cgroups_blkio linux_cgroups_hugetlb linux_cgroups_memory linux_cgroups_network linux_cgroups_relative_blkio "
    "linux_cgroups_relative_hugetlb linux_cgroups_relative_memory linux_cgroups_relative_network":
        "set limits that today's kernels have no more (kernel memory, blkio.leaf_weight), or of controllers that aren't there",
    "linux_process_apparmor_profile": "needs AppArmor",
    "misc_props": "wants unknown keys to be passed over in silence, and fails for every runtime",
    "process_capabilities process_capabilities_fail process_rlimits process_rlimits_fail":
        "need root with CAP_SYS_RESOURCE, or expect limits that contradict each other",
    "start": "expects a start without `process` to fail and be no error at once",
}


@pytest.fixture(scope="module")
def runtime(programs, tmp_path_factory):
    """With a root of its own: a program that fails leaves its container running."""
    folder = tmp_path_factory.mktemp("validation")
    call = [str(programs / "pinfold-oci"), "--root", str(folder / "root")]
    script = folder / "pinfold-oci"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(call)} "$@"\n')
    script.chmod(0o755)
    yield script
    for name in subprocess.run([*call, "list", "--quiet"], capture_output=True, text=True, check=True).stdout.split():
        subprocess.run([*call, "delete", "--force", name], check=True)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """What the programs find in their folder, with a `true` that lasts. `pidfile` starts it, kills it and wants no error; but
    once it has ended by itself the specification demands one, and nearly always it has."""
    folder = tmp_path_factory.mktemp("lasting")
    with tarfile.open(TOOLS / "rootfs-amd64.tar.gz") as whole, tarfile.open(folder / "rootfs-amd64.tar.gz", "w:gz") as changed:
        for member in whole:
            if member.name != "./bin/true":
                changed.addfile(member, whole.extractfile(member) if member.isreg() else None)
        script = tarfile.TarInfo("./bin/true")
        script.mode, text = 0o755, b"#!/bin/sh\nexec sleep 1000\n"
        script.size = len(text)
        changed.addfile(script, io.BytesIO(text))
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_passes(runtime, lasting, name):
    failed = []
    for _ in range(20):  # several send a signal before the shell that they test has set its trap
        done = subprocess.run([next(TOOLS.glob(f"validation/*/{name}.t"))], cwd=lasting if name == "pidfile" else TOOLS, capture_output=True, text=True,
                              timeout=60, check=False, stdin=subprocess.DEVNULL,
                              env={**os.environ, "RUNTIME": str(runtime)})
        failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
        if done.returncode == 0 and not failed:
            return
    raise AssertionError(failed or done.stderr)


def test_no_program_is_forgotten():
    known = {path.stem for path in TOOLS.glob("validation/*/*.t")}
    assert known == set(PROGRAMS) | {name for names in OTHERS for name in names.split()}
