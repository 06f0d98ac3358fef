/* ls, show, stats: what there is. `ls` reads the directories alone, and asks nobody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/kept/home.h"
#include "runtime/state/state_dir.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/end.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/set_up.h"

#define BILL_NS (2 * PIN_NS_PER_S) /* for one of many to write its bill */

struct list_options {
    const char *by;
    struct pin_number since;
    bool json;
    struct pin_texts labels;
};

static const struct pin_option ls_options[] = {
    {"label", 0, PIN_OPTION_TEXTS, offsetof(struct list_options, labels), "K=V", "only those with this label",
     NULL                                                                                                          },
    {"json",  0, PIN_OPTION_FLAG,  offsetof(struct list_options, json),   NULL,  "print a JSON list",          NULL},
};

static const struct pin_option show_options[] = {
    {"json", 0, PIN_OPTION_FLAG, offsetof(struct list_options, json), NULL, "print one JSON object", NULL},
};

static void keep(json_t **to, const char *name, int folder) {
    struct pin_error err = {0};
    json_t *facts = pin_home_read(folder, "sandbox.json", &err);
    if (facts == NULL) { /* being made, or torn */
        facts = json_pack("{s:s, s:{}}", "name", name, "labels");
    }
    (void)json_object_set_new(facts, "state", json_string(pin_home_is_live(folder) ? "running" : "ended"));
    *to = facts;
}

static bool has_labels(const json_t *facts, const struct pin_texts *wanted) {
    const json_t *labels = json_object_get(facts, "labels");
    for (size_t i = 0; i < wanted->count; i++) {
        const char *equals = strchr(wanted->items[i], '=');
        size_t length = equals != NULL ? (size_t)(equals - wanted->items[i]) : strlen(wanted->items[i]);
        const json_t *label = json_object_getn(labels, wanted->items[i], length);
        if (label == NULL || (equals != NULL && strcmp(json_string_value(label), equals + 1) != 0))
            return false;
    }
    return true;
}

static const struct pin_option stats_options[] = {
    {"by",    0, PIN_OPTION_TEXT, offsetof(struct list_options, by),    "LABEL",
     "what all labelled sandboxes and runs have used, also those that are gone, summed for each value",   NULL},
    {"since", 0, PIN_OPTION_TIME, offsetof(struct list_options, since), "T",
     "with --by: only what was used in this last time",                                                   NULL},
    {"json",  0, PIN_OPTION_FLAG, offsetof(struct list_options, json),  NULL,    "print one JSON object", NULL},
};

struct listing {
    json_t *list;
    const struct list_options *values;
};

static bool add(void *context, const char *name, int folder) {
    const struct listing *listing = context;
    json_t *facts;
    keep(&facts, name, folder);
    if (has_labels(facts, &listing->values->labels))
        (void)json_array_append(listing->list, facts);
    json_decref(facts);
    return true;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "-";
}

static void print_table(const json_t *list) {
    size_t i;
    const json_t *facts;
    json_array_foreach(list, i, facts) {
        char image[64], policy[64];
        const char *raw_image = text_of(facts, "image"), *raw_policy = text_of(facts, "policy");
        (void)printf("%-24s %-8s %-16s %s\n", text_of(facts, "name"), text_of(facts, "state"),
                     pin_escape(policy, sizeof(policy), raw_policy, strlen(raw_policy)),
                     pin_escape(image, sizeof(image), raw_image, strlen(raw_image)));
    }
}

static int run_ls(const struct pin_invocation *invocation) {
    const struct list_options *values = invocation->values;
    struct listing listing = {json_array(), values};
    struct pin_error err = {0};
    PIN_CLOSE int state_dir = pin_state_open(&err);
    bool ok = state_dir >= 0 && pin_home_list(state_dir, add, &listing, &err);
    if (ok && values->json)
        ok = pin_json_print(STDOUT_FILENO, listing.list, &err);
    else if (ok)
        print_table(listing.list);
    json_decref(listing.list);
    return ok ? 0 : pin_report(&err, values->json);
}

/* Of one that has ended: what its directory says. */
static json_t *show_ended(const struct pin_client *client) {
    struct pin_error err = {0};
    json_t *facts;
    keep(&facts, client->name, client->folder);
    json_t *end = pin_home_read(client->folder, "end.json", &err);
    (void)json_object_set_new(facts, "end", end != NULL ? end : json_null());
    pin_error_clear(&err);
    json_t *changes = pin_home_read(client->folder, "changes.json", &err);
    if (changes != NULL)
        (void)json_object_set_new(facts, "changes", changes);
    return facts;
}

