#include "node/daemon/api/models.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/format.h"
#include "base/rendezvous.h"
#include "node/daemon/api/change.h"
#include "node/daemon/api/documents.h"
#include "node/daemon/api/elsewhere.h"
#include "node/daemon/api/query.h"
#include "node/daemon/render/models.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"

static bool part_models(const struct node_core *core, const struct shown *shown, uint32_t *from, struct pack_writer *writer)
{
    return render_models(core, shown->model, from, writer);
}

/* Reads `name`, the model's. False after an error reply. */
static bool read_name(struct daemon *daemon, const struct client_request *request, char name[FACT_MODEL_NAME_BYTES])
{
    if (!request_text(&request->map, "name", name, FACT_MODEL_NAME_BYTES) || !fact_model_name_is_good(name)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The name of a model has 1 to %d bytes, and neither /, : and @ nor control characters.",
                           FACT_MODEL_NAME_BYTES - 1);
        return false;
    }
    return true;
}

static void reply_unknown(struct daemon *daemon, const struct client_request *request, const char *name)
{
    bool is_syncing = node_core_is_syncing(daemon->core);
    client_reply_error(daemon, request->client, request->id, is_syncing ? EXIT_REFUSED : EXIT_NOT_FOUND,
                       is_syncing ? "This node knows no model %s, but is still catching up with the others; try again in some seconds."
                                  : "There is no model %s; `shoal model ls` lists them.",
                       name);
}

void models_list(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct document document = {.part = part_models, .end = true};
    bool is_named = !pack_find(&request->map, "name").failed;
    if (is_named && !read_name(daemon, request, document.model)) {
        return;
    }
    if (is_named && view_model_find(node_core_view(daemon->core), document.model) == NULL) {
        reply_unknown(daemon, request, document.model);
        return;
    }
    documents_send(daemon, request->client, request->id, &document);
}

/* The token of a trial writes about versions that are the trial's own. */
static bool is_own(const struct client_request *request, const struct fact_model_source *source)
{
    const attempt_id *attempt = request->worker != NULL ? &request->worker->prepare.u.worker.attempt : NULL;
    return attempt == NULL || (experiment_id_equal(attempt->experiment, source->experiment) && attempt->trial == source->trial);
}

static void refuse_trial(struct daemon *daemon, const struct client_request *request)
{
    client_reply_error(daemon, request->client, request->id, EXIT_NO_RIGHTS,
                       "The token of a trial registers models, and changes versions that the trial has made; nothing else of the registry.");
}

static void ask(struct daemon *daemon, struct client_request *request, enum node_request_kind kind, enum fact_model_subject subject,
                const uint8_t id[FACT_VERSION_BYTES], const struct fact_model *fact)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting == NULL) {
        request->client->broken = true; /* no memory */
        return;
    }
    waiting->is_model = true;
    memcpy(waiting->model, fact->name, sizeof waiting->model);
    memcpy(waiting->invite_key, id, FACT_VERSION_BYTES);
    event.u.request.kind = kind;
    event.u.request.client = waiting->key;
    event.u.request.model_subject = subject;
    event.u.request.model = fact;
    memcpy(event.u.request.public_key, id, FACT_VERSION_BYTES);
    daemon_event(daemon, &event);
}

/* ---- new versions -------------------------------------------------------------------------------------------------- */

/* The node that gives the versions of a model their numbers: the first by rendezvous hash of those that live. */
static node_id granter(const struct daemon *daemon, const char *name)
{
    const struct view *view = node_core_view(daemon->core);
    node_id best = daemon->keys.id;
    uint64_t best_weight = rendezvous_weight(best, name, strlen(name));
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        bool is_fit = member->admitted && !member->left && !view_member_is_out(member) && (member->reads & FACT_READS_MODELS) != 0 &&
                      node_core_is_alive(daemon->core, member->id);
        uint64_t weight = is_fit ? rendezvous_weight(member->id, name, strlen(name)) : 0;
        if (weight > best_weight || (weight == best_weight && node_id_compare(member->id, best) > 0)) {
            best = member->id;
            best_weight = weight;
        }
    }
    return best;
}

/* Finds the checkpoint of the trial, the newest or that of the step. False: there is none. */
static bool find_checkpoint(struct daemon *daemon, const struct view_trial *trial, uint64_t step, struct fact_model_source *out)
{
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest found;
    bool is_found = node_core_next_checkpoint(daemon->core, &row, &found);
    while (is_found && step != 0 && found.step != step) {
        is_found = node_core_next_checkpoint(daemon->core, &row, &found);
    }
    if (is_found) {
        out->step = found.step;
        out->attempt = found.attempt.number;
        out->blob = found.blob;
    }
    return is_found;
}

