/* A request that reads goes from one source to the next:
 *
 *     the directories of workers here (a job) --> for each other worker's snapshot: fetch its listing, read it (a job)
 *         --> files_get: fetch the file's chunks, read them (a job) --> the answer
 */

#include "node/daemon/api/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/trial.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"
#include "store/snapshot.h"

#define ROOT "output" /* of the files, in a worker's directory and in snapshots */
#define LISTING_BYTES SNAPSHOT_LISTING_BYTES_MAX
#define REPLY_FILES 1000 /* in one answer: each has less than 1 KiB */
#define FILE_ID_BYTES 8
#define FILE_NAME_PREFIX "incoming-"
#define FILE_NAME_BYTES (sizeof FILE_NAME_PREFIX + 2 * FILE_ID_BYTES)
#define TRIES 3

/* ---- paths ----------------------------------------------------------------------------------------------------- */

/* Whether the path stays in its directory: names without ".", ".." and control characters. "" is the directory itself.
 */
static bool path_is_good(const char *path)
{
    for (const char *at = path; *at != '\0';) {
        size_t bytes = strcspn(at, "/");
        bool is_dots = at[0] == '.' && (bytes == 1 || (bytes == 2 && at[1] == '.'));
        for (size_t i = 0; i < bytes; i++) {
            is_dots |= (unsigned char)at[i] < 0x20 || at[i] == 0x7f;
        }
        if (bytes == 0 || is_dots || (at[bytes] == '/' && at[bytes + 1] == '\0')) {
            return false;
        }
        at += bytes + (at[bytes] == '/');
    }
    return true;
}

/* Reads `path`. False, after an error reply. */
static bool read_path(struct daemon *daemon, const struct client_request *request, bool may_be_empty,
                      char out[SNAPSHOT_PATH_BYTES])
{
    size_t room = SNAPSHOT_PATH_BYTES - sizeof ROOT "/";
    struct pack_reader value = pack_find(&request->map, "path");
    bool is_given = !value.failed;
    out[0] = '\0';
    if ((is_given && !request_text(&request->map, "path", out, room)) || !path_is_good(out) ||
        (out[0] == '\0' && !may_be_empty)) {
        client_reply_error(
            daemon, request->client, request->id, EXIT_USAGE,
            "The request lacks a `path` below $SHOAL_OUTPUT_DIR: names with slashes between them, without '.', '..' "
            "and control characters, of at most %zu bytes.",
            room - 1);
        return false;
    }
    return true;
}

/* Opens what is at the path below an open directory, through no link. */
static int open_below(int directory, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, directory, path[0] != '\0' ? path : ".", &how, sizeof how);
}

