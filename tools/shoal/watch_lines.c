/* watch in a pipe: each change is one line, which makes a readable log. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/document.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/trials.h"
#include "tools/shoal/watching.h"

#define TRIALS_MAX 100000

/* The values in the last line about a trial. */
struct trial_memory {
    char state[16];
    uint64_t attempt, checkpoint_step;
    bool has_metric;
    double metric;
    char notes[1024]; /* without the times in them, which change with each document */
};

struct watch_lines {
    struct cli *cli;
    char state[32];
    char coordinator[PRINT_SUMMARY_BYTES];
    uint64_t term;
    char nodes[PRINT_SUMMARY_BYTES];
    char lacks[PRINT_SUMMARY_BYTES];
    char trouble[PRINT_TROUBLE_BYTES];
    struct trial_memory *trials;
    uint32_t trial_count;
    bool has_constants; /* the hyperparameters that are the same in all trials have been written */
};

static void begin_line(struct watch_lines *lines)
{
    char when[RENDER_UNIT_BYTES];
    render_time(when, (uint64_t)time(NULL) * 1000);
    (void)fprintf(lines->cli->out, "%s  ", when + 11); /* the time of day */
}

static void head_changes(struct watch_lines *lines, const msgpack_object *document,
                         const msgpack_object *experiment)
{
    FILE *out = lines->cli->out;
    char coordinator[PRINT_SUMMARY_BYTES];
    print_coordinator(experiment, coordinator);
    uint64_t term = document_number(experiment, "term");
    char nodes[PRINT_SUMMARY_BYTES];
    print_nodes(document, nodes);
    if (document_has(experiment, "coordinator") &&
        (term != lines->term || strcmp(coordinator, lines->coordinator) != 0)) {
        begin_line(lines);
        (void)fprintf(out, "coordinator %s, term %llu\n", coordinator, (unsigned long long)term);
        (void)snprintf(lines->coordinator, sizeof lines->coordinator, "%s", coordinator);
        lines->term = term;
    }
    if (document_has(document, "nodes_alive") && strcmp(nodes, lines->nodes) != 0) {
        begin_line(lines);
        (void)fprintf(out, "nodes %s\n", nodes);
        (void)snprintf(lines->nodes, sizeof lines->nodes, "%s", nodes);
    }
    char lacks[PRINT_SUMMARY_BYTES] = "";
    if (print_lacks(experiment, lacks) && strcmp(lacks, lines->lacks) != 0) {
        begin_line(lines);
        (void)fprintf(out, "%s; " PRINT_LACKS_ADVICE "\n", lacks);
    }
    (void)snprintf(lines->lacks, sizeof lines->lacks, "%s", lacks);
    char trouble[PRINT_TROUBLE_BYTES];
    if (print_trouble(experiment, trouble) && strcmp(trouble, lines->trouble) != 0 && !document_true(experiment, "halted")) {
        begin_line(lines);
        (void)fprintf(out, "%s\n", trouble);
    }
    (void)snprintf(lines->trouble, sizeof lines->trouble, "%s", trouble);
}

static void state_change(struct watch_lines *lines, const msgpack_object *experiment)
{
    char state[32], name[128];
    document_text(experiment, "state", state, sizeof state);
    document_text(experiment, "name", name, sizeof name);
    if (strcmp(state, lines->state) != 0) {
        begin_line(lines);
        (void)fprintf(lines->cli->out, "experiment %s %s\n", name, state);
        (void)snprintf(lines->state, sizeof lines->state, "%s", state);
    }
}

/* Memory for trial `index`, or NULL. */
static struct trial_memory *remember(struct watch_lines *lines, uint64_t index)
{
    if (index >= TRIALS_MAX) {
        return NULL;
    }
    if (index >= lines->trial_count) {
        uint32_t count = (uint32_t)index + 16;
        struct trial_memory *trials = realloc(lines->trials, count * sizeof *trials);
        if (trials == NULL) {
            return NULL;
        }
        memset(trials + lines->trial_count, 0, (count - lines->trial_count) * sizeof *trials);
        lines->trials = trials;
        lines->trial_count = count;
    }
    return &lines->trials[index];
}

