/* loop.h: one thread waits for many things; on io_uring, or the same on epoll.
 *
 * A source is a descriptor (borrowed) and a callback; a timer is a moment and a callback. Sources and timers
 * belong to the loop and live until they are removed or the loop is freed. Callbacks may add, pause and
 * remove any source or timer, also their own. Which backend runs makes no difference to them. Bytes are
 * delivered in order, in one piece per callback, in a buffer that is the loop's and only good until the
 * callback returns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum pin_io { PIN_IO_AUTO, PIN_IO_URING, PIN_IO_EPOLL };

struct pin_loop;
struct pin_source;
struct pin_timer;

/* AUTO takes io_uring, and epoll where the kernel refuses a ring. With URING a refusal is an error that says
 * why and how to mend it. */
struct pin_loop *pin_loop_new(enum pin_io io, struct pin_error *err);
void pin_loop_free(struct pin_loop *loop);
enum pin_io pin_loop_backend(const struct pin_loop *loop);

/* The most that one callback gets, and the room of one read. */
#define PIN_LOOP_READ_MAX ((size_t)256 * 1024)

/* `size` > 0: bytes. 0: the end; `error` is then 0 (end of file) or the errno of read(2); the source is
 * paused and should be removed. */
typedef void pin_on_bytes(void *self, const uint8_t *data, size_t size, int error);
/* What was asked for and holds, and POLLERR and POLLHUP, unasked. */
typedef void pin_on_ready(void *self, unsigned events);
typedef void pin_on_time(void *self);

/* NULL with an error on failure. */
struct pin_source *pin_loop_read(struct pin_loop *loop, int fd, pin_on_bytes *on_bytes, void *self,
                                 struct pin_error *err);
/* Calls for as long as one of `events` holds. */
struct pin_source *pin_loop_watch(struct pin_loop *loop, int fd, unsigned events, pin_on_ready *on_ready,
                                  void *self, struct pin_error *err);
/* A paused source isn't called, and a paused stream isn't read: bytes wait where they are. (What was already
 * read when pause is called is delivered after resume.) Both do nothing when it is so already. */
void pin_source_pause(struct pin_source *source);
void pin_source_resume(struct pin_source *source);
/* From now on nothing of what this stream delivers stays in the loop's buffers: for bytes that may hold a
 * secret. */
void pin_source_wipe(struct pin_source *source);
/* No callback comes after this; NULL is fine. Sets the slot to NULL. */
void pin_source_remove(struct pin_source **slot);

/* Calls once, at a moment of CLOCK_MONOTONIC. The timer is gone after its callback. */
struct pin_timer *pin_loop_at(struct pin_loop *loop, uint64_t at_ns, pin_on_time *on_time, void *self,
                              struct pin_error *err);
void pin_timer_cancel(struct pin_timer **slot); /* NULL is fine */

/* Waits until something is due and calls back; false when waiting itself failed. */
bool pin_loop_step(struct pin_loop *loop, struct pin_error *err);
