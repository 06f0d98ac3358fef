/* The profile tool in the kernel: what it is for runs, and what it denies is denied. Each child is an
 * ordinary process with no_new_privs and the filter, without namespaces; root drops to nobody first, unless
 * it is to show that a call would work. */
#include "seccomp_make.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/keyctl.h>
#include <linux/userfaultfd.h>

#include "runtime/build/seccomp/cache.h"
#include "runtime/build/seccomp/load.h"

#define NOBODY 65534
#define SETUP_FAILED 250

static struct made tool, strict;
static char home[] = "/tmp/pin-live-XXXXXX";

static void become_nobody(void) {
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) < 0))
        _exit(SETUP_FAILED);
}

static void load_or_exit(const struct pin_program *program) {
    struct pin_error err = {0};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !pin_program_load(program, &err)) {
        (void)fprintf(stderr, "%s\n", err.message);
        _exit(SETUP_FAILED);
    }
}

static int wait_for(pid_t child) {
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* Runs a shell script under the filter in an empty directory, for at most a minute. */
static int run_script(const struct pin_program *program, const char *shell, const char *script) {
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const char *const environment[] = {"PATH=/usr/bin:/bin", "HOME=.", "LC_ALL=C.UTF-8", NULL};
        const char *const arguments[] = {shell, "-ec", script, NULL};
        (void)alarm(60);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (chdir(home) < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
            _exit(SETUP_FAILED);
        become_nobody();
        load_or_exit(program);
        execve(shell, (char *const *)(uintptr_t)arguments, (char *const *)(uintptr_t)environment);
        _exit(SETUP_FAILED);
    }
    return wait_for(child);
}

static void assert_runs(const struct pin_program *program, const char *needs, const char *script) {
    if (access(needs, X_OK) != 0) {
        print_message("%s is not installed\n", needs);
        skip();
    }
    int status = run_script(program, "/bin/bash", script);
    if (status != 0)
        fail_msg("status %#x of: %s", (unsigned)status, script);
}

static void tool_runs_shell_work(void **state) {
    (void)state;
    assert_runs(
        &tool.program, "/bin/bash",
        "mkdir -p q/r; echo hi > q/r/x; chmod 640 q/r/x; cp -a q q2; mv q2 q3; ln -s q3 l; ln q/r/x h;"
        "find . -type f | sort | xargs wc -l > /dev/null; tar czf a.tgz q; mkdir e; tar xzf a.tgz -C e;"
        "cmp q/r/x e/q/r/x; sed -i s/hi/ho/ q/r/x; grep -r ho q > /dev/null; awk '{print $1}' q/r/x;"
        "diff q/r/x e/q/r/x > d || true; test -s d; gzip -k d; gunzip -c d.gz | cmp - d;"
        "mkfifo f; (echo x > f &); read y < f; test $y = x; (sleep 0.01 & wait); time true;"
        "timeout 5 true; test \"$(id -u)\" != ''; df . > /dev/null; du -s . > /dev/null; ls -la > /dev/null;"
        "seq 1000 | shuf | sort -n | tail -1; dd if=/dev/zero of=z bs=1k count=4 2> /dev/null;"
        "truncate -s 100 z; stat z > /dev/null; touch -d yesterday z; trap true USR1; kill -USR1 $$;"
        "rm -rf q q3 l h e f z a.tgz d d.gz");
}

static void tool_runs_python(void **state) {
    (void)state;
    assert_runs(
        &tool.program, "/usr/bin/python3",
        "cat > t.py <<'E'\n"
        "import asyncio, json, math, multiprocessing, os, signal, socket, sqlite3, ssl, subprocess, sys\n"
        "import tempfile, threading, time, shutil, select, concurrent.futures, hashlib\n"
        "def square(x): return x * x\n"
        "async def main():\n"
        "    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=asyncio.subprocess.PIPE)\n"
        "    assert (await p.communicate())[0] == b'x\\n'\n"
        "    s = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)\n"
        "    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())\n"
        "    assert await r.read() == b''\n"
        "    assert await asyncio.to_thread(square, 3) == 9\n"
        "if __name__ == '__main__':\n"
        "    db = sqlite3.connect('x.db'); db.execute('pragma journal_mode=wal')\n"
        "    db.execute('create table t(a)'); db.execute('insert into t values(1)'); db.commit(); "
        "db.close()\n"
        "    assert subprocess.run(['ls', '-l'], capture_output=True).returncode == 0\n"
        "    asyncio.run(main())\n"
        "    with multiprocessing.Pool(2) as pool: assert pool.map(square, [1, 2]) == [1, 4]\n"
        "    with concurrent.futures.ThreadPoolExecutor(4) as e: assert sum(e.map(square, range(9))) == 204\n"
        "    with tempfile.TemporaryDirectory() as d: shutil.copy2('t.py', d); shutil.move(d + '/t.py', "
        "'u.py')\n"
        "    socket.getaddrinfo('localhost', 80); signal.setitimer(signal.ITIMER_REAL, 0); os.times()\n"
        "    assert len(ssl.create_default_context().get_ciphers()) > 0; os.sched_getaffinity(0)\n"
        "    try: os.unshare(0x10000000) if hasattr(os, 'unshare') else None\n"
        "    except PermissionError: pass\n"
        "    try: os.chmod('t.py', 0o4755); sys.exit(1)\n"
        "    except PermissionError: pass\n"
        "E\n"
        "python3 t.py; rm -rf t.py u.py x.db* __pycache__");
}

static void tool_runs_node(void **state) {
    (void)state;
    assert_runs(
        &tool.program, "/usr/bin/node",
        "cat > t.js <<'E'\n"
        "const fs = require('fs'), cp = require('child_process'), http = require('http');\n"
        "const { Worker } = require('worker_threads'), zlib = require('zlib'), os = require('os');\n"
        "fs.writeFileSync('a', 'x'); fs.copyFileSync('a', 'b'); fs.renameSync('b', 'c'); fs.rmSync('c');\n"
        "fs.mkdirSync('d/e', { recursive: true }); fs.rmSync('d', { recursive: true });\n"
        "if (cp.execSync('echo hi').toString() !== 'hi\\n') process.exit(1);\n"
        "new Worker('require(\"worker_threads\").parentPort.postMessage(1)', { eval: true });\n"
        "const s = http.createServer((q, r) => r.end('ok')).listen(0, '127.0.0.1', () =>\n"
        "  http.get({ port: s.address().port, host: '127.0.0.1' }, r => { r.resume(); s.close(); }));\n"
        "fs.createReadStream('t.js').pipe(zlib.createGzip()).pipe(fs.createWriteStream('t.gz'));\n"
        "require('crypto').pbkdf2('a', 'b', 10, 10, 'sha256', () => {}); os.cpus(); os.networkInterfaces();\n"
        "require('dns').lookup('localhost', () => {});\n"
        "E\n"
        "node t.js; rm -f t.js t.gz a");
}

static void tool_runs_git_gcc_jq_sqlite_and_curl(void **state) {
    (void)state;
    assert_runs(
        &tool.program, "/usr/bin/git",
        "git init -q g; cd g; git config user.email a@b; git config user.name n; echo x > f; git add f;"
        "git commit -qm m; git log --oneline > /dev/null; git checkout -qb z; git gc -q; git clone -q . "
        "../g2;"
        "cd ..; rm -rf g g2");
    assert_runs(&tool.program, "/usr/bin/gcc",
                "echo 'int main(void) { return 0; }' > m.c; gcc -O1 m.c -o m; ./m; rm m m.c");
    assert_runs(&tool.program, "/usr/bin/jq", "test $(echo '{\"a\": [1, 2]}' | jq .a[1]) = 2");
    assert_runs(
        &tool.program, "/usr/bin/sqlite3",
        "test $(sqlite3 s.db 'create table a(b); insert into a values(7); select * from a;') = 7; rm s.db");
    assert_runs(&tool.program, "/usr/bin/curl", "echo hello > h; curl -s file://$PWD/h | cmp - h; rm h");
}

static void strict_runs_python_sh_and_awk(void **state) {
    (void)state;
    assert_runs(&strict.program, "/usr/bin/python3",
                "python3 -c 'import json, math; print(json.dumps({\"a\": math.pi}))' > /dev/null");
    assert_runs(&strict.program, "/bin/sh",
                "sh -c 'for i in 1 2 3; do echo $((i * i)); done | while read x; do test $x -gt 0; done'");
    assert_runs(&strict.program, "/usr/bin/awk", "seq 100 | awk '{s += $1} END {exit s != 5050}'");
}

/* --- what is denied --- */

struct attempt {
    const char *what;
    long number;
    long args[4];
    int expected; /* errno under the filter */
};

/* The errno of the call in a child of its own, with the filter or without; 0 if it works. */
static int try_call(const struct attempt *attempt, const struct pin_program *program) {
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (program != NULL)
            load_or_exit(program);
        errno = 0;
        long result = syscall(attempt->number, attempt->args[0], attempt->args[1], attempt->args[2],
                              attempt->args[3], 0, 0);
        _exit(result < 0 ? errno : 0);
    }
    int status = wait_for(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static char scratch[64]; /* a file that chmod may try */

static void denied_calls_fail_under_the_filter_and_not_without(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip(); /* an ordinary user is denied most of them anyway */
    static unsigned char buffer[256];
    const long pointer = (long)buffer, path = (long)scratch;
    const struct attempt attempts[] = {
        {"unshare",              SYS_unshare,           {CLONE_NEWUTS},                            EPERM },
        {"unshare user",         SYS_unshare,           {CLONE_NEWUSER},                           EPERM },
        {"setns",                SYS_setns,             {-1, 0},                                   EPERM },
        {"clone3",               SYS_clone3,            {pointer, 0},                              ENOSYS},
        {"openat2",              SYS_openat2,           {AT_FDCWD, path, pointer, 0},              ENOSYS},
        {"mount",                SYS_mount,             {path, path, path, 0},                     EPERM },
        {"fsopen",               SYS_fsopen,            {(long)"tmpfs", 0},                        EPERM },
        {"open_tree",            SYS_open_tree,         {AT_FDCWD, (long)"/", 1},                  EPERM },
        {"pivot_root",           SYS_pivot_root,        {path, path},                              EPERM },
        {"chroot",               SYS_chroot,            {(long)"/"},                               EPERM },
        {"io_uring_setup",       SYS_io_uring_setup,    {1, pointer},                              EPERM },
        {"io_uring_enter",       SYS_io_uring_enter,    {-1},                                      EPERM },
        {"io_uring_register",    SYS_io_uring_register, {-1},                                      EPERM },
        {"ptrace",               SYS_ptrace,            {PTRACE_TRACEME},                          EPERM },
        {"process_vm_readv",     SYS_process_vm_readv,  {0, 0, 0, 0},                              EPERM },
        {"pidfd_getfd",          SYS_pidfd_getfd,       {-1, 0, 0},                                EPERM },
        {"bpf",                  SYS_bpf,               {-1, 0, 0},                                EPERM },
        {"perf_event_open",      SYS_perf_event_open,   {pointer, -1, -1, -1},                     EPERM },
        {"keyctl",               SYS_keyctl,            {KEYCTL_GET_KEYRING_ID, -3, 0},            EPERM },
        {"add_key",              SYS_add_key,           {0, 0, 0, 0},                              EPERM },
        {"userfaultfd",          SYS_userfaultfd,       {UFFD_USER_MODE_ONLY},                     EPERM },
        {"name_to_handle_at",    SYS_name_to_handle_at, {AT_FDCWD, path, 0, 0},                    EPERM },
        {"open_by_handle_at",    SYS_open_by_handle_at, {-1, 0, 0},                                EPERM },
        {"kcmp",                 SYS_kcmp,              {0, 0, 0, 0},                              EPERM },
        {"fanotify_init",        SYS_fanotify_init,     {-1, 0},                                   EPERM },
        {"quotactl",             SYS_quotactl,          {-1, 0, 0, 0},                             EPERM },
        {"swapon",               SYS_swapon,            {path, 0},                                 EPERM },
        {"acct",                 SYS_acct,              {(long)"/nonexistent"},                    EPERM },
        {"mbind",                SYS_mbind,             {1, 0, 0, 0},                              EPERM },
        {"move_pages",           SYS_move_pages,        {0, 0, 0, 0},                              EPERM },
        {"init_module",          SYS_init_module,       {0, 0, 0},                                 EPERM },
        {"inotify_init1",        SYS_inotify_init1,     {0},                                       EPERM },
        {"execveat",             SYS_execveat,          {-1, path, 0, 0},                          EPERM },
        {"personality",          SYS_personality,       {0x0040000},                               EPERM },
        {"syslog",               SYS_syslog,            {10},                                      EPERM },
        {"clock_settime",        SYS_clock_settime,     {-1, 0},                                   EPERM },
        {"setuid",               SYS_setuid,            {0},                                       EPERM },
        {"prctl PR_SET_PTRACER", SYS_prctl,             {PR_SET_PTRACER, 1, 0, 0},                 EPERM },
        {"prctl securebits",     SYS_prctl,             {PR_SET_SECUREBITS, 0},                    EPERM },
        {"ioctl TIOCSTI",        SYS_ioctl,             {-1, TIOCSTI},                             EPERM },
        {"ioctl TIOCSTI high",   SYS_ioctl,             {-1, (1L << 32) | TIOCSTI},                EPERM },
        {"ioctl TIOCSETD",       SYS_ioctl,             {-1, TIOCSETD},                            EPERM },
        {"socket packet",        SYS_socket,            {AF_PACKET, SOCK_RAW, 0},                  EPERM },
        {"socket raw",           SYS_socket,            {AF_INET, SOCK_RAW, 1},                    EPERM },
        {"socket vsock",         SYS_socket,            {AF_VSOCK, SOCK_STREAM, 0},                EPERM },
        {"socket vsock high",    SYS_socket,            {(1L << 32) + AF_VSOCK, SOCK_STREAM, 0},   EPERM },
        {"socket netfilter",     SYS_socket,            {AF_NETLINK, SOCK_RAW, 12},                EPERM },
        {"fchmodat set-uid",     SYS_fchmodat,          {AT_FDCWD, path, 04700},                   EPERM },
        {"openat set-uid",       SYS_openat,            {AT_FDCWD, path, O_CREAT | O_RDWR, 04700}, EPERM },
        {"mmap of huge pages",   SYS_mmap,              {0, 4096, PROT_READ, 0x22 | MAP_HUGETLB},  EPERM },
        {"mknodat device",       SYS_mknodat,           {AT_FDCWD, path, S_IFCHR | 0600},          EPERM },
    };
    for (size_t i = 0; i < PIN_COUNT(attempts); i++) {
        int with = try_call(&attempts[i], &tool.program), without = try_call(&attempts[i], NULL);
        if (with != attempts[i].expected || with == without)
            fail_msg("%s: errno %d with the filter, %d without", attempts[i].what, with, without);
    }
}

static void unknown_numbers_are_not_implemented(void **state) {
    (void)state;
    static const long numbers[] = {600, 2000, 10000, -1};
    for (size_t i = 0; i < PIN_COUNT(numbers); i++) {
        struct attempt attempt = {.what = "unknown", .number = numbers[i]};
        assert_int_equal(try_call(&attempt, &tool.program), ENOSYS);
    }
}

#if defined(__x86_64__)
static long getpid_by_int80(void) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static int try_foreign(const struct pin_program *program, bool x32) {
    pid_t child = fork();
    if (child == 0) {
        if (program != NULL)
            load_or_exit(program);
        long result = x32 ? syscall(0x40000000 | SYS_getpid) : getpid_by_int80();
        _exit(result == getpid() ? 0 : 1);
    }
    return wait_for(child);
}

static void calls_of_other_architectures_kill_the_process(void **state) {
    (void)state;
    for (int x32 = 0; x32 < 2; x32++) {
        int with = try_foreign(&tool.program, x32 != 0), without = try_foreign(NULL, x32 != 0);
        assert_true(WIFSIGNALED(with) && WTERMSIG(with) == SIGSYS);
        assert_false(WIFSIGNALED(without) && WTERMSIG(without) == SIGSYS);
        print_message("%s without the filter: status %#x\n", x32 ? "x32" : "int 0x80", (unsigned)without);
    }
}
#endif

static void on_deny_kill_ends_the_process(void **state) {
    (void)state;
    struct made made;
    make_filter(&made, "tool", pin_arch_native(), PIN_ON_DENY_KILL);
    compile_filter(&made);
    const struct attempt mount = {.what = "mount", .number = SYS_mount}, clone3 = {.number = SYS_clone3};
    assert_int_equal(try_call(&mount, &made.program), -SIGSYS);
    assert_int_equal(try_call(&clone3, &made.program), ENOSYS);
    release(&made);
}

static int set_up(void **state) {
    (void)state;
    struct pin_error err = {0};
    make_filter(&tool, "tool", pin_arch_native(), PIN_ON_DENY_ERRNO);
    make_filter(&strict, "strict", pin_arch_native(), PIN_ON_DENY_ERRNO);
    if (mkdtemp(home) == NULL || chmod(home, 0777) < 0 ||
        !pin_program_get(&tool.filter, -1, &tool.program, &err) ||
        !pin_program_get(&strict.filter, -1, &strict.program, &err))
        return -1;
    (void)snprintf(scratch, sizeof(scratch), "%s/scratch", home);
    int file = open(scratch, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    release(&tool);
    release(&strict);
    (void)snprintf(command, sizeof(command), "rm -rf -- '%s'", home);
    return system(command); /* NOLINT(cert-env33-c): a path of our own making */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tool_runs_shell_work),
        cmocka_unit_test(tool_runs_python),
        cmocka_unit_test(tool_runs_node),
        cmocka_unit_test(tool_runs_git_gcc_jq_sqlite_and_curl),
        cmocka_unit_test(strict_runs_python_sh_and_awk),
        cmocka_unit_test(denied_calls_fail_under_the_filter_and_not_without),
        cmocka_unit_test(unknown_numbers_are_not_implemented),
#if defined(__x86_64__)
        cmocka_unit_test(calls_of_other_architectures_kill_the_process),
#endif
        cmocka_unit_test(on_deny_kill_ends_the_process),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
