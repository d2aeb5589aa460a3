#include "store/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
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
#include "store/ignore.h"

#define DEPTH_MAX 64
#define IGNORE_FILE_BYTES_MAX (1u << 20)
#define COPY_BYTES (64u << 10)

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

/* Iterates over the names in a path, without "." and empty names. */
struct component {
    const char *next;
    const char *name; /* not NUL-terminated */
    size_t length;
};

static bool component_next(struct component *component)
{
    do {
        component->next += *component->next == '/';
        component->name = component->next;
        component->length = strcspn(component->name, "/");
        component->next += component->length;
    } while (*component->next != '\0' &&
             (component->length == 0 || (component->length == 1 && component->name[0] == '.')));
    return component->length > 1 || (component->length == 1 && component->name[0] != '.');
}

static bool component_is_up(const struct component *component)
{
    return component->length == 2 && memcmp(component->name, "..", 2) == 0;
}

/* True if a link at `path` (relative to the root) to `target` stays below the root. ".." after a name is refused: the
 * name may itself be a link, and ".." then means the parent of an unknown directory. Leading ".."s climb real
 * directories only, and each further link on the way has passed this same test. */
static bool link_stays_inside(const char *path, const char *target)
{
    if (target[0] == '\0' || target[0] == '/') {
        return false;
    }
    size_t names = 0; /* in the path, including the link's own name; "." and "//" do not climb and do not count */
    struct component component = {.next = path};
    while (component_next(&component)) {
        names++;
    }
    bool named = false;
    component = (struct component){.next = target};
    while (component_next(&component)) {
        if (!component_is_up(&component)) {
            named = true;
        } else if (named || names <= 1) {
            return false;
        } else {
            names--;
        }
    }
    return true;
}

/* ---- packing: first the list of all entries, then the bytes ---- */

struct entry {
    char *path; /* relative to the root; owned */
    char *link; /* a symbolic link's target, else NULL; owned */
    uint64_t bytes;
    mode_t mode;
};

struct listing {
    struct entry *entries;
    size_t count;
    size_t capacity;
    uint64_t total_bytes;
    size_t largest; /* index of the largest file */
    struct ignore_file ignores[DEPTH_MAX];
    size_t ignore_count;
    const char *root;
    const struct report *report;
};

static void listing_close(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->entries[i].path);
        free(listing->entries[i].link);
    }
    free(listing->entries);
    *listing = (struct listing){0};
}

/* Takes ownership of `path` and `link`, also on failure. */
static int listing_add_take(struct listing *listing, char *path, char *link, mode_t mode, uint64_t bytes)
{
    int rc = 0;
    if (listing->count == ARCHIVE_ENTRIES_MAX) {
        rc = report_fail(listing->report, ERR_FULL,
                         "the directory %s has more than %u files: name those that are not needed in its .gitignore",
                         listing->root, ARCHIVE_ENTRIES_MAX);
    } else if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity == 0 ? 64 : 2 * listing->capacity;
        struct entry *grown = realloc(listing->entries, capacity * sizeof *grown);
        if (grown == NULL) {
            rc = report_fail(listing->report, ERR_MEMORY, "no memory to list the directory %s", listing->root);
        } else {
            listing->entries = grown;
            listing->capacity = capacity;
        }
    }
    if (rc != 0) {
        free(path);
        free(link);
        return rc;
    }
    listing->entries[listing->count] = (struct entry){.path = path, .link = link, .bytes = bytes, .mode = mode};
    if (bytes > listing->entries[listing->largest].bytes) {
        listing->largest = listing->count;
    }
    listing->total_bytes += bytes;
    listing->count++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

