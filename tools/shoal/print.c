#include "tools/shoal/print.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "tools/shoal/document.h"

#define METRIC_COLUMNS_MAX 5
#define TRIALS_MAX 100000
#define TAIL_LINES_SHOWN 20 /* of each failed trial, where several have failed */

int print_reply(struct client *client, print_fn *render)
{
    struct reply reply;
    struct cli *cli = client->cli;
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && !cli->json) {
        render(cli, &reply.document);
    } else if (code == CLI_DONE && !document_write_reply_json(cli->out, &reply.document)) {
        code = cli_fail(cli, CLI_REFUSED, "the daemon's answer cannot be written as JSON");
    }
    return code;
}

int print_simple(struct cli *cli, const char *op, print_fn *render)
{
    struct client client;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(&client, op, 0);
    code = print_reply(&client, render);
    client_close(&client);
    return code;
}

void print_cell_text(struct table *table, const msgpack_object *item, const char *key)
{
    char text[256] = "";
    if (document_has(item, key)) {
        document_value(document_find(item, key), text, sizeof text);
    }
    table_cell(table, RENDER_PLAIN, "%s", text[0] == '\0' ? "-" : text);
}

void print_nodes(const msgpack_object *document, char out[PRINT_SUMMARY_BYTES])
{
    unsigned long long drained = document_number(document, "nodes_drained");
    int used = snprintf(out, PRINT_SUMMARY_BYTES, "%llu of %llu alive",
                        (unsigned long long)document_number(document, "nodes_alive"),
                        (unsigned long long)document_number(document, "nodes"));
    if (drained > 0 && used > 0) {
        (void)snprintf(out + used, PRINT_SUMMARY_BYTES - (size_t)used, ", %llu drained", drained);
    }
}

void print_blocked(FILE *out, const msgpack_object *document, const char *before)
{
    msgpack_object_array list = document_list(document, "blocked");
    for (uint32_t i = 0; i < list.size; i++) {
        char text[512], since[RENDER_UNIT_BYTES];
        document_text(&list.ptr[i], "text", text, sizeof text);
        render_duration(since, document_number(&list.ptr[i], "since_s"));
        (void)fprintf(out, "%s%s; so for %s\n", before, text, since);
    }
}

void print_counts(const msgpack_object *counts, char out[PRINT_SUMMARY_BYTES])
{
    static const char *const states[] = {"running", "failed"};
    int used = snprintf(out, PRINT_SUMMARY_BYTES, "%llu of %llu completed",
                        (unsigned long long)document_number(counts, "completed"),
                        (unsigned long long)document_number(counts, "total"));
    for (size_t i = 0; i < 2; i++) {
        uint64_t count = document_number(counts, states[i]);
        if (count > 0 && used > 0 && used < PRINT_SUMMARY_BYTES) {
            used += snprintf(out + used, PRINT_SUMMARY_BYTES - (size_t)used, ", %llu %s", (unsigned long long)count,
                             states[i]);
        }
    }
}

void print_best(const msgpack_object *experiment, char out[PRINT_SUMMARY_BYTES])
{
    const msgpack_object *best = document_find(experiment, "best");
    double number;
    if (!document_double(document_find(best, "value"), &number)) {
        (void)snprintf(out, PRINT_SUMMARY_BYTES, "-");
        return;
    }
    char metric[64], text[RENDER_UNIT_BYTES];
    document_text(best, "metric", metric, sizeof metric);
    render_number(text, number);
    (void)snprintf(out, PRINT_SUMMARY_BYTES, "trial %llu (%s %s)", (unsigned long long)document_number(best, "trial"),
                   metric, text);
}

void print_coordinator(const msgpack_object *experiment, char out[PRINT_SUMMARY_BYTES])
{
    char text[PRINT_SUMMARY_BYTES];
    document_node(experiment, "coordinator_name", text, sizeof text);
    if (text[0] == '\0') {
        document_text(experiment, "coordinator", text, 9);
    }
    (void)snprintf(out, PRINT_SUMMARY_BYTES, "%s", text[0] == '\0' ? "-" : text);
}

