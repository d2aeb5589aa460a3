/* Requests of users: whether a request can be granted, and the record that grants it (DESIGN 12). Requests about members are in
 * members.c, those about one trial in trials.c; on how many disks a record is before the user is answered, in copies/acks.c. */

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/copies/acks.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/members/twin.h"
#include "node/core/owner/own_policy.h"
#include "node/core/owner/runtime.h"
#include "node/core/owner/slots.h"
#include "node/core/owner/workers.h"
#include "node/core/requests/members.h"
#include "node/core/requests/models.h"
#include "node/core/requests/secrets.h"
#include "node/core/requests/tokens.h"
#include "node/core/requests/trials.h"
#include "node/core/requests/webhooks.h"
#include "train/search/search.h"

/* ---- users --------------------------------------------------------------------------------------------------------------- */

static const hash256 no_blob = {{0}};

static const struct records_entry *find_tombstone(const struct node_core *core, experiment_id id)
{
    const struct view_tombstone *tombstone = view_find_tombstone(&core->view, id);
    if (tombstone == NULL) {
        return NULL;
    }
    struct fact_key key = fact_key_experiment(id);
    return records_find(&core->records, record_ident_of(tombstone->writer, FACT_TOMBSTONE, key.bytes, key.count));
}

static uint64_t bytes_of_trials(const struct config *config, uint64_t trials)
{
    struct pack_reader reader;
    struct search_head head;
    uint32_t parameters = 0;
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    bool is_drawn = config_is_drawn(config) && search_head_read(&reader, &head, &parameters) == 0;
    uint64_t points = is_drawn ? CORE_DRAWN_BYTES + (uint64_t)parameters * CORE_DRAWN_PARAMETER_BYTES : 0;
    return trials * (CORE_TRIAL_BYTES + (uint64_t)config->slots_per_trial * CORE_TRIAL_WORKER_BYTES + points);
}

/* About how much more memory the known experiments will take until they are over. */
static uint64_t bytes_spoken_for(const struct node_core *core)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        if (!experiment->known || view_experiment_over(experiment)) {
            continue;
        }
        uint64_t to_begin = 0;
        for (uint32_t t = 0; t < experiment->trial_count; t++) {
            to_begin += view_find_trial(experiment, t) == NULL;
        }
        bytes += bytes_of_trials(experiment->config, to_begin);
    }
    return bytes;
}

static bool refused_for_drawn_promotion(struct node_core *core, uint64_t client, const struct config *config)
{
    const struct view_member *unable = config_is_drawn(config) ? requests_find_unable(core, FACT_READS_DRAWN_PROMOTION) : NULL;
    char text[NODE_REPLY_BYTES];
    if (unable != NULL) {
        format_text(text, sizeof text,
                    "%s runs a version of Shoal that does not know searcher.sampler tpe together with searcher.stop_once: false; update that "
                    "node first, or leave one of them out.",
                    view_label(&core->view, unable->id).text);
        core_reply(core, client, ERR_REFUSED, 0, text);
    }
    return unable != NULL;
}

/* An older coordinator would place the trial anywhere, an older node start the program without its secrets, tell no webhook and read no
 * event file. */
static bool refused_for_secrets(struct node_core *core, uint64_t client, const struct config *config)
{
    bool reads_events = config->tensorboard == CONFIG_TENSORBOARD_READ;
    const struct view_member *unable = config_needs_secrets(config) ? requests_find_unable(core, FACT_READS_SECRETS) : NULL;
    char text[NODE_REPLY_BYTES];
    if (unable != NULL) {
        format_text(text, sizeof text, "%s runs a version of Shoal that does not know %s; update that node first.",
                    view_label(&core->view, unable->id).text, reads_events ? "tensorboard: read" : "secrets and webhooks");
        core_reply(core, client, ERR_REFUSED, 0, text);
    }
    return unable != NULL;
}

/* An older coordinator would begin the experiment at once. */
static bool refused_for_waits(struct node_core *core, uint64_t client, const struct config *config)
{
    const struct view_member *unable = config_needs_waits(config) ? requests_find_unable(core, FACT_READS_WAITS) : NULL;
    char text[NODE_REPLY_BYTES];
    if (unable != NULL) {
        format_text(text, sizeof text, "%s runs a version of Shoal that does not know %s; update that node first.",
                    view_label(&core->view, unable->id).text, config->depends_on[0] != '\0'    ? "depends_on"
                    : config->start_after[0] != '\0' ? "start_after"
                    : config->max_runtime_s > 0       ? "max_runtime"
                                                      : "resources.constraints");
        core_reply(core, client, ERR_REFUSED, 0, text);
    }
    return unable != NULL;
}

