#ifndef TOOLS_SHOAL_FORWARD_H
#define TOOLS_SHOAL_FORWARD_H
/* A loopback address of its own for each trial, whose ports lead to those of the trial's node. Each function that
 * returns an `int` returns an exit code; on failure its sentence is written. */

#include "tools/shoal/target.h"

#define FORWARD_ADDRESS_BYTES 32

struct forward {
    struct cli *cli;
    struct target target; /* with a whole id */
    uint64_t rank;
    uint16_t port;   /* of the trial's node; 0: not known yet, connections wait */
    bool is_running; /* the trial, at the last look */
    bool has_failed; /* a connection could not be made since the caller has set this to false */
    int listen_fd;
    char address[FORWARD_ADDRESS_BYTES]; /* HOST:PORT */
};

/* Listens at 127.74.x.y:`local_port` (0: any), x and y by the experiment and the trial: what a program serves there
 * gets no cookie of the dashboard or of another trial's program, since browsers keep cookies by the host. `target` may
 * name the experiment as users do. */
int forward_open(struct cli *cli, const struct target *target, uint64_t rank, uint16_t local_port, struct forward *out);

/* Serves until the trial is over or a signal comes; `tick` (may be NULL) is called about once a second, and ends it by
 * returning false. */
int forward_serve(struct forward *forward, bool (*tick)(struct forward *forward, void *context), void *context);

void forward_close(struct forward *forward);

#endif