/* Opens the directory of a worker's files. */
static int open_root(const char *directory)
{
    int run = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int root = run >= 0 ? open_below(run, ROOT, O_RDONLY | O_DIRECTORY) : -1;
    int error = errno;
    if (run >= 0) {
        (void)close(run);
    }
    errno = error;
    return root;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* A file of the listing. */
struct row {
    char *name;
    bool is_directory;
    uint64_t bytes;
};

/* A worker's snapshot. */
struct source {
    hash256 blob;
    uint64_t bytes;
    node_id holders[DAEMON_HOLDERS_MAX];
    uint32_t holder_count;
};

struct files_read {
    struct job job;
    struct files_read *next;
    struct chunks *chunks;
    uint64_t serial, id, request;
    bool is_list;
    char path[SNAPSHOT_PATH_BYTES];
    char home[KEEP_PATH_BYTES];    /* of the daemon, for a file without a name */
    char (*live)[KEEP_PATH_BYTES]; /* directories of workers here */
    uint32_t live_count;
    struct source *sources;
    uint32_t source_count, source_at;
    struct blob_range range; /* of the snapshot that is fetched now */
    bool is_file;            /* the range is the file's, which is found */
    uint8_t *manifest;
    size_t manifest_bytes;
    uint32_t tries;
    struct row *rows;
    uint32_t row_count, row_capacity;
    bool is_there; /* the path is there: a directory may be empty */
    int fd;        /* the file that was found; -1: none yet */
    uint64_t offset, bytes;
    int result;
    hash256 blamed;
    char error[256];
};

static void read_free(struct daemon *daemon, struct files_read *read)
{
    struct files_read **link = &daemon->api->files;
    while (*link != read) {
        link = &(*link)->next;
    }
    *link = read->next;
    for (uint32_t i = 0; i < read->row_count; i++) {
        free(read->rows[i].name);
    }
    if (read->fd >= 0) {
        (void)close(read->fd);
    }
    free(read->rows);
    free(read->live);
    free(read->sources);
    free(read->manifest);
    free(read);
}

static int add_row(struct files_read *read, const char *name, bool is_directory, uint64_t bytes)
{
    if (read->row_count == FILES_LISTED_MAX) {
        return ERR_FULL;
    }
    if (read->row_count == read->row_capacity) {
        uint32_t capacity = 2 * read->row_capacity + 64;
        struct row *grown = realloc(read->rows, capacity * sizeof *grown);
        if (grown == NULL) {
            return ERR_MEMORY;
        }
        read->rows = grown;
        read->row_capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL) {
        return ERR_MEMORY;
    }
    read->rows[read->row_count++] = (struct row){copy, is_directory, bytes};
    return 0;
}

/* Lists an open directory, which is closed. */
static int list_directory(struct files_read *read, int fd)
{
    DIR *directory = fdopendir(fd);
    const struct dirent *entry;
    struct stat status;
    int code = 0;
    if (directory == NULL) {
        (void)close(fd);
        return ERR_MEMORY;
    }
    while (code == 0 && (entry = readdir(directory)) != NULL) {
        bool is_dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!is_dots && fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))) {
            code = add_row(read, entry->d_name, S_ISDIR(status.st_mode), (uint64_t)status.st_size);
        }
    }
    (void)closedir(directory);
    return code;
}

/* Looks into the directories of the workers that run here. */
static void live_work(struct job *job)
{
    struct files_read *read = (struct files_read *)job;
    read->result = 0;
    for (uint32_t i = 0; i < read->live_count && read->fd < 0 && read->result == 0; i++) {
        struct stat status;
        int root = open_root(read->live[i]);
        int fd = root >= 0 ? open_below(root, read->path, O_RDONLY | O_NONBLOCK) : -1;
        bool is_known = fd >= 0 && fstat(fd, &status) == 0;
        if (is_known && S_ISDIR(status.st_mode) && read->is_list) {
            read->is_there = true;
            read->result = list_directory(read, fd);
            fd = -1;
        } else if (is_known && S_ISREG(status.st_mode) && !read->is_list) {
            read->fd = fd;
            read->bytes = (uint64_t)status.st_size;
            fd = -1;
        }
        if (fd >= 0) {
            (void)close(fd);
        }
        if (root >= 0) {
            (void)close(root);
        }
    }
}

/* Takes what the listing of a snapshot says of the path. */
static int look_at(struct files_read *read, const struct snapshot *snapshot)
{
    char path[SNAPSHOT_PATH_BYTES + sizeof ROOT];
    (void)snprintf(path, sizeof path, read->path[0] != '\0' ? ROOT "/%s" : ROOT "%s", read->path);
    size_t length = strlen(path);
    int code = 0;
    for (uint32_t i = 0; i < snapshot->count && code == 0; i++) {
        const struct snapshot_entry *entry = &snapshot->entries[i];
        const char *rest = strncmp(entry->path, path, length) == 0 ? entry->path + length : "?";
        if (!read->is_list && *rest == '\0' && entry->kind == SNAPSHOT_FILE) {
            read->is_file = true;
            read->range = (struct blob_range){entry->offset, entry->bytes};
            return 0;
        }
        bool is_child = *rest == '/' && strchr(rest + 1, '/') == NULL && entry->kind != SNAPSHOT_LINK;
        read->is_there |= *rest == '\0' && entry->kind == SNAPSHOT_DIRECTORY;
        if (read->is_list && is_child) {
            code = add_row(read, rest + 1, entry->kind == SNAPSHOT_DIRECTORY, entry->bytes);
        }
    }
    return code;
}