/* An older node takes the record for a broken one, and would take no part in the experiment without a word. */
static bool refused_for_versions(struct node_core *core, uint64_t client, const struct config *config)
{
    const struct view_member *unable = config_needs_search(config) ? requests_find_unable(core, FACT_READS_SEARCH) : NULL;
    bool is_population = config->searcher == SEARCH_PBT;
    const struct view_member *undrawn =
        config_is_drawn(config) ? requests_find_unable(core, is_population ? FACT_READS_POPULATION : FACT_READS_DRAWN) : NULL;
    unable = undrawn != NULL ? undrawn : unable;
    char text[NODE_REPLY_BYTES];
    if (unable == NULL && config_is_custom(config)) {
        unable = requests_find_unable(core, FACT_READS_CUSTOM);
        if (unable != NULL) {
            format_text(text, sizeof text, "%s runs a version of Shoal that does not know searcher.name custom; update that node first.",
                        view_label(&core->view, unable->id).text);
            core_reply(core, client, ERR_REFUSED, 0, text);
        }
        return unable != NULL;
    }
    if (unable == NULL && config_needs_promotion(config)) {
        unable = requests_find_unable(core, FACT_READS_PROMOTION);
        if (unable != NULL) {
            format_text(text, sizeof text,
                        "%s runs a version of Shoal that does not promote paused trials (searcher.stop_once: false); update that node first, "
                        "or leave stop_once out.",
                        view_label(&core->view, unable->id).text);
            core_reply(core, client, ERR_REFUSED, 0, text);
        }
        return unable != NULL || refused_for_drawn_promotion(core, client, config);
    }
    if (undrawn != NULL) {
        format_text(text, sizeof text,
                    "%s runs a version of Shoal that does not know searcher.%s; update that node first, or use random.",
                    view_label(&core->view, unable->id).text,
                    is_population                       ? "name pbt"
                    : config->searcher == SEARCH_CUSTOM ? "name custom"
                    : config->searcher == SEARCH_TPE    ? "name tpe"
                                                        : "sampler tpe");
        core_reply(core, client, ERR_REFUSED, 0, text);
    } else if (unable != NULL && !search_halves(config->searcher)) {
        format_text(text, sizeof text,
                    "%s runs a version of Shoal that does not know log, step and when of hyperparameters, searcher.sampler and "
                    "searcher.initial; update that node first, or leave them out.",
                    view_label(&core->view, unable->id).text);
        core_reply(core, client, ERR_REFUSED, 0, text);
    } else if (unable != NULL) {
        format_text(text, sizeof text,
                    "%s runs a version of Shoal that does not know searcher.name %s; update that node first, or use random.",
                    view_label(&core->view, unable->id).text, config->searcher == SEARCH_ASHA ? "asha" : "adaptive_asha");
        core_reply(core, client, ERR_REFUSED, 0, text);
    }
    return unable != NULL;
}

/* The bytes that the trials of further experiments may take. */
static uint64_t room_for_trials(const struct node_core *core)
{
    uint64_t spoken_for = bytes_spoken_for(core) + core->arena.capacity_bytes / CORE_MEMORY_SHORT + core->arena.used_bytes;
    return core->arena.capacity_bytes > spoken_for ? core->arena.capacity_bytes - spoken_for : 0;
}

static bool refused_for_memory(struct node_core *core, uint64_t client, const struct config *config, uint32_t trial_count)
{
    uint64_t room = room_for_trials(core);
    struct search_space space = config_search_space(config);
    uint32_t trials = trial_count;
    char text[NODE_REPLY_BYTES];
    if (core->memory.is_short) {
        core_reply(core, client, ERR_MEMORY, 0,
                   "The daemon's memory for experiments is nearly full; delete experiments that are over, and submit again.");
        return true;
    }
    bool is_counted = trials != 0 || search_trial_count(&space, &trials) == 0;
    if (is_counted && bytes_of_trials(config, trials) > room) {
        format_text(text, sizeof text,
                    "The experiment has %u trials, and the daemon's memory has room for about %u more like these; ask for "
                    "fewer, or delete experiments that are over, and submit again.",
                    (unsigned)trials, (unsigned)(room / bytes_of_trials(config, 1)));
        core_reply(core, client, ERR_MEMORY, 0, text);
        return true;
    }
    return false;
}

/* The checkpoint of several parts that the experiment begins with, in the experiment that made it. NULL: a part of it is let go of. */
static const struct view_set *find_beginning(const struct node_core *core, const struct config *config, const struct node_event *event)
{
    struct config_begin begin;
    const struct view_experiment *earlier = config_begin(config, &begin) ? view_find_experiment(&core->view, begin.experiment) : NULL;
    const struct view_trial *trial = earlier != NULL ? view_find_trial(earlier, begin.trial) : NULL;
    const struct view_set *set = trial != NULL ? view_find_set(trial, event->u.request.checkpoint) : NULL;
    bool is_whole = set != NULL && set->key.count == event->u.request.checkpoint_parts;
    for (uint32_t part = 0; is_whole && part < set->key.count; part++) {
        is_whole = view_set_part(set, part) != NULL;
    }
    return is_whole ? set : NULL;
}

/* An older coordinator would begin the trial from nothing if it heard of the experiment before it heard of the checkpoint. */
static bool refused_for_beginning(struct node_core *core, uint64_t client, const struct config *config, const struct node_event *event)
{
    const struct view_member *unable = requests_find_unable(core, FACT_READS_EXTENSION);
    const struct view_member *lacks_parts = event->u.request.checkpoint_parts > 0 ? requests_find_unable(core, FACT_READS_PARTS) : NULL;
    char text[NODE_REPLY_BYTES];
    if (config->begin_from[0] == '\0') {
        return false;
    }
    if (hash256_is_none(event->u.request.checkpoint)) {
        core_reply(core, client, ERR_MALFORMED, 0, "The checkpoint that the experiment begins with is not on this disk.");
        return true;
    }
    if (event->u.request.checkpoint_parts > 0 && find_beginning(core, config, event) == NULL) {
        core_reply(core, client, ERR_NOT_FOUND, 0,
                   "A part of the checkpoint that the experiment begins with was deleted meanwhile; submit it with a newer one.");
        return true;
    }
    if (lacks_parts != NULL) {
        format_text(text, sizeof text,
                    "%s runs a version of Shoal that does not know checkpoints of several parts, and the one to begin with has %u; update "
                    "that node first.",
                    view_label(&core->view, lacks_parts->id).text, event->u.request.checkpoint_parts);
        core_reply(core, client, ERR_REFUSED, 0, text);
        return true;
    }
    if (unable != NULL) {
        format_text(text, sizeof text, "%s runs a version of Shoal that does not know checkpoint.begin_from; update that node first.",
                    view_label(&core->view, unable->id).text);
        core_reply(core, client, ERR_REFUSED, 0, text);
    }
    return unable != NULL;
}

