#include "node/slots/usage.h"

#include "base/check.h"
#include "base/err.h"

#define ELEMENTS 4u

void slots_usage_init(struct slots_usage *usage)
{
    *usage = (struct slots_usage){.slots = {{.has_worker = false}}};
    (void)pthread_mutex_init(&usage->mutex, NULL);
}

void slots_usage_close(struct slots_usage *usage)
{
    (void)pthread_mutex_destroy(&usage->mutex);
}

void slots_usage_set_worker(struct slots_usage *usage, uint32_t slot, bool has_worker, uint64_t cpu_permille, uint64_t memory_bytes)
{
    CHECK(slot < SLOTS_MAX);
    (void)pthread_mutex_lock(&usage->mutex);
    usage->slots[slot].has_worker = has_worker;
    usage->slots[slot].cpu_permille = cpu_permille;
    usage->slots[slot].memory_bytes = memory_bytes;
    (void)pthread_mutex_unlock(&usage->mutex);
}

void slots_usage_set_gpu(struct slots_usage *usage, uint32_t slot, bool has_gpu, uint64_t gpu_percent, uint64_t gpu_memory_bytes)
{
    CHECK(slot < SLOTS_MAX);
    (void)pthread_mutex_lock(&usage->mutex);
    usage->slots[slot].has_gpu = has_gpu;
    usage->slots[slot].gpu_percent = gpu_percent;
    usage->slots[slot].gpu_memory_bytes = gpu_memory_bytes;
    (void)pthread_mutex_unlock(&usage->mutex);
}

struct slot_usage slots_usage_get(struct slots_usage *usage, uint32_t slot)
{
    CHECK(slot < SLOTS_MAX);
    (void)pthread_mutex_lock(&usage->mutex);
    struct slot_usage copy = usage->slots[slot];
    (void)pthread_mutex_unlock(&usage->mutex);
    return copy;
}

static void pack_known(struct pack_writer *writer, bool is_known, uint64_t number)
{
    if (is_known) {
        pack_u64(writer, number);
    } else {
        pack_nil(writer);
    }
}

void slot_usage_pack(struct pack_writer *writer, const struct slot_usage *usage)
{
    pack_array(writer, ELEMENTS);
    pack_known(writer, usage->has_worker, usage->cpu_permille);
    pack_known(writer, usage->has_worker, usage->memory_bytes);
    pack_known(writer, usage->has_gpu && usage->gpu_percent <= 100, usage->gpu_percent);
    pack_known(writer, usage->has_gpu, usage->gpu_memory_bytes);
}

/* Reads a number or nil. */
static bool read_known(struct pack_reader *reader, uint64_t *number)
{
    if (pack_peek(reader) == PACK_NIL) {
        pack_read_nil(reader);
        return false;
    }
    *number = pack_read_u64(reader);
    return !reader->failed;
}

int slot_usage_read(const uint8_t *bytes, size_t count, struct slot_usage *out)
{
    struct pack_reader reader;
    struct slot_usage usage = {.gpu_percent = UINT64_MAX};
    pack_reader_init(&reader, bytes, count);
    uint32_t elements = pack_read_array(&reader);
    bool has_cpu = read_known(&reader, &usage.cpu_permille), has_memory = read_known(&reader, &usage.memory_bytes);
    uint64_t percent = 0;
    bool has_percent = read_known(&reader, &percent);
    usage.has_gpu = read_known(&reader, &usage.gpu_memory_bytes);
    for (uint32_t i = ELEMENTS; i < elements && !reader.failed; i++) {
        pack_skip(&reader);
    }
    if (elements < ELEMENTS || !pack_at_end(&reader) || has_cpu != has_memory || (has_percent && percent > 100)) {
        return ERR_MALFORMED;
    }
    usage.has_worker = has_cpu;
    usage.gpu_percent = has_percent ? percent : UINT64_MAX;
    *out = usage;
    return 0;
}
