#ifndef BASE_FRAME_H
#define BASE_FRAME_H
/* Frames on a local stream socket: a big-endian u32 length, then that many bytes; at most one file descriptor rides
 * along with a frame (SCM_RIGHTS). A shell: it does I/O. frame_send and frame_reader_wait block;
 * without waiting it goes by frame_send_some and struct frame_reader. */

#include <stddef.h>
#include <stdint.h>

#define FRAME_BYTES_MAX (1u << 20) /* without the head */
#define FRAME_HEAD_BYTES 4u
#define FRAME_FDS_MAX 4

/* Sends one whole frame. `passed_fd` is -1 or a descriptor that the receiver gets a duplicate of; the caller keeps its
 * own. 0, ERR_CLOSED, ERR_IO, ERR_USAGE (too long). On a non-blocking socket it waits for room. */
int frame_send(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd);

/* Sends what can go without waiting. `*sent` bytes of the frame, its head included, went before; it is moved on, 0 begins
 * the frame, to which the other arguments belong until it is whole. 0 when all of it is out (`*sent` is then count +
 * FRAME_HEAD_BYTES), ERR_AGAIN when the socket has no room, ERR_CLOSED, ERR_IO, ERR_USAGE (too long). */
int frame_send_some(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd, size_t *sent);

/* Collects frames from a socket. `buffer` belongs to the caller and holds FRAME_BYTES_MAX + 4 bytes at most; a frame
 * larger than capacity_bytes - 4 is refused with ERR_MALFORMED. */
struct frame_reader {
    uint8_t *buffer;
    size_t capacity_bytes;
    size_t used_bytes;
    size_t taken_bytes;
    int fds[FRAME_FDS_MAX]; /* received, not yet handed out; -1 where empty */
};

void frame_reader_init(struct frame_reader *reader, uint8_t *buffer, size_t capacity_bytes);

/* Closes descriptors that nobody took. */
void frame_reader_close(struct frame_reader *reader);

/* Reads once from the socket (blocks if the socket does). 0, ERR_CLOSED, ERR_IO (also when a descriptor that came could not be
 * taken: then frames and descriptors do not belong together any more), ERR_AGAIN, ERR_FULL (take frames first). */
int frame_reader_fill(struct frame_reader *reader, int socket_fd);

/* The next whole frame, valid until the next fill; ERR_AGAIN when there is none yet, ERR_MALFORMED when too large.
 * `*passed_fd` is the oldest received descriptor if `wants_fd`, else -1; the caller owns it. */
int frame_reader_next(struct frame_reader *reader, const uint8_t **bytes, size_t *count, int wants_fd, int *passed_fd);

/* The oldest received descriptor, which the caller owns then, or -1: for a protocol in which only the content of a frame
 * says whether it carries one. */
int frame_reader_take_fd(struct frame_reader *reader);

/* Blocks for one frame at most `timeout_ms` (-1: for ever). As frame_reader_next, plus ERR_CLOSED, ERR_IO,
 * ERR_TIMEOUT. */
int frame_reader_wait(struct frame_reader *reader, int socket_fd, int timeout_ms, const uint8_t **bytes, size_t *count,
                      int wants_fd, int *passed_fd);

#endif
