/* model ls|register|alias|unalias|get|rm: the model registry (docs/mlflow.md). */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/document.h"
#include "node/core/facts/facts.h"
#include "tools/shoal/print.h"
#include "tools/shoal/target.h"

#define SEEN_MS 5000 /* so long is waited until a new version is known here */
#define LOOK_MS 50

static bool is_kind(const msgpack_object *item, const char *kind, const char *model)
{
    char text[FACT_MODEL_NAME_BYTES];
    document_text(item, "kind", text, sizeof text);
    bool is_it = strcmp(text, kind) == 0;
    document_text(item, "model", text, sizeof text);
    return is_it && (model == NULL || strcmp(text, model) == 0);
}

/* "champion, dev": the aliases of a version, or "name@version" of all. */
static void aliases_of(msgpack_object_array list, const char *model, uint64_t version, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < list.size && used < size; i++) {
        char name[FACT_MODEL_NAME_BYTES];
        uint64_t of = document_number(&list.ptr[i], "version");
        if (!is_kind(&list.ptr[i], "alias", model) || (version != 0 && of != version)) {
            continue;
        }
        document_text(&list.ptr[i], "name", name, sizeof name);
        int written = version != 0 ? snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "", name)
                                   : snprintf(out + used, size - used, "%s%s: %llu", used > 0 ? ", " : "", name, (unsigned long long)of);
        used += written > 0 ? (size_t)written : 0;
    }
}

/* "EXP/TRIAL@STEP", and where its files lie. */
static void what_of(const msgpack_object *item, char *out, size_t size)
{
    char experiment[CLIENT_EXPERIMENT_TEXT_BYTES], path[256], checkpoint[8];
    document_text(item, "experiment", experiment, sizeof experiment);
    document_text(item, "path", path, sizeof path);
    document_text(item, "checkpoint", checkpoint, sizeof checkpoint);
    unsigned long long trial = document_number(item, "trial"), step = document_number(item, "step");
    if (checkpoint[0] != '\0') {
        (void)snprintf(out, size, "%s/%llu@%llu", experiment, trial, step);
    } else {
        (void)snprintf(out, size, "%s/%llu %s", experiment, trial, path[0] != '\0' ? path : "(all files)");
    }
}

/* The newest version of a model; NULL: there is none. */
static const msgpack_object *newest_of(msgpack_object_array list, const char *model)
{
    const msgpack_object *newest = NULL;
    for (uint32_t i = 0; i < list.size; i++) {
        bool is_newer = newest == NULL || document_number(&list.ptr[i], "claimed") > document_number(newest, "claimed");
        newest = is_kind(&list.ptr[i], "version", model) && is_newer ? &list.ptr[i] : newest;
    }
    return newest;
}

static void render_models(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    msgpack_object_array list = document_list(document, "registry");
    table_column(&table, "NAME", false);
    table_column(&table, "VERSIONS", true);
    table_column(&table, "NEWEST", true);
    table_column(&table, "ALIASES", false);
    for (uint32_t i = 0; i < list.size; i++) {
        char name[FACT_MODEL_NAME_BYTES], text[1024];
        uint32_t versions = 0;
        if (!is_kind(&list.ptr[i], "model", NULL)) {
            continue;
        }
        document_text(&list.ptr[i], "model", name, sizeof name);
        for (uint32_t v = 0; v < list.size; v++) {
            versions += is_kind(&list.ptr[v], "version", name);
        }
        const msgpack_object *newest = newest_of(list, name);
        aliases_of(list, name, 0, text, sizeof text);
        table_cell(&table, RENDER_PLAIN, "%s", name);
        table_cell(&table, RENDER_PLAIN, "%u", versions);
        table_cell(&table, RENDER_PLAIN, "%llu", newest != NULL ? (unsigned long long)document_number(newest, "version") : 0ull);
        table_cell(&table, RENDER_PLAIN, "%s", text[0] != '\0' ? text : "-");
    }
    table_write(&table, cli->out, cli->colours);
}

/* Descriptions and tags, of the model (version 0) first. */
static void write_notes(struct cli *cli, msgpack_object_array list)
{
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char name[FACT_MODEL_NAME_BYTES], value[FACT_MODEL_VALUE_MAX + 1], about[64] = "";
        bool is_tag = is_kind(item, "tag", NULL);
        uint64_t version = document_number(item, "version");
        if (!is_tag && !is_kind(item, "description", NULL)) {
            continue;
        }
        document_text(item, "name", name, sizeof name);
        document_text(item, "value", value, sizeof value);
        if (version != 0) {
            (void)snprintf(about, sizeof about, "version %llu: ", (unsigned long long)version);
        }
        (void)fprintf(cli->out, is_tag ? "%s%s = %s\n" : "%s%s%s\n", about, name, value);
    }
}

