#include "node/daemon/render.h"

#include "base/err.h"
#include "train/search.h"

#define ATTEMPTS_SHOWN_MAX 16 /* of one trial: keeps a row within RENDER_BYTES_MIN */

/* ---- lists in parts ----------------------------------------------------------------------------------------------------- */

/* An array whose length is filled in at its end: rows are written one by one, and one that does not fit is taken back. */
struct list {
    struct pack_writer *writer;
    size_t length_at;
    size_t row_at;
    uint32_t count;
};

static struct list list_open(struct pack_writer *writer)
{
    static const uint8_t head[5] = {0xdd, 0, 0, 0, 0}; /* array 32 */
    pack_raw(writer, head, sizeof head);
    struct list list = {.writer = writer, .length_at = writer->used_bytes - 4, .row_at = writer->used_bytes};
    return list;
}

/* A row has been written: false if it does not fit and is gone again. */
static bool list_took_row(struct list *list)
{
    struct pack_writer *writer = list->writer;
    bool fits = !writer->failed && writer->capacity_bytes - writer->used_bytes >= RENDER_RESERVE_BYTES;
    if (fits) {
        list->row_at = writer->used_bytes;
        list->count++;
        return true;
    }
    writer->used_bytes = list->row_at;
    writer->failed = list->count == 0;
    return false;
}

static void list_close(struct list *list)
{
    if (!list->writer->failed) {
        bytes_put_u32(list->writer->bytes + list->length_at, list->count);
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------------- */

static void put_hex(struct pack_writer *writer, const uint8_t *bytes, size_t count)
{
    char text[2 * MESH_ID_BYTES + 1];
    bytes_to_hex(text, bytes, count);
    pack_text(writer, text);
}

static void put_node_id(struct pack_writer *writer, node_id node)
{
    put_hex(writer, node.bytes, sizeof node.bytes);
}

static void put_experiment_id(struct pack_writer *writer, experiment_id experiment)
{
    put_hex(writer, experiment.bytes, sizeof experiment.bytes);
}

static void put_text_or_nil(struct pack_writer *writer, const char *text)
{
    if (text[0] == '\0') {
        pack_nil(writer);
    } else {
        pack_text(writer, text);
    }
}

static void put_pair_u64(struct pack_writer *writer, const char *key, uint64_t value)
{
    pack_text(writer, key);
    pack_u64(writer, value);
}

static void put_pair_text(struct pack_writer *writer, const char *key, const char *value)
{
    pack_text(writer, key);
    pack_text(writer, value);
}

/* ---- nodes -------------------------------------------------------------------------------------------------------------- */

static bool is_self(const struct node_core *core, node_id node)
{
    return node_id_equal(node, core->options.self);
}

static bool is_shown(const struct node_core *core, const struct view_member *member)
{
    return member->admitted || is_self(core, member->id);
}

/* Those who were members are listed, but count nowhere. */
static bool is_listed(const struct node_core *core, const struct view_member *member)
{
    return is_shown(core, member) || view_member_is_out(member);
}

const char *render_node_name(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    if (member != NULL && member->name[0] != '\0') {
        return member->name;
    }
    return is_self(core, node) ? core->options.node.name : "?";
}

const char *render_node_state(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    if (member != NULL && view_member_is_out(member)) {
        return member->evicted ? "evicted" : "void";
    }
    if (is_self(core, node)) {
        return core->options.node.left ? "left" : "alive";
    }
    const struct core_peer *peer = core_find_peer(core, node);
    if ((peer != NULL && peer->state == SWIM_LEFT) || (member != NULL && member->left)) {
        return "left";
    }
    bool is_known = peer != NULL && peer->state != SWIM_UNKNOWN;
    return swim_state_name(is_known ? peer->state : SWIM_DEAD);
}

/* Alive or suspect, and not on its way out. */
static bool node_lives(const struct node_core *core, const struct view_member *member)
{
    if (is_self(core, member->id)) {
        return !core->options.node.left && !core->is_out;
    }
    return !member->left && core_node_alive(core, member->id);
}

uint32_t render_nodes_alive(const struct node_core *core)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        alive += is_shown(core, member) && node_lives(core, member);
    }
    return alive;
}

uint32_t render_nodes_drained(const struct node_core *core)
{
    uint32_t drained = 0;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        drained += is_shown(core, member) && node_lives(core, member) && view_member_drain(member).drained;
    }
    return drained;
}