/* The holders of the checkpoint in the experiment that made it. */
static void add_earlier_holders(const struct node_core *core, const struct config_begin *begin, struct view_manifest *out)
{
    const struct view_experiment *earlier = view_find_experiment(&core->view, begin->experiment);
    const struct view_trial *trial = earlier != NULL ? view_find_trial(earlier, begin->trial) : NULL;
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest united;
    while (core_checkpoints_next(core, &row, &united)) {
        for (uint32_t i = 0; hash256_equal(united.blob, out->blob) && i < united.holder_count; i++) {
            if (core_node_alive(core, united.holders[i])) {
                view_manifest_add_holder(out, united.holders[i]);
            }
        }
    }
}

/* Names the blob as one of the trial's own checkpoints, or as a part of one. `part.count` 0: it is a whole one. False: no memory. */
static bool put_copy(struct node_core *core, const struct config *config, experiment_id experiment, const struct fact_part_key *part,
                     const struct view_manifest *named)
{
    const attempt_id made = {.experiment = experiment, .number = 1, .coordinator = core->options.self};
    struct fact_manifest fact = {.blob = named->blob,
                                 .bytes = named->bytes,
                                 .holder_count = named->holder_count,
                                 .durable = named->holder_count >= config->checkpoint_replicas};
    memcpy(fact.holders, named->holders, sizeof fact.holders);
    uint8_t bytes[512];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_manifest_pack(&writer, &fact);
    bool is_part = part->count > 0;
    struct fact_key key = is_part ? fact_key_part(&made, part) : fact_key_manifest(&made, part->step);
    return core_put(core, is_part ? FACT_PART : FACT_MANIFEST, key, &writer) != NULL;
}

/* The same of a checkpoint of several parts: the parts are on this disk, and on those of their holders. */
static bool put_parts(struct node_core *core, const struct config *config, const struct node_event *event)
{
    const struct view_set *set = find_beginning(core, config, event);
    CHECK(set != NULL); /* refused_for_beginning */
    struct fact_part_key key = set->key;
    bool is_put = true;
    for (key.part = 0; key.part < key.count && is_put; key.part++) {
        struct view_manifest united, named = {0};
        (void)core_checkpoints_unite(core, view_set_part(set, key.part), &united);
        named.blob = united.blob;
        named.bytes = united.bytes;
        view_manifest_add_holder(&named, core->options.self);
        for (uint32_t i = 0; i < united.holder_count; i++) {
            if (core_node_alive(core, united.holders[i])) {
                view_manifest_add_holder(&named, united.holders[i]);
            }
        }
        is_put = put_copy(core, config, event->u.request.experiment, &key, &named);
    }
    return is_put;
}

/* The checkpoint becomes one of the trial's own, of an attempt that nobody has made: so it is copied, kept and let go as all of the
 * trial's checkpoints are. False: no memory. */
static bool put_beginning(struct node_core *core, const struct config *config, const struct node_event *event)
{
    struct view_manifest named = {.blob = event->u.request.checkpoint, .bytes = event->u.request.checkpoint_bytes};
    struct config_begin begin;
    if (!config_begin(config, &begin)) {
        return true;
    }
    if (event->u.request.checkpoint_parts > 0) {
        return put_parts(core, config, event);
    }
    view_manifest_add_holder(&named, core->options.self);
    add_earlier_holders(core, &begin, &named);
    const struct fact_part_key whole = {.step = begin.step};
    return put_copy(core, config, event->u.request.experiment, &whole, &named);
}

static void submit(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    experiment_id id = event->u.request.experiment;
    if (view_is_deleted(&core->view, id)) {
        core_reply(core, client, ERR_REFUSED, 0, "The experiment with this id has been deleted; submit it with a new one.");
        return;
    }
    struct fact_key key = fact_key_experiment(id);
    const struct view_experiment *known = view_find_experiment(&core->view, id);
    node_id submitter = known != NULL && known->known ? known->submitter : core->options.self;
    bool is_large = event->u.request.trial_count != 0;
    enum fact_kind kind = is_large ? FACT_EXPERIMENT_LARGE : FACT_EXPERIMENT;
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(submitter, (uint16_t)kind, key.bytes, key.count));
    if (entry != NULL) {
        MARK(submit_repeated);
        /* A retry, perhaps at another node than before: the record is there, so the client is answered without a new one. */
        struct core_ack *ack = core_ack_append(core, client, entry->ident, entry->record.version, event->u.request.code,
                                               event->u.request.config_text);
        if (ack != NULL && entry->on_disk) {
            core_ack_on_disk(core, client, entry->ident, entry->record.version);
        }
        return;
    }
    if (core->disk_full) {
        core_reply(core, client, ERR_NO_SPACE, 0,
                   "The disk of this node is full; make room in its data directory and submit again.");
        return;
    }
    struct fact_experiment fact = {.submitted_s = core->wall_s,
                                   .code = event->u.request.code,
                                   .code_bytes = event->u.request.code_bytes,
                                   .config_text = event->u.request.config_text,
                                   .config = event->bytes,
                                   .config_bytes = event->byte_count,
                                   .trial_count = event->u.request.trial_count};
    struct config config;
    struct pack_reader reader;
    pack_reader_init(&reader, event->bytes, event->byte_count);
    if (config_unpack_form(&reader, is_large ? CONFIG_LEAN : CONFIG_PLAIN, &config) != 0 || experiment_id_is_none(id)) {
        core_reply(core, client, ERR_MALFORMED, 0, "The submitted configuration is not in the packed form.");
        return;
    }
    if (refused_for_versions(core, client, &config) || refused_for_secrets(core, client, &config) ||
        refused_for_waits(core, client, &config) || refused_for_beginning(core, client, &config, event) ||
        refused_for_memory(core, client, &config, fact.trial_count)) {
        return;
    }
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    if (is_large) {
        fact_experiment_large_pack(&writer, &fact);
    } else {
        fact_experiment_pack(&writer, &fact);
    }
    if (writer.failed) {
        core_reply(core, client, ERR_FULL, 0, "The configuration is larger than a record may be; shorten it.");
        return;
    }
    if (!put_beginning(core, &config, event)) {
        core_reply(core, client, ERR_MEMORY, 0, "The daemon's memory for records is full; delete experiments that are over, and submit again.");
        return;
    }
    TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_SUBMITTED, event->u.request.experiment),
                "%s is submitted", config.name);
    (void)core_ack_begin(core, client, core_put(core, kind, key, &writer), fact.code, fact.config_text);
}

