"""Usual programs under profile `tool`, unchanged, and as they run on the host: what its 150 calls are there for."""
import shutil

import pytest

from conftest import needs


@pytest.fixture
def tool(pinfold):
    """One command line under the profile, in a workspace of its own; it must succeed in silence."""
    folder = pinfold.home / "programs"
    folder.mkdir()
    if pinfold.rootless:
        shutil.chown(folder, pinfold.uid, pinfold.uid)

    def run(script, *arguments, **files):
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        policy = pinfold.policy(extends=["tool"], resources={"wall_time": "60s", "memory": "1GiB"})
        result = pinfold.json("sh", "-ec", script, "sh", *arguments, policy=policy, options=["--workspace", str(folder)])
        assert (result["exit_code"], result["stderr"]) == (0, ""), result
        return result["stdout"]
    return run


@needs("make", "gcc")
def test_make_builds_a_program_with_several_jobs(tool):
    makefile = "all: one two\none two: %: %.c\n\tgcc -O2 -o $@ $<\n\techo $(shell echo made) $@\n"
    source = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
    out = tool("make -s -j2; ./one; ./two", Makefile=makefile, one__c=source, two__c=source)
    assert sorted(out.split()) == ["hello", "hello", "made", "made", "one", "two"]


def test_sort_spills_to_files_and_uses_threads(tool):
    assert tool("seq 100000 | sort -R | sort -n --parallel=2 -S 200K | tail -n 1") == "100000\n"


def test_tar_packs_and_unpacks_with_modes_and_links(tool):
    assert tool("mkdir a; echo x >a/f; chmod 640 a/f; ln -s f a/s; ln a/f a/h; tar czf a.tgz a; mkdir b; tar xzf a.tgz -C b; "
                "diff -r a b/a; stat -c %a b/a/f; readlink b/a/s; [ b/a/f -ef b/a/h ]") == "640\nf\n"


def test_ls_and_find_tell_all_about_files(tool):
    assert tool("echo x >f; ln -s f s; mkdir d; ls -la . / /tmp >/dev/null; ls -1; find . -type f -size 2c; du -s f | cut -f2; df . >/dev/null; "
                "stat -c %F f s d") == "d\nf\ns\n./f\nf\nregular file\nsymbolic link\ndirectory\n"


def test_copies_keep_modes_and_times(tool):
    """libacl, told that the kernel has no attributes of open files, sets the mode."""
    assert tool("mkdir d; echo x >d/f; chmod 751 d; chmod 640 d/f; touch -d 2001-02-03 d/f; cp -a d e; cp -p d/f g; mv e /tmp/e; "
                "mv /tmp/e h; sed -i s/x/y/ h/f; install -m 700 h/f i; stat -c %a,%Y h h/f g i | cut -d, -f1; stat -c %Y g; cat i"
                ) == "751\n640\n640\n700\n981158400\ny\n"


@needs("free", "uptime", "top", "vmstat", "ps")
def test_programs_that_ask_for_the_machine_get_an_answer(tool):
    """Masked is what names the host's devices and its boot; not what these read."""
    lines = tool("free -m | grep -c Mem; uptime | grep -c load; top -bn1 | grep -c Cpu; vmstat | wc -l; ps -e | grep -c ps; "
                 "/usr/bin/python3 -c 'import platform, os, time; "
                 "print(bool(platform.platform()), os.getloadavg()[0] >= 0, os.cpu_count() > 0, time.clock_gettime(time.CLOCK_BOOTTIME) > 0)'")
    assert lines == "1\n1\n1\n3\n1\nTrue True True True\n"


@needs("git")
def test_git_makes_a_repository_and_clones_it(tool):
    script = """export HOME=/tmp; git config --global user.email a@b; git config --global user.name n; git init -q r; cd r
        for i in 1 2 3; do echo $i >f$i; git add .; git commit -qm "number $i"; done
        git gc -q; git checkout -qb side; git mv f1 g1; git commit -qam moved; cd ..; git clone -q r c; git -C c log --format=%s"""
    assert tool(script) == "moved\nnumber 3\nnumber 2\nnumber 1\n"


