#include "train/group/group.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/group/gpu/group.h"
#include "train/group/shm/group.h"
#include "train/group/shm/memory.h"
#include "train/plan/hosts.h"

#define SHARE_MS 10000 /* to meet in memory, and at most half of the time left to open; afterwards TCP has to do */

struct group {
    uint32_t rank, size;
    struct hosts hosts;
    uint32_t host_count;
    struct tcp_group *links;   /* between all ranks */
    struct shm_group *memory;  /* of this host; NULL: no other rank is here, or not all can share memory */
    /* of all hosts; only on leaders, and only with several hosts of which at least one shares memory */
    struct tcp_group *leaders;
    uint64_t open_until_ms;
    struct gpu_group *gpus;    /* NULL: host memory only */
    int stall_timeout_ms;
    int broken;                /* the error that ended the group, or 0 */
    char error[GROUP_ERROR_BYTES];
};

static uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* The time left to open; at least a little, so that a late step fails with its own sentence. */
static int left_ms(const struct group *group)
{
    uint64_t now_ms = clock_ms();
    return group->open_until_ms > now_ms + 100 ? (int)(group->open_until_ms - now_ms) : 100;
}

/* ---- which ranks share a host ---- */

/* The data that each rank sends to all ranks. */
struct introduction {
    struct host_name host;
    char name[48]; /* of the socket that the rank listens on */
};

_Static_assert(sizeof(struct introduction) == 64, "travels as it lies in memory");

/* The name of this host; all zeros if the kernel does not give the facts. */
static struct host_name host_named(const char *given, const char *address)
{
    char text[256] = "";
    int fd = given == NULL ? open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC) : -1;
    struct stat space;
    if (fd >= 0) {
        ssize_t n = read(fd, text, 64);
        int used = n > 0 ? (int)n : 0;
        if (used > 0 && stat("/proc/self/ns/net", &space) == 0) {
            (void)snprintf(text + used, sizeof text - (size_t)used, "/%llu/%llu/%s", (unsigned long long)space.st_dev,
                           (unsigned long long)space.st_ino, address);
        } else {
            text[0] = 0;
        }
        (void)close(fd);
    }
    const char *name = given != NULL ? given : text;
    struct host_name out = {0};
    if (name[0] != 0) {
        (void)crypto_generichash(out.bytes, sizeof out.bytes, (const uint8_t *)name, strlen(name), NULL, 0);
    }
    return out;
}

/* Whether memory can be shared at all. If not (limits, filters of system calls), the other ranks need not wait to find out. */
static bool can_share(void)
{
    void *memory;
    int fd;
    if (shm_memory_create(1, NULL, &fd, &memory) != 0) {
        return false;
    }
    shm_memory_end(memory, 1, false);
    (void)close(fd);
    return true;
}

/* Fills in this rank's introduction; the name of the socket is random, so only ranks of the group learn it. Returns the
 * listener, or -1. */
static int introduce(const char *host, const char *address, struct introduction *own)
{
    uint8_t random[16];
    int listen_fd = -1;
    randombytes_buf(random, sizeof random);
    (void)sodium_bin2hex(own->name, sizeof own->name, random, sizeof random);
    if (can_share() && shm_group_listen(own->name, &listen_fd) == 0) {
        own->host = host_named(host, address);
    }
    return listen_fd;
}

/* Meets the other ranks of the host in shared memory. Takes the listener. Returns whether all of them were met. */
static bool share(struct group *group, int shm_listen_fd, const struct tcp_options *options,
                  const struct introduction all[PLAN_RANKS_MAX])
{
    uint32_t here[PLAN_RANKS_MAX], count = hosts_around(&group->hosts, group->rank, here);
    struct shm_group_member members[SHM_GROUP_RANKS_MAX];
    struct shm_group_options shm = {
        .size = count,
        .generation = options->generation,
        .group = options->group,
        .members = members,
        .open_timeout_ms = left_ms(group) / 2 < SHARE_MS ? left_ms(group) / 2 : SHARE_MS,
        .stall_timeout_ms = options->stall_timeout_ms,
        .revoke = options->revoke,
    };
    memcpy(shm.key, options->key, sizeof shm.key);
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (struct shm_group_member){0};
        memcpy(members[i].name, all[here[i]].name, sizeof all[here[i]].name);
        shm.rank = here[i] == group->rank ? i : shm.rank;
    }
    char error[SHM_GROUP_ERROR_BYTES];
    bool met = shm_group_open(&group->memory, shm_listen_fd, &shm, error) == 0;
    sodium_memzero(shm.key, sizeof shm.key);
    return met;
}