static struct core_pending *put_cancel(struct node_core *core, experiment_id experiment)
{
    const struct fact_control fact = {.cancelled = true};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_control_pack(&writer, &fact);
    return core_put(core, FACT_CONTROL, fact_key_cancel(experiment), &writer);
}

/* Writes a pause, or a resume. */
static struct core_pending *put_pause(struct node_core *core, const struct view_experiment *experiment, bool paused)
{
    struct fact_control fact = {0};
    for (const struct view_control *row = experiment->controls; row != NULL; row = row->next) {
        if (node_id_equal(row->writer, core->options.self) && !row->is_cancel) {
            fact = row->fact;
        }
    }
    struct lamport_top others = view_control_top(experiment, &core->options.self);
    fact.lamport = lamport_next(&others, fact.lamport);
    fact.paused = paused;
    fact.waived = view_experiment_waived(experiment) ||
                  (!paused && view_experiment_wait(&core->view, experiment, core->wall_s).cause == VIEW_WAITS_ENDED);
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_control_pack(&writer, &fact);
    return core_put(core, FACT_CONTROL, fact_key_experiment(experiment->id), &writer);
}

static void control(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    const struct view_experiment *experiment = view_find_experiment(&core->view, event->u.request.experiment);
    if (experiment == NULL || !experiment->known) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such experiment; `shoal ls` lists them.");
        return;
    }
    enum view_experiment_state state = view_experiment_state(experiment);
    if (view_experiment_over(experiment) && !(event->u.request.kind == NODE_REQUEST_CANCEL && state == VIEW_CANCELLED)) {
        char text[NODE_REPLY_BYTES];
        format_text(text, sizeof text, "The experiment is %s already, so there is nothing to %s.",
                    view_experiment_state_name(state),
                    event->u.request.kind == NODE_REQUEST_CANCEL  ? "cancel"
                    : event->u.request.kind == NODE_REQUEST_PAUSE ? "pause"
                                                                  : "resume");
        core_reply(core, client, ERR_REFUSED, 0, text);
        return;
    }
    bool is_pause = event->u.request.kind == NODE_REQUEST_PAUSE;
    bool is_for_good = event->u.request.kind == NODE_REQUEST_CANCEL;
    is_for_good |= is_pause && BUG(pause_for_good, "a pause ends nothing for good");
    struct core_pending *pending = is_for_good ? put_cancel(core, experiment->id) : put_pause(core, experiment, is_pause);
    enum event_kind kind = is_for_good ? EVENT_EXPERIMENT_CANCELLED : is_pause ? EVENT_EXPERIMENT_PAUSED : EVENT_EXPERIMENT_RESUMED;
    TRACE_EVENT(&core->options.trace, event_of_experiment(kind, experiment->id), "%s is %s", experiment->config->name,
                is_for_good ? "cancelled" : is_pause ? "paused" : "resumed");
    (void)core_ack_begin(core, client, pending, no_blob, no_blob);
}

/* ---- notes --------------------------------------------------------------------------------------------------------------- */

static uint64_t own_annotation_lamport(const struct node_core *core, const struct view_experiment *experiment,
                                       const struct view_annotation *of)
{
    uint64_t lamport = 0;
    for (const struct view_annotation *row = of != NULL ? experiment->annotations : NULL; row != NULL; row = row->next) {
        bool is_own = node_id_equal(row->writer, core->options.self) && view_annotation_same(row, of);
        lamport = is_own ? row->lamport : lamport;
    }
    return lamport;
}

/* Any row of the register, also where only a jump is there; NULL: never written. */
static const struct view_annotation *find_annotation(const struct view_experiment *experiment, enum fact_subject subject,
                                                     const char *label)
{
    for (const struct view_annotation *row = experiment->annotations; row != NULL; row = row->next) {
        char name[FACT_LABEL_BYTES];
        view_annotation_name(row, name);
        if (row->subject == (uint32_t)subject && strcmp(name, label) == 0) {
            return row;
        }
    }
    return NULL;
}

