/* The files of workers. Each worker has a watch; while a watch has nothing under way, a job scans the kept paths (units.h) and
 * stores a new snapshot if a unit has come to rest since the last snapshot:
 *
 *     WAITS --tick--> SCANS --nothing new--> WAITS
 *                     SCANS --snapshot, event to the core--> COPIES --OUTPUT_DONE--> WAITS
 *     the worker has ended: one more SCANS, whatever is copied; then the watch is freed
 *
 * In a snapshot a unit that rests is as it is on the disk; any other unit is as in the last snapshot, or absent. The last
 * snapshot after a clean end has exactly what is on the disk. */

#include "node/daemon/outputs/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/visible.h"
#include "node/daemon/outputs/units.h"
#include "store/snapshot.h"

#define SCAN_MS 1000
#define SLOW_MS 60000 /* copies that are under way for so long are mentioned */
#define SCAN_SHARE 10 /* of a worker's files: at most a tenth of the time is spent on scans */
#define ASIDE "set-aside" /* in a run directory: the directory is to be moved, not removed */
#define CHECKPOINT_PREFIX "checkpoint/" /* of the checkpoint's path in a snapshot */
#define UNFINISHED "unfinished" /* in a snapshot: units that had not come to rest when their writer was killed */

enum watch_state { WATCH_WAITS, WATCH_SCANS, WATCH_COPIES };

/* What the last job found. While a job runs, only the job uses this struct. */
struct watched {
    char directory[KEEP_PATH_BYTES];
    struct units units;
    struct snapshot last; /* the last stored snapshot */
    hash256 last_blob;
    bool has_last;
    struct fact_saved saved; /* the checkpoint in the last snapshot, */
    uint64_t saved_digest;   /* and its unit's digest */
};

struct daemon_output {
    struct daemon_output *next;
    enum watch_state state;
    uint32_t slot;
    attempt_id attempt;
    uint32_t number;
    bool has_ended;     /* the worker's processes are gone */
    bool is_clean;
    bool is_final_done; /* the core has the last snapshot, or there is none */
    bool is_left;       /* the slot no longer waits */
    uint64_t end_ms;    /* has_ended: until when the slot waits */
    struct units_moment ended; /* has_ended: when */
    uint64_t next_ms;   /* when the next scan is due */
    uint64_t sequence;  /* of the last output with all copies */
    uint64_t done_ms;   /* when the copies were complete */
    uint64_t after;     /* the highest `after` that was published */
    uint64_t copies_ms; /* COPIES: since when */
    uint64_t after_ms;  /* when a newer sequence of rank 0 was first seen; 0: not yet */
    uint64_t gap_ms;    /* the machine was suspended for so long since the last job began */
    char said[256];     /* the last sentence about files that cannot be kept: the same sentence is written once */
    struct watched *watched;
};

/* ---- the job ------------------------------------------------------------------------------------------------------- */

struct watch_job {
    struct job job;
    struct chunks *chunks;
    struct watched *watched;
    attempt_id attempt;
    uint32_t slot, number;
    bool is_final, is_clean;
    struct units_moment moment; /* of the job; of the end, if is_end */
    uint64_t gap_ms;   /* as in struct daemon_output */
    uint64_t step;     /* which the worker has reported */
    bool may_store;    /* false: only scan */
    bool wants_any;    /* a snapshot is wanted even if nothing has changed, once all units rest */
    bool is_forced;    /* wants_any: even if some do not rest */
    uint64_t after;
    uint64_t bytes_max;
    uint32_t keep_count;
    char keep[CONFIG_KEEP_MAX][CONFIG_KEEP_BYTES];
    uint64_t took_ms;
    int code; /* 0; ERR_AGAIN: try again later; others: `error` */
    bool is_stored;
    hash256 blob;
    uint64_t bytes, files;
    struct fact_saved saved;
    char error[400];
    char note[400]; /* what was left out; "": nothing */
};

static bool is_clean_end(const struct watch_job *watch)
{
    return watch->is_final && watch->is_clean;
}

