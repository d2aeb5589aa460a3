#include "node/core/requests/webhooks.h"

#include <sodium/crypto_generichash.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/rendezvous.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/requests/trials.h"

#define HOOKS_MAX 64 /* webhooks and allowed hosts of the mesh */
#define LOOKS_MAX 64 /* experiments looked at in one turn */
#define COSTLY_MAX 4 /* of them so many that have changed, whose trials are looked at */
#define AWAY_BYTES (NODE_ID_BYTES + 8)

static const hash256 no_blob = {{0}};
static const experiment_id no_experiment = {{0}};

uint64_t requests_webhook_pause_ms(uint32_t tries)
{
    static const uint32_t pauses_s[] = {0, 5, 30, 120, 600, 3600};
    return tries < sizeof pauses_s / sizeof pauses_s[0] ? 1000ull * pauses_s[tries] : UINT64_MAX;
}

/* ---- webhooks
 * ------------------------------------------------------------------------------------------------------------ */

static void hash_of(void *out, size_t bytes, const char *what, const void *a, size_t a_bytes, const void *b,
                    size_t b_bytes)
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, bytes);
    (void)crypto_generichash_update(&state, (const unsigned char *)what, strlen(what) + 1);
    (void)crypto_generichash_update(&state, a, a_bytes);
    (void)crypto_generichash_update(&state, b, b_bytes);
    (void)crypto_generichash_final(&state, out, bytes);
}

static bool is_mesh_hook(const struct view_webhook *row, struct fact_webhook *fact, struct config_webhook *hook)
{
    struct pack_reader map;
    if (fact_webhook_read(&row->entry->record, fact) != 0 || fact->host[0] != '\0') {
        return false;
    }
    pack_reader_init(&map, fact->hook, fact->hook_bytes);
    return config_webhook_read(&map, hook);
}

/* A webhook of the mesh is told of experiments that were under way when it was made, and of later ones. */
static bool covers(const struct fact_webhook *fact, const struct view_experiment *experiment)
{
    bool is_live = false;
    for (uint32_t i = 0; i < fact->live_count; i++) {
        is_live |= memcmp(fact->live + (size_t)i * EXPERIMENT_ID_BYTES, experiment->id.bytes, EXPERIMENT_ID_BYTES) == 0;
    }
    return is_live || experiment->submitted_s >= fact->created_s;
}

/* The webhooks that are told of the experiment: first those of its configuration, then the mesh's. */
struct hooks {
    const struct node_core *core;
    const struct view_experiment *experiment; /* NULL: those of the mesh */
    uint32_t index;
    const struct view_webhook *row;
    bool is_at_mesh;
    uint8_t id[FACT_HOOK_BYTES];
    struct config_webhook hook;
    struct fact_webhook fact; /* of one of the mesh */
};

static bool hooks_next(struct hooks *at)
{
    if (!at->is_at_mesh && at->experiment != NULL && config_webhook(at->experiment->config, at->index, &at->hook)) {
        uint8_t index[4];
        bytes_put_u32(index, at->index++);
        hash_of(at->id, sizeof at->id, "shoal webhook", at->experiment->id.bytes, EXPERIMENT_ID_BYTES, index,
                sizeof index);
        return true;
    }
    at->is_at_mesh = true;
    while ((at->row = view_webhook_next(&at->core->view, at->row)) != NULL) {
        if (is_mesh_hook(at->row, &at->fact, &at->hook) &&
            (at->experiment == NULL || covers(&at->fact, at->experiment))) {
            memcpy(at->id, at->row->id, sizeof at->id);
            return true;
        }
    }
    at->experiment = NULL;
    return false;
}

