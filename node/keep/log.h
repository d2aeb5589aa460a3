#ifndef NODE_KEEP_LOG_H
#define NODE_KEEP_LOG_H
/* The output of one worker on disk, capped: the first part and the last part are kept. A shell.
 *
 * Every byte has an absolute offset, 0 for the worker's first byte. A run directory holds
 *
 *     log           bytes from 0: the first half of the cap
 *     log.OFFSET    later segments, each a quarter of the cap, named by the offset of their first byte; only the two
 *                   newest stay
 *
 * so readers find every byte by its offset without an index, and a gap in the middle is output that was dropped. Bytes
 * that a full disk refused are a gap as well. */

#include <stddef.h>
#include <stdint.h>

#define KEEP_LOG_CAP_BYTES_MIN 4096

/* ---- writing: shoal-keep only ---- */

/* The writer's state. */
struct keep_log {
    int directory_fd; /* borrowed */
    uint64_t cap_bytes;
    uint64_t offset; /* offset of the next byte */
    int fd;          /* the open segment; -1: none */
    uint64_t start;  /* offset of the open segment */
    uint64_t limit_bytes;
    uint64_t older_start; /* offset of the segment before; 0: that is `log`, or there is none */
};

/* Starts at offset 0; no file is created yet. cap_bytes >= KEEP_LOG_CAP_BYTES_MIN; directory_fd must outlive the log. */
void keep_log_init(struct keep_log *log, int directory_fd, uint64_t cap_bytes);

/* Appends all bytes; those that cannot be written count as dropped. */
void keep_log_append(struct keep_log *log, const uint8_t *bytes, size_t count);

/* Closes the open segment. */
void keep_log_close(struct keep_log *log);

/* ---- reading: any process, also while the worker runs ---- */

/* Reads from `offset` on. `*dropped` becomes the number of bytes that are lost from there on, `*got` the number of
 * bytes in `buffer`, which are those at offset + *dropped; continue at offset + *dropped + *got. Both are 0 at the
 * present end of the output. 0, ERR_NOT_FOUND (no such directory), ERR_IO. */
int keep_log_read(const char *run_directory, uint64_t offset, uint8_t *buffer, size_t capacity_bytes, size_t *got,
                  uint64_t *dropped);

/* The offset behind the last byte so far; 0 if there is no output. Errors as keep_log_read. */
int keep_log_end(const char *run_directory, uint64_t *end);

/* Writes the last `lines` lines, as many as fit, as text that ends in NUL. Where output was dropped, a line "[shoal: N
 * bytes of output were dropped here]" is added. A last line without newline counts. capacity_bytes >= 256. `*bytes` is
 * the length without the NUL. Errors as keep_log_read. */
int keep_log_tail(const char *run_directory, unsigned lines, char *buffer, size_t capacity_bytes, size_t *bytes);

#endif