static bool unit_counts(const struct watch_job *watch, struct unit *unit, int run)
{
    return is_clean_end(watch) ? unit->is_there : units_rests(unit, run, &watch->moment);
}

static bool unit_is_gone(const struct watch_job *watch, const struct unit *unit, int run)
{
    return is_clean_end(watch) ? !unit->is_there : units_is_gone(&watch->watched->units, unit, run, &watch->moment);
}

/* True if the snapshot would differ from the last snapshot. */
static bool is_due(const struct watch_job *watch, int run)
{
    bool all_rest = true, is_due = watch->is_final && watch->watched->units.first != NULL;
    for (struct unit *unit = watch->watched->units.first; unit != NULL && !is_due; unit = unit->next) {
        bool counts = unit_counts(watch, unit, run);
        bool is_gone = unit_is_gone(watch, unit, run);
        all_rest &= counts || is_gone;
        is_due = (counts && (!unit->is_stored || unit->stored != unit->digest)) || (unit->is_stored && is_gone);
    }
    return is_due || (watch->wants_any && (all_rest || watch->is_forced || watch->is_final));
}

/* Adds the unit with its present content. ERR_AGAIN: the unit changed meanwhile, and is not in the snapshot. */
static int add_present(struct watch_job *watch, int run, const struct unit *unit, const char *path, struct snapshot *snapshot)
{
    uint32_t count = snapshot->count;
    int rc = snapshot_add(snapshot, watch->chunks, run, unit->disk_path, path, &watch->watched->last, watch->bytes_max,
                          watch->error, sizeof watch->error);
    if (rc == 0 && !watch->is_final && !units_is_same(unit, run)) {
        snapshot_cut(snapshot, count);
        rc = ERR_AGAIN;
    }
    return rc == ERR_NOT_FOUND ? ERR_AGAIN : rc;
}

static int add_unit(struct watch_job *watch, int run, struct unit *unit, struct snapshot *snapshot)
{
    uint64_t now_ms = watch->moment.now_ms;
    if (unit_counts(watch, unit, run)) {
        int rc = add_present(watch, run, unit, unit->path, snapshot);
        if (rc != ERR_AGAIN) {
            unit->is_stored = rc == 0;
            unit->stored = unit->digest;
            return rc;
        }
        units_changed(&watch->watched->units, unit, now_ms);
    }
    int rc = unit->is_stored && (unit->is_there || !unit_is_gone(watch, unit, run))
                 ? snapshot_take_over(snapshot, &watch->watched->last, unit->path)
                 : ERR_NOT_FOUND;
    unit->is_stored = rc == 0;
    if (watch->is_final && unit->is_there && (rc == 0 || rc == ERR_NOT_FOUND)) {
        char path[SNAPSHOT_PATH_BYTES];
        if (snprintf(path, sizeof path, UNFINISHED "/%s", unit->path) < (int)sizeof path) {
            rc = add_present(watch, run, unit, path, snapshot);
        }
    }
    return rc == ERR_NOT_FOUND || rc == ERR_AGAIN ? 0 : rc;
}

static uint64_t count_files(const struct snapshot *snapshot)
{
    uint64_t files = 0;
    for (uint32_t i = 0; i < snapshot->count; i++) {
        files += snapshot->entries[i].kind != SNAPSHOT_DIRECTORY;
    }
    return files;
}

/* Finds the checkpoint in the new snapshot. A checkpoint has the step that the worker had reported when the checkpoint was first
 * stored; that of a checkpoint which was there before the worker is not known. */
