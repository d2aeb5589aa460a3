#include "tools/shoal/preview.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/json.h"
#include "node/core/facts/options.h"
#include "tools/shoal/render.h"

#define SAMPLES 3 /* trials whose hyperparameters are shown */
#define PACKED_BYTES ((SAMPLES + 1) * SEARCH_VALUES_BYTES_MAX)
#define TEXT_BYTES (8 * PACKED_BYTES) /* JSON escapes a byte with six at most */

/* A search, and what it would be if all trials of a bracket reported at the same time. */
struct plan {
    const struct config *config;
    struct search_space space;
    uint32_t trials;
    struct search_halving halving; /* of searchers that halve, as the rest */
    struct search_brackets brackets;
    uint32_t reach[SEARCH_BRACKETS_MAX][SEARCH_RUNGS_MAX];
    uint64_t units, full_units; /* all trials together; so if none were stopped */
};

static void make_plan(const struct config *config, struct plan *out)
{
    *out = (struct plan){.config = config, .space = config_search_space(config)};
    (void)search_trial_count(&out->space, &out->trials); /* the configuration has been checked */
    if (!search_halves(config->searcher)) {
        return;
    }
    out->halving = config_search_halving(config);
    out->full_units = out->trials * out->halving.max_time;
    search_brackets_make(&out->halving, &out->brackets);
    for (uint32_t b = 0; b < out->brackets.count; b++) {
        out->units += search_bracket_preview(&out->halving, &out->brackets.list[b], out->reach[b]);
    }
}

static uint64_t target(const struct plan *plan, uint32_t bracket, uint32_t rung)
{
    return search_rung_target(&plan->halving, plan->brackets.list[bracket].rungs, rung);
}

static const char *searcher_name(const struct config *config)
{
    return config_option_find("searcher.name")->words[config->searcher];
}

static unsigned percent(const struct plan *plan)
{
    double part = 100 * (double)plan->units / (double)plan->full_units;
    return part < 1 ? 1 : (unsigned)(part + 0.5);
}

void preview_line(const struct config *config, char out[PREVIEW_LINE_BYTES])
{
    struct plan plan;
    make_plan(config, &plan);
    out[0] = '\0';
    bool is_custom = config->searcher == SEARCH_CUSTOM;
    int used = plan.trials > 1
                   ? snprintf(out, PREVIEW_LINE_BYTES, "%s%" PRIu32 " trials", is_custom ? "up to " : "", plan.trials)
                   : 0;
    if (used > 0 && config->searcher == SEARCH_PBT) {
        (void)snprintf(out + used, PREVIEW_LINE_BYTES - (size_t)used, " in %" PRIu32 " rounds of %" PRIu64 " %s",
                       config->num_rounds, config->max_time, config->time_metric);
    } else if (used > 0 && search_halves(config->searcher)) {
        (void)snprintf(out + used, PREVIEW_LINE_BYTES - (size_t)used, " in %" PRIu32 " bracket%s, about %u %% of the %s of %" PRIu32 " full trials",
                       plan.brackets.count, plan.brackets.count == 1 ? "" : "s", percent(&plan), config->time_metric, plan.trials);
    }
}

