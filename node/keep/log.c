#include "node/keep/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

#define SEGMENT_NAME_BYTES 32
#define SEGMENTS_MAX 16 /* the writer leaves at most four: `log`, two newer segments, and one not yet removed */
#define TAIL_MARK_BYTES 96

static void segment_name(char out[SEGMENT_NAME_BYTES], uint64_t start)
{
    if (start == 0) {
        (void)snprintf(out, SEGMENT_NAME_BYTES, "log");
    } else {
        (void)snprintf(out, SEGMENT_NAME_BYTES, "log.%" PRIu64, start);
    }
}

void keep_log_init(struct keep_log *log, int directory_fd, uint64_t cap_bytes)
{
    CHECK(cap_bytes >= KEEP_LOG_CAP_BYTES_MIN);
    *log = (struct keep_log){.directory_fd = directory_fd, .cap_bytes = cap_bytes, .fd = -1};
}

static bool segment_open(struct keep_log *log)
{
    char name[SEGMENT_NAME_BYTES];
    segment_name(name, log->offset);
    log->fd = openat(log->directory_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log->start = log->offset;
    log->limit_bytes = log->offset == 0 ? log->cap_bytes / 2 : log->cap_bytes / 4;
    struct stat info;
    if (log->fd >= 0 && log->offset == 0 && fstat(log->fd, &info) == 0) { /* what was written before the worker */
        log->offset = (uint64_t)info.st_size < log->limit_bytes ? (uint64_t)info.st_size : log->limit_bytes - 1;
    }
    return log->fd >= 0;
}

/* Ends the open segment, which becomes the older of two, and removes the segment before it: with the next segment, no
 * more than half of the cap lies behind `log`. */
static void segment_end(struct keep_log *log)
{
    char name[SEGMENT_NAME_BYTES];
    (void)close(log->fd);
    log->fd = -1;
    if (log->offset == log->start) {
        segment_name(name, log->start);
        (void)unlinkat(log->directory_fd, name, 0);
        return;
    }
    if (log->older_start != 0) {
        segment_name(name, log->older_start);
        (void)unlinkat(log->directory_fd, name, 0);
    }
    log->older_start = log->start;
}

void keep_log_append(struct keep_log *log, const uint8_t *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        if (log->fd < 0 && !segment_open(log)) {
            break;
        }
        uint64_t room = log->limit_bytes - (log->offset - log->start);
        size_t part = count - done < room ? count - done : (size_t)room;
        ssize_t n = write(log->fd, bytes + done, part);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            segment_end(log);
            break;
        }
        done += (size_t)n;
        log->offset += (uint64_t)n;
        if (log->offset - log->start == log->limit_bytes) {
            segment_end(log);
        }
    }
    log->offset += count - done; /* the next segment begins behind the lost bytes */
}

void keep_log_close(struct keep_log *log)
{
    if (log->fd >= 0) {
        (void)close(log->fd);
    }
    log->fd = -1;
}

struct segment {
    uint64_t start;
    uint64_t bytes;
};

