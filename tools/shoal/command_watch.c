/* watch: follows an experiment. On a terminal a screen is redrawn in place; elsewhere each change is one line, which makes a
 * readable log. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/shoal/document.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/watch.h"

#define TRIALS_MAX 100000
#define SCREEN_LINES_AROUND 5 /* the two head lines, the table's head, "... and N more", the cursor; two more if slots lack */

#define SCREEN_NOTES_MAX 4

/* The values in the last line about a trial. */
struct trial_memory {
    char state[16];
    uint64_t attempt, checkpoint_step;
    bool has_metric;
    double metric;
    char notes[1024]; /* without the times in them, which change with each document */
};

struct watching {
    struct cli *cli;
    char state[32];
    char coordinator[PRINT_SUMMARY_BYTES];
    uint64_t term;
    char nodes[PRINT_SUMMARY_BYTES];
    char lacks[PRINT_SUMMARY_BYTES];
    struct trial_memory *trials;
    uint32_t trial_count;
    size_t lines_before;
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void begin_line(struct watching *watching)
{
    char when[RENDER_UNIT_BYTES];
    render_time(when, (uint64_t)time(NULL) * 1000);
    (void)fprintf(watching->cli->out, "%s  ", when + 11); /* the time of day */
}

static void head_changes(struct watching *watching, const msgpack_object *document,
                         const msgpack_object *experiment)
{
    FILE *out = watching->cli->out;
    char coordinator[PRINT_SUMMARY_BYTES];
    print_coordinator(experiment, coordinator);
    uint64_t term = document_number(experiment, "term");
    char nodes[PRINT_SUMMARY_BYTES];
    print_nodes(document, nodes);
    if (document_has(experiment, "coordinator") &&
        (term != watching->term || strcmp(coordinator, watching->coordinator) != 0)) {
        begin_line(watching);
        (void)fprintf(out, "coordinator %s, term %llu\n", coordinator, (unsigned long long)term);
        (void)snprintf(watching->coordinator, sizeof watching->coordinator, "%s", coordinator);
        watching->term = term;
    }
    if (document_has(document, "nodes_alive") && strcmp(nodes, watching->nodes) != 0) {
        begin_line(watching);
        (void)fprintf(out, "nodes %s\n", nodes);
        (void)snprintf(watching->nodes, sizeof watching->nodes, "%s", nodes);
    }
    char lacks[PRINT_SUMMARY_BYTES] = "";
    if (print_lacks(experiment, lacks) && strcmp(lacks, watching->lacks) != 0) {
        begin_line(watching);
        (void)fprintf(out, "%s; " PRINT_LACKS_ADVICE "\n", lacks);
    }
    (void)snprintf(watching->lacks, sizeof watching->lacks, "%s", lacks);
}

static void state_change(struct watching *watching, const msgpack_object *experiment)
{
    char state[32], name[128];
    document_text(experiment, "state", state, sizeof state);
    document_text(experiment, "name", name, sizeof name);
    if (strcmp(state, watching->state) != 0) {
        begin_line(watching);
        (void)fprintf(watching->cli->out, "experiment %s %s\n", name, state);
        (void)snprintf(watching->state, sizeof watching->state, "%s", state);
    }
}

/* Memory for trial `index`, or NULL. */
static struct trial_memory *remember(struct watching *watching, uint64_t index)
{
    if (index >= TRIALS_MAX) {
        return NULL;
    }
    if (index >= watching->trial_count) {
        uint32_t count = (uint32_t)index + 16;
        struct trial_memory *trials = realloc(watching->trials, count * sizeof *trials);
        if (trials == NULL) {
            return NULL;
        }
        memset(trials + watching->trial_count, 0, (count - watching->trial_count) * sizeof *trials);
        watching->trials = trials;
        watching->trial_count = count;
    }
    return &watching->trials[index];
}

/* Writes the notes of a trial when they change. */
static void note_changes(struct watching *watching, const msgpack_object *trial, struct trial_memory *memory)
{
    msgpack_object_array list = document_list(trial, "notes");
    char now[sizeof memory->notes] = "";
    for (uint32_t i = 0; i < list.size; i++) {
        char note[256];
        document_value_text(&list.ptr[i], note, sizeof note);
        char *time = strstr(note, " for ");
        size_t used = strlen(now), length = time != NULL ? (size_t)(time - note) : strlen(note);
        (void)snprintf(now + used, sizeof now - used, "%.*s\n", (int)length, note);
    }
    if (strcmp(now, memory->notes) == 0) {
        return;
    }
    for (uint32_t i = 0; i < list.size; i++) {
        char note[256];
        document_value_text(&list.ptr[i], note, sizeof note);
        begin_line(watching);
        (void)fprintf(watching->cli->out, "trial %llu: %s\n", (unsigned long long)document_number(trial, "index"), note);
    }
    (void)snprintf(memory->notes, sizeof memory->notes, "%s", now);
}

static void trial_changes(struct watching *watching, const msgpack_object *trial, const char *metric)
{
    FILE *out = watching->cli->out;
    uint64_t index = document_number(trial, "index"), attempt = document_number(trial, "attempt");
    struct trial_memory *memory = remember(watching, index);
    if (memory == NULL) {
        return;
    }
    char state[16], pairs[256], number[RENDER_UNIT_BYTES];
    document_text(trial, "state", state, sizeof state);
    double value = 0;
    bool has_metric = metric[0] != '\0' && print_metric(trial, "validation", metric, &value);
    bool new_state = strcmp(state, memory->state) != 0 || attempt != memory->attempt;
    bool new_metric = has_metric && (!memory->has_metric || value > memory->metric || value < memory->metric);
    if (new_state && !(memory->state[0] == '\0' && strcmp(state, "queued") == 0)) {
        begin_line(watching);
        (void)fprintf(out, "trial %llu %s", (unsigned long long)index, state);
        if (strcmp(state, "running") == 0) {
            print_pairs(document_find(trial, "hyperparameters"), pairs, sizeof pairs);
            (void)fprintf(out, ", attempt %llu from step %llu%s%s", (unsigned long long)attempt,
                          (unsigned long long)document_number(trial, "step"), pairs[0] != '\0' ? ", " : "", pairs);
        }
        if (strcmp(state, "completed") == 0 && has_metric) {
            render_number(number, value);
            (void)fprintf(out, ", %s %s", metric, number);
        }
        (void)fputc('\n', out);
    } else if (new_metric) {
        begin_line(watching);
        render_number(number, value);
        (void)fprintf(out, "trial %llu step %llu, %s %s\n", (unsigned long long)index,
                      (unsigned long long)document_number(trial, "step"), metric, number);
    }
    note_changes(watching, trial, memory);
    (void)snprintf(memory->state, sizeof memory->state, "%s", state);
    memory->attempt = attempt;
    memory->has_metric = has_metric;
    memory->metric = value;
}

/* The experiment's end comes after the lines of the trials. */
static void write_lines(struct watching *watching, const msgpack_object *document, bool end)
{
    const msgpack_object *experiment = document_find(document, "experiment");
    msgpack_object_array list = document_list(experiment, "trials");
    char metric[64];
    document_text(experiment, "metric", metric, sizeof metric);
    if (!end) {
        state_change(watching, experiment);
    }
    head_changes(watching, document, experiment);
    for (uint32_t i = 0; i < list.size; i++) {
        trial_changes(watching, &list.ptr[i], metric);
    }
    state_change(watching, experiment);
    (void)fflush(watching->cli->out);
}

/* ---- the screen -------------------------------------------------------------------------------------------------- */

static const char cursor_hide[] = "\033[?25l", cursor_show[] = "\033[?25h";

/* Shows the terminal's cursor again, then takes the signal's default action. */
static void end_by_signal(int number)
{
    if (write(STDOUT_FILENO, cursor_show, sizeof cursor_show - 1) < 0) {
        _exit(128 + number); /* no terminal to repair any more */
    }
    struct sigaction standard = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &standard, NULL);
    (void)raise(number);
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void screen_begin(struct cli *cli)
{
    struct sigaction action = {.sa_handler = end_by_signal};
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++) {
        (void)sigaction(ending_signals[i], &action, NULL);
    }
    (void)fputs(cursor_hide, cli->out);
}

