/* Any bytes as a program: the checker takes or refuses them; what it takes runs to an end on any input, and
 * what the explorer says of all inputs holds for the one that is run. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "runtime/build/seccomp/explore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct pin_bpf_outcome outcome;
    const uint32_t *words;
    size_t fits;
};

/* Whether the input is one of those that a path stands for. */
static bool is_on(const struct pin_bpf_path *path, const uint32_t *words) {
    for (size_t i = 0; i < PIN_BPF_WORDS; i++)
        if (((path->value[i] ^ words[i]) & path->known[i]) != 0)
            return false;
    for (size_t i = 0; i < path->fact_count; i++)
        if ((words[path->facts[i].word] & path->facts[i].mask) == path->facts[i].value)
            return false;
    return true;
}

static bool note_leaf(void *self, uint32_t returned, const struct pin_bpf_path *path) {
    struct seen *seen = self;
    seen->fits += is_on(path, seen->words) && returned == seen->outcome.value;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct seccomp_data input = {0};
    uint32_t words[PIN_BPF_WORDS];
    static struct sock_filter code[BPF_MAXINSNS];
    if (size < sizeof(input))
        return 0;
    memcpy(&input, data, sizeof(input));
    memcpy(words, &input, sizeof(words));
    size_t length = (size - sizeof(input)) / sizeof(*code);
    length = length < BPF_MAXINSNS ? length : BPF_MAXINSNS;
    memcpy(code, data + sizeof(input), length * sizeof(*code));
    if (!pin_bpf_check(code, length))
        return 0;
    struct seen seen = {.outcome = pin_bpf_run(code, &input), .words = words};
    struct pin_bpf_path path = {.fact_count = 0};
    if (pin_bpf_explore(code, &path, note_leaf, &seen))
        assert(seen.fits > 0);
    assert(path.fact_count == 0);
    return 0;
}
