/* policy_compare: reads two policies at a time from stdin, each on a line of its own, and prints one line for
 * them: whether the first is at most the second, whether the second is at most the first, and whether their
 * digests are the same, as "101"; "-" where one is no policy. For test_policy_oracle.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_order.h"
#include "policy/policy_read.h"

static struct pin_policy *parse(const char *line) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = pin_policy_parse("line", line, strcspn(line, "\n"), &found);
    if (policy == NULL)
        (void)fprintf(stderr, "%s: %s\n%s", found.list[0].pointer, found.list[0].message, line);
    return policy;
}

static bool at_most(const struct pin_policy *a, const struct pin_policy *b) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    return pin_policy_narrower(a, b, &found);
}

int main(void) {
    char *first = NULL, *second = NULL;
    size_t first_room = 0, second_room = 0;
    while (getline(&first, &first_room, stdin) > 0 && getline(&second, &second_room, stdin) > 0) {
        struct pin_policy *a = parse(first), *b = parse(second);
        if (a == NULL || b == NULL)
            (void)puts("-");
        else
            (void)printf("%d%d%d\n", at_most(a, b), at_most(b, a),
                         memcmp(a->digest, b->digest, sizeof(a->digest)) == 0);
        (void)fflush(stdout);
        pin_policy_free(a);
        pin_policy_free(b);
    }
    free(first);
    free(second);
    return 0;
}