bool requests_find_webhook(const struct node_core *core, experiment_id experiment, uint32_t index,
                           uint8_t id[FACT_HOOK_BYTES], struct config_webhook *out)
{
    const struct view_experiment *known =
        experiment_id_is_none(experiment) ? NULL : view_find_experiment(&core->view, experiment);
    struct hooks at = {.core = core, .experiment = known != NULL && known->known ? known : NULL};
    for (uint32_t i = 0; hooks_next(&at); i++) {
        if (i == index) {
            memcpy(id, at.id, sizeof at.id);
            *out = at.hook;
            return true;
        }
    }
    return false;
}

/* ---- what has been told
 * -------------------------------------------------------------------------------------------------- */

/* An event for a webhook. */
struct matter {
    experiment_id experiment;
    uint8_t subject[FACT_SUBJECT_BYTES];
    struct fact_delivery fact; /* number, event, hook, trial, attempt, rank and text */
};

static void subject_of(struct matter *matter, const void *detail, size_t bytes)
{
    uint8_t head[FACT_HOOK_BYTES + 1];
    memcpy(head, matter->fact.hook, FACT_HOOK_BYTES);
    head[FACT_HOOK_BYTES] = (uint8_t)matter->fact.event;
    hash_of(matter->subject, sizeof matter->subject, "shoal event", head, sizeof head, detail, bytes);
}

/* The subject of a webhook's own end. */
static void subject_of_end(uint8_t out[FACT_SUBJECT_BYTES], const uint8_t hook[FACT_HOOK_BYTES])
{
    hash_of(out, FACT_SUBJECT_BYTES, "shoal webhook gone", hook, FACT_HOOK_BYTES, "", 0);
}

/* How often telling has been tried, by the records of all nodes; UINT32_MAX: it is over. */
static uint32_t tries_of(const struct node_core *core, experiment_id experiment,
                         const uint8_t subject[FACT_SUBJECT_BYTES], uint64_t number)
{
    struct fact_key key = fact_key_delivery(experiment, subject);
    uint32_t tries = 0;
    for (uint32_t i = 0; i < core->view.member_count && tries != UINT32_MAX; i++) {
        record_ident ident = record_ident_of(core->view.members[i]->id, FACT_DELIVERY, key.bytes, key.count);
        const struct records_entry *entry = records_find(&core->records, ident);
        struct fact_delivery fact;
        if (entry == NULL || fact_delivery_read(&entry->record, &fact) != 0 || fact.number < number) {
            continue;
        }
        bool is_over = fact.number > number || fact.state >= FACT_DELIVERY_DONE;
        tries = is_over ? UINT32_MAX : fact.tries > tries ? fact.tries : tries;
    }
    return tries;
}

static bool is_gone(const struct node_core *core, experiment_id experiment, const uint8_t hook[FACT_HOOK_BYTES])
{
    uint8_t subject[FACT_SUBJECT_BYTES];
    subject_of_end(subject, hook);
    return tries_of(core, no_experiment, subject, 0) == UINT32_MAX ||
           (!experiment_id_is_none(experiment) && tries_of(core, experiment, subject, 0) == UINT32_MAX);
}

static struct core_told *find_told(struct node_core *core, const struct matter *matter)
{
    struct core_told *free_one = NULL;
    for (uint32_t i = 0; i < CORE_TOLD_MAX; i++) {
        struct core_told *told = &core->requests->told[i];
        if (!told->is_used) {
            free_one = free_one == NULL ? told : free_one;
        } else if (memcmp(told->subject, matter->subject, sizeof told->subject) == 0 &&
                   told->number == matter->fact.number && experiment_id_equal(told->experiment, matter->experiment)) {
            return told;
        }
    }
    return free_one;
}

enum standing { STANDING_OVER, STANDING_WAITS, STANDING_DUE };

