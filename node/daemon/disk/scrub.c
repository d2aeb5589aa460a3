/* Bits rot. So all chunks of this disk are read again, slowly, and compared with their hashes. A damaged chunk is
 * dropped, and every blob that this node should hold and that lacks a chunk is fetched again from other holders. Damage
 * found by other readers of this disk (bulk transfer, a worker that loads a checkpoint) is repaired in the same way. */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/peers/peers.h"

#define SCRUB_FIRST_MS 30000             /* from the start to the first pass */
#define SCRUB_REST_MS (24ull * 3600000)  /* between two passes */
#define SCRUB_SECOND_BYTES (4u << 20)    /* read in a second, and at most one chunk more */
#define REPAIR_SOON_MS 2000              /* from a dropped chunk to the repair: more chunks may be damaged */
#define REPAIR_AGAIN_MS 600000           /* from a failed repair to the next try */
#define REPAIRS_MAX 8                    /* most fetches at a time */
#define DAMAGED_MAX 8                    /* most damaged chunks reported by one job; the next pass finds the rest */

/* ---- reading --------------------------------------------------------------------------------------------------- */

struct scrub_job {
    struct job job;
    struct chunks *chunks;
    hash256 at;
    uint64_t bytes;
    hash256 damaged[DAMAGED_MAX];
    uint32_t damaged_count;
    bool is_end;
    int code;
};

static void scrub_work(struct job *job)
{
    struct scrub_job *scrub = (struct scrub_job *)job;
    uint8_t *buffer = malloc(BLOB_CHUNK_BYTES_MAX);
    scrub->code = buffer == NULL ? ERR_MEMORY : 0;
    while (scrub->code == 0 && scrub->bytes < SCRUB_SECOND_BYTES && scrub->damaged_count < DAMAGED_MAX) {
        size_t count;
        scrub->code = chunks_next(scrub->chunks, scrub->at, &scrub->at, &count);
        scrub->is_end = scrub->code == ERR_NOT_FOUND;
        if (scrub->code != 0) {
            break;
        }
        scrub->bytes += count;
        int found = chunks_get(scrub->chunks, scrub->at, buffer, BLOB_CHUNK_BYTES_MAX, &count);
        if (found == ERR_CORRUPT) {
            scrub->damaged[scrub->damaged_count++] = scrub->at;
        } else if (found != 0 && found != ERR_NOT_FOUND) { /* ERR_NOT_FOUND: collected meanwhile */
            scrub->code = found;
        }
    }
    free(buffer);
}

static void scrub_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct scrub_job *scrub = (struct scrub_job *)job;
    uint64_t now_ms = daemon_now_ms();
    daemon->disk->scrub.is_busy = false;
    daemon->disk->scrub.at = scrub->at;
    daemon->disk->scrub.checked_bytes += scrub->bytes;
    daemon->disk->scrub.next_ms = now_ms;
    for (uint32_t i = 0; i < scrub->damaged_count && !daemon->closed; i++) {
        (void)bulk_discard(daemon->bulk, scrub->damaged[i]); /* the event BULK_CORRUPT prints a line and starts the repair */
    }
    if (scrub->is_end) {
        daemon->disk->scrub.passes++;
        daemon->disk->scrub.has_begun = false;
        daemon->disk->scrub.next_ms = now_ms + SCRUB_REST_MS;
        daemon->disk->scrub.repair_ms = now_ms; /* finds blobs that are missing altogether: no reader comes upon them */
    } else if (scrub->code != 0) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_FAILED),
                       "the chunks of this disk could not be checked: %s", err_text(scrub->code));
        daemon->disk->scrub.next_ms = now_ms + REPAIR_AGAIN_MS;
    }
    free(scrub);
}

static void scrub_begin(struct daemon *daemon)
{
    struct scrub_job *scrub = calloc(1, sizeof *scrub);
    if (scrub == NULL) {
        return;
    }
    if (!daemon->disk->scrub.has_begun) {
        daemon->disk->scrub.has_begun = true;
        memset(&daemon->disk->scrub.at, 0, sizeof daemon->disk->scrub.at);
    }
    scrub->chunks = daemon->chunks;
    scrub->at = daemon->disk->scrub.at;
    scrub->job = (struct job){.work = scrub_work, .done = scrub_done};
    daemon->disk->scrub.is_busy = true;
    jobs_run(daemon->idle_jobs, &scrub->job);
}

/* ---- repair ----------------------------------------------------------------------------------------------------- */

struct daemon_repair {
    struct daemon_repair *next;
    uint64_t request;
    hash256 blob;
    uint32_t living; /* holders alive when the fetch began */
};

