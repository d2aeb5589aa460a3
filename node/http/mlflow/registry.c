/* The model registry: the daemon's document `models`, in MLflow's words. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/document.h"
#include "node/http/ask.h"
#include "node/http/mlflow/filter.h"
#include "node/http/mlflow/keys.h"
#include "node/http/mlflow/work.h"

#define REQUEST_BYTES (16u << 10)
#define FOUND_STANDARD 100
#define FOUND_MAX 200000
#define SEEN_TRIES 100 /* until a new version, which another node may have numbered, is known here */
#define LOOK_US 50000

/* ---- the registry as JSON --------------------------------------------------------------------------------------- */

/* Text of the daemon's, with the line breaks that document_text replaces. */
static json_t *text_of(const msgpack_object *row, const char *key)
{
    const msgpack_object *value = document_find(row, key);
    json_t *text = value->type == MSGPACK_OBJECT_STR ? json_stringn(value->via.str.ptr, value->via.str.size) : NULL;
    return text != NULL ? text : json_string("");
}

static bool is_kind(const msgpack_object *row, const char *kind)
{
    char text[32];
    document_text(row, "kind", text, sizeof text);
    return strcmp(text, kind) == 0;
}

/* Where the files of a version are that was registered without MLflow: a checkpoint is a directory of its own (artifacts.c). */
static json_t *source_of(const msgpack_object *row, const char *run)
{
    char experiment[WORK_EXPERIMENT_BYTES], decimal[WORK_ID_BYTES], checkpoint[80], path[1100], uri[1300];
    document_text(row, "experiment", experiment, sizeof experiment);
    document_text(row, "checkpoint", checkpoint, sizeof checkpoint);
    document_text(row, "path", path, sizeof path);
    work_decimal(experiment, decimal);
    bool is_output = strncmp(path, "output/", 7) == 0;
    (void)snprintf(uri, sizeof uri, checkpoint[0] != '\0' ? "mlflow-artifacts:/%s/%s/checkpoints/%s" : "mlflow-artifacts:/%s/%s/artifacts%s",
                   decimal, run, checkpoint[0] != '\0' ? checkpoint : is_output ? path + 6 : "");
    return json_string(uri);
}

static json_t *new_version(const msgpack_object *row)
{
    char number[WORK_ID_BYTES], run_id[WORK_RUN_BYTES], source[8];
    struct work_run run = {.trial = document_number(row, "trial")};
    document_text(row, "experiment", run.experiment, sizeof run.experiment);
    work_run_id(&run, run_id);
    document_text(row, "source", source, sizeof source);
    bool has_source = source[0] != '\0';
    bool is_gone = document_true(row, "is_gone");
    json_int_t made_ms = (json_int_t)document_number(row, "created_ms");
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)document_number(row, "version"));
    return json_pack("{s:o, s:s, s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:[], s:[], s:o}", "name", text_of(row, "model"), "version",
                     number, "creation_timestamp", made_ms, "last_updated_timestamp", made_ms, "current_stage", "None", "description", "",
                     "source", has_source ? text_of(row, "source") : source_of(row, run_id), "run_id",
                     has_source ? text_of(row, "run") : json_string(run_id), "run_link", text_of(row, "link"), "model_id",
                     text_of(row, "logged_model"), "status", is_gone ? "FAILED_REGISTRATION" : "READY", "status_message",
                     is_gone ? "The experiment of this version was deleted in another part of the mesh." : "", "tags", "aliases",
                     "shoal_version_id", text_of(row, "version_id"));
}

/* The version of a model with the number; NULL: none. */
static json_t *version_of(const json_t *model, uint64_t number)
{
    char text[WORK_ID_BYTES];
    size_t i;
    json_t *version;
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    json_array_foreach(json_object_get(model, "versions"), i, version)
    {
        if (strcmp(json_string_value(json_object_get(version, "version")), text) == 0) {
            return version;
        }
    }
    return NULL;
}

