#include "tools/shoal/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/units.h"
#include "base/visible.h"

#define NAME_BYTES 65 /* of a metric or hyperparameter, with the NUL */
#define NAME_VISIBLE_BYTES (4 * NAME_BYTES)
#define WAITING_TEXT_BYTES 640
#define WAITING_EXPERIMENTS_SHOWN 8
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

void print_policy(FILE *out, const char *label, const msgpack_object *policy)
{
    char why[32], hours[512], since[RENDER_UNIT_BYTES], until[RENDER_UNIT_BYTES], back[UNITS_BYTES];
    document_text(policy, "why", why, sizeof why);
    document_text(policy, "hours", hours, sizeof hours);
    render_time(since, document_number(policy, "since_s") * 1000);
    render_time(until, document_number(policy, "until_s") * 1000);
    units_write_time(back, document_number(policy, "back_after_s"));
    if (strcmp(why, "hours") == 0) {
        (void)fprintf(out, "%s is its owner's until %s: these are its hours (%s)\n", label, until, hours);
    } else if (strcmp(why, "load") == 0) {
        (void)fprintf(out, "%s is its owner's since %s: other processes use %llu%% of its processors or more, or did less than %s ago\n",
                      label, since, (unsigned long long)document_number(policy, "load_percent"), back);
    } else if (strcmp(why, "activity") == 0) {
        (void)fprintf(out, "%s is its owner's since %s: its keyboard, mouse or a terminal is used, or was less than %s ago\n", label, since,
                      back);
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
    static const char *const states[] = {"running", "failed", "stopped", "paused", "cancelled"};
    int used = snprintf(out, PRINT_SUMMARY_BYTES, "%llu of %llu completed",
                        (unsigned long long)document_number(counts, "completed"),
                        (unsigned long long)document_number(counts, "total"));
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
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

void print_named(char out[PRINT_NAMED_BYTES], const char *typed, const char *id)
{
    bool is_id = strncasecmp(typed, id, strlen(typed)) == 0; /* or the beginning of the id, or nothing was typed */
    (void)snprintf(out, PRINT_NAMED_BYTES, is_id ? "%.0s%s" : "%.128s (%s)", typed, id);
}

/* Copies a key as it is, for a look-up; cut at `size`. Keys of metrics come from programs of users: what is printed goes through
 * visible_text. */
static void copy_name(const msgpack_object *key, char *out, size_t size)
{
    size_t bytes = key->type == MSGPACK_OBJECT_STR ? key->via.str.size : 0;
    bytes = bytes < size ? bytes : size - 1;
    memcpy(out, bytes > 0 ? key->via.str.ptr : "", bytes);
    out[bytes] = '\0';
}

void print_pairs(const msgpack_object *map, char *out, size_t size)
{
    msgpack_object_map pairs = document_pairs(map);
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < pairs.size && used < size; i++) {
        const msgpack_object *key = &pairs.ptr[i].key, *item = &pairs.ptr[i].val;
        char value[128], name[NAME_BYTES], visible[NAME_VISIBLE_BYTES];
        if (key->type != MSGPACK_OBJECT_STR) {
            continue;
        }
        if (item->type == MSGPACK_OBJECT_FLOAT32 || item->type == MSGPACK_OBJECT_FLOAT64) {
            (void)snprintf(value, sizeof value, "%.5g", item->via.f64);
        } else {
            document_value(item, value, sizeof value);
        }
        copy_name(key, name, sizeof name);
        (void)visible_text(visible, sizeof visible, name);
        int written = snprintf(out + used, size - used, "%s%s=%s", used > 0 ? " " : "", visible, value);
        used += written > 0 ? (size_t)written : 0;
    }
}

void print_labels(const msgpack_object *labels, char *out, size_t size)
{
    msgpack_object_map pairs = document_pairs(labels);
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < pairs.size && used < size; i++) {
        char name[128], value[256];
        document_value_text(&pairs.ptr[i].key, name, sizeof name);
        document_value_text(&pairs.ptr[i].val, value, sizeof value);
        int written = snprintf(out + used, size - used, "%s%s%s%s", used > 0 ? " " : "", name, value[0] != '\0' ? "=" : "", value);
        used += written > 0 ? (size_t)written : 0;
    }
}

bool print_metric(const msgpack_object *trial, const char *group, const char *name, double *out)
{
    const msgpack_object *metrics = document_find(trial, "metrics");
    const msgpack_object *names = document_find(metrics, group);
    return document_double(document_find(names, name), out);
}

