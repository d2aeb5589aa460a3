/* Reads event files in a job and reports their points. How far each file was read is written to the file `events` in
 * the run directory, one round late, so that what it says was handed on is in the series by then. The points themselves
 * tell, too (POINTS_OF_FILE): the next daemon looks at the last ones, and so adds no point twice, unless more than
 * SEEN_POINTS came since that file was written. */

#include "node/daemon/workers/event_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/daemon/wire/event_points.h"

#define ROUND_MS 2000
#define RETRY_MS 200
#define FILES_MAX 64
#define DEPTH_MAX 8
#define PATH_BYTES 256 /* below the directory, with a NUL; a longer path is passed over */
#define POINTS_MAX 500
#define BUFFER_BYTES (320u << 10)
#define PASS_BYTES (8u << 20) /* read in one job, so that others have their turn */
#define REPORTS_AT_ONCE 50    /* some ms of the protocol thread */
#define NAMES_MAX 32          /* metrics in one report */
#define STATE_FILE "events"
#define SEEN_POINTS 5000

_Static_assert(BUFFER_BYTES > EVENT_MESSAGE_BYTES_MAX + 64, "a record that is read fits");

/* A file in a directory below one that has event files, too, as add_scalars makes them: its metrics are named NAME@RUN,
 * since they often have the same tags. RUN is the path between the two directories. */
struct event_file {
    char path[PATH_BYTES];
    uint32_t run_at, run_bytes; /* RUN, in `path`; run_bytes 0: none */
    uint64_t offset, settled;   /* read so far, and as of the last round but one */
    bool is_broken;
};

struct event_files {
    struct job job;
    /* The protocol thread's at all times; while the job runs it has all other fields. */
    bool runs;
    bool is_orphan; /* the worker is gone: the job's end frees this */
    bool is_final;  /* the program had ended before the last pass began */
    bool is_done;
    uint64_t next_ms;
    uint32_t slot;
    char directory[KEEP_PATH_BYTES];
    struct chunks *chunks;
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX]; /* of the worker's points */
    size_t prefix_bytes;
    uint64_t next_point; /* its number, when the first pass began */
    uint32_t seen_count; /* files of which points were found */
    struct {
        uint64_t session, done_bytes;
    } seen[FILES_MAX];
    bool is_loaded, is_blind; /* blind: nothing tells what was there before the program, so nothing is read */
    bool is_round;            /* the state is written first */
    bool has_more;            /* the pass has left something that could be read at once */
    uint64_t pass_bytes;
    uint32_t file_count;
    struct event_file files[FILES_MAX];
    uint32_t point_count, point_next;
    uint32_t dropped;
    bool is_dropped_told, is_full, is_full_told;
    char problem[PATH_BYTES + 96];
    struct event_point points[POINTS_MAX];
    uint8_t buffer[BUFFER_BYTES];
};

/* ---- the state on disk ----------------------------------------------------------------------------------------- */

static struct event_file *find_file(struct event_files *events, const char *path)
{
    for (uint32_t i = 0; i < events->file_count; i++) {
        if (strcmp(events->files[i].path, path) == 0) {
            return &events->files[i];
        }
    }
    return NULL;
}

static uint64_t session_of(const char *path)
{
    return bytes_hash64((const uint8_t *)path, strlen(path), 0) | 1; /* not 0 */
}

static struct event_file *add_file(struct event_files *events, const char *path)
{
    struct event_file *file = find_file(events, path);
    if (file == NULL && events->file_count < FILES_MAX &&
        bytes_copy_text(events->files[events->file_count].path, PATH_BYTES, path)) {
        file = &events->files[events->file_count++];
        for (uint32_t i = 0; i < events->seen_count; i++) {
            if (events->seen[i].session == session_of(path)) {
                file->offset = file->settled = events->seen[i].done_bytes;
            }
        }
    } else if (file == NULL) {
        events->is_full = true;
    }
    return file;
}

