#include "runtime/host/libexec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(const char *path, int length) {
    struct stat facts;
    return length > 0 && length < PATH_MAX && stat(path, &facts) == 0 && S_ISREG(facts.st_mode) &&
           access(path, X_OK) == 0;
}

static bool find_self(char folder[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    char *slash = length > 0 ? memrchr(folder, '/', (size_t)length) : NULL;
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

static bool is_near(const char *program, char path[PATH_MAX]) {
    char self[PATH_MAX];
    return find_self(self) &&
           (is_program(path, snprintf(path, PATH_MAX, "%s/%s", self, program)) ||
            is_program(path, snprintf(path, PATH_MAX, "%s/../%s/%s", self, program, program)) ||
            is_program(path, snprintf(path, PATH_MAX, "%s/../libexec/pinfold/%s", self, program)));
}

/* From libexec: where both were installed together. */
static bool is_in_bin(char path[PATH_MAX]) {
    char self[PATH_MAX];
    return find_self(self) && is_program(path, snprintf(path, PATH_MAX, "%s/../../bin/pinfold", self));
}

bool pin_libexec_find(const char *program, char path[PATH_MAX], struct pin_error *err) {
    const char *named = secure_getenv("PINFOLD_LIBEXEC"), *folder = named != NULL ? named : PIN_LIBEXEC;
    if ((named == NULL && is_near(program, path)) ||
        is_program(path, snprintf(path, PATH_MAX, "%s/%s", folder, program)))
        return true;
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no program '%s'", program);
    return pin_hint(err, "it belongs in %s", folder);
}

bool pin_libexec_find_pinfold(char path[PATH_MAX], struct pin_error *err) {
    if (is_near("pinfold", path) || is_in_bin(path) ||
        is_program(path, snprintf(path, PATH_MAX, "%s/pinfold", PIN_BINDIR)))
        return true;
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no program 'pinfold'");
    return pin_hint(err, "it belongs in %s", PIN_BINDIR);
}
