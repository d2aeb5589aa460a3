#ifndef NODE_DAEMON_WIRE_REQUEST_H
#define NODE_DAEMON_WIRE_REQUEST_H
/* What clients of the local socket say, decoded (docs/wire.md): bytes from any program of this user. No I/O; nothing is
 * allocated, pointers are borrowed from the bytes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"

#define REQUEST_PROTOCOL_VERSION 1
#define REQUEST_OVERRIDES_MAX 64
#define REQUEST_FILE_BYTES 256
#define REQUEST_GROUP_BYTES 32
#define REQUEST_METRIC_BYTES 128 /* of a name, with its NUL */
#define REQUEST_METRICS_BYTES_MAX 7680 /* of one report as it is kept: the bytes of its names, and 12 for each */

/* One frame: a map with `v`, `id` and `op`. */
struct request {
    uint64_t version;
    uint64_t id; /* 0: no answer is wanted */
    const char *op;
    size_t op_bytes;
    bool wants_fd; /* a descriptor rides along */
    struct pack_reader map;
};

/* ERR_MALFORMED: not such a map; `out->id`, `op` and `wants_fd` are set as far as they can be read, so that the error
 * finds its asker and the descriptor its frame. ERR_VERSION: of another version; all of `*out` is set. */
int request_read(const uint8_t *bytes, size_t count, struct request *out);

/* Arguments by name: false if missing or of another form, `*out` then untouched (a text: empty). */
bool request_u64(const struct pack_reader *map, const char *key, uint64_t *out);
bool request_text(const struct pack_reader *map, const char *key, char *out, size_t size);
bool request_experiment_id(const struct pack_reader *map, experiment_id *out); /* hexadecimal, not zero */
bool request_token(const struct pack_reader *map, lease_token *out);           /* hexadecimal */
bool request_flag(const struct pack_reader *map, const char *key);             /* missing: false */

/* `submit`. */
struct request_submit {
    experiment_id experiment;
    char file[REQUEST_FILE_BYTES];
    const char *config; /* not NUL-terminated */
    size_t config_bytes; /* at most CONFIG_TEXT_BYTES_MAX */
    uint64_t archive_bytes;
    uint32_t override_count;
    struct {
        const char *text; /* not NUL-terminated, holds no NUL */
        size_t bytes;
    } overrides[REQUEST_OVERRIDES_MAX];
};

/* 0 or ERR_MALFORMED. */
int request_submit_read(const struct pack_reader *map, struct request_submit *out);

/* A point of a series: beside the metrics it has a few numbers and a short name. */
#define DAEMON_POINT_BYTES_MAX (REQUEST_METRICS_BYTES_MAX + 512)

/* `worker_report`. */
struct request_report {
    char group[REQUEST_GROUP_BYTES];
    uint64_t step;
    struct pack_reader metrics; /* a map of names (shorter than REQUEST_METRIC_BYTES) to numbers, and nothing else; at most
                                   REQUEST_METRICS_BYTES_MAX */
};

/* 0 or ERR_MALFORMED. */
int request_report_read(const struct pack_reader *map, struct request_report *out);

#endif
