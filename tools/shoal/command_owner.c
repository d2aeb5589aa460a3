/* withhold, owner, drain, undrain: which slots and nodes get work, and what has them. */

#include <string.h>
#include <time.h>

#include "base/document.h"
#include "base/units.h"
#include "node/core/facts/facts.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"

#define WAIT_S_MAX (366ull * 86400)
#define WAIT_POLL_MS 300

static const char *nodes_text(uint64_t count)
{
    return count == 1 ? "node" : "nodes";
}

/* ---- withhold ------------------------------------------------------------------------------------------------------ */

static void render_slots(struct cli *cli, const msgpack_object *document, const char *done)
{
    msgpack_object_array list = document_list(document, "slots");
    uint64_t stored_on = document_number(document, "stored_on");
    char node[CLIENT_NODE_TEXT_BYTES];
    document_text(document, "node", node, sizeof node);
    (void)fprintf(cli->out, list.size == 1 ? "slot" : "slots");
    for (uint32_t i = 0; i < list.size; i++) {
        char slot[32];
        document_value(&list.ptr[i], slot, sizeof slot);
        (void)fprintf(cli->out, " %s", slot);
    }
    (void)fprintf(cli->out, "%s%.8s %s, stored on %llu %s\n", node[0] != '\0' ? " of node " : "", node, done,
                  (unsigned long long)stored_on, nodes_text(stored_on));
}

static void render_withheld(struct cli *cli, const msgpack_object *document)
{
    render_slots(cli, document, "withheld");
}

static void render_returned(struct cli *cli, const msgpack_object *document)
{
    render_slots(cli, document, "returned");
}

int command_withhold(struct cli *cli, const struct arguments *arguments)
{
    bool returns = options_has(arguments, "return");
    const char *time_text = options_value(arguments, "for"), *name = options_value(arguments, "node");
    char node[CLIENT_NODE_TEXT_BYTES];
    uint64_t for_s = 0, slots[OPERANDS_MAX];
    if (returns && time_text != NULL) {
        return cli_fail(cli, CLI_USAGE, "--for and --return do not go together: slots are returned at once");
    }
    if (time_text != NULL && (units_read_time(time_text, FACT_WITHHELD_S_MAX, &for_s) != 0 || for_s == 0)) {
        return cli_fail(cli, CLI_USAGE, "--for %.40s is no time; allowed are 90s, 15m, 2h, up to 366d", time_text);
    }
    for (size_t i = 0; i < arguments->operand_count; i++) {
        if (options_number(arguments->operands[i], FACT_SLOTS_MAX - 1, &slots[i]) != 0) {
            return cli_fail(cli, CLI_USAGE, "'%.40s' is no slot of the node; slots are numbers, shoal slots lists them",
                            arguments->operands[i]);
        }
    }
    struct client client;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = name != NULL ? client_find_node(&client, name, node) : CLI_DONE;
    if (code != CLI_DONE) {
        client_close(&client);
        return code;
    }
    const char *op = name != NULL ? (returns ? "node_return" : "node_withhold") : returns ? "return" : "withhold";
    client_begin(&client, op, (returns ? 1u : 2u) + (name != NULL));
    if (name != NULL) {
        pack_text(&client.request, "node");
        pack_text(&client.request, node);
    }
    pack_text(&client.request, "slots");
    pack_array(&client.request, (uint32_t)arguments->operand_count);
    for (size_t i = 0; i < arguments->operand_count; i++) {
        pack_u64(&client.request, slots[i]);
    }
    if (!returns) {
        pack_text(&client.request, "for_s");
        pack_u64(&client.request, for_s);
    }
    code = print_reply(&client, returns ? render_returned : render_withheld);
    client_close(&client);
    return code;
}

/* ---- owner --------------------------------------------------------------------------------------------------------- */

static void write_time(struct cli *cli, const char *word, const msgpack_object *slot, const char *key)
{
    char text[RENDER_UNIT_BYTES];
    uint64_t seconds = document_number(slot, key);
    if (seconds != 0) {
        render_time(text, seconds * 1000);
        (void)fprintf(cli->out, "%s%s", word, text);
    }
}

