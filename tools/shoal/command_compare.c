/* compare: what differs between experiments or trials, a column for each. */

#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "base/pack.h"
#include "tools/shoal/original.h"
#include "tools/shoal/platform.h"
#include "tools/shoal/print.h"
#include "tools/shoal/table_choice.h"
#include "tools/shoal/target.h"

#define KEY_BYTES 192
#define THINGS_MAX (TABLE_COLUMNS_MAX - 1)

/* One line of the comparison. */
struct row {
    char *key;
    char **values; /* [count of things]; NULL: this one has none */
};

struct comparison {
    char names[THINGS_MAX][128]; /* "mlp/3" */
    size_t count;                /* of things */
    struct row *rows;
    size_t row_count;
    bool failed; /* no memory */
};

/* ---- the rows ------------------------------------------------------------------------------------------------------------ */

static struct row *find_row(struct comparison *all, const char *key)
{
    for (size_t i = 0; i < all->row_count; i++) {
        if (strcmp(all->rows[i].key, key) == 0) {
            return &all->rows[i];
        }
    }
    struct row *bigger = realloc(all->rows, (all->row_count + 1) * sizeof *bigger);
    if (bigger == NULL) {
        all->failed = true;
        return NULL;
    }
    all->rows = bigger;
    struct row *row = &all->rows[all->row_count];
    *row = (struct row){.key = strdup(key), .values = calloc(THINGS_MAX, sizeof(char *))};
    if (row->key == NULL || row->values == NULL) {
        free(row->key);
        free(row->values);
        all->failed = true;
        return NULL;
    }
    all->row_count++;
    return row;
}

static void put(struct comparison *all, size_t thing, const char *key, const char *value)
{
    struct row *row = value[0] != '\0' ? find_row(all, key) : NULL;
    if (row != NULL && row->values[thing] == NULL) {
        row->values[thing] = strdup(value);
        all->failed |= row->values[thing] == NULL;
    }
}

static void free_all(struct comparison *all)
{
    for (size_t i = 0; i < all->row_count; i++) {
        for (size_t k = 0; k < THINGS_MAX; k++) {
            free(all->rows[i].values[k]);
        }
        free(all->rows[i].values);
        free(all->rows[i].key);
    }
    free(all->rows);
}

/* A value of a document as text: numbers in full. Texts are cut at the size. */
static void value_text(const msgpack_object *value, char *out, size_t size)
{
    double number;
    if ((value->type == MSGPACK_OBJECT_FLOAT32 || value->type == MSGPACK_OBJECT_FLOAT64) && document_double(value, &number)) {
        (void)snprintf(out, size, "%.9g", number);
    } else if (value->type != MSGPACK_OBJECT_NIL) {
        document_value(value, out, size);
    } else {
        out[0] = '\0';
    }
}

/* Each value of a map, and of the maps in it, as a row "PREFIX.KEY". Recursion is bounded by the document's depth. */
static void put_map(struct comparison *all, size_t thing, const char *prefix, const msgpack_object *map)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        char name[96], key[KEY_BYTES], value[512];
        document_value_text(&pairs.ptr[i].key, name, sizeof name);
        (void)snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", name);
        if (pairs.ptr[i].val.type == MSGPACK_OBJECT_MAP) {
            put_map(all, thing, key, &pairs.ptr[i].val);
        } else {
            value_text(&pairs.ptr[i].val, value, sizeof value);
            put(all, thing, key, value);
        }
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

/* The trial that stands for an experiment: the best one, else its only one. NULL: none. */
static const msgpack_object *choose_trial(const msgpack_object *experiment, const struct target *target)
{
    msgpack_object_array list = document_list(experiment, "trials");
    const msgpack_object *best = document_find(experiment, "best");
    uint64_t wanted = target->has_trial ? target->trial : document_number(best, "trial");
    bool has_one = target->has_trial || document_has(best, "trial") || list.size == 1;
    for (uint32_t i = 0; has_one && i < list.size; i++) {
        if (document_number(&list.ptr[i], "index") == wanted) {
            return &list.ptr[i];
        }
    }
    return NULL;
}

#define MODELS_MAX 8 /* of one trial; slots of further ones are not told */