static void render_versions(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    msgpack_object_array list = document_list(document, "registry");
    table_column(&table, "VERSION", true);
    table_column(&table, "MADE", false);
    table_column(&table, "FROM", false);
    table_column(&table, "ALIASES", false);
    bool has_moved = false;
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char text[1024], when[RENDER_UNIT_BYTES];
        uint64_t number = document_number(item, "version");
        if (!is_kind(item, "version", NULL)) {
            continue;
        }
        has_moved |= number != document_number(item, "claimed");
        render_time(when, document_number(item, "created_ms"));
        table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)number);
        table_cell(&table, RENDER_PLAIN, "%s", when);
        what_of(item, text, sizeof text);
        table_cell(&table, RENDER_PLAIN, "%s", text);
        aliases_of(list, NULL, number, text, sizeof text);
        table_cell(&table, RENDER_PLAIN, "%s", text[0] != '\0' ? text : "-");
    }
    table_write(&table, cli->out, cli->colours);
    if (has_moved) {
        (void)fputs("A version with a long number was made in another part of the mesh together with the version of its first digits.\n", cli->out);
    }
    write_notes(cli, list);
}

/* Begins a request about a model. */
static int begin(struct cli *cli, struct client *client, const char *op, const char *name, uint32_t more)
{
    if (!fact_model_name_is_good(name)) {
        return cli_fail(cli, CLI_USAGE, "'%.80s' is no name of a model: it has 1 to %d bytes, and neither /, : and @ nor control characters",
                        name, FACT_MODEL_NAME_BYTES - 1);
    }
    int code = client_open(cli, client);
    if (code == CLI_DONE) {
        client_begin(client, op, 1 + more);
        pack_text(&client->request, "name");
        pack_text(&client->request, name);
    }
    return code;
}

int command_model_ls(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    if (arguments->operand_count == 0) {
        return print_simple(cli, "models", render_models);
    }
    int code = begin(cli, &client, "models", arguments->operands[0], 0);
    if (code == CLI_DONE) {
        code = print_reply(&client, render_versions);
        client_close(&client);
    }
    return code;
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static int read_version(struct cli *cli, const char *text, uint64_t *out)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    *out = number;
    return *text >= '1' && *text <= '9' && *end == '\0'
               ? CLI_DONE
               : cli_fail(cli, CLI_USAGE, "'%.40s' is no version: versions are numbers, as shoal model ls MODEL lists them", text);
}

/* Sends a change, and writes its answer with --json. */
static int change(struct client *client, struct reply *reply)
{
    struct cli *cli = client->cli;
    int code = client_ask(client, CLIENT_ANSWER_MS, reply);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply->document);
    }
    return code;
}

static int set_alias(struct cli *cli, const char *name, const char *alias, uint64_t version)
{
    struct client client;
    struct reply reply;
    if (!fact_model_alias_is_good(alias)) {
        return cli_fail(cli, CLI_USAGE,
                        "'%.80s' is no alias: it has letters, digits, _ and -, and is neither latest, a number nor like v1", alias);
    }
    int code = begin(cli, &client, "model_alias", name, 2);
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client.request, "key");
    pack_text(&client.request, alias);
    if (version != 0) {
        pack_text(&client.request, "version");
        pack_u64(&client.request, version);
    } else {
        pack_text(&client.request, "remove");
        pack_bool(&client.request, true);
    }
    code = change(&client, &reply);
    if (code == CLI_DONE && !cli->json && version != 0) {
        (void)fprintf(cli->out, "%s@%s is version %llu\n", name, alias, (unsigned long long)version);
    } else if (code == CLI_DONE && !cli->json) {
        (void)fprintf(cli->out, "%s has no alias %s now\n", name, alias);
    }
    client_close(&client);
    return code;
}

int command_model_alias(struct cli *cli, const struct arguments *arguments)
{
    uint64_t version;
    int code = read_version(cli, arguments->operands[1], &version);
    return code == CLI_DONE ? set_alias(cli, arguments->operands[0], arguments->operands[2], version) : code;
}

int command_model_unalias(struct cli *cli, const struct arguments *arguments)
{
    return set_alias(cli, arguments->operands[0], arguments->operands[1], 0);
}