static int segment_compare(const void *a, const void *b)
{
    const struct segment *left = a;
    const struct segment *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

static bool segment_parse(const char *name, uint64_t *start)
{
    if (strcmp(name, "log") == 0) {
        *start = 0;
        return true;
    }
    if (strncmp(name, "log.", 4) != 0 || name[4] < '1' || name[4] > '9') {
        return false;
    }
    char *end;
    errno = 0;
    *start = strtoull(name + 4, &end, 10);
    return errno == 0 && *end == '\0';
}

/* Lists the segments that contain bytes, in order. */
static int segments_list(const char *run_directory, struct segment segments[SEGMENTS_MAX], size_t *count)
{
    DIR *directory = opendir(run_directory);
    if (directory == NULL) {
        return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    }
    *count = 0;
    struct dirent *entry;
    while (*count < SEGMENTS_MAX && (entry = readdir(directory)) != NULL) {
        uint64_t start;
        struct stat info;
        if (segment_parse(entry->d_name, &start) && fstatat(dirfd(directory), entry->d_name, &info, 0) == 0 &&
            info.st_size > 0) {
            segments[(*count)++] = (struct segment){start, (uint64_t)info.st_size};
        }
    }
    (void)closedir(directory);
    qsort(segments, *count, sizeof *segments, segment_compare);
    return 0;
}

/* Reads within one segment. ERR_STALE: the segment has been removed meanwhile. */
static int segment_read(const char *run_directory, const struct segment *segment, uint64_t offset, uint8_t *buffer,
                        size_t capacity_bytes, size_t *got)
{
    char name[SEGMENT_NAME_BYTES];
    char path[4096 + SEGMENT_NAME_BYTES];
    segment_name(name, segment->start);
    int length = snprintf(path, sizeof path, "%s/%s", run_directory, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        return ERR_IO;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? ERR_STALE : ERR_IO;
    }
    /* At most to the end that the listing saw: the next segment was listed after this one. */
    uint64_t left = segment->start + segment->bytes - offset;
    size_t wanted = capacity_bytes < left ? capacity_bytes : (size_t)left;
    ssize_t n = pread(fd, buffer, wanted, (off_t)(offset - segment->start));
    (void)close(fd);
    if (n < 0) {
        return ERR_IO;
    }
    *got = (size_t)n;
    return 0;
}

int keep_log_read(const char *run_directory, uint64_t offset, uint8_t *buffer, size_t capacity_bytes, size_t *got,
                  uint64_t *dropped)
{
    for (int tries = 0; tries < 8; tries++) {
        struct segment segments[SEGMENTS_MAX];
        size_t count;
        int error = segments_list(run_directory, segments, &count);
        if (error != 0) {
            return error;
        }
        size_t i = 0;
        while (i < count && segments[i].start + segments[i].bytes <= offset) {
            i++;
        }
        if (i == count) {
            *got = 0;
            *dropped = 0;
            return 0;
        }
        uint64_t from = segments[i].start > offset ? segments[i].start : offset;
        error = segment_read(run_directory, &segments[i], from, buffer, capacity_bytes, got);
        if (error == 0) {
            *dropped = from - offset;
        }
        if (error != ERR_STALE) {
            return error;
        }
    }
    return ERR_IO; /* output is written faster than it can be read */
}

int keep_log_end(const char *run_directory, uint64_t *end)
{
    struct segment segments[SEGMENTS_MAX];
    size_t count;
    int error = segments_list(run_directory, segments, &count);
    if (error == 0) {
        *end = count == 0 ? 0 : segments[count - 1].start + segments[count - 1].bytes;
    }
    return error;
}

/* Counts the bytes that are missing before the segment that begins at `start`. */
static int gap_bytes(const char *run_directory, uint64_t start, uint64_t *gap)
{
    struct segment segments[SEGMENTS_MAX];
    size_t count;
    int error = segments_list(run_directory, segments, &count);
    if (error != 0) {
        return error;
    }
    uint64_t before = 0;
    for (size_t i = 0; i < count && segments[i].start < start; i++) {
        before = segments[i].start + segments[i].bytes;
    }
    *gap = start - (before < start ? before : start);
    return 0;
}

/* Where the last `lines` lines of the text begin. */
static size_t tail_start(const char *text, size_t bytes, unsigned lines)
{
    size_t at = bytes;
    if (at > 0 && text[at - 1] == '\n') {
        at--;
    }
    unsigned found = 0;
    while (at > 0) {
        if (text[at - 1] == '\n' && ++found == lines) {
            return at;
        }
        at--;
    }
    return 0;
}

int keep_log_tail(const char *run_directory, unsigned lines, char *buffer, size_t capacity_bytes, size_t *bytes)
{
    CHECK(capacity_bytes >= 256);
    uint64_t end;
    int error = keep_log_end(run_directory, &end);
    if (error != 0) {
        return error;
    }
    size_t room = capacity_bytes - TAIL_MARK_BYTES; /* for one mark and the NUL */
    uint64_t at = end > room ? end - room : 0;
    size_t used = 0;
    while (at < end && used < room) {
        size_t got;
        uint64_t dropped;
        size_t want = end - at < room - used ? (size_t)(end - at) : room - used;
        error = keep_log_read(run_directory, at, (uint8_t *)buffer + used, want, &got, &dropped);
        if (error != 0) {
            return error;
        }
        if (got == 0) {
            break;
        }
        if (dropped > 0) {
            uint64_t gap;
            error = gap_bytes(run_directory, at + dropped, &gap);
            if (error != 0) {
                return error;
            }
            char mark[TAIL_MARK_BYTES];
            int mark_bytes = snprintf(mark, sizeof mark, "%s[shoal: %" PRIu64 " bytes of output were dropped here]\n",
                                      used > 0 && buffer[used - 1] != '\n' ? "\n" : "", gap);
            size_t fits = capacity_bytes - 1 - used - (size_t)mark_bytes;
            got = got < fits ? got : fits;
            memmove(buffer + used + mark_bytes, buffer + used, got);
            memcpy(buffer + used, mark, (size_t)mark_bytes);
            used += (size_t)mark_bytes;
        }
        used += got;
        at += dropped + got;
    }
    size_t start = lines == 0 ? used : tail_start(buffer, used, lines);
    memmove(buffer, buffer + start, used - start);
    *bytes = used - start;
    buffer[*bytes] = '\0';
    return 0;
}
