#include "node/daemon/outputs/units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define CHECKPOINT "checkpoint"
#define RESTORE "restore"

/* ---- digests ------------------------------------------------------------------------------------------------------- */

/* What a walk through a unit finds. */
struct walk {
    uint64_t digest;
    uint32_t entries;
    bool looks_for_open; /* whether a program has a file open for writing */
    bool has_open;
};

static void mix(struct walk *walk, uint64_t value)
{
    walk->digest = (walk->digest ^ value) * 0x9e3779b97f4a7c15u;
    walk->digest ^= walk->digest >> 29;
}

static void mix_text(struct walk *walk, const char *text)
{
    for (; *text != '\0'; text++) {
        mix(walk, (uint8_t)*text);
    }
    mix(walk, 0x100);
}

/* Asks the kernel for a lease to read: given only while no program has the file open for writing. If a program opens the file just
 * then, this process gets a signal with no effect by default. Where there are no leases, no file counts as open. */
static bool is_open_for_writing(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool is_open = false;
    if (fd >= 0) {
        (void)fcntl(fd, F_SETSIG, SIGURG);
        is_open = fcntl(fd, F_SETLEASE, F_RDLCK) != 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        (void)fcntl(fd, F_SETLEASE, F_UNLCK);
        (void)close(fd);
    }
    return is_open;
}

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void walk_one(struct walk *walk, int parent, const char *name, const struct stat *status, uint32_t depth)
{
    walk->entries++;
    mix_text(walk, name);
    mix(walk, (uint64_t)status->st_ino);
    mix(walk, (uint64_t)status->st_mode);
    mix(walk, (uint64_t)ns_of(status->st_mtim));
    mix(walk, (uint64_t)ns_of(status->st_ctim));
    mix(walk, S_ISDIR(status->st_mode) ? 0 : (uint64_t)status->st_size);
    if (walk->looks_for_open && !walk->has_open && S_ISREG(status->st_mode)) {
        walk->has_open = is_open_for_writing(parent, name);
    }
    if (!S_ISDIR(status->st_mode) || depth > SNAPSHOT_DEPTH_MAX || walk->entries > UNITS_MAX) {
        return;
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (directory == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    /* In the order of the directory: the same as long as nothing in the directory changes. */
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        struct stat below;
        bool is_self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!is_self && fstatat(dirfd(directory), entry->d_name, &below, AT_SYMLINK_NOFOLLOW) == 0) {
            walk_one(walk, dirfd(directory), entry->d_name, &below, depth + 1);
        }
    }
    (void)closedir(directory);
}

/* Opens the directory of `path`, below `run`; no link on the way is followed. -1: there is no such directory. */
static int open_parent(int run, const char *path, const char **name)
{
    int fd = dup(run);
    const char *at = path;
    for (const char *slash = strchr(at, '/'); slash != NULL && fd >= 0; slash = strchr(at, '/')) {
        char part[SNAPSHOT_PATH_BYTES];
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - at), at);
        int below = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(fd);
        fd = below;
        at = slash + 1;
    }
    *name = at;
    return fd;
}

/* False: the unit is not there. */
static bool look(int run, const char *disk_path, bool looks_for_open, struct walk *walk, struct stat *status)
{
    const char *name;
    int parent = open_parent(run, disk_path, &name);
    bool is_there = parent >= 0 && fstatat(parent, name, status, AT_SYMLINK_NOFOLLOW) == 0;
    *walk = (struct walk){.looks_for_open = looks_for_open};
    if (is_there) {
        walk_one(walk, parent, name, status, 0);
    }
    if (parent >= 0) {
        (void)close(parent);
    }
    return is_there;
}

bool units_is_same(const struct unit *unit, int run)
{
    struct walk walk;
    struct stat status;
    return look(run, unit->disk_path, false, &walk, &status) && walk.digest == unit->digest;
}

/* True if no program has a file of the unit open for writing. */
static bool is_closed(struct unit *unit, int run)
{
    struct walk walk;
    struct stat status;
    bool is_same = look(run, unit->disk_path, true, &walk, &status) && walk.digest == unit->digest;
    unit->was_open = is_same && walk.has_open;
    return is_same && !walk.has_open;
}

bool units_rests(struct unit *unit, int run, const struct units_moment *moment)
{
    if (!unit->is_there) {
        return false;
    }
    if (unit->is_moved || (unit->is_stored && unit->stored == unit->digest)) {
        return true;
    }
    uint64_t rest_ms = moment->now_ms > unit->changed_ms ? moment->now_ms - unit->changed_ms : 0;
    int64_t closed_ms = moment->is_end ? UNITS_CLOSED_AT_END_MS : UNITS_CLOSED_MS;
    bool may_be_closed = unit->is_file && moment->wall_ns - unit->changed_ns >= closed_ms * 1000000;
    if (moment->is_end) {
        return rest_ms >= UNITS_REST_OPEN_MS || (!unit->was_open && (rest_ms >= UNITS_REST_MS || may_be_closed));
    }
    return rest_ms >= UNITS_REST_OPEN_MS || ((rest_ms >= UNITS_REST_MS || may_be_closed) && is_closed(unit, run));
}

