#ifndef STORE_ARCHIVE_H
#define STORE_ARCHIVE_H
/* A directory as a tar (pax) stream, and back: the context directory of an experiment.
 *
 * Packing is reproducible: entries in the order of their names' bytes, times and owners zero, modes 0755 (directories,
 * files that their owner may execute) or 0644. Equal directories give equal bytes, and so the same chunks.
 *
 * `.gitignore` files of the directory and of those below it are obeyed (store/ignore.h); those above it and the user's
 * global one are not. `.git` is never packed. Symbolic links are kept as links if they cannot lead out: relative, and
 * ".." only at the beginning and not above the directory. Hard links become two files. */

#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_BYTES_MAX (512ull << 20) /* sum of the files' sizes, by default */
#define ARCHIVE_ENTRIES_MAX 100000u

/* Writes the archive of `dir` to `fd` from its current position. `bytes_max` 0: ARCHIVE_BYTES_MAX. `error` has one
 * sentence on failure; what was written to fd is then void. ERR_NOT_FOUND: no such directory. ERR_FULL: larger than
 * bytes_max, or too many entries, nothing is written. ERR_REFUSED: a link that leads out, a socket, device or pipe.
 * ERR_IO: unreadable, or changed while it was read. ERR_NO_SPACE, ERR_MEMORY. */
int archive_pack(const char *dir, int fd, uint64_t bytes_max, char *error, size_t error_size);

/* Unpacks from the current position of `fd` into `dir`, which is created (0755) if absent; its parent exists. The
 * archive may come from anyone: nothing outside of `dir` is touched, nothing that exists is overwritten, no link is
 * followed. `bytes_max` as above. On failure `error` has one sentence and `dir` a part of the entries.
 * ERR_MALFORMED: not a tar archive, or cut short
 * within an entry (between two, only the hash of the whole would tell). ERR_REFUSED: an absolute path, "..", a link
 * that leads out, or another kind of entry than directory, file and symbolic link. ERR_EXISTS: a path that is there
 * already. ERR_FULL: larger than bytes_max. ERR_NO_SPACE, ERR_IO, ERR_MEMORY. */
int archive_unpack(int fd, const char *dir, uint64_t bytes_max, char *error, size_t error_size);

#endif
