#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "runtime/kept/parts.h"

/* The first byte is one that no text has, so that no text is held back: run_start.c. */
#define NEVER_IN_UTF8 0xf8

bool pin_exec_prepare_frames(struct exec *exec, struct pin_error *err) {
    struct exec_frames *frames = &exec->frames;
    if ((exec->request.frames & (PIN_FRAMES_FD | PIN_FRAMES_STDOUT)) == 0)
        return true;
    if (getrandom(frames->nonce, sizeof(frames->nonce), 0) != (ssize_t)sizeof(frames->nonce))
        return pin_fail_errno(err, "draw the nonce of a command's frames");
    frames->nonce[0] |= NEVER_IN_UTF8;
    int length = snprintf(frames->nonce_variable, sizeof(frames->nonce_variable), "PINFOLD_FRAME_NONCE=");
    for (size_t i = 0; i < sizeof(frames->nonce); i++)
        length += snprintf(frames->nonce_variable + length, 3, "%02x", frames->nonce[i]);
    return true;
}

bool pin_exec_frame_options(struct exec *exec, int stream, struct pin_frame_options *options) {
    uint32_t where = exec->request.frames;
    bool in_stdout = stream == STREAM_OUT && !exec->request.tty;
    *options = (struct pin_frame_options){
        .letta = in_stdout && (where & PIN_FRAMES_STDOUT_LETTA) != 0,
        .pinfold = stream == STREAM_FRAME || (in_stdout && (where & PIN_FRAMES_STDOUT) != 0),
        .limit_bytes = exec->kept->given->limits.frame_bytes,
        .result_seen = &exec->frames.result_seen,
    };
    memcpy(options->nonce, exec->frames.nonce, sizeof(options->nonce));
    return options->letta || options->pinfold;
}

static void take_frame(struct exec *exec, const struct pin_frame_info *info, const uint8_t *payload,
                       bool from_fd) {
    struct pin_error err = {0};
    bool streams = exec->request.output == PIN_OUTPUT_STREAM;
    if (streams &&
        !pin_stream_event(&exec->stream,
                          payload != NULL && info->kind == PIN_FRAME_PROGRESS ? "progress" : "frame",
                          pin_frame_json(info, from_fd, payload), &err))
        pin_exec_kill(exec);
    if (!streams || (payload != NULL && info->kind == PIN_FRAME_RESULT))
        pin_result_add_frame(&exec->result, info, payload, from_fd, exec->kept->given->limits.frame_bytes);
}

static void on_frame(struct exec *exec, const struct pin_frame_info *info, const uint8_t *payload,
                     bool from_fd) {
    struct pin_frame_info masked_info = *info;
    size_t size = 0;
    if (exec->mask == NULL || payload == NULL) {
        take_frame(exec, info, payload, from_fd);
        return;
    }
    PIN_FREE uint8_t *masked = pin_mask_bytes(exec->mask->mask, payload, info->length, &size);
    if (masked == NULL || size > UINT32_MAX) {
        pin_exec_kill(exec); /* rather than a value gets out */
        return;
    }
    masked_info.length = (uint32_t)size; /* of what is handed on */
    take_frame(exec, &masked_info, masked, from_fd);
}

void pin_exec_on_stdout_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    on_frame(self, info, payload, false);
}

void pin_exec_on_fd_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    struct exec *exec = self;
    on_frame(exec, info, payload, true);
    bool is_last = info->verdict == PIN_FRAME_OVERSIZED ||
                   (info->verdict == PIN_FRAME_WHOLE && info->kind == PIN_FRAME_RESULT);
    if (exec->request.hand && is_last)
        pin_exec_cell_over(exec, 0);
}