/* Whether the event is to be told now. */
static enum standing look_at(struct node_core *core, const struct matter *matter)
{
    uint32_t tries = tries_of(core, matter->experiment, matter->subject, matter->fact.number);
    if (tries == UINT32_MAX || is_gone(core, matter->experiment, matter->fact.hook)) {
        return STANDING_OVER;
    }
    struct core_told *told = find_told(core, matter);
    if (told == NULL) {
        return STANDING_WAITS;
    }
    if (!told->is_used) {
        *told = (struct core_told){.is_used = true, .experiment = matter->experiment, .number = matter->fact.number};
        memcpy(told->subject, matter->subject, sizeof told->subject);
        told->next_ms = core->now_ms + requests_webhook_pause_ms(tries); /* of a node that told before this one */
    }
    told->seen_ms = core->now_ms;
    if (told->is_sending || core->now_ms < told->next_ms) {
        return STANDING_WAITS;
    }
    told->is_sending = true;
    return STANDING_DUE;
}

/* Rows of events that are of no use any more: told by another node, of a deleted experiment. */
static void forget_told(struct node_core *core)
{
    for (uint32_t i = 0; i < CORE_TOLD_MAX; i++) {
        struct core_told *told = &core->requests->told[i];
        if (told->is_used && !told->is_sending && core->now_ms - told->seen_ms > CORE_TOLD_FORGET_MS) {
            told->is_used = false;
        }
    }
}

/* This node is the first of those that live, for this key. */
static bool is_first(const struct node_core *core, const void *key, size_t bytes)
{
    uint64_t own = rendezvous_weight(core->options.self, key, bytes);
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        node_id peer = core->members->peers[i]->id;
        if (core_node_trusted(core, peer) && core_node_knows(core, peer, FACT_READS_SECRETS)) {
            uint64_t weight = rendezvous_weight(peer, key, bytes);
            if (weight > own || (weight == own && node_id_compare(peer, core->options.self) > 0)) {
                return false;
            }
        }
    }
    return true;
}

static void fill(const struct node_core *core, const struct matter *matter, const struct config_webhook *hook,
                 struct node_webhook_due *out)
{
    uint8_t bytes[FACT_SUBJECT_BYTES + 8];
    (void)core;
    *out = (struct node_webhook_due){.experiment = matter->experiment, .fact = matter->fact, .hook = *hook};
    memcpy(out->subject, matter->subject, sizeof out->subject);
    memcpy(bytes, matter->subject, FACT_SUBJECT_BYTES);
    bytes_put_u64(bytes + FACT_SUBJECT_BYTES, matter->fact.number);
    hash_of(out->id, sizeof out->id, "shoal message", matter->experiment.bytes, EXPERIMENT_ID_BYTES, bytes,
            sizeof bytes);
}

/* ---- which events there are
 * ---------------------------------------------------------------------------------------------- */

/* Of a test and of lines of logs the record tells. Its writer tells the webhook while it lives. */
static bool find_written(struct node_core *core, struct node_webhook_due *out)
{
    for (const struct view_delivery *row = core->view.deliveries; row != NULL; row = row->next) {
        struct matter matter = {.experiment = row->experiment};
        bool is_own = node_id_equal(row->writer, core->options.self);
        memcpy(matter.subject, row->subject, sizeof matter.subject);
        if (!row->is_open || fact_delivery_read(&row->entry->record, &matter.fact) != 0 ||
            (!is_own && (core_node_alive(core, row->writer) || !is_first(core, row->subject, sizeof row->subject)))) {
            continue;
        }
        const struct view_experiment *experiment = view_find_experiment(&core->view, row->experiment);
        struct hooks at = {.core = core, .experiment = experiment != NULL && experiment->known ? experiment : NULL};
        while (hooks_next(&at)) {
            if (memcmp(at.id, matter.fact.hook, sizeof at.id) == 0 && look_at(core, &matter) == STANDING_DUE) {
                fill(core, &matter, &at.hook, out);
                return true;
            }
        }
    }
    return false;
}

static bool was_away(const struct fact_webhook *fact, node_id node, uint64_t number)
{
    for (uint32_t i = 0; i < fact->away_count; i++) {
        const uint8_t *away = fact->away + (size_t)i * AWAY_BYTES;
        if (memcmp(away, node.bytes, NODE_ID_BYTES) == 0 && bytes_get_u64(away + NODE_ID_BYTES) >= number) {
            return true;
        }
    }
    return false;
}