static struct core_pending *put_annotation(struct node_core *core, const struct view_experiment *experiment,
                                           const struct node_event *event)
{
    enum fact_subject subject = event->u.request.subject;
    const struct view_annotation *any = find_annotation(experiment, subject, event->u.request.label);
    struct lamport_top others = {0};
    if (any != NULL) {
        others = view_annotation_top(experiment, any, &core->options.self);
    }
    struct fact_annotation fact = {.lamport = lamport_next(&others, own_annotation_lamport(core, experiment, any)),
                                   .is_set = event->u.request.is_set};
    memcpy(fact.value, event->u.request.value, sizeof fact.value);
    uint8_t bytes[FACT_NOTE_BYTES + 32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_annotation_pack(&writer, &fact);
    return core_put(core, FACT_ANNOTATION, fact_key_annotation(experiment->id, subject, event->u.request.label), &writer);
}

/* Refuses a label beyond those that are shown, and taking back a label that is not there. */
static bool refused_label(struct node_core *core, const struct view_experiment *experiment, const struct node_event *event)
{
    struct view_label_text labels[VIEW_LABELS_MAX];
    char text[NODE_REPLY_BYTES];
    uint32_t count = view_experiment_labels(experiment, labels);
    bool is_there = false;
    for (uint32_t i = 0; i < count; i++) {
        is_there |= strcmp(labels[i].name, event->u.request.label) == 0;
    }
    if (event->u.request.is_set && !is_there && count == VIEW_LABELS_MAX) {
        format_text(text, sizeof text, "%s has %d labels already; take one back with --remove.", experiment->config->name,
                    VIEW_LABELS_MAX);
        core_reply(core, event->u.request.client, ERR_REFUSED, 0, text);
        return true;
    }
    if (!event->u.request.is_set && !is_there && !experiment->is_large) {
        format_text(text, sizeof text, "%s has no label %s.", experiment->config->name, event->u.request.label);
        core_reply(core, event->u.request.client, ERR_NOT_FOUND, 0, text);
        return true;
    }
    return false;
}

/* A number in decimal digits, as the request has it; 0: it is none. */
static uint32_t number_of(const char *text)
{
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9' && number <= UINT32_MAX; text++) {
        number = 10 * number + (uint64_t)(*text - '0');
    }
    return *text == '\0' && number <= UINT32_MAX ? (uint32_t)number : 0;
}

/* Refuses what needs every node to know of trials and slots that users have set. */
static bool refused_for_extension(struct node_core *core, uint64_t client, const char *what)
{
    const struct view_member *unable = requests_find_unable(core, FACT_READS_EXTENSION);
    char text[NODE_REPLY_BYTES];
    if (unable == NULL) {
        return false;
    }
    format_text(text, sizeof text, "%s runs a version of Shoal that does not heed %s; update that node first.",
                view_label(&core->view, unable->id).text, what);
    core_reply(core, client, ERR_REFUSED, 0, text);
    return true;
}

/* Refuses a number of trials that is no more than there are, trials of an experiment that is cancelled, and of one that draws none. To
 * ask for the present number again, after an answer that was lost, is no error. */
static bool refused_extension(struct node_core *core, const struct view_experiment *experiment, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    uint32_t wanted = number_of(event->u.request.label), present = experiment->trial_count;
    bool is_there = wanted == present && view_experiment_is_extended(experiment);
    char text[NODE_REPLY_BYTES];
    if (experiment->is_custom) {
        format_text(text, sizeof text, "%s has the searcher custom, whose program counts on searcher.max_trials; submit another experiment (shoal fork).",
                    experiment->config->name);
    } else if (!search_extends(experiment->config->searcher)) {
        format_text(text, sizeof text, "%s has %s, so it gets no further trials; submit another experiment (shoal fork).",
                    experiment->config->name,
                    experiment->config->searcher == SEARCH_GRID  ? "the searcher grid, which tries each combination once"
                    : experiment->config->searcher == SEARCH_PBT ? "the searcher pbt, whose trials follow from its population and its rounds"
                                                                 : "the searcher single, which has one trial");
    } else if (view_experiment_cancelled(experiment)) {
        format_text(text, sizeof text, "%s is cancelled, so none of its trials begins; shoal fork submits it again.", experiment->config->name);
    } else if (wanted == 0 || wanted > SEARCH_TRIALS_MAX) {
        format_text(text, sizeof text, "A search has 1 to %d trials.", SEARCH_TRIALS_MAX);
    } else if (wanted <= present && !is_there) {
        format_text(text, sizeof text, "%s has %u trials already, and none is taken back; give a larger number of all trials together.",
                    experiment->config->name, present);
    } else if (view_experiment_archived(experiment)) {
        format_text(text, sizeof text, "%s is archived; shoal unarchive it first.", experiment->config->name);
    } else if (core->memory.is_short || bytes_of_trials(experiment->config, wanted - present) > room_for_trials(core)) {
        format_text(text, sizeof text,
                    "The daemon's memory has no room for %u further trials; ask for fewer, or delete experiments that are over.",
                    wanted - present);
        core_reply(core, client, ERR_MEMORY, 0, text);
        return true;
    } else {
        return refused_for_extension(core, client, "further trials of a search");
    }
    core_reply(core, client, ERR_REFUSED, 0, text);
    return true;
}

static bool refused_slots(struct node_core *core, const struct view_experiment *experiment, const struct node_event *event)
{
    const struct config *config = experiment->config;
    uint32_t wanted = number_of(event->u.request.value), most = view_max_slots_bound(experiment);
    char text[NODE_REPLY_BYTES];
    if (config->even_hosts) {
        format_text(text, sizeof text, "%s has resources.even_hosts, so its groups never change their size.", config->name);
    } else if (wanted < config->slots_per_trial || wanted > most) {
        format_text(text, sizeof text, "%u is no max_slots of %s; allowed are slots_per_trial, %u, to %u.", wanted, config->name,
                    config->slots_per_trial, most);
    } else {
        return refused_for_extension(core, event->u.request.client, "a new max_slots");
    }
    core_reply(core, event->u.request.client, ERR_REFUSED, 0, text);
    return true;
}