void print_pairs(const msgpack_object *map, char *out, size_t size)
{
    msgpack_object_map pairs = document_pairs(map);
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < pairs.size && used < size; i++) {
        const msgpack_object *key = &pairs.ptr[i].key, *item = &pairs.ptr[i].val;
        char value[128];
        if (key->type != MSGPACK_OBJECT_STR) {
            continue;
        }
        if (item->type == MSGPACK_OBJECT_FLOAT32 || item->type == MSGPACK_OBJECT_FLOAT64) {
            (void)snprintf(value, sizeof value, "%.5g", item->via.f64);
        } else {
            document_value(item, value, sizeof value);
        }
        int written = snprintf(out + used, size - used, "%s%.*s=%s", used > 0 ? " " : "",
                               (int)(key->via.str.size > 64 ? 64 : key->via.str.size), key->via.str.ptr, value);
        used += written > 0 ? (size_t)written : 0;
    }
}

bool print_metric(const msgpack_object *trial, const char *group, const char *name, double *out)
{
    const msgpack_object *metrics = document_find(trial, "metrics");
    const msgpack_object *names = document_find(metrics, group);
    return document_double(document_find(names, name), out);
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

/* The columns of metrics: the searcher's metric first, then the rest in the order of the trials. */
struct metric_columns {
    size_t count;
    struct {
        char group[32], name[48], head[96];
    } items[METRIC_COLUMNS_MAX];
};

/* Screens are narrow. */
static const char *short_group(const char *group)
{
    return strcmp(group, "validation") == 0 ? "val" : strcmp(group, "training") == 0 ? "train" : group;
}

static void add_metric(struct metric_columns *columns, const char *group, const char *name)
{
    for (size_t i = 0; i < columns->count; i++) {
        if (strcmp(columns->items[i].group, group) == 0 && strcmp(columns->items[i].name, name) == 0) {
            return;
        }
    }
    if (columns->count < METRIC_COLUMNS_MAX && strlen(group) < 32 && strlen(name) < 48) {
        (void)snprintf(columns->items[columns->count].group, 32, "%s", group);
        (void)snprintf(columns->items[columns->count].name, 48, "%s", name);
        (void)snprintf(columns->items[columns->count].head, 96, "%s/%s", short_group(group), name);
        columns->count++;
    }
}

static void add_metrics_of(struct metric_columns *columns, const msgpack_object *trial)
{
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        char group[64], name[64]; /* keys of metrics come from programs of users */
        document_value(&groups.ptr[g].key, group, sizeof group);
        msgpack_object_map names = document_pairs(&groups.ptr[g].val);
        for (uint32_t n = 0; n < names.size; n++) {
            document_value(&names.ptr[n].key, name, sizeof name);
            add_metric(columns, group, name);
        }
    }
}

static void trial_slots(const msgpack_object *trial, char *out, size_t size)
{
    msgpack_object_array list = document_list(trial, "slots");
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < list.size && used < size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char name[128];
        document_node(item, "node_name", name, sizeof name);
        int written = snprintf(out + used, size - used, "%s%s:%llu", used > 0 ? " " : "", name,
                               (unsigned long long)document_number(item, "index"));
        used += written > 0 ? (size_t)written : 0;
    }
    if (out[0] == '\0') {
        (void)snprintf(out, size, "-");
    }
}

static void trial_checkpoint(const msgpack_object *trial, char *out, size_t size)
{
    const msgpack_object *checkpoint = document_find(trial, "checkpoint");
    if (!document_has(checkpoint, "step")) {
        (void)snprintf(out, size, "-");
        return;
    }
    (void)snprintf(out, size, "%llu x%u%s", (unsigned long long)document_number(checkpoint, "step"),
                   document_list(checkpoint, "holders").size, document_true(checkpoint, "durable") ? "" : "?");
}

static void trial_row(struct table *table, const struct metric_columns *columns, const msgpack_object *trial,
                      bool best)
{
    char text[256];
    table_cell(table, best ? RENDER_GREEN : RENDER_PLAIN, "%s%llu", best ? "*" : "",
               (unsigned long long)document_number(trial, "index"));
    document_text(trial, "state", text, sizeof text);
    table_cell(table, render_state_colour(text), "%s", text);
    print_cell_text(table, trial, "attempt");
    print_cell_text(table, trial, "restarts");
    print_cell_text(table, trial, "step");
    for (size_t i = 0; i < columns->count; i++) {
        double value;
        char number[RENDER_UNIT_BYTES] = "-";
        if (print_metric(trial, columns->items[i].group, columns->items[i].name, &value)) {
            render_number(number, value);
        }
        table_cell(table, best && i == 0 ? RENDER_GREEN : RENDER_PLAIN, "%s", number);
    }
    trial_checkpoint(trial, text, sizeof text);
    table_cell(table, RENDER_PLAIN, "%s", text);
    trial_slots(trial, text, sizeof text);
    table_cell(table, RENDER_PLAIN, "%s", text);
    print_pairs(document_find(trial, "hyperparameters"), text, sizeof text);
    table_cell(table, RENDER_DIM, "%s", text);
}

