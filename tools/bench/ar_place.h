#ifndef TOOLS_BENCH_AR_PLACE_H
#define TOOLS_BENCH_AR_PLACE_H
/* Where the ranks of a driver find each other: each writes its port to a file in a common directory. */

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/ar_net.h"

static inline void ar_publish(const char *directory, int rank, const char *host, uint16_t port)
{
    char path[512], whole[512];
    (void)snprintf(path, sizeof path, "%s/part.%d", directory, rank);
    (void)snprintf(whole, sizeof whole, "%s/rank.%d", directory, rank);
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s %u\n", host, port) < 0 || fclose(file) != 0 || rename(path, whole) != 0) {
        ar_die("cannot write to the common directory");
    }
}

/* Waits until that rank has published. */
static inline void ar_find(const char *directory, int rank, char host[64], uint16_t *port)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/rank.%d", directory, rank);
    for (int tries = 0; tries < 3000; tries++) {
        FILE *file = fopen(path, "r");
        unsigned number = 0;
        int found = file != NULL ? fscanf(file, "%63s %u", host, &number) : 0;
        if (file != NULL) {
            (void)fclose(file);
        }
        if (found == 2) {
            *port = (uint16_t)number;
            return;
        }
        struct timespec pause = {.tv_nsec = 10000000};
        (void)nanosleep(&pause, NULL);
    }
    ar_die("a rank did not come");
}

/* Where every rank of this host can have a core of its own each gets one: two that spin on one core would cost each other
 * the scheduler's ticks. True if so. */
static inline int ar_own_core(int rank, int ranks_here)
{
    cpu_set_t cores;
    if (ranks_here < 1 || ranks_here > sysconf(_SC_NPROCESSORS_ONLN)) {
        return 0;
    }
    CPU_ZERO(&cores);
    CPU_SET((size_t)rank % CPU_SETSIZE, &cores);
    return sched_setaffinity(0, sizeof cores, &cores) == 0;
}

#endif
