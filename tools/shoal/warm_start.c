#include "tools/shoal/warm_start.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "node/config/warm_start.h"
#include "tools/shoal/print.h"
#include "tools/shoal/target.h"

#define KEY "searcher.warm_start"
#define SHARE 4     /* a quarter of the trials, */
#define TAKEN_MAX 16 /* and no more */
#define NAME_BYTES 64

/* A trial of an earlier experiment. */
struct candidate {
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    uint64_t trial;
    bool is_named; /* the user has named the trial, not its experiment */
    double metric;
    size_t order; /* in which the candidates were found */
    char *values; /* the values of what the new experiment searches, as YAML in one line; from malloc */
};

struct warm_start {
    struct cli *cli;
    struct submission *submission;
    struct client client;
    bool is_open; /* the client */
    char *names[WARM_START_MAX];
    size_t name_count;
    FILE *own; /* the file's own initial values, with commas */
    char *own_text;
    size_t own_bytes;
    uint32_t own_count;
    struct config *config;
    uint8_t *scratch;
    struct candidate *list;
    size_t count, slots;
    char problem[CONFIG_SENTENCE_BYTES]; /* of a trial that did not fit */
    bool failed;                         /* no memory is left */
};

static void take_name(void *context, const char *text)
{
    struct warm_start *self = context;
    if (self->name_count < WARM_START_MAX) {
        self->names[self->name_count] = strdup(text);
        self->failed |= self->names[self->name_count] == NULL;
        self->name_count++;
    }
}

static void take_own(void *context, const char *yaml)
{
    struct warm_start *self = context;
    (void)fprintf(self->own, "%s%s", self->own_count > 0 ? ", " : "", yaml);
    self->own_count++;
}

/* The last override that says something of the key came with the file: its names are resolved. */
static bool is_resolved(const struct submission *submission)
{
    bool is = false;
    for (size_t i = 0; i < submission->override_count; i++) {
        is = strncmp(submission->overrides[i], KEY "=", sizeof KEY) == 0 ? i < submission->origin.override_count : is;
    }
    return is;
}

/* Checks the configuration with these initial values. The first line of what is wrong goes to `problem`. */
static bool is_good_with(struct warm_start *self, const char *initial, struct config *config)
{
    const struct submission *submission = self->submission;
    const char *overrides[SUBMISSION_OVERRIDES_MAX + 2];
    char error[CONFIG_ERROR_BYTES];
    char *text = NULL;
    size_t count = submission->override_count, bytes;
    FILE *out = initial != NULL ? open_memstream(&text, &bytes) : NULL;
    memcpy(overrides, submission->overrides, count * sizeof overrides[0]);
    if (out != NULL) {
        (void)fprintf(out, "searcher.initial=[%s]", initial);
        self->failed |= fclose(out) != 0;
        overrides[count++] = text;
    }
    bool is_good = config_parse_yaml(submission->file, submission->text, submission->text_bytes, overrides, count, self->scratch,
                                     CONFIG_SCRATCH_BYTES, config, error) == 0;
    free(text);
    if (!is_good) {
        (void)snprintf(self->problem, sizeof self->problem, "%.*s", (int)strcspn(error, "\n"), error);
    }
    return is_good;
}

/* The value under a dotted name in nested maps; NULL: none. */
static const msgpack_object *find_nested(const msgpack_object *map, const char *name)
{
    const msgpack_object *whole = document_find(map, name);
    const char *dot = strchr(name, '.');
    if (whole->type != MSGPACK_OBJECT_NIL || dot == NULL) {
        return whole->type != MSGPACK_OBJECT_NIL ? whole : NULL;
    }
    char segment[SEARCH_NAME_BYTES];
    (void)snprintf(segment, sizeof segment, "%.*s", (int)(dot - name), name);
    return find_nested(document_find(map, segment), dot + 1);
}

/* The values of what is searched, as YAML; from malloc, NULL: no memory. What the trial does not have is left out: its parameter may
 * be inactive. */
static char *values_of(const struct config *config, const msgpack_object *values)
{
    struct pack_reader reader;
    struct search_head head;
    struct search_parameter parameter;
    uint32_t count;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    const char *before = "";
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    if (out == NULL || search_head_read(&reader, &head, &count) != 0) {
        return NULL;
    }
    (void)fputc('{', out);
    for (uint32_t i = 0; i < count && search_parameter_read(&reader, &parameter) == 0; i++) {
        const msgpack_object *value = parameter.kind != SEARCH_CONST ? find_nested(values, parameter.name) : NULL;
        if (value != NULL) {
            (void)fprintf(out, "%s\"%s\": ", before, parameter.name);
            (void)document_write_json(out, value);
            before = ", ";
        }
    }
    (void)fputc('}', out);
    (void)fclose(out);
    for (char *c = text; c != NULL && *c != '\0'; c++) { /* each JSON value ends in a newline; those inside of texts are escaped */
        *c = *c == '\n' ? ' ' : *c;
    }
    return text;
}

