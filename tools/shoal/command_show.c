/* show, why: an experiment with its trials, one trial, and why it is in its state. */

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "base/visible.h"
#include "tools/shoal/client.h"
#include "tools/shoal/platform.h"
#include "tools/shoal/print.h"
#include "tools/shoal/print_program.h"
#include "tools/shoal/show.h"
#include "tools/shoal/tails.h"
#include "tools/shoal/target.h"
#include "tools/shoal/trials.h"

#define BEST_SHOWN 20   /* trials of an experiment that has more, without --all */
#define TAILS_SHOWN 5   /* trials whose last lines are shown then */
#define CONSTANT_LINES 3
#define CURVE_LINES 8
#define CURVE_WIDTH 80 /* of a picture that goes to no terminal */

struct trials_style show_style(const struct cli *cli)
{
    size_t columns = 0, lines;
    bool is_terminal = cli->out_is_terminal || (fileno(cli->out) >= 0 && isatty(fileno(cli->out)) == 1); /* one may be dumb */
    if (is_terminal) {
        render_terminal_size(cli->out, &columns, &lines);
    }
    return (struct trials_style){.colours = cli->colours, .utf8 = cli->utf8, .width = columns};
}

/* ---- an experiment ------------------------------------------------------------------------------------------------- */

static void show_sentence(void *context, const char *sentence)
{
    struct cli *cli = context;
    render_text(cli->out, cli->colours, RENDER_YELLOW, sentence);
    (void)fputc('\n', cli->out);
}

/* How the user wants the table of trials. */
struct table_wish {
    bool all;
    const char *sort; /* NULL: by number, or the best first where not all are shown */
    const char *where; /* conditions, which the daemon reads; NULL: none */
    struct trials_choice choice;
};

static int check_sort(struct cli *cli, const char *key, struct trials *trials)
{
    if (key != NULL && !trials_sort(trials, key)) {
        return cli_fail(cli, CLI_USAGE,
                        "--sort %.80s is no column, hyperparameter or metric of these trials; columns are " TRIALS_NAMES,
                        key);
    }
    return CLI_DONE;
}

static void write_table(struct cli *cli, const struct table_wish *wish, const struct trials_style *style,
                        struct trials *trials)
{
    bool is_long = trials->count > BEST_SHOWN && !wish->all;
    const char *key = wish->sort != NULL ? wish->sort : is_long ? "best" : "trial";
    if (is_long && wish->sort == NULL) {
        (void)trials_sort(trials, "state"); /* of trials without a value those that run stand first */
    }
    (void)trials_sort(trials, key);
    trials_write_constants(cli->out, style, trials, style->width > 0 ? CONSTANT_LINES : SIZE_MAX);
    trials_write(cli->out, style, trials, &wish->choice, 0, is_long ? BEST_SHOWN : trials->count, SIZE_MAX);
    if (is_long) {
        char summary[TRIALS_SUMMARY_BYTES];
        trials_summary(trials, BEST_SHOWN, summary);
        (void)fprintf(cli->out, "and %zu more: %s; --all shows them\n", trials->count - BEST_SHOWN, summary);
    }
}