static void add_note(json_t *model, const msgpack_object *row)
{
    uint64_t number = document_number(row, "version");
    json_t *version = number != 0 ? version_of(model, number) : NULL, *about = number != 0 ? version : model;
    if (about == NULL) {
        return;
    }
    if (is_kind(row, "description")) {
        (void)json_object_set_new(about, "description", text_of(row, "value"));
    } else if (is_kind(row, "tag")) {
        (void)json_array_append_new(json_object_get(about, "tags"),
                                    json_pack("{s:o, s:o}", "key", text_of(row, "name"), "value", text_of(row, "value")));
    } else if (is_kind(row, "alias")) {
        (void)json_array_append_new(json_object_get(version, "aliases"), text_of(row, "name"));
        (void)json_array_append_new(json_object_get(model, "aliases"),
                                    json_pack("{s:o, s:O}", "alias", text_of(row, "name"), "version", json_object_get(version, "version")));
    }
}

/* Asks for one model (`name`), or all (NULL): an object of models by their names, each with `versions`. The caller's. */
static bool read_registry(struct work *work, const char *name, json_t **out)
{
    uint8_t bytes[2048];
    struct pack_writer writer;
    msgpack_object document;
    pack_writer_init(&writer, bytes, sizeof bytes);
    ask_begin(&writer, "models", work->call->secret, name != NULL);
    if (name != NULL) {
        pack_text(&writer, "name");
        pack_text(&writer, name);
    }
    if (!work_send(work, &writer, &document)) {
        return false;
    }
    json_t *models = json_object(), *model = NULL;
    msgpack_object_array rows = document_list(&document, "registry");
    for (uint32_t i = 0; i < rows.size; i++) {
        char of[1024];
        document_text(&rows.ptr[i], "model", of, sizeof of);
        model = json_object_get(models, of);
        if (is_kind(&rows.ptr[i], "model")) {
            json_t *text = text_of(&rows.ptr[i], "model");
            json_int_t made_ms = (json_int_t)document_number(&rows.ptr[i], "created_ms");
            model = json_pack("{s:O, s:I, s:I, s:s, s:[], s:[], s:[]}", "name", text, "creation_timestamp", made_ms, "last_updated_timestamp",
                              made_ms, "description", "", "tags", "aliases", "versions");
            (void)json_object_set_new(models, json_string_value(text), model);
            json_decref(text);
        } else if (model == NULL) {
            continue; /* removed while the list was on its way */
        } else if (is_kind(&rows.ptr[i], "version")) {
            json_t *version = new_version(&rows.ptr[i]);
            json_int_t made_ms = json_integer_value(json_object_get(version, "creation_timestamp"));
            if (made_ms > json_integer_value(json_object_get(model, "last_updated_timestamp"))) {
                (void)json_object_set_new(model, "last_updated_timestamp", json_integer(made_ms));
            }
            (void)json_array_append_new(json_object_get(model, "versions"), version);
        } else {
            add_note(model, &rows.ptr[i]);
        }
    }
    *out = models;
    return true;
}

/* The newest version; NULL: there is none. */
static json_t *latest_of(const json_t *model)
{
    size_t i;
    json_t *version, *latest = NULL;
    json_array_foreach(json_object_get(model, "versions"), i, version)
    {
        bool is_newer = latest == NULL || json_integer_value(json_object_get(version, "creation_timestamp")) >=
                                              json_integer_value(json_object_get(latest, "creation_timestamp"));
        latest = is_newer ? version : latest;
    }
    return latest;
}

/* The model as clients get it. */
static json_t *shown_model(const json_t *model)
{
    json_t *shown = json_copy((json_t *)(uintptr_t)model), *latest = latest_of(model);
    (void)json_object_del(shown, "versions");
    (void)json_object_set_new(shown, "latest_versions", latest != NULL ? json_pack("[O]", latest) : json_array());
    return shown;
}

/* Reads the model of the argument `name`; the caller's. NULL: the answer is an error. */
static json_t *read_model(struct work *work)
{
    const char *name = work_argument(work, "name");
    json_t *models = NULL, *model;
    if (name == NULL || name[0] == '\0') {
        (void)work_fail_argument(work, "The request lacks name, the registered model's.");
        return NULL;
    }
    if (!read_registry(work, name, &models)) {
        return NULL;
    }
    model = json_incref(json_object_get(models, name));
    json_decref(models);
    if (model == NULL) {
        (void)work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST", "There is no such registered model; `shoal model ls` lists them.");
    }
    return model;
}

