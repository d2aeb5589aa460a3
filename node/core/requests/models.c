#include "node/core/requests/models.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/requests/trials.h"

#define NOTES_MAX 100 /* of a model itself: tags and its description */
#define ENTRIES_MAX 10000 /* records of the registry: models, versions, and what is said of them */

static const hash256 no_blob = {{0}};
static const uint8_t no_version[FACT_VERSION_BYTES] = {0};

static struct core_pending *put(struct node_core *core, enum fact_model_subject subject, const uint8_t version[FACT_VERSION_BYTES],
                                const struct fact_model *fact)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_model_pack(&writer, fact);
    return core_put(core, FACT_MODEL, fact_key_model(fact->name, subject, version, fact->field), &writer);
}

/* A value of a register. */
static struct core_pending *put_value(struct node_core *core, enum fact_model_subject subject, const uint8_t version[FACT_VERSION_BYTES],
                                      struct fact_model fact)
{
    fact.lamport = view_model_clock(&core->view, fact.name, subject, version, fact.field, core->options.self);
    return put(core, subject, version, &fact);
}

static struct core_pending *put_exists(struct node_core *core, const char *name, bool removed)
{
    struct fact_model fact = {.removed = removed, .number = removed ? 0 : 1000 * core->wall_s};
    bytes_copy_text(fact.name, sizeof fact.name, name);
    return put_value(core, FACT_MODEL_EXISTS, no_version, fact);
}

static bool refused(struct node_core *core, const struct node_event *event)
{
    const struct view_member *unable = requests_find_unable(core, FACT_READS_MODELS);
    char text[NODE_REPLY_BYTES];
    uint32_t count = 0;
    for (const struct view_model *row = core->view.models; row != NULL; row = row->next) {
        count++;
    }
    if (core->members->syncing) {
        format_text(text, sizeof text, "This node has begun just now, and does not know the newest versions yet; try again in some seconds.");
        core_reply(core, event->u.request.client, ERR_AGAIN, 0, text);
        return true;
    }
    if (unable != NULL) {
        format_text(text, sizeof text, "%s runs a version of Shoal that does not know the model registry; update that node first.",
                    view_label(&core->view, unable->id).text);
        core_reply(core, event->u.request.client, ERR_REFUSED, 0, text);
        return true;
    }
    if (count >= ENTRIES_MAX && !event->u.request.model->removed) {
        format_text(text, sizeof text, "The model registry has %d entries already; remove models that are of no use (shoal model rm).",
                    ENTRIES_MAX);
        core_reply(core, event->u.request.client, ERR_FULL, 0, text);
        return true;
    }
    return false;
}

void requests_model_version(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    struct fact_model fact = *event->u.request.model;
    if (refused(core, event)) {
        return;
    }
    const struct view_model *model = view_model_find(&core->view, fact.name);
    fact.number = view_model_free_number(&core->view, fact.name);
    if (fact.number == 0) {
        core_reply(core, client, ERR_REFUSED, 0, "The model has a version with the largest number already; begin a new model.");
        return;
    }
    if (model == NULL && put_exists(core, fact.name, false) == NULL) {
        core_reply(core, client, ERR_FULL, 0, "No memory is left for the model; try again later.");
        return;
    }
    fact.lamport = 0;
    (void)core_ack_begin(core, client, put(core, FACT_MODEL_VERSION, event->u.request.public_key, &fact), no_blob, no_blob);
}

/* Removes the version, which is there. */
static struct core_pending *remove_version(struct node_core *core, const struct view_model *version)
{
    struct fact_model fact;
    uint8_t id[FACT_VERSION_BYTES];
    if (fact_model_read(&version->entry->record, &fact) != 0) {
        return NULL;
    }
    fact.removed = true;
    fact.value = NULL; /* the record moves with the write */
    fact.value_bytes = 0;
    memcpy(id, view_model_id(version), sizeof id);
    return put(core, FACT_MODEL_VERSION, id, &fact);
}

