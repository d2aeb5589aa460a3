/* usage: what the slots of the mesh were used for, by user, label, model, node, day or month. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/document.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/table_choice.h"

#define KEYS 6
#define STANDARD_SINCE "30d"
#define CELL_BYTES 160
#define NAMES_BYTES 512

static const struct {
    const char *name, *head;
} keys[KEYS] = {{"user", "USER"}, {"label", "LABEL"}, {"model", "MODEL"}, {"node", "NODE"}, {"day", "DAY"}, {"month", "MONTH"}};

static const char *key_name(size_t i)
{
    return i < KEYS ? keys[i].name : NULL;
}

struct wish {
    size_t by[KEYS], by_count;
    uint64_t since_s;
};

static int read_wish(struct cli *cli, const struct arguments *arguments, struct wish *out)
{
    const char *by = options_value(arguments, "by"), *since = options_value(arguments, "since");
    struct choice choice = {.option = "by", .thing = "column", .name = key_name};
    uint64_t since_ms;
    *out = (struct wish){.by_count = 0};
    if (options_since(since != NULL ? since : STANDARD_SINCE, (uint64_t)time(NULL), &since_ms) != 0) {
        return cli_fail(cli, CLI_USAGE, "--since %.40s is no time; allowed are 7d, 90d, 2026-11-25 and '2026-11-25 16:00'", since);
    }
    int code = choice_read(cli, &choice, by != NULL ? by : "user", KEYS, out->by, NULL, &out->by_count);
    for (size_t i = 0; i < out->by_count; i++) {
        for (size_t before = 0; before < i && code == CLI_DONE; before++) {
            if (out->by[before] == out->by[i]) {
                code = cli_fail(cli, CLI_USAGE, "--by: %s is there twice; write it once", key_name(out->by[i]));
            }
        }
    }
    out->since_s = since_ms / 1000 > 0 ? since_ms / 1000 : 1;
    return code;
}

static int ask(struct client *client, const struct wish *wish, struct reply *reply)
{
    char by[64] = "";
    for (size_t i = 0; i < wish->by_count; i++) {
        size_t used = strlen(by);
        (void)snprintf(by + used, sizeof by - used, "%s%s", i > 0 ? "," : "", key_name(wish->by[i]));
    }
    client_begin(client, "usage_totals", 2);
    pack_text(&client->request, "by");
    pack_text(&client->request, by);
    pack_text(&client->request, "since_s");
    pack_u64(&client->request, wish->since_s);
    return client_ask(client, CLIENT_ANSWER_MS, reply);
}

/* The cell of a key; a node by its label. */
static void cell_text(const msgpack_object *row, size_t key, char out[CELL_BYTES])
{
    const char *name = key_name(key);
    document_text(row, strcmp(name, "node") == 0 ? "node_label" : name, out, CELL_BYTES);
}

static double seconds(const msgpack_object *row, const char *key)
{
    double value = 0;
    (void)document_double(document_find(row, key), &value);
    return value;
}

/* ---- order --------------------------------------------------------------------------------------------------------------- */

/* The daemon's order is by time, where days or months are asked for: then it stays. */
static int by_used(const void *left, const void *right)
{
    double a = seconds(left, "used_s"), b = seconds(right, "used_s");
    return (a < b) - (a > b);
}

static bool is_by_time(const struct wish *wish)
{
    bool is_one = false;
    for (size_t i = 0; i < wish->by_count; i++) {
        is_one |= strcmp(key_name(wish->by[i]), "day") == 0 || strcmp(key_name(wish->by[i]), "month") == 0;
    }
    return is_one;
}

/* ---- output -------------------------------------------------------------------------------------------------------------- */

static void write_csv(FILE *out, const msgpack_object_array *rows, const struct wish *wish)
{
    for (size_t k = 0; k < wish->by_count; k++) {
        choice_write_csv(out, key_name(wish->by[k]), false);
    }
    (void)fputs("used_s,lost_s\n", out);
    for (uint32_t i = 0; i < rows->size; i++) {
        for (size_t k = 0; k < wish->by_count; k++) {
            char text[CELL_BYTES];
            cell_text(&rows->ptr[i], wish->by[k], text);
            choice_write_csv(out, text, false);
        }
        (void)fprintf(out, "%.3f,%.3f\n", seconds(&rows->ptr[i], "used_s"), seconds(&rows->ptr[i], "lost_s"));
    }
}