static void write_slot(struct cli *cli, const msgpack_object *slot)
{
    char state[32], why[32], name[256], experiment[64], user[64], submitter[128];
    document_text(slot, "state", state, sizeof state);
    document_text(slot, "name", name, sizeof name);
    document_text(slot, "experiment", experiment, sizeof experiment);
    document_text(slot, "user", user, sizeof user);
    document_text(slot, "submitter", submitter, sizeof submitter);
    document_text(slot, "why", why, sizeof why);
    (void)fprintf(cli->out, "slot %llu: ", (unsigned long long)document_number(slot, "index"));
    render_text(cli->out, cli->colours, render_state_colour(state), state);
    (void)fprintf(cli->out, "%s%s", why[0] != '\0' ? " by the policy: " : "", why);
    if (experiment[0] != '\0') {
        (void)fprintf(cli->out, ", trial %llu of %s%s%.8s%s", (unsigned long long)document_number(slot, "trial"), name,
                      name[0] != '\0' ? " (" : "", experiment, name[0] != '\0' ? ")" : "");
    }
    if (submitter[0] != '\0') {
        (void)fprintf(cli->out, "%s%s from %s", user[0] != '\0' ? " by " : "", user, submitter);
    }
    write_time(cli, " since ", slot, "since_s");
    if (document_number(slot, "until_s") != 0) {
        write_time(cli, ", withheld until ", slot, "until_s");
    } else if (strcmp(state, "withheld") == 0 && why[0] == '\0') {
        (void)fputs(", until it is returned", cli->out);
    }
    (void)fputc('\n', cli->out);
}

static void render_owner(struct cli *cli, const msgpack_object *document)
{
    char label[128], state[32];
    msgpack_object_array slots = document_list(document, "slots");
    document_text(document, "label", label, sizeof label);
    document_text(document, "state", state, sizeof state);
    if (strcmp(state, "alive") != 0) {
        (void)fprintf(cli->out, "%s is %s: this is what was known last\n", label, state);
    }
    if (document_true(document, "drained")) {
        (void)fprintf(cli->out, "%s is drained: it gets no new work\n", label);
    }
    print_policy(cli->out, label, document_find(document, "policy"));
    for (uint32_t i = 0; i < slots.size; i++) {
        write_slot(cli, &slots.ptr[i]);
    }
    if (slots.size == 0) {
        (void)fprintf(cli->out, "%s has no slots\n", label);
    }
}

int command_owner(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    char node[CLIENT_NODE_TEXT_BYTES];
    bool has_node = arguments->operand_count > 0;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = has_node ? client_find_node(&client, arguments->operands[0], node) : CLI_DONE;
    if (code == CLI_DONE) {
        client_begin(&client, "owner", has_node);
        if (has_node) {
            pack_text(&client.request, "node");
            pack_text(&client.request, node);
        }
        code = print_reply(&client, render_owner);
    }
    client_close(&client);
    return code;
}

/* ---- owner policy -------------------------------------------------------------------------------------------------- */

static void render_rules(struct cli *cli, const msgpack_object *document)
{
    const msgpack_object *policy = document_find(document, "policy");
    char hours[512], label[128], back[UNITS_BYTES];
    uint64_t load = document_number(policy, "load_percent");
    bool is_active = document_true(policy, "activity");
    document_text(policy, "hours", hours, sizeof hours);
    document_text(document, "label", label, sizeof label);
    if (hours[0] == '\0' && load == 0 && !is_active) {
        (void)fprintf(cli->out, "%s has no policy: its slots are the mesh's unless they are withheld\n", label);
    }
    if (hours[0] != '\0') {
        (void)fprintf(cli->out, "hours       %s\n", hours);
    }
    if (load != 0) {
        (void)fprintf(cli->out, "load        %llu%%\n", (unsigned long long)load);
    }
    if (is_active) {
        (void)fputs("activity    yes\n", cli->out);
    }
    if (load != 0 || is_active) {
        units_write_time(back, document_number(policy, "back_after_s"));
        (void)fprintf(cli->out, "back after  %s\n", back);
    }
    print_policy(cli->out, label, policy);
}

