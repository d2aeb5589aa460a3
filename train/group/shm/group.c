#include "train/group/shm/group.h"

#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "train/group/reduce_cpu.h"
#include "train/group/shm/inside.h"
#include "train/group/shm/meet.h"
#include "train/group/shm/memory.h"

/* A collective is a row of phases, numbered from the opening of the group. In a phase each rank writes its operation to its own
 * line of its own area, the number of the phase last, and waits until all ranks have that number. No rank can be in phase p + 2
 * before all ranks have left phase p, so two lines, used in turn, are never written while they are read. Everything written by
 * a peer is read once, into private memory, and checked there before use.
 *
 *     direct     phase | sum the own slice of all ranks' memory, store it to all of them | phase
 *     small      copy own elements to the area | phase | sum all areas' into own memory
 *     in pieces  direct, piece by piece; memory outside the group is copied to the area before and back after, while the
 *                next piece is summed: three pieces are on their way, so one phase each is enough
 *
 * Cost for n ranks, in bytes moved by a rank: direct reads and writes one array, small reads n and writes two. Each phase is a
 * wait for all ranks, short if each has a processor of its own, otherwise a switch of processes for each rank. */

#define SMALL_TOTAL (32u * 1024) /* of all ranks together: above, a second phase is cheaper than reading them all */
#define TINY_TOTAL 1024          /* up to this, even memory of the group is copied to save the second phase */
#define TINY_TOTAL_CROWDED 8192  /* the same if not all ranks can run at once, which makes a phase more expensive */
#define STREAM_BYTES (4u * 1024 * 1024) /* a copy of this size is not read again before it has left the caches */

struct operation {
    enum plan_kind kind;
    enum element_type type;
    uint32_t root;
    uint64_t count;
    size_t element_bytes;
    uint8_t *values;
    bool small; /* as a whole in side `side` of the area, if the array goes through the area */
    unsigned side;
    bool one_phase;      /* the array does so on all ranks */
    uint64_t step_count; /* elements of a slice done in a step */
    uint64_t steps;
};

static bool reduces(const struct operation *o)
{
    return o->kind == PLAN_ALL_REDUCE || o->kind == PLAN_REDUCE_SCATTER;
}

/* Whether the rank's values are read. */
static bool is_source(const struct operation *o, uint32_t rank)
{
    return o->kind != PLAN_BROADCAST || rank == o->root;
}

/* The first element of a slice. Slices of an all-reduce are whole cache lines, so that no two ranks write to the same line. */
static uint64_t slice_start(const struct shm_group *group, const struct operation *o, uint32_t slice)
{
    if (o->kind == PLAN_BROADCAST) {
        return slice <= o->root ? 0 : o->count;
    }
    if (o->kind != PLAN_ALL_REDUCE) {
        return plan_slice_start(o->count, group->size, slice);
    }
    uint64_t line = 64 / o->element_bytes, lines = (o->count + line - 1) / line;
    uint64_t start = (lines + group->size - 1) / group->size * line * slice;
    return start < o->count ? start : o->count;
}

static uint64_t longest_slice(const struct shm_group *group, const struct operation *o)
{
    if (o->kind == PLAN_ALL_REDUCE || o->kind == PLAN_BROADCAST) {
        return slice_start(group, o, o->root + 1) - slice_start(group, o, o->root);
    }
    return (o->count + group->size - 1) / group->size;
}

/* The number of elements of a slice done in step `step`, and their first element *start. */
static uint64_t part(const struct shm_group *group, const struct operation *o, uint32_t slice, uint64_t step,
                     uint64_t *start)
{
    uint64_t begin = slice_start(group, o, slice), end = slice_start(group, o, slice + 1);
    *start = begin;
    if (end - begin <= step * o->step_count) {
        return 0;
    }
    *start = begin + step * o->step_count;
    return end - *start < o->step_count ? end - *start : o->step_count;
}

/* The address of that part in a rank's array. In a rank's area the parts of all slices lie one after another if all are read,
 * otherwise there is only one part; a small operation lies there as a whole. */
static uint8_t *part_of(const struct shm_group *group, const struct operation *o, uint32_t rank, uint32_t slice,
                        uint64_t step, uint64_t start)
{
    if (group->bases[rank] != NULL) {
        return group->bases[rank] + start * o->element_bytes;
    }
    struct area *area = group->peers[rank].area;
    if (o->small) {
        return area->small[o->side] + start * o->element_bytes;
    }
    return area->pieces[step % PIECES] + (reduces(o) ? slice * o->step_count : 0) * o->element_bytes;
}

