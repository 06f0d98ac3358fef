/* control.h: what the supervisor asks of the broker, and the end of either. */
#pragma once

#include "runtime/egress/broker/broker.h"

/* Reads the rules from a sealed file; what was in force before stays, on failure. */
bool control_load_rules(struct broker *broker, int fd, struct pin_error *err);
bool control_serve(struct broker *broker);
