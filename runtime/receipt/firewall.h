/* firewall.h: the nftables rules of a sandbox's network namespace, as the kernel gives them.
 *
 * A child of ours enters the namespace and asks for them (NFT_MSG_GETCHAIN, NFT_MSG_GETRULE: no rule is
 * written); the answers are read here, message by message. Source: linux/netfilter/nf_tables.h.
 */
#pragma once

#include <sys/types.h>

#include <jansson.h>

#include "base/error.h"

/* {"chains": [{"table", "chain", "hook", "priority", "policy"}], "rules": [{"table", "chain", "expressions",
 * "sha256"}], "digest"}; the digest is over all of both. Null where the kernel has no nftables. NULL with an
 * error. */
json_t *pin_firewall_read(pid_t init, struct pin_error *err);
