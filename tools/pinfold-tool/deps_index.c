/* Which index the clients of this host use: they are asked, so that it is written in one place alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "tools/pinfold-tool/deps.h"

#define ANSWER_MAX ((size_t)256 * 1024)
#define CERTIFICATES_MAX ((size_t)4 * 1024 * 1024)

/* pip's own reading of its files and variables, and its default. */
static const char ask_pip[] =
    "import json\n"
    "from pip._internal.configuration import Configuration\n"
    "from pip._internal.models.index import PyPI\n"
    "c = Configuration(isolated=False)\n"
    "c.load()\n"
    "got = dict(c.items())\n"
    "if got and all(isinstance(v, dict) for v in got.values()):\n" /* since pip 24.3: by file */
    "    got = {k: v for part in got.values() for k, v in part.items()}\n"
    "def find(key):\n"
    "    return next((got[p + key] for p in (':env:.', 'install.', 'global.') if p + key in got), None)\n"
    "print(json.dumps({'index': find('index-url') or PyPI.simple_url,\n"
    "                  'extra': (find('extra-index-url') or '').split(),\n"
    "                  'trusted': (find('trusted-host') or '').split(), 'certificates': find('cert')}))\n";
static const char ask_npm[] = "const {execFileSync} = require('child_process');\n"
                              "const get = (key) => execFileSync('npm', ['config', 'get', key], {encoding: "
                              "'utf8', stdio: ['ignore', 'pipe', "
                              "'ignore']}).trim();\n"
                              "const file = get('cafile');\n"
                              "console.log(JSON.stringify({index: get('registry'), extra: [], trusted: [], "
                              "certificates: file && file !== "
                              "'null' && file !== 'undefined' ? file : null}));\n";

static const struct {
    const char *program, *flag, *text;
} askers[] = {
    [PIN_INSTALLER_PIP] = {"python3", "-c", ask_pip},
    [PIN_INSTALLER_NPM] = {"node",    "-e", ask_npm},
};

static pid_t start(enum pin_installer installer, int output) {
    char *argv[] = {(char *)(uintptr_t)askers[installer].program, (char *)(uintptr_t)askers[installer].flag,
                    (char *)(uintptr_t)askers[installer].text,
                    NULL}; /* posix_spawnp() doesn't write to them */
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) == 0 &&
        posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
        pid = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static json_t *ask(enum pin_installer installer) {
    int ends[2], status = 0;
    struct pin_error ignored = {0};
    size_t size;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    pid_t pid = start(installer, ends[1]);
    (void)close(ends[1]);
    PIN_CLOSE int output = ends[0];
    PIN_FREE char *text = pid > 0 ? pin_read_all(output, ANSWER_MAX, &size, &ignored) : NULL;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return text != NULL && status == 0 ? json_loads(text, 0, NULL) : NULL;
}

static const char **take_list(json_t *list, struct pin_arena *arena, size_t *count) {
    const char **items = NULL;
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item) {
        if (json_is_string(item))
            *(const char **)pin_arena_grow(arena, &items, count, sizeof(*items)) =
                pin_arena_strdup(arena, json_string_value(item));
    }
    return items;
}

static bool read_certificates(const char *path, struct pin_arena *arena, struct pin_deps_index *index,
                              struct pin_error *err) {
    size_t size;
    PIN_FREE char *text =
        path == NULL ? NULL : pin_read_file_at(AT_FDCWD, path, CERTIFICATES_MAX, &size, err);
    if (path != NULL && text == NULL)
        return pin_wrap(err, "read the certificates of the index");
    index->certificates = text == NULL ? NULL : pin_arena_strdup(arena, text);
    return true;
}

bool pin_deps_index_find(enum pin_installer installer, const struct pin_tool_config *stored,
                         struct pin_arena *arena, struct pin_deps_index *index, struct pin_error *err) {
    const char *given = stored->index[installer];
    *index = (struct pin_deps_index){.url = given};
    json_t *answer = ask(installer);
    const char *url = json_string_value(json_object_get(answer, "index"));
    if (given == NULL && url == NULL) {
        json_decref(answer);
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND,
                       "this host has no %s that would say where packages come from",
                       pin_installer_name(installer));
        return pin_hint(err, "set %s in the configuration",
                        installer == PIN_INSTALLER_PIP ? "pip_index" : "npm_registry");
    }
    if (given == NULL) { /* extra indexes belong to the client's own */
        index->url = pin_arena_strdup(arena, url);
        index->extra = take_list(json_object_get(answer, "extra"), arena, &index->extra_count);
    }
    index->trusted = take_list(json_object_get(answer, "trusted"), arena, &index->trusted_count);
    bool good =
        read_certificates(json_string_value(json_object_get(answer, "certificates")), arena, index, err);
    json_decref(answer);
    return good;
}

/* --- URLs --- */

static bool bad_url(const char *url, struct pin_error *err) {
    const char *at = strrchr(url, '@'); /* what stands before it may be a password */
    (void)pin_fail(err, PIN_ERROR_INVALID, "the index '%.80s' is no http or https URL that can be used",
                   at != NULL ? at + 1 : url);
    return false;
}

static bool take_port(const char *at, size_t length, struct pin_deps_host *host) {
    char text[8];
    uint64_t port;
    if (length == 0)
        return true;
    if (length - 1 >= sizeof(text) || at[0] != ':')
        return false;
    memcpy(text, at + 1, length - 1);
    text[length - 1] = '\0';
    if (!pin_parse_u64(text, &port) || port == 0 || port > 65535)
        return false;
    host->port = (unsigned)port;
    return true;
}

static void classify(struct pin_deps_host *host) {
    struct in_addr four;
    struct in6_addr six;
    bool is_four = inet_pton(AF_INET, host->name, &four) == 1;
    bool is_six = !is_four && inet_pton(AF_INET6, host->name, &six) == 1;
    host->is_address = is_four || is_six;
    host->is_loopback = strcasecmp(host->name, "localhost") == 0 ||
                        (is_four && (ntohl(four.s_addr) >> 24) == 127) ||
                        (is_six && IN6_IS_ADDR_LOOPBACK(&six));
}

bool pin_deps_host_parse(const char *url, struct pin_deps_host *host, struct pin_error *err) {
    *host = (struct pin_deps_host){.is_plain = strncmp(url, "http://", 7) == 0};
    host->port = host->is_plain ? 80 : 443;
    if (!host->is_plain && strncmp(url, "https://", 8) != 0)
        return bad_url(url, err);
    const char *at = url + (host->is_plain ? 7 : 8);
    size_t length = strcspn(at, "/?#");
    for (const char *sign; (sign = memchr(at, '@', length)) != NULL;
         length -= (size_t)(sign + 1 - at), at = sign + 1)
        continue;
    bool bracket = at[0] == '[';
    const char *start = bracket ? at + 1 : at;
    size_t name = strcspn(start, bracket ? "]/?#" : ":/?#");
    if (name == 0 || name >= sizeof(host->name) || (bracket && start[name] != ']'))
        return bad_url(url, err);
    memcpy(host->name, start, name);
    host->name_at = (size_t)(at - url);
    host->name_length = name + (bracket ? 2 : 0);
    if (!take_port(at + host->name_length, length - host->name_length, host))
        return bad_url(url, err);
    classify(host);
    return true;
}
