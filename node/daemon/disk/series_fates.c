#include "node/daemon/disk/series_fates.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/render/experiment.h"

#define LOGS_LOOK_MS 10000

uint64_t daemon_logs_expire_s(const struct daemon *daemon, const struct view_experiment *experiment)
{
    bool may_expire = experiment->known && experiment->config->logs_keep_s > 0 && view_experiment_over(experiment) &&
                      !view_experiment_pinned(experiment);
    uint64_t ended_s = may_expire ? render_experiment_ended_s(daemon->core, experiment) : 0;
    return ended_s > 0 ? ended_s + experiment->config->logs_keep_s : 0;
}

bool daemon_logs_expired(const struct daemon *daemon, const struct view_experiment *experiment)
{
    uint64_t expire_s = daemon_logs_expire_s(daemon, experiment);
    return expire_s > 0 && daemon_wall_ms() / 1000 >= expire_s;
}

static int compare_fates(const void *a, const void *b)
{
    return memcmp(((const struct series_fate *)a)->experiment.bytes, ((const struct series_fate *)b)->experiment.bytes,
                  EXPERIMENT_ID_BYTES);
}

static void add(struct series_fates *fates, experiment_id experiment, enum series_fate_kind kind)
{
    fates->rows[fates->count++] = (struct series_fate){.experiment = experiment, .kind = kind};
}

bool series_fates_make(const struct daemon *daemon, bool all, struct series_fates *out)
{
    const struct view *view = node_core_view(daemon->core);
    struct series_fates fates = {.rows = calloc((size_t)view->tombstone_count + view->experiment_count + 1, sizeof fates.rows[0])};
    if (fates.rows == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < view->tombstone_count && all; i++) {
        add(&fates, view->tombstones[i].experiment, SERIES_DELETED);
    }
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        if (daemon_logs_expired(daemon, experiment)) {
            add(&fates, experiment->id, SERIES_LOGS_DELETED);
        } else if (all && experiment->known && view_experiment_over(experiment)) {
            add(&fates, experiment->id, SERIES_LOGS_PACKED);
        }
    }
    qsort(fates.rows, fates.count, sizeof fates.rows[0], compare_fates);
    *out = fates;
    return true;
}

struct applying {
    const struct series_fates *fates;
    struct chunks *chunks;
};

/* A series' prefix is a letter and the attempt's key, which begins with the experiment id. */
static int apply(void *context, const uint8_t *prefix, size_t prefix_bytes)
{
    const struct applying *applying = context;
    struct series_fate wanted = {.kind = SERIES_DELETED};
    if (prefix_bytes <= EXPERIMENT_ID_BYTES || applying->fates->count == 0) {
        return 0;
    }
    memcpy(wanted.experiment.bytes, prefix + 1, EXPERIMENT_ID_BYTES);
    const struct series_fate *fate =
        bsearch(&wanted, applying->fates->rows, applying->fates->count, sizeof wanted, compare_fates);
    bool is_log = prefix[0] == 'l' || prefix[0] == 'w';
    if (fate == NULL || (fate->kind != SERIES_DELETED && !is_log)) {
        return 0;
    }
    return fate->kind == SERIES_LOGS_PACKED ? series_pack(applying->chunks, prefix, prefix_bytes, true)
                                            : series_delete(applying->chunks, prefix, prefix_bytes);
}

int series_fates_apply(const struct series_fates *fates, struct chunks *chunks)
{
    struct applying applying = {fates, chunks};
    return series_each(chunks, apply, &applying);
}

void series_fates_free(struct series_fates *fates)
{
    free(fates->rows);
    *fates = (struct series_fates){.rows = NULL};
}

/* ---- now and then ---- */

struct expiry_job {
    struct job job;
    struct chunks *chunks;
    struct series_fates fates;
    int code;
};

static void expiry_work(struct job *job)
{
    struct expiry_job *expiry = (struct expiry_job *)job;
    expiry->code = series_fates_apply(&expiry->fates, expiry->chunks);
}

static void expiry_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct expiry_job *expiry = (struct expiry_job *)job;
    if (expiry->code != 0) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_FAILED),
                       "logs whose time is over (logs.keep) could not be deleted: %s", err_text(expiry->code));
    }
    series_fates_free(&expiry->fates);
    free(expiry);
}

static void expire(struct daemon *daemon)
{
    struct expiry_job *expiry = calloc(1, sizeof *expiry);
    if (expiry == NULL || !series_fates_make(daemon, false, &expiry->fates)) {
        free(expiry);
        return; /* the next collection does it */
    }
    expiry->chunks = daemon->chunks;
    expiry->job = (struct job){.work = expiry_work, .done = expiry_done};
    jobs_run(daemon->idle_jobs, &expiry->job);
}

/* Tells the bulk's thread which experiments have bounds of their own. */
static void set_bounds(struct daemon *daemon)
{
    const struct view *view = node_core_view(daemon->core);
    size_t count = 0;
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        count += experiment->known && experiment->config->logs_max_bytes != LOG_BYTES_STANDARD;
    }
    struct log_bound *rows = count > 0 ? calloc(count, sizeof *rows) : NULL;
    size_t used = 0;
    for (uint32_t i = 0; i < view->experiment_count && rows != NULL; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        if (experiment->known && experiment->config->logs_max_bytes != LOG_BYTES_STANDARD) {
            rows[used++] = (struct log_bound){.experiment = experiment->id, .bytes_max = experiment->config->logs_max_bytes};
        }
    }
    log_bounds_set(&daemon->disk->log_bounds, rows, used);
}

void daemon_logs_tick(struct daemon *daemon, uint64_t now_ms)
{
    set_bounds(daemon);
    if (now_ms < daemon->disk->logs_ms) {
        return;
    }
    daemon->disk->logs_ms = now_ms + LOGS_LOOK_MS;
    const struct view *view = node_core_view(daemon->core);
    uint64_t now_s = daemon_wall_ms() / 1000, before_s = daemon->disk->logs_looked_s;
    bool is_due = false;
    for (uint32_t i = 0; i < view->experiment_count && !is_due; i++) {
        uint64_t expire_s = daemon_logs_expire_s(daemon, view->experiments[i]);
        is_due = expire_s > before_s && expire_s <= now_s;
    }
    daemon->disk->logs_looked_s = now_s;
    if (is_due) {
        expire(daemon);
    }
}
