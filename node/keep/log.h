#ifndef NODE_KEEP_LOG_H
#define NODE_KEEP_LOG_H
/* The output of one worker on disk, capped: its first part and its last part are kept.
 *
 * Every byte has an absolute offset, from 0 at the worker's first. A run directory holds
 *
 *     log           bytes from 0: the first half of the cap
 *     log.OFFSET    later segments, each a quarter of the cap, named by the offset of their first byte; only the two
 *                   newest stay
 *
 * so that readers find every byte by its offset without an index, and a gap in the middle is what was dropped. Bytes
 * that a full disk refused are a gap as well. */

#include <stddef.h>
#include <stdint.h>

#define KEEP_LOG_CAP_BYTES_MIN 4096

/* ---- writing: shoal-keep only ---- */

struct keep_log {
    int directory_fd; /* borrowed */
    uint64_t cap_bytes;
    uint64_t offset; /* of the next byte */
    int fd;          /* the open segment, -1 if none */
    uint64_t start;  /* its offset */
    uint64_t limit_bytes;
    uint64_t older_start; /* the segment before it; 0 if that is `log` or none */
};

/* cap_bytes >= KEEP_LOG_CAP_BYTES_MIN. */
void keep_log_init(struct keep_log *log, int directory_fd, uint64_t cap_bytes);

/* Takes all bytes, whatever the disk says: what cannot be written counts as dropped. */
void keep_log_append(struct keep_log *log, const uint8_t *bytes, size_t count);

void keep_log_close(struct keep_log *log);

/* ---- reading: anybody, also while the worker runs ---- */

/* Reads from `offset` on. `*dropped` is how many bytes from there on are lost, `*got` how many bytes were put into
 * `buffer`: they are those at offset + *dropped; continue at offset + *dropped + *got. Both 0 at the end of what there
 * is so far. 0, ERR_NOT_FOUND (no such directory), ERR_IO. */
int keep_log_read(const char *run_directory, uint64_t offset, uint8_t *buffer, size_t capacity_bytes, size_t *got,
                  uint64_t *dropped);

/* The offset after the last byte so far; 0 if there is no output. Errors as keep_log_read. */
int keep_log_end(const char *run_directory, uint64_t *end);

/* The last `lines` lines, as many of them as fit, as text ending in NUL; where output was dropped in between a line
 * "[shoal: N bytes of output were dropped here]" says so. A last line without newline counts. capacity_bytes >= 256.
 * `*bytes` is the length without NUL. Errors as keep_log_read. */
int keep_log_tail(const char *run_directory, unsigned lines, char *buffer, size_t capacity_bytes, size_t *bytes);

#endif
