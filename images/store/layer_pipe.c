#include "images/store/layer_pipe.h"

#include <pthread.h>
#include <stdlib.h>

#include "images/store/hash.h"

#define SLOTS 8

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
    bool filling, summing; /* their threads run */
    pthread_mutex_t lock;  /* of all below, and of who may touch which slot */
    pthread_cond_t moved;
    uint64_t filled, hashed, taken; /* slots so far; the caller holds slot taken - 1 */
    bool at_end, stop;
    struct pin_error failure; /* of the source */
    struct slot slots[SLOTS];
};

static void signal_move(struct pin_layer_pipe *pipe) {
    (void)pthread_cond_broadcast(&pipe->moved);
    (void)pthread_mutex_unlock(&pipe->lock);
}

/* The caller still reads the slot that it took last. */
static bool has_room(const struct pin_layer_pipe *pipe) {
    uint64_t released = pipe->taken > 0 ? pipe->taken - 1 : 0;
    uint64_t first = released < pipe->hashed ? released : pipe->hashed;
    return pipe->filled - first < SLOTS;
}

static struct slot *wait_for_room(struct pin_layer_pipe *pipe) {
    (void)pthread_mutex_lock(&pipe->lock);
    while (!pipe->stop && !has_room(pipe))
        (void)pthread_cond_wait(&pipe->moved, &pipe->lock);
    struct slot *slot = pipe->stop ? NULL : &pipe->slots[pipe->filled % SLOTS];
    (void)pthread_mutex_unlock(&pipe->lock);
    return slot;
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
        signal_move(pipe);
    }
    return NULL;
}

static void *sum(void *context) {
    struct pin_layer_pipe *pipe = context;
    for (;;) {
        (void)pthread_mutex_lock(&pipe->lock);
        while (!pipe->stop && pipe->hashed == pipe->filled && !pipe->at_end)
            (void)pthread_cond_wait(&pipe->moved, &pipe->lock);
        bool more = !pipe->stop && pipe->hashed < pipe->filled;
        (void)pthread_mutex_unlock(&pipe->lock);
        if (!more)
            return NULL;
        const struct slot *slot = &pipe->slots[pipe->hashed % SLOTS];
        pin_hasher_add(pipe->hasher, slot->data, slot->size);
        (void)pthread_mutex_lock(&pipe->lock);
        pipe->hashed++;
        signal_move(pipe);
    }
}

static bool start(struct pin_layer_pipe *pipe, struct pin_error *err) {
    pipe->filling = pthread_create(&pipe->filler, NULL, fill, pipe) == 0;
    pipe->summing = pipe->filling && pthread_create(&pipe->summer, NULL, sum, pipe) == 0;
    return pipe->summing || pin_fail(err, PIN_ERROR_EXHAUSTED, "no thread can be made to read the layer");
}

struct pin_layer_pipe *pin_layer_pipe_open(pin_layer_source *source, void *context, struct pin_error *err) {
    struct pin_layer_pipe *pipe = calloc(1, sizeof(*pipe));
    if (pipe == NULL)
        abort();
    pipe->source = source;
    pipe->context = context;
    pipe->hasher = pin_hasher_new();
    (void)pthread_mutex_init(&pipe->lock, NULL);
    (void)pthread_cond_init(&pipe->moved, NULL);
    if (start(pipe, err))
        return pipe;
    pin_layer_pipe_close(pipe);
    return NULL;
}

bool pin_layer_pipe_take(struct pin_layer_pipe *pipe, struct pin_layer_piece *piece, struct pin_error *err) {
    *piece = (struct pin_layer_piece){.data = ""};
    (void)pthread_mutex_lock(&pipe->lock);
    while (pipe->taken == pipe->filled && !pipe->at_end)
        (void)pthread_cond_wait(&pipe->moved, &pipe->lock);
    bool failed = pipe->taken == pipe->filled && pin_is_set(&pipe->failure);
    if (failed)
        *err = pipe->failure;
    if (pipe->taken < pipe->filled) {
        const struct slot *slot = &pipe->slots[pipe->taken++ % SLOTS];
        *piece = (struct pin_layer_piece){slot->data, slot->size, slot->taken};
    }
    signal_move(pipe);
    return !failed;
}

void pin_layer_pipe_digest(struct pin_layer_pipe *pipe, uint8_t digest[PIN_SHA256_SIZE]) {
    (void)pthread_join(pipe->summer, NULL); /* it ends with the last piece */
    pipe->summing = false;
    pin_hasher_finish(pipe->hasher, digest);
}

void pin_layer_pipe_close(struct pin_layer_pipe *pipe) {
    if (pipe == NULL)
        return;
    (void)pthread_mutex_lock(&pipe->lock);
    pipe->stop = true;
    signal_move(pipe);
    if (pipe->filling)
        (void)pthread_join(pipe->filler, NULL);
    if (pipe->summing)
        (void)pthread_join(pipe->summer, NULL);
    (void)pthread_cond_destroy(&pipe->moved);
    (void)pthread_mutex_destroy(&pipe->lock);
    pin_hasher_free(pipe->hasher);
    free(pipe);
}
