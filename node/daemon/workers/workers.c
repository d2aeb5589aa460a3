/* The worker of each slot: its state, its directory and lock, the effects of the core, deadlines and the tick. A worker's way:
 * launch.c fetches, unpacks and spawns; log.c and series.c collect output and metrics; end.c stops it and takes its end.
 * adopt.c finds the workers of earlier daemons, and requests come in through api/worker.c. */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/shift.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/workers/end.h"
#include "node/daemon/workers/event_files.h"
#include "node/daemon/workers/launch.h"
#include "node/daemon/workers/log_match.h"
#include "node/daemon/workers/packages.h"
#include "node/daemon/workers/searcher.h"
#include "node/daemon/workers/warm.h"
#include "node/daemon/workers/workers.h"

/* ---- states ---------------------------------------------------------------------------------------------------- */

void worker_move(struct daemon_worker *worker, enum worker_state to)
{
    CHECK(worker_state_may(worker->state, to));
    worker->state = to;
}

void worker_clear(struct daemon_worker *worker)
{
    worker_move(worker, WORKER_NONE);
    daemon_workers_forget_spawn(worker);
    event_files_forget(worker);
    log_match_close(worker);
    if (worker->port_fd != 0) {
        (void)close(worker->port_fd);
    }
    texts_params_free(&worker->params);
    memset(worker, 0, sizeof *worker);
}

bool worker_is(const struct daemon_worker *worker, enum worker_state state, const attempt_id *attempt)
{
    return worker->state == state && attempt_id_equal(&worker->prepare.u.worker.attempt, attempt);
}

/* ---- directories ----------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    (void)remove(path);
    return 0;
}

void worker_directory_remove(const char *directory)
{
    (void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct remove_job {
    struct job job;
    char directory[KEEP_PATH_BYTES];
};

static void remove_work(struct job *job)
{
    const char *directory = ((struct remove_job *)job)->directory;
    if (!daemon_outputs_move_aside(directory)) {
        worker_directory_remove(directory);
    }
}

static void remove_done(void *context, struct job *job)
{
    (void)context;
    free(job);
}

void daemon_workers_remove_later(struct daemon *daemon, const char *directory)
{
    /* When closed, the next daemon finds the directory. */
    struct remove_job *remover = daemon->closed ? NULL : calloc(1, sizeof *remover);
    if (remover != NULL) {
        remover->job = (struct job){.work = remove_work, .done = remove_done};
        bytes_copy_text(remover->directory, sizeof remover->directory, directory);
        jobs_run(daemon->file_jobs, &remover->job);
    }
}

void daemon_workers_lock_path(const struct daemon *daemon, uint32_t slot, char *out, size_t size)
{
    /* All daemons of this user share the machine's GPUs; a CPU slot belongs to one daemon. */
    if (daemon->slots[slot].kind == SLOT_CUDA) {
        (void)snprintf(out, size, "/tmp/shoal-%u-%.60s.lock", (unsigned)getuid(), daemon->slots[slot].uuid);
    } else {
        (void)snprintf(out, size, "%.900s/slot-%u.lock", daemon->dir, slot);
    }
}

void daemon_workers_close(struct daemon *daemon)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (worker->port_fd != 0) {
            (void)close(worker->port_fd);
            worker->port_fd = 0;
        }
        if (worker->state == WORKER_INSTALLING) {
            packages_kill(worker->packages_pid);
        }
        daemon_workers_forget_spawn(worker);
        texts_params_free(&worker->params);
        event_files_forget(worker);
        log_match_close(worker);
    }
    daemon_searcher_close(daemon);
    daemon_warm_close(daemon);
    free(daemon->workers->port_uses);
    daemon->workers->port_uses = NULL;
    daemon_workers_forget_ended(daemon);
}

/* ---- effects --------------------------------------------------------------------------------------------------- */

void daemon_workers_effect(struct daemon *daemon, const struct node_effect *effect)
{
    switch (effect->kind) {
    case NODE_EFFECT_PREPARE:
        daemon_workers_prepare(daemon, effect);
        break;
    case NODE_EFFECT_SPAWN:
        daemon_workers_spawn(daemon, effect);
        break;
    default: /* NODE_EFFECT_KILL */
        daemon_workers_kill(daemon, effect->u.worker.slot, &effect->u.worker.attempt, effect->u.worker.grace_ms,
                            effect->u.worker.stacks);
        break;
    }
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

void daemon_workers_awake(struct daemon *daemon, uint64_t now_ms)
{
    /* No worker can meet a deadline while the machine is suspended or the daemon is stopped: deadlines move by the gap
     * (docs/design.md 5). */
    uint64_t gap_ms = daemon->workers->awake_ms != 0 ? now_ms - daemon->workers->awake_ms : 0;
    daemon->workers->awake_ms = now_ms;
    for (uint32_t slot = 0; slot < daemon->slot_count && gap_ms > CORE_STALL_MS; slot++) {
        time_shift(&daemon->workers->slots[slot].kill_at_ms, gap_ms);
        time_shift(&daemon->workers->slots[slot].term_at_ms, gap_ms);
        time_shift(&daemon->workers->slots[slot].connects_until_ms, gap_ms);
        time_shift(&daemon->workers->slots[slot].port_until_ms, gap_ms);
        worker_stall_shift(&daemon->workers->slots[slot].stall, gap_ms);
    }
    if (gap_ms > CORE_STALL_MS) {
        daemon_warm_awake(daemon, gap_ms);
        tally_shift(&daemon->workers->tally, gap_ms);
        daemon_outputs_awake(daemon, gap_ms, now_ms);
    }
}

void daemon_workers_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (!node_core_is_prepared(daemon->core, slot, &worker->prepare.u.worker.attempt)) {
            daemon_workers_forget_prepared(daemon, worker); /* the lease ended before the start */
        }
        if (worker->state == WORKER_UNPACKING && worker->port_until_ms != 0) {
            daemon_workers_seek_port(daemon, slot, now_ms);
        }
        if (worker->state == WORKER_FETCHING) {
            daemon_workers_leave_fetch(daemon, slot);
        }
        if (worker->state == WORKER_INSTALLING) {
            daemon_workers_follow_packages(daemon, slot);
        }
        if (worker->state != WORKER_RUNNING) {
            continue;
        }
        if (worker->ended) {
            daemon_workers_poll(daemon, slot);
            continue;
        }
        if (now_ms >= worker->renew_ms) {
            worker->renew_ms = now_ms + LEASE_MS / 3;
            (void)keep_renew(&worker->link);
        }
        worker_repeat_orders(worker, now_ms);
        daemon_workers_log(daemon, slot);
    }
    daemon_searcher_tick(daemon, now_ms);
    daemon_warm_tick(daemon, now_ms);
}

void daemon_workers_deliver_ended(struct daemon *daemon)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        if (daemon->workers->slots[slot].state == WORKER_RUNNING) {
            daemon_series_progress(daemon, &daemon->workers->slots[slot], 0);
        }
    }
    daemon_workers_tick(daemon, daemon_now_ms());
}
