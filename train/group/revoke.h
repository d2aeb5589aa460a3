#ifndef TRAIN_GROUP_REVOKE_H
#define TRAIN_GROUP_REVOKE_H
/* The word that a group is over: another thread, or a signal handler, says it, and every wait of the group's collectives
 * ends. Said once, it stays said. */

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>

#define REVOKE_FDS 2

struct revoke {
    atomic_bool is_set;
    int fd; /* an eventfd, readable once it is said: for poll */
    /* Where the word comes by a descriptor that the collectives' own thread reads: waits look at watch_fd (-1: none) too, and
     * call heed when it is readable, which may say it, and may change watch_fd. */
    int watch_fd;
    void (*watch)(void *context);
    void *context;
};

/* 0 or ERR_IO. Whoever opens it closes it, after the groups that were given it. */
int revoke_open(struct revoke *revoke);
void revoke_close(struct revoke *revoke);

/* For waits: what to poll beside the links, and, after poll, whether it was said. */
void revoke_poll(const struct revoke *revoke, struct pollfd fds[REVOKE_FDS]); /* NULL: nothing */
bool revoke_check(struct revoke *revoke, const struct pollfd fds[REVOKE_FDS]);

/* From any thread, and safe in a signal handler. */
void revoke_set(struct revoke *revoke);
bool revoke_is_set(const struct revoke *revoke);

#endif
