/* A worker's end: the orders to stop and to kill it; what shoal-keep reports; the processes that a killed shoal-keep has left;
 * the last lines, the cause and the exit status for the worker's record. The core gets the end once the worker's metrics and
 * checkpoints are on the disk, and the directory goes once the record of the end is. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/daemon/outputs/outputs.h"
#include "node/daemon/workers/event_files.h"
#include "node/daemon/workers/cause.h"
#include "node/daemon/workers/end.h"
#include "node/daemon/workers/error_file.h"
#include "node/daemon/workers/launch.h"
#include "node/daemon/workers/warm.h"
#include "node/keep/bars.h"
#include "node/keep/orphans.h"

#define TAIL_LINES 12  /* of the log in a worker's record */
#define ERROR_HEAD_BYTES (ERROR_MESSAGE_BYTES + ERROR_STACK_BYTES)
#define CAUSE_LINES 60 /* of the worker's output that its cause of death is looked for in */
#define CAUSE_BYTES (32u * 1024)
#define ORPHANS_MS 100 /* between two looks for processes that a killed shoal-keep has left */

/* ---- stop and kill --------------------------------------------------------------------------------------------- */

void worker_send_kill(struct daemon_worker *worker)
{
    int code = worker->kill_hung ? keep_kill_hung(&worker->link, worker->kill_grace_ms)
                                 : keep_kill(&worker->link, worker->kill_grace_ms);
    worker->kill_wanted = code != 0;
    worker->kill_hung &= code != 0;
}

void daemon_workers_kill(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, uint32_t grace_ms, bool is_hung)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    if (worker_is(worker, WORKER_RUNNING, attempt) && worker->has_link) {
        worker->kill_hung = is_hung;
        worker->kill_grace_ms = grace_ms;
        worker_send_kill(worker); /* no room: the next tick tries again */
    } else if (worker_is(worker, WORKER_SPAWNING, attempt)) {
        worker->kill_hung = is_hung;
        worker->kill_wanted = true;
        worker->kill_grace_ms = grace_ms;
        if (worker->spawn != NULL) {
            daemon_warm_give_up(daemon, slot);
        }
    }
}

void daemon_workers_stopping(struct daemon_worker *worker)
{
    /* First, since this daemon may end at any moment. */
    worker->stopping_wanted = !worker->has_link || keep_stopping(&worker->link) != 0;
    if (worker->kill_at_ms == 0) { /* the first of a worker's programs to connect starts the grace */
        worker->kill_at_ms = daemon_now_ms() + worker->stop_grace_ms;
    }
    worker->term_at_ms = 0;
}

/* A program without libshoal gets SIGTERM, as under torchrun or Slurm. An adopted program first gets time to connect to
 * this daemon. */
bool daemon_workers_stop(struct daemon *daemon, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    bool is_running = worker_is(worker, WORKER_RUNNING, &effect->u.worker.attempt);
    bytes_copy_text(worker->stop_reason, sizeof worker->stop_reason, effect->u.worker.text);
    worker->stop_grace_ms = effect->u.worker.grace_ms;
    if (is_running && worker->client != NULL) {
        return true;
    }
    if (is_running && daemon_now_ms() < worker->connects_until_ms) {
        worker->term_at_ms = worker->connects_until_ms;
    } else {
        daemon_workers_kill(daemon, slot, &effect->u.worker.attempt, effect->u.worker.grace_ms, false);
    }
    return false;
}

