#include "images/store/layer_pipe.h"

#include <pthread.h>
#include <stdlib.h>

#include "images/store/hash.h"

#define SLOTS 16 /* 2 MiB: they stay in the processor's cache */
#define BATCH 4  /* slots: who waits is woken for so many, since a switch of threads costs more than one */

struct slot {
    size_t size;
    uint64_t taken;
    char data[PIN_LAYER_PIPE_PIECE];
};

struct pin_layer_pipe {
    pin_layer_source *source;
    void *context;
    struct pin_hasher *hasher;
    pthread_t filler, summer;
    bool filling, summing;          /* their threads run */
    pthread_mutex_t lock;           /* of all below, and of who may touch which slot */
    pthread_cond_t room;            /* for the filler, that a batch of slots is free */
    pthread_cond_t more;            /* for the others, that a batch is filled, or the last one */
    uint64_t filled, hashed, taken; /* slots so far; the caller holds slot taken - 1, and nobody who hashes
                                       holds any when `hashed` is UINT64_MAX */
    bool at_end, stop;
    bool crowded;             /* the filler waits until there is room */
    struct pin_error failure; /* of the source */
    struct slot slots[SLOTS];
};

/* The caller still reads the slot that it took last. */
static uint64_t in_use(const struct pin_layer_pipe *pipe) {
    uint64_t released = pipe->taken > 0 ? pipe->taken - 1 : 0;
    return pipe->filled - (released < pipe->hashed ? released : pipe->hashed);
}

static struct slot *wait_for_room(struct pin_layer_pipe *pipe) {
    (void)pthread_mutex_lock(&pipe->lock);
    pipe->crowded = in_use(pipe) == SLOTS;
    while (!pipe->stop && pipe->crowded)
        (void)pthread_cond_wait(&pipe->room, &pipe->lock);
    struct slot *slot = pipe->stop ? NULL : &pipe->slots[pipe->filled % SLOTS];
    (void)pthread_mutex_unlock(&pipe->lock);
    return slot;
}

/* The lock is held, and slots were let go of. While the filler waits, somebody has slots before him, and ends
 * up here again. */
static void tell_room(struct pin_layer_pipe *pipe) {
    if (!pipe->crowded || in_use(pipe) > SLOTS - BATCH)
        return;
    pipe->crowded = false;
    (void)pthread_cond_signal(&pipe->room);
}

/* The lock is held. How many slots are before him who is done with `done` of them; 0 at the end. */
static uint64_t wait_for_more(struct pin_layer_pipe *pipe, uint64_t done) {
    while (!pipe->stop && !pipe->at_end && pipe->filled == done)
        (void)pthread_cond_wait(&pipe->more, &pipe->lock);
    return pipe->stop ? 0 : pipe->filled - done;
}

static void *fill(void *context) {
    struct pin_layer_pipe *pipe = context;
    struct slot *slot;
    for (bool more = true; more && (slot = wait_for_room(pipe)) != NULL;) {
        struct pin_error err = {0};
        ptrdiff_t got = pipe->source(pipe->context, slot->data, sizeof(slot->data), &slot->taken, &err);
        more = got > 0;
        (void)pthread_mutex_lock(&pipe->lock);
        if (more) {
            slot->size = (size_t)got;
            pipe->filled++;
        } else {
            pipe->failure = err;
            pipe->at_end = true;
        }
        if (!more || pipe->filled % BATCH == 0)
            (void)pthread_cond_broadcast(&pipe->more);
        (void)pthread_mutex_unlock(&pipe->lock);
    }
    return NULL;
}

