/* json_walk.h: inside json_source.c: the walk over a text that notes where each of its values stands.
 *
 * Over a text that jansson has refused it says what is wrong, fault by fault, goes on behind each, and puts
 * together what can be read all the same: jansson judges every text, number and word by itself. What it
 * reports is PIN_ERROR_SYNTAX at the place of the fault, with the pointer of the value around it.
 */
#pragma once

#include "policy/json_source.h"

/* Sets the source's root to a tree of nodes without values. `refused`: the text isn't JSON; the source's tree
 * becomes what could be read of it, in which an object lacks the members that are faulty. False, with a
 * finding, where there is nothing to read. */
bool pin_json_walk(struct pin_json_source *source, const char *text, size_t size, bool refused,
                   struct pin_findings *found);