/* Refuses notes about more trials than a node looks through for each row of a table. */
static bool refused_description(struct node_core *core, const struct view_experiment *experiment, const struct node_event *event)
{
    char text[NODE_REPLY_BYTES];
    if (view_described_trials(experiment) < VIEW_DESCRIBED_MAX ||
        find_annotation(experiment, FACT_TRIAL_DESCRIPTION, event->u.request.label) != NULL) {
        return false;
    }
    format_text(text, sizeof text, "%d trials of %s are described already, and no further one can be.", VIEW_DESCRIBED_MAX,
                experiment->config->name);
    core_reply(core, event->u.request.client, ERR_REFUSED, 0, text);
    return true;
}

static bool refused_annotation(struct node_core *core, const struct view_experiment *experiment, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    char text[NODE_REPLY_BYTES];
    if (event->u.request.subject == FACT_LABEL) {
        return refused_label(core, experiment, event);
    }
    if (event->u.request.subject == FACT_TRIAL_DESCRIPTION) {
        return refused_description(core, experiment, event);
    }
    if (event->u.request.subject == FACT_ARCHIVED && event->u.request.is_set && !view_experiment_over(experiment)) {
        format_text(text, sizeof text, "%s is %s; only an experiment that is over can be archived.", experiment->config->name,
                    view_experiment_state_name(view_experiment_state(experiment)));
        core_reply(core, client, ERR_REFUSED, 0, text);
        return true;
    }
    if (event->u.request.subject == FACT_MAX_TRIALS) {
        return refused_extension(core, experiment, event);
    }
    bool is_number = event->u.request.subject == FACT_PRIORITY || event->u.request.subject == FACT_MAX_SLOTS;
    if (is_number && view_experiment_over(experiment)) {
        format_text(text, sizeof text, "The experiment is %s already, so its %s changes nothing.",
                    view_experiment_state_name(view_experiment_state(experiment)),
                    event->u.request.subject == FACT_PRIORITY ? "priority" : "max_slots");
        core_reply(core, client, ERR_REFUSED, 0, text);
        return true;
    }
    if (event->u.request.subject == FACT_MAX_SLOTS) {
        return refused_slots(core, experiment, event);
    }
    const struct view_member *unable = requests_find_unable(core, FACT_READS_ANNOTATION);
    bool is_obeyed = event->u.request.subject == FACT_PINNED || event->u.request.subject == FACT_PRIORITY;
    if (is_obeyed && event->u.request.is_set && unable != NULL) {
        format_text(text, sizeof text, "%s runs a version of Shoal that does not heed %s; update that node first.",
                    view_label(&core->view, unable->id).text, event->u.request.subject == FACT_PINNED ? "a pin" : "a new priority");
        core_reply(core, client, ERR_REFUSED, 0, text);
        return true;
    }
    return false;
}

static void annotate(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    const struct view_experiment *experiment = view_find_experiment(&core->view, event->u.request.experiment);
    if (experiment == NULL || !experiment->known) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such experiment; `shoal ls` lists them.");
        return;
    }
    if (!refused_annotation(core, experiment, event)) {
        (void)core_ack_begin(core, client, put_annotation(core, experiment, event), no_blob, no_blob);
    }
}

static void delete(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    experiment_id id = event->u.request.experiment;
    const struct records_entry *tombstone = find_tombstone(core, id);
    if (tombstone != NULL) {
        /* A retry, or another user was first: the client is answered without a new record. */
        struct core_ack *ack =
            core_ack_append(core, client, tombstone->ident, tombstone->record.version, no_blob, no_blob);
        if (ack != NULL) {
            ack->already = true;
        }
        if (ack != NULL && tombstone->on_disk) {
            core_ack_on_disk(core, client, tombstone->ident, tombstone->record.version);
        }
        return;
    }
    const struct view_experiment *experiment = view_find_experiment(&core->view, id);
    if (experiment == NULL || !experiment->known) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such experiment; `shoal ls` lists them.");
        return;
    }
    if (view_experiment_pinned(experiment)) {
        char text[NODE_REPLY_BYTES];
        format_text(text, sizeof text, "%s is pinned, so it is not deleted; `shoal unpin` it first.", experiment->config->name);
        core_reply(core, client, ERR_REFUSED, 0, text);
        return;
    }
    if (view_pins_any(experiment)) {
        core_reply(core, client, ERR_REFUSED, 0,
                   "A version of a model is a checkpoint of the experiment, or its files, so the experiment is not deleted; `shoal model ls` "
                   "lists versions, and `shoal model rm NAME/VERSION` removes one.");
        return;
    }
    TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_DELETED, experiment->id),
                "%s is deleted", experiment->config->name);
    uint8_t bytes[8];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_tombstone_pack(&writer);
    (void)core_ack_begin(core, client, core_put(core, FACT_TOMBSTONE, fact_key_experiment(id), &writer), no_blob, no_blob);
}

/* ---- owners -------------------------------------------------------------------------------------------------------------- */