static void note_checkpoint(struct watch_job *watch, const struct snapshot *snapshot)
{
    struct watched *watched = watch->watched;
    struct fact_saved saved = {0};
    const struct unit *found = NULL;
    for (const struct unit *unit = watched->units.first; unit != NULL; unit = unit->next) {
        found = unit->is_stored && strncmp(unit->path, CHECKPOINT_PREFIX, sizeof CHECKPOINT_PREFIX - 1) == 0 ? unit : found;
    }
    for (uint32_t i = 0; found != NULL && i < snapshot->count; i++) {
        saved.bytes += snapshot_is_below(snapshot->entries[i].path, found->path) ? snapshot->entries[i].bytes : 0;
    }
    if (found != NULL) {
        bool is_same = found->stored == watched->saved_digest;
        (void)visible_text(saved.name, sizeof saved.name, found->path + sizeof CHECKPOINT_PREFIX - 1);
        saved.step = is_same ? watched->saved.step : strcmp(found->disk_path, found->path) == 0 ? watch->step : 0;
        watched->saved_digest = found->stored;
    }
    watched->saved = saved;
    watch->saved = saved;
}

static void store(struct watch_job *watch, int run)
{
    struct watched *watched = watch->watched;
    struct snapshot snapshot = {0};
    watch->code = 0;
    for (struct unit *unit = watched->units.first; unit != NULL && watch->code == 0; unit = unit->next) {
        watch->code = add_unit(watch, run, unit, &snapshot);
    }
    if (watch->code == 0) {
        watch->code = snapshot_put(&snapshot, watch->chunks, &watch->blob, &watch->bytes, watch->error, sizeof watch->error);
    }
    if (watch->code != 0) {
        snapshot_free(&snapshot);
        return;
    }
    if (snapshot.left_out > 0) {
        (void)snprintf(watch->note, sizeof watch->note, "%s; %u such entries are not kept", snapshot.left_out_why,
                       snapshot.left_out);
    }
    watch->files = count_files(&snapshot);
    note_checkpoint(watch, &snapshot);
    bool is_new = !watched->has_last || !hash256_equal(watched->last_blob, watch->blob);
    watch->is_stored = is_new || watch->is_final || watch->wants_any;
    snapshot_free(&watched->last);
    watched->last = snapshot;
    watched->last_blob = watch->blob;
    watched->has_last = true;
}

static void watch_work(struct job *job)
{
    struct watch_job *watch = (struct watch_job *)job;
    uint64_t began_ms = daemon_now_ms();
    const char *keep[CONFIG_KEEP_MAX];
    for (uint32_t i = 0; i < watch->keep_count; i++) {
        keep[i] = watch->keep[i];
    }
    if (!watch->moment.is_end) {
        watch->moment = (struct units_moment){.now_ms = began_ms, .wall_ns = (int64_t)daemon_wall_ms() * 1000000};
    }
    units_awake(&watch->watched->units, watch->gap_ms, watch->moment.now_ms);
    int run = open(watch->watched->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    watch->code = run < 0 ? ERR_NOT_FOUND : units_scan(&watch->watched->units, run, keep, watch->keep_count, &watch->moment);
    if (watch->code != 0) {
        (void)snprintf(watch->error, sizeof watch->error, "%s",
                       watch->code == ERR_FULL ? "there are too many files" : err_text(watch->code));
    } else if (watch->may_store && is_due(watch, run)) {
        store(watch, run);
    }
    if (run >= 0) {
        (void)close(run);
    }
    watch->took_ms = daemon_now_ms() - began_ms;
}

/* ---- watches ------------------------------------------------------------------------------------------------------- */

static void watch_free(struct daemon *daemon, struct daemon_output *output)
{
    struct daemon_output **link = &daemon->outputs->first;
    while (*link != output) {
        link = &(*link)->next;
    }
    *link = output->next;
    int spare_fd = units_close(&output->watched->units);
    if (spare_fd >= 0 && daemon->outputs->spare_count < SLOTS_MAX) {
        daemon->outputs->spare_fds[daemon->outputs->spare_count++] = spare_fd;
    } else if (spare_fd >= 0) {
        (void)close(spare_fd);
    }
    snapshot_free(&output->watched->last);
    free(output->watched);
    free(output);
}

static struct daemon_output *find(const struct daemon *daemon, const attempt_id *attempt, uint32_t number)
{
    struct daemon_output *output = daemon->outputs->first;
    while (output != NULL && !(output->number == number && attempt_id_equal(&output->attempt, attempt))) {
        output = output->next;
    }
    return output;
}

void daemon_outputs_watch(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, uint32_t number,
                          const char *directory)
{
    struct daemon_output *output = calloc(1, sizeof *output);
    struct watched *watched = calloc(1, sizeof *watched);
    if (output == NULL || watched == NULL) {
        free(output);
        free(watched);
        daemon_line_of(daemon, event_of_attempt(EVENT_CHECKPOINT_FAILED, attempt),
                       "the files of trial %u are not kept: no memory is left", attempt->trial);
        return;
    }
    bytes_copy_text(watched->directory, sizeof watched->directory, directory);
    units_open(&watched->units, directory, daemon->outputs->spare_count > 0 ? daemon->outputs->spare_fds[--daemon->outputs->spare_count] : -1);
    output->slot = slot;
    output->attempt = *attempt;
    output->number = number;
    output->watched = watched;
    output->next = daemon->outputs->first;
    daemon->outputs->first = output;
}

static const struct config *config_of(const struct daemon *daemon, const attempt_id *attempt)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), attempt->experiment);
    return experiment != NULL && experiment->known ? experiment->config : NULL;
}

