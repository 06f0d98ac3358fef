"""An unpacker that believes what a layer says: the control of hostile_images.py.

It runs in a world of its own (test_image_naive.py), and prints for each case, by its folder's name, what it has changed
outside of the folder that it unpacked into.

    naive_unpacker.py FOLDER...
"""
import io
import json
import os
import pathlib
import shutil
import signal
import sys
import tarfile

NOT_OURS = {"/proc", "/dev", "/sys", "/usr", "/etc", "/bin", "/lib", "/lib64", "/sbin", "/opt", "/root"}


def look(folder):
    """Everything that can be written to, but for the place to unpack into; a file that is written anew has another time."""
    seen = {}
    for top in ("/", folder / "canary", folder.parent):
        for path, folders, files in os.walk(top):
            if path == "/":
                folders[:] = [name for name in folders if "/" + name not in NOT_OURS]
            folders[:] = [name for name in folders if os.path.join(path, name) not in (str(folder / "out"), str(folder / "case"))]
            if path == str(folder.parent):
                folders[:] = [folder.name]
            for name in [".", *folders, *files]:
                state = os.lstat(os.path.join(path, name))
                seen[os.path.join(path, name)] = (state.st_mode, state.st_ino, 0 if name == "." or name in folders else state.st_ctime_ns)
    return seen


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.remove(path)


def take(tar, member):
    parent, name = os.path.split(member.name)
    if name == ".wh..wh..opq":
        for child in os.listdir(parent or "."):
            remove(os.path.join(parent, child))
    elif name.startswith(".wh."):
        remove(os.path.join(parent, name[4:]))
    else:
        tar.extract(member)


def unpack(folder):
    blobs = folder / "case/layout/blobs/sha256"

    def blob(descriptor):
        return (blobs / descriptor["digest"][7:]).read_bytes()

    index = json.loads((folder / "case/layout/index.json").read_bytes())
    layers = [blob(layer) for layer in json.loads(blob(index["manifests"][0]))["layers"]]
    os.chdir(folder / "out")
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer), mode="r:") as tar:
            tar.extraction_filter = lambda member, _: member  # as every Python before 3.14 had it
            for member in tar:
                try:
                    take(tar, member)
                except (OSError, KeyError):
                    pass


def main():
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)  # a pipe that somebody would have to read
    changed = {}
    for folder in map(pathlib.Path, sys.argv[1:]):
        before = look(folder)
        signal.alarm(5)
        try:
            unpack(folder)
        except Exception:
            pass
        signal.alarm(0)
        os.chdir("/")
        after = look(folder)
        changed[folder.name] = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        for path in sorted(after.keys() - before.keys()):  # the next case finds the world as this one did
            if os.path.lexists(path) and not path.endswith("/."):
                remove(path)
    print(json.dumps(changed))


if __name__ == "__main__":
    main()
