/* bake: writes the built-in profiles as images, for policy/profile.h: `bake OUT.c NAME…`, at build time.
 *
 * Which words of a policy are pointers is seen by making it twice: a word that is the same in both copies is
 * data, one that differs must lead to the same place of its own copy. Anything else (a pointer that
 * pin_policy_copy() has not made the copy's own, one into this program, a profile that is larger than a block
 * of the arena) ends the build, and so does an image from which not the same policy comes back. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/buffer.h"
#include "policy/grants.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "policy/profile.h"

#define HEAD sizeof(struct pin_policy)
#define BYTES_MAX ((size_t)32 * 1024)

extern const char __executable_start[], end[]; /* of this program, by the linker */

struct copy {
    struct pin_policy *policy;
    const unsigned char *body; /* the arena's content */
    size_t body_size;
};

struct image {
    unsigned char bytes[BYTES_MAX];
    uint16_t slots[BYTES_MAX / sizeof(uintptr_t)];
    size_t size, slot_count;
};

static void fail(const char *profile, const char *why) {
    (void)fprintf(stderr, "bake: profile '%s': %s\n", profile, why);
    exit(1);
}

static struct pin_policy *load(const char *name) {
    static struct pin_findings found;
    struct pin_policy *policy = pin_policy_load(name, &found);
    if (policy == NULL)
        fail(name, found.count > 0 ? found.list[0].message : "it can't be loaded");
    return policy;
}

/* A copy's first allocation is its name, and one that is made now is the last. */
static struct copy make_copy(const struct pin_policy *policy) {
    struct copy copy = {.policy = pin_policy_copy(policy)};
    const unsigned char *last = pin_arena_alloc(&copy.policy->arena, 1);
    copy.body = (const unsigned char *)copy.policy->name;
    if (last < copy.body || (size_t)(last - copy.body) > BYTES_MAX - HEAD)
        fail(policy->name, "it doesn't fit into one block of the arena");
    copy.body_size = (size_t)(last - copy.body);
    return copy;
}

static uintptr_t word_at(const unsigned char *bytes) {
    uintptr_t word;
    memcpy(&word, bytes, sizeof(word));
    return word;
}

static void add_words(struct image *image, const char *profile, const unsigned char *one,
                      const unsigned char *two, size_t size, const struct copy copies[2]) {
    for (size_t at = 0; at < size; at += sizeof(uintptr_t)) {
        uintptr_t first = word_at(one + at), second = word_at(two + at);
        uintptr_t offset = first - (uintptr_t)copies[0].body;
        if (first >= (uintptr_t)__executable_start && first < (uintptr_t)end)
            fail(profile, "it points into the program that reads it");
        if (first != second) {
            if (offset != second - (uintptr_t)copies[1].body || offset > copies[0].body_size)
                fail(profile, "it points out of its own memory");
            first = HEAD + offset;
            image->slots[image->slot_count++] = (uint16_t)(image->size + at);
        }
        memcpy(image->bytes + image->size + at, &first, sizeof(first));
    }
    image->size += size;
}

static void make_image(struct image *image, const char *profile, const struct copy copies[2]) {
    unsigned char heads[2][HEAD];
    if (copies[0].body_size != copies[1].body_size)
        fail(profile, "two copies of it differ in size");
    for (size_t i = 0; i < 2; i++) {
        memcpy(heads[i], copies[i].policy, HEAD);
        memset(heads[i] + offsetof(struct pin_policy, arena), 0,
               sizeof(struct pin_arena)); /* it gets its own */
    }
    add_words(image, profile, heads[0], heads[1], HEAD, copies);
    add_words(image, profile, copies[0].body, copies[1].body, copies[0].body_size, copies);
}

static void write_grant(void *context, const char *pointer, const char *value,
                        const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    pin_buffer_printf(context, "\n%s %s %s", pointer, value, pin_place_print(text, place));
}

static void write_all(const struct pin_policy *policy, struct pin_buffer *to) {
    char place[PIN_PLACE_TEXT];
    pin_policy_write_canonical(policy, to);
    for (int i = 0; i < PIN_FIELD_COUNT; i++)
        pin_buffer_printf(to, "\n%s", pin_place_print(place, &policy->places[i]));
    pin_policy_each_grant(policy, write_grant, to);
}

static void check_image(const struct image *image, const struct pin_policy *policy) {
    struct pin_profile_image wrapped = {policy->name, image->bytes, image->size, image->slots,
                                        image->slot_count};
    struct pin_policy *restored = pin_profile_restore(&wrapped);
    PIN_BUFFER struct pin_buffer wanted = {0}, got = {0};
    write_all(policy, &wanted);
    write_all(restored, &got);
    if (wanted.size != got.size || memcmp(wanted.data, got.data, got.size) != 0 ||
        memcmp(policy->digest, restored->digest, sizeof(policy->digest)) != 0)
        fail(policy->name, "its image isn't the same policy");
    pin_policy_free(restored);
}

static void print_image(FILE *out, const struct image *image, size_t number) {
    (void)fprintf(out, "static const unsigned char bytes_%zu[] = {", number);
    for (size_t i = 0; i < image->size; i++)
        (void)fprintf(out, "%u,", image->bytes[i]);
    (void)fprintf(out, "};\nstatic const uint16_t slots_%zu[] = {", number);
    for (size_t i = 0; i < image->slot_count; i++)
        (void)fprintf(out, "%u,", image->slots[i]);
    (void)fprintf(out, "};\n");
}

static void bake(FILE *out, const char *name, size_t number) {
    static struct image image;
    struct pin_policy *loaded[2] = {load(name), load(name)};
    struct copy copies[2] = {make_copy(loaded[0]), make_copy(loaded[1])};
    image.size = image.slot_count = 0;
    make_image(&image, name, copies);
    check_image(&image, loaded[0]);
    print_image(out, &image, number);
    for (size_t i = 0; i < 2; i++) {
        pin_policy_free(copies[i].policy);
        pin_policy_free(loaded[i]);
    }
}

int main(int argc, char **argv) {
    FILE *out = argc > 2 ? fopen(argv[1], "we") : NULL;
    if (out == NULL) {
        perror("bake");
        return 1;
    }
    (void)fprintf(out, "#include \"policy/profile.h\"\n");
    for (int i = 2; i < argc; i++)
        bake(out, argv[i], (size_t)i);
    (void)fprintf(out, "const struct pin_profile_image pin_profile_images[] = {\n");
    for (int i = 2; i < argc; i++)
        (void)fprintf(
            out,
            "    {\"%s\", bytes_%d, sizeof(bytes_%d), slots_%d, sizeof(slots_%d) / sizeof(slots_%d[0])},\n",
            argv[i], i, i, i, i, i);
    (void)fprintf(out, "};\nconst size_t pin_profile_image_count = %d;\n", argc - 2);
    return fclose(out) == 0 ? 0 : 1;
}
