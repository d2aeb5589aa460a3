/* Finds GPUs of this machine that programs outside Shoal use, and how much each GPU that is a slot is used. Every 5 s a job
 * asks NVML about the slots without a worker of ours, every 2 s how much all of them are used; the core does not count a busy slot as free. A program that starts between two looks can still meet
 * a worker on its GPU: NVML lists programs, but keeps none out.
 *
 * A worker sees all GPUs of its attempt on this node, and may use memory on each of them. So when one rank of an attempt has
 * ended, the processes of the other ranks do not make its GPU busy: every descendant of a shoal-keep of ours is passed over. */

#include <stdlib.h>
#include <string.h>

#include "node/daemon/workers/workers.h"
#include "node/keep/processes.h"
#include "node/slots/nvml.h"

#define BUSY_CHECK_MS 5000
#define USE_CHECK_MS 2000 /* as often as the workers are looked at (look.c) */
#define ANCESTORS_MAX 64 /* against a loop while processes come and go */
#define ERRORS_MAX 256   /* of all GPUs in one look */

struct daemon_gpu_busy {
    struct job job;
    bool runs;
    uint64_t next_ms, busy_next_ms;
    const char *nvml_path;
    struct slots_nvml *nvml; /* only the job uses it; opened by the first job */
    const struct slot_info *slots;
    uint32_t count;
    uint32_t keeps[SLOTS_MAX]; /* the process ids of the shoal-keeps of running workers */
    uint32_t keep_count;
    uint32_t asked[SLOTS_MAX];
    bool is_known[SLOTS_MAX], is_busy[SLOTS_MAX]; /* of asked[i] */
    uint32_t gpus[SLOTS_MAX], gpu_count;
    bool has_use[SLOTS_MAX]; /* of gpus[i], as the next */
    struct slots_nvml_use uses[SLOTS_MAX];
    uint64_t errors[SLOTS_MAX]; /* of gpus[i], since the last look */
};

/* True for a descendant of a shoal-keep, which is the subreaper of all of them. */
static bool is_ours(void *context, uint32_t pid)
{
    const struct daemon_gpu_busy *busy = context;
    for (uint32_t level = 0; level < ANCESTORS_MAX && pid > 1; level++) {
        for (uint32_t i = 0; i < busy->keep_count; i++) {
            if (busy->keeps[i] == pid) {
                return true;
            }
        }
        struct keep_process process;
        pid = keep_process_read((pid_t)pid, &process) ? (uint32_t)process.parent : 0;
    }
    return false;
}

/* Errors of a GPU that is no slot as a whole, since it is split, are of no slot. */
static void take_errors(struct daemon_gpu_busy *busy)
{
    char uuid[SLOTS_NVML_UUID_BYTES];
    uint64_t xid;
    for (uint32_t taken = 0; taken < ERRORS_MAX && slots_nvml_next_error(busy->nvml, uuid, &xid); taken++) {
        for (uint32_t i = 0; i < busy->gpu_count; i++) {
            busy->errors[i] += strcmp(busy->slots[busy->gpus[i]].uuid, uuid) == 0;
        }
    }
}

static void busy_work(struct job *job)
{
    struct daemon_gpu_busy *busy = (struct daemon_gpu_busy *)job;
    char error[SLOTS_ERROR_BYTES];
    bool is_open = busy->nvml != NULL || slots_nvml_open(busy->nvml_path, &busy->nvml, error) == 0;
    for (uint32_t i = 0; i < busy->count; i++) {
        busy->is_known[i] =
            is_open && slots_nvml_busy(busy->nvml, busy->slots[busy->asked[i]].uuid, is_ours, busy, &busy->is_busy[i]) == 0;
    }
    for (uint32_t i = 0; i < busy->gpu_count; i++) {
        busy->has_use[i] = is_open && slots_nvml_use(busy->nvml, busy->slots[busy->gpus[i]].uuid, &busy->uses[i]) == 0;
        busy->errors[i] = 0;
    }
    if (is_open && slots_nvml_listen(busy->nvml)) {
        take_errors(busy);
    }
}

static void busy_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct daemon_gpu_busy *busy = (struct daemon_gpu_busy *)job;
    busy->runs = false;
    for (uint32_t i = 0; i < busy->gpu_count; i++) {
        slots_usage_set_gpu(&daemon->workers->usage, busy->gpus[i], busy->has_use[i], busy->uses[i].percent, busy->uses[i].memory_bytes);
        struct daemon_gpu *gpu = &daemon->workers->gpus[busy->gpus[i]];
        gpu->is_known = busy->has_use[i];
        gpu->use = busy->uses[i];
        gpu->errors += busy->errors[i];
        if (busy->errors[i] > 0) {
            daemon_line(daemon, "GPU %s (slot %u) reports %llu error%s (XID): see the kernel's log",
                        busy->slots[busy->gpus[i]].uuid, busy->gpus[i], (unsigned long long)busy->errors[i], busy->errors[i] == 1 ? "" : "s");
        }
    }
    for (uint32_t i = 0; i < busy->count; i++) {
        if (busy->is_known[i]) {
            struct node_event event = {.kind = NODE_EVENT_SLOT_BUSY};
            event.u.busy.slot = busy->asked[i];
            event.u.busy.is_busy = busy->is_busy[i];
            daemon_event(daemon, &event);
        }
    }
}

void daemon_gpu_busy_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_gpu_busy *busy = daemon->workers->gpu_busy;
    if (busy == NULL) {
        busy = daemon->workers->gpu_busy = calloc(1, sizeof *busy);
    }
    if (busy == NULL || busy->runs || now_ms < busy->next_ms) {
        return;
    }
    bool asks_busy = now_ms >= busy->busy_next_ms;
    busy->next_ms = now_ms + USE_CHECK_MS;
    busy->busy_next_ms = asks_busy ? now_ms + BUSY_CHECK_MS : busy->busy_next_ms;
    busy->count = busy->keep_count = busy->gpu_count = 0;
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        enum lease_state state = node_core_lease(daemon->core)->slots[slot].state;
        if (daemon->workers->slots[slot].keep_pid > 0) {
            busy->keeps[busy->keep_count++] = (uint32_t)daemon->workers->slots[slot].keep_pid;
        }
        if (daemon->slots[slot].kind == SLOT_CUDA) {
            busy->gpus[busy->gpu_count++] = slot;
        }
        if (asks_busy && daemon->slots[slot].kind == SLOT_CUDA && state != LEASE_LEASED && state != LEASE_RELEASING) {
            busy->asked[busy->count++] = slot;
        }
    }
    if (busy->gpu_count > 0) {
        busy->job = (struct job){.work = busy_work, .done = busy_done};
        busy->nvml_path = daemon->options.nvml_path;
        busy->slots = daemon->slots;
        busy->runs = true;
        jobs_run(daemon->file_jobs, &busy->job);
    }
}

void daemon_gpu_busy_close(struct daemon *daemon)
{
    if (daemon->workers->gpu_busy != NULL) {
        slots_nvml_close(&daemon->workers->gpu_busy->nvml);
        free(daemon->workers->gpu_busy);
        daemon->workers->gpu_busy = NULL;
    }
}