/* What a node says of itself; false if its record is not here. */
static bool node_fact(const struct node_core *core, node_id node, struct fact_node *out)
{
    if (is_self(core, node)) {
        *out = core->options.node;
        return true;
    }
    struct fact_key key = fact_key_empty();
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(node, FACT_NODE, key.bytes, key.count));
    return entry != NULL && fact_node_read(&entry->record, out) == 0;
}

static const char *node_address(const struct node_core *core, const struct view_member *member)
{
    const struct core_peer *peer = core_find_peer(core, member->id);
    if (peer != NULL && peer->address[0] != '\0') {
        return peer->address;
    }
    if (is_self(core, member->id)) {
        return core->options.node.address_count > 0 ? core->options.node.addresses[0] : "";
    }
    return member->address_count > 0 ? member->addresses[0] : "";
}

static void put_node(const struct node_core *core, const struct view_member *member, struct pack_writer *writer)
{
    struct fact_node fact;
    bool has_fact = node_fact(core, member->id, &fact);
    struct fact_drain drain = view_member_drain(member);
    pack_map(writer, 10 + (member->evicted ? 1 : 0));
    pack_text(writer, "id");
    put_node_id(writer, member->id);
    put_pair_text(writer, "name", render_node_name(core, member->id));
    pack_text(writer, "address");
    put_text_or_nil(writer, node_address(core, member));
    put_pair_text(writer, "state", render_node_state(core, member->id));
    put_pair_u64(writer, "slots", has_fact ? fact.slot_count : 0);
    pack_text(writer, "version");
    put_text_or_nil(writer, has_fact ? fact.version : "");
    pack_text(writer, "drained");
    pack_bool(writer, drain.drained);
    pack_text(writer, "emptied");
    pack_bool(writer, drain.is_idle);
    pack_text(writer, "quarantined");
    if (member->quarantine.is_active) {
        pack_map(writer, 2);
        put_pair_u64(writer, "minutes", member->quarantine.minutes);
        put_pair_text(writer, "reason", member->quarantine.why);
    } else {
        pack_nil(writer);
    }
    pack_text(writer, "voucher");
    put_node_id(writer, member->voucher);
    if (member->evicted) {
        pack_text(writer, "evictor");
        put_node_id(writer, member->evictor);
    }
}

static void put_names(const struct node_core *core, const char *key, const node_id *nodes, uint32_t count,
                      struct pack_writer *writer)
{
    pack_text(writer, key);
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_map(writer, 2);
        pack_text(writer, "id");
        put_node_id(writer, nodes[i]);
        put_pair_text(writer, "name", render_node_name(core, nodes[i]));
    }
}

void render_eviction(const struct node_core *core, node_id node, struct pack_writer *writer)
{
    node_id standing[NODE_MEMBERS_MAX], out[NODE_MEMBERS_MAX];
    uint32_t standing_count = 0, out_count = 0;
    for (uint32_t i = 0; i < core->view.vouchers.count && standing_count < NODE_MEMBERS_MAX; i++) {
        const struct view_word *voucher = &core->view.vouchers.items[i];
        if (node_id_equal(voucher->writer, node) && !node_id_equal(voucher->about, node) && voucher->member->admitted) {
            standing[standing_count++] = voucher->about;
        }
    }
    for (uint32_t i = 0; i < core->view.member_count && out_count < NODE_MEMBERS_MAX; i++) {
        const struct view_member *member = core->view.members[i];
        if (view_member_is_out(member) && !member->evicted) {
            out[out_count++] = member->id;
        }
    }
    pack_text(writer, "node");
    put_node_id(writer, node);
    put_pair_text(writer, "name", render_node_name(core, node));
    put_names(core, "standing", standing, standing_count, writer);
    put_names(core, "void", out, out_count, writer);
}

/* ---- invites ----------------------------------------------------------------------------------------------------------- */

struct invites {
    const struct node_core *core;
    struct list list;
    uint32_t from, at;
    bool more;
};

static const char *invite_state(const struct node_core *core, const struct record *record, const struct fact_invite *fact)
{
    const struct view_member *writer = view_find_member(&core->view, record->writer);
    if (core_invite_is_valid(core, record->key)) {
        return "good";
    }
    if (writer != NULL && view_member_is_out(writer)) {
        return "void";
    }
    return !fact->revoked && fact->expires_s <= core->wall_s ? "expired" : "revoked";
}