/* Reads the fetched range of a snapshot into a file: its listing, or the file. */
static void range_work(struct job *job)
{
    struct files_read *read = (struct files_read *)job;
    struct snapshot snapshot = {0};
    if (read->fd >= 0) {
        (void)close(read->fd);
    }
    read->fd = daemon_outputs_file(read->home);
    read->result = read->fd < 0
                       ? ERR_IO
                       : chunks_read_ranges_to_fd(read->chunks, read->manifest, read->manifest_bytes, &read->range, 1,
                                                  read->fd, &read->blamed, read->error, sizeof read->error);
    if (read->result == ERR_CORRUPT) {
        (void)chunks_delete(read->chunks, read->blamed);
    }
    if (read->is_file || read->result != 0) {
        read->offset = read->range.from;
        read->bytes = read->range.count;
        return;
    }
    read->result = snapshot_read(read->fd, read->sources[read->source_at].bytes, &snapshot);
    if (read->result == 0) {
        read->result = look_at(read, &snapshot);
        snapshot_free(&snapshot);
    }
    (void)close(read->fd);
    read->fd = -1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

/* Answers with the rows, each name once. */
static void reply_rows(struct daemon *daemon, struct client *client, struct files_read *read)
{
    uint32_t count = 0;
    if (read->row_count > 0) {
        qsort(read->rows, read->row_count, sizeof *read->rows, by_name);
    }
    for (uint32_t i = 0; i < read->row_count; i++) {
        if (count > 0 && strcmp(read->rows[i].name, read->rows[count - 1].name) == 0) {
            free(read->rows[i].name);
        } else {
            read->rows[count++] = read->rows[i];
        }
    }
    read->row_count = count;
    for (uint32_t at = 0, end; at < count || at == 0; at = end) {
        struct client_reply reply;
        end = count - at < REPLY_FILES ? count : at + REPLY_FILES;
        if (!client_reply_begin(&reply, read->id, end == count, 1)) {
            return;
        }
        pack_text(&reply.writer, "files");
        pack_array(&reply.writer, end - at);
        for (uint32_t i = at; i < end; i++) {
            pack_map(&reply.writer, 3);
            pack_text(&reply.writer, "name");
            pack_text(&reply.writer, read->rows[i].name);
            pack_text(&reply.writer, "is_directory");
            pack_bool(&reply.writer, read->rows[i].is_directory);
            pack_text(&reply.writer, "bytes");
            pack_u64(&reply.writer, read->rows[i].bytes);
        }
        client_reply_send(daemon, client, &reply, -1);
        if (end == count) {
            return;
        }
    }
}

static void finish(struct daemon *daemon, struct files_read *read)
{
    struct client *client = client_find(daemon, read->serial);
    struct client_reply reply;
    if (client != NULL && read->is_list && (read->is_there || read->row_count > 0 || read->path[0] == '\0')) {
        reply_rows(daemon, client, read);
    } else if (client != NULL && !read->is_list && read->fd >= 0 && client_reply_begin(&reply, read->id, true, 2)) {
        pack_text(&reply.writer, "offset");
        pack_u64(&reply.writer, read->offset);
        pack_text(&reply.writer, "bytes");
        pack_u64(&reply.writer, read->bytes);
        client_reply_send(daemon, client, &reply, read->fd);
        read->fd = -1;
    } else if (client != NULL) {
        client_reply_error(daemon, client, read->id, EXIT_NOT_FOUND,
                           "The trial has %s '%s' below $SHOAL_OUTPUT_DIR (yet).",
                           read->is_list ? "no directory" : "no file", read->path);
    }
    read_free(daemon, read);
}

static void fail(struct daemon *daemon, struct files_read *read, const char *why)
{
    struct client *client = client_find(daemon, read->serial);
    if (client != NULL) {
        client_reply_error(daemon, client, read->id, EXIT_REFUSED, "The trial's files cannot be read: %s", why);
    }
    read_free(daemon, read);
}

/* Fetches the range of the present source, or ends the request after the last source. */
static void fetch(struct daemon *daemon, struct files_read *read)
{
    bool is_over = read->source_at >= read->source_count || client_find(daemon, read->serial) == NULL;
    if (is_over) {
        finish(daemon, read);
        return;
    }
    const struct source *source = &read->sources[read->source_at];
    read->tries++;
    read->request = ++daemon->request_id;
    int code = bulk_fetch_ranges(daemon->bulk, read->request, source->blob, source->holders, source->holder_count,
                                 &read->range, 1);
    if (code != 0) {
        fail(daemon, read, err_text(code));
    }
}

/* Begins with the listing of the present source. */
static void fetch_listing(struct daemon *daemon, struct files_read *read)
{
    uint64_t bytes = read->source_at < read->source_count ? read->sources[read->source_at].bytes : 0;
    read->range = (struct blob_range){0, bytes < LISTING_BYTES ? bytes : LISTING_BYTES};
    read->tries = 0;
    fetch(daemon, read);
}

static void live_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct files_read *read = (struct files_read *)job;
    if (read->result != 0) {
        fail(daemon, read, err_text(read->result));
    } else if (read->fd >= 0) {
        finish(daemon, read);
    } else {
        fetch_listing(daemon, read);
    }
}

