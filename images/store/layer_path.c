#include "images/store/layer_path.h"

#include <string.h>

#include "base/text.h"

static bool refuse(const char *text, const char *why, struct pin_error *err) {
    char shown[160];
    (void)pin_escape(shown, sizeof(shown), text, strnlen(text, PATH_MAX));
    return pin_fail(err, PIN_ERROR_INVALID, "the layer has an entry '%s' %s", shown, why);
}

static bool classify(const char *text, struct pin_layer_path *path, struct pin_error *err) {
    static const char prefix[] = ".wh.", aufs[] = ".wh..wh.", opaque[] = ".wh..wh..opq";
    if (path->name[0] == '\0')
        path->kind = PIN_LAYER_ROOT;
    else if (strncmp(path->name, prefix, strlen(prefix)) != 0)
        path->kind = PIN_LAYER_PLAIN;
    else if (strcmp(path->name, opaque) == 0)
        path->kind = PIN_LAYER_OPAQUE;
    else if (strncmp(path->name, aufs, strlen(aufs)) == 0)
        path->kind = PIN_LAYER_SKIP;
    else
        path->kind = PIN_LAYER_WHITEOUT;
    if (path->kind != PIN_LAYER_WHITEOUT)
        return true;
    memmove(path->name, path->name + strlen(prefix), strlen(path->name) - strlen(prefix) + 1);
    if (path->name[0] == '\0' || strcmp(path->name, ".") == 0 || strcmp(path->name, "..") == 0)
        return refuse(text, "that whites out nothing that can be", err);
    return true;
}

/* The last part becomes the name; the one that was there before goes to the parent. */
static bool push(struct pin_layer_path *path, size_t *parent_size, const char *part, size_t size) {
    size_t last = strlen(path->name);
    if (last > 0) {
        if (*parent_size + last + 2 > sizeof(path->parent))
            return false;
        if (*parent_size > 0)
            path->parent[(*parent_size)++] = '/';
        memcpy(path->parent + *parent_size, path->name, last + 1);
        *parent_size += last;
    }
    memcpy(path->name, part, size);
    path->name[size] = '\0';
    return true;
}

bool pin_layer_path_parse(const char *text, struct pin_layer_path *path, struct pin_error *err) {
    size_t parent_size = 0, depth = 0;
    path->parent[0] = path->name[0] = '\0';
    if (text[0] == '\0')
        return refuse(text, "without a name", err);
    for (const char *part = text; *part != '\0';) {
        size_t size = strcspn(part, "/");
        bool dot = size == 1 && part[0] == '.';
        if (size == 2 && part[0] == '.' && part[1] == '.')
            return refuse(text, "with '..' in its path", err);
        if (size > NAME_MAX)
            return refuse(text, "with a name of more than 255 bytes", err);
        if (size > 0 && !dot && ++depth > PIN_LAYER_DEPTH_MAX)
            return refuse(text, "that is nested too deep", err);
        if (size > 0 && !dot && !push(path, &parent_size, part, size))
            return refuse(text, "with too long a path", err);
        part += size + (part[size] == '/');
    }
    return classify(text, path, err);
}