/* Copies own values for `step` to the area. */
static void stage_in(struct shm_group *group, const struct operation *o, uint64_t step)
{
    for (uint32_t slice = 0; slice < group->size; slice++) {
        if (reduces(o) || slice == group->rank) {
            uint64_t start, count = part(group, o, slice, step, &start);
            if (count > 0) {
                memcpy(part_of(group, o, group->rank, slice, step, start), o->values + start * o->element_bytes,
                       count * o->element_bytes);
            }
        }
    }
}

static bool streams(const struct operation *o)
{
    return o->count * o->element_bytes >= STREAM_BYTES;
}

static void stage_out(struct shm_group *group, const struct operation *o, uint64_t step)
{
    for (uint32_t slice = 0; slice < group->size; slice++) {
        uint64_t start, count = part(group, o, slice, step, &start);
        if (count > 0) {
            reduce_copy(group->variant, o->values + start * o->element_bytes,
                        part_of(group, o, group->rank, slice, step, start), count * o->element_bytes, streams(o));
        }
    }
}

static void reduce_step(struct shm_group *group, const struct operation *o, uint64_t step)
{
    uint64_t start, count = part(group, o, group->rank, step, &start);
    if (count == 0) {
        return;
    }
    const void *sources[SHM_GROUP_RANKS_MAX];
    void *destinations[SHM_GROUP_RANKS_MAX];
    for (uint32_t i = 0; i < group->size; i++) {
        destinations[i] = part_of(group, o, i, group->rank, step, start);
        sources[i] = destinations[i];
    }
    uint32_t destination_count = group->size;
    if (o->kind == PLAN_REDUCE_SCATTER) {
        destinations[0] = o->values + start * o->element_bytes;
        destination_count = 1;
    }
    reduce_sum(group->variant, o->type, sources, group->size, destinations, destination_count, count);
}

static void copy_step(struct shm_group *group, const struct operation *o, uint64_t step)
{
    if (o->kind == PLAN_BROADCAST && group->rank == o->root) {
        return;
    }
    for (uint32_t i = 1; i < group->size; i++) {
        uint32_t from = (group->rank + i) % group->size; /* so that ranks do not all read from the same rank at once */
        uint64_t start, count = part(group, o, from, step, &start);
        if (count > 0) {
            reduce_copy(group->variant, o->values + start * o->element_bytes,
                        part_of(group, o, from, from, step, start), count * o->element_bytes, streams(o));
        }
    }
}

/* Finds all arrays and how many sources go through areas, and from these the steps. */
static int resolve(struct shm_group *group, struct operation *o)
{
    uint32_t sources = 0, staged = 0;
    for (uint32_t i = 0; i < group->size; i++) {
        uint64_t theirs[LINE_WORDS];
        shm_phase_line(group, i, theirs);
        int error = shm_segment_find(group, i, theirs, o->count * o->element_bytes, o->element_bytes, &group->bases[i]);
        if (error != 0) {
            return error;
        }
        sources += is_source(o, i);
        staged += is_source(o, i) && group->bases[i] == NULL;
    }
    uint64_t longest = longest_slice(group, o);
    if (staged == 0) {
        o->step_count = longest;
    }
    o->steps = longest == 0 ? 0 : (longest + o->step_count - 1) / o->step_count;
    o->one_phase = o->small && staged == sources;
    return 0;
}

/* Finishes a small operation whose arrays are all in areas. No rank touches the areas before two more phases, so this rank is
 * done once it has read them. */
static void finish_small(struct shm_group *group, const struct operation *o)
{
    if (!reduces(o)) {
        copy_step(group, o, 0);
        return;
    }
    uint64_t begin = 0, end = o->count;
    if (o->kind == PLAN_REDUCE_SCATTER) {
        begin = slice_start(group, o, group->rank);
        end = slice_start(group, o, group->rank + 1);
    }
    if (begin < end) {
        const void *sources[SHM_GROUP_RANKS_MAX];
        for (uint32_t i = 0; i < group->size; i++) {
            sources[i] = part_of(group, o, i, 0, 0, begin);
        }
        void *destination = o->values + begin * o->element_bytes;
        reduce_sum(group->variant, o->type, sources, group->size, &destination, 1, end - begin);
    }
}