static void write_stored(struct cli *cli, const msgpack_object *document, const char *what)
{
    uint64_t stored_on = document_number(document, "stored_on");
    (void)fprintf(cli->out, "%s, stored on %llu %s\n", what, (unsigned long long)stored_on, nodes_text(stored_on));
}

static void render_policy_set(struct cli *cli, const msgpack_object *document)
{
    write_stored(cli, document, "the policy is set");
}

static void render_policy_ended(struct cli *cli, const msgpack_object *document)
{
    write_stored(cli, document, "this machine has no policy now");
}

/* Reads "50" and "50%". */
static bool read_percent(const char *text, uint64_t *out)
{
    char digits[8];
    size_t length = strlen(text);
    length -= length > 0 && text[length - 1] == '%' ? 1 : 0;
    if (length == 0 || length >= sizeof digits) {
        return false;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    return options_number(digits, 100, out) == 0 && *out > 0;
}

static int set_policy(struct cli *cli, struct client *client, const struct arguments *arguments)
{
    const char *hours = options_value(arguments, "hours"), *load = options_value(arguments, "load"),
               *back = options_value(arguments, "back-after");
    bool activity = options_has(arguments, "activity");
    uint64_t percent = 0, back_s = 0;
    if (options_has(arguments, "off") && (hours != NULL || load != NULL || back != NULL || activity)) {
        return cli_fail(cli, CLI_USAGE, "--off goes with no other option: it ends the policy");
    }
    if (load != NULL && !read_percent(load, &percent)) {
        return cli_fail(cli, CLI_USAGE, "--load %.40s is no part of the processors; allowed are 1%% to 100%%", load);
    }
    if (back != NULL && (units_read_time(back, FACT_BACK_AFTER_S_MAX, &back_s) != 0 || (load == NULL && !activity))) {
        return load == NULL && !activity
                   ? cli_fail(cli, CLI_USAGE, "--back-after goes with --load or --activity: hours end by the clock")
                   : cli_fail(cli, CLI_USAGE, "--back-after %.40s is no time; allowed are 90s, 15m, 2h, up to 7d", back);
    }
    client_begin(client, "owner_policy", 1u + (hours != NULL) + (load != NULL) + (back != NULL));
    pack_text(&client->request, "activity");
    pack_bool(&client->request, activity);
    if (hours != NULL) {
        pack_text(&client->request, "hours");
        pack_text(&client->request, hours);
    }
    if (load != NULL) {
        pack_text(&client->request, "load_percent");
        pack_u64(&client->request, percent);
    }
    if (back != NULL) {
        pack_text(&client->request, "back_after_s");
        pack_u64(&client->request, back_s);
    }
    return print_reply(client, options_has(arguments, "off") ? render_policy_ended : render_policy_set);
}

int command_owner_policy(struct cli *cli, const struct arguments *arguments)
{
    static const char *const settings[] = {"hours", "load", "activity", "back-after", "off"};
    struct client client;
    bool sets = false;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        sets |= options_has(arguments, settings[i]) || options_value(arguments, settings[i]) != NULL;
    }
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    if (sets) {
        code = set_policy(cli, &client, arguments);
    } else {
        client_begin(&client, "owner", 0);
        code = print_reply(&client, render_rules);
    }
    client_close(&client);
    return code;
}

/* ---- drain --------------------------------------------------------------------------------------------------------- */

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The node's row in `nodes`; name and state stay empty if there is no such row. */
struct drain_sight {
    char name[128], state[32];
    bool drained, emptied;
};

static int look(struct client *client, const char *id, struct drain_sight *out)
{
    struct reply reply;
    memset(out, 0, sizeof *out);
    client_begin(client, "nodes", 0);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply.document, "nodes");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char row[CLIENT_NODE_TEXT_BYTES];
        document_text(item, "id", row, sizeof row);
        if (strcmp(row, id) == 0) {
            document_node(item, "name", out->name, sizeof out->name);
            document_text(item, "state", out->state, sizeof out->state);
            out->drained = document_true(item, "drained");
            out->emptied = document_true(item, "emptied");
        }
    }
    return CLI_DONE;
}

