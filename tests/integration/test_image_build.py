"""pinfold image build: the same packages are the same image, and no package's script gets out of its sandbox.

Where the host's apt reaches no mirror, what needs packages is skipped by name.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the owners in an image are many"),
              pytest.mark.skipif(not shutil.which("mmdebstrap") or not shutil.which("apt-get"),
                                 reason="needs mmdebstrap and apt")]


class Builder:
    def __init__(self, pinfold, programs, folder, cache):
        self.pinfold, self.program, self.folder, self.cache = pinfold, programs / "pinfold-image", folder, cache
        self.store, self.temporary = pinfold.home / "images", folder / "temporary"
        self.temporary.mkdir(mode=0o755)

    def environment(self, **extra):
        return self.pinfold.environment(**{"PINFOLD_IMAGES": str(self.store), "PINFOLD_CACHE": str(self.cache),
                                           "TMPDIR": str(self.temporary), **extra})

    def call(self, *arguments, before=(), **extra):
        return subprocess.run([*before, str(self.program), *map(str, arguments)], env=self.environment(**extra),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)

    def build(self, *arguments, **kwargs):
        done = self.call("build", "--json", *arguments, **kwargs)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def refused(self, *arguments, **kwargs):
        done = self.call("build", *arguments, **kwargs)
        assert done.returncode == 125, done.stdout + done.stderr
        return done.stderr

    def recipe(self, *packages, **config):
        path = self.folder / "recipe.json"
        path.write_text(json.dumps({"pinfold": 1, "name": "tiny", "packages": packages, "config": config}))
        return path

    def run(self, image, *command):
        done = self.pinfold.call(self.pinfold.argv(*command, options=["--image", image]), env=self.environment())
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def left_over(self):
        return [str(path) for path in self.temporary.glob("*/tmp/*")]


@pytest.fixture(scope="module")
def mirror():
    if subprocess.run(["apt-get", "update", "--error-on=any"], capture_output=True).returncode:
        pytest.skip("apt reaches no mirror")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What is fetched is fetched once; the lock of the image without packages of its own lies beside it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def builder(pinfold, programs, tmp_path, cache):
    if pinfold.rootless:
        pytest.skip("needs root: the owners in an image are many")
    return Builder(pinfold, programs, tmp_path, cache)


def test_the_same_lock_is_the_same_image_without_a_network(builder, mirror):
    lock, recipe = builder.cache / "lock", builder.recipe(Cmd=["/bin/sh"], Env=["A=b"])
    first = builder.build("--lock", lock, recipe, "first")
    assert {"bash", "coreutils", "dpkg"} <= {package["name"] for package in json.loads(lock.read_text())["packages"]}
    second = builder.build("--lock", lock, recipe, "second", before=["unshare", "--net"])
    assert first["digest"] == second["digest"]
    (builder.cache / "digest").write_text(first["digest"])
    assert first["config"]["env"] == ["A=b"]
    assert builder.run("second", "/bin/sh", "-c", "echo $((6 * 7)); dpkg-query -W -f '${db:Status-Status} ' bash").split() == ["42", "installed"]
    for trace in ("/var/log/dpkg.log", "/var/cache/ldconfig", "/etc/machine-id", "/packages", "/usr/sbin/policy-rc.d"):
        builder.run("first", "/bin/sh", "-c", f"test ! -e {trace}")
    assert builder.left_over() == []

    whole = json.loads(lock.read_text())
    whole["packages"][0]["digest"] = "sha256:" + "0" * 64
    lock = builder.folder / "lock"
    lock.write_text(json.dumps(whole))
    assert "the lock says" in builder.refused("--lock", lock, recipe, before=["unshare", "--net"])
    assert builder.left_over() == []


def test_the_python_recipe_runs_python(builder, mirror):
    builder.build("python")
    assert builder.run("python", "/usr/bin/python3", "-c", "import ssl, sqlite3, venv; print(6 * 7)") == "42\n"


def test_an_ordinary_user_with_subordinate_ids_builds_the_same_image(builder, hostile, tmp_path):
    """As somebody else, whose ids are set aside in a mount namespace of the test's own; this host may have no groups for
    them, and then the policy must say so."""
    if shutil.which("newuidmap") is None:
        pytest.skip("needs newuidmap")
    own, home = 61234, tmp_path / "user"
    shutil.copytree(builder.cache / "apt", home / "cache/apt")
    (home / "temporary").mkdir()
    recipe, lock, policy = home / "recipe.json", home / "lock", home / "policy.json"
    shutil.copy(builder.recipe(Cmd=["/bin/sh"], Env=["A=b"]), recipe)
    shutil.copy(builder.cache / "lock", lock)
    policy.write_text(json.dumps({"pinfold": 1, "name": "build", "optional": ["memory", "swap", "cpus", "pids"]}))
    files = {"subuid": f"{own}:700000:65536\n", "subgid": f"{own}:700000:65536\n",
             "passwd": pathlib.Path("/etc/passwd").read_text() + f"pinfold-test:x:{own}:{own}::/:/bin/sh\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)
    subprocess.run(["chown", "-R", f"{own}:{own}", home], check=True)
    script = f"for name in {' '.join(files)}; do mount --bind {tmp_path}/$name /etc/$name; done; cd {home}; " \
             f"exec setpriv --reuid {own} --regid {own} --clear-groups -- \"$@\""
    mine = ["unshare", "--mount", "--net", "sh", "-ec", script, "sh"]
    extra = {"PINFOLD_IMAGES": f"{home}/images", "PINFOLD_CACHE": f"{home}/cache", "PINFOLD_STATE": f"{home}/state",
             "TMPDIR": f"{home}/temporary", "HOME": str(home)}
    done = builder.build("--policy", "./policy.json", "--lock", lock, recipe, "mine", before=mine, **extra)
    known = builder.cache / "digest"  # of root's image of this recipe and lock: the first test
    if not known.exists():
        known.write_text(builder.build("--lock", lock, recipe, "roots", before=["unshare", "--net"])["digest"])
    assert done["digest"] == known.read_text()
    assert list((home / "temporary").glob("*/tmp/*")) == []


@pytest.mark.parametrize("recipe, command", [
    ("python", "/usr/bin/python3 -m venv --without-pip /tmp/v && /tmp/v/bin/python -c 'print(6 * 7)'"),
    ("node", "node -e 'console.log(6 * 7)'"),
    ("python-node", "test $(node -p '6 * 7') = $(python3 -c 'print(6 * 7)') && echo 42"),
    ("build-tools", "cd /tmp && printf 'int main(void) { return 42; }' >a.c && cc a.c; ./a.out; echo $?")])
def test_a_recipe_gives_the_same_image_twice_and_it_works(builder, mirror, recipe, command):
    if not os.environ.get("PINFOLD_TEST_RECIPES"):
        pytest.skip("takes minutes and hundreds of megabytes: PINFOLD_TEST_RECIPES=1")
    assert builder.build(recipe, "first")["digest"] == builder.build(recipe, "second")["digest"]
    assert builder.run("first", "/bin/sh", "-c", command) == "42\n"


def test_every_recipe_is_listed_and_reads_well(builder):
    known = {path.stem for path in (ROOT / "images/recipes").glob("*.json")}
    done = builder.call("build", "--list", "--json")
    assert {recipe["name"] for recipe in json.loads(done.stdout)["recipes"]} == known
    assert known >= {"shell", "python", "node", "python-node", "build-tools"}


def test_what_is_wrong_is_said_before_anything_is_fetched(builder):
    assert "there is no recipe 'pythn'" in builder.refused("pythn")
    assert "isn't the name of a package" in builder.refused(builder.recipe("-oDir=/"))
    (builder.folder / "lock").write_text("{}")
    assert '"pinfold": 1' in builder.refused("--lock", builder.folder / "lock", builder.recipe())
    bare = builder.folder / "bare"
    bare.mkdir()
    assert "dpkg and apt" in builder.refused(builder.recipe(), PATH=str(bare))


# --- packages that want out: in a lock and in the cache, as if a mirror had brought them ---

def package(builder, name, script):
    """A package whose script runs as root while the image is built."""
    tree = builder.folder / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: none\n")
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\n" + script)
    (tree / "DEBIAN/postinst").chmod(0o755)
    target = builder.cache / f"apt/cache/archives/{name}_1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(target)], check=True, capture_output=True)
    data = target.read_bytes()
    return {"name": name, "version": "1", "architecture": "all", "digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data)}


@pytest.fixture
def hostile(builder, mirror):
    """Builds the base, with a script of the test's in one package more."""
    clean, recipe = builder.cache / "lock", builder.recipe()
    if not clean.exists(): # alone, without the first test
        builder.build("--lock", clean, recipe, "base")
    clean, lock = json.loads(clean.read_text()), builder.folder / "lock"

    def add(script):
        whole = dict(clean, packages=sorted([*clean["packages"], package(builder, "zz-hostile", script)], key=lambda p: p["name"]))
        lock.write_text(json.dumps(whole))
        return ["--lock", lock, recipe, "hostile"]
    return add


