/* egress: what leaves a kept sandbox, and what may. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "runtime/egress/published.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"

#define FILE_MAX (1024 * 1024)

struct egress_options {
    const char *set;
    struct pin_texts add, remove, unpublish;
    bool json;
};

static const struct pin_option options[] = {
    {"set",       0, PIN_OPTION_TEXT,  offsetof(struct egress_options, set),       "FILE",
     "put the rules of this file in the place of all: a list as network.egress, or an object as network",                NULL},
    {"add",       0, PIN_OPTION_TEXTS, offsetof(struct egress_options, add),       "HOST:PORT", "one rule more",         NULL},
    {"remove",    0, PIN_OPTION_TEXTS, offsetof(struct egress_options, remove),    "HOST:PORT", "one rule less",
     NULL                                                                                                                    },
    {"unpublish", 0, PIN_OPTION_TEXTS, offsetof(struct egress_options, unpublish), "PORT",
     "let the host reach this port inside no longer",                                                                    NULL},
    {"json",      0, PIN_OPTION_FLAG,  offsetof(struct egress_options, json),      NULL,        "print one JSON object", NULL},
};

static bool put_list(json_t *request, const char *key, const struct pin_texts *texts, struct pin_error *err) {
    return pin_client_put_texts(request, key, texts->items, texts->count, err);
}

static bool set_file(json_t *request, const char *file, struct pin_error *err) {
    size_t size;
    PIN_FREE char *text = pin_read_file_at(AT_FDCWD, file, FILE_MAX, &size, err);
    if (text == NULL)
        return pin_wrap(err, "read the rules");
    json_t *value = json_stringn(text, size);
    if (value == NULL)
        return pin_fail(err, PIN_ERROR_INVALID, "the rules of '%s' are not UTF-8", file);
    return json_object_set_new(request, "rules", value) == 0;
}

static long long number(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_counts(const char *name, const json_t *counts, const char *note) {
    char shown[300];
    (void)printf("%-44s %6lld %8lld %8lld %14lld %14lld%s%s\n",
                 pin_escape(shown, sizeof(shown), name, strlen(name)), number(counts, "open"),
                 number(counts, "total"), number(counts, "refused"), number(counts, "bytes_out"),
                 number(counts, "bytes_in"), note != NULL ? "  " : "", note != NULL ? note : "");
}

static void print_rules(const json_t *answer) {
    size_t i;
    const char *name;
    json_t *item;
    (void)printf("%-44s %6s %8s %8s %14s %14s\n", "RULE", "OPEN", "TOTAL", "REFUSED", "BYTES OUT",
                 "BYTES IN");
    json_array_foreach(json_object_get(answer, "rules"), i, item)
        print_counts(json_string_value(json_object_get(item, "rule")), item,
                     json_string_value(json_object_get(item, "budget")));
    json_array_foreach(json_object_get(answer, "deny"), i, item)(void)
        printf("denied: %s\n", json_string_value(json_object_get(item, "rule")));
    json_object_foreach(json_object_get(answer, "budgets"), name, item) print_counts(name, item, "(budget)");
    print_counts("all", json_object_get(answer, "sandbox"), NULL);
}

static void print_published(const json_t *answer) {
    size_t i;
    json_t *item;
    if (json_array_size(json_object_get(answer, "published")) == 0)
        return;
    (void)printf("\n%-44s %6s %8s %8s %14s %14s\n", "PUBLISHED", "OPEN", "TOTAL", "REFUSED", "BYTES OUT",
                 "BYTES IN");
    json_array_foreach(json_object_get(answer, "published"), i, item) {
        char name[PIN_PUBLISHED_AT + 16];
        (void)snprintf(name, sizeof(name), "%lld=%s", number(item, "port"),
                       json_string_value(json_object_get(item, "at")));
        print_counts(name, item, NULL);
    }
}

static void print_connections(const json_t *answer) {
    size_t i;
    json_t *item;
    if (json_array_size(json_object_get(answer, "connections")) == 0)
        return;
    (void)printf("\n%-44s %-24s %8s %14s %14s\n", "CONNECTION", "ADDRESS", "AGE MS", "BYTES OUT", "BYTES IN");
    json_array_foreach(json_object_get(answer, "connections"), i, item) {
        char place[300], shown[300];
        const char *host = json_string_value(json_object_get(item, "host"));
        const char *address = json_string_value(json_object_get(item, "address"));
        const char *protocol = json_string_value(json_object_get(item, "protocol"));
        (void)snprintf(place, sizeof(place), "%s:%lld%s", host != NULL ? host : address, number(item, "port"),
                       protocol != NULL && strcmp(protocol, "udp") == 0 ? "/udp" : "");
        (void)printf("%-44s %-24s %8lld %14lld %14lld\n",
                     pin_escape(shown, sizeof(shown), place, strlen(place)), address, number(item, "age_ms"),
                     number(item, "bytes_out"), number(item, "bytes_in"));
    }
    if (number(answer, "more") > 0)
        (void)printf("and %lld more\n", number(answer, "more"));
}

static int run_egress(const struct pin_invocation *invocation) {
    const struct egress_options *values = invocation->values;
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    struct pin_error err = {0};
    json_t *request = pin_client_request("egress"), *answer = NULL;
    bool put = put_list(request, "add", &values->add, &err) &&
               put_list(request, "remove", &values->remove, &err) &&
               put_list(request, "unpublish", &values->unpublish, &err);
    if (put && (values->set == NULL || set_file(request, values->set, &err)) &&
        pin_client_open(&client, invocation->arguments[0], &err))
        answer = pin_client_call(&client, request, &err);
    else
        json_decref(request);
    if (answer == NULL)
        return pin_report(&err, values->json);
    int code = 0;
    if (values->json) {
        code = pin_json_print(STDOUT_FILENO, answer, &err) ? 0 : pin_report(&err, false);
    } else {
        print_rules(answer);
        print_published(answer);
        print_connections(answer);
    }
    json_decref(answer);
    return code;
}

const struct pin_verb pin_kept_verb_egress = {
    .name = "egress",
    .synopsis = "NAME",
    .summary = "what leaves a kept sandbox, and what may",
    .description =
        "Shows the rules with what has used them, and the open connections. A rule's bytes are those "
        "that count against its\n"
        "budget, as soon as they are taken: what is held to be looked at, or was refused then, is among "
        "them. Those of a\n"
        "connection have been passed on. With --set, --add or --remove the list is changed first: it "
        "must lie below the\n"
        "policy that the sandbox was made with, holds at once, and cuts the connections that it "
        "forbids.",
    .example =
        "  pinfold egress work\n  pinfold egress work --add api.example.com:443 --remove www.example.com:80\n"
        "  pinfold egress work --set rules.json",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct egress_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_egress,
};
