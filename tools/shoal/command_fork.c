/* fork, reproduce: an experiment once more, with changes or as it was. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/document.h"
#include "tools/shoal/original.h"
#include "tools/shoal/print.h"
#include "tools/shoal/submission.h"
#include "tools/shoal/target.h"

#define NAME_BYTES 256
#define FILE_BYTES 128
#define OWN_MAX 9 /* overrides of the commands themselves */

struct fork {
    struct client client;
    bool is_open; /* the client */
    struct original original;
    struct submission submission;
    char file[FILE_BYTES]; /* the name of the configuration in sentences */
    char *own[OWN_MAX];    /* from malloc */
    size_t own_count;
};

/* Keeps an override of the command's own. */
static int add_own(struct fork *fork, const char *text)
{
    fork->own[fork->own_count] = strdup(text);
    if (fork->own[fork->own_count] == NULL) {
        return cli_fail(fork->client.cli, CLI_REFUSED, "no memory is left");
    }
    fork->own_count++;
    return CLI_DONE;
}

/* Writes a text in single quotes, as YAML has them: a quote inside is doubled. */
static void quote(char *out, size_t size, const char *text)
{
    size_t used = 0;
    out[used++] = '\'';
    for (; *text != '\0' && used + 3 < size; text++) {
        out[used++] = *text;
        if (*text == '\'') {
            out[used++] = *text;
        }
    }
    out[used++] = '\'';
    out[used] = '\0';
}

/* "NAME-2", or the first number behind a '-' that no experiment has: two of one name could not be told apart on the command line. */
static int name_fork(struct fork *fork)
{
    struct reply reply;
    char name[NAME_BYTES], quoted[2 * NAME_BYTES], text[2 * NAME_BYTES + 16];
    client_begin(&fork->client, "ls", 0);
    int code = client_ask(&fork->client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply.document, "experiments");
    for (unsigned number = 2;; number++) {
        bool is_taken = false;
        (void)snprintf(name, sizeof name, "%.*s-%u", CONFIG_NAME_BYTES - 12, fork->original.name, number);
        for (uint32_t i = 0; i < list.size; i++) {
            char listed[NAME_BYTES];
            document_text(&list.ptr[i], "name", listed, sizeof listed);
            is_taken |= strcmp(listed, name) == 0;
        }
        if (!is_taken) {
            quote(quoted, sizeof quoted, name);
            (void)snprintf(text, sizeof text, "name=%s", quoted);
            return add_own(fork, text);
        }
    }
}

/* Reads the original and makes a submission of it; `given` are the user's overrides. */
static int begin(struct cli *cli, struct fork *fork, const char *experiment)
{
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = submission_begin(cli, &fork->submission);
    code = code == CLI_DONE ? client_open(cli, &fork->client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    fork->is_open = true;
    code = client_find_experiment(&fork->client, experiment, id);
    code = code == CLI_DONE ? original_read(&fork->client, id, &fork->original) : code;
    if (code == CLI_DONE && !fork->original.has_origin) {
        cli_warn(cli, "%s was submitted by an older version, so what --set changed then is not known", fork->original.name);
    }
    return code == CLI_DONE ? name_fork(fork) : code;
}

/* Hands the submission to the daemon. `from`: which experiment or trial it is made from. */
static int deliver(struct cli *cli, struct fork *fork, const char *from, const char *const *given, size_t given_count)
{
    struct submission *submission = &fork->submission;
    struct original *original = &fork->original;
    struct client client;
    if (original->origin.override_count + fork->own_count + given_count > SUBMISSION_OVERRIDES_MAX) {
        return cli_fail(cli, CLI_USAGE, "there are more than %d --set, with those of %s; write the values into its file (shoal config --file)",
                        SUBMISSION_OVERRIDES_MAX, original->name);
    }
    for (size_t i = 0; i < original->origin.override_count; i++) {
        submission->overrides[submission->override_count++] = original->origin.overrides[i];
    }
    for (size_t i = 0; i < fork->own_count; i++) {
        submission->overrides[submission->override_count++] = fork->own[i];
    }
    for (size_t i = 0; i < given_count; i++) {
        submission->overrides[submission->override_count++] = given[i];
    }
    (void)snprintf(fork->file, sizeof fork->file, "%.100s", original->name);
    submission->file = fork->file;
    submission->text = original->text;
    submission->text_bytes = original->text_bytes;
    original->text = NULL;
    (void)snprintf(submission->origin.commit, sizeof submission->origin.commit, "%s", original->origin.commit);
    (void)snprintf(submission->origin.diff, sizeof submission->origin.diff, "%s", original->origin.diff);
    (void)snprintf(submission->origin.from, sizeof submission->origin.from, "%s", from);
    int code = submission_check(cli, submission);
    code = code == CLI_DONE ? original_code(&fork->client, original->id, &submission->archive_fd, &submission->archive_bytes, NULL) : code;
    submission->code_bytes = submission->archive_bytes;
    code = code == CLI_DONE ? submission_append_text(cli, submission) : code;
    if (code == CLI_DONE) {
        client_close(&fork->client);
        fork->is_open = false;
        code = submission_deliver(cli, submission, cli->out, &client);
        client_close(&client);
    }
    return code;
}

static void end(struct fork *fork)
{
    for (size_t i = 0; i < fork->own_count; i++) {
        free(fork->own[i]);
    }
    original_free(&fork->original);
    submission_free(&fork->submission);
    if (fork->is_open) {
        client_close(&fork->client);
    }
}

/* ---- reproduce ----------------------------------------------------------------------------------------------------------- */

/* The trial's values, each as a constant: "hyperparameters={...}". */
static int fix_values(struct fork *fork, const msgpack_object *values)
{
    msgpack_object_map pairs = document_pairs(values);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return cli_fail(fork->client.cli, CLI_REFUSED, "no memory is left");
    }
    (void)fputs("hyperparameters={", out);
    for (uint32_t i = 0; i < pairs.size; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        (void)document_write_json(out, &pairs.ptr[i].key);
        (void)fputs(": {type: const, val: ", out);
        (void)document_write_json(out, &pairs.ptr[i].val);
        (void)fputs("}", out);
    }
    (void)fputs("}", out);
    (void)fclose(out);
    for (char *c = text; c != NULL && *c != '\0'; c++) { /* each JSON value ends in a newline; those inside of texts are escaped */
        *c = *c == '\n' ? ' ' : *c;
    }
    int code = text != NULL ? add_own(fork, text) : cli_fail(fork->client.cli, CLI_REFUSED, "no memory is left");
    free(text);
    return code;
}