static void range_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct files_read *read = (struct files_read *)job;
    bool can_repair = (read->result == ERR_CORRUPT || read->result == ERR_NOT_FOUND) && read->tries < TRIES;
    if (can_repair) {
        fetch(daemon, read);
    } else if (read->result != 0) {
        fail(daemon, read, read->error[0] != '\0' ? read->error : err_text(read->result));
    } else if (read->fd >= 0) {
        finish(daemon, read);
    } else if (read->is_file) { /* the listing has it */
        read->tries = 0;
        fetch(daemon, read);
    } else {
        read->source_at++;
        fetch_listing(daemon, read);
    }
}

void files_fetched(struct daemon *daemon, const struct bulk_event *event)
{
    struct files_read *read = daemon->api->files;
    while (read != NULL && read->request != event->id) {
        read = read->next;
    }
    if (read == NULL) {
        return;
    }
    read->request = 0;
    free(read->manifest);
    read->manifest_bytes = event->code == 0 ? event->items[0].count : 0;
    read->manifest = malloc(read->manifest_bytes + 1);
    if (event->code != 0 || read->manifest == NULL) {
        fail(daemon, read, event->code != 0 ? event->text : err_text(ERR_MEMORY));
        return;
    }
    memcpy(read->manifest, event->items[0].bytes, read->manifest_bytes);
    read->job = (struct job){.work = range_work, .done = range_done};
    jobs_run(daemon->blob_jobs, &read->job);
}

/* Finds the workers of the trial that run here, and the snapshots of the others. False: no memory is left. */
static bool find_sources(struct daemon *daemon, struct files_read *read, const struct view_experiment *experiment,
                         const struct view_trial *trial, uint32_t index)
{
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    bool is_kept = trial != NULL && node_core_keeps_outputs(experiment, trial);
    uint32_t count = is_kept ? node_core_outputs(daemon->core, experiment, trial, outputs) : 0;
    read->live = calloc(daemon->slot_count + 1, sizeof *read->live);
    read->sources = calloc(count + 1, sizeof *read->sources);
    if (read->live == NULL || read->sources == NULL) {
        return false;
    }
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        const struct daemon_worker *worker = &daemon->workers->slots[slot];
        const attempt_id *attempt = &worker->prepare.u.worker.attempt;
        bool is_its = worker->state == WORKER_RUNNING && attempt->trial == index &&
                      memcmp(attempt->experiment.bytes, experiment->id.bytes, EXPERIMENT_ID_BYTES) == 0;
        if (is_its) {
            memcpy(read->live[read->live_count++], worker->directory, sizeof *read->live);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct source *source = &read->sources[read->source_count];
        bool is_live = false;
        for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
            const struct daemon_worker *worker = &daemon->workers->slots[slot];
            is_live |= worker->state == WORKER_RUNNING && worker->prepare.u.worker.number == outputs[i]->number &&
                       attempt_id_equal(&worker->prepare.u.worker.attempt, &outputs[i]->attempt);
        }
        if (!is_live) {
            source->blob = outputs[i]->fact.blob;
            source->bytes = outputs[i]->fact.bytes;
            source->holder_count =
                daemon_holders_output(daemon, &outputs[i]->attempt, outputs[i]->fact.blob, source->holders);
            read->source_count++;
        }
    }
    return true;
}