static void *sum(void *context) {
    struct pin_layer_pipe *pipe = context;
    uint64_t ready;
    (void)pthread_mutex_lock(&pipe->lock);
    while ((ready = wait_for_more(pipe, pipe->hashed)) > 0) {
        uint64_t end = pipe->hashed + (ready < BATCH ? ready : BATCH);
        (void)pthread_mutex_unlock(&pipe->lock);
        for (uint64_t i = pipe->hashed; i < end; i++)
            pin_hasher_add(pipe->hasher, pipe->slots[i % SLOTS].data, pipe->slots[i % SLOTS].size);
        (void)pthread_mutex_lock(&pipe->lock);
        pipe->hashed = end;
        tell_room(pipe);
    }
    (void)pthread_mutex_unlock(&pipe->lock);
    return NULL;
}

static bool start(struct pin_layer_pipe *pipe, struct pin_error *err) {
    bool hashed = pipe->hasher != NULL;
    pipe->filling = pthread_create(&pipe->filler, NULL, fill, pipe) == 0;
    pipe->summing = pipe->filling && hashed && pthread_create(&pipe->summer, NULL, sum, pipe) == 0;
    return (hashed ? pipe->summing : pipe->filling) ||
           pin_fail(err, PIN_ERROR_EXHAUSTED, "no thread can be made to read the layer");
}

struct pin_layer_pipe *pin_layer_pipe_open(pin_layer_source *source, void *context, bool hashed,
                                           struct pin_error *err) {
    struct pin_layer_pipe *pipe = calloc(1, sizeof(*pipe));
    if (pipe == NULL)
        abort();
    pipe->source = source;
    pipe->context = context;
    pipe->hasher = hashed ? pin_hasher_new() : NULL;
    pipe->hashed = hashed ? 0 : UINT64_MAX;
    (void)pthread_mutex_init(&pipe->lock, NULL);
    (void)pthread_cond_init(&pipe->room, NULL);
    (void)pthread_cond_init(&pipe->more, NULL);
    if (start(pipe, err))
        return pipe;
    pin_layer_pipe_close(pipe);
    return NULL;
}

bool pin_layer_pipe_take(struct pin_layer_pipe *pipe, struct pin_layer_piece *piece, struct pin_error *err) {
    *piece = (struct pin_layer_piece){.data = ""};
    (void)pthread_mutex_lock(&pipe->lock);
    bool more = wait_for_more(pipe, pipe->taken) > 0;
    bool failed = !more && pin_is_set(&pipe->failure);
    if (failed)
        *err = pipe->failure;
    if (more) {
        const struct slot *slot = &pipe->slots[pipe->taken++ % SLOTS];
        *piece = (struct pin_layer_piece){slot->data, slot->size, slot->taken};
        tell_room(pipe);
    }
    (void)pthread_mutex_unlock(&pipe->lock);
    return !failed;
}

void pin_layer_pipe_digest(struct pin_layer_pipe *pipe, char digest[PIN_DIGEST_TEXT]) {
    uint8_t hash[PIN_SHA256_SIZE];
    (void)pthread_join(pipe->summer, NULL); /* it ends with the last piece */
    pipe->summing = false;
    pin_hasher_finish(pipe->hasher, hash);
    (void)pin_digest_print(digest, hash);
}

void pin_layer_pipe_close(struct pin_layer_pipe *pipe) {
    if (pipe == NULL)
        return;
    (void)pthread_mutex_lock(&pipe->lock);
    pipe->stop = true;
    (void)pthread_cond_signal(&pipe->room);
    (void)pthread_cond_broadcast(&pipe->more);
    (void)pthread_mutex_unlock(&pipe->lock);
    if (pipe->filling)
        (void)pthread_join(pipe->filler, NULL);
    if (pipe->summing)
        (void)pthread_join(pipe->summer, NULL);
    (void)pthread_cond_destroy(&pipe->room);
    (void)pthread_cond_destroy(&pipe->more);
    (void)pthread_mutex_destroy(&pipe->lock);
    pin_hasher_free(pipe->hasher);
    free(pipe);
}

void pin_layer_pipe_close_slot(struct pin_layer_pipe **pipe) {
    pin_layer_pipe_close(*pipe);
}