/* The sorted names in a directory, without ".", ".." and ".git". Closes dir_fd. The caller frees the names. */
static int names_read(int dir_fd, char ***out, size_t *out_count)
{
    DIR *dir = fdopendir(dir_fd);
    if (dir == NULL) {
        close(dir_fd);
        return ERR_IO;
    }
    char **names = NULL;
    size_t count = 0;
    size_t capacity = 0;
    int rc = 0;
    errno = 0;
    for (const struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL; errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, ".git") == 0) {
            continue;
        }
        if (count == capacity) {
            capacity = capacity == 0 ? 32 : 2 * capacity;
            char **grown = count > ARCHIVE_ENTRIES_MAX ? NULL : realloc(names, capacity * sizeof *grown);
            if (grown == NULL) {
                rc = count > ARCHIVE_ENTRIES_MAX ? ERR_FULL : ERR_MEMORY;
                break;
            }
            names = grown;
        }
        names[count] = strdup(entry->d_name);
        if (names[count] == NULL) {
            rc = ERR_MEMORY;
            break;
        }
        count++;
    }
    if (rc == 0 && errno != 0) {
        rc = ERR_IO;
    }
    closedir(dir);
    if (rc != 0) {
        names_free(names, count);
        return rc;
    }
    if (count > 1) {
        qsort(names, count, sizeof *names, compare_names);
    }
    *out = names;
    *out_count = count;
    return 0;
}

/* Pushes the directory's .gitignore, if there is one, onto the stack; the caller frees *text. */
static int ignore_push(struct listing *listing, int dir_fd, const char *prefix, char **text)
{
    int fd = openat(dir_fd, ".gitignore", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP)) {
        return 0; /* git does not follow such a link either */
    }
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        return report_fail(listing->report, ERR_IO, "cannot read %s/%s.gitignore: %s", listing->root, prefix,
                           strerror(reason));
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return 0;
    }
    if (info.st_size > IGNORE_FILE_BYTES_MAX) {
        close(fd);
        return report_fail(listing->report, ERR_FULL, "%s/%s.gitignore is larger than %u bytes: shorten it",
                           listing->root, prefix, IGNORE_FILE_BYTES_MAX);
    }
    size_t used = 0;
    char *bytes = malloc((size_t)info.st_size + 1);
    while (bytes != NULL && used < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + used, (size_t)info.st_size - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            int reason = errno;
            free(bytes);
            close(fd);
            return report_fail(listing->report, ERR_IO, "cannot read %s/%s.gitignore: %s", listing->root, prefix,
                               got == 0 ? "it changed" : strerror(reason));
        }
        used += (size_t)got;
    }
    close(fd);
    if (bytes == NULL) {
        return report_fail(listing->report, ERR_MEMORY, "no memory to read %s/%s.gitignore", listing->root, prefix);
    }
    listing->ignores[listing->ignore_count++] =
        (struct ignore_file){.text = bytes, .text_bytes = used, .base_bytes = strlen(prefix)};
    *text = bytes;
    return 0;
}

static int list_link(struct listing *listing, int dir_fd, const char *name, char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(dir_fd, name, target, sizeof target - 1);
    int rc = 0;
    if (length < 0) {
        rc = report_fail(listing->report, ERR_IO, "cannot read the symbolic link %s/%s: %s", listing->root, path,
                         strerror(errno));
    } else {
        target[length] = '\0';
        if (!link_stays_inside(path, target)) {
            rc =
                report_fail(listing->report, ERR_REFUSED,
                            "the symbolic link %s/%s leads out of the directory (to %s) and would be broken elsewhere: "
                            "put a copy in its place, or name it in .gitignore",
                            listing->root, path, target);
        }
    }
    if (rc != 0) {
        free(path);
        return rc;
    }
    char *link = strdup(target);
    if (link == NULL) {
        free(path);
        return report_fail(listing->report, ERR_MEMORY, "no memory to list the directory %s", listing->root);
    }
    return listing_add_take(listing, path, link, S_IFLNK | 0777, 0);
}

static int list_directory(struct listing *listing, int dir_fd, const char *prefix, unsigned depth);

