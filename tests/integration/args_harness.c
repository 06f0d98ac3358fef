/* Converts arguments, a line at a time: {"schema": …, "args": {…}} in; {"args": {…}} or {"findings":
 * [{"pointer", "message"}]} out. For test_tool_properties.py. */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "runtime/tool/args.h"

static json_t *answer(json_t *line) {
    static struct pin_findings found;
    found = (struct pin_findings){0};
    json_t *args =
        pin_tool_args_convert(json_object_get(line, "schema"), json_object_get(line, "args"), &found);
    if (args != NULL)
        return json_pack("{s:o}", "args", args);
    json_t *list = json_array();
    for (size_t i = 0; i < found.count; i++)
        (void)json_array_append_new(list, json_pack("{s:s, s:s}", "pointer", found.list[i].pointer, "message",
                                                    found.list[i].message));
    return json_pack("{s:o}", "findings", list);
}

int main(void) {
    char *text = NULL;
    size_t room = 0;
    while (getline(&text, &room, stdin) > 0) {
        json_t *line = json_loads(text, JSON_ALLOW_NUL, NULL);
        json_t *said = line == NULL ? json_pack("{s:[]}", "findings") : answer(line);
        (void)json_dumpf(said, stdout, JSON_COMPACT);
        (void)putchar('\n');
        (void)fflush(stdout);
        json_decref(said);
        json_decref(line);
    }
    free(text);
    return 0;
}