static bool put_invite(void *context, const struct records_entry *entry)
{
    struct invites *invites = context;
    const struct node_core *core = invites->core;
    struct pack_writer *writer = invites->list.writer;
    struct fact_invite fact;
    uint32_t at = invites->at++;
    if (at < invites->from || entry->record.kind != FACT_INVITE || fact_invite_read(&entry->record, &fact) != 0 ||
        fact.expires_s == 0) {
        return true; /* without a time: another member's word that it is revoked */
    }
    pack_map(writer, 5);
    pack_text(writer, "id");
    put_hex(writer, entry->record.key, RENDER_INVITE_ID_BYTES);
    pack_text(writer, "writer");
    put_node_id(writer, entry->record.writer);
    put_pair_text(writer, "writer_name", render_node_name(core, entry->record.writer));
    put_pair_u64(writer, "expires_s", fact.expires_s);
    put_pair_text(writer, "state", invite_state(core, &entry->record, &fact));
    invites->more = !list_took_row(&invites->list);
    if (invites->more) {
        invites->at = at;
    }
    return !invites->more;
}

bool render_invites(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    pack_text(writer, "invites");
    struct invites invites = {.core = core, .list = list_open(writer), .from = *from};
    records_each(&core->records, put_invite, &invites);
    list_close(&invites.list);
    *from = invites.at;
    return invites.more;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------- */

bool render_nodes(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    pack_text(writer, "nodes");
    struct list list = list_open(writer);
    uint32_t i = *from;
    for (; i < core->view.member_count; i++) {
        if (is_listed(core, core->view.members[i])) {
            put_node(core, core->view.members[i], writer);
            if (!list_took_row(&list)) {
                break;
            }
        }
    }
    list_close(&list);
    *from = i;
    return i < core->view.member_count;
}

/* ---- slots -------------------------------------------------------------------------------------------------------------- */

/* Of its own slots the owner knows more than its records say: reservations. */
static struct view_slot slot_now(const struct node_core *core, const struct view_member *member, uint32_t slot)
{
    if (is_self(core, member->id) && slot < core->lease.count) {
        const struct lease_slot *own = &core->lease.slots[slot];
        return (struct view_slot){.state = (uint32_t)own->state,
                                  .attempt = own->attempt,
                                  .rank = own->rank,
                                  .withheld = core->lease.holds[slot].withheld};
    }
    struct view_slot unknown;
    memset(&unknown, 0, sizeof unknown);
    const struct view_slot *known = view_member_slot(member, slot);
    return known != NULL ? *known : unknown;
}

/* A slot that its owner takes back under a worker is on its way out, though the lease lives until the worker has saved. */
static const char *slot_state_name(const struct view_slot *slot)
{
    static const char *const names[] = {"free", "reserved", "leased", "releasing", "withheld"};
    uint32_t state = slot->state == LEASE_LEASED && slot->withheld ? LEASE_RELEASING : slot->state;
    return state < sizeof names / sizeof names[0] ? names[state] : "withheld";
}

static void put_slot(const struct node_core *core, const struct view_member *member, const struct fact_slot_info *info,
                     uint32_t index, struct pack_writer *writer)
{
    struct view_slot slot = slot_now(core, member, index);
    bool is_held = slot.state != LEASE_FREE && slot.state != LEASE_WITHHELD;
    pack_map(writer, 11);
    pack_text(writer, "node");
    put_node_id(writer, member->id);
    put_pair_text(writer, "node_name", render_node_name(core, member->id));
    put_pair_u64(writer, "index", index);
    put_pair_text(writer, "uuid", info->uuid);
    put_pair_text(writer, "kind", info->kind == FACT_SLOT_CUDA ? "cuda" : "cpu");
    put_pair_text(writer, "model", info->model);
    put_pair_u64(writer, "memory_bytes", info->memory_bytes);
    put_pair_text(writer, "state", slot_state_name(&slot));
    pack_text(writer, "experiment");
    if (is_held) {
        put_experiment_id(writer, slot.attempt.experiment);
        put_pair_u64(writer, "trial", slot.attempt.trial);
        put_pair_u64(writer, "attempt", slot.attempt.number);
    } else {
        pack_nil(writer);
        pack_text(writer, "trial");
        pack_nil(writer);
        pack_text(writer, "attempt");
        pack_nil(writer);
    }
}

/* The rows of one node from slot *from on; true if all fitted. */
static bool put_node_slots(const struct node_core *core, const struct view_member *member, uint32_t *from,
                           struct list *list)
{
    struct fact_node fact;
    bool has_left = is_self(core, member->id) ? core->options.node.left : member->left;
    if (!is_shown(core, member) || view_member_is_out(member) || has_left || !node_fact(core, member->id, &fact)) {
        return true;
    }
    for (; *from < fact.slot_count; ++*from) {
        put_slot(core, member, &fact.slots[*from], *from, list->writer);
        if (!list_took_row(list)) {
            return false;
        }
    }
    return true;
}

bool render_slots(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    pack_text(writer, "slots");
    struct list list = list_open(writer);
    uint32_t i = *from / FACT_SLOTS_MAX, slot = *from % FACT_SLOTS_MAX;
    for (; i < core->view.member_count && put_node_slots(core, core->view.members[i], &slot, &list); i++) {
        slot = 0;
    }
    list_close(&list);
    *from = i * FACT_SLOTS_MAX + slot;
    return i < core->view.member_count;
}

/* ---- experiments -------------------------------------------------------------------------------------------------------- */

static struct election_claim highest_claim(const struct node_core *core, const struct view_experiment *experiment,
                                           bool *released)
{
    const struct core_coordination *coordination = core_find_coordination(core, experiment->id);
    if (coordination != NULL && coordination->election.highest.term > 0) {
        *released = coordination->election.highest_released;
        return coordination->election.highest; /* absurd terms are sorted out there */
    }
    struct election_claim highest = {0};
    *released = false;
    for (const struct view_claim *row = experiment->claims; row != NULL; row = row->next) {
        struct election_claim claim = {row->fact.term, row->writer};
        if (election_claim_compare(claim, highest) > 0) {
            highest = claim;
            *released = row->fact.released;
        }
    }
    return highest;
}

bool render_coordinator(const struct node_core *core, const struct view_experiment *experiment, node_id *node,
                        uint64_t *term)
{
    bool released;
    struct election_claim claim = highest_claim(core, experiment, &released);
    const struct view_member *member = view_find_member(&core->view, claim.node);
    *node = claim.node;
    *term = claim.term;
    return claim.term > 0 && !released && member != NULL && node_lives(core, member);
}

static void put_counts(const struct view_experiment *experiment, struct pack_writer *writer)
{
    uint32_t counts[VIEW_TRIAL_FAILED + 1] = {0};
    for (uint32_t i = 0; i < experiment->trial_count && i < experiment->trial_slots; i++) {
        counts[view_trial_state(experiment, i)]++;
    }
    uint32_t begun = counts[VIEW_TRIAL_RUNNING] + counts[VIEW_TRIAL_COMPLETED] + counts[VIEW_TRIAL_FAILED];
    pack_map(writer, 5);
    put_pair_u64(writer, "total", experiment->trial_count);
    put_pair_u64(writer, "queued", experiment->trial_count - begun);
    put_pair_u64(writer, "running", counts[VIEW_TRIAL_RUNNING]);
    put_pair_u64(writer, "completed", counts[VIEW_TRIAL_COMPLETED]);
    put_pair_u64(writer, "failed", counts[VIEW_TRIAL_FAILED]);
}

static void put_best(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *writer)
{
    uint32_t trial;
    double value;
    if (!view_experiment_best(&core->view, experiment, &trial, &value)) {
        pack_nil(writer);
        return;
    }
    pack_map(writer, 3);
    put_pair_u64(writer, "trial", trial);
    put_pair_text(writer, "metric", experiment->config->metric);
    pack_text(writer, "value");
    pack_double(writer, value);
}

/* The pairs that ls and show have in common but `trials`: 8. */
#define EXPERIMENT_PAIRS 8
static void put_experiment(const struct node_core *core, const struct view_experiment *experiment,
                           struct pack_writer *writer)
{
    node_id coordinator;
    uint64_t term;
    bool has_coordinator = render_coordinator(core, experiment, &coordinator, &term);
    pack_text(writer, "id");
    put_experiment_id(writer, experiment->id);
    put_pair_text(writer, "name", experiment->config->name);
    put_pair_text(writer, "state", view_experiment_state_name(view_experiment_state(experiment)));
    pack_text(writer, "coordinator");
    if (has_coordinator) {
        put_node_id(writer, coordinator);
    } else {
        pack_nil(writer);
    }
    pack_text(writer, "coordinator_name");
    put_text_or_nil(writer, has_coordinator ? render_node_name(core, coordinator) : "");
    pack_text(writer, "term");
    if (term > 0) {
        pack_u64(writer, term);
    } else {
        pack_nil(writer);
    }
    pack_text(writer, "best");
    put_best(core, experiment, writer);
    put_pair_u64(writer, "submitted_s", experiment->submitted_s);
}

bool render_ls(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    pack_text(writer, "experiments");
    struct list list = list_open(writer);
    uint32_t i = *from;
    for (; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        if (!experiment->known) {
            continue;
        }
        pack_map(writer, EXPERIMENT_PAIRS + 1);
        put_experiment(core, experiment, writer);
        pack_text(writer, "trials");
        put_counts(experiment, writer);
        if (!list_took_row(&list)) {
            break;
        }
    }
    list_close(&list);
    *from = i;
    return i < core->view.experiment_count;
}

void render_experiment_state(const struct node_core *core, const struct view_experiment *experiment,
                             struct pack_writer *writer)
{
    put_pair_text(writer, "state", view_experiment_state_name(view_experiment_state(experiment)));
    pack_text(writer, "trials");
    put_counts(experiment, writer);
    pack_text(writer, "best");
    put_best(core, experiment, writer);
}

/* ---- trials ------------------------------------------------------------------------------------------------------------- */

/* Metrics in records are bytes that some node wrote: only a map of group to map of name to number is passed on. */
static bool metrics_are_sound(const uint8_t *bytes, uint32_t count)
{
    struct pack_reader reader;
    size_t length;
    pack_reader_init(&reader, bytes, count);
    for (uint32_t groups = pack_read_map(&reader); groups > 0; groups--) {
        (void)pack_read_text(&reader, &length);
        for (uint32_t names = pack_read_map(&reader); names > 0; names--) {
            (void)pack_read_text(&reader, &length);
            (void)pack_read_double(&reader);
        }
    }
    return pack_at_end(&reader);
}

static void put_metrics(const uint8_t *bytes, uint32_t count, struct pack_writer *writer)
{
    if (count > 0 && metrics_are_sound(bytes, count)) {
        pack_raw(writer, bytes, count);
    } else {
        pack_map(writer, 0);
    }
}

static bool read_worker(const struct node_core *core, const struct view_worker *worker, struct fact_worker *out)
{
    const struct records_entry *entry = worker != NULL ? records_find(&core->records, worker->ident) : NULL;
    return entry != NULL && fact_worker_read(&entry->record, out) == 0;
}

static bool read_verdict(const struct node_core *core, const struct view_verdict *verdict, struct fact_verdict *out)
{
    const struct records_entry *entry = verdict != NULL ? records_find(&core->records, verdict->ident) : NULL;
    return entry != NULL && fact_verdict_read(&entry->record, out) == 0;
}

/* Of a completed attempt what the verdict froze; else the latest that rank 0 has reported. */
static void put_attempt_metrics(const struct node_core *core, const struct view_attempt *attempt,
                                struct pack_writer *writer)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    struct fact_worker worker;
    struct fact_verdict fact;
    bool has_verdict = read_verdict(core, verdict, &fact);
    if ((!has_verdict || fact.reason != FACT_COMPLETED) && read_worker(core, view_attempt_worker(attempt, 0), &worker)) {
        put_metrics(worker.metrics, worker.metrics_bytes, writer);
    } else if (has_verdict) {
        put_metrics(fact.metrics, fact.metrics_bytes, writer);
    } else {
        pack_map(writer, 0);
    }
}

