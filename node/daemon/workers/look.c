/* Looks at the processes of this node's workers every few seconds, for workers that hang (stall.h) and for what workers use (profile.h).
 * A job reads /proc, since a machine may have thousands of processes. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/daemon/workers/workers.h"
#include "node/keep/processes.h"
#include "node/keep/sockets.h"

#define LOOK_MS 2000

struct daemon_look {
    struct job job;
    bool runs;
    uint64_t next_ms;
    struct {
        attempt_id attempt;
        struct profile_counters counters; /* at_ms 0: it was not looked at */
    } last[SLOTS_MAX];
    struct {
        attempt_id attempt;
        int32_t keep_pid; /* 0: no worker */
        struct profile_counters counters;
        bool is_there, is_suspended;
    } of[SLOTS_MAX];
    struct keep_socket *sockets; /* of this look, if has_sockets */
    size_t socket_count;
    bool has_sockets;
    struct keep_socket *sockets_before; /* of the look before */
    size_t before_count;
};

static int by_pid(const void *a, const void *b)
{
    const struct keep_process *one = a, *other = b;
    return one->pid < other->pid ? -1 : one->pid > other->pid;
}

/* The worker that a process belongs to: that of the shoal-keep above it. */
static uint32_t slot_of(const struct daemon_look *look, const struct keep_process *all, size_t count,
                        const struct keep_process *process)
{
    for (uint32_t steps = 0; process != NULL && steps < 64; steps++) {
        for (uint32_t slot = 0; slot < SLOTS_MAX; slot++) {
            if (look->of[slot].keep_pid != 0 && look->of[slot].keep_pid == process->parent) {
                return slot;
            }
        }
        const struct keep_process wanted = {.pid = process->parent};
        process = bsearch(&wanted, all, count, sizeof *all, by_pid);
    }
    return SLOTS_MAX;
}

/* Of connections, in the counters of one worker. */
struct counting {
    struct daemon_look *look;
    struct profile_counters *counters;
};

/* Adds what a connection has carried since the last look; of a new one all. Processes may share it: it counts once. */
static void count_socket(void *context, uint64_t inode)
{
    const struct counting *counting = context;
    struct daemon_look *look = counting->look;
    struct keep_socket *found = keep_sockets_find(look->sockets, look->socket_count, inode);
    if (found == NULL || found->mark) {
        return;
    }
    static const struct keep_socket none;
    const struct keep_socket *before = keep_sockets_find(look->sockets_before, look->before_count, inode);
    bool goes_on = before != NULL && before->sent_bytes <= found->sent_bytes && before->received_bytes <= found->received_bytes;
    before = goes_on ? before : &none; /* else the number was given to another one */
    found->mark = true;
    counting->counters->sent_bytes += found->sent_bytes - before->sent_bytes;
    counting->counters->received_bytes += found->received_bytes - before->received_bytes;
}

static void count_process(struct daemon_look *look, struct profile_counters *counters, const struct keep_process *process)
{
    uint64_t ticks_per_s = (uint64_t)sysconf(_SC_CLK_TCK), page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t read_bytes, written_bytes;
    counters->cpu_ms += process->cpu_ticks * 1000 / ticks_per_s;
    counters->memory_bytes += process->resident_pages * page_bytes;
    if (keep_process_io(process->pid, &read_bytes, &written_bytes)) {
        counters->has_io = true;
        counters->read_bytes += read_bytes;
        counters->written_bytes += written_bytes;
    }
    if (look->has_sockets) {
        counters->has_network = true;
        keep_sockets_of(process->pid, count_socket, &(struct counting){look, counters});
    }
}

/* Where the kernel does not tell now, what it told last stays the one to compare with. */
static void look_at_sockets(struct daemon_look *look)
{
    struct keep_socket *sockets;
    size_t count;
    look->has_sockets = keep_sockets_list(&sockets, &count);
    if (look->has_sockets) {
        free(look->sockets_before);
        look->sockets_before = look->sockets;
        look->before_count = look->socket_count;
        look->sockets = sockets;
        look->socket_count = count;
    }
}

static void look_work(struct job *job)
{
    struct daemon_look *look = (struct daemon_look *)job;
    struct keep_process *all;
    uint64_t looked_ms = daemon_now_ms();
    look_at_sockets(look);
    size_t count = keep_processes_list(&all);
    if (count > 0) {
        qsort(all, count, sizeof *all, by_pid);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = slot_of(look, all, count, &all[i]);
        if (slot < SLOTS_MAX) {
            look->of[slot].is_there = true;
            look->of[slot].counters.at_ms = looked_ms;
            count_process(look, &look->of[slot].counters, &all[i]);
            look->of[slot].is_suspended |= all[i].state == 'T';
        }
    }
    free(all);
}