static void begin(struct daemon *daemon, struct client_request *request, bool is_list)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint32_t index;
    char path[SNAPSHOT_PATH_BYTES];
    if (!query_argument_any_trial(daemon, request, &experiment, &index, &trial) ||
        !read_path(daemon, request, is_list, path)) {
        return;
    }
    struct files_read *read = calloc(1, sizeof *read);
    if (read == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The files cannot be read: no memory is left.");
        return;
    }
    read->chunks = daemon->chunks;
    read->serial = request->client->serial;
    read->id = request->id;
    read->is_list = is_list;
    read->fd = -1;
    memcpy(read->path, path, sizeof path);
    bytes_copy_text(read->home, sizeof read->home, daemon->dir);
    read->next = daemon->api->files;
    daemon->api->files = read;
    if (!find_sources(daemon, read, experiment, trial, index)) {
        fail(daemon, read, err_text(ERR_MEMORY));
        return;
    }
    daemon_bulk_peers(daemon);
    read->job = (struct job){.work = live_work, .done = live_done};
    jobs_run(daemon->file_jobs, &read->job);
}

void files_list(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    begin(daemon, request, true);
}

void files_get(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    begin(daemon, request, false);
}

void files_close(struct daemon *daemon)
{
    while (daemon->api->files != NULL) {
        read_free(daemon, daemon->api->files);
    }
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* A change of a worker's files. */
struct change {
    struct job job;
    uint64_t serial, id;
    enum { CHANGE_PUT, CHANGE_KEEP, CHANGE_DELETE } kind;
    char directory[KEEP_PATH_BYTES]; /* the worker's */
    char name[FILE_NAME_BYTES];      /* of the new file there */
    char path[SNAPSHOT_PATH_BYTES];
    int fd;
    int error; /* errno; 0: done */
};

static void put_work(struct change *change, int run)
{
    change->fd = openat(run, change->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    change->error = change->fd < 0 ? errno : 0;
}

/* Opens the directory of the path's last name, whose beginning is `*last`; makes the directories that are missing. */
static int open_parent(int run, char *path, const char **last)
{
    int at = open_below(run, ROOT, O_RDONLY | O_DIRECTORY);
    char *name = path;
    for (char *slash; at >= 0 && (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        *slash = '\0';
        (void)mkdirat(at, name, 0755);
        int next = open_below(at, name, O_RDONLY | O_DIRECTORY);
        int error = errno;
        (void)close(at);
        errno = error;
        at = next;
    }
    *last = name;
    return at;
}

static void keep_work(struct change *change, int run)
{
    const char *last;
    int parent = open_parent(run, change->path, &last);
    if (parent < 0 || renameat(run, change->name, parent, last) != 0) {
        change->error = errno;
        (void)unlinkat(run, change->name, 0);
    }
    if (parent >= 0) {
        (void)close(parent);
    }
}

static void delete_work(struct change *change, int run)
{
    char path[KEEP_PATH_BYTES + SNAPSHOT_PATH_BYTES + 16];
    struct stat status;
    int root = open_below(run, ROOT, O_RDONLY | O_DIRECTORY);
    int fd = root >= 0 ? open_below(root, change->path, O_PATH) : -1;
    change->error = fd < 0 || fstat(fd, &status) != 0 ? errno : 0;
    if (change->error == 0 && S_ISDIR(status.st_mode)) {
        (void)snprintf(path, sizeof path, "%s/" ROOT "/%s", change->directory, change->path);
        worker_directory_remove(path);
    } else if (change->error == 0 && unlinkat(root, change->path, 0) != 0) {
        change->error = errno;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (root >= 0) {
        (void)close(root);
    }
}

static void change_work(struct job *job)
{
    static void (*const works[])(struct change * change, int run) = {
        [CHANGE_PUT] = put_work, [CHANGE_KEEP] = keep_work, [CHANGE_DELETE] = delete_work};
    struct change *change = (struct change *)job;
    int run = open(change->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run < 0) {
        change->error = errno;
        return;
    }
    works[change->kind](change, run);
    (void)close(run);
}

static void change_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct change *change = (struct change *)job;
    struct client *client = client_find(daemon, change->serial);
    struct client_reply reply;
    bool is_usage = change->error == EISDIR || change->error == ENOTDIR || change->error == ELOOP ||
                    change->error == ENOTEMPTY || change->error == ENAMETOOLONG || change->error == EEXIST;
    if (client != NULL && change->error != 0) {
        client_reply_error(daemon, client, change->id,
                           change->error == ENOENT ? EXIT_NOT_FOUND
                           : is_usage              ? EXIT_USAGE
                                                   : EXIT_REFUSED,
                           "'%s' below $SHOAL_OUTPUT_DIR cannot be changed: %s", change->path, strerror(change->error));
    } else if (client != NULL && change->kind != CHANGE_PUT) {
        client_reply_empty(daemon, client, change->id);
    } else if (client != NULL && client_reply_begin(&reply, change->id, true, 2)) {
        pack_text(&reply.writer, "file");
        pack_text(&reply.writer, change->name + strlen(FILE_NAME_PREFIX));
        pack_text(&reply.writer, "bytes");
        pack_u64(&reply.writer, 0);
        client_reply_send(daemon, client, &reply, change->fd);
        change->fd = -1;
    }
    if (change->fd >= 0) {
        (void)close(change->fd);
    }
    free(change);
}

/* Begins a change; `id`: of the new file, or NULL. */
static void change_begin(struct daemon *daemon, struct client_request *request, int kind, const char *id)
{
    struct change *change = calloc(1, sizeof *change);
    if (change == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The file cannot be written: no memory is left.");
        return;
    }
    if (!api_trial_is_own(daemon, request) || !read_path(daemon, request, false, change->path)) {
        free(change);
        return;
    }
    change->job = (struct job){.work = change_work, .done = change_done};
    change->serial = request->client->serial;
    change->id = request->id;
    change->kind = kind;
    change->fd = -1;
    (void)snprintf(change->name, sizeof change->name, FILE_NAME_PREFIX "%s", id != NULL ? id : "");
    bytes_copy_text(change->directory, sizeof change->directory, request->worker->directory);
    jobs_run(daemon->file_jobs, &change->job);
}

void files_put(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint8_t bytes[FILE_ID_BYTES];
    char id[2 * FILE_ID_BYTES + 1];
    randombytes_buf(bytes, sizeof bytes);
    bytes_to_hex(id, bytes, sizeof bytes);
    change_begin(daemon, request, CHANGE_PUT, id);
}

void files_keep(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint8_t bytes[FILE_ID_BYTES];
    char id[2 * FILE_ID_BYTES + 1];
    if (!request_text(&request->map, "file", id, sizeof id) || bytes_from_hex(bytes, sizeof bytes, id) != 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks `file`, which trial_file_put has told.");
        return;
    }
    change_begin(daemon, request, CHANGE_KEEP, id);
}

void files_delete(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    change_begin(daemon, request, CHANGE_DELETE, NULL);
}
