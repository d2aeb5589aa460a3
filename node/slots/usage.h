#ifndef NODE_SLOTS_USAGE_H
#define NODE_SLOTS_USAGE_H
/* What each slot of a node uses now: the daemon's thread notes it, the bulk's thread answers peers with it. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"
#include "node/slots/slots.h"

#define SLOT_USAGE_PREFIX "usage" /* the series that a node is asked for (node/bulk) */
#define SLOT_USAGE_BYTES 48 /* most bytes of one slot's */

struct slot_usage {
    bool has_worker; /* the next two are known: of all processes of the slot's worker together */
    uint64_t cpu_permille; /* of one processor: 1000 is one that is never idle */
    uint64_t memory_bytes; /* resident; pages that processes share count for each */
    bool has_gpu; /* the next two are known: of the whole GPU, whatever runs there */
    uint64_t gpu_percent; /* of time in which a kernel ran; above 100: not known */
    uint64_t gpu_memory_bytes;
};

struct slots_usage {
    pthread_mutex_t mutex;
    struct slot_usage slots[SLOTS_MAX];
};

void slots_usage_init(struct slots_usage *usage);
void slots_usage_close(struct slots_usage *usage);

/* Notes what a slot's worker uses (`has_worker` false: there is none), or its GPU. slot < SLOTS_MAX. */
void slots_usage_set_worker(struct slots_usage *usage, uint32_t slot, bool has_worker, uint64_t cpu_permille, uint64_t memory_bytes);
void slots_usage_set_gpu(struct slots_usage *usage, uint32_t slot, bool has_gpu, uint64_t gpu_percent, uint64_t gpu_memory_bytes);

struct slot_usage slots_usage_get(struct slots_usage *usage, uint32_t slot);

/* As an array of cpu_permille, memory_bytes, gpu_percent and gpu_memory_bytes, nil where it is not known. */
void slot_usage_pack(struct pack_writer *writer, const struct slot_usage *usage);

/* Reads what a peer has packed; later versions may add elements. ERR_MALFORMED. */
int slot_usage_read(const uint8_t *bytes, size_t count, struct slot_usage *out);

#endif
