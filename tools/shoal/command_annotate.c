/* What users note about experiments and trials: label, describe, archive, unarchive, pin, unpin; and what they may set: the priority,
 * max_slots, and further trials. */

#include <string.h>

#include "base/document.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"
#include "node/core/facts/options.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/target.h"

/* An experiment that notes are made about. */
struct noted {
    const char *typed;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    unsigned long long stored_on; /* the fewest nodes that any note is on */
};

static int find(struct client *client, const char *typed, struct noted *out)
{
    *out = (struct noted){.typed = typed, .stored_on = UINT64_MAX};
    return client_find_experiment(client, typed, out->id);
}

/* One note. `label` and `value` may be NULL: the note has none. */
static int note(struct client *client, const char *op, struct noted *noted, const char *label, const char *value, bool removes,
                struct reply *reply)
{
    client_begin(client, op, 2u + (label != NULL) + (value != NULL));
    pack_text(&client->request, "experiment");
    pack_text(&client->request, noted->id);
    pack_text(&client->request, "remove");
    pack_bool(&client->request, removes);
    if (label != NULL) {
        pack_text(&client->request, "label");
        pack_text(&client->request, label);
    }
    if (value != NULL) {
        pack_text(&client->request, "value");
        pack_text(&client->request, value);
    }
    int code = client_ask(client, CLIENT_ANSWER_MS, reply);
    unsigned long long stored_on = code == CLI_DONE ? document_number(&reply->document, "stored_on") : 0;
    noted->stored_on = stored_on < noted->stored_on ? stored_on : noted->stored_on;
    return code;
}

static void tell(struct cli *cli, const struct noted *noted, const char *done, const struct reply *reply)
{
    char named[PRINT_NAMED_BYTES];
    print_named(named, noted->typed, noted->id);
    if (cli->json) {
        (void)document_write_reply_json(cli->out, &reply->document);
    } else {
        (void)fprintf(cli->out, "%s %s, stored on %llu node%s\n", named, done, noted->stored_on, noted->stored_on == 1 ? "" : "s");
    }
}

/* Cuts "NAME=VALUE" in two; `*value` is NULL without a '='. */
static int split_label(struct cli *cli, const char *text, bool removes, char name[FACT_LABEL_BYTES], const char **value)
{
    const char *equals = strchr(text, '=');
    size_t bytes = equals != NULL ? (size_t)(equals - text) : strlen(text);
    if (bytes == 0 || bytes >= FACT_LABEL_BYTES) {
        return cli_fail(cli, CLI_USAGE, "%.80s names no label; the name has 1 to %d bytes, such as best or lr=low", text[0] == '\0' ? "''" : text,
                        FACT_LABEL_BYTES - 1);
    }
    if (removes && equals != NULL) {
        return cli_fail(cli, CLI_USAGE, "--remove takes the names of labels without their values, so %.*s", (int)bytes, text);
    }
    memcpy(name, text, bytes);
    name[bytes] = '\0';
    *value = equals != NULL ? equals + 1 : NULL;
    return CLI_DONE;
}

int command_label(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct noted noted;
    struct reply reply;
    char name[FACT_LABEL_BYTES];
    const char *value;
    bool removes = options_has(arguments, "remove");
    int code = CLI_DONE;
    for (size_t i = 1; i < arguments->operand_count && code == CLI_DONE; i++) { /* a mistake is told before anything is changed */
        code = split_label(cli, arguments->operands[i], removes, name, &value);
    }
    code = code == CLI_DONE ? client_open(cli, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    code = find(&client, arguments->operands[0], &noted);
    for (size_t i = 1; i < arguments->operand_count && code == CLI_DONE; i++) {
        (void)split_label(cli, arguments->operands[i], removes, name, &value);
        code = note(&client, "label", &noted, name, value, removes, &reply);
    }
    if (code == CLI_DONE) {
        tell(cli, &noted, removes ? "unlabelled" : "labelled", &reply);
    }
    client_close(&client);
    return code;
}

/* What a user notes about one trial. */
static int describe_trial(struct client *client, const struct target *target, struct noted *noted, const char *text, struct reply *reply)
{
    client_begin(client, "describe_trial", 3);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, noted->id);
    pack_text(&client->request, "trial");
    pack_u64(&client->request, target->trial);
    pack_text(&client->request, "value");
    pack_text(&client->request, text);
    int code = client_ask(client, CLIENT_ANSWER_MS, reply);
    noted->stored_on = code == CLI_DONE ? document_number(&reply->document, "stored_on") : 0;
    return code;
}