/* The worker's rank in its group now; the number while the attempt's record is not here. */
static uint32_t rank_of(const struct daemon *daemon, const struct daemon_output *output)
{
    const struct view_attempt *attempt = view_find_attempt(node_core_view(daemon->core), &output->attempt);
    return attempt == NULL || !attempt->assigned
               ? output->number
               : view_attempt_rank(attempt, daemon->keys.id, output->slot, output->number);
}

static void read_keep(const struct config *config, struct watch_job *watch)
{
    struct pack_reader reader;
    pack_reader_init(&reader, config->keep, config->keep_bytes);
    uint32_t count = config->keep_bytes > 0 ? pack_read_array(&reader) : 0;
    for (uint32_t i = 0; i < count && i < CONFIG_KEEP_MAX && !reader.failed; i++) {
        pack_read_text_copy(&reader, watch->keep[i], sizeof watch->keep[i]);
        watch->keep_count += !reader.failed;
    }
    watch->bytes_max = config->keep_bytes_max;
}

static void say(struct daemon *daemon, struct daemon_output *output, const char *what, const char *why)
{
    char text[sizeof output->said];
    (void)snprintf(text, sizeof text, "%s%.200s", what, why);
    if (strcmp(text, output->said) != 0) {
        bytes_copy_text(output->said, sizeof output->said, text);
        daemon_line_of(daemon, event_of_attempt(EVENT_CHECKPOINT_FAILED, &output->attempt),
                       "trial %u: %s%s", output->attempt.trial, what, why);
    }
}

/* Writes where a run directory DIR/runs/X is moved to, DIR/left/X, and makes DIR/left. */
static void aside_path(const char *directory, char *out, size_t size)
{
    const char *name = strrchr(directory, '/');
    int dir_bytes = name != NULL ? (int)(name - directory) - (int)strlen("/runs") : 0;
    (void)snprintf(out, size, "%.*s/left", dir_bytes, directory);
    (void)mkdir(out, 0700);
    (void)snprintf(out, size, "%.*s/left%s", dir_bytes, directory, name != NULL ? name : "/");
}

bool daemon_outputs_move_aside(const char *directory)
{
    char mark[KEEP_PATH_BYTES + 32], to[KEEP_PATH_BYTES + 16];
    (void)snprintf(mark, sizeof mark, "%s/" ASIDE, directory);
    if (access(mark, F_OK) != 0) {
        return false;
    }
    aside_path(directory, to, sizeof to);
    if (rename(directory, to) == 0) {
        (void)snprintf(mark, sizeof mark, "%s/" ASIDE, to);
        (void)unlink(mark);
    }
    return true; /* a directory that cannot be moved stays */
}

/* The last files of the worker could not be stored: the run directory will be moved to DIR/left instead of being removed. Only
 * the mark is made here, since the worker's last lines are still to be read from the directory. */
