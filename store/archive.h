#ifndef STORE_ARCHIVE_H
#define STORE_ARCHIVE_H
/* Packs a list of files (store/context.h) into a tar (pax) stream, and unpacks it: the context directory of an experiment.
 *
 * Packing is reproducible: entries in the byte order of their names, times and owners zero, modes 0755 (directories,
 * and files executable by their owner) or 0644. Equal directories give equal bytes, and so the same chunks. Hard links become
 * separate files. A shell. */

#include <stddef.h>
#include <stdint.h>

#include "store/context.h"

/* Called between the bytes of files, in the thread of the caller. */
struct archive_progress {
    void (*tell)(void *context, uint64_t done_bytes, uint64_t bytes);
    void *context;
};

/* Writes the archive of `list` to `fd` from its current position. `progress` may be NULL. A file that vanished since it was
 * listed is left out, and a file that has grown is cut at the size that it was listed with. On failure `error` is one sentence,
 * and the bytes written to fd are void. ERR_IO: unreadable, or a file became shorter while it was read. ERR_NOT_FOUND: the
 * directory is gone. ERR_NO_SPACE, ERR_MEMORY. */
int archive_pack(const struct context_list *list, int fd, const struct archive_progress *progress, char *error,
                 size_t error_size);

/* Which symbolic links an archive may hold: only those that stay inside of it, or any (context: {links: keep}). */
enum archive_links { ARCHIVE_LINKS_INSIDE, ARCHIVE_LINKS_ANY };

/* Unpacks from the current position of `fd` into `dir`, which is created (0755) if absent; the parent of `dir` must
 * exist. The archive may come from a stranger: nothing outside `dir` is touched, no existing file is overwritten, no
 * link is followed. `bytes_max` limits the sum of the file sizes; 0: CONTEXT_BYTES_MAX. On failure `error` is one sentence, and
 * `dir` holds a part of the entries. ERR_MALFORMED: not a tar archive, or cut short within an entry (a cut between two entries
 * shows only in the hash of the whole). ERR_REFUSED: an absolute path, "..", a link that `links` does not allow, or an entry that
 * is not a directory, file or symbolic link. ERR_EXISTS: a path that exists already. ERR_FULL: larger than bytes_max.
 * ERR_NO_SPACE, ERR_IO, ERR_MEMORY. */
int archive_unpack(int fd, const char *dir, uint64_t bytes_max, enum archive_links links, char *error, size_t error_size);

#endif