int command_describe(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct noted noted;
    struct reply reply;
    struct target target;
    char done[48] = "described";
    const char *text = arguments->operands[1];
    int code = target_read(cli, arguments->operands[0], false, false, &target);
    if (code == CLI_DONE && strlen(text) >= FACT_NOTE_BYTES) {
        code = cli_fail(cli, CLI_USAGE, "the description is longer than %d bytes", FACT_NOTE_BYTES - 1);
    }
    code = code == CLI_DONE ? client_open(cli, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    code = find(&client, target.experiment, &noted);
    if (code == CLI_DONE && target.has_trial) {
        (void)snprintf(done, sizeof done, "trial %llu described", (unsigned long long)target.trial);
        code = describe_trial(&client, &target, &noted, text, &reply);
    } else if (code == CLI_DONE) {
        code = note(&client, "describe", &noted, NULL, text, false, &reply);
    }
    if (code == CLI_DONE) {
        tell(cli, &noted, done, &reply);
    }
    client_close(&client);
    return code;
}

/* One note about each operand. A refusal of one does not keep the others from being noted. */
static int mark_all(struct cli *cli, const struct arguments *arguments, const char *op, bool removes, const char *done)
{
    struct client client;
    struct noted noted[OPERANDS_MAX];
    int code = client_open(cli, &client), worst = CLI_DONE;
    if (code != CLI_DONE) {
        return code;
    }
    for (size_t i = 0; i < arguments->operand_count && code == CLI_DONE; i++) {
        code = find(&client, arguments->operands[i], &noted[i]);
    }
    for (size_t i = 0; i < arguments->operand_count && code == CLI_DONE; i++) {
        struct reply reply;
        int result = note(&client, op, &noted[i], NULL, NULL, removes, &reply);
        if (result == CLI_DONE) {
            tell(cli, &noted[i], done, &reply);
        }
        worst = result > worst ? result : worst;
        code = result == CLI_NO_DAEMON || result == CLI_TIMED_OUT ? result : CLI_DONE;
    }
    client_close(&client);
    return code != CLI_DONE ? code : worst;
}

int command_archive(struct cli *cli, const struct arguments *arguments)
{
    return mark_all(cli, arguments, "archive", false, "archived");
}

int command_unarchive(struct cli *cli, const struct arguments *arguments)
{
    return mark_all(cli, arguments, "archive", true, "unarchived");
}

int command_pin(struct cli *cli, const struct arguments *arguments)
{
    return mark_all(cli, arguments, "pin", false, "pinned");
}

int command_unpin(struct cli *cli, const struct arguments *arguments)
{
    return mark_all(cli, arguments, "pin", true, "unpinned");
}

/* What can be set: a number under the request's own name. */
static const struct settable {
    const char *key, *option; /* `option`: the same as the configuration has it */
    uint64_t max;
    const char *allowed, *before, *behind; /* the number stands between these */
} settable[] = {
    {"priority", "resources.priority", 99, "allowed are 1, the first in the queue, to 99", "has priority", ""},
    {"max_slots", "resources.max_slots", CONFIG_SLOTS_MAX, "allowed are 1 to 256, and not less than slots_per_trial",
     "has groups of at most", " workers, if its program is elastic"},
    {"max_trials", "searcher.max_trials", SEARCH_TRIALS_MAX, "allowed are 1 to 100000: all trials together", "has", " trials"},
};

static int set_number(struct cli *cli, const char *typed, const struct settable *what, const char *text)
{
    struct client client;
    struct noted noted;
    struct reply reply;
    uint64_t number = 0;
    char done[96];
    if (options_number(text, what->max, &number) != 0 || number == 0) {
        return cli_fail(cli, CLI_USAGE, "'%.40s' is no %s; %s", text, what->key, what->allowed);
    }
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = find(&client, typed, &noted);
    if (code == CLI_DONE) {
        client_begin(&client, what->key, 2);
        pack_text(&client.request, "experiment");
        pack_text(&client.request, noted.id);
        pack_text(&client.request, what->key);
        pack_u64(&client.request, number);
        code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    }
    if (code == CLI_DONE) {
        noted.stored_on = document_number(&reply.document, "stored_on");
        (void)snprintf(done, sizeof done, "%s %u%s", what->before, (unsigned)number, what->behind);
        tell(cli, &noted, done, &reply);
    }
    client_close(&client);
    return code;
}

/* The key is one of the configuration's, or inside of one whose value is a map, such as hyperparameters.lr. */
static bool is_option(const char *key, size_t bytes)
{
    bool is_found = false;
    for (size_t i = 0; i < config_option_count && !is_found; i++) {
        size_t length = strlen(config_options[i].key);
        is_found =
            length <= bytes && memcmp(key, config_options[i].key, length) == 0 && (length == bytes || key[length] == '.');
    }
    return is_found;
}

int command_set(struct cli *cli, const struct arguments *arguments)
{
    const char *text = arguments->operands[1];
    size_t bytes = strcspn(text, "=");
    for (size_t i = 0; i < sizeof settable / sizeof settable[0] && text[bytes] == '='; i++) {
        bool is_it = strlen(settable[i].key) == bytes && memcmp(text, settable[i].key, bytes) == 0;
        is_it |= strlen(settable[i].option) == bytes && memcmp(text, settable[i].option, bytes) == 0;
        if (is_it) {
            return set_number(cli, arguments->operands[0], &settable[i], text + bytes + 1);
        }
    }
    for (size_t i = 0; i < sizeof settable / sizeof settable[0]; i++) {
        if (strcmp(settable[i].key, text) == 0 || strcmp(settable[i].option, text) == 0) {
            return cli_fail(cli, CLI_USAGE, "%s lacks its value; write %s=N, where %s", text, settable[i].key, settable[i].allowed);
        }
    }
    if (!is_option(text, bytes)) {
        return cli_fail(cli, CLI_USAGE, "%.*s cannot be changed, only priority=N, max_slots=N and max_trials=N",
                        (int)(bytes < 80 ? bytes : 80), text);
    }
    return cli_fail(cli, CLI_USAGE,
                    "%.*s cannot be changed, only priority=N, max_slots=N and max_trials=N; shoal fork %.80s --set %.80s submits it once more "
                    "with that",
                    (int)bytes, text, arguments->operands[0], text);
}

int command_extend(struct cli *cli, const struct arguments *arguments)
{
    const char *text = options_value(arguments, "max-trials");
    if (text == NULL) {
        return cli_fail(cli, CLI_USAGE, "say how many trials %.80s has then, all together: shoal extend %.80s --max-trials 64",
                        arguments->operands[0], arguments->operands[0]);
    }
    return set_number(cli, arguments->operands[0], &settable[2], text);
}