/* Takes back or returns slots of this node, and answers once the records of all slots are on two disks. */
static void hold_slots(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    uint32_t count = core->owner->lease.count;
    uint64_t all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    uint64_t wanted = event->u.request.slots != 0 ? event->u.request.slots : all;
    char text[NODE_REPLY_BYTES];
    if (count == 0) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "This node has no slots; the owner of a slot is the node it is in.");
        return;
    }
    if ((wanted & ~all) != 0) {
        format_text(text, sizeof text, "This node has no such slot: its slots are 0 to %u; `shoal slots` lists them.",
                    (unsigned)(count - 1));
        core_reply(core, client, ERR_NOT_FOUND, 0, text);
        return;
    }
    if (event->u.request.for_s > FACT_WITHHELD_S_MAX) {
        core_reply(core, client, ERR_USAGE, 0,
                   "Slots can be withheld for at most 366 days; without --for until they are returned.");
        return;
    }
    if (core_ack_count(core) + count > CORE_ACKS_MAX) {
        core_reply(core, client, ERR_AGAIN, 0,
                   "Too many requests wait for a second node; look at what they did, and try again in some seconds.");
        return;
    }
    core_owner_policy_leaves(core, wanted);
    for (uint32_t slot = 0; slot < count; slot++) {
        if ((wanted >> slot & 1) == 0) {
            continue;
        }
        struct core_pending *pending = event->u.request.kind == NODE_REQUEST_WITHHOLD
                                           ? core_owner_withhold(core, slot, event->u.request.for_s)
                                           : core_owner_return(core, slot);
        if (!core_ack_begin(core, client, pending, no_blob, no_blob)) {
            return; /* the client has been told that memory is full; a later answer reaches no client */
        }
    }
}

/* Sets the policy of this machine's owner, and answers once its record is on two disks. */
static void set_policy(struct node_core *core, const struct node_event *event)
{
    struct core_pending *pending;
    if (core->owner->lease.count == 0) {
        core_reply(core, event->u.request.client, ERR_NOT_FOUND, 0, "This node has no slots; the owner of a slot is the node it is in.");
    } else if (!core_owner_set_policy(core, event->bytes, event->byte_count, &pending)) {
        core_reply(core, event->u.request.client, ERR_USAGE, 0, "The policy is malformed; `shoal owner policy --help` shows what it has.");
    } else if (core->members->syncing) {
        core_reply(core, event->u.request.client, ERR_AGAIN, 0,
                   "This node is still catching up with the mesh, and perhaps has an older policy; try again in some seconds.");
    } else {
        (void)core_ack_begin(core, event->u.request.client, pending, no_blob, no_blob);
    }
}

/* ---- drains -------------------------------------------------------------------------------------------------------------- */

static uint64_t own_drain_lamport(const struct node_core *core, const struct view_member *member)
{
    uint64_t lamport = 0;
    for (const struct view_drain *row = member->drains; row != NULL; row = row->next) {
        lamport = node_id_equal(row->writer, core->options.self) ? row->fact.lamport : lamport;
    }
    return lamport;
}

/* Writes a drain, or an undrain. */
static struct core_pending *put_drain(struct node_core *core, const struct view_member *member, bool drained, bool at_once)
{
    struct lamport_top others = view_drain_top(member, &core->options.self);
    struct fact_drain fact = {.lamport = lamport_next(&others, own_drain_lamport(core, member)),
                              .drained = drained,
                              .at_once = drained && at_once};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_drain_pack(&writer, &fact);
    TRACE_EVENT(&core->options.trace, event_of_node(drained ? EVENT_NODE_DRAINED : EVENT_NODE_UNDRAINED, member->id),
                "%s is %s", view_label(&core->view, member->id).text, drained ? "drained" : "undrained");
    return core_put(core, FACT_DRAIN, fact_key_node_id(member->id), &writer);
}

static void drain(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    node_id node = node_id_is_none(event->u.request.node) ? core->options.self : event->u.request.node;
    const struct view_member *member = view_find_member(&core->view, node);
    if (member == NULL) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such node in this mesh; `shoal nodes` lists them.");
        return;
    }
    if (!member->admitted) {
        core_reply(core, client, ERR_REFUSED, 0, "That node is out of the mesh, so nothing more is begun there.");
        return;
    }
    if (member->left) {
        core_reply(core, client, ERR_REFUSED, 0, "That node has left the mesh, so nothing runs there.");
        return;
    }
    bool is_drain = event->u.request.kind == NODE_REQUEST_DRAIN;
    (void)core_ack_begin(core, client, put_drain(core, member, is_drain, event->u.request.at_once), no_blob, no_blob);
}

/* ---- values that would be taken back ------------------------------------------------------------------------------------- */

struct core_register core_requests_register(const struct node_core *core, const struct record *given)
{
    struct core_register word = {0};
    struct fact_control control;
    struct fact_drain drain;
    struct fact_stop stop;
    if (!core->started || core->twin->life != 0 || !node_id_equal(given->writer, core->options.self)) {
        return word;
    }
    const struct records_entry *held =
        records_find(&core->records, record_ident_of(given->writer, given->kind, given->key, given->key_bytes));
    if (held == NULL || !held->is_asked || record_version_compare(given->version, held->record.version) <= 0) {
        return word;
    }
    if (held->record.kind == FACT_CONTROL && fact_control_read(&held->record, &control) == 0 && !control.cancelled &&
        fact_key_read_experiment(&held->record, &word.experiment) == 0) {
        const struct view_experiment *experiment = view_find_experiment(&core->view, word.experiment);
        word.kind = experiment != NULL ? FACT_CONTROL : 0;
        word.is_on = experiment != NULL && view_experiment_paused(experiment);
    } else if (held->record.kind == FACT_DRAIN && fact_drain_read(&held->record, &drain) == 0 &&
               fact_key_read_node(&held->record, &word.node) == 0) {
        const struct view_member *member = view_find_member(&core->view, word.node);
        drain = member != NULL ? view_member_drain(member) : drain;
        word.kind = member != NULL ? FACT_DRAIN : 0;
        word.is_on = drain.drained;
        word.at_once = drain.at_once;
    } else if (held->record.kind == FACT_STOP && fact_stop_read(&held->record, &stop) == 0 &&
               fact_key_read_trial(&held->record, &word.experiment, &word.trial) == 0) {
        const struct view_experiment *experiment = view_find_experiment(&core->view, word.experiment);
        word.kind = experiment != NULL ? FACT_STOP : 0;
        word.is_on = experiment != NULL && view_trial_stopped(view_find_trial(experiment, word.trial));
    }
    return word;
}

