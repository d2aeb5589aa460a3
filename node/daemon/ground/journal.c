#include "node/daemon/ground/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES 24
#define LISTED_MAX 1024 /* files that one look at the directory takes */
#define DAY_S 86400

static void file_name(char out[NAME_BYTES], uint64_t file)
{
    (void)snprintf(out, NAME_BYTES, "%" PRIu64, file);
}

static bool read_number(const char **at, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (value > max / 10) {
            return false;
        }
        value = 10 * value + (uint64_t)(*p - '0');
    }
    bool is_number = p != *at && value <= max;
    *at = p;
    *out = value;
    return is_number;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of the files, ascending. */
static size_t list(const struct journal *journal, uint64_t out[LISTED_MAX])
{
    int fd = !journal->is_open ? -1 : openat(journal->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    size_t count = 0;
    struct dirent *entry;
    if (directory == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    while (count < LISTED_MAX && (entry = readdir(directory)) != NULL) {
        const char *at = entry->d_name;
        uint64_t number;
        if (read_number(&at, JOURNAL_SEQ_MAX, &number) && *at == '\0' && entry->d_name[0] != '0') {
            out[count++] = number;
        }
    }
    (void)closedir(directory);
    qsort(out, count, sizeof out[0], by_number);
    return count;
}

static void drop_old(const struct journal *journal, uint64_t wall_ms)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    for (size_t i = 0; i < count; i++) {
        char name[NAME_BYTES];
        struct stat status;
        file_name(name, files[i]);
        bool is_old = files[i] != journal->file && fstatat(journal->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                      (uint64_t)status.st_mtime + (uint64_t)JOURNAL_DAYS * DAY_S < wall_ms / 1000;
        if (is_old || i + JOURNAL_FILES_MAX < count) {
            (void)unlinkat(journal->directory_fd, name, 0);
        }
    }
}

static void begin_file(struct journal *journal, uint64_t file)
{
    char name[NAME_BYTES];
    struct stat status;
    if (journal->fd >= 0) {
        (void)close(journal->fd);
    }
    file_name(name, file);
    journal->fd = openat(journal->directory_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    bool is_file = journal->fd >= 0 && fstat(journal->fd, &status) == 0 && S_ISREG(status.st_mode);
    if (journal->fd >= 0 && !is_file) {
        (void)close(journal->fd);
        journal->fd = -1;
    }
    journal->file = file;
    journal->bytes = is_file ? (uint64_t)status.st_size : 0;
}

void journal_open(struct journal *journal, const char *dir, uint64_t wall_ms)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/events", dir);
    *journal = (struct journal){.directory_fd = -1, .fd = -1};
    if (length < 0 || (size_t)length >= sizeof path) {
        return;
    }
    (void)mkdir(path, 0700);
    journal->directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    journal->is_open = journal->directory_fd >= 0;
    if (!journal->is_open) {
        return;
    }
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    begin_file(journal, count == 0 ? 1 : files[count - 1]);
    if (journal->bytes > 0) { /* a line that a power cut has left unfinished ends here */
        journal->bytes += write(journal->fd, "\n", 1) == 1;
    }
    drop_old(journal, wall_ms);
}

void journal_close(struct journal *journal)
{
    if (journal->is_open && journal->fd >= 0) {
        (void)close(journal->fd);
    }
    if (journal->is_open) {
        (void)close(journal->directory_fd);
    }
    journal->is_open = false;
}

void journal_append(struct journal *journal, uint64_t seq, uint64_t wall_ms, const char *text)
{
    char line[JOURNAL_LINE_BYTES_MAX];
    if (!journal->is_open) {
        return;
    }
    int used = snprintf(line, sizeof line - 1, "%" PRIu64 " %" PRIu64 " %s", seq, wall_ms, text);
    size_t bytes = used < (int)sizeof line - 1 ? (size_t)used : sizeof line - 2;
    for (size_t i = 0; i < bytes; i++) {
        line[i] = (unsigned char)line[i] < 0x20 || line[i] == 0x7f ? '?' : line[i];
    }
    line[bytes++] = '\n';
    if (journal->fd < 0 || journal->bytes + bytes > JOURNAL_FILE_BYTES_MAX) {
        begin_file(journal, journal->file + 1);
        drop_old(journal, wall_ms);
    }
    ssize_t written = journal->fd < 0 ? -1 : write(journal->fd, line, bytes);
    journal->bytes += written > 0 ? (uint64_t)written : 0;
}

/* The first file from `file` on; 0: none. */
static uint64_t next_file(const struct journal *journal, uint64_t file)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    for (size_t i = 0; i < count; i++) {
        if (files[i] >= file) {
            return files[i];
        }
    }
    return 0;
}

static void take_line(const char *text, journal_line_fn *line, void *context)
{
    uint64_t seq, wall_ms;
    const char *at = text;
    if (read_number(&at, JOURNAL_SEQ_MAX, &seq) && *at++ == ' ' && read_number(&at, JOURNAL_SEQ_MAX, &wall_ms) && *at++ == ' ' &&
        seq > 0) {
        line(context, seq, wall_ms, at);
    }
}

/* Takes the whole lines of a piece of a file; returns their bytes. A piece without a line's end is passed over. */
static size_t take_lines(char *bytes, size_t count, bool is_end, journal_line_fn *line, void *context)
{
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            bytes[i] = '\0';
            take_line(bytes + from, line, context);
            from = i + 1;
        } else if ((unsigned char)bytes[i] < 0x20) {
            bytes[i] = '?';
        }
    }
    return is_end || from == 0 ? count : from;
}

bool journal_read(const struct journal *journal, struct journal_place *place, size_t bytes_max, journal_line_fn *line,
                  void *context)
{
    uint64_t file = next_file(journal, place->file);
    char *bytes = file == 0 ? NULL : malloc(bytes_max);
    if (bytes == NULL) {
        return false;
    }
    place->offset = file == place->file ? place->offset : 0;
    place->file = file;
    char name[NAME_BYTES];
    file_name(name, file);
    int fd = openat(journal->directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, bytes, bytes_max, (off_t)place->offset);
    if (fd >= 0) {
        (void)close(fd);
    }
    bool is_end = got < (ssize_t)bytes_max;
    if (got > 0) {
        place->offset += take_lines(bytes, (size_t)got, is_end, line, context);
    }
    free(bytes);
    if (is_end && file < journal->file) {
        *place = (struct journal_place){.file = file + 1};
    }
    return !is_end || file < journal->file;
}

struct journal_place journal_near_end(const struct journal *journal, uint64_t bytes)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    uint64_t left = bytes;
    while (count > 0) {
        char name[NAME_BYTES];
        struct stat status = {0};
        file_name(name, files[--count]);
        (void)fstatat(journal->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW);
        if ((uint64_t)status.st_size >= left) {
            return (struct journal_place){.file = files[count], .offset = (uint64_t)status.st_size - left};
        }
        left -= (uint64_t)status.st_size;
    }
    return (struct journal_place){0};
}
