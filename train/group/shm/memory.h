#ifndef TRAIN_GROUP_SHM_MEMORY_H
#define TRAIN_GROUP_SHM_MEMORY_H
/* Memory shared between processes, and the messages that carry it: for train/group/group.c, train/group/shm/group.c and
 * train/group/shm/meet.c. A shell. */

#include <stdbool.h>
#include <stddef.h>

/* Makes zeroed memory of `bytes` (> 0), mapped and backed by pages, in a memfd sealed against changes of size. `at`: the
 * address whose mapping it replaces, or NULL. The caller ends the memory and closes *fd. ERR_MEMORY, ERR_IO. */
int shm_memory_create(size_t bytes, void *at, int *fd, void **out);

/* Unmaps the memory. Placed memory is replaced by private zeros in a single step, so that no other mapping can take its
 * place. */
void shm_memory_end(void *memory, size_t bytes, bool is_placed);

/* Maps a peer's memfd; `fd` stays the caller's. ERR_MALFORMED if it is not a memfd of exactly `bytes` sealed against shrinking:
 * an access could then fail and end the process. ERR_MEMORY. */
int shm_memory_map(int fd, size_t bytes, void **out);

/* Sends a whole message on a Unix socket that keeps boundaries, with a descriptor unless fd is -1. Never waits. 0, ERR_FULL
 * (the receiver has not read enough), ERR_CLOSED. */
int shm_message_send(int socket, const void *message, size_t bytes, int fd);

/* Makes the kernel attach the sender's process to each message received on this socket. 0 or ERR_IO. */
int shm_message_want_sender(int socket);

/* Receives a message of exactly `bytes`. *fd: the descriptor that came with it, which the caller closes, or -1; fd == NULL: no
 * descriptor may come. *sender: the sending process, 0 if the kernel does not tell or the process is not visible from here;
 * sender == NULL: not wanted. Never waits. 0, ERR_AGAIN (no message), ERR_CLOSED, ERR_MALFORMED (another length, or too many
 * descriptors). */
int shm_message_receive(int socket, void *message, size_t bytes, int *fd, int *sender);

#endif