/* True if the trial has a value of everything that is searched unconditionally: else the experiments have other hyperparameters. */
static bool has_all(struct warm_start *self, const msgpack_object *values)
{
    struct pack_reader reader;
    struct search_head head;
    struct search_parameter parameter;
    uint32_t count;
    pack_reader_init(&reader, self->config->hyperparameters, self->config->hyperparameters_bytes);
    bool has = search_head_read(&reader, &head, &count) == 0;
    for (uint32_t i = 0; has && i < count && search_parameter_read(&reader, &parameter) == 0; i++) {
        if (parameter.kind != SEARCH_CONST && parameter.when_bytes == 0 && find_nested(values, parameter.name) == NULL) {
            (void)snprintf(self->problem, sizeof self->problem, "it has no hyperparameter %s", parameter.name);
            has = false;
        }
    }
    return has;
}

static void add(struct warm_start *self, const struct candidate *candidate)
{
    if (self->count == self->slots) {
        size_t slots = self->slots == 0 ? 64 : 2 * self->slots;
        struct candidate *bigger = realloc(self->list, slots * sizeof *bigger);
        if (bigger == NULL) {
            self->failed = true;
            return;
        }
        self->list = bigger;
        self->slots = slots;
    }
    self->list[self->count] = *candidate;
    self->list[self->count].order = self->count;
    self->count++;
}

/* Takes the trials of an experiment that have the metric, or the one that is named. */
static int take_trials(struct warm_start *self, const struct target *target, const char *id)
{
    struct reply reply;
    client_begin(&self->client, "show", 1);
    pack_text(&self->client.request, "experiment");
    pack_text(&self->client.request, id);
    int code = client_ask(&self->client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array rows = document_list(document_find(&reply.document, "experiment"), "trials");
    size_t before = self->count, with_metric = 0;
    for (uint32_t i = 0; i < rows.size && !self->failed; i++) {
        const msgpack_object *row = &rows.ptr[i], *values = document_find(row, "hyperparameters");
        struct candidate candidate = {.trial = document_number(row, "index"), .is_named = target->has_trial};
        bool is_it = !target->has_trial || candidate.trial == target->trial;
        bool has_metric = print_metric(row, "validation", self->config->metric, &candidate.metric) && isfinite(candidate.metric);
        with_metric += has_metric;
        if (!is_it || (!has_metric && !target->has_trial) || !has_all(self, values)) {
            continue;
        }
        (void)snprintf(candidate.id, sizeof candidate.id, "%s", id);
        candidate.values = values_of(self->config, values);
        self->failed |= candidate.values == NULL;
        add(self, &candidate);
    }
    if (self->count > before || self->failed) {
        return CLI_DONE;
    }
    if (target->has_trial && target->trial >= rows.size) {
        return cli_fail(self->cli, CLI_NO_SUCH_THING, KEY ": %s has no trial %llu; shoal show %s lists them", target->experiment,
                        (unsigned long long)target->trial, target->experiment);
    }
    if (!target->has_trial && with_metric == 0) {
        return cli_fail(self->cli, CLI_REFUSED, KEY ": no trial of %s has reported %s in its validation, by which the new trials are compared",
                        target->experiment, self->config->metric);
    }
    return cli_fail(self->cli, CLI_REFUSED, KEY ": no trial of %s has the hyperparameters that are searched: %s", target->experiment,
                    self->problem);
}

static int take_named(struct warm_start *self, const char *name)
{
    struct target target;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    self->cli->about = KEY ": ";
    int code = target_read(self->cli, name, strchr(name, '/') != NULL, false, &target);
    code = code == CLI_DONE ? client_find_experiment(&self->client, target.experiment, id) : code;
    self->cli->about = NULL;
    return code == CLI_DONE ? take_trials(self, &target, id) : code;
}

/* Trials that the user has named come first, as they were named; then the better ones. */
static int compare(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->is_named != b->is_named) {
        return a->is_named ? -1 : 1;
    }
    if (!a->is_named && a->metric != b->metric) {
        return a->metric < b->metric ? -1 : 1;
    }
    return a->order < b->order ? -1 : 1;
}

static bool is_repeated(const struct candidate *const *taken, size_t count, const struct candidate *candidate)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(taken[i]->values, candidate->values) == 0) {
            return true;
        }
    }
    return false;
}

/* Chooses among the candidates. Returns how many were taken. */
static size_t choose(struct warm_start *self, const struct candidate *taken[TAKEN_MAX])
{
    uint32_t trials = self->config->max_trials, room = trials > self->own_count ? trials - self->own_count : 0;
    uint32_t most = trials / SHARE > 0 ? trials / SHARE : 1;
    size_t count = 0;
    most = most < room ? most : room;
    most = most < TAKEN_MAX ? most : TAKEN_MAX;
    for (size_t i = 0; i < self->count && !self->config->smaller_is_better; i++) {
        self->list[i].metric = -self->list[i].metric;
    }
    qsort(self->list, self->count, sizeof *self->list, compare);
    for (size_t i = 0; i < self->count && count < most; i++) {
        struct config config;
        if (!is_repeated(taken, count, &self->list[i]) && is_good_with(self, self->list[i].values, &config)) {
            taken[count++] = &self->list[i];
        }
    }
    return count;
}

