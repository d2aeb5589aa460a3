/* Workers outlive their daemon: the identity that a worker's shoal-keep stores, and the search of the next daemon for
 * running and ended workers. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/err.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/workers/workers.h"
#include "node/keep/orphans.h"

/* In this time an adopted worker's program may connect to this daemon: libshoal connects anew from within its calls. */
#define CONNECT_MS 2000
#define ADOPTION_PASSES 5

size_t daemon_workers_identity(const struct daemon_worker *worker, uint8_t out[KEEP_IDENTITY_BYTES_MAX])
{
    const struct node_effect *effect = &worker->prepare;
    struct fact_key key = fact_key_worker(&effect->u.worker.attempt, effect->u.worker.number);
    struct pack_writer writer;
    pack_writer_init(&writer, out, KEEP_IDENTITY_BYTES_MAX);
    pack_array(&writer, worker->draw != 0 ? 8 : 7);
    pack_u64(&writer, effect->u.worker.slot);
    pack_bin(&writer, key.bytes, key.count);
    pack_u64(&writer, worker->size);
    pack_u64(&writer, effect->u.worker.step);
    pack_bin(&writer, effect->u.worker.checkpoint.bytes, HASH_BYTES);
    pack_bin(&writer, worker->group_key, sizeof worker->group_key);
    pack_u64(&writer, worker->seed);
    if (worker->draw != 0) {
        pack_u64(&writer, worker->draw);
    }
    CHECK(!writer.failed);
    return writer.used_bytes;
}

static int identity_read(const uint8_t *bytes, size_t count, struct daemon_worker *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t fields = pack_read_array(&reader);
    uint32_t slot = (uint32_t)pack_read_u64_max(&reader, SLOTS_MAX - 1);
    size_t key_bytes;
    const uint8_t *key = pack_read_bin(&reader, &key_bytes);
    struct record record = {.kind = FACT_WORKER, .key = key, .key_bytes = (uint8_t)key_bytes};
    uint32_t number = 0;
    attempt_id attempt;
    if (fields < 7 || fields > 8 || key_bytes > RECORD_KEY_BYTES_MAX || fact_key_read_attempt(&record, &attempt) != 0 ||
        fact_key_read_number(&record, &number) != 0) {
        return ERR_MALFORMED;
    }
    out->size = (uint32_t)pack_read_u64_max(&reader, FACT_MEMBERS_MAX);
    out->prepare.u.worker.step = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, out->prepare.u.worker.checkpoint.bytes, HASH_BYTES);
    pack_read_bin_exact(&reader, out->group_key, sizeof out->group_key);
    out->seed = pack_read_u64(&reader);
    out->draw = fields == 8 ? pack_read_u64(&reader) : 0;
    out->prepare.u.worker.slot = slot;
    out->prepare.u.worker.attempt = attempt;
    out->prepare.u.worker.number = number;
    /* A worker that joined later may have a number above all ranks of its group; its first group gives its rank. */
    out->prepare.u.worker.rank = number < out->size ? number : out->size - 1;
    return pack_at_end(&reader) && out->size > 0 ? 0 : ERR_MALFORMED;
}

/* A found worker that does not run, kept for later: a directory that could not be removed must not take the slot from
 * the running worker. */
struct over {
    struct over *next;
    struct keep_found found;
};

struct adoption {
    struct daemon *daemon;
    bool again; /* a shoal-keep lives but did not answer */
    struct over *over;
};

struct log_read {
    uint64_t end, last;
};

static int find_read(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct log_read *read = context;
    (void)bytes;
    (void)count;
    read->last = sequence <= read->end ? sequence : read->last;
    return sequence > read->end;
}

/* Up to which byte a worker's log is in its series. An entry with a number behind the log's end is a peer's word, not this node's. */
static uint64_t log_read_up_to(struct daemon *daemon, const char *directory, const uint8_t *prefix, size_t prefix_bytes)
{
    struct log_read read = {.end = 0};
    uint64_t last;
    if (series_last(daemon->chunks, prefix, prefix_bytes, &last) != 0 || keep_log_end(directory, &read.end) != 0) {
        return 0;
    }
    if (last > read.end) {
        (void)series_read(daemon->chunks, prefix, prefix_bytes, 0, find_read, &read);
        last = read.last;
    }
    return last;
}

