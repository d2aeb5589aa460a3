/* The output of this node's workers: read in pieces into the series of their attempts. */

#include <stdlib.h>

#include "base/bytes.h"
#include "node/daemon/workers/log_match.h"
#include "node/daemon/workers/workers.h"

#define ENTRY_BYTES (48u * 1024)
#define ENTRIES_AT_ONCE 4 /* of one ended worker, before the next worker has its turn */

struct log_job {
    struct job job;
    struct daemon *daemon;
    uint32_t slot;
    attempt_id attempt;
    uint32_t number;
    struct log_match *match; /* NULL: no line is looked for */
    bool is_last;            /* nothing more is written */
    char directory[KEEP_PATH_BYTES];
    uint64_t offset;
    size_t got;
    uint64_t dropped;
    int code;
    uint8_t bytes[ENTRY_BYTES];
};

static void log_work(struct job *job)
{
    struct log_job *log = (struct log_job *)job;
    log->code = keep_log_read(log->directory, log->offset, log->bytes, sizeof log->bytes, &log->got, &log->dropped);
    if (log->match != NULL && log->code == 0) {
        log_match_feed(log->match, log->offset + log->dropped + log->got, log->bytes, log->got, log->is_last && log->got == 0);
    }
}

/* Appends the piece to the series. False: bulk has enough to write, and the same piece is read again later. */
static bool log_take(struct daemon *daemon, struct daemon_worker *worker, const struct log_job *log)
{
    if (log->code != 0 || log->got == 0) {
        return true;
    }
    uint64_t end = log->offset + log->dropped + log->got;
    int code = daemon_series_append(daemon, 0, &worker->prepare.u.worker.attempt, 'l', worker->prepare.u.worker.number, end,
                                    log->bytes, log->got);
    worker->log_offset = code == 0 ? end : worker->log_offset;
    worker_stall_heard(&worker->stall, daemon_now_ms());
    if (code == 0) {
        if (log->dropped > 0) {
            metric_lines_cut(&worker->metric_lines);
        }
        uint8_t time[8];
        bytes_put_u64(time, daemon_wall_ms());
        (void)daemon_series_append(daemon, 0, &worker->prepare.u.worker.attempt, 'w', worker->prepare.u.worker.number, end, time,
                                   sizeof time); /* without it the piece counts as read when the next one is */
        daemon_series_output(daemon, worker, log->bytes, log->got);
    }
    return code == 0;
}

/* Reads on at once after a full piece. The rest of an ended worker's output is left to daemon_workers_log_ends. */
static void log_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct log_job *log = (struct log_job *)job;
    struct daemon_worker *worker = &daemon->workers->slots[log->slot];
    bool is_same = worker->state != WORKER_NONE && attempt_id_equal(&worker->prepare.u.worker.attempt, &log->attempt);
    log_match_give(daemon, is_same ? worker : NULL, &log->attempt, log->number, log->match);
    bool has_log = worker->state >= WORKER_INSTALLING && worker->state <= WORKER_RUNNING;
    if (has_log && !worker->last.is_taken &&
        attempt_id_equal(&worker->prepare.u.worker.attempt, &log->attempt)) {
        worker->log_busy = false;
        bool is_next = log->offset == worker->log_offset;
        bool goes_on = is_next && log_take(daemon, worker, log) && log->code == 0 && log->got > 0;
        if (goes_on && !worker->ended && log->got == ENTRY_BYTES) {
            daemon_workers_log(daemon, log->slot);
        }
    }
    free(log);
}

void daemon_workers_log(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct log_job *log = worker->log_busy || daemon->closed ? NULL : calloc(1, sizeof *log);
    if (log == NULL) {
        return;
    }
    log->job = (struct job){.work = log_work, .done = log_done};
    log->slot = slot;
    log->attempt = worker->prepare.u.worker.attempt;
    log->number = worker->prepare.u.worker.number;
    log->match = log_match_take(daemon, worker);
    log->offset = worker->log_offset;
    bytes_copy_text(log->directory, sizeof log->directory, worker->directory);
    worker->log_busy = true;
    jobs_run(daemon->file_jobs, &log->job);
}

bool daemon_workers_log_ends(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct log_job *log = calloc(1, sizeof *log);
    bool is_over = log == NULL;
    if (log != NULL) {
        worker->log_match_version = worker->log_busy ? 0 : worker->log_match_version; /* a job has the matcher: one more is made */
        log->match = log_match_take(daemon, worker);
        log->is_last = true;
    }
    for (uint32_t i = 0; i < ENTRIES_AT_ONCE && !is_over; i++) {
        log->offset = worker->log_offset;
        bytes_copy_text(log->directory, sizeof log->directory, worker->directory);
        log_work(&log->job);
        is_over = log->code != 0 || log->got == 0;
        if (!log_take(daemon, worker, log)) {
            break; /* the next tick goes on */
        }
        if (i + 1 == ENTRIES_AT_ONCE && !is_over) {
            daemon_workers_log(daemon, slot);
        }
    }
    if (log != NULL) {
        log_match_give(daemon, worker, &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, log->match);
    }
    free(log);
    return is_over;
}