/* The number of a node's loss; 0: it is not lost. A node that comes back has another incarnation, on which all agree.
 */
static uint64_t loss_of(const struct node_core *core, const struct core_peer *peer)
{
    const struct view_member *member = view_find_member(&core->view, peer->id);
    bool is_lost = peer->state == SWIM_DEAD && member != NULL && member->admitted && !member->left && member->has_node;
    return is_lost ? swim_incarnation_of(&core->members->swim, peer->id) : 0;
}

static bool find_loss(struct node_core *core, struct node_webhook_due *out)
{
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        uint64_t number = loss_of(core, peer);
        struct hooks at = {.core = core};
        while (number > 0 && is_first(core, peer->id.bytes, NODE_ID_BYTES) && hooks_next(&at)) {
            struct matter matter = {.fact = {.number = number, .event = FACT_HOOK_NODE_LOST}};
            memcpy(matter.fact.hook, at.id, sizeof at.id);
            subject_of(&matter, peer->id.bytes, NODE_ID_BYTES);
            if ((at.hook.on >> FACT_HOOK_NODE_LOST & 1) != 0 && !was_away(&at.fact, peer->id, number) &&
                look_at(core, &matter) == STANDING_DUE) {
                fill(core, &matter, &at.hook, out);
                out->node = peer->id;
                return true;
            }
        }
    }
    return false;
}

/* A lost node that, by its records, has the lease of a trial of the experiment: then `*trial`. */
static bool has_trial(const struct view_member *member, experiment_id experiment, uint32_t *trial)
{
    for (uint32_t slot = 0; member->slots != NULL && slot < member->slot_count; slot++) {
        if (member->slots[slot].state == LEASE_LEASED &&
            experiment_id_equal(member->slots[slot].attempt.experiment, experiment)) {
            *trial = member->slots[slot].attempt.trial;
            return true;
        }
    }
    return false;
}

static bool find_loss_of(struct node_core *core, const struct view_experiment *experiment, const struct hooks *at,
                         struct node_webhook_due *out)
{
    for (uint32_t i = 0;
         !at->is_at_mesh && (at->hook.on >> FACT_HOOK_NODE_LOST & 1) != 0 && i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        uint64_t number = loss_of(core, peer);
        struct matter matter = {.experiment = experiment->id, .fact = {.number = number, .event = FACT_HOOK_NODE_LOST}};
        const struct view_member *member = number > 0 ? view_find_member(&core->view, peer->id) : NULL;
        memcpy(matter.fact.hook, at->id, sizeof at->id);
        subject_of(&matter, peer->id.bytes, NODE_ID_BYTES);
        if (member != NULL && has_trial(member, experiment->id, &matter.fact.trial) &&
            look_at(core, &matter) == STANDING_DUE) {
            fill(core, &matter, &at->hook, out);
            out->node = peer->id;
            return true;
        }
    }
    return false;
}

/* The number of an experiment's end: it can end again once a trial is retried, or the search has further trials. */
static uint64_t end_number(const struct view_experiment *experiment)
{
    uint64_t retried = 0;
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct fact_stop stop =
            experiment->trials[i] != NULL ? view_trial_stop(experiment->trials[i]) : (struct fact_stop){0};
        retried = !stop.stopped && stop.lamport > retried ? stop.lamport : retried;
    }
    return (uint64_t)experiment->trial_count + retried;
}

/* Of the events that follow from the experiment's trials the first one that is due. `*is_over`: none is left to be
 * told. */
