/* rungs: what a search that stops trials early, or pauses and promotes them, has decided. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shoal/cli.h"
#include "tools/shoal/client.h"
#include "tools/shoal/document.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/target.h"

/* What has become of the trials of a bracket that have reached a rung. */
struct reached {
    uint64_t trials, on, stopped, top, paused;
    bool has_best;
    double best;
    uint64_t best_trial;
};

/* The decision behind place `at` about the same trial ends its pause. */
static bool is_paused_still(msgpack_object_array judged, uint32_t at)
{
    uint64_t trial = document_number(&judged.ptr[at], "trial");
    for (uint32_t i = at + 1; i < judged.size; i++) {
        if (document_number(&judged.ptr[i], "trial") == trial) {
            return false;
        }
    }
    return true;
}

static struct reached count(const msgpack_object *document, uint64_t bracket, uint64_t rung)
{
    struct reached reached = {0};
    bool smaller = document_true(document, "smaller_is_better");
    msgpack_object_array judged = document_list(document, "judged");
    for (uint32_t i = 0; i < judged.size; i++) {
        const msgpack_object *item = &judged.ptr[i];
        char decision[16];
        double metric = NAN;
        if (document_number(item, "bracket") != bracket || document_number(item, "rung") != rung) {
            continue;
        }
        document_text(item, "decision", decision, sizeof decision);
        bool is_promoted = strcmp(decision, "promotes") == 0, is_closed = strcmp(decision, "closes") == 0;
        reached.trials += !is_promoted && !is_closed && strcmp(decision, "ends") != 0;
        reached.on += is_promoted || strcmp(decision, "goes on") == 0;
        reached.stopped += is_closed || strcmp(decision, "stops") == 0;
        reached.top += strcmp(decision, "top") == 0;
        reached.paused += strcmp(decision, "pauses") == 0 && is_paused_still(judged, i);
        bool is_number = document_double(document_find(item, "metric"), &metric) && !isnan(metric);
        if (is_number && (!reached.has_best || (smaller ? metric < reached.best : metric > reached.best))) {
            reached.has_best = true;
            reached.best = metric;
            reached.best_trial = document_number(item, "trial");
        }
    }
    return reached;
}

static void render_rungs(struct cli *cli, const msgpack_object *reply)
{
    const msgpack_object *document = document_find(reply, "search");
    struct table table = {0};
    char metric[64], unit[64], best[80], number[RENDER_UNIT_BYTES];
    document_text(document, "metric", metric, sizeof metric);
    document_text(document, "unit", unit, sizeof unit);
    (void)snprintf(best, sizeof best, "BEST %s", metric);
    table_column(&table, "BRACKET", true);
    table_column(&table, "RUNG", true);
    table_column(&table, unit[0] != '\0' ? unit : "LENGTH", true);
    table_column(&table, "REACHED", true);
    table_column(&table, "GO ON", true);
    bool promotes = document_true(document, "promotes");
    if (promotes) {
        table_column(&table, "PAUSED", true);
    }
    table_column(&table, "STOPPED", true);
    table_column(&table, best, true);
    table_column(&table, "TRIAL", true);
    msgpack_object_array brackets = document_list(document, "brackets");
    for (uint32_t b = 0; b < brackets.size; b++) {
        msgpack_object_array rungs = document_list(&brackets.ptr[b], "rungs");
        for (uint32_t rung = 0; rung < rungs.size; rung++) {
            struct reached reached = count(document, b, rung);
            table_cell(&table, RENDER_PLAIN, "%u", b);
            table_cell(&table, RENDER_PLAIN, "%u", rung);
            table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)rungs.ptr[rung].via.u64);
            table_cell(&table, RENDER_PLAIN, "%llu of %llu", (unsigned long long)reached.trials,
                       (unsigned long long)document_number(&brackets.ptr[b], "trials"));
            table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)(reached.on + reached.top));
            if (promotes) {
                table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)reached.paused);
            }
            table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)reached.stopped);
            if (reached.has_best) {
                render_number(number, reached.best);
                table_cell(&table, RENDER_PLAIN, "%s", number);
                table_cell(&table, RENDER_PLAIN, "%llu", (unsigned long long)reached.best_trial);
            } else {
                table_cell(&table, RENDER_PLAIN, "-");
                table_cell(&table, RENDER_PLAIN, "-");
            }
        }
    }
    table_write(&table, cli->out, cli->colours);
}

int command_rungs(struct cli *cli, const struct arguments *arguments)
{
    struct target target = {.has_trial = false};
    struct client client;
    if (strlen(arguments->operands[0]) >= sizeof target.experiment) {
        return cli_fail(cli, CLI_USAGE, "'%.80s...' is longer than any name", arguments->operands[0]);
    }
    (void)snprintf(target.experiment, sizeof target.experiment, "%s", arguments->operands[0]);
    int code = target_begin(cli, "rungs", &target, 0, &client);
    if (code == CLI_DONE) {
        code = print_reply(&client, render_rungs);
        client_close(&client);
    }
    return code;
}