/* The model of a slot of the trial; false: the mesh has the slot no more. `slots`: all of the mesh. */
static bool model_of(const msgpack_object *slot, msgpack_object_array slots, char model[64])
{
    char node[CLIENT_NODE_TEXT_BYTES], other[CLIENT_NODE_TEXT_BYTES];
    document_text(slot, "node", node, sizeof node);
    for (uint32_t i = 0; i < slots.size; i++) {
        document_text(&slots.ptr[i], "node", other, sizeof other);
        if (strcmp(node, other) == 0 && document_number(slot, "index") == document_number(&slots.ptr[i], "index")) {
            document_text(&slots.ptr[i], "model", model, 64);
            return true;
        }
    }
    return false;
}

/* "2 x RTX 3090, H100": the models of the slots that the trial has, or had last. */
static void models_text(const msgpack_object *trial, const msgpack_object *slots, char *out, size_t size)
{
    msgpack_object_array own = document_list(trial, "slots"), all = document_list(slots, "slots");
    char models[MODELS_MAX][64], model[64];
    uint32_t counts[MODELS_MAX], model_count = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < own.size; i++) {
        uint32_t at = 0;
        if (!model_of(&own.ptr[i], all, model)) {
            continue;
        }
        while (at < model_count && strcmp(models[at], model) != 0) {
            at++;
        }
        if (at < model_count) {
            counts[at]++;
        } else if (at < MODELS_MAX) {
            memcpy(models[at], model, sizeof model);
            counts[at] = 1;
            model_count++;
        }
    }
    out[0] = '\0';
    for (uint32_t at = 0; at < model_count && used < size; at++) {
        char times[16] = "";
        if (counts[at] > 1) {
            (void)snprintf(times, sizeof times, "%u x ", counts[at]);
        }
        int written = snprintf(out + used, size - used, "%s%s%s", at > 0 ? ", " : "", times, models[at]);
        used += written > 0 ? (size_t)written : 0;
    }
}

static int ask(struct client *client, const char *op, const char *id, struct reply *reply)
{
    client_begin(client, op, id != NULL);
    if (id != NULL) {
        pack_text(&client->request, "experiment");
        pack_text(&client->request, id);
    }
    return client_ask(client, CLIENT_ANSWER_MS, reply);
}

/* The hyperparameters first, then what came of them. */
static int read_show(struct client *client, const struct target *target, const char *id, const msgpack_object *slots,
                     struct comparison *all, size_t thing)
{
    struct reply reply;
    char text[512];
    int code = ask(client, "show", id, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    const msgpack_object *experiment = document_find(&reply.document, "experiment"), *trial = choose_trial(experiment, target);
    if (target->has_trial && trial == NULL) {
        return cli_fail(client->cli, CLI_NO_SUCH_THING, "%.80s has no trial %llu; shoal show %.80s lists them", target->experiment,
                        (unsigned long long)target->trial, target->experiment);
    }
    document_text(experiment, "name", text, sizeof text);
    (void)snprintf(all->names[thing], sizeof all->names[0], trial != NULL ? "%.100s/%llu" : "%.100s", text,
                   (unsigned long long)document_number(trial != NULL ? trial : experiment, "index"));
    put_map(all, thing, "hyperparameters", document_find(trial != NULL ? trial : experiment, "hyperparameters"));
    print_labels(document_find(experiment, "labels"), text, sizeof text);
    put(all, thing, "labels", text);
    document_text(trial != NULL ? trial : experiment, "state", text, sizeof text);
    put(all, thing, "state", text);
    if (trial != NULL) {
        put_map(all, thing, "", document_find(trial, "metrics"));
        value_text(document_find(trial, "step"), text, sizeof text);
        put(all, thing, "step", text);
        value_text(document_find(trial, "restarts"), text, sizeof text);
        put(all, thing, "restarts", text);
        models_text(trial, slots, text, sizeof text);
        put(all, thing, "slots", text);
    }
    value_text(document_find(document_find(experiment, "best"), "value"), text, sizeof text);
    put(all, thing, "best of the experiment", text);
    if (document_number(experiment, "submitted_s") > 0) {
        render_time(text, 1000 * document_number(experiment, "submitted_s"));
        put(all, thing, "submitted", text);
    }
    return CLI_DONE;
}

/* What it ran on. Each package is a row of its own, so that those that differ are shown. */
static int read_platform(struct client *client, const char *id, struct comparison *all, size_t thing)
{
    struct platform platform;
    const char *slash = strrchr(all->names[thing], '/');
    if (slash == NULL) {
        return CLI_DONE; /* no trial stands for the experiment */
    }
    int code = platform_read(client, id, strtoull(slash + 1, NULL, 10), &platform);
    if (code != CLI_DONE) {
        return code;
    }
    char *at = platform.packages, *name, *version;
    put(all, thing, "python", platform.python);
    put(all, thing, "packages", platform.hash);
    while (platform_next(&at, &name, &version)) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof key, "package %.150s", name);
        put(all, thing, key, version);
    }
    put(all, thing, "slot of rank 0", platform.model);
    put(all, thing, "driver", platform.driver);
    put(all, thing, "system", platform.system);
    put(all, thing, "run by Shoal", platform.shoal);
    platform_free(&platform);
    return CLI_DONE;
}