static int render_show(struct cli *cli, const struct table_wish *wish, const msgpack_object *document)
{
    const msgpack_object *experiment = document_find(document, "experiment");
    const struct trials_style style = show_style(cli);
    struct trials *trials = calloc(1, sizeof *trials);
    if (trials == NULL || !trials_read(document, (uint64_t)time(NULL), trials)) {
        free(trials);
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    int code = check_sort(cli, wish->sort, trials);
    if (code != CLI_DONE) {
        trials_free(trials);
        free(trials);
        return code;
    }
    print_experiment_head(cli->out, &style, document);
    print_waiting(cli->out, &style, SIZE_MAX, experiment);
    print_program(experiment, 1, show_sentence, cli);
    print_program_mixes(experiment, show_sentence, cli);
    write_table(cli, wish, &style, trials);
    print_no_best(cli->out, experiment);
    print_tails(cli->out, experiment, trials->count > BEST_SHOWN && !wish->all ? TAILS_SHOWN : 0);
    trials_free(trials);
    free(trials);
    return code;
}

static int show_experiment(struct cli *cli, const struct target *target, const struct table_wish *wish)
{
    struct client client;
    struct reply reply;
    int code = target_begin(cli, "show", target, 1u + (wish->where != NULL), &client);
    if (code != CLI_DONE) {
        return code;
    }
    if (wish->where != NULL) {
        pack_text(&client.request, "where");
        pack_text(&client.request, wish->where);
    }
    pack_text(&client.request, "curves");
    pack_bool(&client.request, true);
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && wish->where != NULL && !document_has(document_find(&reply.document, "experiment"), "matching")) {
        code = cli_fail(cli, CLI_REFUSED, "the daemon is of an older version, which knows no --where; restart it");
    }
    if (code == CLI_DONE) {
        struct tails tails = {0};
        tails_fetch(&client, document_find(&reply.document, "experiment"), &tails);
        if (!cli->json) {
            code = render_show(cli, wish, &reply.document);
        } else if (!document_write_reply_json(cli->out, &reply.document)) {
            code = cli_fail(cli, CLI_REFUSED, "the daemon's answer cannot be written as JSON");
        }
        tails_free(&tails);
    }
    client_close(&client);
    return code;
}

/* ---- one trial ----------------------------------------------------------------------------------------------------- */

void show_begin_trial(struct client *client, const char *id, uint64_t trial)
{
    client_begin(client, "trial", 2);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, trial);
}

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool is_in_time(void *context)
{
    const uint64_t *until_ms = context;
    return clock_ms() < *until_ms;
}

static void copy_text(const msgpack_object *text, char *out, size_t size)
{
    size_t bytes = text->type == MSGPACK_OBJECT_STR && text->via.str.size < size ? text->via.str.size : 0;
    memcpy(out, bytes > 0 ? text->via.str.ptr : "", bytes);
    out[bytes] = '\0';
}

/* Chooses searcher.metric, else the first metric of the row. */
static void choose_metric(const msgpack_object *document, struct show_curve *out)
{
    const msgpack_object *trial = document_find(document, "trial"), *experiment = document_find(document, "experiment");
    double value;
    copy_text(document_find(experiment, "metric"), out->name, sizeof out->name);
    (void)snprintf(out->group, sizeof out->group, "validation");
    if (out->name[0] != '\0' && print_metric(trial, "validation", out->name, &value)) {
        return;
    }
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    out->name[0] = out->group[0] = '\0';
    for (uint32_t g = 0; g < groups.size && out->name[0] == '\0'; g++) {
        msgpack_object_map names = document_pairs(&groups.ptr[g].val);
        if (names.size > 0) {
            copy_text(&groups.ptr[g].key, out->group, sizeof out->group);
            copy_text(&names.ptr[0].key, out->name, sizeof out->name);
        }
    }
}

static void take_points(const msgpack_object *document, struct show_curve *out)
{
    msgpack_object_array list = document_list(document, "points");
    for (uint32_t i = 0; i < list.size; i++) {
        char group[sizeof out->group];
        double value;
        copy_text(document_find(&list.ptr[i], "group"), group, sizeof group);
        if (!document_true(&list.ptr[i], "void") && strcmp(group, out->group) == 0 &&
            document_double(document_find(document_find(&list.ptr[i], "metrics"), out->name), &value)) {
            curve_points_add(&out->points, document_number(&list.ptr[i], "step"), value);
        }
    }
}

void show_fetch_curve(struct client *client, const msgpack_object *document, struct show_curve *out)
{
    struct reply reply = {.end = false};
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    uint64_t until_ms = clock_ms() + SHOW_CURVE_MS;
    memset(out, 0, sizeof *out);
    choose_metric(document, out);
    if (out->name[0] == '\0') {
        return;
    }
    document_text(document_find(document, "experiment"), "id", id, sizeof id);
    client->goes_on = is_in_time;
    client->context = &until_ms;
    client_begin(client, "metrics", 2);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, document_number(document_find(document, "trial"), "index"));
    int code = client_send(client, -1);
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, -1, false, &reply);
        if (code == CLI_DONE) {
            take_points(&reply.document, out);
        }
    }
    client->goes_on = NULL;
}