void worker_repeat_orders(struct daemon_worker *worker, uint64_t now_ms)
{
    if (worker->term_at_ms != 0 && now_ms >= worker->term_at_ms) {
        worker->term_at_ms = 0;
        worker->kill_wanted = true;
        worker->kill_grace_ms = worker->stop_grace_ms;
    }
    if (worker->kill_at_ms != 0 && now_ms >= worker->kill_at_ms) {
        worker->kill_at_ms = 0;
        worker->kill_wanted = true;
        worker->kill_grace_ms = CORE_KILL_GRACE_MS;
    }
    if (worker->kill_wanted) {
        worker_send_kill(worker);
    }
    if (worker->stopping_wanted) {
        worker->stopping_wanted = keep_stopping(&worker->link) != 0;
    }
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

/* An ended worker's directory. It tells how the worker ended, and stays until a record on the disk tells the same. */
struct daemon_ended {
    struct daemon_ended *next;
    attempt_id attempt;
    uint32_t number;
    char directory[KEEP_PATH_BYTES];
};

static void worker_ended(struct daemon *daemon, uint32_t slot, struct node_event event)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    bool is_stopping = worker->ended && worker->status.is_stopping;
    event.kind = NODE_EVENT_WORKER_EXITED;
    event.u.worker.slot = slot;
    event.u.worker.attempt = worker->prepare.u.worker.attempt;
    event.u.worker.is_stopping = is_stopping;
    struct daemon_ended *ended = calloc(1, sizeof *ended);
    if (ended != NULL) { /* without memory the next daemon removes the directory */
        ended->attempt = event.u.worker.attempt;
        ended->number = worker->prepare.u.worker.number;
        bytes_copy_text(ended->directory, sizeof ended->directory, worker->directory);
        ended->next = daemon->workers->ended;
        daemon->workers->ended = ended;
    }
    worker_clear(worker);
    daemon_event(daemon, &event);
}

void daemon_workers_not_started(struct daemon *daemon, uint32_t slot, const char *text)
{
    worker_ended(daemon, slot, (struct node_event){.u.worker = {.code = -1, .is_unstarted = true, .text = text}});
}

/* Asks bulk to report when the worker's metrics are on the disk; then the core gets the worker's end. So when a
 * trial is shown as done, its last metrics can be read, even if the daemon ends at that moment. Waits, too, until the
 * worker's checkpoints are stored, since the next attempt begins from the last of them. */
static void settle(struct daemon *daemon, struct daemon_worker *worker)
{
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t bytes = daemon_series_prefix('m', &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, prefix);
    uint64_t id = daemon->request_id + 1;
    if (worker->saves == 0 && worker->last.read_id == 0 &&
        bulk_series_fetch(daemon->bulk, id, prefix, bytes, UINT64_MAX, daemon->keys.id) == 0) {
        worker->last.read_id = daemon->request_id = id; /* the next tick asks again on failure */
    }
}

/* Ends processes that a killed shoal-keep has left, and commands that users run beside the worker. False once none is left:
 * then the slot may be free. */
static bool has_orphans(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    uint64_t now_ms = daemon_now_ms();
    if (now_ms < worker->orphans_ms) {
        return true;
    }
    size_t count = keep_orphans_end(&worker->token);
    bool was_lost = worker->is_lost;
    worker->is_lost &= count > 0;
    worker->has_shells &= count > 0;
    worker->orphans_ms = now_ms + ORPHANS_MS;
    if (count > 0 && was_lost) {
        daemon_line_of(daemon, event_of_attempt(EVENT_WORKER_ENDED, &worker->prepare.u.worker.attempt),
                       "shoal-keep of trial %u is gone: %zu process%s of its worker %s ended",
                       worker->prepare.u.worker.attempt.trial, count, count == 1 ? "" : "es", count == 1 ? "is" : "are");
    }
    return count > 0;
}

bool daemon_workers_is_ending(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    char lock[KEEP_PATH_BYTES + 32];
    if (!worker->ended || worker->last.is_taken) {
        return false;
    }
    daemon_workers_lock_path(daemon, slot, lock, sizeof lock);
    return !((worker->is_lost || worker->has_shells) && has_orphans(daemon, slot)) && keep_lock_is_free(lock);
}

/* What the kernel's counters and the last lines tell of the end. */
static void look_at_end(struct daemon_worker *worker)
{
    const struct keep_status *status = &worker->status;
    int32_t code = status->signal != 0 ? -status->signal : status->code;
    char *lines = malloc(CAUSE_BYTES);
    size_t bytes;
    worker->last.cause = status->memory == KEEP_MEMORY_LIMIT     ? FACT_CAUSE_MEMORY_LIMIT
                         : status->memory == KEEP_MEMORY_MACHINE ? FACT_CAUSE_MEMORY
                                                                 : FACT_CAUSE_UNKNOWN;
    if (lines != NULL && status->reason == KEEP_EXITED &&
        keep_log_tail(worker->directory, CAUSE_LINES, lines, CAUSE_BYTES, &bytes) == 0) {
        for (size_t i = 0; i < bytes; i++) {
            lines[i] = lines[i] == '\0' ? '?' : lines[i];
        }
        worker->last.failure = worker->last.cause == FACT_CAUSE_UNKNOWN ? cause_failure(code, lines, worker->directory) : 0;
        worker->last.cause = worker->last.cause == FACT_CAUSE_UNKNOWN ? cause_of_lines(code, lines) : worker->last.cause;
    }
    free(lines);
}