/* Tells all ranks this rank's host, meets the ranks of the host, and learns which ranks have met. Takes the listener. */
static int find_hosts(struct group *group, const struct tcp_options *options, const char *host)
{
    struct introduction all[PLAN_RANKS_MAX] = {0};
    int shm_listen_fd = introduce(host, options->members[group->rank].host, &all[group->rank]);
    tcp_group_set_timeout(group->links, left_ms(group));
    int error = tcp_group_all_gather(group->links, ELEMENT_BYTES, all, sizeof all[0] * group->size);
    struct host_name names[PLAN_RANKS_MAX];
    for (uint32_t i = 0; i < group->size; i++) {
        names[i] = all[i].host;
    }
    hosts_init(&group->hosts, group->size, names);
    uint32_t ranks[PLAN_RANKS_MAX];
    uint8_t has_met[PLAN_RANKS_MAX] = {0};
    has_met[group->rank] = 1;
    uint32_t around = hosts_around(&group->hosts, group->rank, ranks);
    if (error == 0 && around > 1 && around <= SHM_GROUP_RANKS_MAX) {
        has_met[group->rank] = share(group, shm_listen_fd, options, all);
    } else if (shm_listen_fd >= 0) {
        (void)close(shm_listen_fd);
    }
    if (error == 0) {
        tcp_group_set_timeout(group->links, left_ms(group));
        error = tcp_group_all_gather(group->links, ELEMENT_BYTES, has_met, group->size);
    }
    bool shares[PLAN_RANKS_MAX];
    for (uint32_t i = 0; i < group->size; i++) {
        shares[i] = has_met[i] == 1;
    }
    hosts_split(&group->hosts, shares);
    if (hosts_around(&group->hosts, group->rank, ranks) == 1) {
        shm_group_close(&group->memory);
    }
    group->host_count = hosts_leaders(&group->hosts, ranks);
    return error;
}

static bool is_mixed(const struct group *group)
{
    return group->host_count > 1 && group->host_count < group->size;
}

/* Links the leaders of all hosts. Takes `listen_fd`. */
static int link_leaders(struct group *group, int listen_fd, const struct tcp_options *options, char error[TCP_ERROR_BYTES])
{
    if (!is_mixed(group) || group->hosts.leader[group->rank] != group->rank) {
        (void)close(listen_fd);
        return 0;
    }
    uint32_t ranks[PLAN_RANKS_MAX];
    struct tcp_member members[PLAN_RANKS_MAX];
    struct tcp_options own = *options;
    own.size = hosts_leaders(&group->hosts, ranks);
    own.members = members;
    own.open_timeout_ms = left_ms(group);
    for (uint32_t i = 0; i < own.size; i++) {
        members[i] = options->members[ranks[i]];
        own.rank = ranks[i] == group->rank ? i : own.rank;
    }
    int result = tcp_group_open(&group->leaders, listen_fd, &own, error);
    sodium_memzero(own.key, sizeof own.key);
    return result;
}

/* ---- open and close ---- */

/* Leaves GPU transfers open: the collective that failed may be inside them. */
static void close_links(struct group *group)
{
    shm_group_close(&group->memory);
    tcp_group_close(&group->leaders);
    tcp_group_close(&group->links);
}

static int open_shared(struct group *group, int listen_fd, const struct tcp_options *options, const char *host,
                       char error[GROUP_ERROR_BYTES])
{
    int again_fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0); /* for the leaders' links */
    if (again_fd < 0) {
        (void)snprintf(error, GROUP_ERROR_BYTES, "no descriptor is left for the group: %s", strerror(errno));
        (void)close(listen_fd);
        return ERR_IO;
    }
    int result = tcp_group_open(&group->links, listen_fd, options, error);
    if (result != 0) {
        (void)close(again_fd);
        return result;
    }
    result = find_hosts(group, options, host);
    if (result != 0) {
        bytes_copy_text(error, GROUP_ERROR_BYTES, tcp_group_error(group->links));
        (void)close(again_fd);
        return result;
    }
    return link_leaders(group, again_fd, options, error);
}

int group_open(struct group **out, int listen_fd, const struct tcp_options *options, const char *host,
               char error[GROUP_ERROR_BYTES])
{
    struct group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        (void)snprintf(error, GROUP_ERROR_BYTES, "no memory is left for the group");
        if (listen_fd >= 0) {
            (void)close(listen_fd);
        }
        return ERR_MEMORY;
    }
    group->rank = options->rank;
    group->size = group->host_count = options->size;
    group->open_until_ms = clock_ms() + (uint64_t)options->open_timeout_ms;
    int result = options->size < 2 ? tcp_group_open(&group->links, listen_fd, options, error)
                                   : open_shared(group, listen_fd, options, host, error);
    if (result != 0) {
        group_close(&group);
        return result;
    }
    group_set_timeout(group, options->stall_timeout_ms);
    error[0] = 0;
    *out = group;
    return 0;
}

