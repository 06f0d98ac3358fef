#include "base/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pin_error *pin_find(struct pin_findings *found, enum pin_error_kind kind, const char *pointer,
                           const char *hint, const char *format, ...) {
    if (found->count == PIN_FINDINGS_MAX) {
        found->dropped++;
        return NULL;
    }
    struct pin_error *err = &found->list[found->count++];
    memset(err, 0, sizeof(*err));
    err->kind = kind;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    if (pointer != NULL)
        (void)pin_point(err, "%s", pointer);
    if (hint != NULL)
        (void)pin_hint(err, "%s", hint);
    return err;
}

void pin_find_error(struct pin_findings *found, const struct pin_error *err) {
    if (found->count == PIN_FINDINGS_MAX)
        found->dropped++;
    else
        found->list[found->count++] = *err;
}

void pin_wrap_findings(struct pin_findings *found, size_t first, const char *format, ...) {
    char context[128];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(context, sizeof(context), format, args);
    va_end(args);
    for (size_t i = first; i < found->count; i++)
        (void)pin_wrap(&found->list[i], "%s", context);
}

bool pin_fail_findings(struct pin_error *err, const struct pin_findings *found) {
    if (found->count == 0 || err->kind != PIN_ERROR_NONE)
        abort();
    *err = found->list[0];
    size_t others = found->count + found->dropped - 1;
    if (others > 0)
        return pin_wrap(err, "%zu more finding%s besides", others, others == 1 ? "" : "s");
    return false;
}