/* The version of the arguments `name` and `version`, and its model; NULL: the answer is an error. */
static json_t *read_version(struct work *work, json_t **model)
{
    uint64_t number = work_number(work, "version", 0);
    *model = read_model(work);
    json_t *version = *model != NULL ? version_of(*model, number) : NULL;
    if (*model != NULL && version == NULL) {
        (void)work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST", "The model has no such version; `shoal model ls NAME` lists them.");
    }
    return version;
}

/* Answers with the version, and frees its model. */
static bool answer_version(struct work *work, json_t *model, json_t *version)
{
    if (version != NULL) {
        work->answer = json_pack("{s:O}", "model_version", version);
    }
    json_decref(model);
    return version != NULL;
}

bool registry_get_model(struct work *work)
{
    json_t *model = read_model(work);
    if (model == NULL) {
        return false;
    }
    work->answer = json_pack("{s:o}", "registered_model", shown_model(model));
    json_decref(model);
    return true;
}

bool registry_get_version(struct work *work)
{
    json_t *model, *version = read_version(work, &model);
    return answer_version(work, model, version);
}

bool registry_get_by_alias(struct work *work)
{
    const char *wanted = work_argument(work, "alias");
    json_t *model = read_model(work), *alias, *version = NULL;
    size_t i;
    json_array_foreach(json_object_get(model, "aliases"), i, alias)
    {
        if (wanted != NULL && strcmp(json_string_value(json_object_get(alias, "alias")), wanted) == 0) {
            version = version_of(model, strtoull(json_string_value(json_object_get(alias, "version")), NULL, 10));
        }
    }
    if (model != NULL && version == NULL) {
        (void)work_fail(work, 404, "RESOURCE_DOES_NOT_EXIST", "Registered model alias is not found: the model has no such alias.");
    }
    return answer_version(work, model, version);
}

/* Of the stages there is None only. */
bool registry_latest(struct work *work)
{
    json_t *model = read_model(work), *latest = model != NULL ? latest_of(model) : NULL, *stage;
    size_t i, wanted = json_array_size(json_object_get(work->body, "stages"));
    bool is_wanted = wanted == 0;
    json_array_foreach(json_object_get(work->body, "stages"), i, stage)
    {
        is_wanted |= json_is_string(stage) && strcmp(json_string_value(stage), "None") == 0;
    }
    if (model != NULL) {
        work->answer = json_pack("{s:o}", "model_versions", latest != NULL && is_wanted ? json_pack("[O]", latest) : json_array());
    }
    json_decref(model);
    return work->answer != NULL;
}

bool registry_download_uri(struct work *work)
{
    json_t *model, *version = read_version(work, &model);
    char run[WORK_RUN_BYTES], uri[1200] = "";
    if (version != NULL) {
        const char *source = json_string_value(json_object_get(version, "source")),
                   *logged = json_string_value(json_object_get(version, "model_id"));
        if (strncmp(source, "models:/", 8) == 0 && keys_model_run(logged, run)) {
            char experiment[WORK_EXPERIMENT_BYTES], decimal[WORK_ID_BYTES];
            (void)snprintf(experiment, sizeof experiment, "%.16s", run);
            work_decimal(experiment, decimal);
            (void)snprintf(uri, sizeof uri, "mlflow-artifacts:/%s/models/%s/artifacts", decimal, logged);
        }
        work->answer = json_pack("{s:s}", "artifact_uri", uri[0] != '\0' ? uri : source);
    }
    json_decref(model);
    return version != NULL;
}

/* ---- searches --------------------------------------------------------------------------------------------------- */

struct search {
    struct filter filter;
    struct filter_order orders[4];
    size_t order_count;
    uint64_t most, from;
};

