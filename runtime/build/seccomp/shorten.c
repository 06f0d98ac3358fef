#include "runtime/build/seccomp/shorten.h"

#include <stdlib.h>
#include <string.h>

#include <linux/seccomp.h>

#include "base/cleanup.h"
#include "runtime/build/seccomp/simulate.h"

#define FARTHEST 255   /* that a conditional jump reaches */
#define LEAVES_MAX 64  /* of one program: verdicts, and calls whose arguments count */
#define SINGLES_MAX 4  /* numbers within a span that lead elsewhere */
#define BLOCKS_MAX 200 /* instructions that share their returns, which stand behind them */
#define LEAF(index) (-1 - (int32_t)(index))

struct leaf { /* where a number leads to */
    bool looks_at_args;
    uint32_t at; /* the first instruction that does; else what is returned */
};

struct span { /* of numbers, up to the next one's start */
    uint32_t start;
    uint32_t leaf;
    uint32_t singles[SINGLES_MAX], single_leaves[SINGLES_MAX];
    size_t single_count;
};

struct draft { /* an instruction whose jumps aren't distances yet: a place, or LEAF() */
    uint16_t code;
    uint32_t k;
    int32_t yes, no;
};

struct shortening {
    const struct sock_filter *old;
    size_t old_length;
    uint32_t audit_arch;
    struct leaf leaves[LEAVES_MAX];
    size_t leaf_count;
    struct span *spans;
    size_t span_count;
    struct draft *made;
    size_t count, room;
    int32_t place[LEAVES_MAX]; /* of each leaf's one instruction behind the tree */
    size_t settled;            /* instructions before this one lead to no leaf that is to come */
    bool failed;
};

static bool is_if(uint16_t code) {
    return code == (BPF_JMP | BPF_JEQ | BPF_K) || code == (BPF_JMP | BPF_JGT | BPF_K) ||
           code == (BPF_JMP | BPF_JGE | BPF_K);
}

static bool holds(const struct sock_filter *op, uint32_t value) {
    switch (BPF_OP(op->code)) {
    case BPF_JEQ: return value == op->k;
    case BPF_JGT: return value > op->k;
    default: return value >= op->k;
    }
}

static bool returns(const struct sock_filter *op) {
    return op->code == (BPF_RET | BPF_K);
}

static bool loads(const struct sock_filter *op) {
    return op->code == (BPF_LD | BPF_W | BPF_ABS);
}

/* Where a jump to this place gets to. libseccomp compares both halves of an argument, also the one of which
 * no bit counts: "load, and with nothing, is it 0" always is. What comes after it must not need what was
 * loaded. */
static size_t get_to(const struct shortening *self, size_t at) {
    while (at + 2 < self->old_length && loads(&self->old[at])) {
        const struct sock_filter *mask = &self->old[at + 1], *test = &self->old[at + 2];
        if (mask->code != (BPF_ALU | BPF_AND | BPF_K) || mask->k != 0 ||
            test->code != (BPF_JMP | BPF_JEQ | BPF_K) || test->k != 0)
            break;
        size_t to = at + 3 + test->jt;
        if (!loads(&self->old[to]) && !returns(&self->old[to]))
            break;
        at = to;
    }
    return at;
}

/* --- what the old program does with each number --- */

/* The leaf's index; -1: there is something on the way that we don't know. */
static int find_leaf(struct shortening *self, const struct leaf *leaf) {
    for (size_t i = 0; i < self->leaf_count; i++)
        if (self->leaves[i].looks_at_args == leaf->looks_at_args && self->leaves[i].at == leaf->at)
            return (int)i;
    if (self->leaf_count == LEAVES_MAX)
        return -1;
    self->leaves[self->leaf_count] = *leaf;
    return (int)self->leaf_count++;
}

static int follow(struct shortening *self, uint32_t number) {
    uint32_t loaded = 0;
    for (size_t at = 0; (at = get_to(self, at)) < self->old_length;) {
        const struct sock_filter *op = &self->old[at];
        if (returns(op))
            return find_leaf(self, &(struct leaf){false, op->k});
        if (loads(op)) {
            if (op->k != offsetof(struct seccomp_data, nr) && op->k != offsetof(struct seccomp_data, arch))
                return find_leaf(self, &(struct leaf){true, (uint32_t)at});
            loaded = op->k == offsetof(struct seccomp_data, nr) ? number : self->audit_arch;
            at++;
        } else if (op->code == (BPF_JMP | BPF_JA)) {
            at += 1 + op->k;
        } else if (is_if(op->code)) {
            at += 1 + (size_t)(holds(op, loaded) ? op->jt : op->jf);
        } else {
            break;
        }
    }
    return -1;
}