static void save(const struct event_files *events)
{
    char path[KEEP_PATH_BYTES + 16], made[KEEP_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/" STATE_FILE, events->directory);
    (void)snprintf(made, sizeof made, "%s/" STATE_FILE ".new", events->directory);
    FILE *file = fopen(made, "we");
    if (file == NULL) {
        return; /* points may come twice after a kill */
    }
    for (uint32_t i = 0; i < events->file_count; i++) {
        (void)fprintf(file, "%" PRIu64 " %d %s\n", events->files[i].settled, events->files[i].is_broken,
                      events->files[i].path);
    }
    if (fclose(file) == 0) {
        (void)rename(made, path);
    }
}

/* Takes a point that is stored: up to where its file is done with. */
static int note_point(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct event_files *events = context;
    struct points_source source = points_source_of(bytes, count);
    uint64_t done_bytes = source.request & ~POINTS_OF_FILE;
    uint32_t i = 0;
    (void)sequence;
    if (source.session == 0 || (source.request & POINTS_OF_FILE) == 0) {
        return 0;
    }
    while (i < events->seen_count && events->seen[i].session != source.session) {
        i++;
    }
    if (i == FILES_MAX) {
        return 0;
    }
    if (i == events->seen_count) {
        events->seen[events->seen_count++].session = source.session;
        events->seen[i].done_bytes = 0;
    }
    events->seen[i].done_bytes = done_bytes > events->seen[i].done_bytes ? done_bytes : events->seen[i].done_bytes;
    return 0;
}

static void load(struct event_files *events)
{
    uint64_t from = events->next_point > SEEN_POINTS ? events->next_point - SEEN_POINTS : 0;
    (void)series_read(events->chunks, events->prefix, events->prefix_bytes, from, note_point, events);
    char path[KEEP_PATH_BYTES + 16], line[PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/" STATE_FILE, events->directory);
    FILE *file = fopen(path, "re");
    events->is_loaded = true;
    events->is_blind = file == NULL;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t offset;
        int is_broken, at = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%" SCNu64 " %d %n", &offset, &is_broken, &at) == 2 && at > 0) {
            struct event_file *row = add_file(events, line + at);
            if (row != NULL) {
                row->offset = row->settled = offset > row->offset ? offset : row->offset;
                row->is_broken = is_broken != 0;
            }
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Adds the run to the names, and leaves out points whose names get too long; returns how many stay. */
static uint32_t name_runs(const struct event_file *file, struct event_point *points, uint32_t count, uint32_t *dropped)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(points[i].name);
        bool fits = used + 1 + file->run_bytes < sizeof points[i].name;
        if (file->run_bytes > 0 && fits) {
            points[i].name[used] = '@';
            bytes_copy_text_n(points[i].name + used + 1, sizeof points[i].name - used - 1, file->path + file->run_at,
                              file->run_bytes);
        }
        if (file->run_bytes == 0 || fits) {
            points[left++] = points[i];
        }
    }
    *dropped += count - left;
    return left;
}

/* Takes the points of a record, from `begin` on in its file and `whole` bytes long. False: there is no room for them
 * now, and the record is read again. */
static bool take_message(struct event_files *events, const struct event_file *file, uint64_t begin, uint64_t whole,
                         const uint8_t *message, size_t count)
{
    uint32_t dropped = 0, room = POINTS_MAX - events->point_count;
    uint32_t taken = event_points(message, count, events->points + events->point_count, room, &dropped);
    if (taken == room && events->point_count > 0) {
        return false;
    }
    taken = name_runs(file, events->points + events->point_count, taken, &dropped);
    for (uint32_t i = 0; i < taken; i++) {
        struct event_point *point = &events->points[events->point_count + i];
        point->file = (uint32_t)(file - events->files);
        point->done_bytes =
            i + 1 < taken ? begin : begin + whole; /* the record is done with once its last point is stored */
    }
    events->point_count += taken;
    events->dropped += dropped;
    return true;
}

/* Takes the records in `count` bytes of the buffer; returns how many bytes are done with, perhaps more than `count`.
 * `*goes_on` false: no more can be taken now. `left`: bytes of the file from the begin of the buffer on. */
static uint64_t take_records(struct event_files *events, struct event_file *file, size_t count, uint64_t left,
                             bool *goes_on)
{
    uint64_t at = 0;
    *goes_on = true;
    while (at < count) {
        const uint8_t *message = NULL;
        size_t message_bytes = 0;
        uint64_t whole = 0;
        enum event_take take = event_take(events->buffer + at, count - (size_t)at, &message, &message_bytes, &whole);
        if (take == EVENT_BROKEN) {
            file->is_broken = true;
            *goes_on = false;
            (void)snprintf(events->problem, sizeof events->problem,
                           "the event file %s is damaged at byte %" PRIu64
                           " (a checksum is wrong), and is read no further",
                           file->path, file->offset + at);
            return at;
        }
        if (take == EVENT_TAKEN && !take_message(events, file, file->offset + at, whole, message, message_bytes)) {
            events->has_more = true;
            *goes_on = false;
            return at;
        }
        if (take == EVENT_WAITS || (take == EVENT_LONG && whole > left - at)) {
            *goes_on = take == EVENT_WAITS && at > 0 && left > count; /* the rest of it may be behind the buffer */
            return at;
        }
        at += whole;
    }
    return at;
}

static void read_file(struct event_files *events, struct event_file *file, int fd)
{
    bool goes_on = !file->is_broken;
    struct stat status;
    while (goes_on && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size > file->offset) {
        if (events->pass_bytes >= PASS_BYTES) {
            events->has_more = true;
            return;
        }
        ssize_t count = pread(fd, events->buffer, BUFFER_BYTES, (off_t)file->offset);
        if (count <= 0) {
            return;
        }
        events->pass_bytes += (uint64_t)count;
        file->offset += take_records(events, file, (size_t)count, (uint64_t)status.st_size - file->offset, &goes_on);
    }
}

typedef void file_fn(struct event_files *events, struct event_file *file, int fd);

/* A program that begins with the files of an earlier attempt adds none to them. */
static void pass_over(struct event_files *events, struct event_file *file, int fd)
{
    struct stat status;
    (void)events;
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
        file->offset = file->settled = (uint64_t)status.st_size;
    }
}

