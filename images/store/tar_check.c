#include "images/store/tar_check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/names.h"

#define BLOCK ((size_t)512)
#define EXTENDED_MAX ((size_t)1024 * 1024) /* as libarchive has it */
#define OCTAL_MAX UINT64_C(077777777777)   /* what a header's own field can say */
#define SPARSE_AGAIN_HEADER 482            /* old GNU sparse: another block with a map follows */
#define SPARSE_AGAIN_MAP 504

enum state { HEADER, EXTENDED, SPARSE, SKIP, ENDED };

enum kind {
    KIND_FILE,
    KIND_BARE, /* without content */
    KIND_SPARSE,
    KIND_PAX,
    KIND_GLOBAL,
    KIND_NAME,
    KIND_LINK,
};

/* What an old dump or another system's tar has besides is for readers to guess. */
static const struct {
    char flag;
    enum kind kind;
} kinds[] = {
    {'0',  KIND_FILE  },
    {'\0', KIND_FILE  },
    {'7',  KIND_FILE  },
    {'1',  KIND_BARE  },
    {'2',  KIND_BARE  },
    {'3',  KIND_BARE  },
    {'4',  KIND_BARE  },
    {'5',  KIND_BARE  },
    {'6',  KIND_BARE  },
    {'S',  KIND_SPARSE},
    {'x',  KIND_PAX   },
    {'g',  KIND_GLOBAL},
    {'L',  KIND_NAME  },
    {'K',  KIND_LINK  },
};

enum { SAYS_SIZE = 1, SAYS_PATH = 2, SAYS_LINK = 4, SAYS_SPARSE = 8, SAYS_REAL_SIZE = 16 };

/* Keys that decide where a member ends, or what it is called. */
static const struct {
    const char *key;
    unsigned says;
} keys[] = {
    {"size",                SAYS_SIZE     },
    {"path",                SAYS_PATH     },
    {"linkpath",            SAYS_LINK     },
    {"GNU.sparse.major",    SAYS_SPARSE   },
    {"GNU.sparse.realsize", SAYS_REAL_SIZE},
};

/* What extended headers have said of the member that follows. */
struct next {
    bool pax, name, link; /* that one came */
    unsigned says;
    uint64_t size;
    bool is_folder; /* its name ends with "/" */
};

struct pin_tar_check {
    enum state state;
    enum kind kind; /* of the extended header that is collected */
    uint8_t block[BLOCK];
    size_t filled;
    uint64_t skip; /* content that nobody here looks at, with what fills its last block */
    uint8_t *extended;
    size_t size, room; /* of it */
    struct next next;
};

static bool doubt(const char *what, struct pin_error *err) {
    return pin_fail(err, PIN_ERROR_SYNTAX, "the layer isn't a tar that all read alike: %s", what);
}

static void skip_bytes(struct pin_tar_check *check, uint64_t size) {
    check->skip = size;
    check->state = check->skip > 0 ? SKIP : HEADER;
}

/* Digits, with spaces before and spaces or zeros after; or a number of eight bytes. */
static bool read_size(const uint8_t field[12], uint64_t *size) {
    struct pin_cursor at = {field, field + 12};
    uint32_t head, high, low;
    *size = 0;
    if ((field[0] & 0x80) != 0) {
        if (!pin_take_u32be(&at, &head) || !pin_take_u32be(&at, &high) || !pin_take_u32be(&at, &low))
            return false;
        *size = (uint64_t)high << 32 | low;
        return head == UINT32_C(0x80000000) && *size <= INT64_MAX;
    }
    while (at.at < at.end && *at.at == ' ')
        at.at++;
    for (; at.at < at.end && *at.at >= '0' && *at.at <= '7'; at.at++)
        *size = *size * 8 + (uint64_t)(*at.at - '0');
    while (at.at < at.end && (*at.at == ' ' || *at.at == '\0'))
        at.at++;
    return at.at == at.end;
}

static bool read_decimal(const uint8_t *digits, size_t count, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '9' || i >= 18)
            return false;
        *value = *value * 10 + (uint64_t)(digits[i] - '0');
    }
    return count > 0;
}