static uint64_t attempt_step(const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    if (verdict != NULL) {
        return verdict->step;
    }
    return first != NULL && first->step > attempt->start_step ? first->step : attempt->start_step;
}

static const char *attempt_state(const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    if (verdict != NULL) {
        return fact_reason_name(verdict->reason);
    }
    return first != NULL && first->state == FACT_WORKER_RUNNING ? "running" : "assigned";
}

/* The lowest rank of the attempt that ended by its own failure, or NULL. */
static const struct view_worker *failed_worker(const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; attempt->assigned && rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_FAILED) {
            return worker;
        }
    }
    return NULL;
}

static void put_attempt_reason(const struct node_core *core, const struct view_attempt *attempt,
                               struct pack_writer *writer)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *failed = failed_worker(attempt);
    struct fact_verdict fact;
    char text[256];
    if (!read_verdict(core, verdict, &fact)) {
        pack_nil(writer);
        return;
    }
    if (fact.reason == FACT_FAILED && failed != NULL) {
        bool by_signal = failed->exit_code < 0;
        format_text(text, sizeof text, "%s: rank %u ended %s %d", fact.why, failed->rank,
                    by_signal ? "by signal" : "with status", by_signal ? -failed->exit_code : failed->exit_code);
        pack_text(writer, text);
    } else {
        pack_text(writer, fact.why);
    }
}