void group_set_timeout(struct group *group, int stall_timeout_ms)
{
    if (group->broken != 0) {
        return;
    }
    group->stall_timeout_ms = stall_timeout_ms;
    tcp_group_set_timeout(group->links, stall_timeout_ms);
    if (group->gpus != NULL) {
        gpu_group_set_timeout(group->gpus, stall_timeout_ms);
    }
    if (group->leaders != NULL) {
        tcp_group_set_timeout(group->leaders, stall_timeout_ms);
    }
    if (group->memory != NULL) {
        int twice = stall_timeout_ms < INT_MAX / 2 ? 2 * stall_timeout_ms : INT_MAX;
        shm_group_set_timeout(group->memory, is_mixed(group) ? twice : stall_timeout_ms);
    }
}

uint32_t group_hosts(const struct group *group)
{
    return group->host_count;
}

uint32_t group_ranks_here(const struct group *group)
{
    uint32_t ranks[PLAN_RANKS_MAX];
    return hosts_around(&group->hosts, group->rank, ranks);
}

const char *group_error(const struct group *group)
{
    return group->error;
}

void group_close(struct group **group)
{
    if (*group != NULL) {
        gpu_group_close(&(*group)->gpus);
        close_links(*group);
        free(*group);
        *group = NULL;
    }
}

int group_place(struct group *group, void *memory, size_t bytes)
{
    return group->memory == NULL ? 0 : shm_group_place(group->memory, memory, bytes);
}

void group_displace(struct group *group, void *memory)
{
    if (group->memory != NULL) {
        shm_group_free(group->memory, memory);
    }
}

/* ---- collectives ---- */

/* Writes "0, 2, 4" and so on, as far as it fits. */
static void list_ranks(const uint32_t *ranks, uint32_t count, char out[64])
{
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < 48; i++) {
        used += (size_t)snprintf(out + used, 64 - used, "%s%u", i > 0 ? ", " : "", ranks[i]);
    }
    if (used >= 48) {
        (void)snprintf(out + used, 64 - used, " ...");
    }
}

/* Keeps the sentence of the part that broke and closes all parts, so that the other ranks learn of it. A part numbers its ranks
 * from 0, so the sentence lists which ranks they are. */
static int fail(struct group *group, int error, const char *sentence, uint32_t (*of)(const struct group *, uint32_t *))
{
    char kept[TCP_ERROR_BYTES], list[64];
    bytes_copy_text(kept, sizeof kept, sentence);
    if (is_mixed(group) && of != NULL) {
        uint32_t ranks[PLAN_RANKS_MAX], count = of(group, ranks);
        list_ranks(ranks, count, list);
        (void)snprintf(group->error, sizeof group->error, "among ranks %s, counted there from 0: %s", list, kept);
    } else {
        bytes_copy_text(group->error, sizeof group->error, kept);
    }
    group->broken = error;
    close_links(group);
    return error;
}

static uint32_t ranks_here(const struct group *group, uint32_t *out)
{
    return hosts_around(&group->hosts, group->rank, out);
}

static uint32_t ranks_leading(const struct group *group, uint32_t *out)
{
    return hosts_leaders(&group->hosts, out);
}

static int by_links(struct group *group, int error)
{
    return error == 0 ? 0 : fail(group, error, tcp_group_error(group->links), NULL);
}

static int by_memory(struct group *group, int error)
{
    return error == 0 ? 0 : fail(group, error, shm_group_error(group->memory), ranks_here);
}

static int by_leaders(struct group *group, int error)
{
    return error == 0 ? 0 : fail(group, error, tcp_group_error(group->leaders), ranks_leading);
}

/* ---- GPU memory ---- */

static int look_at_links(void *context, uint32_t *gone)
{
    struct group *group = context;
    return tcp_group_look(group->links, gone);
}

int group_use_gpu(struct group *group, struct gpu *gpu)
{
    if (group->broken != 0 || group->size < 2 || group->gpus != NULL) {
        return group->broken;
    }
    struct gpu_group_options options = {
        .rank = group->rank,
        .size = group->size,
        .leader = group->hosts.leader,
        .stall_timeout_ms = group->stall_timeout_ms,
        .watch = {look_at_links, group},
    };
    int error = gpu_group_open(&group->gpus, group, gpu, &options);
    return error == 0 || group->broken != 0 ? error : fail(group, error, "no memory is left for the group", NULL);
}

