#ifndef NODE_KEEP_SOCKETS_H
#define NODE_KEEP_SOCKETS_H
/* The TCP connections of this network namespace with the bytes that each has carried, as the kernel tells them to any user
 * (sock_diag(7)), and whose they are. A shell. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEP_SOCKETS_MAX 16384u

struct keep_socket {
    uint64_t inode;
    uint64_t sent_bytes,
        received_bytes; /* since it was connected; of what was sent, as much as the other end has confirmed */
    bool mark;          /* the caller's own; false at first */
};

/* Lists them by ascending inode; returns how many. The caller frees `*out` (NULL if there are none). False: the kernel does
 * not tell, or there are more than KEEP_SOCKETS_MAX; `*out` is NULL. */
bool keep_sockets_list(struct keep_socket **out, size_t *count);

/* The one with this inode; NULL: there is none. */
struct keep_socket *keep_sockets_find(struct keep_socket *sockets, size_t count, uint64_t inode);

/* Calls `take` for the inode of each socket that the process has open; one may come several times. Nothing is called for a
 * process of another user. */
typedef void keep_socket_fn(void *context, uint64_t inode);
void keep_sockets_of(pid_t pid, keep_socket_fn *take, void *context);

#endif
