#ifndef TRAIN_REVOKE_H
#define TRAIN_REVOKE_H
/* The word that a group is over: another thread, or a signal handler, says it, and every wait of the group's collectives
 * ends. Said once, it stays said. */

#include <stdatomic.h>
#include <stdbool.h>

struct revoke {
    atomic_bool said;
    int fd; /* an eventfd, readable once it is said: for poll */
};

/* 0 or ERR_IO. Whoever opens it closes it, after the groups that were given it. */
int revoke_open(struct revoke *revoke);
void revoke_close(struct revoke *revoke);

/* From any thread, and safe in a signal handler. */
void revoke_say(struct revoke *revoke);
bool revoke_said(const struct revoke *revoke);

#endif