static void put_hyperparameters(const struct view_experiment *experiment, uint32_t index, struct pack_writer *writer)
{
    struct search_space space = config_search_space(experiment->config);
    struct pack_writer before = *writer;
    int error = search_trial_values(&space, experiment->config->seed, index, writer);
    if (error == ERR_FULL) {
        writer->failed = true;
    } else if (error != 0) {
        *writer = before;
        pack_nil(writer);
    }
}

static void put_trial_slots(const struct node_core *core, const struct view_attempt *attempt, struct pack_writer *writer)
{
    uint32_t count = attempt != NULL && attempt->assigned ? attempt->member_count : 0;
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_map(writer, 3);
        pack_text(writer, "node");
        put_node_id(writer, attempt->members[i].node);
        put_pair_text(writer, "node_name", render_node_name(core, attempt->members[i].node));
        put_pair_u64(writer, "index", attempt->members[i].slot);
    }
}

static void put_trial_checkpoint(const struct node_core *core, const struct view_trial *trial,
                                 struct pack_writer *writer)
{
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest newest;
    if (!core_replicas_next(core, &row, &newest)) {
        pack_nil(writer);
        return;
    }
    pack_map(writer, 4);
    put_pair_u64(writer, "step", newest.step);
    put_pair_u64(writer, "bytes", newest.bytes);
    pack_text(writer, "durable");
    pack_bool(writer, newest.durable);
    pack_text(writer, "holders");
    pack_array(writer, newest.holder_count);
    for (uint32_t i = 0; i < newest.holder_count; i++) {
        pack_text(writer, render_node_name(core, newest.holders[i]));
    }
}

