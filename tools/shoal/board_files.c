#include "tools/shoal/board_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES (1u << 16)

/* Where the files are in a snapshot; of a program that was killed, what it wrote last is in the second place. */
static const char *const places[] = {"output/tensorboard/", "unfinished/output/tensorboard/"};

/* The part of the path below a place; NULL: it is below none. */
static const char *below_place(const char *path, size_t place)
{
    size_t bytes = strlen(places[place]);
    return strncmp(path, places[place], bytes) == 0 && path[bytes] != '\0' ? path + bytes : NULL;
}

static int fail_file(struct cli *cli, const char *path, const char *what)
{
    return cli_fail(cli, CLI_REFUSED, "the file %.300s cannot be %s: %s", path, what, strerror(errno));
}

/* Makes the directories above a path, from byte `from` of it on. */
static int make_parents(struct cli *cli, char *path, size_t from)
{
    for (char *at = strchr(path + from, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        bool failed = mkdir(path, 0755) != 0 && errno != EEXIST;
        int code = failed ? fail_file(cli, path, "made") : CLI_DONE;
        *at = '/';
        if (failed) {
            return code;
        }
    }
    return CLI_DONE;
}

/* Whether the first `count` bytes of the file are those of the entry. */
static bool is_beginning(int file, uint64_t count, int fd, const struct snapshot_entry *entry)
{
    char ours[PIECE_BYTES], theirs[PIECE_BYTES];
    for (uint64_t at = 0; at < count;) {
        size_t want = count - at < PIECE_BYTES ? (size_t)(count - at) : PIECE_BYTES;
        ssize_t got = pread(file, ours, want, (off_t)at);
        if (got <= 0 || pread(fd, theirs, (size_t)got, (off_t)(entry->offset + at)) != got ||
            memcmp(ours, theirs, (size_t)got) != 0) {
            return false;
        }
        at += (uint64_t)got;
    }
    return true;
}

/* Appends the bytes of the entry from `from` on. */
static int append(struct cli *cli, int file, const char *path, uint64_t from, int fd, const struct snapshot_entry *entry)
{
    char piece[PIECE_BYTES];
    for (uint64_t at = from; at < entry->bytes;) {
        size_t want = entry->bytes - at < PIECE_BYTES ? (size_t)(entry->bytes - at) : PIECE_BYTES;
        ssize_t got = pread(fd, piece, want, (off_t)(entry->offset + at));
        if (got <= 0) {
            return fail_file(cli, path, "read in the snapshot");
        }
        if (write(file, piece, (size_t)got) != got) {
            return fail_file(cli, path, "written");
        }
        at += (uint64_t)got;
    }
    return CLI_DONE;
}

/* Copies one file. A file that is there and is not the beginning of the new one is replaced, unless it is an event file. */
static int copy(struct cli *cli, int fd, const struct snapshot_entry *entry, const char *path, uint64_t *files)
{
    bool is_events = strstr(path, "tfevents") != NULL;
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) {
        return fail_file(cli, path, "opened");
    }
    uint64_t have = (uint64_t)status.st_size;
    bool is_grown = is_beginning(file, have < entry->bytes ? have : entry->bytes, fd, entry);
    int code = CLI_DONE;
    if (!is_grown && !is_events && ftruncate(file, 0) != 0) {
        code = fail_file(cli, path, "replaced");
    } else if (is_grown || !is_events) {
        uint64_t from = is_grown ? have : 0;
        *files += from < entry->bytes || !is_grown;
        code = append(cli, file, path, from, fd, entry);
    }
    (void)close(file);
    return code;
}

static bool is_listed(const struct snapshot *snapshots, uint32_t count, const char *path)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t e = 0; e < snapshots[i].count; e++) {
            if (strcmp(snapshots[i].entries[e].path, path) == 0) {
                return true;
            }
        }
    }
    return false;
}

int board_files_copy(struct cli *cli, int fd, const struct snapshot *snapshot, const struct snapshot *lower,
                     uint32_t lower_count, const char *path, uint64_t *files)
{
    char target[PATH_MAX];
    for (size_t place = 0; place < sizeof places / sizeof places[0]; place++) {
        for (uint32_t i = 0; i < snapshot->count; i++) {
            const struct snapshot_entry *entry = &snapshot->entries[i];
            const char *below = entry->kind == SNAPSHOT_FILE ? below_place(entry->path, place) : NULL;
            if (below == NULL || is_listed(lower, lower_count, entry->path) ||
                snprintf(target, sizeof target, "%s/%s", path, below) >= (int)sizeof target) {
                continue;
            }
            int code = make_parents(cli, target, strlen(path));
            code = code == CLI_DONE ? copy(cli, fd, entry, target, files) : code;
            if (code != CLI_DONE) {
                return code;
            }
        }
    }
    return CLI_DONE;
}