static int print_facts(json_t *facts, bool as_json, const struct pin_error *err) {
    struct pin_error failed = {0};
    int code = 0;
    if (facts == NULL)
        return pin_report(err, as_json);
    if (as_json) {
        code = pin_json_print(STDOUT_FILENO, facts, &failed) ? 0 : pin_report(&failed, false);
    } else {
        (void)json_dumpf(facts, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        (void)putchar('\n');
    }
    json_decref(facts);
    return code;
}

/* It has hung up, or takes no more questions, because it ends: then its directory soon knows why. */
static bool ends_meanwhile(const struct pin_client *client, const struct pin_error *unheard) {
    struct pin_error err = *unheard;
    bool ends = client->socket >= 0 ? err.kind == PIN_ERROR_SYSTEM : pin_end_is_under_way(client, &err);
    pin_error_clear(&err);
    return ends && pin_end_await(client, &err);
}

static int run_show(const struct pin_invocation *invocation) {
    const struct list_options *values = invocation->values;
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    struct pin_error err = {0};
    json_t *facts = NULL;
    if (!pin_client_find(&client, invocation->arguments[0], &err))
        return pin_report(&err, values->json);
    if (!pin_home_is_live(client.folder)) {
        facts = show_ended(&client);
    } else {
        client.socket = pin_home_connect(client.folder, client.name, &err);
        if (client.socket >= 0)
            facts = pin_client_call(&client, pin_client_request("show"), &err);
        if (facts == NULL && ends_meanwhile(&client, &err))
            facts = show_ended(&client);
    }
    return print_facts(facts, values->json, &err);
}

/* Whoever lives and has labels writes its bill when it is asked; one that doesn't answer soon isn't waited
 * for. */
static bool have_billed(void *context, const char *name, int folder) {
    struct pin_error err = {0};
    (void)context;
    json_t *facts = pin_home_is_live(folder) ? pin_home_read(folder, "sandbox.json", &err) : NULL;
    if (json_object_size(json_object_get(facts, "labels")) > 0) {
        PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
        client.name = name;
        client.in.limit = PIN_WIRE_REPLY_MAX;
        client.answer_ns = BILL_NS;
        client.socket = pin_home_connect(folder, name, &err);
        if (client.socket >= 0)
            json_decref(pin_client_call(&client, pin_client_request("stats"), &err));
    }
    json_decref(facts);
    return true;
}

/* The sums are pinfold-bills', which has the database. */
static int run_sums(const struct pin_invocation *invocation) {
    const struct list_options *values = invocation->values;
    char since[32];
    const char *argv[8] = {"pinfold-bills", "--by", values->by};
    size_t count = 3;
    struct pin_error err = {0};
    PIN_CLOSE int state_dir = pin_state_open(&err);
    if (invocation->argument_count > 0)
        (void)pin_fail(&err, PIN_ERROR_USAGE, "--by sums over all sandboxes, and takes no name");
    if (state_dir < 0 || pin_is_set(&err) || !pin_home_list(state_dir, have_billed, NULL, &err))
        return pin_report(&err, values->json);
    (void)snprintf(since, sizeof(since), "%llums", (unsigned long long)(values->since.value / PIN_NS_PER_MS));
    if (values->since.given) {
        argv[count++] = "--since";
        argv[count++] = since;
    }
    if (values->json)
        argv[count++] = "--json";
    pin_set_up_execute(argv[0], argv);
    (void)pin_fail_errno(&err, "run 'pinfold-bills'");
    return pin_report(&err, values->json);
}

static int run_stats(const struct pin_invocation *invocation) {
    const struct list_options *values = invocation->values;
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    struct pin_error err = {0};
    json_t *facts = NULL;
    if (values->by != NULL)
        return run_sums(invocation);
    if (invocation->argument_count == 0)
        (void)pin_fail(&err, PIN_ERROR_USAGE, "'stats' needs the name of a sandbox, or --by LABEL");
    else if (pin_client_open(&client, invocation->arguments[0], &err))
        facts = pin_client_call(&client, pin_client_request("stats"), &err);
    return print_facts(facts, values->json, &err);
}

const struct pin_verb pin_kept_verb_ls = {
    .name = "ls",
    .synopsis = "",
    .summary = "list kept sandboxes",
    .example = "  pinfold ls --label tenant=a --json",
    .options = ls_options,
    .option_count = PIN_COUNT(ls_options),
    .values_size = sizeof(struct list_options),
    .run = run_ls,
};

const struct pin_verb pin_kept_verb_show = {
    .name = "show",
    .synopsis = "NAME",
    .summary = "what a kept sandbox is and does",
    .example = "  pinfold show work --json",
    .options = show_options,
    .option_count = PIN_COUNT(show_options),
    .values_size = sizeof(struct list_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_show,
};

const struct pin_verb pin_kept_verb_stats = {
    .name = "stats",
    .synopsis = "NAME | --by LABEL",
    .summary = "what a kept sandbox has used, or all that have a label",
    .description =
        "With --by: CPU seconds, memory times time, bytes over the network and runs for each value of the "
        "label, from "
        "the kernel's counters, of one-shot runs and kept sandboxes, whether they are still there or not.",
    .example = "  pinfold stats work --json\n  pinfold stats --by tenant --since 24h",
    .options = stats_options,
    .option_count = PIN_COUNT(stats_options),
    .values_size = sizeof(struct list_options),
    .most_arguments = 1,
    .run = run_stats,
};