def test_a_packages_script_reaches_only_the_image(builder, hostile):
    canary = builder.folder / "canary"
    canary.write_text("outside\n")
    arguments = hostile(f"""exec >/report 2>/dev/null
cat {canary} && echo host-file
touch /packages/new && echo writable-packages
grep -o '[a-z0-9]*:' /proc/net/dev
mknod /dev/sda b 8 0 && echo device
mount -t tmpfs none /mnt && echo mount
echo 1 >/proc/sys/kernel/sysrq && echo sysctl
cat /proc/self/uid_map
echo end
""")
    builder.build(*arguments)
    report = builder.run("hostile", "/bin/cat", "/report").splitlines()
    inside, outside, count = report[-2].split()
    assert set(report[:-2]) <= {"lo:"}
    assert report[-1] == "end" and inside == "0" and int(outside) >= 65536 and int(count) == 65536
    assert canary.read_text() == "outside\n"


@pytest.mark.parametrize("leaves", ["ln -s /etc/shadow /workspace/image.tar", "mkfifo /workspace/image.tar"])
def test_what_is_left_instead_of_an_image_is_not_read(builder, hostile, leaves):
    """The script puts a tar of its own in the place of the one that packs the image."""
    error = builder.refused(*hostile(f"printf '#!/bin/sh\\n{leaves}\\n' >/usr/local/bin/tar; chmod 755 /usr/local/bin/tar\n"))
    assert "build 'tiny'" in error
    assert "shadow" not in error
    assert builder.left_over() == []


def test_a_script_that_fails_ends_the_build(builder, hostile):
    assert "configure" in builder.refused(*hostile("exit 3\n"))
    assert builder.left_over() == []
    assert builder.call("show", "hostile").returncode == 125