/* Where the last `lines` lines begin of which at most `room` bytes are wanted; never inside a character. */
static size_t tail_from(const char *text, size_t bytes, uint32_t lines, size_t room)
{
    size_t from = bytes;
    for (uint32_t ends = 0; from > 0 && bytes - from < room; from--) {
        ends += text[from - 1] == '\n' && from < bytes;
        if (ends == lines) {
            break;
        }
    }
    while (from < bytes && ((unsigned char)text[from] & 0xc0) == 0x80) {
        from++;
    }
    return from;
}

/* Gives the end of the log for the worker's record, and stores more of it beside the log if the program has failed. False:
 * bulk has enough to write. */
static bool take_tail(struct daemon *daemon, struct daemon_worker *worker, char tail[FACT_TAIL_BYTES + 1])
{
    static char whole[ERROR_HEAD_BYTES + DAEMON_TAIL_BYTES_MAX + 256]; /* the protocol thread's alone */
    char *text = whole + ERROR_HEAD_BYTES;
    size_t bytes = 0;
    if (keep_log_tail(worker->directory, UINT32_MAX, text, sizeof whole - ERROR_HEAD_BYTES, &bytes) != 0) {
        bytes = 0; /* the program's own message may still be there */
    }
    bytes = keep_bars_fold(text, bytes);
    for (size_t i = 0; i < bytes; i++) { /* the reason may be written after a NUL */
        text[i] = text[i] == '\0' ? '?' : text[i];
    }
    bool has_failed = worker->status.code != 0 || worker->status.signal != 0;
    struct error_file error;
    size_t first = 0;
    worker->last.error_ms = 0;
    if (has_failed && error_file_read(worker->directory, &error)) { /* above the log: after it come others' last words */
        first = (size_t)snprintf(tail, FACT_TAIL_BYTES, "%s\n%s", error.message, error.stack);
        worker->last.error_ms = error.at_ms;
    }
    size_t from = tail_from(text, bytes, TAIL_LINES, FACT_TAIL_BYTES - 1 - first);
    size_t all = tail_from(text, bytes, UINT32_MAX, bytes < DAEMON_TAIL_BYTES_MAX - first ? bytes : DAEMON_TAIL_BYTES_MAX - first);
    bytes_copy_text_n(tail + first, FACT_TAIL_BYTES + 1 - first, text + from, bytes - from);
    if (from <= all || !has_failed) {
        return true;
    }
    char *head = text + all - first; /* what stood there is left out, or is ahead of the log */
    memcpy(head, tail, first);
    return daemon_series_append(daemon, 0, &worker->prepare.u.worker.attempt, 't', worker->prepare.u.worker.number, 1, (const uint8_t *)head,
                                first + bytes - all) == 0;
}

/* Whether the worker failed, and another program has the port on which the ranks were to meet: that is no failure of the
 * worker's program. The lock of the port keeps only Shoal's programs away from it. All processes of the worker are gone. */
static bool lost_its_port(const struct daemon_worker *worker)
{
    const struct keep_status *status = &worker->status;
    return status->reason == KEEP_EXITED && status->code > 0 && !status->is_stopping && worker->port != 0 &&
           worker->port == worker->prepare.u.worker.master_port && ports_has_stranger((uint16_t)worker->port);
}