static bool is_event_file(const char *name)
{
    return strstr(name, "tfevents") != NULL && strchr(name, '\n') == NULL;
}

/* `top`: the bytes of the path of the topmost directory above the file that has event files. */
static void visit_file(struct event_files *events, int parent, const char *name, const char *path, size_t top,
                       file_fn *visit)
{
    size_t directory = strlen(path) - strlen(name); /* with its slash */
    if (!is_event_file(name) || strchr(path, '\n') != NULL) {
        return;
    }
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct event_file *file = fd >= 0 ? add_file(events, path) : NULL;
    if (file != NULL) {
        file->run_at = (uint32_t)(top + (top > 0));
        file->run_bytes = directory > file->run_at ? (uint32_t)(directory - file->run_at - 1) : 0;
        visit(events, file, fd);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static bool has_event_files(DIR *directory)
{
    bool is_found = false;
    for (struct dirent *entry = readdir(directory); entry != NULL && !is_found; entry = readdir(directory)) {
        is_found = is_event_file(entry->d_name);
    }
    rewinddir(directory);
    return is_found;
}

#define NO_TOP SIZE_MAX

/* Visits the event files below a directory; no link is followed. Takes the descriptor. */
static void walk(struct event_files *events, int fd, const char *below, size_t top, uint32_t depth, file_fn *visit)
{
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (directory == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    top = top == NO_TOP && has_event_files(directory) ? strlen(below) : top;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[PATH_BYTES];
        struct stat status;
        int bytes = snprintf(path, sizeof path, "%s%s%s", below, below[0] != '\0' ? "/" : "", entry->d_name);
        bool is_self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (is_self || bytes < 0 || (size_t)bytes >= sizeof path ||
            fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (S_ISREG(status.st_mode)) {
            visit_file(events, dirfd(directory), entry->d_name, path, top, visit);
        } else if (S_ISDIR(status.st_mode) && depth < DEPTH_MAX) {
            walk(events, openat(dirfd(directory), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path,
                 top, depth + 1, visit);
        }
    }
    (void)closedir(directory);
}

static void walk_all(struct event_files *events, file_fn *visit)
{
    char path[KEEP_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/output/tensorboard", events->directory);
    walk(events, open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), "", NO_TOP, 0, visit);
}

void event_files_begin(const char *directory)
{
    struct event_files *events = calloc(1, sizeof *events);
    if (events != NULL) {
        bytes_copy_text(events->directory, sizeof events->directory, directory);
        walk_all(events, pass_over);
        save(events);
    }
    free(events);
}

static void read_work(struct job *job)
{
    struct event_files *events = (struct event_files *)job;
    if (events->point_next < events->point_count) {
        return; /* a turn of the protocol thread in between */
    }
    events->point_count = events->point_next = 0;
    events->has_more = false;
    events->pass_bytes = 0;
    events->problem[0] = '\0';
    if (!events->is_loaded) {
        load(events);
    }
    if (events->is_blind) {
        return;
    }
    if (events->is_round) {
        save(events);
        for (uint32_t i = 0; i < events->file_count; i++) {
            events->files[i].settled = events->files[i].offset;
        }
    }
    events->is_round = false;
    walk_all(events, read_file);
}

/* ---- reporting ------------------------------------------------------------------------------------------------- */

/* How many points from `first` on are one report: of one file, step and group, each with a name of its own. */
static uint32_t points_together(const struct event_files *events, uint32_t first)
{
    const struct event_point *head = &events->points[first];
    uint32_t count = 1;
    while (first + count < events->point_count && count < NAMES_MAX) {
        const struct event_point *next = head + count;
        bool fits = next->file == head->file && next->step == head->step && strcmp(next->group, head->group) == 0;
        for (uint32_t i = 0; i < count && fits; i++) {
            fits = strcmp(head[i].name, next->name) != 0;
        }
        if (!fits) {
            break;
        }
        count++;
    }
    return count;
}

static void report(struct daemon *daemon, struct daemon_worker *worker, struct points_source source,
                   const struct event_point *points, uint32_t count)
{
    uint8_t bytes[NAMES_MAX * (REQUEST_METRIC_BYTES + 16)];
    struct pack_writer writer;
    struct pack_reader metrics;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(&writer, points[i].name);
        pack_double(&writer, points[i].value);
    }
    pack_reader_init(&metrics, bytes, writer.used_bytes);
    uint64_t now_ms = daemon_wall_ms(), wall_ms = points[0].wall_ms < now_ms ? points[0].wall_ms : now_ms;
    (void)daemon_series_report_at(daemon, worker, source, wall_ms, points[0].group, points[0].step, metrics);
}

/* Reports some of the points. False: bulk has enough to write now. */
static bool report_some(struct daemon *daemon, struct daemon_worker *worker, struct event_files *events)
{
    for (uint32_t reports = 0; events->point_next < events->point_count && reports < REPORTS_AT_ONCE; reports++) {
        uint32_t count = points_together(events, events->point_next);
        if (!bulk_series_has_room(daemon->bulk, DAEMON_POINT_BYTES_MAX)) {
            return false;
        }
        const struct event_point *last = &events->points[events->point_next + count - 1];
        struct points_source source = {session_of(events->files[last->file].path), POINTS_OF_FILE | last->done_bytes};
        report(daemon, worker, source, events->points + events->point_next, count);
        events->point_next += count;
    }
    return true;
}

static void tell(struct daemon *daemon, struct event_files *events, uint32_t trial)
{
    if (events->problem[0] != '\0') {
        daemon_line(daemon, "trial %u: %s", trial, events->problem);
        events->problem[0] = '\0';
    }
    if (events->dropped > 0 && !events->is_dropped_told) {
        events->is_dropped_told = true;
        daemon_line(daemon,
                    "trial %u: scalars of its event files are left out, since their names are empty or longer than %d "
                    "bytes, or their "
                    "steps negative",
                    trial, REQUEST_METRIC_BYTES - 1);
    }
    if (events->is_full && !events->is_full_told) {
        events->is_full_told = true;
        daemon_line(daemon, "trial %u: of its event files the first %d are read", trial, FILES_MAX);
    }
}

static void read_done(void *context, struct job *job);

static void run(struct daemon *daemon, struct event_files *events)
{
    events->job = (struct job){.work = read_work, .done = read_done};
    events->runs = true;
    jobs_run(daemon->file_jobs, &events->job);
}

/* Reports what was read, and reads on if there is more. */
static void go_on(struct daemon *daemon, struct daemon_worker *worker, struct event_files *events)
{
    bool has_room = report_some(daemon, worker, events);
    if (!has_room) {
        events->next_ms = daemon_now_ms() + RETRY_MS;
    } else if (events->point_next < events->point_count || events->has_more) {
        run(daemon, events);
    } else {
        events->is_done = events->is_final;
        events->next_ms = daemon_now_ms() + ROUND_MS;
    }
}

static void read_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct event_files *events = (struct event_files *)job;
    struct daemon_worker *worker = &daemon->workers->slots[events->slot];
    events->runs = false;
    if (events->is_orphan) {
        free(events);
    } else if (!daemon->closed) {
        tell(daemon, events, worker->prepare.u.worker.attempt.trial);
        go_on(daemon, worker, events);
    }
}

/* ---- the worker ------------------------------------------------------------------------------------------------ */

/* What the worker's event files are read with; NULL: they are not read. */
static struct event_files *events_of(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), worker->prepare.u.worker.attempt.experiment);
    bool is_wanted = experiment != NULL && experiment->known &&
                     experiment->config->tensorboard == CONFIG_TENSORBOARD_READ && worker->prepare.u.worker.number == 0;
    if (is_wanted && worker->events == NULL && !daemon->closed) {
        worker->events = calloc(1, sizeof *worker->events);
        if (worker->events != NULL) {
            worker->events->slot = slot;
            worker->events->chunks = daemon->chunks;
            worker->events->next_point = worker->series_seq;
            worker->events->prefix_bytes =
                daemon_series_prefix('m', &worker->prepare.u.worker.attempt, 0, worker->events->prefix);
            bytes_copy_text(worker->events->directory, sizeof worker->events->directory, worker->directory);
        }
    }
    return is_wanted ? worker->events : NULL;
}

void daemon_event_files_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        struct event_files *events = worker->state == WORKER_RUNNING && !worker->ended ? events_of(daemon, slot) : NULL;
        if (events == NULL || events->runs || now_ms < events->next_ms) {
            continue;
        }
        if (events->point_next < events->point_count) {
            go_on(daemon, worker, events);
        } else {
            events->is_round = true;
            run(daemon, events);
        }
    }
}

bool daemon_event_files_end(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct event_files *events = events_of(daemon, slot);
    if (events == NULL || events->is_done) {
        return true;
    }
    if (!events->runs && events->point_next < events->point_count) {
        go_on(daemon, worker, events);
    } else if (!events->runs) {
        events->is_final = true; /* nobody writes any more: what this pass does not find never comes */
        run(daemon, events);
    }
    return events->is_done;
}

void event_files_forget(struct daemon_worker *worker)
{
    if (worker->events != NULL && worker->events->runs) {
        worker->events->is_orphan = true;
    } else {
        free(worker->events);
    }
    worker->events = NULL;
}