void core_requests_restore(struct node_core *core, const struct core_register *word)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, word->experiment);
    const struct view_member *member = view_find_member(&core->view, word->node);
    struct fact_key key;
    if (word->kind == FACT_CONTROL && experiment != NULL) {
        key = fact_key_experiment(word->experiment);
        (void)put_pause(core, experiment, word->is_on);
    } else if (word->kind == FACT_DRAIN && member != NULL) {
        key = fact_key_node_id(word->node);
        (void)put_drain(core, member, word->is_on, word->at_once);
    } else if (word->kind == FACT_STOP && experiment != NULL) {
        key = fact_key_trial(word->experiment, word->trial);
        (void)owner_put_stop(core, experiment, word->trial, word->is_on, false);
    } else {
        return;
    }
    /* The table always has memory to replace a record. Memory to wait for the disk may have lacked. */
    core_acks_renew(core, record_ident_of(core->options.self, (uint16_t)word->kind, key.bytes, key.count));
}

/* ---- a request arrives --------------------------------------------------------------------------------------------------- */

static bool refused_when_out(struct node_core *core, const struct node_event *event)
{
    if (!core->is_out || event->u.request.kind == NODE_REQUEST_LEAVE) {
        return false;
    }
    core_reply(core, event->u.request.client, ERR_REFUSED, 0,
               core_twin_yields(core->twin)
                   ? "Another daemon runs with this node's key, so this one is becoming another node; ask again in a minute."
                   : "This node was evicted from the mesh; end its daemon, ask a member for an invite, and join with a new "
                     "data directory.");
    return true;
}

static void receive(struct node_core *core, const struct node_event *event)
{
    switch (event->u.request.kind) {
    case NODE_REQUEST_SUBMIT:
        submit(core, event);
        break;
    case NODE_REQUEST_CANCEL:
    case NODE_REQUEST_PAUSE:
    case NODE_REQUEST_RESUME:
        if (BUG(control_deletes, "who cancels, pauses or resumes an experiment does not delete it")) {
            delete(core, event);
        } else {
            control(core, event);
        }
        break;
    case NODE_REQUEST_DELETE:
        delete(core, event);
        break;
    case NODE_REQUEST_STOP:
        requests_stop(core, event);
        break;
    case NODE_REQUEST_RETRY:
        requests_retry(core, event);
        break;
    case NODE_REQUEST_ANNOTATE:
        annotate(core, event);
        break;
    case NODE_REQUEST_INVITE:
        requests_invite(core, event);
        break;
    case NODE_REQUEST_REVOKE:
        requests_revoke(core, event);
        break;
    case NODE_REQUEST_TOKEN:
        requests_token(core, event);
        break;
    case NODE_REQUEST_TOKEN_REVOKE:
        requests_token_revoke(core, event);
        break;
    case NODE_REQUEST_SECRET:
        requests_secret(core, event);
        break;
    case NODE_REQUEST_SECRET_REMOVE:
        requests_secret_remove(core, event);
        break;
    case NODE_REQUEST_WEBHOOK:
        requests_webhook(core, event);
        break;
    case NODE_REQUEST_WEBHOOK_REMOVE:
        requests_webhook_remove(core, event);
        break;
    case NODE_REQUEST_WEBHOOK_TEST:
        requests_webhook_test(core, event);
        break;
    case NODE_REQUEST_MODEL_VERSION:
        requests_model_version(core, event);
        break;
    case NODE_REQUEST_MODEL_SET:
        requests_model_set(core, event);
        break;
    case NODE_REQUEST_EVICT:
        requests_evict(core, event);
        break;
    case NODE_REQUEST_WITHHOLD:
    case NODE_REQUEST_RETURN:
        hold_slots(core, event);
        break;
    case NODE_REQUEST_POLICY:
        set_policy(core, event);
        break;
    case NODE_REQUEST_DRAIN:
    case NODE_REQUEST_UNDRAIN:
        drain(core, event);
        break;
    case NODE_REQUEST_LEAVE:
        core->leaving = true;
        requests_leave_ask(core, event->u.request.client);
        core->members->changed = true;
        core_coordinator_leave(core);
        core_owner_leave(core);
        break;
    }
}

/* True for a request that may take the last of the memory. */
static bool may_end_something(enum node_request_kind kind)
{
    return kind == NODE_REQUEST_STOP || kind == NODE_REQUEST_CANCEL || kind == NODE_REQUEST_PAUSE || kind == NODE_REQUEST_DELETE;
}

void core_requests_receive(struct node_core *core, const struct node_event *event)
{
    if (refused_when_out(core, event)) {
        return;
    }
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |= may_end_something(event->u.request.kind);
    receive(core, event);
    core->arena.takes_reserve = takes_reserve;
}

void core_requests_housekeep(struct node_core *core)
{
    requests_leave_advance(core);
    requests_secrets_housekeep(core);
    core_ack_housekeep(core);
}