void print_untold_webhooks(struct cli *cli, const msgpack_object *document)
{
    if (document_has(document, "tells_webhooks") && !document_true(document, "tells_webhooks")) {
        cli_warn(cli, "this node tells no webhooks, since it was built without libcurl (it has no program shoal-webhook); other nodes tell "
                      "them if they can");
    }
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

bool print_trouble(const msgpack_object *document, char out[PRINT_TROUBLE_BYTES])
{
    document_text(document, "trouble", out, PRINT_TROUBLE_BYTES);
    return out[0] != '\0';
}

int print_halted(struct cli *cli, const msgpack_object *document)
{
    char trouble[PRINT_TROUBLE_BYTES];
    if (!document_true(document, "halted")) {
        return CLI_DONE;
    }
    (void)print_trouble(document, trouble);
    return cli_fail(cli, CLI_REFUSED, "the search goes no further: %s", trouble);
}

void print_waiting(FILE *out, const struct trials_style *style, size_t lines_max, const msgpack_object *experiment)
{
    msgpack_object_array list = document_list(experiment, "waiting");
    if (document_find(experiment, "lacks")->type == MSGPACK_OBJECT_MAP) {
        return;
    }
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *row = &list.ptr[i];
        unsigned long long first = document_number(row, "first"), last = document_number(row, "last"), count = document_number(row, "count");
        char reason[WAITING_TEXT_BYTES], line[WAITING_TEXT_BYTES + 96], trials[80];
        document_text(row, "reason", reason, sizeof reason);
        if (count <= 1) {
            (void)snprintf(trials, sizeof trials, "trial %llu waits", first);
        } else if (last - first + 1 == count) {
            (void)snprintf(trials, sizeof trials, "trials %llu to %llu wait", first, last);
        } else {
            (void)snprintf(trials, sizeof trials, "%llu of the trials %llu to %llu wait", count, first, last);
        }
        (void)snprintf(line, sizeof line, "%s: %s", trials, reason);
        render_wrapped(out, style->colours, RENDER_YELLOW, line, style->width, lines_max);
    }
}

void print_waiting_experiments(FILE *out, msgpack_object_array list, const char *key, const char *before)
{
    uint32_t shown = 0, left_out = 0;
    for (uint32_t i = 0; i < list.size; i++) {
        char name[128], reason[WAITING_TEXT_BYTES];
        document_text(&list.ptr[i], "name", name, sizeof name);
        document_text(&list.ptr[i], key, reason, sizeof reason);
        if (reason[0] == '\0') {
            continue;
        }
        if (shown == WAITING_EXPERIMENTS_SHOWN) {
            left_out++;
            continue;
        }
        shown++;
        (void)fprintf(out, "%s%s waits: %s\n", before, name, reason);
    }
    if (left_out > 0) {
        (void)fprintf(out, "%s%u more experiments wait\n", before, left_out);
    }
}

/* What users have noted, a line each. */
static void print_notes(FILE *out, const msgpack_object *experiment)
{
    char labels[512], description[PRINT_SUMMARY_BYTES], user[128];
    print_labels(document_find(experiment, "labels"), labels, sizeof labels);
    document_text(experiment, "description", description, sizeof description);
    document_text(experiment, "user", user, sizeof user);
    if (user[0] != '\0') {
        (void)fprintf(out, "submitted by %s\n", user);
    }
    if (description[0] != '\0') {
        (void)fprintf(out, "%s\n", description);
    }
    if (labels[0] != '\0') {
        (void)fprintf(out, "labels: %s\n", labels);
    }
    if (document_true(experiment, "pinned") || document_true(experiment, "archived")) {
        (void)fprintf(out, "%s%s%s\n", document_true(experiment, "pinned") ? "pinned" : "",
                      document_true(experiment, "pinned") && document_true(experiment, "archived") ? ", " : "",
                      document_true(experiment, "archived") ? "archived" : "");
    }
}

/* Writes one more part of a line, or of the next line where the terminal is too narrow. */
static void write_more(FILE *out, const struct trials_style *style, size_t *used, const char *part)
{
    size_t width = render_width(part);
    bool fits = style->width == 0 || *used + 2 + width <= style->width;
    (void)fprintf(out, "%s%s", fits ? "  " : "\n", part);
    *used = fits ? *used + 2 + width : width;
}

