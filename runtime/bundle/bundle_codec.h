/* bundle_codec.h: the fields of config.json that no plain row fits. Inside of runtime/bundle only. */
#pragma once

#include "runtime/bundle/bundle_table.h"

extern const struct pin_bundle_codec pin_codec_namespaces;    /* struct pin_bundle */
extern const struct pin_bundle_codec pin_codec_time_offsets;  /* struct pin_bundle */
extern const struct pin_bundle_codec pin_codec_rdma;          /* struct pin_bundle_resources */
extern const struct pin_bundle_codec pin_codec_architectures; /* struct pin_filter */
extern const struct pin_bundle_codec pin_codec_flags;         /* struct pin_filter */
extern const struct pin_bundle_codec pin_codec_rules;         /* struct pin_filter */
extern const struct pin_bundle_codec pin_codec_destination;   /* struct pin_egress_rule */
extern const struct pin_bundle_codec pin_codec_budget;        /* its budget, by name */
extern const struct pin_bundle_codec pin_codec_denied;        /* the same, of a refusal */
extern const struct pin_bundle_codec pin_codec_ports;         /* struct pin_egress_rule */
extern const struct pin_bundle_codec pin_codec_place;         /* struct pin_egress_rule */

/* Of old, SCMP_ACT_KILL ends the thread. */
#define PIN_KILL_ALIAS .alias = "SCMP_ACT_KILL", .alias_of = PIN_FILTER_KILL_THREAD
