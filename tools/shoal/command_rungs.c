/* rungs: what a search that stops trials early, or pauses and promotes them, or replaces them after each round, has decided.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/client.h"
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

static void render_rungs(struct cli *cli, const msgpack_object *document)
{
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

/* Those of the same round by their places, those without one behind. */
static int member_order(const void *left, const void *right)
{
    const msgpack_object *a = left, *b = right;
    uint64_t rounds[] = {document_number(a, "round"), document_number(b, "round")};
    uint64_t places[] = {document_number(a, "place"), document_number(b, "place")}; /* 0: none */
    uint64_t trials[] = {document_number(a, "trial"), document_number(b, "trial")};
    if (rounds[0] != rounds[1]) {
        return rounds[0] < rounds[1] ? -1 : 1;
    }
    if (places[0] != places[1]) {
        return places[0] - 1 < places[1] - 1 ? -1 : 1;
    }
    return trials[0] < trials[1] ? -1 : trials[0] > trials[1];
}

/* What stands in the place of the trial in the next round. */
static void write_next(struct table *table, const msgpack_object *member)
{
    unsigned long long trial = document_number(member, "trial"), next = document_number(member, "next"),
                       parent = document_number(member, "next_parent");
    if (!document_has(member, "next_parent")) {
        table_cell(table, RENDER_PLAIN, "-");
    } else if (parent == trial) {
        table_cell(table, RENDER_PLAIN, "goes on as %llu", next);
    } else {
        table_cell(table, RENDER_PLAIN, "replaced by %llu, a copy of %llu", next, parent);
    }
}

static void render_generations(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    char metric[64], unit[64], state[32], number[RENDER_UNIT_BYTES];
    document_text(document, "metric", metric, sizeof metric);
    document_text(document, "unit", unit, sizeof unit);
    table_column(&table, "ROUND", true);
    table_column(&table, unit, true);
    table_column(&table, "PLACE", true);
    table_column(&table, "TRIAL", true);
    table_column(&table, "STATE", false);
    table_column(&table, metric, true);
    table_column(&table, "NEXT ROUND", false);
    msgpack_object_array members = document_list(document, "members");
    qsort(members.ptr, members.size, sizeof members.ptr[0], member_order);
    for (uint32_t i = 0; i < members.size; i++) {
        const msgpack_object *member = &members.ptr[i];
        double value;
        unsigned long long round = document_number(member, "round"), trial = document_number(member, "trial"),
                           place = document_number(member, "place");
        document_text(member, "state", state, sizeof state);
        table_cell(&table, RENDER_PLAIN, "%llu", round);
        table_cell(&table, RENDER_PLAIN, "%llu", round * (unsigned long long)document_number(document, "length_per_round"));
        if (place > 0) {
            table_cell(&table, RENDER_PLAIN, "%llu", place);
        } else {
            table_cell(&table, RENDER_PLAIN, "-");
        }
        table_cell(&table, RENDER_PLAIN, "%llu", trial);
        table_cell(&table, render_state_colour(state), "%s", state);
        if (document_double(document_find(member, "metric"), &value)) {
            render_number(number, value);
            table_cell(&table, RENDER_PLAIN, "%s", number);
        } else {
            table_cell(&table, RENDER_PLAIN, "-");
        }
        write_next(&table, member);
    }
    table_write(&table, cli->out, cli->colours);
}

static void render_search(struct cli *cli, const msgpack_object *reply)
{
    const msgpack_object *document = document_find(reply, "search");
    if (document_has(document, "population")) {
        render_generations(cli, document);
    } else {
        render_rungs(cli, document);
    }
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
        code = print_reply(&client, render_search);
        client_close(&client);
    }
    return code;
}