static int list_name(struct listing *listing, int dir_fd, const char *prefix, const char *name, unsigned depth)
{
    struct stat info;
    if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return report_fail(listing->report, ERR_IO, "cannot look at %s/%s%s: %s", listing->root, prefix, name,
                           strerror(errno));
    }
    char *path;
    if (asprintf(&path, "%s%s", prefix, name) < 0) {
        return report_fail(listing->report, ERR_MEMORY, "no memory to list the directory %s", listing->root);
    }
    if (ignore_excludes(listing->ignores, listing->ignore_count, path, S_ISDIR(info.st_mode))) {
        free(path);
        return 0;
    }
    if (S_ISLNK(info.st_mode)) {
        return list_link(listing, dir_fd, name, path);
    }
    if (S_ISREG(info.st_mode)) {
        return listing_add_take(listing, path, NULL, S_IFREG | ((info.st_mode & S_IXUSR) != 0 ? 0755 : 0644),
                                (uint64_t)info.st_size);
    }
    if (!S_ISDIR(info.st_mode)) {
        int rc = report_fail(listing->report, ERR_REFUSED,
                             "%s/%s is neither a file nor a directory nor a symbolic link: remove it, or name it in "
                             ".gitignore",
                             listing->root, path);
        free(path);
        return rc;
    }
    char *below;
    int inner_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner_fd < 0) {
        int rc = report_fail(listing->report, ERR_IO, "cannot open the directory %s/%s: %s", listing->root, path,
                             strerror(errno));
        free(path);
        return rc;
    }
    if (asprintf(&below, "%s/", path) < 0) {
        free(path);
        close(inner_fd);
        return report_fail(listing->report, ERR_MEMORY, "no memory to list the directory %s", listing->root);
    }
    int rc = listing_add_take(listing, path, NULL, S_IFDIR | 0755, 0);
    if (rc == 0) {
        rc = list_directory(listing, inner_fd, below, depth + 1);
    }
    close(inner_fd);
    free(below);
    return rc;
}

/* `prefix` is the path of the directory with a '/' at the end, or "" for the root. */
static int list_directory(struct listing *listing, int dir_fd, const char *prefix, unsigned depth)
{
    if (depth >= DEPTH_MAX) {
        return report_fail(listing->report, ERR_FULL,
                           "%s/%s is more than %d directories deep: name it in .gitignore if it is not needed",
                           listing->root, prefix, DEPTH_MAX);
    }
    char *ignore_text = NULL;
    size_t ignores_before = listing->ignore_count;
    int rc = ignore_push(listing, dir_fd, prefix, &ignore_text);
    if (rc != 0) {
        return rc;
    }
    char **names = NULL;
    size_t name_count = 0;
    int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = list_fd >= 0 ? names_read(list_fd, &names, &name_count) : ERR_IO;
    if (rc != 0) {
        report_fail(listing->report, rc, "cannot read the directory %s/%s: %s", listing->root, prefix, err_text(rc));
    }
    for (size_t i = 0; rc == 0 && i < name_count; i++) {
        rc = list_name(listing, dir_fd, prefix, names[i], depth);
    }
    names_free(names, name_count);
    listing->ignore_count = ignores_before;
    free(ignore_text);
    return rc;
}

static int write_failed(const struct report *report, struct archive *tar, const char *path)
{
    errno = archive_errno(tar);
    return report_fail(report, errno == ENOSPC || errno == EDQUOT ? ERR_NO_SPACE : ERR_IO, "cannot pack %s: %s", path,
                       archive_error_string(tar));
}

static int write_content(const struct report *report, struct archive *tar, int root_fd, const struct entry *entry)
{
    int fd = openat(root_fd, entry->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return report_fail(report, ERR_IO, "cannot read %s: %s", entry->path, strerror(errno));
    }
    char buffer[COPY_BYTES];
    uint64_t left = entry->bytes;
    int rc = 0;
    while (rc == 0 && left > 0) {
        ssize_t got = read(fd, buffer, left < sizeof buffer ? (size_t)left : sizeof buffer);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            rc = report_fail(report, ERR_IO, "cannot read %s: %s", entry->path,
                             got == 0 ? "it became shorter while it was packed; try again" : strerror(errno));
        } else if (archive_write_data(tar, buffer, (size_t)got) != got) {
            rc = write_failed(report, tar, entry->path);
        } else {
            left -= (uint64_t)got;
        }
    }
    close(fd);
    return rc;
}