static bool find_in_trials(struct node_core *core, const struct view_experiment *experiment, struct hooks at,
                           struct node_webhook_due *out, bool *is_over)
{
    enum view_experiment_state state = view_experiment_state(experiment);
    uint64_t ended = state == VIEW_COMPLETED || state == VIEW_FAILED ? end_number(experiment) : 0;
    uint32_t best = 0;
    double value = 0;
    bool has_best = view_experiment_best(&core->view, experiment, &best, &value);
    *is_over = true;
    while (hooks_next(&at)) {
        struct matter matter = {.experiment = experiment->id};
        memcpy(matter.fact.hook, at.id, sizeof at.id);
        if (has_best && (at.hook.on >> FACT_HOOK_BEST & 1) != 0) {
            uint8_t detail[4 + sizeof value];
            bytes_put_u32(detail, best);
            memcpy(detail + 4, &value, sizeof value);
            matter.fact.event = FACT_HOOK_BEST;
            matter.fact.trial = best;
            subject_of(&matter, detail, sizeof detail);
            enum standing standing = look_at(core, &matter);
            *is_over &= standing == STANDING_OVER;
            if (standing == STANDING_DUE) {
                fill(core, &matter, &at.hook, out);
                out->value = value;
                return true;
            }
        }
        matter.fact.event = state == VIEW_COMPLETED ? FACT_HOOK_COMPLETED : FACT_HOOK_FAILED;
        if (ended > 0 && (at.hook.on >> matter.fact.event & 1) != 0) {
            matter.fact.trial = 0;
            matter.fact.number = ended;
            subject_of(&matter, "", 0);
            enum standing standing = look_at(core, &matter);
            *is_over &= standing == STANDING_OVER;
            if (standing == STANDING_DUE) {
                fill(core, &matter, &at.hook, out);
                return true;
            }
        }
    }
    return false;
}

/* Changes with whatever an event of the trials follows from. */
static uint64_t signature_of(const struct node_core *core, const struct view_experiment *experiment)
{
    uint64_t words[VIEW_TRIAL_STATES + 3] = {experiment->trial_count, core->view.webhook_count,
                                             view_experiment_state(experiment)},
                                       out;
    for (uint32_t i = 0; i < VIEW_TRIAL_STATES; i++) {
        words[3 + i] = experiment->rest_counts[i];
    }
    (void)crypto_generichash((unsigned char *)words, 16, (const unsigned char *)words, sizeof words, NULL, 0);
    memcpy(&out, words, sizeof out);
    return out;
}

/* The row with the experiment's signature when nothing was left to be told. */
static struct core_settled *settled_of(struct node_core *core, experiment_id experiment)
{
    return &core->requests->settled[bytes_get_u64(experiment.bytes) % CORE_SETTLED_MAX];
}

/* Losses of nodes, for the webhooks of its configuration. */
static bool find_losses(struct node_core *core, const struct view_experiment *experiment, struct node_webhook_due *out)
{
    struct hooks at = {.core = core, .experiment = experiment};
    bool is_own = experiment->config->webhooks_bytes > 0 && is_first(core, experiment->id.bytes, EXPERIMENT_ID_BYTES);
    while (is_own && hooks_next(&at)) {
        if (find_loss_of(core, experiment, &at, out)) {
            return true;
        }
    }
    return false;
}

static bool find_in(struct node_core *core, const struct view_experiment *experiment, uint32_t *costly,
                    struct node_webhook_due *out)
{
    struct hooks first = {.core = core, .experiment = experiment}, at = first;
    if (!experiment->known) {
        return false;
    }
    if (find_losses(core, experiment, out)) {
        return true;
    }
    uint64_t signature = signature_of(core, experiment);
    struct core_settled *settled = settled_of(core, experiment->id);
    bool is_known = settled->signature == signature && experiment_id_equal(settled->experiment, experiment->id);
    if (is_known || !is_first(core, experiment->id.bytes, EXPERIMENT_ID_BYTES)) {
        return false;
    }
    bool is_over = !hooks_next(&at), is_due = false;
    if (!is_over) {
        ++*costly;
        is_due = find_in_trials(core, experiment, first, out, &is_over);
    }
    if (is_over) {
        *settled = (struct core_settled){experiment->id, signature};
    }
    return is_due;
}