/* The name of the target's experiment, for a model without one. */
static int name_of_experiment(struct cli *cli, const struct target *target, char out[FACT_MODEL_NAME_BYTES])
{
    struct target whole = *target;
    struct client client;
    struct reply reply;
    whole.has_trial = whole.means_only = false;
    int code = target_begin(cli, "show", &whole, 0, &client);
    if (code == CLI_DONE) {
        code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
        if (code == CLI_DONE) {
            document_text(document_find(&reply.document, "experiment"), "name", out, FACT_MODEL_NAME_BYTES);
        }
        client_close(&client);
    }
    return code;
}

/* Whether the version is in the document. */
static bool has_version(const msgpack_object *document, const char *version_id)
{
    msgpack_object_array list = document_list(document, "registry");
    bool is_there = false;
    for (uint32_t i = 0; i < list.size; i++) {
        char id[2 * FACT_VERSION_BYTES + 1];
        document_text(&list.ptr[i], "version_id", id, sizeof id);
        is_there |= strcmp(id, version_id) == 0;
    }
    return is_there;
}

/* Another node may have given the version its number: waits until its record is here, so that the next command finds it. */
static void wait_until_seen(struct cli *cli, const char *name, const char *version_id)
{
    struct client client;
    struct reply reply;
    bool is_there = false;
    for (int waited_ms = 0; waited_ms < SEEN_MS && !is_there; waited_ms += LOOK_MS) {
        if (begin(cli, &client, "models", name, 0) != CLI_DONE) {
            return;
        }
        client.may_lack = true;
        is_there = client_ask(&client, CLIENT_ANSWER_MS, &reply) == CLI_DONE && has_version(&reply.document, version_id);
        client_close(&client);
        if (!is_there) {
            (void)usleep(LOOK_MS * 1000);
        }
    }
}

int command_model_register(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    struct reply reply;
    char standard[FACT_MODEL_NAME_BYTES] = "", version_id[2 * FACT_VERSION_BYTES + 1] = "";
    const char *name = options_value(arguments, "name"), *alias = options_value(arguments, "alias");
    uint64_t version = 0;
    int code = target_read_one(cli, arguments->operands[0], true, &target);
    if (code == CLI_DONE && name == NULL) {
        code = name_of_experiment(cli, &target, standard);
        name = standard;
    }
    if (code == CLI_DONE && (!fact_model_name_is_good(name) || (alias != NULL && !fact_model_alias_is_good(alias)))) {
        code = cli_fail(cli, CLI_USAGE, "'%.80s' is no good name; names of models have no /, : and @, aliases letters, digits, _ and -",
                        fact_model_name_is_good(name) ? alias : name);
    }
    code = code == CLI_DONE ? target_begin(cli, "model_register", &target, target.has_step ? 2 : 1, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client.request, "name");
    pack_text(&client.request, name);
    if (target.has_step) {
        pack_text(&client.request, "step");
        pack_u64(&client.request, target.step);
    }
    code = change(&client, &reply);
    if (code == CLI_DONE) {
        version = document_number(&reply.document, "version");
        document_text(&reply.document, "version_id", version_id, sizeof version_id);
    }
    if (code == CLI_DONE && !cli->json) {
        (void)fprintf(cli->out, "%s/%llu\n", name, (unsigned long long)version);
    }
    client_close(&client);
    if (code == CLI_DONE) {
        wait_until_seen(cli, name, version_id);
    }
    return code == CLI_DONE && alias != NULL ? set_alias(cli, name, alias, version) : code;
}

/* ---- one version ------------------------------------------------------------------------------------------------- */

/* "MODEL", "MODEL@ALIAS" or "MODEL/VERSION". */
struct wanted {
    char name[FACT_MODEL_NAME_BYTES], alias[FACT_MODEL_NAME_BYTES];
    uint64_t version; /* 0: none */
};

static int read_wanted(struct cli *cli, const char *text, struct wanted *out)
{
    size_t bytes = strcspn(text, "@/");
    *out = (struct wanted){.version = 0};
    if (bytes >= sizeof out->name || strlen(text) >= 2 * sizeof out->name) {
        return cli_fail(cli, CLI_USAGE, "'%.80s...' is longer than any name", text);
    }
    memcpy(out->name, text, bytes);
    if (text[bytes] == '@') {
        (void)snprintf(out->alias, sizeof out->alias, "%s", text + bytes + 1);
    }
    return text[bytes] == '/' ? read_version(cli, text + bytes + 1, &out->version) : CLI_DONE;
}

