#include "policy/audit/sensitive.h"

#include <stdbool.h>
#include <string.h>

#include "base/names.h"
#include "policy/checks.h"

static const struct {
    const char *path, *what;
    bool below;
} sensitive[] = {
    {"/etc",                 "the host's configuration and password hashes",  false},
    {"/etc/shadow",          "password hashes",                               true },
    {"/etc/ssh",             "the host's keys",                               true },
    {"/etc/ssl/private",     "private keys",                                  true },
    {"/etc/kubernetes",      "the cluster's credentials",                     true },
    {"/etc/pinfold",         "the policies that hold this sandbox",           true },
    {"/root",                "root's files",                                  true },
    {"/home",                "every user's files",                            false},
    {"/boot",                "the kernel",                                    true },
    {"/dev",                 "the host's devices",                            true },
    {"/sys",                 "the kernel's switches",                         true },
    {"/run",                 "sockets of the host's services",                false},
    {"/var/run",             "sockets of the host's services",                false},
    {"/run/docker.sock",     "a container engine, which gives away its host", true },
    {"/var/run/docker.sock", "a container engine, which gives away its host", true },
    {"/run/containerd",      "a container engine, which gives away its host", true },
    {"/run/podman",          "a container engine, which gives away its host", true },
    {"/run/crio",            "a container engine, which gives away its host", true },
    {"/run/systemd",         "the service manager",                           true },
    {"/run/dbus",            "the system bus",                                true },
    {"/run/user",            "users' sockets and keys",                       true },
    {"/run/secrets",         "other services' secrets",                       true },
    {"/var/lib/docker",      "every container's files",                       true },
    {"/var/lib/containers",  "every container's files",                       true },
    {"/var/lib/kubelet",     "the cluster's credentials",                     true },
    {"/var/lib/pinfold",     "other sandboxes' state",                        true },
    {"/var",                 "the host's state",                              false},
    {"/var/lib",             "the host's state",                              false},
    {"/var/log",             "the host's logs",                               true },
    {"/var/spool/cron",      "what the host runs by itself",                  true },
    {"/usr",                 "the host's programs",                           false},
};

static const char *const private_names[] = {
    ".ssh",       ".gnupg",  ".aws",   ".kube",   ".docker",          ".config",
    ".netrc",     ".pgpass", ".npmrc", ".pypirc", ".git-credentials", "id_rsa",
    "id_ed25519", "id_ecdsa"};

static bool has_part(const char *path, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/'))
        if (strncmp(at + 1, name, length) == 0 && (at[1 + length] == '\0' || at[1 + length] == '/'))
            return true;
    return false;
}

const char *pin_sensitive_path(const char *path) {
    for (size_t i = 0; i < PIN_COUNT(sensitive); i++)
        if (strcmp(path, sensitive[i].path) == 0 ||
            (sensitive[i].below && pin_path_beneath(path, sensitive[i].path)))
            return sensitive[i].what;
    for (size_t i = 0; i < PIN_COUNT(private_names); i++)
        if (has_part(path, private_names[i]))
            return "a user's keys or settings";
    return NULL;
}