/* What it was made from. */
static int read_origin(struct client *client, const char *id, struct comparison *all, size_t thing)
{
    struct original original;
    int code = original_read(client, id, &original);
    if (code == CLI_DONE) {
        put(all, thing, "commit", original.origin.commit);
        put(all, thing, "changes", original.origin.diff);
        put(all, thing, "version", original.origin.version);
    }
    original_free(&original);
    return code;
}

static int read_config(struct client *client, const char *id, struct comparison *all, size_t thing)
{
    struct reply reply;
    int code = ask(client, "config", id, &reply);
    if (code == CLI_DONE) {
        put_map(all, thing, "", document_find(&reply.document, "config"));
    }
    return code;
}

/* Columns of different experiments with one name get the beginning of their experiment's id: "mlp/0 (4fc1698c)". */
static void tell_apart(struct comparison *all, char ids[][CLIENT_EXPERIMENT_TEXT_BYTES])
{
    bool is_double[THINGS_MAX] = {false};
    for (size_t i = 0; i < all->count; i++) {
        for (size_t k = 0; k < all->count; k++) {
            is_double[i] |= strcmp(all->names[i], all->names[k]) == 0 && strcmp(ids[i], ids[k]) != 0;
        }
    }
    for (size_t i = 0; i < all->count; i++) {
        size_t used = strlen(all->names[i]);
        if (is_double[i]) {
            (void)snprintf(all->names[i] + used, sizeof all->names[i] - used, " (%.8s)", ids[i]);
        }
    }
}

static int read_all(struct cli *cli, const struct arguments *arguments, struct comparison *all)
{
    struct client client;
    struct reply slots;
    struct target targets[THINGS_MAX];
    char ids[THINGS_MAX][CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = CLI_DONE;
    for (size_t i = 0; i < all->count && code == CLI_DONE; i++) {
        code = target_read(cli, arguments->operands[i], false, false, &targets[i]);
    }
    code = code == CLI_DONE ? client_open(cli, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    for (size_t i = 0; i < all->count && code == CLI_DONE; i++) {
        code = client_find_experiment(&client, targets[i].experiment, ids[i]);
    }
    code = code == CLI_DONE ? ask(&client, "slots", NULL, &slots) : code;
    msgpack_zone *zone = code == CLI_DONE ? client_keep(&client) : NULL; /* beyond the next requests */
    for (size_t i = 0; i < all->count && code == CLI_DONE && zone != NULL; i++) {
        code = read_show(&client, &targets[i], ids[i], &slots.document, all, i);
    }
    for (size_t i = 0; i < all->count && code == CLI_DONE && zone != NULL; i++) {
        code = read_config(&client, ids[i], all, i);
        code = code == CLI_DONE ? read_origin(&client, ids[i], all, i) : code;
        code = code == CLI_DONE ? read_platform(&client, ids[i], all, i) : code;
    }
    if (code == CLI_DONE && (zone == NULL || all->failed)) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    } else if (code == CLI_DONE) {
        tell_apart(all, ids);
    }
    msgpack_zone_free(zone);
    client_close(&client);
    return code;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static bool differs(const struct comparison *all, const struct row *row)
{
    for (size_t i = 1; i < all->count; i++) {
        const char *a = row->values[0], *b = row->values[i];
        if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0)) {
            return true;
        }
    }
    return false;
}

static bool is_shown(const struct comparison *all, const struct row *row, bool has_equal)
{
    return has_equal || differs(all, row);
}