/* The last lines of the newest attempt that failed; of no interest once the trial is completed. */
static void put_tail(const struct node_core *core, const struct view_trial *trial, struct pack_writer *writer)
{
    const struct view_worker *failed = NULL;
    bool is_completed = trial == NULL || view_trial_completed(trial) != NULL;
    for (const struct view_attempt *a = is_completed ? NULL : trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        if (verdict != NULL && verdict->reason == FACT_FAILED && failed_worker(a) != NULL) {
            failed = failed_worker(a);
        }
    }
    struct fact_worker fact;
    if (read_worker(core, failed, &fact)) {
        pack_text(writer, fact.tail);
    } else {
        pack_nil(writer);
    }
}

/* Every completed attempt (a merge may have brought several) and the newest of the others, as many as there is room for. */
static void put_attempts(const struct node_core *core, const struct view_trial *trial, struct pack_writer *writer)
{
    uint32_t total = 0, shown = 0, position = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        total += a->assigned || a->verdicts != NULL;
    }
    struct list list = list_open(writer);
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        bool is_there = a->assigned || a->verdicts != NULL;
        bool is_completed = verdict != NULL && verdict->reason == FACT_COMPLETED;
        position += is_there;
        bool is_new = position + ATTEMPTS_SHOWN_MAX / 2 > total;
        if (!is_there || shown == ATTEMPTS_SHOWN_MAX || !(is_new || (is_completed && shown < ATTEMPTS_SHOWN_MAX / 2))) {
            continue;
        }
        shown++;
        pack_map(writer, 6);
        put_pair_u64(writer, "attempt", a->id.number);
        put_pair_text(writer, "coordinator_name", render_node_name(core, a->id.coordinator));
        put_pair_text(writer, "state", attempt_state(a));
        pack_text(writer, "reason");
        put_attempt_reason(core, a, writer);
        put_pair_u64(writer, "step", attempt_step(a));
        pack_text(writer, "metrics");
        put_attempt_metrics(core, a, writer);
        list.count++;
    }
    list_close(&list);
}

/* Of a trial in quarantine why it is there; else why the attempt shown ended. */
static void put_reason(const struct node_core *core, const struct view_trial *trial, const struct view_attempt *shown,
                       enum view_trial_state state, struct pack_writer *writer)
{
    char text[256];
    if (state == VIEW_TRIAL_FAILED && core_quarantine_reason(core, trial, text, sizeof text)) {
        pack_text(writer, text);
    } else if (shown != NULL) {
        put_attempt_reason(core, shown, writer);
    } else {
        pack_nil(writer);
    }
}

static void put_attempt_numbers(const struct view_attempt *shown, struct pack_writer *writer)
{
    const struct view_worker *first = shown != NULL ? view_attempt_worker(shown, 0) : NULL;
    pack_text(writer, "attempt");
    if (shown != NULL) {
        pack_u64(writer, shown->id.number);
    } else {
        pack_nil(writer);
    }
    pack_text(writer, "generation");
    if (first != NULL) {
        pack_u64(writer, first->generation);
    } else {
        pack_nil(writer);
    }
    pack_text(writer, "step");
    if (shown != NULL) {
        pack_u64(writer, attempt_step(shown));
    } else {
        pack_nil(writer);
    }
}

