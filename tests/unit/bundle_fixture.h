/* bundle_fixture.h: what the tests of runtime/bundle share. */
#pragma once

#include "policy_fixture.h"

#include "base/names.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/bundle_write.h"
#include "runtime/bundle/resolve.h"

/* A root of one file and one bind, so that no test depends on the host's /etc. */
static struct pin_rootfs_entry small_entries[] = {
    {PIN_ENTRY_DIRECTORY, "usr",        NULL,       0, 0755},
    {PIN_ENTRY_SYMLINK,   "bin",        "usr/bin",  0, 0777},
    {PIN_ENTRY_DIRECTORY, "etc",        NULL,       0, 0755},
    {PIN_ENTRY_FILE,      "etc/passwd", "root:x\n", 7, 0444},
};
static struct pin_rootfs_bind small_binds[] = {
    {"/usr", "usr"},
};
static const struct pin_rootfs small_root = {.kind = PIN_ROOTFS_SKELETON,
                                             .entries = small_entries,
                                             .entry_count = PIN_COUNT(small_entries),
                                             .binds = small_binds,
                                             .bind_count = PIN_COUNT(small_binds)};

static const char *const true_args[] = {"true"};

static inline struct pin_request plain_request(void) {
    return (struct pin_request){.args = true_args, .arg_count = 1};
}

/* The bundle of a request that must be granted. */
static inline struct pin_bundle *resolved(const struct pin_policy *ceiling,
                                          const struct pin_request *request) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *effective = pin_request_narrow(ceiling, request, &found);
    print_findings(&found);
    assert_non_null(effective);
    struct pin_bundle *bundle = pin_resolve(effective, request, &small_root, &found);
    print_findings(&found);
    assert_non_null(bundle);
    pin_policy_free(effective);
    return bundle;
}

static inline char *printed(const struct pin_bundle *bundle) {
    struct pin_error err = {0};
    size_t size;
    char *text = pin_bundle_print(bundle, false, &size, &err);
    if (text == NULL)
        fail_msg("%s: %s", err.pointer, err.message);
    return text;
}

static inline const struct pin_bundle_mount *mount_at(const struct pin_bundle *bundle,
                                                      const char *destination) {
    for (size_t i = 0; i < bundle->mount_count; i++)
        if (strcmp(bundle->mounts[i].destination, destination) == 0)
            return &bundle->mounts[i];
    return NULL;
}

static inline bool has_text(const char *const *list, size_t count, const char *text) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], text) == 0)
            return true;
    return false;
}