static struct filter_value value_of(const json_t *item, enum filter_of of, const char *key)
{
    static const struct filter_value absent = {.kind = FILTER_ABSENT};
    size_t i;
    const json_t *tag;
    if (of == FILTER_TAG) {
        json_array_foreach(json_object_get(item, "tags"), i, tag)
        {
            if (strcmp(json_string_value(json_object_get(tag, "key")), key) == 0) {
                return (struct filter_value){.kind = FILTER_TEXT, .text = json_string_value(json_object_get(tag, "value"))};
            }
        }
        return absent;
    }
    bool is_number = strcmp(key, "version_number") == 0;
    const json_t *value = json_object_get(item, is_number                         ? "version"
                                                : strcmp(key, "source_path") == 0 ? "source"
                                                : strcmp(key, "timestamp") == 0   ? "last_updated_timestamp"
                                                                                  : key);
    if (of != FILTER_ATTRIBUTE || value == NULL) {
        return absent;
    }
    if (json_is_integer(value)) {
        return (struct filter_value){.kind = FILTER_NUMBER, .number = (double)json_integer_value(value)};
    }
    return is_number ? (struct filter_value){.kind = FILTER_NUMBER, .number = strtod(json_string_value(value), NULL)}
                     : (struct filter_value){.kind = FILTER_TEXT, .text = json_string_value(value)};
}

/* Reads the arguments of a search; `standard`: the orders that stand behind the caller's own. NULL: the answer is an error. */
static struct search *read_search(struct work *work, const char *const standard[])
{
    char error[256];
    struct search *search = calloc(1, sizeof *search);
    const char *page = work_argument(work, "page_token"), *own = work_argument(work, "order_by");
    const json_t *list = json_object_get(work->body, "order_by");
    bool is_good = search != NULL || work_fail_memory(work);
    is_good = is_good && (filter_read(work_argument(work, "filter"), &search->filter, error) ||
                          work_fail(work, 400, "INVALID_PARAMETER_VALUE", error));
    if (!is_good) {
        free(search);
        return NULL;
    }
    for (size_t i = 0; is_good && i < (list != NULL ? json_array_size(list) : own != NULL) && search->order_count < 2; i++) {
        const char *text = list != NULL ? json_string_value(json_array_get(list, i)) : own;
        is_good = text != NULL && (filter_read_order(text, &search->orders[search->order_count++], error) ||
                                   work_fail(work, 400, "INVALID_PARAMETER_VALUE", error));
    }
    for (size_t i = 0; standard[i] != NULL; i++) {
        (void)filter_read_order(standard[i], &search->orders[search->order_count++], error);
    }
    search->most = work_number(work, "max_results", FOUND_STANDARD);
    search->from = page != NULL ? strtoull(page, NULL, 10) : 0;
    if (is_good && (search->most == 0 || search->most > FOUND_MAX)) {
        is_good = work_fail_argument(work, "max_results wants a number from 1 to %d.", FOUND_MAX);
    }
    if (!is_good) {
        free(search);
    }
    return is_good ? search : NULL;
}

static bool passes(const struct search *search, const json_t *item)
{
    bool is_good = true;
    for (size_t i = 0; i < search->filter.count && is_good; i++) {
        const struct filter_term *term = &search->filter.terms[i];
        struct filter_value value = value_of(item, term->of, term->key);
        /* The client asks so for what is no prompt, and means models without the tag, too. */
        bool is_no_prompt = value.kind == FILTER_ABSENT && term->op == FILTER_UNEQUAL && strcmp(term->key, "mlflow.prompt.is_prompt") == 0;
        is_good = is_no_prompt || filter_passes(term, value);
    }
    return is_good;
}

static bool is_before(const struct search *search, const json_t *a, const json_t *b)
{
    int order = 0;
    for (size_t i = 0; i < search->order_count && order == 0; i++) {
        const struct filter_order *by = &search->orders[i];
        order = filter_compare(value_of(a, by->of, by->key), value_of(b, by->of, by->key), by->descending);
    }
    return order < 0;
}

/* A stable order of a list, by halves. */
static void sort(const struct search *search, json_t **items, json_t **room, size_t count)
{
    if (count < 2) {
        return;
    }
    size_t half = count / 2, a = 0, b = half;
    sort(search, items, room, half);
    sort(search, items + half, room, count - half);
    for (size_t i = 0; i < count; i++) {
        bool takes_b = a == half || (b < count && is_before(search, items[b], items[a]));
        room[i] = takes_b ? items[b++] : items[a++];
    }
    memcpy(items, room, count * sizeof *items);
}