/* Takes a value of the model back. False: no memory. */
static bool take_back(struct node_core *core, const struct view_model *row)
{
    struct fact_model fact;
    enum fact_model_subject subject = view_model_subject(row);
    if (fact_model_read(&row->entry->record, &fact) != 0) {
        return false;
    }
    fact.removed = true;
    fact.value = NULL;
    fact.value_bytes = 0;
    return put_value(core, subject, no_version, fact) != NULL;
}

/* Removes what this node knows of a model. A version that another part of the mesh adds meanwhile stays, and the model with it. What was
 * said of its versions goes with them. */
static struct core_pending *remove_model(struct node_core *core, const char *name)
{
    const struct view_model *model, *row;
    for (uint32_t i = 0; i < NOTES_MAX && (model = view_model_find(&core->view, name)) != NULL; i++) { /* rows and records move with each write */
        row = view_model_note_next(model, NULL);
        if (row == NULL) {
            break;
        }
        if (!take_back(core, row)) {
            return NULL;
        }
    }
    while ((model = view_model_find(&core->view, name)) != NULL && (row = view_model_version_next(model, NULL)) != NULL) {
        if (remove_version(core, row) == NULL) {
            return NULL;
        }
    }
    return put_exists(core, name, true);
}

/* Whether a tag of the model itself is one too many. */
static bool has_too_many(const struct node_core *core, const struct view_model *model, enum fact_model_subject subject,
                         const uint8_t version[FACT_VERSION_BYTES], const struct fact_model *fact)
{
    uint32_t count = 0;
    const struct view_model *now = view_model_register(&core->view, fact->name, subject, version, fact->field);
    bool is_new = !fact->removed && (now == NULL || now->removed);
    if (subject != FACT_MODEL_TAG || memcmp(version, no_version, FACT_VERSION_BYTES) != 0 || !is_new) {
        return false;
    }
    for (const struct view_model *row = NULL; (row = view_model_note_next(model, row)) != NULL;) {
        count++;
    }
    return count >= NOTES_MAX;
}

void requests_model_set(struct node_core *core, const struct node_event *event)
{
    struct fact_model fact = *event->u.request.model;
    enum fact_model_subject subject = event->u.request.model_subject;
    const uint8_t *version = event->u.request.public_key;
    const struct view_model *model = view_model_find(&core->view, fact.name), *row = NULL;
    uint64_t client = event->u.request.client;
    if (refused(core, event)) {
        return;
    }
    if (model == NULL && (subject != FACT_MODEL_EXISTS || fact.removed)) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such model; `shoal model ls` lists them.");
        return;
    }
    const uint8_t *about = subject == FACT_MODEL_ALIAS ? fact.target : version;
    if (memcmp(about, no_version, FACT_VERSION_BYTES) != 0 && (row = view_model_version_by_id(model, about)) == NULL) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "The model has no such version (any more); `shoal model ls NAME` lists them.");
        return;
    }
    if (subject == FACT_MODEL_EXISTS) {
        (void)core_ack_begin(core, client, fact.removed ? remove_model(core, fact.name) : put_exists(core, fact.name, false), no_blob, no_blob);
    } else if (subject == FACT_MODEL_VERSION) {
        (void)core_ack_begin(core, client, row != NULL ? remove_version(core, row) : NULL, no_blob, no_blob);
    } else if (has_too_many(core, model, subject, version, &fact)) {
        core_reply(core, client, ERR_FULL, 0, "The model has as many tags as it can have, about 100; take one back first, or give versions tags.");
    } else {
        fact.number = subject == FACT_MODEL_ALIAS && row != NULL ? row->number : 0;
        (void)core_ack_begin(core, client, put_value(core, subject, subject == FACT_MODEL_ALIAS ? no_version : version, fact), no_blob, no_blob);
    }
}