void print_experiment_head(FILE *out, const struct trials_style *style, const msgpack_object *document)
{
    const msgpack_object *experiment = document_find(document, "experiment"), *counts = document_find(experiment, "counts");
    char whole[128], name[128], id[32], state[32], text[PRINT_SUMMARY_BYTES], part[PRINT_SUMMARY_BYTES + 64];
    bool colours = style->colours;
    document_text(experiment, "name", whole, sizeof whole);
    trials_cut(whole, style->width > 0 ? style->width / 2 : 0, style->utf8, name, sizeof name);
    document_text(experiment, "id", id, sizeof id);
    document_text(experiment, "state", state, sizeof state);
    render_text(out, colours, RENDER_BOLD, name);
    (void)fprintf(out, "  %s  ", id);
    render_text(out, colours, render_state_colour(state), state);
    size_t used = render_width(name) + strlen(id) + strlen(state) + 4;
    print_coordinator(experiment, text);
    (void)snprintf(part, sizeof part, "coordinator %s, term %llu", text, (unsigned long long)document_number(experiment, "term"));
    write_more(out, style, &used, part);
    (void)fputc('\n', out);
    print_counts(counts, text);
    (void)fprintf(out, "trials: %s", text);
    used = strlen("trials: ") + strlen(text);
    print_best(experiment, text);
    (void)snprintf(part, sizeof part, "best: %s", text);
    write_more(out, style, &used, part);
    if (document_has(document, "nodes")) {
        print_nodes(document, text);
        (void)snprintf(part, sizeof part, "nodes: %s", text);
        write_more(out, style, &used, part);
    }
    (void)fputc('\n', out);
    print_notes(out, experiment);
    if (print_lacks(experiment, text)) {
        render_text(out, colours, RENDER_YELLOW, text);
        (void)fputs("\n" PRINT_LACKS_ADVICE "\n", out);
    }
}

#define REPORTED_MAX 6

/* The metrics that any trial has reported, each once, up to REPORTED_MAX. */
struct reported {
    size_t count;
    struct {
        char group[NAME_BYTES], name[NAME_BYTES];
    } items[REPORTED_MAX];
};

static void note_reported(struct reported *reported, const char *group, const char *name)
{
    bool is_known = reported->count == REPORTED_MAX;
    for (size_t i = 0; i < reported->count; i++) {
        is_known |= strcmp(reported->items[i].group, group) == 0 && strcmp(reported->items[i].name, name) == 0;
    }
    if (!is_known) {
        (void)bytes_copy_text(reported->items[reported->count].group, NAME_BYTES, group);
        (void)bytes_copy_text(reported->items[reported->count++].name, NAME_BYTES, name);
    }
}

/* True if the trial has reported the metric; else notes what it has reported. */
static bool has_reported(const msgpack_object *trial, const char *metric, struct reported *reported)
{
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        char group[NAME_BYTES], name[NAME_BYTES];
        copy_name(&groups.ptr[g].key, group, sizeof group);
        msgpack_object_map names = document_pairs(&groups.ptr[g].val);
        for (uint32_t n = 0; n < names.size; n++) {
            copy_name(&names.ptr[n].key, name, sizeof name);
            if (strcmp(group, "validation") == 0 && strcmp(name, metric) == 0) {
                return true;
            }
            note_reported(reported, group, name);
        }
    }
    return false;
}

