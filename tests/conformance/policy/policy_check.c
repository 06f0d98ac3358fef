/* policy_check: reads paths from stdin, one a line, and prints one JSON line for each: {"file", "ok",
 * "findings": [{"kind", "pointer", "message", "hint"}], "canonical"}. For test_policy_schema.py. */
#include <stdio.h>
#include <string.h>

#include "policy/policy_read.h"
#include "policy/policy_write.h"

static void print_field(struct pin_buffer *to, const char *key, const char *text) {
    pin_buffer_printf(to, "\"%s\": ", key);
    pin_buffer_json(to, text);
}

static void check(const char *path) {
    PIN_BUFFER struct pin_buffer line = {0};
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = pin_policy_load(path, &found);
    pin_buffer_add(&line, "{");
    print_field(&line, "file", path);
    pin_buffer_printf(&line, ", \"ok\": %s, \"findings\": [", policy != NULL ? "true" : "false");
    for (size_t i = 0; i < found.count; i++) {
        pin_buffer_add(&line, i > 0 ? ", {" : "{");
        print_field(&line, "kind", pin_error_kind_name(found.list[i].kind));
        pin_buffer_add(&line, ", ");
        print_field(&line, "pointer", found.list[i].pointer);
        pin_buffer_add(&line, ", ");
        print_field(&line, "message", found.list[i].message);
        pin_buffer_add(&line, ", ");
        print_field(&line, "hint", found.list[i].hint);
        pin_buffer_add(&line, "}");
    }
    pin_buffer_add(&line, "]");
    if (policy != NULL) {
        pin_buffer_add(&line, ", \"canonical\": ");
        pin_policy_write_canonical(policy, &line);
    }
    (void)printf("%s}\n", line.data);
    pin_policy_free(policy);
}

int main(void) {
    char path[4096];
    while (fgets(path, sizeof(path), stdin) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        check(path);
    }
    return 0;
}