static char *text_of(const char *key, const char *own, const struct candidate *const *taken, size_t count, bool is_initial)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    const char *before = own[0] != '\0' ? ", " : "";
    if (out == NULL) {
        return NULL;
    }
    (void)fprintf(out, "%s=[%s", key, own);
    for (size_t i = 0; i < count; i++) {
        (void)fputs(before, out);
        if (is_initial) {
            (void)fputs(taken[i]->values, out);
        } else {
            (void)fprintf(out, "\"%s/%llu\"", taken[i]->id, (unsigned long long)taken[i]->trial);
        }
        before = ", ";
    }
    (void)fputc(']', out);
    return fclose(out) == 0 ? text : NULL;
}

/* The new overrides, in place of the names. */
static int replace(struct warm_start *self)
{
    const struct candidate *taken[TAKEN_MAX];
    struct submission *submission = self->submission;
    size_t count = choose(self, taken);
    if (count == 0) {
        return cli_fail(self->cli, CLI_REFUSED, KEY ": no trial of these experiments fits the search space, or initial has left no trial: %s",
                        self->problem[0] != '\0' ? self->problem : "all trials have values of initial");
    }
    if (submission->override_count + 2 > SUBMISSION_OVERRIDES_MAX) {
        return cli_fail(self->cli, CLI_USAGE, "there are more than %d --set, with those of " KEY "; write the values into the file",
                        SUBMISSION_OVERRIDES_MAX);
    }
    submission->resolved[0] = text_of("searcher.initial", self->own_text, taken, count, true);
    submission->resolved[1] = text_of(KEY, "", taken, count, false);
    if (submission->resolved[0] == NULL || submission->resolved[1] == NULL) {
        return cli_fail(self->cli, CLI_REFUSED, "no memory is left");
    }
    submission->overrides[submission->override_count++] = submission->resolved[0];
    submission->overrides[submission->override_count++] = submission->resolved[1];
    if (!self->cli->json) {
        (void)fprintf(self->cli->err, "the first trials begin with the values of %zu earlier one%s: %s\n", count, count == 1 ? "" : "s",
                      submission->resolved[1] + sizeof KEY);
    }
    return CLI_DONE;
}

static int resolve(struct warm_start *self)
{
    struct config config;
    self->scratch = malloc(CONFIG_SCRATCH_BYTES);
    self->config = malloc(sizeof *self->config);
    if (self->scratch == NULL || self->config == NULL) {
        return cli_fail(self->cli, CLI_REFUSED, "no memory is left");
    }
    if (!is_good_with(self, NULL, &config) || !search_draws(config.searcher)) {
        return CLI_DONE; /* submission_check tells what is wrong with the file */
    }
    uint8_t *kept = malloc(CONFIG_SCRATCH_BYTES); /* of the configuration without further initial values */
    uint8_t *other = self->scratch;
    if (kept == NULL) {
        return cli_fail(self->cli, CLI_REFUSED, "no memory is left");
    }
    *self->config = config; /* borrows from `other`, which stays as it is */
    self->scratch = kept;
    int code = client_open(self->cli, &self->client);
    self->is_open = code == CLI_DONE;
    for (size_t i = 0; i < self->name_count && code == CLI_DONE; i++) {
        code = take_named(self, self->names[i]);
    }
    code = code == CLI_DONE && self->failed ? cli_fail(self->cli, CLI_REFUSED, "no memory is left") : code;
    code = code == CLI_DONE ? replace(self) : code;
    free(other);
    return code;
}

int warm_start_resolve(struct cli *cli, struct submission *submission)
{
    struct warm_start self = {.cli = cli, .submission = submission};
    if (is_resolved(submission) || submission->override_count > SUBMISSION_OVERRIDES_MAX) {
        return CLI_DONE;
    }
    self.own = open_memstream(&self.own_text, &self.own_bytes);
    self.failed = self.own == NULL || warm_start_read(submission->text, submission->text_bytes, submission->overrides,
                                                      submission->override_count, take_name, take_own, &self) != 0;
    self.failed |= self.own != NULL && fclose(self.own) != 0;
    int code = CLI_DONE;
    if (self.failed) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    } else if (self.name_count > 0) {
        code = resolve(&self);
    }
    if (self.is_open) {
        client_close(&self.client);
    }
    for (size_t i = 0; i < self.name_count; i++) {
        free(self.names[i]);
    }
    for (size_t i = 0; i < self.count; i++) {
        free(self.list[i].values);
    }
    free(self.list);
    free(self.own_text);
    free(self.config);
    free(self.scratch);
    return code;
}