/* Answers with the page of the items (a list of the caller's) that pass. */
static bool answer_page(struct work *work, const struct search *search, const json_t *items, const char *key, json_t *show(const json_t *item))
{
    size_t count = 0, i;
    json_t *item, *page = json_array();
    json_t **found = malloc((2 * json_array_size(items) + 1) * sizeof(json_t *));
    if (found == NULL || page == NULL) {
        free(found);
        json_decref(page);
        return work_fail_memory(work);
    }
    json_array_foreach((json_t *)(uintptr_t)items, i, item)
    {
        if (passes(search, item)) {
            found[count++] = item;
        }
    }
    sort(search, found, found + json_array_size(items), count);
    for (i = search->from; i < count && i - search->from < search->most; i++) {
        (void)json_array_append_new(page, show != NULL ? show(found[i]) : json_incref(found[i]));
    }
    free(found);
    work->answer = json_pack("{s:o}", key, page);
    if (i < count) {
        char next[WORK_ID_BYTES];
        (void)snprintf(next, sizeof next, "%zu", i);
        (void)json_object_set_new(work->answer, "next_page_token", json_string(next));
    }
    return true;
}

/* Answers with all models, or with all versions of all of them, as the search chooses and sorts them. */
static bool search_registry(struct work *work, const char *const *standard, const char *found, bool wants_versions)
{
    struct search *search = read_search(work, standard);
    json_t *models = NULL, *items, *model;
    const char *name;
    if (search == NULL || !read_registry(work, NULL, &models)) {
        free(search);
        return false;
    }
    items = json_array();
    json_object_foreach(models, name, model)
    {
        (void)(wants_versions ? json_array_extend(items, json_object_get(model, "versions")) : json_array_append(items, model));
    }
    bool is_good = answer_page(work, search, items, found, wants_versions ? NULL : shown_model);
    json_decref(items);
    json_decref(models);
    free(search);
    return is_good;
}

bool registry_search_models(struct work *work)
{
    static const char *const standard[] = {"name ASC", NULL};
    return search_registry(work, standard, "registered_models", false);
}

