/* Our own records: into the table and the fold at once, to the disk, and from the disk to all peers. */

#include "base/check.h"
#include "base/err.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/publish.h"

bool core_may_take_reserve(const struct node_core *core, const struct record *record, bool from_disk)
{
    experiment_id experiment;
    attempt_id attempt;
    struct fact_control control;
    struct fact_worker worker;
    struct fact_stop stop;
    struct fact_search_stop search_stop;
    struct fact_search_pause search_pause;
    uint32_t trial;
    bool is_sound;
    switch (record->kind) {
    case FACT_TOMBSTONE:
    case FACT_CONTROL:
        is_sound = (record->kind == FACT_TOMBSTONE ? fact_tombstone_read(record) : fact_control_read(record, &control)) == 0;
        return from_disk || (is_sound && fact_key_read_experiment(record, &experiment) == 0 &&
                             view_find_experiment(&core->view, experiment) != NULL);
    case FACT_STOP: /* of another writer only about a trial that is known: there are many that could be named */
        is_sound = fact_stop_read(record, &stop) == 0 && fact_key_read_trial(record, &experiment, &trial) == 0;
        return from_disk || (is_sound && view_find_experiment(&core->view, experiment) != NULL &&
                             (node_id_equal(record->writer, core->options.self) ||
                              view_find_trial(view_find_experiment(&core->view, experiment), trial) != NULL));
    case FACT_SEARCH_STOP:
    case FACT_SEARCH_PAUSE:
        is_sound = (record->kind == FACT_SEARCH_STOP ? fact_search_stop_read(record, &search_stop)
                                                     : fact_search_pause_read(record, &search_pause)) == 0 &&
                   fact_key_read_trial(record, &experiment, &trial) == 0;
        return from_disk || (is_sound && view_find_experiment(&core->view, experiment) != NULL &&
                             view_find_trial(view_find_experiment(&core->view, experiment), trial) != NULL);
    case FACT_WORKER: /* only our own: another writer could invent any number of workers */
        is_sound = node_id_equal(record->writer, core->options.self) && fact_worker_read(record, &worker) == 0 &&
                   worker.state == FACT_WORKER_ENDED;
        return is_sound && fact_key_read_attempt(record, &attempt) == 0 && view_find_attempt(&core->view, &attempt) != NULL;
    case FACT_VERDICT:
        return fact_key_read_attempt(record, &attempt) == 0 && view_find_attempt(&core->view, &attempt) != NULL;
    default:
        return false;
    }
}

void core_fold_again(struct node_core *core, struct records_entry *entry)
{
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |= core_may_take_reserve(core, &entry->record, false);
    entry->is_unfolded = view_apply(&core->view, entry) == ERR_FULL;
    core->arena.takes_reserve = takes_reserve;
}

static struct core_pending *put_record(struct node_core *core, struct record *record, bool *is_published)
{
    record->version = (struct record_version){core->options.boot, ++core->seq};
    uint8_t envelope[RECORD_ENVELOPE_BYTES_MAX];
    size_t count = record_encode(record, envelope, sizeof envelope);
    struct record encoded;
    CHECK(count > 0 && record_decode(envelope, count, &encoded) == 0);
    struct records_entry *entry;
    int error = records_put(&core->records, &encoded, envelope, count, false, &entry);
    if (error != 0) {
        core->counters.full++;
        TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_MEMORY_FULL),
                    "this node's %s record cannot be kept: %s", fact_kind_name(record->kind), err_text(error));
        *is_published = false;
        return NULL;
    }
    struct core_pending *pending = core_persist(core, entry);
    core->hooks.record_put(core, entry);
    return pending;
}

struct core_pending *core_try_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                                  const struct pack_writer *body, bool *is_published)
{
    CHECK(!body->failed);
    *is_published = true;
    struct record record = {
        .kind = (uint16_t)kind,
        .writer = core->options.self,
        .key = key.bytes,
        .key_bytes = key.count,
        .body = body->bytes,
        .body_bytes = (uint16_t)body->used_bytes,
    };
    experiment_id about;
    if (fact_is_of_experiment(&record, &about) && view_is_deleted(&core->view, about)) {
        return NULL;
    }
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |= core_may_take_reserve(core, &record, false);
    struct core_pending *pending = put_record(core, &record, is_published);
    core->arena.takes_reserve = takes_reserve;
    return pending;
}

struct core_pending *core_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                              const struct pack_writer *body)
{
    bool is_published;
    return core_try_put(core, kind, key, body, &is_published);
}
