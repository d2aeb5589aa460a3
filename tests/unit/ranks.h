#ifndef TESTS_UNIT_RANKS_H
#define TESTS_UNIT_RANKS_H
/* The ranks of one group on this machine: processes, as they are in life, or threads of the test, where it has to reach into a
 * rank or plays one itself. A rank opens its group, does what its body says and closes it. cmocka's assertions belong to the
 * main thread of the first process: ranks leave what they came to in shared memory, and that thread judges it. Include
 * cmocka.h first. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "train/group/group.h"
#include "train/group/shm/group.h"

#define RANKS_MAX 8
#define LONG_MS 60000 /* timeouts that nothing here reaches unless it hangs */
#define SOON_MS 20000 /* far below, and far above what a loaded machine needs */

struct rank {
    int open_result, result;
    char open_error[GROUP_ERROR_BYTES], error[GROUP_ERROR_BYTES];
    uint32_t hosts, refused; /* as the group says when it is open */
    uint64_t took_ms;        /* in the body */
    uint8_t hash[32];        /* of what the rank ended with, if its body says */
    atomic_int progress;
    atomic_bool ended;
};

struct world;
typedef int group_body(struct world *world, struct group *group, uint32_t rank);
typedef int memory_body(struct world *world, struct shm_group *group, uint32_t rank);

/* A rank and the thread that it is. */
struct rank_thread {
    struct world *world;
    uint32_t rank;
    pthread_t thread;
};

/* Lies in shared memory. */
struct world {
    uint32_t size;
    void (*run)(struct world *world, uint32_t rank);
    void (*before)(struct world *world, uint32_t rank); /* the group is opened; may be NULL */

    /* of a group over several hosts */
    group_body *group_body;
    char hosts[RANKS_MAX][8]; /* "": as the kernel says */
    struct tcp_member addresses[RANKS_MAX];
    struct tcp_options links[RANKS_MAX];
    int listeners[RANKS_MAX]; /* -1: none */

    /* of a group in memory */
    memory_body *memory_body;
    struct shm_group_member members[RANKS_MAX];
    struct shm_group_options options[RANKS_MAX];

    /* what tests and bodies go by */
    uint64_t count;
    uint32_t odd; /* the rank that is unlike the others */
    int variant;
    atomic_int go;

    pid_t processes[RANKS_MAX];
    struct rank_thread threads[RANKS_MAX];
    struct rank ranks[RANKS_MAX];
};

uint64_t clock_ms(void);
void sleep_ms(long ms);

/* A group of train/group/group.h: "aabb" are four ranks on two hosts; '-' leaves it to the kernel. The caller ends it. */
struct world *world_of_hosts(const char *hosts, group_body *body);

/* A group of train/group/shm/group.h. The caller ends it. */
struct world *world_of_memory(uint32_t size, memory_body *body);

void world_end(struct world **world);

/* They are LONG_MS else. */
void world_set_timeouts(struct world *world, int open_timeout_ms, int stall_timeout_ms);

/* All ranks as processes; one of them to its end; all of them. They end by themselves or are killed by the test. */
void world_fork(struct world *world);
void world_wait_for(struct world *world, uint32_t rank);
void world_wait(struct world *world);

/* One rank as a thread; all ranks, from their beginning to their end. */
void world_thread(struct world *world, uint32_t rank);
void world_join(struct world *world, uint32_t rank);
void world_threads(struct world *world);

/* All ranks came to their end, and none says that anything went wrong. */
void assert_all_well(const struct world *world);

#endif