/* The version that is meant; NULL: there is none. */
static const msgpack_object *find_version(msgpack_object_array list, const struct wanted *wanted)
{
    uint64_t number = wanted->version;
    for (uint32_t i = 0; i < list.size && wanted->alias[0] != '\0'; i++) {
        char alias[FACT_MODEL_NAME_BYTES];
        document_text(&list.ptr[i], "name", alias, sizeof alias);
        bool is_it = is_kind(&list.ptr[i], "alias", wanted->name) && strcmp(alias, wanted->alias) == 0;
        number = is_it ? document_number(&list.ptr[i], "version") : number;
    }
    if (number == 0) {
        return wanted->alias[0] == '\0' ? newest_of(list, wanted->name) : NULL;
    }
    for (uint32_t i = 0; i < list.size; i++) {
        if (is_kind(&list.ptr[i], "version", wanted->name) && document_number(&list.ptr[i], "version") == number) {
            return &list.ptr[i];
        }
    }
    return NULL;
}

/* What a version is. */
struct found {
    struct target target;
    char checkpoint[80], path[FACT_MODEL_SOURCE_BYTES];
};

static int look_up(struct cli *cli, const struct wanted *wanted, struct found *out)
{
    struct client client;
    struct reply reply;
    *out = (struct found){.target = {.has_trial = true}};
    int code = begin(cli, &client, "models", wanted->name, 0);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    const msgpack_object *item = code == CLI_DONE ? find_version(document_list(&reply.document, "registry"), wanted) : NULL;
    if (code == CLI_DONE && item == NULL) {
        code = cli_fail(cli, CLI_NO_SUCH_THING, "%.200s has no such version; shoal model ls %.200s lists versions and aliases", wanted->name,
                        wanted->name);
    }
    if (item != NULL) {
        document_text(item, "experiment", out->target.experiment, sizeof out->target.experiment);
        document_text(item, "checkpoint", out->checkpoint, sizeof out->checkpoint);
        document_text(item, "path", out->path, sizeof out->path);
        out->target.trial = document_number(item, "trial");
        out->target.step = document_number(item, "step");
        out->target.has_step = out->checkpoint[0] != '\0';
    }
    client_close(&client);
    return code;
}

int command_model_get(struct cli *cli, const struct arguments *arguments)
{
    struct wanted wanted;
    struct found found;
    char operand[TARGET_BYTES + 32];
    int code = read_wanted(cli, arguments->operands[0], &wanted);
    if (code == CLI_DONE) {
        code = look_up(cli, &wanted, &found);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (found.checkpoint[0] != '\0') {
        return target_get_checkpoint(cli, &found.target, found.checkpoint, options_has(arguments, "unpack"), arguments->operands[1]);
    }
    (void)snprintf(operand, sizeof operand, "%s/%llu", found.target.experiment, (unsigned long long)found.target.trial);
    struct arguments files = *arguments;
    files.operands[0] = operand;
    files.operands[2] = arguments->operands[1];
    files.operands[1] = found.path;
    files.operand_count = 3;
    return command_output_get(cli, &files);
}

int command_model_rm(struct cli *cli, const struct arguments *arguments)
{
    struct wanted wanted;
    struct client client;
    struct reply reply;
    int code = read_wanted(cli, arguments->operands[0], &wanted);
    if (code == CLI_DONE && wanted.alias[0] != '\0') {
        return cli_fail(cli, CLI_USAGE, "give the number of the version; shoal model unalias %.80s %.80s takes the alias back", wanted.name,
                        wanted.alias);
    }
    if (code == CLI_DONE && cli->in_is_terminal && !options_has(arguments, "yes")) {
        (void)fprintf(cli->err, "Remove %s%s? [y/N] ", arguments->operands[0], wanted.version == 0 ? " with all of its versions" : "");
        if (!cli_hears_yes(cli)) {
            return cli_fail(cli, CLI_REFUSED, "nothing is removed");
        }
    }
    code = code == CLI_DONE ? begin(cli, &client, "model_rm", wanted.name, wanted.version != 0) : code;
    if (code != CLI_DONE) {
        return code;
    }
    if (wanted.version != 0) {
        pack_text(&client.request, "version");
        pack_u64(&client.request, wanted.version);
    }
    code = change(&client, &reply);
    if (code == CLI_DONE && !cli->json) {
        (void)fprintf(cli->out, "%s is removed\n", arguments->operands[0]);
    }
    client_close(&client);
    return code;
}