/* Returns once the drained node has published that no worker runs there. `until_ms` on the clock of clock_ms, 0: for ever. */
static int wait_until_empty(struct client *client, const char *id, uint64_t until_ms)
{
    struct cli *cli = client->cli;
    struct drain_sight sight;
    int code;
    while ((code = look(client, id, &sight)) == CLI_DONE) {
        if ((sight.drained && sight.emptied) || strcmp(sight.state, "left") == 0) {
            return CLI_DONE;
        }
        if (!sight.drained) {
            return cli_fail(cli, CLI_REFUSED, "%.80s has been undrained meanwhile", sight.name);
        }
        if (until_ms != 0 && clock_ms() >= until_ms) {
            return cli_fail(cli, CLI_TIMED_OUT,
                            "%.80s (%s) has not said yet that no worker runs there; shoal slots shows what does",
                            sight.name, sight.state);
        }
        struct timespec pause = {.tv_nsec = WAIT_POLL_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
    return code;
}

/* Sends `op` for the operand's node, or for this node without an operand; `id` becomes the node's id from the reply. */
static int begin(struct client *client, const struct arguments *arguments, const char *op, struct reply *reply,
                 char id[CLIENT_NODE_TEXT_BYTES])
{
    bool has_node = arguments->operand_count > 0;
    int code = has_node ? client_find_node(client, arguments->operands[0], id) : CLI_DONE;
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(client, op, has_node ? 2 : 1);
    if (has_node) {
        pack_text(&client->request, "node");
        pack_text(&client->request, id);
    }
    pack_text(&client->request, "now");
    pack_bool(&client->request, options_has(arguments, "now"));
    code = client_ask(client, CLIENT_ANSWER_MS, reply);
    if (code == CLI_DONE) {
        document_text(&reply->document, "node", id, CLIENT_NODE_TEXT_BYTES);
    }
    return code;
}

static int control(struct cli *cli, const struct arguments *arguments, const char *op, const char *done)
{
    const char *timeout = options_value(arguments, "timeout");
    bool waits = options_has(arguments, "wait");
    uint64_t timeout_s = 0;
    if (timeout != NULL && (!waits || units_read_time(timeout, WAIT_S_MAX, &timeout_s) != 0)) {
        return waits ? cli_fail(cli, CLI_USAGE, "--timeout %.40s is no time; allowed are 90, 90s, 15m, 24h, 7d", timeout)
                     : cli_fail(cli, CLI_USAGE, "--timeout goes with --wait only");
    }
    struct client client;
    struct reply reply;
    char id[CLIENT_NODE_TEXT_BYTES] = "";
    uint64_t until_ms = timeout != NULL ? clock_ms() + timeout_s * 1000 : 0;
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = begin(&client, arguments, op, &reply, id);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        uint64_t stored_on = document_number(&reply.document, "stored_on");
        char named[PRINT_NAMED_BYTES];
        print_named(named, arguments->operand_count > 0 ? arguments->operands[0] : "this node", id);
        (void)fprintf(cli->out, "%s %s, stored on %llu %s\n", named, done, (unsigned long long)stored_on,
                      nodes_text(stored_on));
    }
    (void)fflush(cli->out);
    if (code == CLI_DONE && waits) {
        code = wait_until_empty(&client, id, until_ms);
    }
    if (code == CLI_DONE && waits && !cli->json) {
        (void)fputs("no worker runs there any more\n", cli->out);
    }
    client_close(&client);
    return code;
}

int command_drain(struct cli *cli, const struct arguments *arguments)
{
    return control(cli, arguments, "drain", "drained");
}

int command_undrain(struct cli *cli, const struct arguments *arguments)
{
    return control(cli, arguments, "undrain", "undrained");
}