bool daemon_workers_take_last(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    const struct keep_status *status = &worker->status;
    bool is_asked = status->reason == KEEP_KILLED || status->is_stopping;
    bool is_clean = status->reason != KEEP_LEASE && status->signal == 0 &&
                    (status->code == 0 || (is_asked && status->code > 0 && status->code < 128));
    if (!daemon_workers_log_ends(daemon, slot) || !daemon_event_files_end(daemon, slot) ||
        !daemon_outputs_end(daemon, slot, is_clean)) {
        return false;
    }
    char tail[FACT_TAIL_BYTES + 1] = "";
    if (!take_tail(daemon, worker, tail)) {
        return false; /* the next tick goes on */
    }
    look_at_end(worker);
    bool killed = status->reason == KEEP_KILLED || status->reason == KEEP_LEASE;
    int32_t code = status->signal != 0 ? -status->signal : status->code;
    if (status->reason == KEEP_NOT_STARTED && tail[0] == '\0') {
        bytes_copy_text(tail, sizeof tail, status->text);
    }
    daemon_count_ended(daemon, slot);
    worker->last.is_taken = true;
    worker->last.code = code;
    worker->last.killed = killed;
    worker->last.is_unstarted = status->reason == KEEP_NOT_STARTED;
    if (lost_its_port(worker)) {
        daemon->workers->port_uses_ms = 0; /* the last look at the ports tells too little */
        worker->last.is_unstarted = true;
        (void)snprintf(tail, sizeof tail, "another program has port %u, which was its MASTER_PORT; it gets another port",
                       (unsigned)worker->port);
        daemon_line_of(daemon, event_of_worker(EVENT_WORKER_FAILED, &worker->prepare.u.worker.attempt, slot),
                       "the worker of slot %u has failed: %s", slot, tail);
    }
    bytes_copy_text(worker->last.tail, sizeof worker->last.tail, tail);
    settle(daemon, worker);
    return true;
}

void daemon_workers_settled(struct daemon *daemon, uint64_t request)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct worker_last last = daemon->workers->slots[slot].last;
        if (last.is_taken && last.read_id == request) {
            worker_ended(daemon, slot,
                         (struct node_event){.u.worker = {.code = last.code,
                                                       .killed = last.killed,
                                                       .is_unstarted = last.is_unstarted,
                                                       .lacks_packages = daemon->workers->slots[slot].lacks_packages,
                                                       .cause = last.cause,
                                                       .failure = last.failure,
                                                       .error_ms = last.error_ms,
                                                       .text = last.tail}});
        }
    }
}

void daemon_workers_poll(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct keep_event event;
    while (worker->has_link && keep_read_event(&worker->link, &event) == 0) {
        if (worker->state == WORKER_SPAWNING && event.kind == KEEP_EVENT_CLOSED) {
            worker->has_link = false;
            daemon_workers_spawn_again(daemon, slot);
            return;
        }
        if (worker->state == WORKER_SPAWNING) {
            daemon_workers_spawned(daemon, slot);
        }
        if (event.kind == KEEP_EVENT_STARTED) {
            worker->started_seen = true;
            worker->keep_pid = event.keep_pid;
            continue;
        }
        worker->has_link = false;
        worker->keep_pid = 0;
        worker->ended = true;
        if (event.kind == KEEP_EVENT_ENDED) {
            worker->status = event.status;
        } else {
            /* shoal-keep itself is gone: the slot is free when no process is left (daemon_workers_is_ending looks). */
            worker->is_lost = true;
            worker->status = (struct keep_status){.reason = KEEP_KILLED, .code = -1};
        }
        keep_close(&worker->link);
    }
    if (worker->last.is_taken) {
        settle(daemon, worker);
    }
}

/* ---- directories of ended workers ------------------------------------------------------------------------------ */

void daemon_workers_persisted(struct daemon *daemon)
{
    struct daemon_ended **link = &daemon->workers->ended;
    while (*link != NULL && !daemon->closed) { /* when closed, no job can remove directories; the next daemon finds them */
        struct daemon_ended *ended = *link;
        if (node_core_end_is_unwritten(daemon->core, &ended->attempt, ended->number) ||
            daemon_outputs_hold(daemon, ended->directory)) {
            link = &ended->next;
            continue;
        }
        *link = ended->next;
        daemon_workers_remove_later(daemon, ended->directory);
        free(ended);
    }
}

void daemon_workers_forget_ended(struct daemon *daemon)
{
    while (daemon->workers->ended != NULL) {
        struct daemon_ended *ended = daemon->workers->ended;
        daemon->workers->ended = ended->next;
        free(ended);
    }
}