/* The trials whose values are shown: where values follow from results, the first ones are random whatever comes. */
static uint32_t sample_count(const struct plan *plan)
{
    uint32_t known = plan->config->searcher == SEARCH_CUSTOM ? 0
                     : plan->config->searcher == SEARCH_PBT  ? plan->config->population_size
                     : config_is_drawn(plan->config)         ? plan->config->n_startup_trials
                                                             : SAMPLES;
    uint32_t most = plan->trials < SAMPLES ? plan->trials : SAMPLES;
    return known < most ? known : most;
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static void write_brackets(struct cli *cli, const struct plan *plan)
{
    struct table table = {0};
    table_column(&table, "BRACKET", true);
    table_column(&table, "TRIALS", true);
    table_column(&table, "AT A TIME", true);
    table_column(&table, "RUNG", true);
    table_column(&table, plan->config->time_metric, true);
    table_column(&table, "REACHED BY", true);
    for (uint32_t b = 0; b < plan->brackets.count; b++) {
        const struct search_bracket *bracket = &plan->brackets.list[b];
        for (uint32_t rung = 0; rung < bracket->rungs; rung++) {
            if (rung == 0) {
                table_cell(&table, RENDER_PLAIN, "%" PRIu32, b);
                table_cell(&table, RENDER_PLAIN, "%" PRIu32, bracket->trials);
                table_cell(&table, RENDER_PLAIN, "%" PRIu32, bracket->concurrent);
            } else {
                table_cell(&table, RENDER_PLAIN, "%s", "");
                table_cell(&table, RENDER_PLAIN, "%s", "");
                table_cell(&table, RENDER_PLAIN, "%s", "");
            }
            table_cell(&table, RENDER_PLAIN, "%" PRIu32, rung);
            table_cell(&table, RENDER_PLAIN, "%" PRIu64, target(plan, b, rung));
            table_cell(&table, RENDER_PLAIN, "%" PRIu32, plan->reach[b][rung]);
        }
    }
    (void)fputc('\n', cli->out);
    table_write(&table, cli->out, cli->colours);
    (void)fprintf(cli->out,
                  "\nIf all trials of a bracket reported at the same time, they would train %" PRIu64
                  "\n%s together, %u %% of the %" PRIu64 " of %" PRIu32 " full trials. %s\n",
                  plan->units, plan->config->time_metric, percent(plan), plan->full_units, plan->trials,
                  plan->halving.promotes
                      ? "A real search trains\nsomewhat more: a trial that has gone on is not taken back."
                      : "A real search trains\nmore: the first trials at a rung are compared with few others.");
    for (uint32_t b = 0; b < plan->brackets.count; b++) {
        const struct search_bracket *bracket = &plan->brackets.list[b];
        if (plan->reach[b][bracket->rungs - 1] == 0) {
            (void)fprintf(cli->out,
                          "No trial of bracket %" PRIu32
                          " would reach its last rung then; with more trials or fewer\nrungs some would.\n",
                          b);
        }
    }
}

/* The values of a trial, or all of a document, as one line of JSON. */
static int write_packed(struct cli *cli, const uint8_t *bytes, size_t count, char *text)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    if (json_from_pack(&reader, text, TEXT_BYTES) != 0) {
        return cli_fail(cli, CLI_REFUSED, "the hyperparameters are too large to be shown");
    }
    (void)fprintf(cli->out, "%s\n", text);
    return CLI_DONE;
}

static int write_text(struct cli *cli, const struct plan *plan, uint8_t *bytes, char *text)
{
    const struct config *config = plan->config;
    bool halves = search_halves(config->searcher);
    (void)fprintf(cli->out, "%s: %s%" PRIu32 " trial%s", searcher_name(config),
                  config->searcher == SEARCH_CUSTOM ? "up to " : "", plan->trials, plan->trials == 1 ? "" : "s");
    if (halves) {
        (void)fprintf(cli->out, " in %" PRIu32 " bracket%s, %s by %s (the %s is the best)", plan->brackets.count,
                      plan->brackets.count == 1 ? "" : "s", config->promotes ? "paused and promoted" : "stopped", config->metric, config->smaller_is_better ? "smallest" : "largest");
    }
    if (search_judges(config->searcher) && !halves) {
        (void)fprintf(cli->out, ", compared by %s (the %s is the best)", config->metric,
                      config->smaller_is_better ? "smallest" : "largest");
    }
    uint32_t most = config->max_concurrent_trials;
    most = config->searcher == SEARCH_PBT && (most == 0 || most > config->population_size) ? config->population_size : most;
    if (most > 0 && !halves) {
        (void)fprintf(cli->out, ", at most %" PRIu32 " at a time", most);
    }
    (void)fputc('\n', cli->out);
    if (halves) {
        write_brackets(cli, plan);
    }
    int code = CLI_DONE;
    uint32_t samples = sample_count(plan);
    (void)fputc('\n', cli->out);
    if (config->searcher == SEARCH_CUSTOM) {
        (void)fprintf(cli->out,
                      "The program (%s) says which trials there are. It is told\nof each trial %" PRIu64
                      " time%s until %" PRIu64 " %s, and of its end.\n",
                      config->searcher_entrypoint, config_report_count(config), config_report_count(config) == 1 ? "" : "s",
                      config->max_time, config->time_metric);
    } else if (config->searcher == SEARCH_PBT) {
        uint32_t replaced = pbt_replaced(config->population_size, config->truncate_fraction);
        (void)fprintf(cli->out, "%" PRIu32 " rounds of %" PRIu64 " %s, of a population of %" PRIu32 ".", config->num_rounds,
                      config->max_time, config->time_metric, config->population_size);
        if (replaced == 1) {
            (void)fputs(" After each round the worst\nmember is replaced by a copy of the best, with other values.\n",
                        cli->out);
        } else if (replaced > 0) {
            (void)fprintf(cli->out,
                          " After each round the worst %" PRIu32
                          "\nmembers are replaced by copies of the best, with other values.\n",
                          replaced);
        } else {
            (void)fputs("\nNo member is replaced, since searcher.truncate_fraction of the population is below 1.\n",
                        cli->out);
        }
        (void)fputs("The values of the first round are random:\n", cli->out);
    } else if (config_is_drawn(config) && config->n_startup_trials >= plan->trials) {
        (void)fprintf(cli->out, "All values are random, since searcher.n_startup_trials (%" PRIu32 ") is not below the number of trials:\n",
                      config->n_startup_trials);
    } else if (config_is_drawn(config) && config->n_startup_trials > 0) {
        (void)fprintf(cli->out, "Values are random until %" PRIu32 " trial%s, then drawn from results:\n", config->n_startup_trials,
                      halves ? "s or more have reached a rung" : config->n_startup_trials == 1 ? " is over" : "s are over");
    } else if (config_is_drawn(config)) {
        (void)fputs("Values are drawn from what earlier trials have reached.\n", cli->out);
    }
    for (uint32_t trial = 0; trial < samples && code == CLI_DONE; trial++) {
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, PACKED_BYTES);
        (void)search_trial_values(&plan->space, config->seed, trial, &writer);
        (void)fprintf(cli->out, "trial %" PRIu32 ": ", trial);
        code = write_packed(cli, bytes, writer.used_bytes, text);
    }
    if (plan->trials > samples && samples > 0) {
        (void)fputs("...\n", cli->out);
    }
    return code;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static void pack_number(struct pack_writer *writer, const char *key, uint64_t number)
{
    pack_text(writer, key);
    pack_u64(writer, number);
}