static int write_entry(const struct report *report, struct archive *tar, int root_fd, const struct entry *entry)
{
    struct archive_entry *header = archive_entry_new();
    if (header == NULL) {
        return report_fail(report, ERR_MEMORY, "no memory to pack %s", entry->path);
    }
    archive_entry_copy_pathname(header, entry->path);
    archive_entry_set_mode(header, entry->mode);
    archive_entry_set_size(header, (la_int64_t)entry->bytes);
    archive_entry_set_mtime(header, 0, 0);
    archive_entry_set_uid(header, 0);
    archive_entry_set_gid(header, 0);
    if (entry->link != NULL) {
        archive_entry_copy_symlink(header, entry->link);
    }
    int rc = archive_write_header(tar, header) == ARCHIVE_OK ? 0 : write_failed(report, tar, entry->path);
    archive_entry_free(header);
    if (rc == 0 && entry->bytes > 0) {
        rc = write_content(report, tar, root_fd, entry);
    }
    return rc;
}

static int write_entries(const struct listing *listing, int root_fd, int fd)
{
    const struct report *report = listing->report;
    struct archive *tar = archive_write_new();
    if (tar == NULL) {
        return report_fail(report, ERR_MEMORY, "no memory to pack %s", listing->root);
    }
    /* Names are plain bytes here: without BINARY libarchive would convert them from the locale's character set. */
    if (archive_write_set_format_pax_restricted(tar) != ARCHIVE_OK ||
        archive_write_set_options(tar, "hdrcharset=BINARY") != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(tar, 1) != ARCHIVE_OK || archive_write_open_fd(tar, fd) != ARCHIVE_OK) {
        int failed = write_failed(report, tar, listing->root);
        archive_write_free(tar);
        return failed;
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < listing->count; i++) {
        rc = write_entry(report, tar, root_fd, &listing->entries[i]);
    }
    if (rc == 0 && archive_write_close(tar) != ARCHIVE_OK) {
        rc = write_failed(report, tar, listing->root);
    }
    archive_write_free(tar);
    return rc;
}

int archive_pack(const char *dir, int fd, uint64_t bytes_max, char *error, size_t error_size)
{
    struct report report = {.text = error, .size = error_size};
    bytes_max = bytes_max == 0 ? ARCHIVE_BYTES_MAX : bytes_max;
    int root_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0) {
        return report_fail(&report, errno_error(), "cannot open the directory %s: %s", dir, strerror(errno));
    }
    struct listing listing = {.root = dir, .report = &report};
    int rc = list_directory(&listing, root_fd, "", 0);
    if (rc == 0 && listing.total_bytes > bytes_max) {
        const struct entry *largest = &listing.entries[listing.largest];
        rc = report_fail(&report, ERR_FULL,
                         "the directory %s holds %llu bytes, more than the %llu that may be sent with an experiment: "
                         "name what is not needed in its .gitignore (the largest file is %s, %llu bytes)",
                         dir, (unsigned long long)listing.total_bytes, (unsigned long long)bytes_max, largest->path,
                         (unsigned long long)largest->bytes);
    }
    if (rc == 0) {
        rc = write_entries(&listing, root_fd, fd);
    }
    listing_close(&listing);
    close(root_fd);
    return rc;
}

/* ---- unpacking ---- */

struct unpack {
    struct archive *tar;
    int root_fd;
    uint64_t left_bytes;
    uint64_t bytes_max;
    const struct report *report;
};

/* Opens the parent directory of `path`, creating missing directories, and finds the last name. A component that is a
 * link is not followed. The caller closes *dir_fd. */