void units_changed(struct units *units, struct unit *unit, uint64_t now_ms)
{
    unit->changed_ms = now_ms;
    units->asked = NULL;
}

static size_t parent_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

static bool is_beside(const char *path, const char *other)
{
    size_t bytes = parent_bytes(path);
    return parent_bytes(other) == bytes && memcmp(other, path, bytes) == 0;
}

/* True if of the units beside `path` that are there one rests, or if there are none. */
static bool has_successor(struct units *units, const char *path, int run, const struct units_moment *moment)
{
    bool is_empty = true;
    for (struct unit *other = units->first; other != NULL; other = other->next) {
        if (other->is_there && is_beside(path, other->path)) {
            is_empty = false;
            if (units_rests(other, run, moment)) {
                return true;
            }
        }
    }
    return is_empty;
}

bool units_is_gone(struct units *units, const struct unit *unit, int run, const struct units_moment *moment)
{
    if (unit->is_there || moment->now_ms < unit->changed_ms + UNITS_REST_MS) {
        return false;
    }
    if (units->asked == NULL || units->asked_ms != moment->now_ms || !is_beside(unit->path, units->asked)) {
        units->asked_is_gone = has_successor(units, unit->path, run, moment);
        units->asked_ms = moment->now_ms;
        units->asked = unit->path;
    }
    return units->asked_is_gone;
}

/* ---- scans --------------------------------------------------------------------------------------------------------- */

static void unit_free(struct unit *unit)
{
    free(unit->path);
    free(unit->disk_path);
    free(unit);
}

/* The row of the path, made if there was none; NULL: no memory. Calls in the order of paths walk through the list once. */
static struct unit *row(struct units *units, const char *path, const char *disk_path)
{
    struct unit *before = units->before;
    struct unit **link = before != NULL && strcmp(before->path, path) < 0 ? &before->next : &units->first;
    while (*link != NULL && strcmp((*link)->path, path) < 0) {
        link = &(*link)->next;
    }
    struct unit *unit = *link;
    if (unit == NULL || strcmp(unit->path, path) != 0) {
        unit = calloc(1, sizeof *unit);
        char *copy = strdup(path), *disk_copy = strdup(disk_path);
        if (unit == NULL || copy == NULL || disk_copy == NULL) {
            free(unit);
            free(copy);
            free(disk_copy);
            return NULL;
        }
        unit->path = copy;
        unit->disk_path = disk_copy;
        unit->next = *link;
        *link = unit;
        units->count++;
    } else if (strcmp(unit->disk_path, disk_path) != 0) {
        char *copy = strdup(disk_path);
        if (copy == NULL) {
            return NULL;
        }
        free(unit->disk_path);
        unit->disk_path = copy;
    }
    units->before = unit;
    return unit;
}

static int scan_unit(struct units *units, int run, const char *path, const char *disk_path, uint64_t now_ms, uint32_t *entries)
{
    struct walk walk;
    struct stat status;
    if (!look(run, disk_path, false, &walk, &status)) {
        return 0;
    }
    struct unit *unit = row(units, path, disk_path);
    *entries += walk.entries;
    if (unit == NULL) {
        return ERR_MEMORY;
    }
    if (!unit->is_there || unit->digest != walk.digest) {
        unit->changed_ms = now_ms;
        unit->is_moved = unit->is_moved && !unit->is_there; /* a unit with changes after the rename must come to rest */
        unit->was_open = false;
    }
    unit->is_there = true;
    unit->digest = walk.digest;
    unit->is_file = S_ISREG(status.st_mode);
    unit->ctime_ns = ns_of(status.st_ctim);
    unit->changed_ns = ns_of(status.st_mtim) > unit->ctime_ns ? ns_of(status.st_mtim) : unit->ctime_ns;
    unit->pass = units->pass;
    return *entries > UNITS_MAX ? ERR_FULL : 0;
}