static void set_aside(struct daemon *daemon, const struct daemon_output *output)
{
    char mark[KEEP_PATH_BYTES + 16], to[KEEP_PATH_BYTES + 16], experiment[17];
    const struct config *config = config_of(daemon, &output->attempt);
    (void)snprintf(mark, sizeof mark, "%s/" ASIDE, output->watched->directory);
    aside_path(output->watched->directory, to, sizeof to);
    int fd = open(mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
    } else if (rename(output->watched->directory, to) != 0) { /* the files count for more than the last words */
        return;
    }
    bytes_to_hex(experiment, output->attempt.experiment.bytes, 8);
    daemon_line_of(daemon, event_of_attempt(EVENT_CHECKPOINT_FAILED, &output->attempt),
                   "%s has the last files of trial %u of %s %.8s, which could not be copied, until you remove them", to,
                   output->attempt.trial, config != NULL ? config->name : "experiment", experiment);
}

static void watch_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct watch_job *watch = (struct watch_job *)job;
    struct daemon_output *output = find(daemon, &watch->attempt, watch->number);
    if (output == NULL || output->watched != watch->watched) {
        free(watch);
        return;
    }
    uint64_t now_ms = daemon_now_ms(), pause_ms = watch->took_ms * SCAN_SHARE;
    output->state = WATCH_WAITS;
    if (!output->has_ended) {
        output->next_ms = now_ms + (pause_ms > SCAN_MS ? pause_ms : SCAN_MS);
    } else { /* the slot waits: a scan that began before the end is followed by the last scan at once */
        output->next_ms = now_ms + (watch->is_final ? SCAN_MS : 0);
    }
    if (watch->code != 0 && watch->code != ERR_AGAIN) {
        say(daemon, output, "its files are not copied to other nodes now: ", watch->error);
    }
    if (watch->note[0] != '\0') {
        say(daemon, output, "", watch->note);
    }
    if (watch->code == 0 && watch->is_stored) {
        struct node_event event = {.kind = NODE_EVENT_OUTPUT};
        event.u.output.slot = watch->slot;
        event.u.output.attempt = watch->attempt;
        event.u.output.number = watch->number;
        event.u.output.blob = watch->blob;
        event.u.output.bytes = watch->bytes;
        event.u.output.files = watch->files;
        event.u.output.after = watch->is_final ? UINT64_MAX : watch->after;
        event.u.output.is_final = watch->is_final;
        event.u.output.saved = watch->saved;
        output->state = WATCH_COPIES;
        output->copies_ms = now_ms;
        output->after = watch->after;
        output->after_ms = 0;
        daemon_event(daemon, &event);
    }
    bool is_later = watch->code == ERR_AGAIN && now_ms < output->end_ms;
    output->is_final_done |= watch->is_final && !is_later;
    if (output->is_final_done && watch->is_final && watch->code != 0 && !daemon->closed) {
        set_aside(daemon, output); /* why is said above */
    }
    free(watch);
    if (output->is_final_done && output->is_left) {
        watch_free(daemon, output);
    }
}

