#include "tools/pinfold-tool/warm_wait.h"

#include "runtime/kept/home.h"

#define LOOK_NS (5 * PIN_NS_PER_S) /* for who has been silent for longer already */

enum supervisor { STANDS_STILL, ANSWERS, HAS_FROZEN };

static enum supervisor look(const struct pin_client *client) {
    struct pin_error err = {0};
    uint64_t answer_ns = pin_client_answer_ns(client);
    PIN_CLIENT struct pin_client other = PIN_CLIENT_NONE;
    other.name = client->name;
    other.in.limit = PIN_WIRE_REPLY_MAX;
    other.answer_ns = answer_ns < LOOK_NS ? answer_ns : LOOK_NS;
    other.socket = pin_home_connect(client->folder, client->name, &err);
    json_t *stats = other.socket < 0 ? NULL : pin_client_call(&other, pin_client_request("stats"), &err);
    enum supervisor found = other.socket < 0 || other.is_silent                   ? STANDS_STILL
                            : json_is_true(json_object_get(stats, "frozen")) != 0 ? HAS_FROZEN
                                                                                  : ANSWERS;
    json_decref(stats);
    return found;
}

json_t *pin_warm_await(struct pin_client *client, uint64_t ns, struct pin_error *err) {
    bool is_last = false;
    if (client->patience_ns != ns && !pin_client_set_patience(client, ns, err))
        return NULL;
    for (;;) {
        json_t *message = pin_client_receive(client, NULL, err);
        if (message != NULL || !client->is_silent)
            return message;
        enum supervisor found = look(client);
        if (found == STANDS_STILL || (found == ANSWERS && is_last))
            return NULL;
        is_last = found == ANSWERS;
        client->is_silent = false;
        pin_error_clear(err);
    }
}