/* In the first phase the ranks learn where each array is; each further phase ends a step. */
static int run_steps(struct shm_group *group, struct operation *o, bool staged)
{
    if (staged) {
        stage_in(group, o, 0);
    }
    int error = shm_phase(group);
    if (error == 0) {
        error = resolve(group, o);
    }
    if (error == 0 && o->one_phase) {
        finish_small(group, o);
        return 0;
    }
    for (uint64_t step = 0; error == 0 && step < o->steps; step++) {
        if (reduces(o)) {
            reduce_step(group, o, step);
        } else {
            copy_step(group, o, step);
        }
        if (staged && step + 1 < o->steps) {
            stage_in(group, o, step + 1);
        }
        if (staged && o->kind == PLAN_ALL_REDUCE && step > 0) {
            stage_out(group, o, step - 1);
        }
        error = shm_phase(group);
    }
    if (error == 0 && staged && o->kind == PLAN_ALL_REDUCE) {
        stage_out(group, o, o->steps - 1);
    }
    return error;
}

static int run(struct shm_group *group, struct operation *o)
{
    CHECK(o->count <= UINT64_MAX / SHM_GROUP_RANKS_MAX / 4);
    if (group->broken != 0) {
        return group->broken;
    }
    int error = shm_phase_check_over(group);
    if (error != 0 || group->size == 1) {
        return error;
    }
    size_t bytes = o->count * o->element_bytes;
    o->small = bytes <= SMALL_BYTES && bytes * group->size <= SMALL_TOTAL;
    o->side = (group->phase + 1) & 1;
    o->step_count = PIECE_BYTES / o->element_bytes;
    if (o->small) {
        o->step_count = longest_slice(group, o);
    } else if (reduces(o)) {
        o->step_count = o->step_count / group->size / 16 * 16;
    }
    bool copies = o->small && bytes * group->size <= (group->crowded ? TINY_TOTAL_CROWDED : TINY_TOTAL);
    struct segment *around = copies ? NULL : shm_segment_around(group, o->values, bytes);
    error = shm_segments_tell(group, around);
    if (error != 0) {
        return error;
    }
    memset(group->bases, 0, group->size * sizeof group->bases[0]);
    group->operation++;
    group->words[GENERATION] = group->generation;
    group->words[OPERATION] = group->operation;
    group->words[COUNT] = o->count;
    group->words[WHAT] = (uint64_t)o->kind | (uint64_t)o->type << 8 | (uint64_t)o->root << 16;
    group->words[SEGMENT] = (uint64_t)(around != NULL ? around->id : 0) << 32 | group->messages;
    group->words[OFFSET] = around != NULL ? (uint64_t)(o->values - around->memory) : 0;
    return run_steps(group, o, around == NULL && is_source(o, group->rank));
}

static int run_typed(struct shm_group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                     uint32_t root)
{
    size_t element_bytes = element_type_bytes(type);
    struct operation o = {.kind = kind,
                          .type = type,
                          .root = root,
                          .count = count,
                          .element_bytes = element_bytes,
                          .values = values};
    bool can = reduces(&o) ? ELEMENT_ADDS(type) : element_bytes != 0;
    return can && (uintptr_t)values % element_bytes == 0 && root < group->size ? run(group, &o) : ERR_USAGE;
}

int shm_group_all_reduce(struct shm_group *group, enum element_type type, void *values, uint64_t count)
{
    return run_typed(group, PLAN_ALL_REDUCE, type, values, count, 0);
}

int shm_group_reduce_scatter(struct shm_group *group, enum element_type type, void *values, uint64_t count)
{
    return run_typed(group, PLAN_REDUCE_SCATTER, type, values, count, 0);
}

int shm_group_all_gather(struct shm_group *group, enum element_type type, void *values, uint64_t count)
{
    return run_typed(group, PLAN_ALL_GATHER, type, values, count, 0);
}

int shm_group_broadcast(struct shm_group *group, void *bytes, uint64_t count, uint32_t root)
{
    return run_typed(group, PLAN_BROADCAST, ELEMENT_BYTES, bytes, count, root);
}

int shm_group_barrier(struct shm_group *group)
{
    return run_typed(group, PLAN_BARRIER, ELEMENT_BYTES, NULL, 0, 0);
}

/* ---- open and close ---- */

/* Fills in the processors that this thread may run on. */
static void processors_fill(uint64_t out[PROCESSORS_MAX / 64])
{
    cpu_set_t set;
    CPU_ZERO(&set);
    (void)sched_getaffinity(0, sizeof set, &set);
    for (size_t i = 0; i < PROCESSORS_MAX && i < CPU_SETSIZE; i++) {
        out[i / 64] |= (uint64_t)(CPU_ISSET(i, &set) != 0) << (i % 64);
    }
}