static bool take_value(struct next *next, unsigned says, const uint8_t *value, size_t size,
                       struct pin_error *err) {
    if ((next->says & says) != 0)
        return doubt("an extended header says the same twice", err);
    next->says |= says;
    switch (says) {
    case SAYS_SIZE: return read_decimal(value, size, &next->size) || doubt("a size isn't a number", err);
    case SAYS_PATH: next->is_folder = size > 0 && value[size - 1] == '/'; break;
    default: break;
    }
    return (says & (SAYS_PATH | SAYS_LINK)) == 0 || (size > 0 && memchr(value, '\0', size) == NULL) ||
           doubt("a name is empty, or has a zero in it", err);
}

static bool is_key(const uint8_t *key, size_t size, const char *known) {
    return strlen(known) == size && memcmp(key, known, size) == 0;
}

static bool take_record(struct pin_tar_check *check, const uint8_t *key, size_t key_size,
                        const uint8_t *value, size_t size, struct pin_error *err) {
    static const char sparse[] = "GNU.sparse.";
    bool global = check->kind == KIND_GLOBAL;
    if (is_key(key, key_size, "SCHILY.realsize"))
        return doubt("it has a sparse file as star writes it", err);
    if (global && key_size > strlen(sparse) && memcmp(key, sparse, strlen(sparse)) == 0)
        return doubt("a global header is about one file", err);
    for (size_t i = 0; i < PIN_COUNT(keys); i++)
        if (is_key(key, key_size, keys[i].key))
            return global ? doubt("a global header is about one file", err)
                          : take_value(&check->next, keys[i].says, value, size, err);
    return true;
}

/* "LENGTH KEY=VALUE\n" each, the length being that of all of it. */
static bool read_records(struct pin_tar_check *check, struct pin_error *err) {
    struct pin_cursor in = {check->extended, check->extended + check->size};
    while (pin_left(&in) > 0) {
        const uint8_t *space = memchr(in.at, ' ', pin_left(&in) < 20 ? pin_left(&in) : 20), *record = in.at;
        uint64_t length;
        if (space == NULL || !read_decimal(in.at, (size_t)(space - in.at), &length) ||
            length > pin_left(&in) || length < (size_t)(space - in.at) + 2 || record[length - 1] != '\n')
            return doubt("an extended header is malformed", err);
        in.at += length;
        const uint8_t *key = space + 1, *end = record + length - 1;
        const uint8_t *equals = memchr(key, '=', (size_t)(end - key));
        if (equals == NULL || equals == key)
            return doubt("an extended header is malformed", err);
        if (!take_record(check, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1), err))
            return false;
    }
    if ((check->next.says & (SAYS_SPARSE | SAYS_REAL_SIZE)) == SAYS_REAL_SIZE)
        return doubt("a file is sparse without saying how", err);
    return true;
}

static bool end_extended(struct pin_tar_check *check, struct pin_error *err) {
    if (check->kind == KIND_PAX || check->kind == KIND_GLOBAL)
        return read_records(check, err);
    size_t size = strnlen((const char *)check->extended, check->size);
    if (check->kind == KIND_NAME)
        check->next.is_folder = size > 0 && check->extended[size - 1] == '/';
    return size > 0 || doubt("a name is empty, or has a zero in it", err);
}

/* Of one member there is one extended header of POSIX, or one of GNU's for its name and one for its target.
 */
static bool begin_extended(struct pin_tar_check *check, enum kind kind, uint64_t size,
                           struct pin_error *err) {
    struct next *next = &check->next;
    bool *seen = kind == KIND_NAME ? &next->name : kind == KIND_LINK ? &next->link : &next->pax;
    if (kind != KIND_GLOBAL) {
        if (*seen || (kind == KIND_PAX ? next->name || next->link : next->pax))
            return doubt("a member has several extended headers", err);
        *seen = true;
    } else if (next->pax || next->name || next->link) {
        return doubt("a global header comes between a member and its own", err);
    }
    if (size > EXTENDED_MAX)
        return doubt("an extended header is larger than 1 MiB", err);
    if (size == 0) /* which says nothing */
        return kind == KIND_PAX || kind == KIND_GLOBAL || doubt("a name is empty, or has a zero in it", err);
    check->kind = kind;
    check->size = 0;
    check->skip = size; /* as long as it is collected: what is left of it */
    check->state = EXTENDED;
    return true;
}

