#ifndef TRAIN_GROUP_SHM_MEMORY_H
#define TRAIN_GROUP_SHM_MEMORY_H
/* Memory that processes share, and the messages that carry it: for train/group/group.c, train/group/shm/group.c and
 * train/group/shm/meet.c. A shell. */

#include <stdbool.h>
#include <stddef.h>

/* New zeroed memory of `bytes` (> 0), mapped and backed by pages, in a memfd that cannot change its size any more. `at` is
 * where it takes the place of what is mapped, or NULL. The caller ends it and closes *fd. ERR_MEMORY, ERR_IO. */
int shm_memory_create(size_t bytes, void *at, int *fd, void **out);

/* Unmaps it; what was placed leaves private zeros behind, in one go, so that no other mapping gets between. */
void shm_memory_end(void *memory, size_t bytes, bool is_placed);

/* Maps what a peer handed over; `fd` stays the caller's. ERR_MALFORMED when it is not a memfd of exactly `bytes` that
 * cannot shrink: an access to it could then fail, and end the process. ERR_MEMORY. */
int shm_memory_map(int fd, size_t bytes, void **out);

/* Sends one whole message on a Unix socket that keeps boundaries, with a descriptor unless fd is -1. Never waits. 0,
 * ERR_FULL (the receiver has not read enough), ERR_CLOSED. */
int shm_message_send(int socket, const void *message, size_t bytes, int fd);

/* Makes the kernel say with each message that this socket receives who has sent it. */
int shm_message_want_sender(int socket);

/* Receives one message of exactly `bytes`. *fd: the descriptor with it, which the caller closes, or -1; NULL: there
 * must be none. *sender: the process that sent it, 0 if the kernel does not say or it cannot be seen from here; NULL:
 * not wanted. Never waits. 0, ERR_AGAIN (none there), ERR_CLOSED, ERR_MALFORMED (another length, or too many
 * descriptors). */
int shm_message_receive(int socket, void *message, size_t bytes, int *fd, int *sender);

#endif