static void pack_brackets(struct pack_writer *writer, const struct plan *plan)
{
    pack_text(writer, "brackets");
    pack_array(writer, plan->brackets.count);
    for (uint32_t b = 0; b < plan->brackets.count; b++) {
        const struct search_bracket *bracket = &plan->brackets.list[b];
        pack_map(writer, 3);
        pack_number(writer, "trials", bracket->trials);
        pack_number(writer, "concurrent", bracket->concurrent);
        pack_text(writer, "rungs");
        pack_array(writer, bracket->rungs);
        for (uint32_t rung = 0; rung < bracket->rungs; rung++) {
            pack_map(writer, 2);
            pack_number(writer, "length", target(plan, b, rung));
            pack_number(writer, "trials", plan->reach[b][rung]);
        }
    }
}

static int write_json(struct cli *cli, const struct plan *plan, uint8_t *bytes, char *text)
{
    const struct config *config = plan->config;
    bool halves = search_halves(config->searcher);
    uint32_t samples = sample_count(plan);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, PACKED_BYTES);
    bool is_pbt = config->searcher == SEARCH_PBT, is_custom = config->searcher == SEARCH_CUSTOM;
    pack_map(&writer, halves ? 11 : is_pbt ? 11 : is_custom ? 10 : 6);
    pack_text(&writer, "searcher");
    pack_text(&writer, searcher_name(config));
    pack_text(&writer, "metric");
    pack_text(&writer, config->metric);
    pack_text(&writer, "smaller_is_better");
    pack_bool(&writer, config->smaller_is_better);
    pack_number(&writer, "trials", plan->trials);
    pack_number(&writer, "max_concurrent_trials", config->max_concurrent_trials);
    pack_text(&writer, "hyperparameters");
    pack_array(&writer, samples);
    for (uint32_t trial = 0; trial < samples; trial++) {
        (void)search_trial_values(&plan->space, config->seed, trial, &writer);
    }
    if (halves) {
        pack_text(&writer, "stop_once");
        pack_bool(&writer, !config->promotes);
        pack_text(&writer, "time_metric");
        pack_text(&writer, config->time_metric);
        pack_brackets(&writer, plan);
        pack_number(&writer, "length", plan->units);
        pack_number(&writer, "full_length", plan->full_units);
    } else if (is_pbt) {
        pack_text(&writer, "time_metric");
        pack_text(&writer, config->time_metric);
        pack_number(&writer, "population", config->population_size);
        pack_number(&writer, "rounds", config->num_rounds);
        pack_number(&writer, "length_per_round", config->max_time);
        pack_number(&writer, "replaced", pbt_replaced(config->population_size, config->truncate_fraction));
    } else if (is_custom) {
        pack_text(&writer, "time_metric");
        pack_text(&writer, config->time_metric);
        pack_text(&writer, "program");
        pack_text(&writer, config->searcher_entrypoint);
        pack_number(&writer, "reports", config_report_count(config));
        pack_number(&writer, "length", config->max_time);
    }
    return write_packed(cli, bytes, writer.used_bytes, text);
}

int preview_show(struct cli *cli, const struct config *config)
{
    struct plan plan;
    uint8_t *bytes = malloc(PACKED_BYTES);
    char *text = malloc(TEXT_BYTES);
    int code = CLI_REFUSED;
    make_plan(config, &plan);
    if (bytes == NULL || text == NULL) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    } else {
        code = cli->json ? write_json(cli, &plan, bytes, text) : write_text(cli, &plan, bytes, text);
    }
    free(bytes);
    free(text);
    return code;
}
