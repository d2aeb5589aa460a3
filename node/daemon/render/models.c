#include "node/daemon/render/models.h"

#include <string.h>

#include "base/bytes.h"
#include "node/core/view/view.h"
#include "node/daemon/render/put.h"

/* A walk over all that can be a row, of which the first ones are in earlier parts already. */
struct walk {
    struct render_list list;
    msgpack_packer *packer;
    uint32_t at, from;
    bool is_full;
};

/* Whether this part has the next one. */
static bool begins(struct walk *walk)
{
    bool is_here = !walk->is_full && walk->at >= walk->from;
    walk->at += !walk->is_full;
    return is_here;
}

static void ends(struct walk *walk)
{
    walk->is_full = !render_list_took_row(&walk->list);
    walk->at -= walk->is_full; /* the next part has it */
}

static void put_model(struct walk *walk, const struct view *view, const char *name)
{
    static const uint8_t none[FACT_VERSION_BYTES] = {0};
    const struct view_model *row = view_model_register(view, name, FACT_MODEL_EXISTS, none, "");
    if (begins(walk)) {
        (void)msgpack_pack_map(walk->packer, 3);
        render_put_text(walk->packer, "kind", "model");
        render_put_text(walk->packer, "model", name);
        render_put_u64(walk->packer, "created_ms", row != NULL ? row->number : 0);
        ends(walk);
    }
}

static void put_version(struct walk *walk, const struct view *view, const struct view_model *row)
{
    struct fact_model fact;
    msgpack_packer *packer = walk->packer;
    if (!begins(walk) || fact_model_read(&row->entry->record, &fact) != 0) {
        return;
    }
    const struct fact_model_source *source = &fact.source;
    (void)msgpack_pack_map(packer, 16);
    render_put_text(packer, "kind", "version");
    render_put_text(packer, "model", fact.name);
    render_put_u64(packer, "version", view_model_version_number(row));
    render_put_u64(packer, "claimed", fact.number);
    render_put_string(packer, "version_id");
    render_put_hex(packer, view_model_id(row), FACT_VERSION_BYTES);
    render_put_u64(packer, "created_ms", source->created_ms);
    render_put_string(packer, "experiment");
    render_put_experiment_id(packer, source->experiment);
    render_put_u64(packer, "trial", source->trial);
    render_put_u64(packer, "step", source->step);
    render_put_string(packer, "checkpoint");
    if (hash256_is_none(source->blob)) {
        (void)msgpack_pack_nil(packer);
    } else {
        render_put_hex(packer, source->blob.bytes, HASH_BYTES);
    }
    render_put_text(packer, "run", source->run);
    render_put_text(packer, "logged_model", source->model);
    render_put_text(packer, "source", source->source);
    render_put_text(packer, "path", source->path);
    render_put_text(packer, "link", source->link);
    render_put_bool(packer, "is_gone", view_find_tombstone(view, source->experiment) != NULL);
    ends(walk);
}

/* A description, a tag or an alias. */
static void put_value(struct walk *walk, const struct view_model *model, const struct view_model *row)
{
    static const char *const kinds[] = {[FACT_MODEL_DESCRIPTION] = "description", [FACT_MODEL_TAG] = "tag", [FACT_MODEL_ALIAS] = "alias"};
    struct fact_model fact;
    msgpack_packer *packer = walk->packer;
    enum fact_model_subject subject = view_model_subject(row);
    if (!begins(walk) || !view_model_value_is_held(model, row) || fact_model_read(&row->entry->record, &fact) != 0) {
        return;
    }
    const struct view_model *version =
        view_model_version_by_id(model, subject == FACT_MODEL_ALIAS ? fact.target : view_model_id(row));
    (void)msgpack_pack_map(packer, 5);
    render_put_text(packer, "kind", kinds[subject]);
    render_put_text(packer, "model", fact.name);
    render_put_u64(packer, "version", version != NULL ? view_model_version_number(version) : 0);
    render_put_text(packer, "name", fact.field);
    render_put_string(packer, "value");
    (void)msgpack_pack_str(packer, fact.value_bytes);
    (void)msgpack_pack_str_body(packer, fact.value, fact.value_bytes);
    ends(walk);
}

static void put_all(struct walk *walk, const struct view *view, const struct view_model *model)
{
    struct fact_model fact;
    if (fact_model_read(&model->entry->record, &fact) != 0) {
        return;
    }
    put_model(walk, view, fact.name);
    for (const struct view_model *row = NULL; !walk->is_full && (row = view_model_version_next(model, row)) != NULL;) {
        put_version(walk, view, row);
    }
    for (const struct view_model *row = NULL; !walk->is_full && (row = view_model_value_next(model, row)) != NULL;) {
        put_value(walk, model, row);
    }
}

bool render_models(const struct node_core *core, const char *name, uint32_t *from, struct pack_writer *frame)
{
    const struct view *view = node_core_view(core);
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "registry");
    struct walk walk = {.packer = &packer, .from = *from, .list = render_list_open(&packer)};
    if (name[0] != '\0') {
        const struct view_model *model = view_model_find(view, name);
        if (model != NULL) {
            put_all(&walk, view, model);
        }
    } else {
        for (const struct view_model *model = view_model_next(view, NULL); model != NULL && !walk.is_full; model = view_model_next(view, model)) {
            put_all(&walk, view, model);
        }
    }
    render_list_close(&walk.list);
    *from = walk.at;
    return walk.is_full;
}