@needs("sqlite3")
def test_sqlite_writes_ahead_and_vacuums(tool):
    sql = "pragma journal_mode=wal; create table t(a); insert into t values(1),(2); vacuum; pragma wal_checkpoint; select sum(a) from t;"
    assert tool('sqlite3 x.db "$1"', sql).split("\n")[-2] == "3"


@needs("dig")
def test_dig_asks_and_says_that_nobody_answers(tool):
    """It waits for signals in its first thread, and ends at once where it can't."""
    assert "no servers could be reached" in tool("dig +time=1 +tries=1 @127.0.0.1 example.com || true")


PYTHON = """
import asyncio, fcntl, mmap, multiprocessing, os, shutil, signal, sqlite3, subprocess, tempfile, zipfile
from multiprocessing import shared_memory
def square(x): return x * x
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool: assert pool.map(square, range(4)) == [0, 1, 4, 9]
    shared = shared_memory.SharedMemory(create=True, size=4096); shared.close(); shared.unlink()
    async def go():
        process = await asyncio.create_subprocess_exec("true"); assert await process.wait() == 0
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()); assert await reader.read() == b""
        writer.close(); server.close()
    asyncio.run(go())
    folder = tempfile.mkdtemp()
    with open(folder + "/f", "w+b") as file:
        os.posix_fallocate(file.fileno(), 0, 10000); fcntl.lockf(file, fcntl.LOCK_EX)
        mmap.mmap(file.fileno(), 0).flush()
    shutil.copytree(folder, "copy"); shutil.copy2("copy/f", "second"); shutil.move("second", folder + "/third")
    shutil.make_archive("archive", "gztar", folder)
    with zipfile.ZipFile("z.zip", "w") as file: file.write("copy/f")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); signal.raise_signal(signal.SIGUSR1)  # a thread of asyncio may be there still
    assert signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1
    base = sqlite3.connect("base.db"); base.execute("create table t(a)"); base.commit()
    assert subprocess.run(["sh", "-c", "echo x"], capture_output=True, start_new_session=True, timeout=60).stdout == b"x\\n"
    print("done", os.path.getsize("copy/f"))
"""


def test_python_uses_its_standard_library(tool):
    assert tool("/usr/bin/python3 p.py", p__py=PYTHON) == "done 10000\n"


NODE = """
const fs = require('fs'), cp = require('child_process'), http = require('http'), zlib = require('zlib');
const { Worker } = require('worker_threads');
(async () => {
  fs.writeFileSync('a', 'x'.repeat(100000)); await fs.promises.copyFile('a', 'b'); fs.cpSync('.', '/tmp/c', { recursive: true });
  fs.truncateSync('b', 5); fs.utimesSync('b', 1, 1); fs.chmodSync('b', 0o600); fs.symlinkSync('a', 's'); fs.renameSync('b', 'd');
  await new Promise(done => fs.createReadStream('a').pipe(zlib.createGzip()).pipe(fs.createWriteStream('a.gz')).on('finish', done));
  await new Promise(done => new Worker('1', { eval: true }).on('exit', done));
  await new Promise(done => cp.spawn('true', { detached: true }).on('exit', done)); cp.execSync('true');
  const server = http.createServer((request, reply) => reply.end('hi'));
  await new Promise(done => server.listen(0, '127.0.0.1', done));
  const text = await fetch('http://127.0.0.1:' + server.address().port).then(reply => reply.text());
  server.close(); server.closeAllConnections(); console.log(text, fs.statSync('d').size);
})().catch(error => { console.error(error); process.exit(1); });
"""


@needs("node")
def test_node_uses_its_standard_library(tool):
    assert tool("node n.js", n__js=NODE) == "hi 5\n"