bool requests_webhook_due(struct node_core *core, struct node_webhook_due *out)
{
    if (!core->started || core->is_out || core->leaving || core->members->syncing || core->disk_full) {
        return false;
    }
    forget_told(core);
    if (find_written(core, out) || find_loss(core, out)) {
        return true;
    }
    uint32_t costly = 0;
    for (uint32_t looks = 0; looks < LOOKS_MAX && looks < core->view.experiment_count && costly < COSTLY_MAX; looks++) {
        core->requests->webhook_turn = (core->requests->webhook_turn + 1) % core->view.experiment_count;
        if (find_in(core, core->view.experiments[core->requests->webhook_turn], &costly, out)) {
            return true;
        }
    }
    return false;
}

/* ---- what came of it
 * ----------------------------------------------------------------------------------------------------- */

static struct core_pending *put_delivery(struct node_core *core, experiment_id experiment,
                                         const uint8_t subject[FACT_SUBJECT_BYTES], const struct fact_delivery *fact)
{
    uint8_t bytes[FACT_DELIVERY_BYTES + 128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_delivery_pack(&writer, fact);
    return core_put(core, FACT_DELIVERY, fact_key_delivery(experiment, subject), &writer);
}

void requests_webhook_tried(struct node_core *core, const struct node_event *event)
{
    const struct node_webhook_due *due = event->u.webhook.due;
    struct matter matter = {.experiment = due->experiment, .fact = due->fact};
    memcpy(matter.subject, due->subject, sizeof matter.subject);
    uint32_t tries = tries_of(core, due->experiment, due->subject, due->fact.number);
    struct core_told *told = find_told(core, &matter);
    if (core->is_out || tries == UINT32_MAX || told == NULL) {
        return;
    }
    struct fact_delivery fact = due->fact;
    fact.tries = tries + 1;
    fact.status = event->u.webhook.status;
    fact.tried_s = core->wall_s;
    fact.state = event->u.webhook.ok                                                         ? FACT_DELIVERY_DONE
                 : fact.status == 410 || requests_webhook_pause_ms(fact.tries) == UINT64_MAX ? FACT_DELIVERY_GIVEN_UP
                                                                                             : FACT_DELIVERY_RETRYING;
    if (fact.event != FACT_HOOK_LOG_MATCH) {
        bytes_copy_text(fact.text, sizeof fact.text, event->u.webhook.ok ? "" : event->u.webhook.text);
    }
    (void)put_delivery(core, due->experiment, due->subject, &fact);
    if (fact.status == 410) {
        struct fact_delivery gone = {
            .state = FACT_DELIVERY_GONE, .tries = 1, .status = 410, .tried_s = core->wall_s, .event = fact.event};
        uint8_t subject[FACT_SUBJECT_BYTES];
        memcpy(gone.hook, fact.hook, sizeof gone.hook);
        subject_of_end(subject, fact.hook);
        (void)put_delivery(core, due->experiment, subject, &gone);
    }
    told->is_sending = false;
    told->is_used = fact.state == FACT_DELIVERY_RETRYING;
    told->next_ms = core->now_ms + (told->is_used ? requests_webhook_pause_ms(fact.tries) : 0);
}

void requests_log_matched(struct node_core *core, const struct node_event *event)
{
    const struct node_log_match *match = event->u.match;
    struct matter matter = {.experiment = match->attempt.experiment,
                            .fact = {.event = FACT_HOOK_LOG_MATCH,
                                     .trial = match->attempt.trial,
                                     .attempt = match->attempt.number,
                                     .rank = match->rank}};
    uint8_t detail[12];
    memcpy(matter.fact.hook, match->hook, sizeof matter.fact.hook);
    bytes_copy_text(matter.fact.text, sizeof matter.fact.text, match->line);
    bytes_put_u32(detail, matter.fact.trial);
    bytes_put_u32(detail + 4, matter.fact.attempt);
    bytes_put_u32(detail + 8, matter.fact.rank);
    subject_of(&matter, detail, sizeof detail);
    if (core->is_out || view_find_experiment(&core->view, matter.experiment) == NULL ||
        tries_of(core, matter.experiment, matter.subject, 0) != 0 || is_gone(core, matter.experiment, match->hook)) {
        return;
    }
    (void)put_delivery(core, matter.experiment, matter.subject, &matter.fact);
}

/* ---- requests
 * ------------------------------------------------------------------------------------------------------------ */

static bool refused(struct node_core *core, const struct node_event *event)
{
    const struct view_member *unable = requests_find_unable(core, FACT_READS_SECRETS);
    uint32_t count = 0;
    char text[NODE_REPLY_BYTES];
    for (const struct view_webhook *row = view_webhook_next(&core->view, NULL); row != NULL;
         row = view_webhook_next(&core->view, row)) {
        count++;
    }
    if (unable != NULL) {
        format_text(text, sizeof text,
                    "%s runs a version of Shoal that does not know webhooks; update that node first.",
                    view_label(&core->view, unable->id).text);
    } else if (count >= HOOKS_MAX) {
        format_text(text, sizeof text,
                    "The mesh has %d webhooks and allowed hosts already; remove some that are of no use.", HOOKS_MAX);
    } else {
        return false;
    }
    core_reply(core, event->u.request.client, ERR_REFUSED, 0, text);
    return true;
}

static struct core_pending *put_webhook(struct node_core *core, const uint8_t *id, const struct fact_webhook *fact)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_webhook_pack(&writer, fact);
    return core_put(core, FACT_WEBHOOK, fact_key_webhook(id), &writer);
}

