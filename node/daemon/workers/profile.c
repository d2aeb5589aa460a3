#include "node/daemon/workers/profile.h"

#include "base/format.h"

#define NAME_BYTES 64
#define NS_S 1e9

static const char *const names[PROFILE_METRICS] = {
    [PROFILE_CPU] = "cpu_percent",           [PROFILE_MEMORY] = "memory_bytes",
    [PROFILE_READ] = "disk_read_bytes_s",    [PROFILE_WRITTEN] = "disk_written_bytes_s",
    [PROFILE_SENT] = "network_sent_bytes_s", [PROFILE_RECEIVED] = "network_received_bytes_s",
    [PROFILE_GPU] = "gpu_percent",           [PROFILE_GPU_MEMORY] = "gpu_memory_bytes",
    [PROFILE_GPU_POWER] = "gpu_watts",       [PROFILE_GPU_HEAT] = "gpu_celsius",
};

uint64_t profile_interval_ms(uint64_t entries)
{
    uint64_t doublings = entries < PROFILE_ENTRIES ? 0 : 1 + (entries - PROFILE_ENTRIES) / (PROFILE_ENTRIES / 2);
    uint64_t interval_ms = doublings < 16 ? (uint64_t)PROFILE_INTERVAL_MS << doublings : PROFILE_INTERVAL_MS_MAX;
    return interval_ms < PROFILE_INTERVAL_MS_MAX ? interval_ms : PROFILE_INTERVAL_MS_MAX;
}

/* Looks come a little sooner or later than they should, so the interval is short by half of one. */
static bool is_due(const struct profile *profile, uint64_t last_ms, uint64_t now_ms)
{
    return last_ms == 0 || now_ms - last_ms + PROFILE_INTERVAL_MS / 2 >= profile_interval_ms(profile->entries);
}

bool profile_add(struct profile *profile, const struct profile_sample *sample, uint64_t now_ms)
{
    bool has_any = false;
    for (uint32_t i = 0; i < PROFILE_METRICS; i++) {
        profile->counts[i] += sample->has[i];
        profile->sums[i] += sample->has[i] ? sample->values[i] : 0;
        has_any |= profile->counts[i] > 0;
    }
    return has_any && is_due(profile, profile->system_ms, now_ms);
}

bool profile_add_split(struct profile *profile, const struct profile_split *split, uint64_t now_ms)
{
    profile->split.steps += split->steps;
    profile->split.step_ns += split->step_ns;
    profile->split.collective_ns += split->collective_ns;
    profile->split.data_ns += split->data_ns;
    return profile->split.steps > 0 && is_due(profile, profile->split_ms, now_ms);
}

static void pack_one(struct pack_writer *out, uint32_t rank, const char *name, double value)
{
    char text[NAME_BYTES];
    (void)format_text(text, sizeof text, "rank%u/%s", (unsigned)rank, name);
    pack_text(out, text);
    pack_double(out, value);
}

void profile_take_system(struct profile *profile, uint32_t rank, uint64_t now_ms, struct pack_writer *out)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < PROFILE_METRICS; i++) {
        known += profile->counts[i] > 0;
    }
    pack_map(out, known);
    for (uint32_t i = 0; i < PROFILE_METRICS; i++) {
        if (profile->counts[i] > 0) {
            pack_one(out, rank, names[i], profile->sums[i] / profile->counts[i]);
        }
        profile->counts[i] = 0;
        profile->sums[i] = 0;
    }
    profile->system_ms = now_ms;
    profile->entries++;
}

void profile_take_split(struct profile *profile, uint32_t rank, uint64_t now_ms, struct pack_writer *out)
{
    const struct profile_split split = profile->split;
    uint64_t waited_ns = split.collective_ns + split.data_ns;
    uint64_t compute_ns = split.step_ns > waited_ns ? split.step_ns - waited_ns : 0;
    double scale = 1 / (NS_S * (double)split.steps);
    pack_map(out, 4);
    pack_one(out, rank, "step_s", (double)split.step_ns * scale);
    pack_one(out, rank, "compute_s", (double)compute_ns * scale);
    pack_one(out, rank, "collective_s", (double)split.collective_ns * scale);
    pack_one(out, rank, "data_s", (double)split.data_ns * scale);
    profile->split = (struct profile_split){0};
    profile->split_ms = now_ms;
    profile->entries++;
}

/* Per second, of something counted per millisecond. */
static double rate(uint64_t before, uint64_t now, uint64_t span_ms)
{
    return now > before ? (double)(now - before) * 1000 / (double)span_ms : 0;
}

static void set(struct profile_sample *sample, enum profile_metric metric, bool has, double value)
{
    sample->has[metric] = has;
    sample->values[metric] = value;
}

struct profile_sample profile_between(const struct profile_counters *before, const struct profile_counters *now)
{
    struct profile_sample sample = {.has = {false}};
    uint64_t span_ms = before->at_ms != 0 && now->at_ms > before->at_ms ? now->at_ms - before->at_ms : 0;
    set(&sample, PROFILE_MEMORY, now->at_ms != 0, (double)now->memory_bytes);
    if (span_ms == 0) {
        return sample;
    }
    bool has_io = before->has_io && now->has_io, has_network = before->has_network && now->has_network;
    set(&sample, PROFILE_CPU, true, rate(before->cpu_ms, now->cpu_ms, span_ms) / 10);
    set(&sample, PROFILE_READ, has_io, rate(before->read_bytes, now->read_bytes, span_ms));
    set(&sample, PROFILE_WRITTEN, has_io, rate(before->written_bytes, now->written_bytes, span_ms));
    set(&sample, PROFILE_SENT, has_network, rate(before->sent_bytes, now->sent_bytes, span_ms));
    set(&sample, PROFILE_RECEIVED, has_network, rate(before->received_bytes, now->received_bytes, span_ms));
    return sample;
}