static int is_child(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The children of the directory in the order of their names, or the file or link itself. */
static int scan_root(struct units *units, int run, const char *path, const char *disk_path, uint64_t now_ms, uint32_t *entries)
{
    const char *name;
    int parent = open_parent(run, disk_path, &name);
    int fd = parent >= 0 ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    struct dirent **children = NULL;
    int count = fd >= 0 ? scandirat(fd, ".", &children, is_child, by_name) : -1;
    int rc = fd >= 0 && count < 0 && errno == ENOMEM ? ERR_MEMORY : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (parent >= 0) {
        (void)close(parent);
    }
    if (count < 0) {
        return rc != 0 ? rc : scan_unit(units, run, path, disk_path, now_ms, entries);
    }
    for (int i = 0; i < count; i++) {
        char below[SNAPSHOT_PATH_BYTES], disk_below[SNAPSHOT_PATH_BYTES];
        int length = snprintf(below, sizeof below, "%s/%s", path, children[i]->d_name);
        int disk_length = snprintf(disk_below, sizeof disk_below, "%s/%s", disk_path, children[i]->d_name);
        if (rc == 0 && length < (int)sizeof below && disk_length < (int)sizeof disk_below) {
            rc = scan_unit(units, run, below, disk_below, now_ms, entries);
        }
        free(children[i]);
    }
    free(children);
    return rc;
}

/* Notes the renames into $SHOAL_CHECKPOINT_DIR since the last scan. */
static void take_moves(struct units *units)
{
    _Alignas(struct inotify_event) char bytes[4096];
    ssize_t got;
    while (units->moves_fd >= 0 && (got = read(units->moves_fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)(bytes + at);
            char path[SNAPSHOT_PATH_BYTES];
            if (event->len > 0 && (event->mask & IN_MOVED_TO) != 0 && event->wd == units->moves_wd) {
                (void)snprintf(path, sizeof path, CHECKPOINT "/%s", event->name);
                struct unit *unit = row(units, path, path);
                if (unit != NULL) {
                    unit->is_moved = true;
                    unit->is_there = false; /* the scan finds a new unit */
                }
            }
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

/* Of the resting checkpoints only the newest is a unit, since it replaces all before. Without any, the restored checkpoint is. */
static int scan_checkpoints(struct units *units, int run, const struct units_moment *moment, uint32_t *entries)
{
    uint64_t now_ms = moment->now_ms;
    take_moves(units);
    int rc = scan_root(units, run, CHECKPOINT, CHECKPOINT, now_ms, entries);
    struct unit *newest = NULL;
    for (struct unit *unit = units->first; unit != NULL; unit = unit->next) {
        bool is_one = snapshot_is_below(unit->path, CHECKPOINT) && unit->pass == units->pass &&
                      strcmp(unit->path, CHECKPOINT) != 0;
        if (is_one && (newest == NULL || unit->ctime_ns > newest->ctime_ns) && units_rests(unit, run, moment)) {
            newest = unit;
        }
    }
    if (newest == NULL) {
        return rc == 0 ? scan_root(units, run, CHECKPOINT, RESTORE, now_ms, entries) : rc;
    }
    for (struct unit *unit = units->first; unit != NULL; unit = unit->next) {
        if (unit != newest && snapshot_is_below(unit->path, CHECKPOINT) && unit->ctime_ns <= newest->ctime_ns) {
            unit->is_stored = false; /* replaced */
            unit->changed_ms = unit->is_there ? now_ms : unit->changed_ms;
            unit->pass = units->pass - 1;
            unit->is_there = false;
        }
    }
    return rc;
}

static void forget_gone(struct units *units, uint64_t now_ms)
{
    units->before = NULL;
    for (struct unit **link = &units->first; *link != NULL;) {
        struct unit *unit = *link;
        if (unit->pass != units->pass && unit->is_there) {
            unit->is_there = false;
            unit->changed_ms = now_ms;
        }
        if (!unit->is_there && !unit->is_stored && unit->pass != units->pass) {
            *link = unit->next;
            units->count--;
            unit_free(unit);
        } else {
            link = &unit->next;
        }
    }
}

int units_scan(struct units *units, int run, const char *const *keep, uint32_t keep_count, const struct units_moment *moment)
{
    uint64_t now_ms = moment->now_ms;
    uint32_t entries = 0;
    units->pass++;
    units->asked = NULL;
    int rc = scan_root(units, run, "output", "output", now_ms, &entries);
    for (uint32_t i = 0; i < keep_count && rc == 0; i++) {
        char path[SNAPSHOT_PATH_BYTES];
        (void)snprintf(path, sizeof path, "work/%s", keep[i]);
        rc = scan_root(units, run, path, path, now_ms, &entries);
    }
    if (rc == 0) {
        rc = scan_checkpoints(units, run, moment, &entries);
    }
    if (rc == 0) {
        forget_gone(units, now_ms);
    }
    return rc;
}

void units_awake(struct units *units, uint64_t gap_ms, uint64_t now_ms)
{
    for (struct unit *unit = units->first; unit != NULL && gap_ms > 0; unit = unit->next) {
        unit->changed_ms = unit->changed_ms + gap_ms < now_ms ? unit->changed_ms + gap_ms : now_ms;
    }
}

void units_open(struct units *units, const char *run_directory, int spare_fd)
{
    char path[PATH_MAX];
    *units = (struct units){.moves_fd = spare_fd >= 0 ? spare_fd : inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .moves_wd = -1};
    int length = snprintf(path, sizeof path, "%s/" CHECKPOINT, run_directory);
    if (units->moves_fd >= 0 && length < (int)sizeof path) { /* without a watch checkpoints must come to rest, too */
        units->moves_wd = inotify_add_watch(units->moves_fd, path, IN_MOVED_TO | IN_ONLYDIR);
    }
}

int units_close(struct units *units)
{
    int spare_fd = units->moves_fd;
    while (units->first != NULL) {
        struct unit *unit = units->first;
        units->first = unit->next;
        unit_free(unit);
    }
    if (units->moves_wd >= 0) {
        (void)inotify_rm_watch(spare_fd, units->moves_wd);
    }
    *units = (struct units){.moves_fd = -1, .moves_wd = -1};
    return spare_fd;
}