static void write_csv(FILE *out, const struct comparison *all, bool has_equal)
{
    choice_write_csv(out, "key", all->count == 0);
    for (size_t i = 0; i < all->count; i++) {
        choice_write_csv(out, all->names[i], i + 1 == all->count);
    }
    for (size_t r = 0; r < all->row_count; r++) {
        if (is_shown(all, &all->rows[r], has_equal)) {
            choice_write_csv(out, all->rows[r].key, false);
            for (size_t i = 0; i < all->count; i++) {
                const char *value = all->rows[r].values[i];
                choice_write_csv(out, value != NULL ? value : "", i + 1 == all->count);
            }
        }
    }
}

static void write_json(struct cli *cli, const struct comparison *all, bool has_equal)
{
    size_t size = 65536 + all->row_count * (KEY_BYTES + 64 + all->count * 520);
    uint8_t *bytes = malloc(size);
    uint32_t shown = 0;
    if (bytes == NULL) {
        (void)cli_fail(cli, CLI_REFUSED, "no memory is left");
        return;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, size);
    for (size_t r = 0; r < all->row_count; r++) {
        shown += is_shown(all, &all->rows[r], has_equal);
    }
    pack_map(&writer, 2);
    pack_text(&writer, "compared");
    pack_array(&writer, (uint32_t)all->count);
    for (size_t i = 0; i < all->count; i++) {
        pack_text(&writer, all->names[i]);
    }
    pack_text(&writer, "rows");
    pack_array(&writer, shown);
    for (size_t r = 0; r < all->row_count; r++) {
        if (!is_shown(all, &all->rows[r], has_equal)) {
            continue;
        }
        pack_map(&writer, 3);
        pack_text(&writer, "key");
        pack_text(&writer, all->rows[r].key);
        pack_text(&writer, "differs");
        pack_bool(&writer, differs(all, &all->rows[r]));
        pack_text(&writer, "values");
        pack_array(&writer, (uint32_t)all->count);
        for (size_t i = 0; i < all->count; i++) {
            if (all->rows[r].values[i] != NULL) {
                pack_text(&writer, all->rows[r].values[i]);
            } else {
                pack_nil(&writer);
            }
        }
    }
    (void)document_write_packed_json(cli->out, bytes, writer.used_bytes);
    free(bytes);
}

static void write_table(struct cli *cli, const struct comparison *all, bool has_equal)
{
    struct table table = {0};
    size_t screen_columns = SIZE_MAX, lines, shown = 0;
    if (cli->out_is_terminal) {
        render_terminal_size(cli->out, &screen_columns, &lines);
    }
    table_column(&table, "", false);
    for (size_t i = 0; i < all->count; i++) {
        table_column(&table, all->names[i], false);
    }
    for (size_t r = 0; r < all->row_count; r++) {
        if (!is_shown(all, &all->rows[r], has_equal)) {
            continue;
        }
        shown++;
        table_cell(&table, RENDER_PLAIN, "%s", all->rows[r].key);
        for (size_t i = 0; i < all->count; i++) {
            const char *value = all->rows[r].values[i];
            table_cell(&table, RENDER_PLAIN, "%s", value != NULL ? value : "-");
        }
    }
    table_fit(&table, screen_columns, UINT32_MAX);
    if (shown > 0) {
        table_write(&table, cli->out, cli->colours);
    } else {
        table_free(&table);
        (void)fputs("nothing differs; --all shows what is equal\n", cli->out);
    }
}

int command_compare(struct cli *cli, const struct arguments *arguments)
{
    static struct comparison all;
    bool has_equal = options_has(arguments, "all");
    all = (struct comparison){.count = arguments->operand_count};
    if (arguments->operand_count > THINGS_MAX) {
        return cli_fail(cli, CLI_USAGE, "at most %d experiments or trials can be compared at once", THINGS_MAX);
    }
    int code = read_all(cli, arguments, &all);
    if (code == CLI_DONE && cli->json) {
        write_json(cli, &all, has_equal);
    } else if (code == CLI_DONE && options_has(arguments, "csv")) {
        write_csv(cli->out, &all, has_equal);
    } else if (code == CLI_DONE) {
        write_table(cli, &all, has_equal);
    }
    free_all(&all);
    return code;
}
