#include "store/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/visible.h"
#include "store/component.h"

#define COPY_BYTES (256u << 10)
#define SHOWN_BYTES 192 /* of a path in a sentence */

/* Where an error sentence goes; report_fail returns the code beside it. */
struct report {
    char *text;
    size_t size;
};

__attribute__((format(printf, 3, 4))) static int report_fail(const struct report *report, int rc, const char *format,
                                                             ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->text, report->size, format, arguments);
    va_end(arguments);
    return rc;
}

static int errno_error(void)
{
    switch (errno) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case ENOMEM:
        return ERR_MEMORY;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EEXIST:
        return ERR_EXISTS;
    default:
        return ERR_IO;
    }
}

/* ---- packing ---- */

/* The archive under construction. */
struct packing {
    struct archive *tar;
    const struct context_list *list;
    const struct report *report;
    const struct archive_progress *progress;
    int root_fd;
    uint64_t done_bytes;
    char *buffer; /* [COPY_BYTES] */
};

static int write_failed(const struct packing *packing, const char *path)
{
    char text[SHOWN_BYTES];
    (void)visible_text(text, sizeof text, path);
    errno = archive_errno(packing->tar);
    return report_fail(packing->report, errno == ENOSPC || errno == EDQUOT ? ERR_NO_SPACE : ERR_IO, "cannot pack %s: %s",
                       text, archive_error_string(packing->tar));
}

static int read_failed_at(const struct packing *packing, const char *path, const char *reason)
{
    char whole[2 * PATH_MAX], text[SHOWN_BYTES];
    (void)snprintf(whole, sizeof whole, "%s/%s", packing->list->root, path);
    (void)visible_text(text, sizeof text, whole);
    return report_fail(packing->report, ERR_IO, "cannot read %s: %s, or name it in .shoalignore", text, reason);
}

static int unreadable(const struct packing *packing, const char *path)
{
    char reason[128];
    (void)snprintf(reason, sizeof reason, "%s; make it readable", strerror(errno));
    return read_failed_at(packing, path, reason);
}

static void tell(struct packing *packing, uint64_t bytes)
{
    packing->done_bytes += bytes;
    if (packing->progress != NULL) {
        packing->progress->tell(packing->progress->context, packing->done_bytes, packing->list->total_bytes);
    }
}