bool registry_search_versions(struct work *work)
{
    static const char *const standard[] = {"last_updated_timestamp DESC", "name ASC", "version_number DESC", NULL};
    return search_registry(work, standard, "model_versions", true);
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

/* A request of the daemon's that changes the registry. */
struct change {
    struct pack_writer writer, arguments;
    uint32_t count;
    uint8_t bytes[REQUEST_BYTES], argument_bytes[REQUEST_BYTES - 512];
};

static void put_text(struct change *change, const char *key, const char *value)
{
    pack_text(&change->arguments, key);
    pack_text(&change->arguments, value);
    change->count++;
}

static void put_number(struct change *change, const char *key, uint64_t value)
{
    pack_text(&change->arguments, key);
    pack_u64(&change->arguments, value);
    change->count++;
}

static void put_remove(struct change *change)
{
    pack_text(&change->arguments, "remove");
    pack_bool(&change->arguments, true);
    change->count++;
}

/* Begins a change of the model `name`. */
static void begin(struct change *change, const char *name)
{
    change->count = 0;
    pack_writer_init(&change->arguments, change->argument_bytes, sizeof change->argument_bytes);
    put_text(change, "name", name != NULL ? name : "");
}

/* Sends; `op` with trial_ before it, where the caller is a trial's program. */
static bool apply(struct work *work, struct change *change, const char *op, msgpack_object *reply)
{
    struct work_run own;
    char whole[64];
    bool is_trial = work_own_trial(work, &own);
    if (work->status != 200) {
        return false;
    }
    (void)snprintf(whole, sizeof whole, "%s%s", is_trial && strcmp(op, "model_rm") != 0 ? "trial_" : "", op);
    pack_writer_init(&change->writer, change->bytes, sizeof change->bytes);
    ask_begin(&change->writer, whole, work->call->secret, change->count);
    pack_raw(&change->writer, change->argument_bytes, change->arguments.used_bytes);
    if (change->arguments.failed) {
        return work_fail_argument(work, "A text of the request is too long.");
    }
    return work_send(work, &change->writer, reply);
}

static bool set(struct work *work, const char *op, const char *name, uint64_t version, const char *key, const char *value)
{
    struct change change;
    msgpack_object reply;
    begin(&change, name);
    if (version != 0) {
        put_number(&change, "version", version);
    }
    if (key != NULL) {
        put_text(&change, "key", key);
    }
    if (value != NULL) {
        put_text(&change, "value", value);
    }
    return apply(work, &change, op, &reply);
}

/* Sets description and tags of the request. */
static bool set_notes(struct work *work, const char *name, uint64_t version)
{
    const char *description = work_argument(work, "description");
    size_t i;
    json_t *tag;
    if (description != NULL && description[0] != '\0' && !set(work, "model_describe", name, version, NULL, description)) {
        return false;
    }
    json_array_foreach(json_object_get(work->body, "tags"), i, tag)
    {
        const char *key = json_string_value(json_object_get(tag, "key")), *value = json_string_value(json_object_get(tag, "value"));
        if (key == NULL || value == NULL) {
            return work_fail_argument(work, "A tag lacks its key or its value.");
        }
        if (!set(work, "model_tag", name, version, key, value)) {
            return false;
        }
    }
    return true;
}

bool registry_create_model(struct work *work)
{
    const char *name = work_argument(work, "name");
    msgpack_object reply;
    struct change change;
    json_t *models = NULL;
    bool is_there = name != NULL && name[0] != '\0' && read_registry(work, name, &models);
    json_decref(models);
    if (is_there) {
        return work_fail(work, 400, "RESOURCE_ALREADY_EXISTS", "A registered model with this name is there already.");
    }
    if (work->status != 200 && work->status != 404) {
        return false;
    }
    work->status = 200;
    begin(&change, name);
    return apply(work, &change, "model_create", &reply) && set_notes(work, name, 0) && registry_get_model(work);
}

/* Finds the trial and the place of a source. */
static bool read_source(struct work *work, const char *source, struct work_run *run, char path[KEYS_PATH_BYTES + 16])
{
    static const char artifacts[] = "mlflow-artifacts/artifacts/";
    struct artifact_place place;
    char model_run[WORK_RUN_BYTES];
    const char *rest = source;
    if (strncmp(source, "models:/m-", 10) == 0 && keys_model_run(source + 8, model_run)) {
        (void)snprintf(path, KEYS_PATH_BYTES + 16, "output/models/%s", source + 8);
        return work_read_run_id(work, model_run, run);
    }
    if (strncmp(source, "mlflow-artifacts:", 17) == 0) {
        rest = source + 17;
        if (strncmp(rest, "//", 2) == 0) { /* with the name of a node, which does not matter */
            rest += 2 + strcspn(rest + 2, "/");
        }
        rest += strspn(rest, "/");
    } else if (strstr(source, artifacts) != NULL) {
        rest = strstr(source, artifacts) + sizeof artifacts - 1;
    } else {
        rest = "";
    }
    if (!keys_artifact(rest, &place)) {
        return work_fail_argument(work,
                                  "Invalid model version source: '%.300s'. It has to be an artifact of a run of this mesh, "
                                  "mlflow-artifacts:/EXPERIMENT/RUN/artifacts/PATH, or a logged model, models:/m-ID.",
                                  source);
    }
    (void)snprintf(path, KEYS_PATH_BYTES + 16, "output%s%s", place.path[0] != '\0' ? "/" : "", place.path);
    return work_read_run_id(work, place.run, run);
}

/* Waits until the version is known here, and answers with it. */
static bool answer_new(struct work *work, uint64_t number)
{
    json_t *model = NULL, *version = NULL;
    for (int i = 0; i < SEEN_TRIES && version == NULL; i++) {
        work->status = 200;
        model = read_model(work);
        version = model != NULL ? version_of(model, number) : NULL;
        if (version == NULL) {
            json_decref(model);
            model = NULL;
            (void)usleep(LOOK_US);
        }
    }
    if (version == NULL) {
        return work_fail(work, 503, "TEMPORARILY_UNAVAILABLE",
                         "The version is made, and this node has not heard of it yet; `shoal model ls` lists it soon.");
    }
    return answer_version(work, model, version);
}

bool registry_create_version(struct work *work)
{
    const char *name = work_argument(work, "name"), *source = work_argument(work, "source"), *run_id = work_argument(work, "run_id"),
               *link = work_argument(work, "run_link"), *logged = work_argument(work, "model_id");
    struct work_run run;
    struct change change;
    msgpack_object reply;
    char path[KEYS_PATH_BYTES + 16], made_by[WORK_RUN_BYTES];
    json_t *model = read_model(work);
    if (model == NULL) {
        return false;
    }
    json_decref(model);
    if (source == NULL) {
        return work_fail_argument(work, "The request lacks source, where the version's files are.");
    }
    if (!read_source(work, source, &run, path)) {
        return false;
    }
    begin(&change, name);
    put_text(&change, "experiment", run.experiment);
    put_number(&change, "trial", run.trial);
    put_text(&change, "source", source);
    put_text(&change, "path", path);
    work_run_id(&run, made_by);
    put_text(&change, "run", run_id != NULL && run_id[0] != '\0' ? run_id : made_by);
    put_text(&change, "link", link != NULL ? link : "");
    put_text(&change, "logged_model", logged != NULL ? logged : strncmp(source, "models:/", 8) == 0 ? source + 8 : "");
    if (!apply(work, &change, "model_register", &reply)) {
        return false;
    }
    uint64_t number = document_number(&reply, "version");
    bool is_seen = answer_new(work, number);
    json_decref(work->answer);
    work->answer = NULL;
    return is_seen && set_notes(work, name, number) && answer_new(work, number);
}

/* Of model-versions/... the version that is meant; of registered-models/... 0. False: the answer is an error. */
static bool read_number(struct work *work, uint64_t *out)
{
    bool is_version = strstr(work->call->path, "/model-versions/") != NULL;
    *out = is_version ? work_number(work, "version", 0) : 0;
    return !is_version || *out != 0 || work_fail_argument(work, "The request lacks version, a number.");
}

bool registry_describe(struct work *work)
{
    const char *name = work_argument(work, "name"), *text = work_argument(work, "description");
    uint64_t version;
    if (!read_number(work, &version) || !set(work, "model_describe", name, version, NULL, text != NULL ? text : "")) {
        return false;
    }
    return version != 0 ? registry_get_version(work) : registry_get_model(work);
}

bool registry_remove(struct work *work)
{
    uint64_t version;
    if (!read_number(work, &version) || !set(work, "model_rm", work_argument(work, "name"), version, NULL, NULL)) {
        return false;
    }
    work->answer = json_object();
    return true;
}

bool registry_set_tag(struct work *work)
{
    const char *key = work_argument(work, "key"), *value = work_argument(work, "value");
    struct change change;
    msgpack_object reply;
    uint64_t version;
    if (!read_number(work, &version)) {
        return false;
    }
    begin(&change, work_argument(work, "name"));
    if (version != 0) {
        put_number(&change, "version", version);
    }
    put_text(&change, "key", key != NULL ? key : "");
    if (strcmp(work->call->method, "DELETE") == 0) {
        put_remove(&change);
    } else {
        put_text(&change, "value", value != NULL ? value : "");
    }
    if (!apply(work, &change, "model_tag", &reply)) {
        return false;
    }
    work->answer = json_object();
    return true;
}

bool registry_set_alias(struct work *work)
{
    const char *alias = work_argument(work, "alias");
    uint64_t version = work_number(work, "version", 0);
    struct change change;
    msgpack_object reply;
    begin(&change, work_argument(work, "name"));
    put_text(&change, "key", alias != NULL ? alias : "");
    if (strcmp(work->call->method, "DELETE") == 0) {
        put_remove(&change);
    } else {
        put_number(&change, "version", version);
    }
    if (!apply(work, &change, "model_alias", &reply)) {
        return false;
    }
    work->answer = json_object();
    return true;
}

bool registry_refuse(struct work *work)
{
    return work_fail(work, 501, "NOT_IMPLEMENTED",
                     strstr(work->call->path, "rename") != NULL
                         ? "A registered model keeps its name; begin a new one, and register the checkpoints again."
                         : "Stages are left out, as MLflow advises; use an alias, such as champion.");
}
