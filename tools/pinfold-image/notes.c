#include "tools/pinfold-image/notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void add_note(json_t *notes, uint64_t count, const char *what) {
    char text[160];
    if (count == 0)
        return;
    (void)snprintf(text, sizeof(text), "%" PRIu64 " %s", count, what);
    (void)json_array_append_new(notes, json_string(text));
}

json_t *image_notes(const struct pin_image_config *image) {
    struct pin_layer_losses all = {0};
    json_t *notes = json_array();
    for (size_t i = 0; i < image->layer_count; i++) {
        const struct pin_layer_losses *lost = &image->layers[i].lost;
        all.devices += lost->devices;
        all.set_ids += lost->set_ids;
        all.owners += lost->owners;
        all.attributes += lost->attributes;
    }
    add_note(notes, all.owners,
             geteuid() == 0
                 ? "entries belong to ids of 65536 and more, which are nobody's in a sandbox"
                 : "entries have other owners than root, and are yours: only root's store keeps owners");
    add_note(notes, all.set_ids, "files have lost their set-user-id or set-group-id bits");
    add_note(notes, all.devices, "devices are empty files without permissions");
    add_note(notes, all.attributes, "entries have lost file capabilities, ACLs or other attributes");
    return notes;
}