/* Reads until the buffer is full or `wanted` bytes are there. -1: errno tells. */
static ssize_t read_some(int fd, char *buffer, uint64_t wanted)
{
    size_t room = wanted < COPY_BYTES ? (size_t)wanted : COPY_BYTES, used = 0;
    while (used < room) {
        ssize_t got = read(fd, buffer + used, room - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static int write_header(const struct packing *packing, const struct context_entry *entry, uint64_t bytes)
{
    struct archive_entry *header = archive_entry_new();
    if (header == NULL) {
        return report_fail(packing->report, ERR_MEMORY, "no memory to pack %s", packing->list->root);
    }
    archive_entry_copy_pathname(header, entry->path);
    archive_entry_set_mode(header, entry->mode);
    archive_entry_set_size(header, (la_int64_t)bytes);
    archive_entry_set_mtime(header, 0, 0);
    archive_entry_set_uid(header, 0);
    archive_entry_set_gid(header, 0);
    if (entry->link != NULL) {
        archive_entry_copy_symlink(header, entry->link);
    }
    int rc = archive_write_header(packing->tar, header) == ARCHIVE_OK ? 0 : write_failed(packing, entry->path);
    archive_entry_free(header);
    return rc;
}

/* A file that grows meanwhile, such as a log, is packed up to the size that it was listed with. If it has become shorter it is
 * packed as it is, unless that happens after its header was written. */
static int write_content(struct packing *packing, const struct context_entry *entry, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return unreadable(packing, entry->path);
    }
    uint64_t left = (uint64_t)info.st_size < entry->bytes ? (uint64_t)info.st_size : entry->bytes;
    ssize_t got = read_some(fd, packing->buffer, left);
    if (got >= 0 && left <= COPY_BYTES) {
        left = (uint64_t)got;
    }
    int rc = got >= 0 ? write_header(packing, entry, left) : unreadable(packing, entry->path);
    while (rc == 0 && left > 0) {
        if (got < 0) {
            return unreadable(packing, entry->path);
        }
        if (got == 0) {
            return read_failed_at(packing, entry->path, "it became shorter while it was packed; try again");
        }
        if (archive_write_data(packing->tar, packing->buffer, (size_t)got) != got) {
            return write_failed(packing, entry->path);
        }
        left -= (uint64_t)got;
        tell(packing, (uint64_t)got);
        got = left > 0 ? read_some(fd, packing->buffer, left) : 0;
    }
    return rc;
}

static int write_entry(struct packing *packing, const struct context_entry *entry)
{
    if (!S_ISREG(entry->mode)) {
        return write_header(packing, entry, 0);
    }
    int fd = openat(packing->root_fd, entry->path,
                    O_RDONLY | O_CLOEXEC | O_NONBLOCK | (entry->is_followed ? 0 : O_NOFOLLOW));
    if (fd < 0) {
        bool has_vanished = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
        return has_vanished ? 0 : unreadable(packing, entry->path);
    }
    int rc = write_content(packing, entry, fd);
    close(fd);
    return rc;
}

static int write_entries(struct packing *packing, int fd)
{
    /* Names are plain bytes here: without BINARY libarchive would convert them from the locale's character set. */
    if (archive_write_set_format_pax_restricted(packing->tar) != ARCHIVE_OK ||
        archive_write_set_options(packing->tar, "hdrcharset=BINARY") != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(packing->tar, 1) != ARCHIVE_OK ||
        archive_write_open_fd(packing->tar, fd) != ARCHIVE_OK) {
        return write_failed(packing, packing->list->root);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < packing->list->count; i++) {
        rc = write_entry(packing, &packing->list->entries[i]);
    }
    if (rc == 0 && archive_write_close(packing->tar) != ARCHIVE_OK) {
        rc = write_failed(packing, packing->list->root);
    }
    return rc;
}

int archive_pack(const struct context_list *list, int fd, const struct archive_progress *progress, char *error,
                 size_t error_size)
{
    struct report report = {.text = error, .size = error_size};
    struct packing packing = {.tar = archive_write_new(), .list = list, .report = &report, .progress = progress};
    packing.root_fd = open(list->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    packing.buffer = malloc(COPY_BYTES);
    int rc = 0;
    if (packing.root_fd < 0) {
        rc = report_fail(&report, errno_error(), "cannot open the directory %s: %s", list->root, strerror(errno));
    } else if (packing.tar == NULL || packing.buffer == NULL) {
        rc = report_fail(&report, ERR_MEMORY, "no memory to pack %s", list->root);
    } else {
        rc = write_entries(&packing, fd);
    }
    if (packing.tar != NULL) {
        archive_write_free(packing.tar);
    }
    if (packing.root_fd >= 0) {
        close(packing.root_fd);
    }
    free(packing.buffer);
    return rc;
}

/* ---- unpacking ---- */

struct unpack {
    struct archive *tar;
    int root_fd;
    uint64_t left_bytes;
    uint64_t bytes_max;
    enum archive_links links;
    const struct report *report;
    char *text; /* [SHOWN_BYTES], for a path or a link's target in a sentence */
};

/* A name of a stranger as it can be printed. */
static const char *shown(const struct unpack *unpack, const char *name)
{
    (void)visible_text(unpack->text, SHOWN_BYTES, name);
    return unpack->text;
}

/* Opens the parent directory of `path`, creating missing directories, and finds the last name. A component that is a
 * link is not followed. The caller closes *dir_fd. */
static int parent_open(const struct unpack *unpack, const char *path, int *dir_fd, char name[NAME_MAX + 1])
{
    if (path[0] == '\0' || path[0] == '/' || strlen(path) >= PATH_MAX) {
        return report_fail(unpack->report, ERR_REFUSED, "the archive has an entry with the unsafe path %s",
                           shown(unpack, path));
    }
    int fd = dup(unpack->root_fd);
    name[0] = '\0';
    struct component component = {.next = path};
    while (fd >= 0 && component_next(&component)) {
        if (component_is_up(&component) || component.length > NAME_MAX) {
            close(fd);
            return report_fail(unpack->report, ERR_REFUSED, "the archive has an entry with the unsafe path %s",
                               shown(unpack, path));
        }
        if (name[0] != '\0') {
            int next = -1;
            if (mkdirat(fd, name, 0755) == 0 || errno == EEXIST) {
                next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            }
            int reason = errno;
            close(fd);
            errno = reason;
            fd = next;
        }
        memcpy(name, component.name, component.length);
        name[component.length] = '\0';
    }
    if (fd < 0) {
        int rc = errno == ELOOP || errno == ENOTDIR ? ERR_REFUSED : errno_error();
        return report_fail(unpack->report, rc, "cannot unpack %s: a directory on its path: %s",
                           shown(unpack, path), strerror(errno));
    }
    *dir_fd = fd;
    return 0;
}

static int read_failed(const struct unpack *unpack, const char *where)
{
    const char *reason = archive_error_string(unpack->tar);
    return report_fail(unpack->report, archive_errno(unpack->tar) == ENOMEM ? ERR_MEMORY : ERR_MALFORMED,
                       "the archive is damaged at %s: %s", shown(unpack, where), reason != NULL ? reason : "unknown format");
}

static int unpack_content(struct unpack *unpack, int fd, const char *path)
{
    char buffer[COPY_BYTES / 4];
    for (;;) {
        la_ssize_t got = archive_read_data(unpack->tar, buffer, sizeof buffer);
        if (got == 0) {
            return 0;
        }
        if (got < 0) {
            return read_failed(unpack, path);
        }
        if ((uint64_t)got > unpack->left_bytes) {
            return report_fail(unpack->report, ERR_FULL, "the archive holds more than %llu bytes",
                               (unsigned long long)unpack->bytes_max);
        }
        unpack->left_bytes -= (uint64_t)got;
        for (la_ssize_t done = 0; done < got;) {
            ssize_t put = write(fd, buffer + done, (size_t)(got - done));
            if (put < 0 && errno == EINTR) {
                continue;
            }
            if (put <= 0) {
                return report_fail(unpack->report, errno_error(), "cannot write %s: %s", shown(unpack, path),
                                   strerror(errno));
            }
            done += put;
        }
    }
}

static int unpack_file(struct unpack *unpack, int dir_fd, const char *name, const char *path, mode_t mode)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return report_fail(unpack->report, errno_error(), "cannot make the file %s: %s", shown(unpack, path),
                           strerror(errno));
    }
    int rc = unpack_content(unpack, fd, path);
    /* Sets the mode at the end and with fchmod, so that the umask does not matter. Set-user bits and the like are
     * dropped. */
    if (rc == 0 && fchmod(fd, (mode & 0111) != 0 ? 0755 : 0644) != 0) {
        rc = report_fail(unpack->report, ERR_IO, "cannot set the mode of %s: %s", shown(unpack, path),
                         strerror(errno));
    }
    if (close(fd) != 0 && rc == 0) {
        rc = report_fail(unpack->report, errno_error(), "cannot write %s: %s", shown(unpack, path),
                                   strerror(errno));
    }
    return rc;
}

static int unpack_directory(const struct unpack *unpack, int dir_fd, const char *name, const char *path)
{
    if (name[0] == '\0') {
        return 0; /* "./" is the root itself */
    }
    struct stat info;
    bool made = mkdirat(dir_fd, name, 0755) == 0;
    bool is_there = !made && errno == EEXIST && fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISDIR(info.st_mode); /* created earlier, for an entry inside */
    if (!made && !is_there) {
        return report_fail(unpack->report, errno_error(), "cannot make the directory %s: %s", shown(unpack, path),
                           strerror(errno));
    }
    return 0;
}

static int unpack_link(const struct unpack *unpack, int dir_fd, const char *name, const char *path, const char *target)
{
    bool stays = target != NULL && component_link_stays(path, target);
    if (target == NULL || target[0] == '\0' || (!stays && unpack->links == ARCHIVE_LINKS_INSIDE)) {
        return report_fail(unpack->report, ERR_REFUSED,
                           "the archive has a symbolic link that leads out of it: %s", shown(unpack, path));
    }
    if (symlinkat(target, dir_fd, name) != 0) {
        return report_fail(unpack->report, errno_error(), "cannot make the symbolic link %s: %s", shown(unpack, path),
                           strerror(errno));
    }
    return 0;
}

static int unpack_entry(struct unpack *unpack, struct archive_entry *header)
{
    const char *path = archive_entry_pathname(header);
    mode_t type = archive_entry_filetype(header);
    if (path == NULL) {
        return report_fail(unpack->report, ERR_MALFORMED, "the archive has an entry without a name");
    }
    if (archive_entry_hardlink(header) != NULL || (type != S_IFREG && type != S_IFDIR && type != S_IFLNK)) {
        return report_fail(unpack->report, ERR_REFUSED,
                           "the archive entry %s is neither a file nor a directory nor a symbolic link",
                           shown(unpack, path));
    }
    char name[NAME_MAX + 1];
    int dir_fd = -1;
    int rc = parent_open(unpack, path, &dir_fd, name);
    if (rc != 0) {
        return rc;
    }
    if (type == S_IFDIR) {
        rc = unpack_directory(unpack, dir_fd, name, path);
    } else if (name[0] == '\0') {
        rc = report_fail(unpack->report, ERR_REFUSED, "the archive has an entry with the unsafe path %s",
                         shown(unpack, path));
    } else if (type == S_IFLNK) {
        rc = unpack_link(unpack, dir_fd, name, path, archive_entry_symlink(header));
    } else {
        rc = unpack_file(unpack, dir_fd, name, path, archive_entry_mode(header));
    }
    close(dir_fd);
    return rc;
}

static int unpack_entries(struct unpack *unpack, int fd)
{
    /* Uncompressed tar only: every further format would be more code that reads a stranger's bytes. */
    if (archive_read_support_format_tar(unpack->tar) != ARCHIVE_OK ||
        archive_read_open_fd(unpack->tar, fd, COPY_BYTES) != ARCHIVE_OK) {
        return read_failed(unpack, "its beginning");
    }
    for (uint32_t count = 0;; count++) {
        struct archive_entry *header;
        int status = archive_read_next_header(unpack->tar, &header);
        if (status == ARCHIVE_EOF) {
            return 0;
        }
        if (status != ARCHIVE_OK) {
            return read_failed(unpack, count == 0 ? "its beginning" : "an entry's header");
        }
        if (count == CONTEXT_ENTRIES_MAX) {
            return report_fail(unpack->report, ERR_FULL, "the archive has more than %u entries", CONTEXT_ENTRIES_MAX);
        }
        int rc = unpack_entry(unpack, header);
        if (rc != 0) {
            return rc;
        }
    }
}

int archive_unpack(int fd, const char *dir, uint64_t bytes_max, enum archive_links links, char *error, size_t error_size)
{
    struct report report = {.text = error, .size = error_size};
    bytes_max = bytes_max == 0 ? CONTEXT_BYTES_MAX : bytes_max;
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return report_fail(&report, errno_error(), "cannot make the directory %s: %s", dir, strerror(errno));
    }
    char text[SHOWN_BYTES];
    struct unpack unpack = {.text = text, .left_bytes = bytes_max, .bytes_max = bytes_max, .links = links, .report = &report};
    unpack.root_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (unpack.root_fd < 0) {
        return report_fail(&report, errno_error(), "cannot open the directory %s: %s", dir, strerror(errno));
    }
    unpack.tar = archive_read_new();
    int rc = unpack.tar != NULL ? unpack_entries(&unpack, fd)
                                : report_fail(&report, ERR_MEMORY, "no memory to unpack into %s", dir);
    if (unpack.tar != NULL) {
        archive_read_free(unpack.tar);
    }
    close(unpack.root_fd);
    return rc;
}