static int compare_numbers(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

/* What a number leads to can only change at a constant, or behind it. */
static bool find_spans(struct shortening *self) {
    size_t count = 1;
    PIN_FREE uint32_t *starts = calloc(2 * self->old_length + 1, sizeof(*starts));
    self->spans = calloc(2 * self->old_length + 1, sizeof(*self->spans));
    if (starts == NULL || self->spans == NULL)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, unseen */
        return false;
    for (size_t i = 0; i < self->old_length; i++) {
        if (!is_if(self->old[i].code))
            continue;
        starts[count++] = self->old[i].k;
        if (self->old[i].k < UINT32_MAX)
            starts[count++] = self->old[i].k + 1;
    }
    qsort(starts, count, sizeof(*starts), compare_numbers);
    for (size_t i = 0; i < count; i++) {
        int leaf = i > 0 && starts[i] == starts[i - 1] ? -2 : follow(self, starts[i]);
        if (leaf == -1)
            return false;
        if (leaf >= 0 && (self->span_count == 0 || self->spans[self->span_count - 1].leaf != (uint32_t)leaf))
            self->spans[self->span_count++] = (struct span){.start = starts[i], .leaf = (uint32_t)leaf};
    }
    return true;
}

/* A span of one number between two of one leaf becomes part of both: one comparison instead of two. */
static void join_spans(struct shortening *self) {
    size_t kept = 0;
    for (size_t i = 0; i < self->span_count; kept++) {
        struct span span = self->spans[i];
        while (i + 2 < self->span_count && span.single_count < SINGLES_MAX &&
               self->spans[i + 2].leaf == span.leaf &&
               self->spans[i + 2].start == self->spans[i + 1].start + 1) {
            span.singles[span.single_count] = self->spans[i + 1].start;
            span.single_leaves[span.single_count++] = self->spans[i + 1].leaf;
            i += 2;
        }
        i++;
        self->spans[kept] = span;
    }
    self->span_count = kept;
}

/* --- the new program --- */

static struct draft *put(struct shortening *self, uint16_t code, uint32_t k, int32_t yes, int32_t no) {
    if (self->count == self->room) {
        self->failed = true;
        return &self->made[0];
    }
    self->made[self->count] = (struct draft){code, k, yes, no};
    return &self->made[self->count++];
}

static int32_t here(const struct shortening *self) {
    return (int32_t)self->count;
}

static bool is_plain(const struct span *span) {
    return span->single_count == 0;
}

static void put_singles(struct shortening *self, const struct span *span) {
    for (size_t i = 0; i < span->single_count; i++)
        (void)put(self, BPF_JMP | BPF_JEQ | BPF_K, span->singles[i], LEAF(span->single_leaves[i]),
                  i + 1 < span->single_count ? here(self) + 1 : LEAF(span->leaf));
}

/* The spans from `first` to `last`, which are more than one, or one with singles. As deep as the logarithm.
 */
static void put_tree(struct shortening *self, size_t first, size_t last) {
    if (first == last) {
        put_singles(self, &self->spans[first]);
        return;
    }
    size_t middle = (first + last + 1) / 2;
    size_t node = self->count;
    (void)put(self, BPF_JMP | BPF_JGE | BPF_K, self->spans[middle].start, 0, 0);
    if (self->failed)
        return;
    if (first == middle - 1 && is_plain(&self->spans[first])) {
        self->made[node].no = LEAF(self->spans[first].leaf);
    } else {
        self->made[node].no = here(self);
        put_tree(self, first, middle - 1);
    }
    if (middle == last && is_plain(&self->spans[last])) {
        self->made[node].yes = LEAF(self->spans[last].leaf);
    } else {
        self->made[node].yes = here(self);
        put_tree(self, middle, last);
    }
}

/* One instruction for each leaf, near the tree: what is returned, or a jump to where the arguments are looked
 * at. */
static void put_leaves(struct shortening *self) {
    for (size_t i = 0; i < self->leaf_count; i++) {
        self->place[i] = here(self);
        if (self->leaves[i].looks_at_args)
            (void)put(self, BPF_JMP | BPF_JA, 0, LEAF(i), 0);
        else
            (void)put(self, BPF_RET | BPF_K, self->leaves[i].at, 0, 0);
    }
}

/* Marks what can be reached from `at` on, which is forward; returns how much that is without the returns.
 * SIZE_MAX: it isn't what libseccomp makes. */
static size_t mark(const struct shortening *self, size_t at, bool *reached) {
    size_t count = 0;
    memset(reached, 0, self->old_length * sizeof(*reached));
    reached[at] = true;
    for (; at < self->old_length; at++) {
        const struct sock_filter *op = &self->old[at];
        if (!reached[at])
            continue;
        if (returns(op))
            continue;
        count++;
        if (is_if(op->code))
            reached[get_to(self, at + 1 + op->jt)] = reached[get_to(self, at + 1 + op->jf)] = true;
        else if (op->code == (BPF_JMP | BPF_JA))
            reached[get_to(self, at + 1 + op->k)] = true;
        else if (BPF_CLASS(op->code) == BPF_JMP || BPF_CLASS(op->code) == BPF_RET || returns(op + 1))
            return SIZE_MAX;
        else
            reached[at + 1] = true;
    }
    return count;
}

static void lead_to(int32_t *target, int32_t leaf, int32_t place) {
    if (*target == leaf)
        *target = place;
}

/* Puts the returns that the blocks since the last time lead to. */
static void put_returns(struct shortening *self) {
    size_t end = self->count;
    for (size_t leaf = 0; leaf < self->leaf_count; leaf++) {
        bool wanted = false;
        for (size_t i = self->settled; i < end; i++)
            wanted = wanted || self->made[i].yes == LEAF(leaf) || self->made[i].no == LEAF(leaf);
        for (size_t i = self->settled; i < end && wanted; i++) {
            lead_to(&self->made[i].yes, LEAF(leaf), here(self));
            lead_to(&self->made[i].no, LEAF(leaf), here(self));
        }
        if (wanted)
            (void)put(self, BPF_RET | BPF_K, self->leaves[leaf].at, 0, 0);
    }
    self->settled = self->count;
}

/* Where each instruction of the block comes to stand; a return is a leaf. */
static void move_block(struct shortening *self, const bool *reached, int32_t *moved) {
    int32_t next = here(self);
    for (size_t at = 0; at < self->old_length; at++) {
        if (!reached[at])
            continue;
        int leaf = returns(&self->old[at]) ? find_leaf(self, &(struct leaf){false, self->old[at].k}) : 0;
        self->failed = self->failed || leaf < 0;
        moved[at] = returns(&self->old[at]) ? LEAF(leaf) : next++;
    }
}

/* A copy of all that the old program does from the leaf on. */
static void put_block(struct shortening *self, size_t leaf, bool *reached, int32_t *moved) {
    size_t size = mark(self, self->leaves[leaf].at, reached);
    if (size > FARTHEST) {
        self->failed = true;
        return;
    }
    if (self->count - self->settled + size > BLOCKS_MAX)
        put_returns(self);
    self->made[self->place[leaf]].yes = here(self);
    move_block(self, reached, moved);
    for (size_t at = 0; at < self->old_length; at++) {
        const struct sock_filter *op = &self->old[at];
        if (!reached[at] || returns(op))
            continue;
        if (is_if(op->code))
            (void)put(self, op->code, op->k, moved[get_to(self, at + 1 + op->jt)],
                      moved[get_to(self, at + 1 + op->jf)]);
        else if (op->code == (BPF_JMP | BPF_JA))
            (void)put(self, op->code, 0, moved[get_to(self, at + 1 + op->k)], 0);
        else
            (void)put(self, op->code, op->k, 0, 0);
    }
}

static bool put_all(struct shortening *self) {
    PIN_FREE bool *reached = calloc(self->old_length, sizeof(*reached));
    PIN_FREE int32_t *moved = calloc(self->old_length, sizeof(*moved));
    self->room = self->old_length;
    self->made = calloc(self->room, sizeof(*self->made));
    if (reached == NULL || moved == NULL || self->made == NULL || self->room < 4 || self->span_count < 2)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, unseen */
        return false;
    (void)put(self, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    (void)put(self, BPF_JMP | BPF_JEQ | BPF_K, self->audit_arch, 3, 2);
    (void)put(self, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
    (void)put(self, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    put_tree(self, 0, self->span_count - 1);
    put_leaves(self);
    self->settled = self->count;
    for (size_t i = 0; i < self->leaf_count && !self->failed; i++)
        if (self->leaves[i].looks_at_args)
            put_block(self, i, reached, moved);
    put_returns(self);
    return !self->failed && self->count < self->old_length;
}

static bool distance(const struct shortening *self, size_t from, int32_t to, size_t most, uint32_t *out) {
    int32_t place = to < 0 ? self->place[-1 - to] : to;
    *out = (uint32_t)(place - (int32_t)from - 1);
    return place > (int32_t)from && *out <= most;
}

/* Drafts to instructions. False: a jump goes too far. */
static bool settle(const struct shortening *self, struct sock_filter *code) {
    for (size_t i = 0; i < self->count; i++) {
        const struct draft *draft = &self->made[i];
        uint32_t yes = 0, no = 0, k = draft->k;
        if (is_if(draft->code) &&
            !(distance(self, i, draft->yes, FARTHEST, &yes) && distance(self, i, draft->no, FARTHEST, &no)))
            return false;
        if (draft->code == (BPF_JMP | BPF_JA) && !distance(self, i, draft->yes, PIN_PROGRAM_MAX, &k))
            return false;
        code[i] = (struct sock_filter){draft->code, (uint8_t)yes, (uint8_t)no, k};
    }
    return true;
}

void pin_program_shorten(struct pin_program *program, uint32_t audit_arch) {
    struct shortening self = {.old = program->code, .old_length = program->length, .audit_arch = audit_arch};
    PIN_FREE struct sock_filter *code = calloc(program->length, sizeof(*code));
    bool done = code != NULL && pin_bpf_check(program->code, program->length) && find_spans(&self);
    if (done) {
        join_spans(&self);
        done = put_all(&self) && settle(&self, code);
    }
    free(self.spans);
    free(self.made);
    if (!done)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, unseen */
        return;
    free(program->code);
    program->code = pin_steal_ptr(&code);
    program->length = (uint16_t)self.count;
}
