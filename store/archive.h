#ifndef STORE_ARCHIVE_H
#define STORE_ARCHIVE_H
/* Packs a directory into a tar (pax) stream, and unpacks it: the context directory of an experiment.
 *
 * Packing is reproducible: entries in the byte order of their names, times and owners zero, modes 0755 (directories,
 * and files executable by their owner) or 0644. Equal directories give equal bytes, and so the same chunks.
 *
 * `.gitignore` files in the directory and below are obeyed (store/ignore.h); those above, and the user's global one,
 * are not. `.git` is never packed. A symbolic link is kept as a link if it cannot lead out of the directory: relative,
 * and with ".." only at the beginning and not above the directory. Hard links become separate files. A shell. */

#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_BYTES_MAX (512ull << 20) /* sum of the file sizes, by default */
/* Limit of files, directories and links in an archive. */
#define ARCHIVE_ENTRIES_MAX 100000u

/* Writes the archive of `dir` to `fd` from its current position. `bytes_max` limits the sum of the file sizes; 0:
 * ARCHIVE_BYTES_MAX. On failure `error` is one sentence, and the bytes written to fd are void. ERR_NOT_FOUND: no such
 * directory. ERR_FULL: larger than bytes_max, or too many entries; nothing is written. ERR_REFUSED: a link that leads
 * out, a socket, a device or a pipe. ERR_IO: unreadable, or changed while it was read. ERR_NO_SPACE, ERR_MEMORY. */
int archive_pack(const char *dir, int fd, uint64_t bytes_max, char *error, size_t error_size);

/* Unpacks from the current position of `fd` into `dir`, which is created (0755) if absent; the parent of `dir` must
 * exist. The archive may come from a stranger: nothing outside `dir` is touched, no existing file is overwritten, no
 * link is followed. `bytes_max` as above. On failure `error` is one sentence, and `dir` holds a part of the entries.
 * ERR_MALFORMED: not a tar archive, or cut short within an entry (a cut between two entries shows only in the hash of
 * the whole). ERR_REFUSED: an absolute path, "..", a link that leads out, or an entry that is not a directory, file or
 * symbolic link. ERR_EXISTS: a path that exists already. ERR_FULL: larger than bytes_max. ERR_NO_SPACE, ERR_IO,
 * ERR_MEMORY. */
int archive_unpack(int fd, const char *dir, uint64_t bytes_max, char *error, size_t error_size);

#endif