/* The order in which trials get rows where not all fit: running, failed, completed, the rest; by number within each. */
static int rank_of(const msgpack_object *trial)
{
    char state[32];
    document_text(trial, "state", state, sizeof state);
    return strcmp(state, "running") == 0     ? 0
           : strcmp(state, "failed") == 0    ? 1
           : strcmp(state, "completed") == 0 ? 2
                                             : 3;
}

static void choose_rows(msgpack_object_array trials, size_t row_max, bool *chosen)
{
    size_t left = row_max;
    for (int rank = 0; rank < 4; rank++) {
        for (uint32_t i = 0; i < trials.size && left > 0; i++) {
            if (rank_of(&trials.ptr[i]) == rank) {
                chosen[i] = true;
                left--;
            }
        }
    }
}

void print_trials(FILE *out, bool colours, const msgpack_object *experiment, size_t row_max)
{
    msgpack_object_array trials = document_list(experiment, "trials");
    bool *chosen = trials.size > 0 && trials.size <= TRIALS_MAX ? calloc(trials.size, sizeof *chosen) : NULL;
    if (chosen == NULL) {
        return;
    }
    struct metric_columns columns = {0};
    char metric[64];
    document_text(experiment, "metric", metric, sizeof metric);
    if (metric[0] != '\0') {
        add_metric(&columns, "validation", metric);
    }
    for (uint32_t i = 0; i < trials.size; i++) {
        add_metrics_of(&columns, &trials.ptr[i]);
    }
    struct table table = {0};
    table_column(&table, "TRIAL", true);
    table_column(&table, "STATE", false);
    table_column(&table, "ATTEMPT", true);
    table_column(&table, "RESTARTS", true);
    table_column(&table, "STEP", true);
    for (size_t i = 0; i < columns.count; i++) {
        table_column(&table, columns.items[i].head, true);
    }
    table_column(&table, "CHECKPOINT", false);
    table_column(&table, "SLOTS", false);
    table_column(&table, "HYPERPARAMETERS", false);
    choose_rows(trials, row_max == 0 ? trials.size : row_max, chosen);
    bool has_best = document_has(experiment, "best");
    const msgpack_object *best = document_find(experiment, "best");
    uint64_t best_trial = document_number(best, "trial");
    size_t shown = 0;
    for (uint32_t i = 0; i < trials.size; i++) {
        if (chosen[i]) {
            trial_row(&table, &columns, &trials.ptr[i], has_best && document_number(&trials.ptr[i], "index") == best_trial);
            shown++;
        }
    }
    table_write(&table, out, colours);
    if (shown < trials.size) {
        (void)fprintf(out, "... and %zu more\n", trials.size - shown);
    }
    free(chosen);
}

bool print_lacks(const msgpack_object *map, char out[PRINT_SUMMARY_BYTES])
{
    const msgpack_object *lacks = document_find(map, "lacks");
    if (lacks->type != MSGPACK_OBJECT_MAP) {
        return false;
    }
    char kind[16];
    unsigned long long slots = document_number(lacks, "slots");
    document_text(lacks, "kind", kind, sizeof kind);
    bool is_any = strcmp(kind, "any") == 0;
    (void)snprintf(out, PRINT_SUMMARY_BYTES,
                   "no trial can begin, for each needs %llu %s%sslot%s and all nodes together have %llu",
                   slots, is_any ? "" : kind, is_any ? "" : " ", slots == 1 ? "" : "s",
                   (unsigned long long)document_number(lacks, "present"));
    return true;
}