/* Begins a scan, and a snapshot if one is due. */
static void begin(struct daemon *daemon, struct daemon_output *output, uint64_t now_ms)
{
    const struct config *config = config_of(daemon, &output->attempt);
    uint32_t rank = rank_of(daemon, output);
    bool is_united = config != NULL && config->keep_ranks == CONFIG_KEEP_ALL;
    if (config == NULL || (rank != 0 && !is_united)) {
        output->is_final_done |= output->has_ended; /* this worker keeps nothing */
        return;
    }
    struct watch_job *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return;
    }
    uint64_t first = is_united && rank != 0 ? node_core_output_sequence(daemon->core, &output->attempt) : 0;
    output->after_ms = first > output->after ? (output->after_ms != 0 ? output->after_ms : now_ms) : 0;
    bool waits_for_others = is_united && rank == 0 && output->sequence != 0 &&
                            now_ms - output->done_ms < DAEMON_OUTPUT_UNITE_MS &&
                            !node_core_output_is_united(daemon->core, &output->attempt, output->sequence);
    watch->job = (struct job){.work = watch_work, .done = watch_done};
    watch->chunks = daemon->chunks;
    watch->watched = output->watched;
    watch->attempt = output->attempt;
    watch->slot = output->slot;
    watch->number = output->number;
    watch->is_final = output->has_ended;
    watch->is_clean = output->is_clean;
    watch->moment = output->ended;
    watch->may_store = output->has_ended || (output->state == WATCH_WAITS && !waits_for_others);
    watch->wants_any = output->after_ms != 0;
    watch->is_forced = watch->wants_any && now_ms - output->after_ms >= UNITS_REST_OPEN_MS;
    watch->after = first;
    watch->gap_ms = output->gap_ms;
    watch->step = node_core_progress(daemon->core, output->slot).step;
    output->gap_ms = 0;
    read_keep(config, watch);
    output->state = WATCH_SCANS;
    jobs_run(daemon->idle_jobs, &watch->job);
}

/* A past time may lie behind a part of the gap already: this process may have stood still as well. */
static void shift(uint64_t *since_ms, uint64_t gap_ms, uint64_t now_ms)
{
    if (*since_ms != 0) {
        *since_ms = *since_ms + gap_ms < now_ms ? *since_ms + gap_ms : now_ms;
    }
}

void daemon_outputs_awake(struct daemon *daemon, uint64_t gap_ms, uint64_t now_ms)
{
    for (struct daemon_output *output = daemon->outputs->first; output != NULL; output = output->next) {
        output->end_ms += output->has_ended ? gap_ms : 0;
        shift(&output->ended.now_ms, gap_ms, now_ms);
        shift(&output->done_ms, gap_ms, now_ms);
        shift(&output->copies_ms, gap_ms, now_ms);
        shift(&output->after_ms, gap_ms, now_ms);
        output->gap_ms += gap_ms; /* a job may have the units now: the next job moves the units' times */
    }
}

void daemon_outputs_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct daemon_output *output = daemon->outputs->first, *next; output != NULL; output = next) {
        next = output->next;
        if (output->state == WATCH_WAITS && now_ms >= output->next_ms && !output->is_final_done && !daemon->closed &&
            !node_core_is_syncing(daemon->core)) {
            begin(daemon, output, now_ms);
        }
        if (output->state == WATCH_COPIES && now_ms - output->copies_ms >= SLOW_MS) {
            say(daemon, output, "", "copies of its files to other nodes take more than a minute; newer files wait for them");
        }
        if (output->is_final_done && output->is_left && output->state != WATCH_SCANS) {
            watch_free(daemon, output);
        }
    }
}

void daemon_outputs_done_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_output *output = find(daemon, &effect->u.worker.attempt, effect->u.worker.number);
    if (output != NULL) {
        output->state = output->state == WATCH_COPIES ? WATCH_WAITS : output->state;
        output->sequence = effect->u.worker.step;
        output->done_ms = daemon_now_ms();
    }
}

bool daemon_outputs_end(struct daemon *daemon, uint32_t slot, bool is_clean)
{
    struct daemon_output *output = daemon->outputs->first;
    while (output != NULL && !(output->slot == slot && !output->is_left)) {
        output = output->next;
    }
    if (output == NULL) {
        return true;
    }
    uint64_t now_ms = daemon_now_ms();
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), output->attempt.experiment);
    bool is_wanted = experiment != NULL && experiment->known;
    if (!output->has_ended) {
        bool can_wait = is_wanted && !view_experiment_cancelled(experiment);
        output->has_ended = true;
        output->is_clean = is_clean;
        output->ended = (struct units_moment){
            .now_ms = now_ms, .wall_ns = (int64_t)daemon_wall_ms() * 1000000, .is_end = !is_clean};
        output->end_ms = now_ms + (can_wait ? DAEMON_OUTPUT_FINAL_MS : 0);
        output->next_ms = now_ms;
    }
    if (output->state != WATCH_SCANS && !output->is_final_done && now_ms >= output->next_ms) {
        if (is_wanted) {
            begin(daemon, output, now_ms);
        } else {
            output->is_final_done = true; /* deleted */
        }
    }
    output->is_left = output->is_final_done || now_ms >= output->end_ms;
    if (!output->is_left) {
        return false;
    }
    if (output->is_final_done && output->state != WATCH_SCANS) {
        watch_free(daemon, output);
    }
    return true;
}