static void write_time_of(FILE *out, const char *what, uint64_t seconds)
{
    char text[RENDER_UNIT_BYTES];
    if (seconds > 0) {
        render_time(text, 1000 * seconds);
        (void)fprintf(out, "%s%s", what, text);
    }
}

static void write_attempt(FILE *out, const msgpack_object *attempt, uint64_t now_s)
{
    char nodes[256] = "", state[32], reason[1280], lasted[RENDER_UNIT_BYTES];
    msgpack_object_array list = document_list(attempt, "nodes");
    uint64_t started_s = document_number(attempt, "started_s"), ended_s = document_number(attempt, "ended_s");
    size_t used = 0;
    for (uint32_t i = 0; i < list.size && used < sizeof nodes; i++) {
        char node[96];
        document_value_text(&list.ptr[i], node, sizeof node);
        used += (size_t)snprintf(nodes + used, sizeof nodes - used, "%s%s", i > 0 ? ", " : " on ", node);
    }
    document_text(attempt, "state", state, sizeof state);
    document_text(attempt, "reason", reason, sizeof reason);
    (void)fprintf(out, "  attempt %llu%s, %s, step %llu to %llu", (unsigned long long)document_number(attempt, "attempt"), nodes, state,
                  (unsigned long long)document_number(attempt, "start_step"), (unsigned long long)document_number(attempt, "step"));
    write_time_of(out, ", from ", started_s);
    write_time_of(out, " to ", ended_s);
    if (started_s > 0) {
        uint64_t until_s = ended_s > 0 ? ended_s : now_s;
        trials_time(lasted, until_s > started_s ? until_s - started_s : 0);
        (void)fprintf(out, " (%s)", lasted);
    }
    (void)fprintf(out, "%s%s\n", reason[0] != '\0' ? ": " : "", reason);
}

static void write_attempts(FILE *out, const msgpack_object *document)
{
    msgpack_object_array list = document_list(document, "attempts");
    if (list.size > 0) {
        (void)fputs("attempts\n", out);
    }
    for (uint32_t i = 0; i < list.size; i++) {
        write_attempt(out, &list.ptr[i], (uint64_t)time(NULL));
    }
}

static void write_checkpoints(FILE *out, const msgpack_object *document)
{
    msgpack_object_array list = document_list(document, "checkpoints");
    uint64_t replicas = document_number(document_find(document, "experiment"), "replicas");
    if (list.size > 0) {
        (void)fputs("checkpoints\n", out);
    }
    for (uint32_t i = 0; i < list.size; i++) {
        char text[96], size[RENDER_UNIT_BYTES], path[256];
        trials_checkpoint(&list.ptr[i], replicas, text, sizeof text);
        render_bytes(size, document_number(&list.ptr[i], "bytes"));
        document_text(&list.ptr[i], "path", path, sizeof path);
        (void)fprintf(out, "  %s%s%s, %s\n", path, path[0] != '\0' ? ": " : "", text, size);
    }
}

void show_write_why(FILE *out, const msgpack_object *document, const char *before)
{
    msgpack_object_array list = document_list(document, "why");
    for (uint32_t i = 0; i < list.size; i++) {
        char text[2048];
        document_text(&list.ptr[i], "text", text, sizeof text);
        (void)fprintf(out, "%s%s", before, text);
        uint64_t at_s = document_number(&list.ptr[i], "at_s");
        write_time_of(out, " (", at_s);
        (void)fputs(at_s > 0 ? ")\n" : "\n", out);
    }
}