/* Reads where the version comes from. False after an error reply. */
static bool read_source(struct daemon *daemon, struct client_request *request, struct fact_model_source *out)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint64_t step = 0;
    if (!query_argument_any_trial(daemon, request, &experiment, &out->trial, &trial)) {
        return false;
    }
    out->experiment = experiment->id;
    out->created_ms = daemon_wall_ms();
    (void)client_argument_u64(request, "step", &step);
    bool has_source = request_text(&request->map, "source", out->source, sizeof out->source) && out->source[0] != '\0';
    (void)request_text(&request->map, "run", out->run, sizeof out->run);
    (void)request_text(&request->map, "logged_model", out->model, sizeof out->model);
    (void)request_text(&request->map, "path", out->path, sizeof out->path);
    (void)request_text(&request->map, "link", out->link, sizeof out->link);
    if (!has_source && !find_checkpoint(daemon, trial, step, out) && step != 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Trial %u has no checkpoint of step %llu; `shoal checkpoint ls` lists them.", out->trial, (unsigned long long)step);
        return false;
    }
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    bool is_checkpoint = !hash256_is_none(out->blob);
    uint32_t count = !has_source && !is_checkpoint && trial != NULL && node_core_keeps_outputs(experiment, trial)
                         ? node_core_outputs(daemon->core, experiment, trial, outputs)
                         : 0;
    if (!has_source && !is_checkpoint && count == 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Trial %u has neither a checkpoint nor files (yet), so there is nothing to register.", out->trial);
        return false;
    }
    for (uint32_t i = 0; i < count && out->path[0] == '\0'; i++) {
        const struct fact_saved *saved = &outputs[i]->fact.saved; /* a checkpoint that the program has left among its files */
        if (saved->name[0] != '\0') {
            format_text(out->path, sizeof out->path, "checkpoint/%s", saved->name);
            out->step = saved->step;
        }
    }
    return true;
}

/* Passes the version on to the node that gives numbers. */
static void pass_on(struct daemon *daemon, const struct client_request *request, node_id node, const uint8_t id[FACT_VERSION_BYTES],
                    const struct fact_model *fact)
{
    static const char *const arguments[] = {"version_id", "fact", NULL};
    uint8_t body[4096], map[sizeof body + 64];
    struct pack_writer writer;
    struct client_request passed = *request;
    pack_writer_init(&writer, body, sizeof body);
    fact_model_pack(&writer, fact);
    size_t body_bytes = writer.used_bytes;
    bool is_good = !writer.failed;
    pack_writer_init(&writer, map, sizeof map);
    pack_map(&writer, 2);
    pack_text(&writer, "version_id");
    pack_bin(&writer, id, FACT_VERSION_BYTES);
    pack_text(&writer, "fact");
    pack_bin(&writer, body, is_good ? body_bytes : 0);
    pack_reader_init(&passed.map, map, writer.used_bytes);
    elsewhere_ask(daemon, &passed, node, "model_grant", arguments);
}

void models_register(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct fact_model fact = {.number = 1};
    uint8_t id[FACT_VERSION_BYTES];
    if (!read_name(daemon, request, fact.name) || !read_source(daemon, request, &fact.source)) {
        return;
    }
    if (!is_own(request, &fact.source)) {
        refuse_trial(daemon, request);
        return;
    }
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The system gives no random bytes.");
        return;
    }
    id[0] |= 1; /* never all zeros */
    node_id node = granter(daemon, fact.name);
    if (node_id_equal(node, daemon->keys.id)) {
        ask(daemon, request, NODE_REQUEST_MODEL_VERSION, FACT_MODEL_VERSION, id, &fact);
    } else {
        pass_on(daemon, request, node, id, &fact);
    }
}

void models_grant(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint8_t id[FACT_VERSION_BYTES];
    struct fact_model fact;
    struct pack_reader of_id = pack_find(&request->map, "version_id"), of_fact = pack_find(&request->map, "fact"), name;
    size_t bytes = 0, name_bytes = 0;
    char text[FACT_MODEL_NAME_BYTES] = "";
    pack_read_bin_exact(&of_id, id, sizeof id);
    const uint8_t *body = pack_read_bin(&of_fact, &bytes);
    /* The name is the third element, and the record's key follows from it. */
    pack_reader_init(&name, body, of_fact.failed ? 0 : bytes);
    (void)pack_read_array(&name);
    (void)pack_read_any(&name, &name_bytes);
    (void)pack_read_any(&name, &name_bytes);
    pack_read_text_copy(&name, text, sizeof text);
    struct fact_key key = fact_key_model(text, FACT_MODEL_VERSION, id, "");
    const struct record record = {
        .kind = FACT_MODEL, .key = key.bytes, .key_bytes = key.count, .body = body, .body_bytes = (uint16_t)(bytes < UINT16_MAX ? bytes : 0)};
    if (of_id.failed || of_fact.failed || name.failed || fact_model_read(&record, &fact) != 0 || !fact_model_name_is_good(fact.name)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "model_grant wants `version_id` and `fact`, as docs/wire.md says.");
        return;
    }
    ask(daemon, request, NODE_REQUEST_MODEL_VERSION, FACT_MODEL_VERSION, id, &fact);
}