static const msgpack_object *find_trial(const msgpack_object *experiment, uint64_t index)
{
    msgpack_object_array list = document_list(experiment, "trials");
    for (uint32_t i = 0; i < list.size; i++) {
        if (document_number(&list.ptr[i], "index") == index) {
            return &list.ptr[i];
        }
    }
    return NULL;
}

/* Which options make a single trial of the given one. */
static int fix_trial(struct fork *fork, uint64_t index)
{
    struct cli *cli = fork->client.cli;
    struct reply reply;
    char metric[128], quoted[2 * sizeof metric], text[512];
    client_begin(&fork->client, "show", 1);
    pack_text(&fork->client.request, "experiment");
    pack_text(&fork->client.request, fork->original.id);
    int code = client_ask(&fork->client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    const msgpack_object *experiment = document_find(&reply.document, "experiment"), *trial = find_trial(experiment, index);
    if (trial == NULL) {
        return cli_fail(cli, CLI_NO_SUCH_THING, "%s has no trial %llu; shoal show %s lists them", fork->original.name,
                        (unsigned long long)index, fork->original.name);
    }
    if (document_find(trial, "hyperparameters")->type != MSGPACK_OBJECT_MAP) {
        return cli_fail(cli, CLI_REFUSED, "the hyperparameters of trial %llu are not drawn yet, or are being fetched from another node; ask again later",
                        (unsigned long long)index);
    }
    document_text(experiment, "metric", metric, sizeof metric);
    quote(quoted, sizeof quoted, metric);
    (void)snprintf(text, sizeof text, "searcher={name: single, metric: %s, smaller_is_better: %s}", quoted,
                   document_true(experiment, "smaller_is_better") ? "true" : "false");
    code = add_own(fork, text);
    return code == CLI_DONE ? fix_values(fork, document_find(trial, "hyperparameters")) : code;
}

static int ask_config(struct fork *fork, struct reply *reply)
{
    client_begin(&fork->client, "config", 1);
    pack_text(&fork->client.request, "experiment");
    pack_text(&fork->client.request, fork->original.id);
    return client_ask(&fork->client, CLIENT_ANSWER_MS, reply);
}

/* The seed of the trial follows from the experiment's and its number. */
static int fix_seed(struct fork *fork, uint64_t index)
{
    struct reply reply;
    char text[64];
    int code = ask_config(fork, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    uint64_t before = document_number(document_find(&reply.document, "config"), "seed_of_trial");
    (void)snprintf(text, sizeof text, "seed_of_trial=%llu", (unsigned long long)(before + index));
    return add_own(fork, text);
}

/* Options that users have changed since the submit (shoal set, extend) are taken over as they are now. */
static int take_changed(struct fork *fork, bool is_search)
{
    struct reply reply;
    int code = ask_config(fork, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    const msgpack_object *submitted = document_find(&reply.document, "changed");
    msgpack_object_map changed = document_pairs(submitted);
    for (uint32_t i = 0; i < changed.size && code == CLI_DONE && fork->own_count < OWN_MAX; i++) {
        char key[64], section[64], text[128];
        document_value_text(&changed.ptr[i].key, key, sizeof key);
        (void)snprintf(section, sizeof section, "%.*s", (int)strcspn(key, "."), key);
        if (key[strlen(section)] == '\0' || (!is_search && strcmp(section, "searcher") == 0)) {
            continue; /* a single trial has a searcher of its own */
        }
        const msgpack_object *options = document_find(document_find(&reply.document, "config"), section);
        (void)snprintf(text, sizeof text, "%s=%llu", key, (unsigned long long)document_number(options, key + strlen(section) + 1));
        code = add_own(fork, text);
        if (code == CLI_DONE && !fork->client.cli->json) {
            (void)fprintf(fork->client.cli->err, "%s is taken over; %s was submitted with %llu\n", text, fork->original.name,
                          (unsigned long long)document_number(submitted, key));
        }
    }
    return code;
}

static void tell_differences(struct cli *cli, const struct fork *fork, const struct target *target)
{
    const struct origin *origin = &fork->original.origin;
    if (origin->version[0] != '\0' && strcmp(origin->version, SHOAL_VERSION) != 0) {
        cli_warn(cli, "it was submitted by Shoal %s, and is now by " SHOAL_VERSION, origin->version);
    }
    if (!cli->json) {
        (void)fprintf(cli->out, "once it is over, shoal compare %.80s/%llu %s/0 tells what differs\n", target->experiment,
                      (unsigned long long)target->trial, fork->submission.id);
    }
}

int command_reproduce(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct fork fork = {.submission = {.archive_fd = -1}};
    char from[ORIGIN_FROM_BYTES];
    int code = target_read(cli, arguments->operands[0], true, false, &target);
    if (code != CLI_DONE) {
        return code;
    }
    code = begin(cli, &fork, target.experiment);
    code = code == CLI_DONE ? fix_trial(&fork, target.trial) : code;
    code = code == CLI_DONE ? fix_seed(&fork, target.trial) : code;
    code = code == CLI_DONE ? take_changed(&fork, false) : code;
    if (code == CLI_DONE) {
        (void)snprintf(from, sizeof from, "%s/%llu", fork.original.id, (unsigned long long)target.trial);
        code = deliver(cli, &fork, from, NULL, 0);
    }
    if (code == CLI_DONE) {
        tell_differences(cli, &fork, &target);
    }
    end(&fork);
    return code;
}

/* ---- fork -------------------------------------------------------------------------------------------------------------------- */

/* The trial goes on from a checkpoint of the one that is forked: of this step, or the newest. */
static int fix_checkpoint(struct fork *fork, const struct target *target)
{
    struct cli *cli = fork->client.cli;
    struct reply reply;
    char text[96];
    client_begin(&fork->client, "checkpoint_ls", 1);
    pack_text(&fork->client.request, "experiment");
    pack_text(&fork->client.request, fork->original.id);
    int code = client_ask(&fork->client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    uint64_t newest = 0;
    msgpack_object_array list = document_list(&reply.document, "checkpoints");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *row = &list.ptr[i];
        bool is_own = document_number(row, "trial") == target->trial && !document_has(row, "path"); /* else files of the program */
        uint64_t step = document_number(row, "step");
        newest = is_own && step > newest ? step : newest;
    }
    if (newest == 0 && !target->has_step) {
        return cli_fail(cli, CLI_NO_SUCH_THING, "trial %llu of %s has no checkpoint to begin with; shoal reproduce %s/%llu begins from nothing",
                        (unsigned long long)target->trial, fork->original.name, fork->original.name, (unsigned long long)target->trial);
    }
    (void)snprintf(text, sizeof text, "checkpoint.begin_from=%s/%llu@%llu", fork->original.id, (unsigned long long)target->trial,
                   (unsigned long long)(target->has_step ? target->step : newest));
    return add_own(fork, text);
}

int command_fork(struct cli *cli, const struct arguments *arguments)
{
    const char *given[SUBMISSION_OVERRIDES_MAX + 1];
    size_t given_count = options_values(arguments, "set", given, SUBMISSION_OVERRIDES_MAX + 1);
    struct target target;
    struct fork fork = {.submission = {.archive_fd = -1}};
    char from[ORIGIN_FROM_BYTES];
    int code = target_read(cli, arguments->operands[0], false, true, &target);
    if (code != CLI_DONE) {
        return code;
    }
    code = begin(cli, &fork, target.experiment);
    (void)snprintf(from, sizeof from, "%s", fork.original.id);
    if (code == CLI_DONE && target.has_trial) {
        code = fix_trial(&fork, target.trial);
        code = code == CLI_DONE ? fix_seed(&fork, target.trial) : code;
        code = code == CLI_DONE ? fix_checkpoint(&fork, &target) : code;
        (void)snprintf(from, sizeof from, "%s/%llu", fork.original.id, (unsigned long long)target.trial);
    }
    code = code == CLI_DONE ? take_changed(&fork, !target.has_trial) : code;
    code = code == CLI_DONE ? deliver(cli, &fork, from, given, given_count) : code;
    end(&fork);
    return code;
}