bool daemon_outputs_hold(const struct daemon *daemon, const char *directory)
{
    const struct daemon_output *output = daemon->outputs->first;
    while (output != NULL && strcmp(output->watched->directory, directory) != 0) {
        output = output->next;
    }
    return output != NULL;
}

void daemon_outputs_close(struct daemon *daemon)
{
    while (daemon->outputs != NULL && daemon->outputs->first != NULL) {
        watch_free(daemon, daemon->outputs->first);
    }
    while (daemon->outputs != NULL && daemon->outputs->spare_count > 0) {
        (void)close(daemon->outputs->spare_fds[--daemon->outputs->spare_count]);
    }
}

/* ---- the next attempt ---------------------------------------------------------------------------------------------- */

int daemon_outputs_file(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("shoal-output", MFD_CLOEXEC); /* a file system without nameless files */
}

static int restore_one(struct chunks *chunks, const char *directory, hash256 blob, uint64_t bytes, hash256 *blamed, char *error,
                       size_t error_size)
{
    static const char *const roots[][2] = {{"work", "work"}, {"output", "output"}, {"checkpoint", "restore"}};
    struct snapshot snapshot = {0};
    int fd = daemon_outputs_file(directory);
    if (fd < 0) {
        (void)snprintf(error, error_size, "%.300s: %s", directory, strerror(errno));
        return errno == ENOSPC ? ERR_NO_SPACE : ERR_IO;
    }
    int rc = chunks_read_blob_to_fd(chunks, blob, fd, blamed, error, error_size);
    if (rc == 0) {
        rc = snapshot_read(fd, bytes, &snapshot);
        if (rc != 0) {
            (void)snprintf(error, error_size, "the kept files of an earlier attempt cannot be read: %s", err_text(rc));
        }
    }
    for (size_t i = 0; rc == 0 && i < sizeof roots / sizeof roots[0]; i++) {
        char to[KEEP_PATH_BYTES + 16];
        uint32_t count;
        (void)snprintf(to, sizeof to, "%s/%s", directory, roots[i][1]);
        bool is_listed = false;
        for (uint32_t e = 0; e < snapshot.count; e++) {
            is_listed |= snapshot_is_below(snapshot.entries[e].path, roots[i][0]);
        }
        if (is_listed) {
            (void)mkdir(to, 0700);
            rc = snapshot_unpack(fd, &snapshot, roots[i][0], to, &count, error, error_size);
        }
    }
    snapshot_free(&snapshot);
    (void)close(fd);
    return rc;
}

int daemon_outputs_restore(struct chunks *chunks, const char *directory, uint32_t number,
                           const struct fact_beginning *beginnings, uint32_t count, hash256 *blamed, char *error,
                           size_t error_size)
{
    static const char *const made[] = {"output", "checkpoint"};
    int rc = 0;
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        char path[KEEP_PATH_BYTES + 16];
        (void)snprintf(path, sizeof path, "%s/%s", directory, made[i]);
        (void)mkdir(path, 0700);
    }
    for (uint32_t i = count; i-- > 0 && rc == 0;) {
        if (beginnings[i].number != number || count == 1) {
            rc = restore_one(chunks, directory, beginnings[i].blob, beginnings[i].bytes, blamed, error, error_size);
        }
    }
    for (uint32_t i = 0; i < count && rc == 0 && count > 1; i++) {
        if (beginnings[i].number == number) {
            rc = restore_one(chunks, directory, beginnings[i].blob, beginnings[i].bytes, blamed, error, error_size);
        }
    }
    return rc;
}
