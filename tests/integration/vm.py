"""One boot of the virtual machine with real cgroup v2: a script, and what it printed beneath each of its notes."""
import os
import shlex
import shutil
import subprocess

import pytest

from conftest import VM, build_directory

HEAD = r"""
note() { printf '@%s\n' "$1"; }
"""


BOOTS = 3


def boot(*arguments, timeout, machine=VM):
    """Runs the machine once. On a busy host an emulated one can miss its own timer while it boots (a panic in setup_IO_APIC) and
    ends without a word from the command: then, and only then, it is started again."""
    for _ in range(BOOTS):
        done = subprocess.run([str(machine), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode != 125 or done.stdout:
            break
    return done


def of_version_1(folder):
    """The machine's script with the controllers left to cgroup version 1, which the test mounts; skips where that can't be made."""
    if not os.access(VM, os.X_OK):
        pytest.skip(f"no virtual machine here: {VM} is missing")
    text, place = VM.read_text(), folder / "machine"
    if text.count(" cgroup_no_v1=all ") != 1:
        pytest.skip(f"{VM} doesn't say where version 1 is turned off")
    place.write_text(text.replace(" cgroup_no_v1=all ", " "))
    shutil.copystat(VM, place) # as old as the script: what was made for that one serves this one
    return place


def observe(folder, script, *arguments):
    """Runs the script with bash, the programs of the build on its PATH and the folder shared; lines by note, and all that was
    printed. Skips the test where no machine can be started."""
    if not VM.exists():
        pytest.skip("no virtual machine here: PINFOLD_VM names the script")
    place = folder / "script"
    program = build_directory() / "tools/pinfold"
    place.write_text(f"export PATH={shlex.quote(str(program))}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" + HEAD + script)
    done = boot("--share", folder, "--share", build_directory(), "--timeout", "240", "--", "bash", place, *arguments, timeout=300)
    if done.returncode == 2:
        pytest.skip(f"the virtual machine can't be started here: {done.stderr.strip()}")
    parts = {}
    for line in done.stdout.splitlines():
        if line.startswith("@"):
            parts[line[1:]] = current = []
        elif parts:
            current.append(line)
    return parts, done.stdout + done.stderr


def texts(folder, script):
    """The same for a script whose last note is `left`: each note's text."""
    parts, everything = observe(folder, script)
    assert "left" in parts, everything
    return {name: "\n".join(lines) for name, lines in parts.items()}