/* Writes the notes of a trial when they change. */
static void note_changes(struct watch_lines *lines, const msgpack_object *trial, struct trial_memory *memory)
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
        begin_line(lines);
        (void)fprintf(lines->cli->out, "trial %llu: %s\n", (unsigned long long)document_number(trial, "index"), note);
    }
    (void)snprintf(memory->notes, sizeof memory->notes, "%s", now);
}

/* The trial does not run and is not over. All such trials change together, when the experiment is paused, resumed or
 * cancelled; one line tells of that. */
static bool is_waiting(const char *state)
{
    return strcmp(state, "queued") == 0 || strcmp(state, "paused") == 0 || strcmp(state, "cancelled") == 0;
}

static void trial_changes(struct watch_lines *lines, const struct trials *all, const struct trial_facts *facts)
{
    const msgpack_object *trial = facts->row;
    const char *metric = all->metric;
    FILE *out = lines->cli->out;
    uint64_t index = document_number(trial, "index"), attempt = document_number(trial, "attempt");
    struct trial_memory *memory = remember(lines, index);
    if (memory == NULL) {
        return;
    }
    char state[16], pairs[256], number[RENDER_UNIT_BYTES];
    document_text(trial, "state", state, sizeof state);
    double value = 0;
    bool has_metric = metric[0] != '\0' && print_metric(trial, "validation", metric, &value);
    bool new_state = strcmp(state, memory->state) != 0 || attempt != memory->attempt;
    bool still_waits = is_waiting(state) && (memory->state[0] == '\0' || (is_waiting(memory->state) && attempt == memory->attempt));
    bool new_metric = has_metric && (!memory->has_metric || value > memory->metric || value < memory->metric);
    if (new_state && !still_waits) {
        begin_line(lines);
        (void)fprintf(out, "trial %llu %s", (unsigned long long)index, state);
        if (strcmp(state, "running") == 0) {
            trials_pairs(all, facts, pairs, sizeof pairs);
            bool ran_before = memory->state[0] == '\0' && document_number(trial, "step") > 0; /* before the first document */
            (void)fprintf(out, ", attempt %llu %s step %llu%s%s", (unsigned long long)attempt, ran_before ? "at" : "from",
                          (unsigned long long)document_number(trial, "step"), pairs[0] != '\0' ? ", " : "", pairs);
        }
        if ((strcmp(state, "completed") == 0 || strcmp(state, "stopped") == 0) && has_metric) {
            render_number(number, value);
            (void)fprintf(out, ", %s %s", metric, number);
        }
        (void)fputc('\n', out);
    } else if (new_metric) {
        begin_line(lines);
        render_number(number, value);
        (void)fprintf(out, "trial %llu step %llu, %s %s\n", (unsigned long long)index,
                      (unsigned long long)document_number(trial, "step"), metric, number);
    }
    note_changes(lines, trial, memory);
    (void)snprintf(memory->state, sizeof memory->state, "%s", state);
    memory->attempt = attempt;
    memory->has_metric = has_metric;
    memory->metric = value;
}

static void constants(struct watch_lines *lines, const struct trials *trials)
{
    const struct trials_style style = {.utf8 = lines->cli->utf8};
    if (!lines->has_constants && trials->parameter_count > 0) {
        lines->has_constants = true;
        trials_write_constants(lines->cli->out, &style, trials, SIZE_MAX);
    }
}

/* The experiment's end comes after the lines of the trials. */
void watch_lines_take(struct watch_lines *lines, const msgpack_object *document, bool end)
{
    const msgpack_object *experiment = document_find(document, "experiment");
    struct trials *trials = calloc(1, sizeof *trials);
    if (trials == NULL || !trials_read(document, (uint64_t)time(NULL), trials)) {
        free(trials);
        return;
    }
    if (!end) {
        state_change(lines, experiment);
    }
    head_changes(lines, document, experiment);
    constants(lines, trials);
    for (size_t i = 0; i < trials->count; i++) {
        trial_changes(lines, trials, &trials->items[i]);
    }
    state_change(lines, experiment);
    (void)fflush(lines->cli->out);
    trials_free(trials);
    free(trials);
}

struct watch_lines *watch_lines_new(struct cli *cli)
{
    struct watch_lines *lines = calloc(1, sizeof *lines);
    if (lines != NULL) {
        lines->cli = cli;
    }
    return lines;
}

void watch_lines_free(struct watch_lines *lines)
{
    if (lines != NULL) {
        free(lines->trials);
    }
    free(lines);
}
