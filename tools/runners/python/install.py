# Installs requirements of pip into a virtual environment; docs/dependencies.md. Runs in the sandbox of an installation,
# with the image's interpreter: what it installs may do in there what it likes. Standard library only, Python 3.8 to 3.14.
import glob
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import venv

# nothing of an index, a proxy or a configuration but what the request says
ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/tmp", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "PIP_CONFIG_FILE": os.devnull,
               "PYTHONUNBUFFERED": "1"}


def die(message):
    print("ERROR: " + message, flush=True)
    sys.exit(1)


def bundled_wheel():
    """pip as ensurepip has it: it needs no installation, and runs in any interpreter."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels"]
    spec = importlib.util.find_spec("ensurepip")
    if spec and spec.origin:
        folders.insert(0, os.path.join(os.path.dirname(spec.origin), "_bundled"))
    for folder in folders:
        for wheel in sorted(glob.glob(os.path.join(folder or "/nonexistent", "pip-*.whl"))):
            return wheel
    return None


def pip_command(python):
    wheel = bundled_wheel()
    if wheel:
        return [python, os.path.join(wheel, "pip")]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--python", python]
    die("the image has neither pip nor ensurepip")


def options(request):
    found = ["--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-warn-script-location", "--progress-bar", "off",
             "--retries", "2", "--timeout", "30", "--index-url", request["index"]]
    for url in request["extra"]:
        found += ["--extra-index-url", url]
    for host in request["trusted"]:
        found += ["--trusted-host", host]
    if request["certificates"]:
        with open("/tmp/pinfold-certificates.pem", "w") as file:
            file.write(request["certificates"])
        found += ["--cert", file.name]
    return found


def lock_lines(report):
    for item in report.get("install", []):
        archive = item.get("download_info", {}).get("archive_info", {})
        hashes = archive.get("hashes") or dict([archive["hash"].split("=", 1)] if "=" in archive.get("hash", "") else [])
        facts = item.get("metadata", {})
        yield " ".join(["%s==%s" % (facts.get("name"), facts.get("version"))] + ["--hash=%s:%s" % pair for pair in sorted(hashes.items())])


def main():
    request = json.loads(sys.stdin.buffer.read().decode())
    target = request["target"]
    venv.EnvBuilder(symlinks=True, with_pip=False).create(target)
    python = os.path.join(target, "bin", "python3")
    with open("/tmp/pinfold-requirements.txt", "w") as file:
        file.write("\n".join(request["requirements"]) + "\n")
    command = [*pip_command(python), "install", *options(request), "--report", "/tmp/pinfold-report.json", "-r", file.name]
    done = subprocess.run(command, env=ENVIRONMENT, cwd="/tmp", stdin=subprocess.DEVNULL, stdout=1, stderr=1)
    if done.returncode:
        sys.exit(done.returncode if done.returncode > 0 else 1)
    with open("/tmp/pinfold-report.json") as file:
        lines = sorted(set(lock_lines(json.load(file))))
    with open(os.path.join(target, "pinfold-lock"), "w") as file:
        file.write("".join(line + "\n" for line in lines))


main()