static void put_trial(const struct node_core *core, const struct view_experiment *experiment, uint32_t index,
                      struct pack_writer *writer)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    enum view_trial_state state = view_trial_state(experiment, index);
    const struct view_attempt *shown = trial != NULL ? view_trial_completed(trial) : NULL;
    shown = shown == NULL && trial != NULL ? view_trial_highest(trial) : shown;
    bool has_more = trial != NULL && trial->attempts != NULL && trial->attempts->next != NULL;
    pack_map(writer, has_more ? 13 : 12);
    put_pair_u64(writer, "index", index);
    put_pair_text(writer, "state", view_trial_state_name(state));
    put_attempt_numbers(shown, writer);
    pack_text(writer, "hyperparameters");
    put_hyperparameters(experiment, index, writer);
    pack_text(writer, "metrics");
    if (shown != NULL) {
        put_attempt_metrics(core, shown, writer);
    } else {
        pack_map(writer, 0);
    }
    pack_text(writer, "slots");
    put_trial_slots(core, state != VIEW_TRIAL_QUEUED ? shown : NULL, writer);
    pack_text(writer, "checkpoint");
    put_trial_checkpoint(core, trial, writer);
    /* The failure after the last restart that is allowed leads to no further one. */
    uint32_t failures = trial != NULL ? view_trial_failures(trial) : 0;
    put_pair_u64(writer, "restarts",
                 failures < experiment->config->max_restarts ? failures : experiment->config->max_restarts);
    pack_text(writer, "tail");
    put_tail(core, trial, writer);
    pack_text(writer, "reason");
    put_reason(core, trial, shown, state, writer);
    if (has_more) {
        pack_text(writer, "attempts");
        put_attempts(core, trial, writer);
    }
}

bool render_show(const struct node_core *core, const struct view_experiment *experiment, uint32_t *from,
                 struct pack_writer *writer)
{
    pack_text(writer, "experiment");
    pack_map(writer, EXPERIMENT_PAIRS + 5);
    put_experiment(core, experiment, writer);
    pack_text(writer, "counts");
    put_counts(experiment, writer);
    put_pair_text(writer, "metric", experiment->config->metric);
    pack_text(writer, "smaller_is_better");
    pack_bool(writer, experiment->config->smaller_is_better);
    put_pair_u64(writer, "slots_per_trial", experiment->config->slots_per_trial);
    pack_text(writer, "trials");
    struct list list = list_open(writer);
    uint32_t i = *from;
    for (; i < experiment->trial_count; i++) {
        put_trial(core, experiment, i, writer);
        if (!list_took_row(&list)) {
            break;
        }
    }
    list_close(&list);
    *from = i;
    return i < experiment->trial_count;
}

/* ---- checkpoints -------------------------------------------------------------------------------------------------------- */

void render_checkpoint(const struct node_core *core, uint32_t trial, const struct view_manifest *manifest,
                       const char *const *states, struct pack_writer *writer)
{
    pack_map(writer, 6);
    put_pair_u64(writer, "trial", trial);
    put_pair_u64(writer, "step", manifest->step);
    put_pair_u64(writer, "attempt", manifest->attempt.number);
    put_pair_u64(writer, "bytes", manifest->bytes);
    pack_text(writer, "durable");
    pack_bool(writer, manifest->durable);
    pack_text(writer, "holders");
    pack_array(writer, manifest->holder_count);
    for (uint32_t i = 0; i < manifest->holder_count; i++) {
        pack_map(writer, states != NULL ? 3 : 2);
        pack_text(writer, "node");
        put_node_id(writer, manifest->holders[i]);
        put_pair_text(writer, "name", render_node_name(core, manifest->holders[i]));
        if (states != NULL) {
            put_pair_text(writer, "state", states[i]);
        }
    }
}

bool render_checkpoints(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial,
                        uint32_t *from, struct pack_writer *writer)
{
    pack_text(writer, "checkpoints");
    struct list list = list_open(writer);
    uint32_t position = 0;
    bool fits = true;
    for (uint32_t i = 0; i < experiment->trial_slots && fits; i++) {
        const struct view_trial *row = experiment->trials[i];
        bool wanted = row != NULL && (trial == RENDER_ALL_TRIALS || trial == i);
        const struct view_manifest *m = wanted ? row->manifests : NULL;
        struct view_manifest united;
        while (fits && core_replicas_next(core, &m, &united)) {
            if (position >= *from) {
                render_checkpoint(core, i, &united, NULL, writer);
                fits = list_took_row(&list);
            }
            position += fits;
        }
    }
    list_close(&list);
    *from = position;
    return !fits;
}

