/* refused.h: packets that the sandbox's table has refused, told by the kernel over netlink. */
#pragma once

#include "runtime/egress/broker/broker.h"

bool refused_serve(struct broker *broker, int netlink);