void print_experiment_head(FILE *out, bool colours, const msgpack_object *document)
{
    const msgpack_object *experiment = document_find(document, "experiment"), *counts = document_find(experiment, "counts");
    char name[128], id[32], state[32], text[PRINT_SUMMARY_BYTES];
    document_text(experiment, "name", name, sizeof name);
    document_text(experiment, "id", id, sizeof id);
    document_text(experiment, "state", state, sizeof state);
    render_text(out, colours, RENDER_BOLD, name);
    (void)fprintf(out, "  %s  ", id);
    render_text(out, colours, render_state_colour(state), state);
    print_coordinator(experiment, text);
    (void)fprintf(out, "  coordinator %s, term %llu\n", text, (unsigned long long)document_number(experiment, "term"));
    print_counts(counts, text);
    (void)fprintf(out, "trials: %s", text);
    print_best(experiment, text);
    (void)fprintf(out, "  best: %s", text);
    if (document_has(document, "nodes")) {
        print_nodes(document, text);
        (void)fprintf(out, "  nodes: %s", text);
    }
    (void)fputc('\n', out);
    if (print_lacks(experiment, text)) {
        render_text(out, colours, RENDER_YELLOW, text);
        (void)fputs("\n" PRINT_LACKS_ADVICE "\n", out);
    }
}

/* Lines of a program: control characters but tabs become '?'. */
static void write_lines(FILE *out, const char *text, size_t bytes)
{
    bool at_start = true;
    for (size_t i = 0; i < bytes; i++) {
        if (at_start) {
            (void)fputs("    ", out);
        }
        at_start = text[i] == '\n';
        unsigned char c = (unsigned char)text[i];
        (void)fputc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? '?' : c, out);
    }
    if (!at_start) {
        (void)fputc('\n', out);
    }
}

/* Where the last TAIL_LINES_SHOWN lines begin. */
static size_t last_lines(const char *text, size_t bytes)
{
    size_t from = bytes;
    for (uint32_t ends = 0; from > 0; from--) {
        ends += text[from - 1] == '\n' && from < bytes;
        if (ends == TAIL_LINES_SHOWN) {
            break;
        }
    }
    return from;
}

void print_tails(FILE *out, const msgpack_object *experiment)
{
    msgpack_object_array list = document_list(experiment, "trials");
    uint32_t tails = 0;
    for (uint32_t i = 0; i < list.size; i++) {
        tails += document_find(&list.ptr[i], "tail")->type == MSGPACK_OBJECT_STR;
    }
    bool is_only = tails <= 1; /* the whole text; of several trials some lines each, --json has all */
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        const msgpack_object *tail = document_find(item, "tail");
        char reason[1280], state[32];
        document_text(item, "reason", reason, sizeof reason);
        document_text(item, "state", state, sizeof state);
        msgpack_object_array notes = document_list(item, "notes");
        for (uint32_t k = 0; k < notes.size; k++) {
            char note[256];
            document_value_text(&notes.ptr[k], note, sizeof note);
            (void)fprintf(out, "\ntrial %llu: %s\n", (unsigned long long)document_number(item, "index"), note);
        }
        bool has_tail = tail->type == MSGPACK_OBJECT_STR && tail->via.str.size > 0;
        bool is_stuck = reason[0] != '\0' && (strcmp(state, "queued") == 0 || strcmp(state, "failed") == 0);
        if (has_tail || is_stuck) {
            (void)fprintf(out, "\ntrial %llu%s%s%s\n", (unsigned long long)document_number(item, "index"),
                          reason[0] != '\0' ? ": " : "", reason, has_tail ? ", the last lines of its log:" : "");
        }
        if (has_tail) {
            size_t from = is_only ? 0 : last_lines(tail->via.str.ptr, tail->via.str.size);
            write_lines(out, tail->via.str.ptr + from, tail->via.str.size - from);
        }
    }
}

#define CLOCK_APART_S 10
#define CLOCK_NONSENSE_S 1e13

bool print_clock(double ahead_s, char out[RENDER_UNIT_BYTES])
{
    double distance_s = ahead_s < 0 ? -ahead_s : ahead_s;
    if (!(distance_s >= CLOCK_APART_S && distance_s < CLOCK_NONSENSE_S)) {
        return false;
    }
    uint64_t apart_s = (uint64_t)distance_s;
    char apart[RENDER_UNIT_BYTES - 8], text[RENDER_UNIT_BYTES];
    render_duration(text, apart_s + (apart_s >= 86400 ? 1800 : apart_s >= 3600 ? 30 : 0)); /* to the nearest */
    (void)bytes_copy_text(apart, sizeof apart, text);
    (void)snprintf(out, RENDER_UNIT_BYTES, "%s %s", apart, ahead_s > 0 ? "ahead" : "behind");
    return true;
}