static bool is_crowded(const struct shm_group *group)
{
    uint32_t processors = 0;
    for (size_t w = 0; w < PROCESSORS_MAX / 64; w++) {
        uint64_t any = 0;
        for (uint32_t i = 0; i < group->size; i++) {
            any |= group->peers[i].area->processors[w];
        }
        processors += (uint32_t)__builtin_popcountll(any);
    }
    return group->size > processors;
}

static int take_areas(struct shm_group *group, const struct shm_met met[SHM_GROUP_RANKS_MAX],
                      char error[SHM_GROUP_ERROR_BYTES])
{
    int result = 0;
    for (uint32_t i = 0; i < group->size; i++) {
        if (i == group->rank) {
            continue;
        }
        void *memory;
        int mapped = shm_memory_map(met[i].area, sizeof(struct area), &memory);
        (void)close(met[i].area);
        group->peers[i].socket = met[i].socket;
        group->peers[i].process = met[i].process;
        if (mapped == 0) {
            group->peers[i].area = memory;
        } else if (result == 0) {
            result = mapped;
            (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "the area of rank %u cannot be mapped: %s", i,
                           mapped == ERR_MALFORMED ? "it is not a sealed memfd of the right length" : err_text(mapped));
        }
    }
    return result;
}

static struct shm_group *group_new(const struct shm_group_options *options)
{
    struct shm_group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        return NULL;
    }
    group->rank = options->rank;
    group->size = options->size;
    group->generation = options->generation;
    group->stall_timeout_ms = options->stall_timeout_ms;
    group->revoke = options->revoke;
    group->variant = reduce_cpu_best();
    for (uint32_t i = 0; i < SHM_GROUP_RANKS_MAX; i++) {
        group->peers[i].socket = group->peers[i].process = -1;
        for (size_t s = 0; s < SHM_GROUP_ALLOCATIONS_MAX; s++) {
            group->peers[i].segments[s].fd = -1;
        }
    }
    return group;
}

int shm_group_open(struct shm_group **out, int listen_fd, const struct shm_group_options *options,
                   char error[SHM_GROUP_ERROR_BYTES])
{
    int result = ERR_USAGE, own_area = -1;
    struct shm_group *group = NULL;
    if (options->size < 1 || options->size > SHM_GROUP_RANKS_MAX || options->rank >= options->size ||
        sodium_init() < 0) {
        (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "a group has 1 to %d ranks; rank %u of %u is none",
                       SHM_GROUP_RANKS_MAX, options->rank, options->size);
        goto out_close_listener;
    }
    result = ERR_MEMORY;
    (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "no memory is left for the group's buffers");
    group = group_new(options);
    if (group == NULL) {
        goto out_close_listener;
    }
    void *memory;
    result = shm_memory_create(sizeof(struct area), NULL, &own_area, &memory);
    if (result != 0) {
        (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "shared memory for the group could not be made: %s",
                       err_text(result));
        goto out_close_group;
    }
    struct area *area = memory;
    group->peers[group->rank].area = area;
    processors_fill(area->processors);
    if (group->size > 1) {
        struct shm_met met[SHM_GROUP_RANKS_MAX];
        result = shm_meet(options, listen_fd, own_area, met, &group->refused, error);
        if (result == 0) {
            result = take_areas(group, met, error);
        }
        if (result != 0) {
            goto out_close_group;
        }
        group->crowded = is_crowded(group);
    }
    error[0] = 0;
    *out = group;
    group = NULL;
out_close_group:
    shm_group_close(&group);
    if (own_area >= 0) {
        (void)close(own_area);
    }
out_close_listener:
    if (listen_fd >= 0) {
        (void)close(listen_fd);
    }
    return result;
}

void shm_group_set_timeout(struct shm_group *group, int stall_timeout_ms)
{
    group->stall_timeout_ms = stall_timeout_ms;
}

const char *shm_group_error(const struct shm_group *group)
{
    return group->error;
}

uint32_t shm_group_refused(const struct shm_group *group)
{
    return group->refused;
}

void shm_group_close(struct shm_group **group)
{
    if (*group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < (*group)->size; i++) {
        struct peer *peer = &(*group)->peers[i];
        for (size_t s = 0; s < SHM_GROUP_ALLOCATIONS_MAX; s++) {
            shm_segment_end(&peer->segments[s]);
        }
        if (peer->socket >= 0) {
            (void)close(peer->socket);
        }
        if (peer->process >= 0) {
            (void)close(peer->process);
        }
        if (peer->area != NULL) {
            shm_memory_end(peer->area, sizeof *peer->area, false);
        }
    }
    free(*group);
    *group = NULL;
}