void print_no_best(FILE *out, const msgpack_object *experiment)
{
    struct reported reported = {0};
    char metric[NAME_BYTES], text[NAME_VISIBLE_BYTES], list[REPORTED_MAX * (2 * NAME_VISIBLE_BYTES + 4)];
    msgpack_object_array trials = document_list(experiment, "trials");
    copy_name(document_find(experiment, "metric"), metric, sizeof metric);
    if (metric[0] == '\0' || document_has(experiment, "best") || document_number(document_find(experiment, "counts"), "completed") == 0) {
        return;
    }
    uint32_t infinite = 0; /* trials whose metric is nan or infinite */
    for (uint32_t i = 0; i < trials.size; i++) {
        double value;
        bool is_infinite = print_metric(&trials.ptr[i], "validation", metric, &value) && !isfinite(value);
        if (has_reported(&trials.ptr[i], metric, &reported) && !is_infinite) {
            return; /* of a trial that failed, perhaps */
        }
        infinite += is_infinite;
    }
    if (infinite > 0) {
        (void)visible_text(text, sizeof text, metric);
        (void)fprintf(out, "no trial can be the best: the last %s of each trial that reported it is no finite number\n", text);
        return;
    }
    if (reported.count == 0 && trials.size <= 1) {
        return;
    }
    size_t used = 0;
    bool is_elsewhere = false; /* reported, but in another group */
    for (size_t i = 0; i < reported.count; i++) {
        is_elsewhere |= strcmp(reported.items[i].name, metric) == 0;
        (void)visible_text(text, sizeof text, reported.items[i].group);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s/", i > 0 ? ", " : "", text);
        (void)visible_text(text, sizeof text, reported.items[i].name);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s", text);
    }
    (void)visible_text(text, sizeof text, metric);
    (void)fprintf(out, "no trial has reported %s in group validation%s%s%s\n", text,
                  reported.count > 0 ? "; reported are: " : ", nor any other metric", reported.count > 0 ? list : "",
                  is_elsewhere ? "; run.report(..., group=\"validation\") reports what trials are compared by" : "");
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

/* Copies the reason why attempt `number` of the trial ended; "" if the document does not have it. */
static void reason_of(const msgpack_object *trial, uint64_t number, char *out, size_t size)
{
    msgpack_object_array list = document_list(trial, "attempts");
    out[0] = '\0';
    for (uint32_t i = 0; i < list.size; i++) {
        if (document_number(&list.ptr[i], "attempt") == number) {
            document_text(&list.ptr[i], "reason", out, size);
        }
    }
}

/* True if print_tail has something to write about the trial, or the trial has notes. */
static bool tells_more(const msgpack_object *trial)
{
    char state[32];
    const msgpack_object *tail = document_find(trial, "tail");
    document_text(trial, "state", state, sizeof state);
    bool is_stuck = document_has(trial, "reason") && (strcmp(state, "queued") == 0 || strcmp(state, "failed") == 0);
    return is_stuck || (tail->type == MSGPACK_OBJECT_STR && tail->via.str.size > 0) || document_list(trial, "notes").size > 0;
}

/* Writes why the trial waits or failed, and the last lines of the attempt that failed last, which may be an earlier one. */
static void print_tail(FILE *out, const msgpack_object *trial, bool is_only)
{
    const msgpack_object *tail = document_find(trial, "tail");
    unsigned long long index = document_number(trial, "index"), of = document_number(trial, "tail_attempt");
    char reason[1280], state[32];
    document_text(trial, "reason", reason, sizeof reason);
    document_text(trial, "state", state, sizeof state);
    bool has_tail = tail->type == MSGPACK_OBJECT_STR && tail->via.str.size > 0;
    bool is_earlier = has_tail && of != 0 && of != document_number(trial, "attempt");
    bool is_stuck = reason[0] != '\0' && (strcmp(state, "queued") == 0 || strcmp(state, "failed") == 0);
    if (is_stuck || (has_tail && !is_earlier)) {
        (void)fprintf(out, "\ntrial %llu%s%s%s\n", index, reason[0] != '\0' ? ": " : "", reason,
                      has_tail && !is_earlier ? ", the last lines of its log:" : "");
    }
    if (is_earlier) {
        reason_of(trial, of, reason, sizeof reason);
        (void)fprintf(out, "\ntrial %llu: %s%sthe last lines of attempt %llu's log:\n", index, reason, reason[0] != '\0' ? ", " : "", of);
    }
    if (has_tail) {
        size_t from = is_only ? 0 : last_lines(tail->via.str.ptr, tail->via.str.size);
        write_lines(out, tail->via.str.ptr + from, tail->via.str.size - from);
    }
}

void print_trial_tail(FILE *out, const msgpack_object *trial)
{
    const msgpack_object *tail = document_find(trial, "tail");
    unsigned long long of = document_number(trial, "tail_attempt");
    if (tail->type != MSGPACK_OBJECT_STR || tail->via.str.size == 0) {
        return;
    }
    if (of != 0 && of != document_number(trial, "attempt")) {
        (void)fprintf(out, "the last lines of attempt %llu's log:\n", of);
    } else {
        (void)fputs("the last lines of its log:\n", out);
    }
    write_lines(out, tail->via.str.ptr, tail->via.str.size);
}

void print_tails(FILE *out, const msgpack_object *experiment, uint32_t trials_max)
{
    msgpack_object_array list = document_list(experiment, "trials");
    uint32_t tails = 0, shown = 0, left_out = 0;
    for (uint32_t i = 0; i < list.size; i++) {
        tails += document_find(&list.ptr[i], "tail")->type == MSGPACK_OBJECT_STR;
    }
    bool is_only = tails <= 1; /* the whole text; of several trials some lines each, --json has all */
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        msgpack_object_array notes = document_list(item, "notes");
        if (trials_max > 0 && shown == trials_max && tells_more(item)) {
            left_out++;
            continue;
        }
        shown += tells_more(item);
        for (uint32_t k = 0; k < notes.size; k++) {
            char note[256];
            document_value_text(&notes.ptr[k], note, sizeof note);
            (void)fprintf(out, "\ntrial %llu: %s\n", (unsigned long long)document_number(item, "index"), note);
        }
        print_tail(out, item, is_only);
    }
    if (left_out > 0) {
        (void)fprintf(out, "\n%u more trials have such lines; shoal why EXP/TRIAL shows those of one, shoal show EXP --all those of all\n",
                      left_out);
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
