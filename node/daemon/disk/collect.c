/* Garbage: the core names the blobs to keep; the idle thread deletes all other chunks, and the series of deleted
 * experiments (series_fates.h). */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/disk/series_fates.h"

/* ---- confirmations --------------------------------------------------------------------------------------------- */

struct daemon_confirm {
    struct daemon_confirm *next;
    uint64_t request;
    hash256 blob;
    node_id node;
};

static void confirmed(struct daemon *daemon, hash256 blob, node_id node, int code)
{
    struct node_event event = {.kind = NODE_EVENT_CONFIRMED};
    event.u.blob.blob = blob;
    event.u.blob.node = node;
    event.u.blob.ok = code == 0;
    event.u.blob.is_missing = code == ERR_NOT_FOUND || code == ERR_CORRUPT;
    daemon_event(daemon, &event);
}

void daemon_confirm_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_confirm *confirm = calloc(1, sizeof *confirm);
    uint64_t request = ++daemon->request_id;
    if (confirm == NULL || bulk_verify(daemon->bulk, request, effect->u.push.blob, effect->u.push.to) != 0) {
        free(confirm);
        confirmed(daemon, effect->u.push.blob, effect->u.push.to, ERR_MEMORY);
        return;
    }
    *confirm = (struct daemon_confirm){daemon->disk->confirms, request, effect->u.push.blob, effect->u.push.to};
    daemon->disk->confirms = confirm;
}

void daemon_collect_verified(struct daemon *daemon, uint64_t request, int code)
{
    struct daemon_confirm **link = &daemon->disk->confirms;
    while (*link != NULL && (*link)->request != request) {
        link = &(*link)->next;
    }
    struct daemon_confirm *confirm = *link;
    if (confirm != NULL) {
        *link = confirm->next;
        confirmed(daemon, confirm->blob, confirm->node, code);
        free(confirm);
    }
}

void daemon_collect_close(struct daemon *daemon)
{
    while (daemon->disk->confirms != NULL) {
        struct daemon_confirm *confirm = daemon->disk->confirms;
        daemon->disk->confirms = confirm->next;
        free(confirm);
    }
}

/* ---- collection ------------------------------------------------------------------------------------------------ */

struct collect_job {
    struct job job;
    struct chunks *chunks;
    hash256 *kept;
    size_t kept_count;
    struct series_fates fates;
    uint32_t idle_s;
    struct chunks_collected collected;
    int code;
};

static void collect_work(struct job *job)
{
    struct collect_job *collect = (struct collect_job *)job;
    collect->code = chunks_collect(collect->chunks, collect->kept, collect->kept_count, collect->idle_s,
                                   &collect->collected);
    int code = series_fates_apply(&collect->fates, collect->chunks);
    collect->code = collect->code != 0 ? collect->code : code;
}

static void collect_free(struct collect_job *collect)
{
    free(collect->kept);
    series_fates_free(&collect->fates);
    free(collect);
}

static void collect_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct collect_job *collect = (struct collect_job *)job;
    daemon->disk->is_collecting = false;
    if (collect->collected.chunks > 0) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_COLLECTED), "%llu unneeded chunks were deleted, %llu MiB",
                       (unsigned long long)collect->collected.chunks,
                       (unsigned long long)(collect->collected.bytes + (1u << 20) - 1) >> 20);
        daemon->disk->check_ms = 0;
    }
    for (uint32_t i = 0; i < collect->collected.damaged_count && !daemon->closed; i++) {
        /* The event BULK_CORRUPT prints a line and starts the repair. */
        (void)bulk_discard(daemon->bulk, collect->collected.damaged[i]);
    }
    if (collect->code != 0) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_FAILED),
                       "unneeded chunks could not be deleted: %s", err_text(collect->code));
    }
    collect_free(collect);
}

void daemon_collect_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct collect_job *collect = daemon->disk->is_collecting ? NULL : calloc(1, sizeof *collect);
    if (collect == NULL) {
        return; /* the core asks again in some minutes */
    }
    collect->kept_count = effect->byte_count / HASH_BYTES;
    collect->kept = malloc(effect->byte_count + 1);
    if (collect->kept == NULL || !series_fates_make(daemon, true, &collect->fates)) {
        collect_free(collect);
        return;
    }
    memcpy(collect->kept, effect->bytes, effect->byte_count);
    collect->idle_s = effect->u.collect.idle_s;
    collect->chunks = daemon->chunks;
    collect->job = (struct job){.work = collect_work, .done = collect_done};
    daemon->disk->is_collecting = true;
    jobs_run(daemon->idle_jobs, &collect->job);
}