/* ---- status ------------------------------------------------------------------------------------------------------------- */

static void put_refused(const struct node_core *core, const struct render_status_extra *extra,
                        struct pack_writer *writer)
{
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"handshakes", extra->handshakes},
        {"strangers", extra->strangers + core->counters.strangers},
        {"oversized", extra->oversized},
        {"overrun", extra->overrun},
        {"malformed", extra->malformed + core->counters.malformed + core->view.malformed_count},
        {"forged", extra->forged},
        {"equivocations", core->counters.equivocations},
        {"stale_claims", core->counters.stale_refused},
        {"for_lack_of_memory", core->counters.full},
    };
    pack_map(writer, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_pair_u64(writer, rows[i].name, rows[i].count);
    }
}

static void put_totals(const struct node_core *core, struct pack_writer *writer)
{
    uint32_t nodes = 0, slots = 0, slots_free = 0, experiments = 0, live = 0;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        nodes += is_shown(core, member);
        bool counts = is_shown(core, member) && node_lives(core, member);
        for (uint32_t slot = 0; counts && slot < member->slot_count; slot++) {
            slots++;
            slots_free += slot_now(core, member, slot).state == LEASE_FREE;
        }
    }
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        experiments += experiment->known;
        live += experiment->known && view_experiment_live(experiment);
    }
    put_pair_u64(writer, "nodes", nodes);
    put_pair_u64(writer, "nodes_alive", render_nodes_alive(core));
    put_pair_u64(writer, "nodes_drained", render_nodes_drained(core));
    put_pair_u64(writer, "slots", slots);
    put_pair_u64(writer, "slots_free", slots_free);
    put_pair_u64(writer, "experiments", experiments);
    put_pair_u64(writer, "experiments_live", live);
}

static void put_twin(const struct node_core *core, struct pack_writer *writer)
{
    pack_text(writer, "twin");
    if (core->twin.life == 0) {
        pack_nil(writer);
        return;
    }
    pack_map(writer, 2);
    put_pair_text(writer, "address", core->twin.address);
    pack_text(writer, "yields");
    pack_bool(writer, !core->twin.is_yielding);
}

void render_status(const struct node_core *core, const struct render_status_extra *extra, struct pack_writer *writer)
{
    pack_text(writer, "mesh");
    pack_map(writer, 2);
    pack_text(writer, "id");
    put_hex(writer, core->options.mesh.bytes, sizeof core->options.mesh.bytes);
    pack_text(writer, "name");
    put_text_or_nil(writer, extra->mesh_name);
    pack_text(writer, "node");
    pack_map(writer, 4);
    pack_text(writer, "id");
    put_node_id(writer, core->options.self);
    put_pair_text(writer, "name", render_node_name(core, core->options.self));
    put_pair_text(writer, "state", render_node_state(core, core->options.self));
    pack_text(writer, "drained");
    pack_bool(writer, core_node_drained(core, core->options.self));
    put_pair_text(writer, "version", extra->version);
    pack_text(writer, "address");
    put_text_or_nil(writer, extra->address);
    put_pair_u64(writer, "uptime_s", extra->uptime_s);
    put_totals(core, writer);
    put_pair_u64(writer, "records", core->records.count);
    put_pair_u64(writer, "memory_bytes", extra->memory_bytes);
    pack_text(writer, "syncing");
    pack_bool(writer, core->syncing);
    pack_text(writer, "disk_full");
    pack_bool(writer, core->disk_full);
    pack_text(writer, "refused");
    put_refused(core, extra, writer);
    pack_text(writer, "scrub");
    pack_map(writer, 4);
    put_pair_u64(writer, "checked_bytes", extra->scrub_bytes);
    put_pair_u64(writer, "passes", extra->scrub_passes);
    put_pair_u64(writer, "damaged", extra->scrub_damaged);
    put_pair_u64(writer, "restored", extra->scrub_restored);
    put_twin(core, writer);
    pack_text(writer, "was");
    if (node_id_is_none(extra->was)) {
        pack_nil(writer);
    } else {
        pack_map(writer, 2);
        pack_text(writer, "id");
        put_node_id(writer, extra->was);
        put_pair_text(writer, "address", extra->was_address);
    }
}
