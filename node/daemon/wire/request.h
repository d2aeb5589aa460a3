#ifndef NODE_DAEMON_WIRE_REQUEST_H
#define NODE_DAEMON_WIRE_REQUEST_H
/* Requests of the local socket's clients, decoded (docs/wire.md): bytes from any program of the same user. No I/O, no
 * allocation; pointers are borrowed from the bytes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "node/core/facts/facts.h"
#include "store/blob.h"

#define REQUEST_PROTOCOL_VERSION 1
#define REQUEST_OVERRIDES_MAX 64
#define REQUEST_FILE_BYTES 256
#define REQUEST_GROUP_BYTES 32
#define REQUEST_METRIC_BYTES 128 /* most bytes of a metric's name, with its NUL */
#define REQUEST_CUTS_MAX (1u << 16)
/* Most bytes of a report: its names, and 12 for each metric. A report is one frame, one entry of a series (both of at most 1
 * MiB), and less than that in an answer beside other points. */
#define REQUEST_METRICS_BYTES_MAX (512u << 10)

/* One frame: a map with `v`, `id` and `op`. */
struct request {
    uint64_t version;
    uint64_t id; /* 0: the client wants no answer */
    const char *op;
    size_t op_bytes;
    bool wants_fd; /* a descriptor comes with the frame */
    struct pack_reader map;
};

/* Decodes a frame. ERR_MALFORMED: no such map; `out->id`, `op` and `wants_fd` are set as far as they can be read, so
 * that the error can be answered and the descriptor can be taken. ERR_VERSION: of another version; all of `*out` is
 * set. */
int request_read(const uint8_t *bytes, size_t count, struct request *out);

/* Read an argument by its name. False: missing or of another form; `*out` is then unchanged (a text: empty). `size` is
 * the room in `out`, with the NUL. */
bool request_u64(const struct pack_reader *map, const char *key, uint64_t *out);
bool request_text(const struct pack_reader *map, const char *key, char *out, size_t size);
bool request_experiment_id(const struct pack_reader *map, experiment_id *out); /* hexadecimal, not zero */
bool request_token(const struct pack_reader *map, lease_token *out);           /* hexadecimal */
bool request_flag(const struct pack_reader *map, const char *key);             /* missing: false */

/* The arguments of `submit`. */
struct request_submit {
    experiment_id experiment;
    char file[REQUEST_FILE_BYTES];
    const char *config; /* not NUL-terminated; NULL: it lies behind the archive, in the request's descriptor */
    size_t config_bytes; /* at most CONFIG_TEXT_BYTES_MAX */
    uint64_t archive_bytes;
    uint32_t override_count;
    struct {
        const char *text; /* not NUL-terminated, holds no NUL */
        size_t bytes;
    } overrides[REQUEST_OVERRIDES_MAX];
};

/* Reads the arguments of `submit`. 0 or ERR_MALFORMED, and `*out` is then unchanged. */
int request_submit_read(const struct pack_reader *map, struct request_submit *out);

/* Most bytes of a stored point: the metrics, a few numbers and a short name. */
#define DAEMON_POINT_BYTES_MAX (REQUEST_METRICS_BYTES_MAX + 512)

/* The arguments of `worker_report`. */
struct request_report {
    char group[REQUEST_GROUP_BYTES];
    uint64_t step;
    struct pack_reader metrics; /* a map of names (shorter than REQUEST_METRIC_BYTES) to numbers, and nothing else; at
                                   most REQUEST_METRICS_BYTES_MAX */
};

/* Reads the arguments of `worker_report`. 0 or ERR_MALFORMED, and `*out` is then unchanged. */
int request_report_read(const struct pack_reader *map, struct request_report *out);

/* The arguments of `worker_save`, and of `worker_save_part`. */
struct request_save {
    uint64_t step;
    struct fact_part_key part; /* with the step; count 0: the whole checkpoint */
    uint64_t bytes;     /* of the checkpoint, at the beginning of the request's descriptor */
    uint32_t cut_count; /* big-endian u64 behind the checkpoint, at most REQUEST_CUTS_MAX; 0: none */
};

/* Reads the arguments of `worker_save`. 0 or ERR_MALFORMED, and `*out` is then unchanged. */
int request_save_read(const struct pack_reader *map, struct request_save *out);

#define REQUEST_RANGES_MAX 512

/* Reads `ranges` of `worker_load`; `*count` is 0 if there are none. False: malformed. */
bool request_ranges(const struct pack_reader *map, struct blob_range out[REQUEST_RANGES_MAX], uint32_t *count);

/* Reads the arguments of `worker_save_part` likewise. */
int request_save_part_read(const struct pack_reader *map, struct request_save *out);

#endif