void requests_webhook(struct node_core *core, const struct node_event *event)
{
    uint8_t live[FACT_LIVE_MAX * EXPERIMENT_ID_BYTES], away[64 * AWAY_BYTES];
    struct fact_webhook fact = {
        .hook = event->bytes, .hook_bytes = event->byte_count, .created_s = core->wall_s, .live = live, .away = away};
    if (refused(core, event)) {
        return;
    }
    bytes_copy_text(fact.host, sizeof fact.host, event->u.request.value);
    for (uint32_t i = 0; i < core->view.experiment_count && fact.live_count < FACT_LIVE_MAX; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        if (experiment->known && !view_experiment_over(experiment)) {
            memcpy(live + (size_t)fact.live_count++ * EXPERIMENT_ID_BYTES, experiment->id.bytes, EXPERIMENT_ID_BYTES);
        }
    }
    for (uint32_t i = 0; i < core->members->peer_count && fact.away_count < 64; i++) {
        uint64_t number = loss_of(core, core->members->peers[i]);
        if (number > 0) {
            memcpy(away + (size_t)fact.away_count * AWAY_BYTES, core->members->peers[i]->id.bytes, NODE_ID_BYTES);
            bytes_put_u64(away + (size_t)fact.away_count++ * AWAY_BYTES + NODE_ID_BYTES, number);
        }
    }
    (void)core_ack_begin(core, event->u.request.client, put_webhook(core, event->u.request.public_key, &fact), no_blob,
                         no_blob);
}

void requests_webhook_remove(struct node_core *core, const struct node_event *event)
{
    const struct fact_webhook fact = {.removed = true, .created_s = core->wall_s};
    (void)core_ack_begin(core, event->u.request.client, put_webhook(core, event->u.request.public_key, &fact), no_blob,
                         no_blob);
}

void requests_webhook_test(struct node_core *core, const struct node_event *event)
{
    struct matter matter = {.fact = {.event = FACT_HOOK_TEST, .number = ++core->requests->tests + core->options.boot}};
    memcpy(matter.fact.hook, event->u.request.public_key, FACT_HOOK_BYTES);
    subject_of(&matter, core->options.self.bytes, NODE_ID_BYTES);
    (void)core_ack_begin(core, event->u.request.client, put_delivery(core, no_experiment, matter.subject, &matter.fact),
                         no_blob, no_blob);
}