/* ---- changes ------------------------------------------------------------------------------------------------------- */

/* Finds the version that the request names; NULL: it names none, or, after an error reply (`*is_good` false), there is no such version. */
static const struct view_model *find_version(struct daemon *daemon, const struct client_request *request, const char *name, bool *is_good)
{
    const struct view_model *model = view_model_find(node_core_view(daemon->core), name), *found = NULL;
    uint64_t number = 0;
    *is_good = true;
    if (!client_argument_u64(request, "version", &number) || number == 0) {
        return NULL;
    }
    found = model != NULL ? view_model_version(model, number) : NULL;
    if (found == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "The model %s has no version %llu; `shoal model ls` lists models and their versions.", name,
                           (unsigned long long)number);
        *is_good = false;
    }
    return found;
}

/* Whether the caller may change the version, or without one the model (NULL: new). A trial's program describes and tags a model, too, that
 * has no version yet, as it does when it has just begun it. */
static bool may_change(const struct client_request *request, enum fact_model_subject subject, const struct view_model *model,
                       const struct view_model *version)
{
    struct fact_model fact;
    if (request->worker == NULL || (subject == FACT_MODEL_EXISTS && version == NULL)) {
        return true;
    }
    bool is_note = subject == FACT_MODEL_DESCRIPTION || subject == FACT_MODEL_TAG;
    if (is_note && version == NULL && model != NULL && view_model_version_next(model, NULL) == NULL) {
        return true;
    }
    return version != NULL && subject != FACT_MODEL_VERSION && fact_model_read(&version->entry->record, &fact) == 0 &&
           is_own(request, &fact.source);
}

/* Reads what a register is to hold: `key` and `value`. False after an error reply. `room` is for the value. */
static bool read_value(struct daemon *daemon, const struct client_request *request, enum fact_model_subject subject, struct fact_model *fact,
                       char room[FACT_MODEL_VALUE_MAX + 1])
{
    bool has_key = subject == FACT_MODEL_TAG || subject == FACT_MODEL_ALIAS;
    bool has_value = subject == FACT_MODEL_TAG || subject == FACT_MODEL_DESCRIPTION;
    const char *what = subject == FACT_MODEL_ALIAS ? "alias" : "tag";
    bool is_read = has_key && request_text(&request->map, "key", fact->field, sizeof fact->field) && fact->field[0] != '\0';
    if (has_key && (!is_read || (subject == FACT_MODEL_ALIAS && !fact_model_alias_is_good(fact->field)))) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           subject == FACT_MODEL_ALIAS ? "The %s in `key` has 1 to %d letters, digits, _ and -, and is neither `latest`, a number nor "
                                                         "like v1."
                                                       : "The name of the %s, `key`, has 1 to %d bytes.",
                           what, FACT_MODEL_NAME_BYTES - 1);
        return false;
    }
    room[0] = '\0';
    if (has_value && !fact->removed && !request_text(&request->map, "value", room, FACT_MODEL_VALUE_MAX + 1) &&
        !pack_find(&request->map, "value").failed) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "`value` is a text of at most %d bytes.", FACT_MODEL_VALUE_MAX);
        return false;
    }
    fact->value = room;
    fact->value_bytes = (uint32_t)strlen(room);
    return true;
}

void models_set(struct daemon *daemon, struct client_request *request, int argument)
{
    enum fact_model_subject subject = (enum fact_model_subject)argument;
    static const uint8_t none[FACT_VERSION_BYTES] = {0};
    struct fact_model fact = {.value = ""};
    char value[FACT_MODEL_VALUE_MAX + 1];
    bool is_good = true;
    if (!read_name(daemon, request, fact.name)) {
        return;
    }
    const struct view_model *version = find_version(daemon, request, fact.name, &is_good);
    fact.removed = subject == FACT_MODEL_VERSION || request_flag(&request->map, "remove");
    if (!is_good || !read_value(daemon, request, subject, &fact, value)) {
        return;
    }
    const struct view_model *model = view_model_find(node_core_view(daemon->core), fact.name);
    if (model == NULL && subject != FACT_MODEL_EXISTS) {
        reply_unknown(daemon, request, fact.name);
    } else if (model != NULL && subject == FACT_MODEL_EXISTS) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The model %s is registered already.", fact.name);
    } else if (!may_change(request, subject, model, version)) {
        refuse_trial(daemon, request);
    } else if (subject == FACT_MODEL_ALIAS && version == NULL && !fact.removed) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The request lacks the `version` that the alias stands for.");
    } else {
        if (subject == FACT_MODEL_ALIAS && version != NULL) {
            memcpy(fact.target, view_model_id(version), sizeof fact.target);
        }
        bool is_whole = subject == FACT_MODEL_VERSION && version == NULL;
        ask(daemon, request, NODE_REQUEST_MODEL_SET, is_whole ? FACT_MODEL_EXISTS : subject, version != NULL ? view_model_id(version) : none,
            &fact);
    }
}
