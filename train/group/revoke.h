#ifndef TRAIN_GROUP_REVOKE_H
#define TRAIN_GROUP_REVOKE_H
/* Revoking a group: another thread or a signal handler declares the group over, and every wait of the group's collectives ends.
 * A revocation is never taken back. */

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>

#define REVOKE_FDS 2

/* Set up by revoke_open; watch_fd, watch and context may be changed afterwards by the thread of the collectives. */
struct revoke {
    atomic_bool is_set;
    int fd; /* an eventfd, readable once the group is revoked: for poll */
    /* For a revocation that arrives on a descriptor read by the collectives' own thread: waits also poll watch_fd (-1: none)
     * and call `watch` when it is readable. `watch` may revoke the group and may change watch_fd. */
    int watch_fd;
    void (*watch)(void *context);
    void *context;
};

/* revoke_open returns 0 or ERR_IO. The caller closes it after the groups that use it. */
int revoke_open(struct revoke *revoke);
void revoke_close(struct revoke *revoke);

/* For waits: revoke_poll fills in the descriptors to poll beside the links; revoke_check, called after poll, calls `watch` if
 * needed and returns whether the group is revoked. `revoke` may be NULL: nothing is polled, and the answer is false. */
void revoke_poll(const struct revoke *revoke, struct pollfd fds[REVOKE_FDS]);
bool revoke_check(struct revoke *revoke, const struct pollfd fds[REVOKE_FDS]);

/* revoke_set revokes the group; revoke_is_set tells whether it is revoked. From any thread, and safe in a signal handler. */
void revoke_set(struct revoke *revoke);
bool revoke_is_set(const struct revoke *revoke);

#endif