/* "step 3440, accuracy 0.8812 (best 0.8850), 12.5 steps/s, 4m10s elapsed, 1m02s left". */
static void write_numbers(FILE *out, const struct trials *trials, const struct trial_facts *facts)
{
    char number[RENDER_UNIT_BYTES];
    (void)fprintf(out, "step %llu", (unsigned long long)facts->step);
    if (facts->has_value) {
        render_number(number, facts->value);
        (void)fprintf(out, ", %s %s", trials->metric, number);
    }
    if (facts->has_rate) {
        (void)fprintf(out, facts->rate >= 100 ? ", %.0f %s" : ", %.3g %s", facts->rate, trials->rates_are_samples ? "samples/s" : "steps/s");
    }
    if (facts->has_elapsed) {
        trials_time(number, facts->elapsed_s);
        (void)fprintf(out, ", %s elapsed", number);
    }
    if (facts->has_left) {
        trials_time(number, facts->left_s);
        (void)fprintf(out, ", %s left", number);
    }
    (void)fputc('\n', out);
}

static void write_metrics(FILE *out, const msgpack_object *trial)
{
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        char group[128], pairs[1024];
        document_value_text(&groups.ptr[g].key, group, sizeof group);
        print_pairs(&groups.ptr[g].val, pairs, sizeof pairs);
        (void)fprintf(out, "%s: %s\n", group, pairs);
    }
}

void show_write_trial(FILE *out, const struct trials_style *style, const msgpack_object *document, const struct show_curve *curve,
                      size_t lines)
{
    const msgpack_object *experiment = document_find(document, "experiment"), *trial = document_find(document, "trial");
    struct trials *trials = calloc(1, sizeof *trials);
    if (trials == NULL || !trials_read_one(document, (uint64_t)time(NULL), trials)) {
        free(trials);
        return;
    }
    char name[128], whole[128], id[32], heading[64];
    document_text(experiment, "name", whole, sizeof whole);
    trials_cut(whole, style->width > 0 ? style->width / 2 : 0, style->utf8, name, sizeof name);
    document_text(experiment, "id", id, sizeof id);
    (void)snprintf(heading, sizeof heading, "trial %llu", (unsigned long long)trials->items[0].index);
    render_text(out, style->colours, RENDER_BOLD, heading);
    (void)fprintf(out, " of %s  %s  ", name, id);
    render_text(out, style->colours, render_state_colour(trials->items[0].state), trials->items[0].state);
    (void)fputc('\n', out);
    char description[4 * PRINT_SUMMARY_BYTES];
    document_text(trial, "description", description, sizeof description);
    if (description[0] != '\0') {
        (void)fprintf(out, "%s\n", description);
    }
    show_write_why(out, document, "  ");
    trials_write_constants(out, style, trials, SIZE_MAX);
    write_numbers(out, trials, &trials->items[0]);
    write_metrics(out, trial);
    if (curve->points.count > 1) {
        char title[256];
        (void)snprintf(title, sizeof title, "%s/%s", curve->group, curve->name);
        char visible[4 * sizeof title];
        (void)visible_text(visible, sizeof visible, title);
        (void)fprintf(out, "%s\n", visible);
        curve_picture(out, &curve->points, style->width > 0 ? style->width : CURVE_WIDTH, lines, style->utf8);
    }
    write_attempts(out, document);
    write_checkpoints(out, document);
    trials_free(trials);
    free(trials);
}

/* ---- the commands -------------------------------------------------------------------------------------------------- */

static void write_why(struct cli *cli, const msgpack_object *document)
{
    const msgpack_object *trial = document_find(document, "trial");
    char state[32];
    document_text(trial, "state", state, sizeof state);
    (void)fprintf(cli->out, "trial %llu is %s\n", (unsigned long long)document_number(trial, "index"), state);
    show_write_why(cli->out, document, "  ");
}

/* What the trial ran on; nothing where that is not known. */
static void write_platform(struct client *client, const msgpack_object *document)
{
    struct platform platform;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    document_text(document_find(document, "experiment"), "id", id, sizeof id);
    if (platform_read(client, id, document_number(document_find(document, "trial"), "index"), &platform) == CLI_DONE) {
        platform_write(client->cli->out, &platform);
        platform_free(&platform);
    }
}