static void sum_cells(struct table *table, double used_s, double lost_s, double all_s)
{
    table_cell(table, RENDER_PLAIN, "%.2f", used_s / 3600);
    table_cell(table, RENDER_PLAIN, "%.2f", lost_s / 3600);
    table_cell(table, RENDER_PLAIN, "%.1f %%", all_s > 0 ? 100 * used_s / all_s : 0);
}

static void write_table(struct cli *cli, const msgpack_object_array *rows, const struct wish *wish)
{
    struct table table = {0};
    double used_s = 0, lost_s = 0;
    char text[CELL_BYTES];
    for (size_t k = 0; k < wish->by_count; k++) {
        table_column(&table, keys[wish->by[k]].head, false);
    }
    table_column(&table, "SLOT-HOURS", true);
    table_column(&table, "LOST", true);
    table_column(&table, "SHARE", true);
    for (uint32_t i = 0; i < rows->size; i++) {
        used_s += seconds(&rows->ptr[i], "used_s");
        lost_s += seconds(&rows->ptr[i], "lost_s");
    }
    for (uint32_t i = 0; i < rows->size; i++) {
        for (size_t k = 0; k < wish->by_count; k++) {
            cell_text(&rows->ptr[i], wish->by[k], text);
            table_cell(&table, RENDER_PLAIN, "%s", text[0] == '\0' ? "-" : text);
        }
        sum_cells(&table, seconds(&rows->ptr[i], "used_s"), seconds(&rows->ptr[i], "lost_s"), used_s);
    }
    for (size_t k = 0; k < wish->by_count && rows->size > 1; k++) {
        table_cell(&table, RENDER_PLAIN, "%s", k == 0 ? "all" : "");
    }
    if (rows->size > 1) {
        sum_cells(&table, used_s, lost_s, used_s);
    }
    if (cli->out_is_terminal) {
        size_t width, lines;
        render_terminal_size(cli->out, &width, &lines);
        table_fit(&table, width, (1u << wish->by_count) - 1);
    }
    table_write(&table, cli->out, cli->colours);
}

static void tell_about(struct cli *cli, const msgpack_object *document)
{
    msgpack_object_array uncounted = document_list(document, "uncounted");
    char names[NAMES_BYTES] = "", span[16], since[RENDER_UNIT_BYTES];
    for (uint32_t i = 0; i < uncounted.size; i++) {
        char name[128];
        size_t used = strlen(names);
        document_value_text(&uncounted.ptr[i], name, sizeof name);
        (void)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", name);
    }
    if (uncounted.size > 0) {
        cli_warn(cli, "what the slots of %s are used for is not counted, since the version there is too old; update it", names);
    }
    document_text(document, "span", span, sizeof span);
    if (strcmp(span, "month") == 0 && document_number(document, "since_s") > 0) {
        render_time(since, 1000 * document_number(document, "since_s"));
        cli_warn(cli, "so far back only whole months are kept: the sums begin with %s UTC", since);
    }
}

static int write_usage(struct cli *cli, const struct arguments *arguments, const struct wish *wish, const msgpack_object *document)
{
    msgpack_object_array rows = document_list(document, "usage");
    if (cli->json) {
        return document_write_reply_json(cli->out, document)
                   ? CLI_DONE
                   : cli_fail(cli, CLI_REFUSED, "the daemon's answer cannot be written as JSON");
    }
    if (rows.size > 0 && !is_by_time(wish)) {
        qsort(rows.ptr, rows.size, sizeof *rows.ptr, by_used);
    }
    tell_about(cli, document);
    if (options_has(arguments, "csv")) {
        write_csv(cli->out, &rows, wish);
    } else if (rows.size == 0) {
        (void)fputs("no slot has been used\n", cli->out);
    } else {
        write_table(cli, &rows, wish);
    }
    return CLI_DONE;
}

int command_usage(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct reply reply;
    struct wish wish;
    int code = read_wish(cli, arguments, &wish);
    code = code == CLI_DONE ? client_open(cli, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    code = ask(&client, &wish, &reply);
    if (code == CLI_DONE) {
        code = write_usage(cli, arguments, &wish, &reply.document);
    }
    client_close(&client);
    return code;
}