static struct worker_stall_state look_at(const struct daemon *daemon, const struct daemon_worker *worker, uint64_t now_ms)
{
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), worker->prepare.u.worker.attempt.experiment);
    const struct config *config = experiment != NULL && experiment->known ? experiment->config : NULL;
    return worker_stall_look(&worker->stall, now_ms, config != NULL ? (uint64_t)config->stall_timeout_s * 1000 : 0,
                      config != NULL ? (uint64_t)config->exit_barrier_s * 1000 : 0);
}

/* Notes what the worker uses. Its processor time since the last look; that of a process that has ended since is lost. What its
 * connections carried is a sum from the first look on: of a look it has only the difference. */
static struct profile_sample note_usage(struct daemon *daemon, struct daemon_look *look, uint32_t slot)
{
    struct profile_counters *now = &look->of[slot].counters;
    bool goes_on = attempt_id_equal(&look->last[slot].attempt, &look->of[slot].attempt);
    struct profile_counters before = goes_on ? look->last[slot].counters : (struct profile_counters){0};
    now->sent_bytes += before.sent_bytes;
    now->received_bytes += before.received_bytes;
    struct profile_sample sample = profile_between(&before, now);
    bool is_there = look->of[slot].is_there;
    slots_usage_set_worker(&daemon->workers->usage, slot, is_there, (uint64_t)(sample.values[PROFILE_CPU] * 10), now->memory_bytes);
    look->last[slot].attempt = look->of[slot].attempt;
    look->last[slot].counters = is_there ? *now : (struct profile_counters){0};
    return sample;
}

static void look_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct daemon_look *look = (struct daemon_look *)job;
    uint64_t now_ms = daemon_now_ms();
    look->runs = false;
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        struct profile_sample sample = note_usage(daemon, look, slot);
        bool is_same = worker->state == WORKER_RUNNING && !worker->ended && look->of[slot].is_there &&
                       attempt_id_equal(&worker->prepare.u.worker.attempt, &look->of[slot].attempt);
        if (!is_same) {
            continue;
        }
        daemon_series_sample(daemon, worker, slot, &sample);
        worker_stall_sample(&worker->stall, now_ms, look->of[slot].counters.cpu_ms, look->of[slot].is_suspended);
        struct worker_stall_state state = look_at(daemon, worker, now_ms);
        if (state.stall == worker->stall_told.stall && state.is_overdue == worker->stall_told.is_overdue &&
            state.is_past_barrier == worker->stall_told.is_past_barrier) {
            continue;
        }
        worker->stall_told = state;
        struct node_event event = {.kind = NODE_EVENT_WORKER_STALL};
        event.u.worker.slot = slot;
        event.u.worker.attempt = worker->prepare.u.worker.attempt;
        event.u.worker.stall = state.stall;
        event.u.worker.stall_s = (daemon_wall_ms() - (now_ms - state.since_ms)) / 1000;
        event.u.worker.is_overdue = state.is_overdue;
        event.u.worker.is_past_barrier = state.is_past_barrier;
        daemon_event(daemon, &event);
    }
}

void daemon_look_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_look *look = daemon->workers->look;
    if (look == NULL) {
        look = daemon->workers->look = calloc(1, sizeof *look);
    }
    if (look == NULL || look->runs || now_ms < look->next_ms) {
        return;
    }
    look->next_ms = now_ms + LOOK_MS;
    bool any = false;
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        const struct daemon_worker *worker = &daemon->workers->slots[slot];
        bool runs = worker->state == WORKER_RUNNING && !worker->ended;
        memset(&look->of[slot], 0, sizeof look->of[slot]);
        look->of[slot].keep_pid = runs ? worker->keep_pid : 0;
        look->of[slot].attempt = worker->prepare.u.worker.attempt;
        any |= look->of[slot].keep_pid != 0;
    }
    if (!any) {
        for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
            (void)note_usage(daemon, look, slot);
        }
    }
    if (any) {
        look->job = (struct job){.work = look_work, .done = look_done};
        look->runs = true;
        jobs_run(daemon->file_jobs, &look->job);
    }
}

void daemon_look_close(struct daemon *daemon)
{
    if (daemon->workers->look != NULL) {
        free(daemon->workers->look->sockets);
        free(daemon->workers->look->sockets_before);
    }
    free(daemon->workers->look);
    daemon->workers->look = NULL;
}