static void adopt_one(struct daemon *daemon, struct keep_found *found)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        const struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (worker->state != WORKER_NONE && strcmp(worker->directory, found->run_directory) == 0) {
            return; /* adopted in an earlier pass */
        }
    }
    struct daemon_worker probe = {0};
    bool readable = identity_read(found->identity, found->identity_bytes, &probe) == 0;
    uint32_t slot = probe.prepare.u.worker.slot;
    bool usable = readable && slot < daemon->slot_count && daemon->workers->slots[slot].state == WORKER_NONE &&
                  (found->state == KEEP_STATE_RUNNING || found->state == KEEP_STATE_ENDED ||
                   found->state == KEEP_STATE_LOST);
    if (!usable) {
        if (found->state == KEEP_STATE_RUNNING) {
            (void)keep_kill(&found->link, CORE_KILL_GRACE_MS); /* the machine has no such slot now, or the slot has
                                                                  another worker */
        }
        if (found->state == KEEP_STATE_LOST) {
            (void)keep_orphans_end(&found->token);
        }
        daemon_workers_remove_later(daemon, found->run_directory);
        return;
    }
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    *worker = probe;
    worker_move(worker, WORKER_RUNNING);
    worker->connects_until_ms = daemon_now_ms() + CONNECT_MS;
    worker->token = found->token;
    bytes_copy_text(worker->directory, sizeof worker->directory, found->run_directory);
    worker->has_shells = true; /* the earlier daemon may have started some */
    worker->renew_ms = 0;
    worker->ended = found->state != KEEP_STATE_RUNNING;
    worker->is_lost = found->state == KEEP_STATE_LOST;
    worker->status = found->state == KEEP_STATE_LOST ? (struct keep_status){.reason = KEEP_KILLED, .code = -1} : found->status;
    if (found->state == KEEP_STATE_RUNNING) {
        worker->link = found->link;
        worker->has_link = true;
        found->link.fd = -1;
    }
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    uint64_t last;
    size_t prefix_bytes = daemon_series_prefix('m', &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, prefix);
    if (series_last(daemon->chunks, prefix, prefix_bytes, &last) == 0) {
        worker->series_seq = last + 1;
    }
    prefix_bytes = daemon_series_prefix('s', &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, prefix);
    if (series_last(daemon->chunks, prefix, prefix_bytes, &last) == 0) {
        worker->profile.entries = last + 1;
    }
    prefix_bytes = daemon_series_prefix('l', &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, prefix);
    worker->log_offset = log_read_up_to(daemon, worker->directory, prefix, prefix_bytes);
    daemon_outputs_watch(daemon, slot, &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, worker->directory);
    struct node_event event = {.kind = NODE_EVENT_ADOPT};
    event.u.adopt.slot = slot;
    event.u.adopt.attempt = worker->prepare.u.worker.attempt;
    event.u.adopt.number = (uint16_t)worker->prepare.u.worker.number;
    event.u.adopt.token = found->token;
    event.u.adopt.draw = worker->draw;
    memcpy(event.u.adopt.group_key, worker->group_key, sizeof worker->group_key);
    daemon_event(daemon, &event);
    daemon_series_adopt(daemon, worker);
}

static void look_at(void *context, struct keep_found *found)
{
    struct adoption *adoption = context;
    struct over *over = found->state != KEEP_STATE_RUNNING && found->state != KEEP_STATE_BUSY ? malloc(sizeof *over) : NULL;
    if (found->state == KEEP_STATE_BUSY) {
        adoption->again = true;
    } else if (over != NULL) {
        *over = (struct over){adoption->over, *found};
        adoption->over = over;
    } else {
        adopt_one(adoption->daemon, found);
    }
}

/* Whether the found worker has the lease of its slot, by the records on this node's disk. */
static bool has_lease(const struct daemon *daemon, const struct keep_found *found)
{
    struct daemon_worker probe = {0};
    const struct view_member *self = view_find_member(node_core_view(daemon->core), daemon->keys.id);
    bool is_readable = self != NULL && identity_read(found->identity, found->identity_bytes, &probe) == 0;
    const struct view_slot *slot = is_readable ? view_member_slot(self, probe.prepare.u.worker.slot) : NULL;
    return slot != NULL && slot->state == LEASE_LEASED && attempt_id_equal(&slot->attempt, &probe.prepare.u.worker.attempt);
}

/* Adopts the found workers that do not run: first those with a lease, since the core may not know their end yet. */
static void adopt_over(const struct adoption *adoption)
{
    for (int turn = 0; turn < 2; turn++) {
        for (struct over *over = adoption->over; over != NULL; over = over->next) {
            if (has_lease(adoption->daemon, &over->found) == (turn == 0)) {
                adopt_one(adoption->daemon, &over->found);
            }
        }
    }
}

static void forget_over(struct adoption *adoption)
{
    while (adoption->over != NULL) {
        struct over *over = adoption->over;
        adoption->over = over->next;
        explicit_bzero(over, sizeof *over); /* holds the token */
        free(over);
    }
}

int daemon_workers_adopt(struct daemon *daemon)
{
    char runs[KEEP_PATH_BYTES];
    (void)snprintf(runs, sizeof runs, "%.900s/runs", daemon->dir);
    (void)mkdir(runs, 0700);
    struct adoption adoption = {daemon, true, NULL};
    int code = 0;
    for (int i = 0; i < ADOPTION_PASSES && adoption.again && code == 0; i++) {
        adoption.again = false;
        forget_over(&adoption); /* the next scan finds them again */
        code = keep_scan(runs, look_at, &adoption); /* waits up to a second for each busy shoal-keep */
    }
    if (code == 0) {
        adopt_over(&adoption);
    }
    forget_over(&adoption);
    return code;
}