static bool begin_member(struct pin_tar_check *check, enum kind kind, uint64_t size, struct pin_error *err) {
    const struct next next = check->next;
    const uint8_t *name = check->block;
    size_t length = strnlen((const char *)name, 100);
    bool named = next.name || (next.says & SAYS_PATH) != 0, sized = (next.says & SAYS_SIZE) != 0;
    bool is_folder = named ? next.is_folder : length > 0 && name[length - 1] == '/';
    check->next = (struct next){.says = 0};
    if (sized && next.size != size && next.size <= OCTAL_MAX)
        return doubt("a member has two sizes", err);
    if (sized)
        size = next.size;
    if (size > INT64_MAX - BLOCK)
        return doubt("a member is larger than a file can be", err);
    if (size > 0 && (kind == KIND_BARE || (kind == KIND_FILE && is_folder)))
        return doubt("what isn't a file has content", err);
    skip_bytes(check, (size + BLOCK - 1) / BLOCK * BLOCK);
    if (kind == KIND_SPARSE && check->block[SPARSE_AGAIN_HEADER] != 0)
        check->state = SPARSE;
    return true;
}

static bool take_header(struct pin_tar_check *check, struct pin_error *err) {
    static const uint8_t zeros[BLOCK];
    uint64_t size;
    if (memcmp(check->block, zeros, BLOCK) == 0) {
        check->state = ENDED;
        return true;
    }
    if (!read_size(check->block + 124, &size))
        return doubt("a size isn't a number", err);
    for (size_t i = 0; i < PIN_COUNT(kinds); i++) {
        if ((uint8_t)kinds[i].flag != check->block[156])
            continue;
        return kinds[i].kind < KIND_PAX ? begin_member(check, kinds[i].kind, size, err)
                                        : begin_extended(check, kinds[i].kind, size, err);
    }
    return doubt("it has a member of an unknown kind", err);
}

static bool take_block(struct pin_tar_check *check, struct pin_error *err) {
    check->filled = 0;
    if (check->state == HEADER)
        return take_header(check, err);
    if (check->block[SPARSE_AGAIN_MAP] == 0)
        check->state = check->skip > 0 ? SKIP : HEADER;
    return true;
}

static void collect(struct pin_tar_check *check, const uint8_t *data, size_t size) {
    if (check->size + size > check->room) {
        check->room = (check->size + size) * 2;
        check->extended = realloc(check->extended, check->room);
        if (check->extended == NULL)
            abort();
    }
    memcpy(check->extended + check->size, data, size);
    check->size += size;
}

/* Takes some of the bytes; how many. */
static size_t take_some(struct pin_tar_check *check, const uint8_t *data, size_t size, bool *sound,
                        struct pin_error *err) {
    bool whole = check->state == EXTENDED || check->state == SKIP;
    uint64_t want = whole ? check->skip : BLOCK - check->filled;
    size_t some = want < size ? (size_t)want : size;
    if (check->state == EXTENDED)
        collect(check, data, some);
    if (whole) {
        check->skip -= some;
    } else {
        memcpy(check->block + check->filled, data, some);
        check->filled += some;
    }
    if (some < want)
        return some;
    if (check->state == EXTENDED) {
        *sound = end_extended(check, err);
        skip_bytes(check, (BLOCK - check->size % BLOCK) % BLOCK);
    } else if (whole) {
        check->state = HEADER;
    } else {
        *sound = take_block(check, err);
    }
    return some;
}

bool pin_tar_check_feed(struct pin_tar_check *check, const void *data, size_t size, struct pin_error *err) {
    const uint8_t *at = data, *end = at + size;
    bool sound = true;
    while (sound && at < end && check->state != ENDED)
        at += take_some(check, at, (size_t)(end - at), &sound, err);
    return sound;
}

struct pin_tar_check *pin_tar_check_new(void) {
    struct pin_tar_check *check = calloc(1, sizeof(*check));
    if (check == NULL)
        abort();
    return check;
}

void pin_tar_check_free(struct pin_tar_check *check) {
    if (check == NULL)
        return;
    free(check->extended);
    free(check);
}