struct wanted_blob {
    hash256 blob;
    bool must_be_here;
    bool is_broken;
    uint32_t holder_count;
    node_id holders[BLOB_HOLDERS_MAX];
};

struct repair_job {
    struct job job;
    struct chunks *chunks;
    uint32_t count, capacity;
    struct wanted_blob *blobs;
};

static struct wanted_blob *wanted_add(struct repair_job *repair, hash256 blob)
{
    if (hash256_is_none(blob)) {
        return NULL;
    }
    if (repair->count == repair->capacity) {
        uint32_t capacity = repair->capacity == 0 ? 64 : repair->capacity * 2;
        struct wanted_blob *bigger = realloc(repair->blobs, capacity * sizeof *bigger);
        if (bigger == NULL) {
            return NULL;
        }
        repair->blobs = bigger;
        repair->capacity = capacity;
    }
    struct wanted_blob *wanted = &repair->blobs[repair->count++];
    memset(wanted, 0, sizeof *wanted);
    wanted->blob = blob;
    return wanted;
}

/* Adds code to the list of blobs to check. A node holds code that was pushed to it or that its workers needed, so
 * absent code is no damage; except if the blob's list of chunks was dropped here as damaged. */
static void wanted_code(const struct daemon *daemon, struct repair_job *repair, const struct view_experiment *experiment,
                        hash256 blob)
{
    struct wanted_blob *wanted = wanted_add(repair, blob);
    if (wanted == NULL) {
        return;
    }
    for (uint32_t i = 0; i < daemon->disk->scrub.lost_count && i < DAEMON_LOST_MAX; i++) {
        wanted->must_be_here |= hash256_equal(daemon->disk->scrub.lost[i], blob);
    }
    _Static_assert(DAEMON_HOLDERS_MAX <= BLOB_HOLDERS_MAX, "all likely holders fit");
    wanted->holder_count = daemon_holders_code(daemon, experiment->id, 0, wanted->holders);
}

static void wanted_checkpoint(const struct daemon *daemon, struct repair_job *repair, const struct view_manifest *checkpoint)
{
    bool is_ours = false;
    for (uint32_t i = 0; i < checkpoint->holder_count; i++) {
        is_ours |= node_id_equal(checkpoint->holders[i], daemon->keys.id);
    }
    struct wanted_blob *wanted = is_ours ? wanted_add(repair, checkpoint->blob) : NULL;
    if (wanted != NULL) {
        wanted->must_be_here = true;
        wanted->holder_count = checkpoint->holder_count;
        memcpy(wanted->holders, checkpoint->holders, checkpoint->holder_count * sizeof checkpoint->holders[0]);
    }
}

static void wanted_checkpoints(const struct daemon *daemon, struct repair_job *repair, const struct view_trial *trial)
{
    struct view_manifest checkpoint;
    for (const struct view_manifest *row = trial->manifests; node_core_next_checkpoint(daemon->core, &row, &checkpoint);) {
        if (checkpoint.set == NULL) {
            wanted_checkpoint(daemon, repair, &checkpoint);
        }
    }
    for (const struct view_set *set = trial->sets; set != NULL; set = set->next) {
        for (uint32_t part = 0; part < set->key.count; part++) {
            if (node_core_part(daemon->core, set, part, &checkpoint)) {
                wanted_checkpoint(daemon, repair, &checkpoint);
            }
        }
    }
}

static void repair_work(struct job *job)
{
    struct repair_job *repair = (struct repair_job *)job;
    for (uint32_t i = 0; i < repair->count; i++) {
        struct wanted_blob *wanted = &repair->blobs[i];
        uint32_t missing = 0;
        int code = chunks_blob_missing(repair->chunks, wanted->blob, NULL, 0, &missing);
        wanted->is_broken = (code == 0 && missing > 0) || (code == ERR_NOT_FOUND && wanted->must_be_here);
    }
}

/* Makes the next search for damaged blobs due at `when_ms` at the latest. */
static void repair_at(struct daemon *daemon, uint64_t when_ms)
{
    if (daemon->disk->scrub.repair_ms == 0 || when_ms < daemon->disk->scrub.repair_ms) {
        daemon->disk->scrub.repair_ms = when_ms;
    }
}