/* Writes the client's last reply, a document `trial`, for people. */
static int render_trial(struct client *client, const msgpack_object *reply, bool is_why)
{
    struct cli *cli = client->cli;
    const msgpack_object document = *reply, *trial = document_find(&document, "trial");
    const struct trials_style style = show_style(cli);
    struct show_curve *curve = calloc(1, sizeof *curve);
    msgpack_zone *zone = client_keep(client);
    struct tails tails = {0};
    if (curve == NULL || zone == NULL) {
        free(curve);
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    tails_fetch_one(client, document_find(&document, "experiment"), trial, &tails);
    if (is_why) {
        write_why(cli, &document);
    } else {
        show_fetch_curve(client, &document, curve);
        show_write_trial(cli->out, &style, &document, curve, CURVE_LINES);
        write_platform(client, &document);
    }
    print_trial_tail(cli->out, trial);
    tails_free(&tails);
    msgpack_zone_free(zone);
    free(curve);
    return CLI_DONE;
}

/* The packages of one trial, a line each; with --json all that is known of what it ran on. */
static int show_packages(struct cli *cli, const struct target *target)
{
    struct client client;
    struct platform platform;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(&client, target->experiment, id);
    code = code == CLI_DONE ? platform_read(&client, id, target->trial, &platform) : code;
    if (code != CLI_DONE) {
        client_close(&client);
        return code;
    }
    if (!platform.is_known) {
        code = cli_fail(cli, CLI_NO_SUCH_THING, "no node tells what %.80s/%llu ran on: it has not begun, or began under an older version",
                        target->experiment, (unsigned long long)target->trial);
    } else if (cli->json) {
        code = platform_write_json(cli->out, &platform) ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "no memory is left");
    } else if (platform.python[0] == '\0') {
        cli_warn(cli, "the entrypoint of %.80s names no Python whose packages could be listed", target->experiment);
    } else {
        (void)fputs(platform.packages, cli->out);
    }
    platform_free(&platform);
    client_close(&client);
    return code;
}

static int ask_trial(struct cli *cli, const struct target *target, bool is_why)
{
    struct client client;
    struct reply reply;
    int code = target_begin(cli, "trial", target, 0, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && !cli->json) {
        code = render_trial(&client, &reply.document, is_why);
    } else if (code == CLI_DONE && !document_write_reply_json(cli->out, &reply.document)) {
        code = cli_fail(cli, CLI_REFUSED, "the daemon's answer cannot be written as JSON");
    }
    client_close(&client);
    return code;
}

int command_show(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct table_wish wish = {.all = options_has(arguments, "all"), .sort = options_value(arguments, "sort"),
                              .where = options_value(arguments, "where")};
    const char *columns = options_value(arguments, "columns"), *wrong;
    int code = target_read(cli, arguments->operands[0], false, false, &target);
    if (code == CLI_DONE && columns != NULL && !trials_choose(columns, &wish.choice, &wrong)) {
        code = cli_fail(cli, CLI_USAGE, "--columns has no column '%.*s'; columns are " TRIALS_NAMES, (int)strcspn(wrong, ","), wrong);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (options_has(arguments, "packages")) {
        return target.has_trial ? show_packages(cli, &target)
                                : cli_fail(cli, CLI_USAGE, "--packages is of one trial; name it, as in %.80s/0", target.experiment);
    }
    if (target.has_trial && wish.where != NULL) {
        return cli_fail(cli, CLI_USAGE, "--where chooses among the trials of an experiment; leave /%llu out", (unsigned long long)target.trial);
    }
    return target.has_trial ? ask_trial(cli, &target, false) : show_experiment(cli, &target, &wish);
}

int command_why(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    int code = target_read_one(cli, arguments->operands[0], false, &target);
    return code == CLI_DONE ? ask_trial(cli, &target, true) : code;
}