const char *group_gpu_path(const struct group *group)
{
    return group->gpus != NULL ? gpu_group_path(group->gpus) : "";
}

/* Runs a collective through the GPU transfers. A wrong argument breaks nothing; if a part of the group broke, its sentence
 * stands. */
static int by_gpus(struct group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                   uint32_t root)
{
    int error = gpu_group_run(group->gpus, kind, type, values, count, root);
    if (error == 0 || group->broken != 0) {
        return error;
    }
    if (error == ERR_USAGE) {
        bytes_copy_text(group->error, sizeof group->error, gpu_group_error(group->gpus));
        return error;
    }
    return fail(group, error, gpu_group_error(group->gpus), NULL);
}

/* ---- collectives ---- */

/* Sums an array in the host, then among the leaders, then hands it back down. */
static int reduce_chunk(struct group *group, enum element_type type, void *values, uint64_t count)
{
    int error = 0;
    if (group->memory != NULL) {
        error = by_memory(group, shm_group_all_reduce(group->memory, type, values, count));
    }
    if (error == 0 && group->leaders != NULL) {
        error = by_leaders(group, tcp_group_all_reduce(group->leaders, type, values, count));
    }
    if (error == 0 && group->memory != NULL) {
        error = by_memory(group, shm_group_broadcast(group->memory, values, count * element_type_bytes(type), 0));
    }
    return error;
}

static bool one_host(const struct group *group)
{
    return group->memory != NULL && group->host_count == 1;
}

/* 0, or the reason why no sum of these values can begin. */
static int check_sum(const struct group *group, enum element_type type, const void *values)
{
    bool can = ELEMENT_ADDS(type) && (uintptr_t)values % element_type_bytes(type) == 0;
    return can ? group->broken : ERR_USAGE;
}

int group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count)
{
    int error = check_sum(group, type, values);
    if (error != 0) {
        return error;
    }
    if (gpu_group_takes(group->gpus, values)) {
        return by_gpus(group, PLAN_ALL_REDUCE, type, values, count, 0);
    }
    if (one_host(group)) {
        return by_memory(group, shm_group_all_reduce(group->memory, type, values, count));
    }
    if (!is_mixed(group)) {
        return by_links(group, tcp_group_all_reduce(group->links, type, values, count));
    }
    size_t bytes = element_type_bytes(type);
    uint64_t done = 0;
    do {
        uint64_t most = GROUP_CHUNK_BYTES / bytes, part = count - done < most ? count - done : most;
        error = reduce_chunk(group, type, (uint8_t *)values + done * bytes, part);
        done += part;
    } while (error == 0 && done < count);
    return error;
}

int group_reduce_scatter(struct group *group, enum element_type type, void *values, uint64_t count)
{
    int error = check_sum(group, type, values);
    if (error != 0) {
        return error;
    }
    if (gpu_group_takes(group->gpus, values)) {
        return by_gpus(group, PLAN_REDUCE_SCATTER, type, values, count, 0);
    }
    return one_host(group) ? by_memory(group, shm_group_reduce_scatter(group->memory, type, values, count))
                           : by_links(group, tcp_group_reduce_scatter(group->links, type, values, count));
}

int group_all_gather(struct group *group, enum element_type type, void *values, uint64_t count)
{
    size_t bytes = element_type_bytes(type);
    if (bytes == 0 || (uintptr_t)values % bytes != 0) {
        return ERR_USAGE;
    }
    if (group->broken != 0) {
        return group->broken;
    }
    if (gpu_group_takes(group->gpus, values)) {
        return by_gpus(group, PLAN_ALL_GATHER, type, values, count, 0);
    }
    return one_host(group) ? by_memory(group, shm_group_all_gather(group->memory, type, values, count))
                           : by_links(group, tcp_group_all_gather(group->links, type, values, count));
}

int group_broadcast(struct group *group, void *bytes, uint64_t count, uint32_t root)
{
    if (root >= group->size) {
        return ERR_USAGE;
    }
    if (group->broken != 0) {
        return group->broken;
    }
    if (gpu_group_takes(group->gpus, bytes)) {
        return by_gpus(group, PLAN_BROADCAST, ELEMENT_BYTES, bytes, count, root);
    }
    return one_host(group) ? by_memory(group, shm_group_broadcast(group->memory, bytes, count, root))
                           : by_links(group, tcp_group_broadcast(group->links, bytes, count, root));
}

int group_barrier(struct group *group)
{
    if (group->broken != 0) {
        return group->broken;
    }
    return one_host(group) ? by_memory(group, shm_group_barrier(group->memory))
                           : by_links(group, tcp_group_barrier(group->links));
}