static void fetch_again(struct daemon *daemon, const struct wanted_blob *wanted)
{
    uint64_t now_ms = daemon_now_ms();
    uint32_t count = 0, living = 0;
    for (uint32_t i = 0; i < wanted->holder_count; i++) {
        living += node_core_is_alive(daemon->core, wanted->holders[i]);
    }
    if (!repair_queue_may(&daemon->disk->scrub.queue, now_ms, wanted->blob, living)) {
        repair_at(daemon, now_ms + REPAIR_AGAIN_MS); /* holders may be alive again by then */
        return;
    }
    for (const struct daemon_repair *repair = daemon->disk->scrub.repairs; repair != NULL; repair = repair->next) {
        if (hash256_equal(repair->blob, wanted->blob)) {
            return;
        }
        count++;
    }
    struct daemon_repair *repair = count < REPAIRS_MAX ? calloc(1, sizeof *repair) : NULL;
    uint64_t request = ++daemon->request_id;
    if (repair == NULL ||
        bulk_fetch(daemon->bulk, request, wanted->blob, wanted->holders, wanted->holder_count) != 0) {
        free(repair);
        repair_at(daemon, now_ms + REPAIR_SOON_MS); /* all places are taken: by then some fetches have ended */
        return;
    }
    *repair = (struct daemon_repair){daemon->disk->scrub.repairs, request, wanted->blob, living};
    daemon->disk->scrub.repairs = repair;
}

static void repair_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct repair_job *repair = (struct repair_job *)job;
    daemon->disk->scrub.is_repairing = false;
    for (uint32_t i = 0; i < repair->count && !daemon->closed; i++) {
        if (repair->blobs[i].is_broken) {
            fetch_again(daemon, &repair->blobs[i]);
        }
    }
    free(repair->blobs);
    free(repair);
}

static void repair_begin(struct daemon *daemon)
{
    struct repair_job *repair = calloc(1, sizeof *repair);
    if (repair == NULL) {
        return;
    }
    daemon->disk->scrub.repair_ms = 0;
    const struct view *view = node_core_view(daemon->core);
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        if (experiment->known) {
            wanted_code(daemon, repair, experiment, experiment->code);
            wanted_code(daemon, repair, experiment, experiment->config_text);
        }
        for (uint32_t t = 0; t < experiment->trial_slots; t++) {
            if (experiment->trials[t] != NULL) {
                wanted_checkpoints(daemon, repair, experiment->trials[t]);
            }
        }
    }
    repair->chunks = daemon->chunks;
    repair->job = (struct job){.work = repair_work, .done = repair_done};
    daemon->disk->scrub.is_repairing = true;
    jobs_run(daemon->idle_jobs, &repair->job);
}

void daemon_scrub_fetched(struct daemon *daemon, uint64_t request, int code, const char *text)
{
    struct daemon_repair **link = &daemon->disk->scrub.repairs;
    while (*link != NULL && (*link)->request != request) {
        link = &(*link)->next;
    }
    struct daemon_repair *repair = *link;
    if (repair == NULL) {
        return;
    }
    *link = repair->next;
    char hex[17];
    bytes_to_hex(hex, repair->blob.bytes, 8);
    if (code == 0) {
        daemon->disk->scrub.restored++;
        repair_queue_forget(&daemon->disk->scrub.queue, repair->blob);
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_RESTORED), "blob %s... is whole again on this disk", hex);
    } else {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_DAMAGED),
                       "blob %s... lacks chunks on this disk, which could not be fetched again: %s", hex, text);
        repair_queue_failed(&daemon->disk->scrub.queue, daemon_now_ms(), repair->blob, repair->living);
        repair_at(daemon, daemon_now_ms() + REPAIR_AGAIN_MS);
    }
    free(repair);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

void daemon_scrub_corrupt(struct daemon *daemon, hash256 hash)
{
    daemon->disk->scrub.lost[daemon->disk->scrub.damaged++ % DAEMON_LOST_MAX] = hash;
    daemon->disk->scrub.lost_count += daemon->disk->scrub.lost_count < DAEMON_LOST_MAX;
    daemon->disk->scrub.repair_ms = daemon_now_ms() + REPAIR_SOON_MS;
}

void daemon_scrub_tick(struct daemon *daemon, uint64_t now_ms)
{
    if (daemon->disk->scrub.next_ms == 0) {
        daemon->disk->scrub.next_ms = now_ms + SCRUB_FIRST_MS;
    }
    if (!daemon->disk->scrub.is_busy && now_ms >= daemon->disk->scrub.next_ms) {
        scrub_begin(daemon);
    }
    bool wants_to_repair = daemon->disk->scrub.repair_ms != 0 && now_ms >= daemon->disk->scrub.repair_ms;
    if (wants_to_repair && !daemon->disk->scrub.is_repairing && !node_core_is_syncing(daemon->core)) {
        repair_begin(daemon);
    }
}

void daemon_scrub_close(struct daemon *daemon)
{
    while (daemon->disk->scrub.repairs != NULL) {
        struct daemon_repair *repair = daemon->disk->scrub.repairs;
        daemon->disk->scrub.repairs = repair->next;
        free(repair);
    }
}
