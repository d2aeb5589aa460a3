#ifndef BASE_FRAME_H
#define BASE_FRAME_H
/* Frames on a local stream socket: a big-endian u32 length, then that many bytes. A frame may carry one file descriptor
 * (SCM_RIGHTS). A shell: it does I/O. frame_send and frame_reader_wait block; a caller that must not wait uses
 * frame_send_some, frame_reader_fill and frame_reader_next. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_BYTES_MAX (1u << 20) /* without the head */
#define FRAME_HEAD_BYTES 4u
#define FRAME_FDS_MAX 4

/* Sends one whole frame and blocks until it is out, also on a non-blocking socket. `passed_fd` is -1 or a descriptor
 * that the receiver gets a duplicate of; the caller keeps its own. 0, ERR_CLOSED, ERR_IO, ERR_USAGE (too long). */
int frame_send(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd);

/* Sends as much of a frame as goes without waiting. `*sent` counts the bytes of the frame, head included, that are out;
 * the caller sets it to 0 for a new frame and then passes the same other arguments until the frame is complete. 0: the
 * whole frame is out, and `*sent` is count + FRAME_HEAD_BYTES. ERR_AGAIN: the socket has no room; call again.
 * ERR_CLOSED, ERR_IO, ERR_USAGE (too long). */
int frame_send_some(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd, size_t *sent);

/* Collects frames from a socket. `buffer` belongs to the caller; more than FRAME_BYTES_MAX + 4 bytes are never needed.
 * A frame longer than capacity_bytes - 4 is refused with ERR_MALFORMED. */
struct frame_reader {
    uint8_t *buffer;
    size_t capacity_bytes;
    size_t used_bytes;
    size_t taken_bytes;
    int fds[FRAME_FDS_MAX]; /* received and not handed out yet; -1: an empty place */
    bool never_waits;       /* the caller sets it: frame_reader_fill does not block, whatever the socket does */
};

/* Starts with an empty buffer, which is borrowed until the reader is no longer used. */
void frame_reader_init(struct frame_reader *reader, uint8_t *buffer, size_t capacity_bytes);

/* Closes the received descriptors that were not handed out. The buffer stays the caller's. */
void frame_reader_close(struct frame_reader *reader);

/* Reads once from the socket (blocks if the socket does). 0; ERR_AGAIN: nothing to read; ERR_FULL: the buffer is full,
 * take frames first; ERR_CLOSED; ERR_IO, also when a descriptor arrived that this process had no room for: frames and
 * descriptors no longer match then, and the connection should be closed. */
int frame_reader_fill(struct frame_reader *reader, int socket_fd);

/* Takes the next whole frame; `*bytes` points into the buffer and is valid until the next fill. ERR_AGAIN: no whole
 * frame is there yet; ERR_MALFORMED: the frame is larger than the buffer. `*passed_fd` is the oldest received
 * descriptor if `wants_fd`, else -1; the caller owns the descriptor. */
int frame_reader_next(struct frame_reader *reader, const uint8_t **bytes, size_t *count, int wants_fd, int *passed_fd);

/* Takes the oldest received descriptor, which the caller then owns; -1 if there is none. For protocols in which only
 * the content of a frame tells whether the frame carries a descriptor. */
int frame_reader_take_fd(struct frame_reader *reader);

/* Takes one frame as frame_reader_next does, and blocks for at most `timeout_ms` for it (-1: without limit). The errors
 * of frame_reader_next without ERR_AGAIN, and ERR_CLOSED, ERR_IO, ERR_TIMEOUT. */
int frame_reader_wait(struct frame_reader *reader, int socket_fd, int timeout_ms, const uint8_t **bytes, size_t *count,
                      int wants_fd, int *passed_fd);

#endif