static void screen_end(struct cli *cli)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    (void)fputs(cursor_show, cli->out);
    (void)fflush(cli->out);
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++) {
        (void)sigaction(ending_signals[i], &standard, NULL);
    }
}

/* Writes the first notes of the trials below the table, a line each; returns how many. `screen` may be NULL. */
static size_t write_notes(FILE *screen, const msgpack_object *experiment)
{
    msgpack_object_array trials = document_list(experiment, "trials");
    size_t count = 0;
    for (uint32_t i = 0; i < trials.size; i++) {
        msgpack_object_array list = document_list(&trials.ptr[i], "notes");
        for (uint32_t k = 0; k < list.size && count < SCREEN_NOTES_MAX; k++) {
            count++;
            char note[256];
            document_value_text(&list.ptr[k], note, sizeof note);
            if (screen != NULL) {
                (void)fprintf(screen, "trial %llu: %s\n", (unsigned long long)document_number(&trials.ptr[i], "index"), note);
            }
        }
    }
    return count;
}

static void draw(struct watching *watching, const msgpack_object *document)
{
    struct cli *cli = watching->cli;
    char *text = NULL;
    size_t bytes, columns, lines;
    FILE *screen = open_memstream(&text, &bytes);
    if (screen == NULL) {
        return;
    }
    render_terminal_size(cli->out, &columns, &lines);
    const msgpack_object *experiment = document_find(document, "experiment");
    print_experiment_head(screen, cli->colours, document);
    char lacks[PRINT_SUMMARY_BYTES];
    size_t around = SCREEN_LINES_AROUND + (print_lacks(experiment, lacks) ? 2u : 0u) + write_notes(NULL, experiment);
    print_trials(screen, cli->colours, experiment, lines > around ? lines - around : 1);
    (void)write_notes(screen, experiment);
    (void)fclose(screen);
    render_screen(cli->out, text, columns, lines, &watching->lines_before);
    free(text);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static int watch_begin(struct client *client, const char *id)
{
    client_begin(client, "watch", 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    return client_send(client, -1);
}

int watch_experiment(struct client *client, const char *id, char *state)
{
    struct cli *cli = client->cli;
    bool screen = cli->out_is_terminal && !cli->json;
    struct watching watching = {.cli = cli};
    client->patient = true;
    int code = watch_begin(client, id);
    struct reply reply = {.end = false};
    state[0] = '\0';
    if (screen) {
        screen_begin(cli);
    }
    while ((code == CLI_DONE || client->lost) && !reply.end) {
        if (client->lost) { /* `watching` remembers what was written, so only news follows */
            code = client_return(client);
            code = code == CLI_DONE ? watch_begin(client, id) : code;
            continue;
        }
        code = client_next(client, -1, false, &reply);
        if (code != CLI_DONE) {
            continue;
        }
        const msgpack_object *experiment = document_find(&reply.document, "experiment");
        if (document_has(experiment, "state")) {
            document_text(experiment, "state", state, 32);
        } else {
            continue; /* an end without a document */
        }
        if (cli->json) {
            (void)document_write_reply_json(cli->out, &reply.document);
        } else if (screen) {
            draw(&watching, &reply.document);
        } else {
            write_lines(&watching, &reply.document, reply.end);
        }
        if (reply.end && !cli->json) {
            print_tails(cli->out, experiment);
        }
    }
    if (screen) {
        screen_end(cli);
    }
    client->patient = false;
    free(watching.trials);
    return code;
}

int command_watch(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES], state[32];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(&client, arguments->operands[0], id);
    if (code == CLI_DONE) {
        code = watch_experiment(&client, id, state);
    }
    client_close(&client);
    return code;
}
