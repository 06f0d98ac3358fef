#include "runtime/supervise/result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/names.h"

static const char *const status_names[] = {
    [PIN_STATUS_SUCCESS] = "success", [PIN_STATUS_ERROR] = "error",   [PIN_STATUS_TIMEOUT] = "timeout",
    [PIN_STATUS_MEMORY] = "memory",   [PIN_STATUS_OUTPUT] = "output", [PIN_STATUS_KILLED] = "killed",
    [PIN_STATUS_REFUSED] = "refused",
};
_Static_assert(PIN_COUNT(status_names) == PIN_STATUS_COUNT, "every status has a name");

const char *pin_status_name(enum pin_status status) {
    return (size_t)status < PIN_COUNT(status_names) ? status_names[status] : NULL;
}

void pin_result_free(struct pin_result *result) {
    free(result->out.data);
    free(result->err.data);
    for (size_t i = 0; i < result->frame_count; i++)
        free(result->frames[i].payload);
    free(result->frames);
    json_decref(result->labels);
    json_decref(result->changes);
    json_decref(result->published);
    json_decref(result->denials);
    *result = (struct pin_result){0};
}

static bool has_room(const struct pin_result *result, const struct pin_frame_info *info, bool has_payload,
                     uint64_t limit_bytes) {
    if (has_payload && info->kind == PIN_FRAME_RESULT)
        return true; /* the one of the run: it finds room even behind a flood of others */
    return result->frame_count < PIN_FRAMES_KEPT_MAX &&
           (!has_payload || info->length <= limit_bytes - result->frame_bytes);
}

static struct pin_frame_record *grow(struct pin_result *result) {
    struct pin_frame_record *larger =
        reallocarray(result->frames, result->frame_count + 1, sizeof(*result->frames));
    if (larger == NULL)
        return NULL;
    result->frames = larger;
    return &larger[result->frame_count];
}

void pin_result_add_frame(struct pin_result *result, const struct pin_frame_info *info,
                          const uint8_t *payload, bool from_fd, uint64_t limit_bytes) {
    struct pin_frame_record record = {.info = *info, .from_fd = from_fd};
    struct pin_frame_record *place = NULL;
    if (has_room(result, info, payload != NULL, limit_bytes))
        place = grow(result);
    if (place != NULL && payload != NULL && (record.payload = malloc((size_t)info->length + 1)) == NULL)
        place = NULL;
    if (place == NULL) {
        result->frames_dropped++;
        return;
    }
    if (payload != NULL && info->length > 0)
        memcpy(record.payload, payload, info->length);
    if (payload != NULL && info->kind != PIN_FRAME_RESULT)
        result->frame_bytes += info->length;
    *place = record;
    result->frame_count++;
}

const struct pin_frame_record *pin_result_frame(const struct pin_result *result) {
    for (size_t i = 0; i < result->frame_count; i++)
        if (result->frames[i].payload != NULL && result->frames[i].info.kind == PIN_FRAME_RESULT)
            return &result->frames[i];
    return NULL;
}

void pin_result_note(struct pin_result *result, const struct pin_error *error) {
    if (pin_is_set(&result->error))
        return;
    result->error = *error;
    if (result->exit_code == 0) {
        result->exit_code = PIN_EXIT_REFUSED;
        result->status = PIN_STATUS_ERROR;
    }
}

void pin_result_set_exit(struct pin_result *result, int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        result->signal = WTERMSIG(wait_status);
        result->exit_code = 128 + result->signal;
        result->status = PIN_STATUS_KILLED;
        return;
    }
    result->signal = 0;
    result->exit_code = WEXITSTATUS(wait_status);
    result->status = result->exit_code == 0 ? PIN_STATUS_SUCCESS : PIN_STATUS_ERROR;
}