static int parent_open(const struct unpack *unpack, const char *path, int *dir_fd, char name[NAME_MAX + 1])
{
    if (path[0] == '\0' || path[0] == '/' || strlen(path) >= PATH_MAX) {
        return report_fail(unpack->report, ERR_REFUSED, "the archive has an entry with the unsafe path %.100s", path);
    }
    int fd = dup(unpack->root_fd);
    name[0] = '\0';
    struct component component = {.next = path};
    while (fd >= 0 && component_next(&component)) {
        if (component_is_up(&component) || component.length > NAME_MAX) {
            close(fd);
            return report_fail(unpack->report, ERR_REFUSED, "the archive has an entry with the unsafe path %.100s",
                               path);
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
        return report_fail(unpack->report, rc, "cannot unpack %.100s: a directory on its path: %s", path,
                           strerror(errno));
    }
    *dir_fd = fd;
    return 0;
}

static int read_failed(const struct unpack *unpack, const char *where)
{
    const char *reason = archive_error_string(unpack->tar);
    return report_fail(unpack->report, archive_errno(unpack->tar) == ENOMEM ? ERR_MEMORY : ERR_MALFORMED,
                       "the archive is damaged at %.100s: %s", where, reason != NULL ? reason : "unknown format");
}

static int unpack_content(struct unpack *unpack, int fd, const char *path)
{
    char buffer[COPY_BYTES];
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
                return report_fail(unpack->report, errno_error(), "cannot write %.100s: %s", path, strerror(errno));
            }
            done += put;
        }
    }
}

static int unpack_file(struct unpack *unpack, int dir_fd, const char *name, const char *path, mode_t mode)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return report_fail(unpack->report, errno_error(), "cannot make the file %.100s: %s", path, strerror(errno));
    }
    int rc = unpack_content(unpack, fd, path);
    /* Sets the mode at the end and with fchmod, so that the umask does not matter. Set-user bits and the like are
     * dropped. */
    if (rc == 0 && fchmod(fd, (mode & 0111) != 0 ? 0755 : 0644) != 0) {
        rc = report_fail(unpack->report, ERR_IO, "cannot set the mode of %.100s: %s", path, strerror(errno));
    }
    if (close(fd) != 0 && rc == 0) {
        rc = report_fail(unpack->report, errno_error(), "cannot write %.100s: %s", path, strerror(errno));
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
        return report_fail(unpack->report, errno_error(), "cannot make the directory %.100s: %s", path,
                           strerror(errno));
    }
    return 0;
}

static int unpack_link(const struct unpack *unpack, int dir_fd, const char *name, const char *path, const char *target)
{
    if (target == NULL || !link_stays_inside(path, target)) {
        return report_fail(unpack->report, ERR_REFUSED,
                           "the archive has a symbolic link %.100s that leads out of it (to %.100s)", path,
                           target != NULL ? target : "nothing");
    }
    if (symlinkat(target, dir_fd, name) != 0) {
        return report_fail(unpack->report, errno_error(), "cannot make the symbolic link %.100s: %s", path,
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
                           "the archive entry %.100s is neither a file nor a directory nor a symbolic link", path);
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
        rc = report_fail(unpack->report, ERR_REFUSED, "the archive has an entry with the unsafe path %.100s", path);
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
        if (count == ARCHIVE_ENTRIES_MAX) {
            return report_fail(unpack->report, ERR_FULL, "the archive has more than %u entries", ARCHIVE_ENTRIES_MAX);
        }
        int rc = unpack_entry(unpack, header);
        if (rc != 0) {
            return rc;
        }
    }
}

int archive_unpack(int fd, const char *dir, uint64_t bytes_max, char *error, size_t error_size)
{
    struct report report = {.text = error, .size = error_size};
    bytes_max = bytes_max == 0 ? ARCHIVE_BYTES_MAX : bytes_max;
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return report_fail(&report, errno_error(), "cannot make the directory %s: %s", dir, strerror(errno));
    }
    struct unpack unpack = {.left_bytes = bytes_max, .bytes_max = bytes_max, .report = &report};
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
