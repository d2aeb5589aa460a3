#include "node/daemon/api/change.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/config/hours.h"
#include "node/daemon/api/elsewhere.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/webhooks.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/request.h"

#define POLICY_BACK_AFTER_S 600 /* from the last load or activity on, unless the owner says otherwise */

struct change_waiting *change_wait(struct daemon *daemon, const struct client_request *request)
{
    struct change_waiting *waiting = calloc(1, sizeof *waiting);
    if (waiting != NULL) {
        waiting->key = ++daemon->request_id;
        waiting->serial = request->client->serial;
        waiting->id = request->id;
        waiting->next = daemon->api->waiting;
        daemon->api->waiting = waiting;
    }
    return waiting;
}

static void pack_slots(struct pack_writer *writer, uint64_t slots)
{
    uint32_t count = 0;
    for (uint64_t rest = slots; rest != 0; rest &= rest - 1) {
        count++;
    }
    pack_text(writer, "slots");
    pack_array(writer, count);
    for (uint32_t slot = 0; slot < FACT_SLOTS_MAX; slot++) {
        if ((slots >> slot & 1) != 0) {
            pack_u64(writer, slot);
        }
    }
}

static int exit_code_of(int code)
{
    return code == ERR_NOT_FOUND ? EXIT_NOT_FOUND : code == ERR_USAGE ? EXIT_USAGE : EXIT_REFUSED;
}

static void put_stored_on(const struct daemon *daemon, const struct node_effect *effect, struct pack_writer *writer)
{
    pack_text(writer, "stored_on");
    pack_u64(writer, effect->u.reply.stored_on);
    pack_text(writer, "nodes_alive");
    pack_u64(writer, node_core_peers_alive(daemon->core) + 1u);
}

static void put_invite_id(const uint8_t key[PUBLIC_KEY_BYTES], struct pack_writer *writer)
{
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    bytes_to_hex(hex, key, RENDER_INVITE_ID_BYTES);
    pack_text(writer, "invite");
    pack_text(writer, hex);
}

static void put_experiment_id(experiment_id id, struct pack_writer *writer)
{
    char hex[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(hex, id.bytes, EXPERIMENT_ID_BYTES);
    pack_text(writer, "experiment");
    pack_text(writer, hex);
}

/* Of a token of the HTTP door: its id, and its text if it is new, which nobody can read again. */
static void answer_token(struct daemon *daemon, struct client *client, struct change_waiting *waiting,
                         const struct node_effect *effect)
{
    struct client_reply reply;
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    bool is_new = waiting->secret[0] != '\0';
    if (!client_reply_begin(&reply, waiting->id, true, is_new ? 5 : 3)) {
        return;
    }
    bytes_to_hex(hex, waiting->invite_key, RENDER_INVITE_ID_BYTES);
    pack_text(&reply.writer, "token_id"); /* `id` is the request's */
    pack_text(&reply.writer, hex);
    if (is_new) {
        pack_text(&reply.writer, "token");
        pack_text(&reply.writer, waiting->secret);
        pack_text(&reply.writer, "expires_s");
        pack_u64(&reply.writer, waiting->token.expires_s);
    }
    put_stored_on(daemon, effect, &reply.writer);
    client_reply_send(daemon, client, &reply, -1);
}

/* Of a model: its name, and the number of the version, if the request was about one. */
static void answer_model(struct daemon *daemon, struct client *client, const struct change_waiting *waiting, const struct node_effect *effect)
{
    const struct view_model *model = view_model_find(node_core_view(daemon->core), waiting->model);
    const struct view_model *version = model != NULL ? view_model_version_by_id(model, waiting->invite_key) : NULL;
    struct client_reply reply;
    if (!client_reply_begin(&reply, waiting->id, true, version != NULL ? 5 : 3)) {
        return;
    }
    pack_text(&reply.writer, "model");
    pack_text(&reply.writer, waiting->model);
    if (version != NULL) {
        char hex[2 * FACT_VERSION_BYTES + 1];
        bytes_to_hex(hex, waiting->invite_key, FACT_VERSION_BYTES);
        pack_text(&reply.writer, "version");
        pack_u64(&reply.writer, view_model_version_number(version));
        pack_text(&reply.writer, "version_id");
        pack_text(&reply.writer, hex);
    }
    put_stored_on(daemon, effect, &reply.writer);
    client_reply_send(daemon, client, &reply, -1);
}

/* Answers the waiting request at `link` and takes it off the list. */
static void answer(struct daemon *daemon, struct change_waiting **link, const struct node_effect *effect)
{
    struct change_waiting *waiting = *link;
    *link = waiting->next;
    struct client *client = client_find(daemon, waiting->serial);
    if (client != NULL && effect->u.reply.code != 0) {
        client_reply_error(daemon, client, waiting->id, exit_code_of(effect->u.reply.code), "%s", effect->u.reply.text);
    } else if (client != NULL) {
        struct client_reply reply;
        const struct view_experiment *submitted =
            waiting->is_submit ? view_find_experiment(node_core_view(daemon->core), waiting->experiment) : NULL;
        if (waiting->is_eviction && client_reply_begin(&reply, waiting->id, true, 2 + RENDER_EVICTION_PAIRS)) {
            render_eviction(daemon->core, waiting->node, &reply.writer);
            put_stored_on(daemon, effect, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_token) {
            answer_token(daemon, client, waiting, effect);
        } else if (waiting->is_model) {
            answer_model(daemon, client, waiting, effect);
        } else if (waiting->is_secret && client_reply_begin(&reply, waiting->id, true, 3)) {
            pack_text(&reply.writer, "secret");
            pack_text(&reply.writer, waiting->name);
            put_stored_on(daemon, effect, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_webhook && client_reply_begin(&reply, waiting->id, true, 4)) {
            char hook[2 * FACT_HOOK_BYTES + 1];
            bytes_to_hex(hook, waiting->invite_key, FACT_HOOK_BYTES);
            pack_text(&reply.writer, "webhook");
            pack_text(&reply.writer, hook);
            pack_text(&reply.writer, "tells_webhooks");
            pack_bool(&reply.writer, webhooks_are_told(daemon));
            put_stored_on(daemon, effect, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_revoke && client_reply_begin(&reply, waiting->id, true, 3)) {
            put_invite_id(waiting->invite_key, &reply.writer);
            put_stored_on(daemon, effect, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_invite && client_reply_begin(&reply, waiting->id, true, 3)) {
            char text[TOKEN_TEXT_BYTES];
            (void)token_write(&waiting->token, text);
            pack_text(&reply.writer, "token");
            pack_text(&reply.writer, text);
            pack_text(&reply.writer, "expires_s");
            pack_u64(&reply.writer, waiting->token.expires_s);
            put_invite_id(waiting->invite_key, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (waiting->is_leave && client_reply_begin(&reply, waiting->id, true, 2)) {
            put_stored_on(daemon, effect, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (submitted != NULL && submitted->known &&
                   client_reply_begin(&reply, waiting->id, true, 3 + RENDER_LACKS_PAIRS + RENDER_PROGRAM_PAIRS +
                                          RENDER_BLOCKED_PAIRS + (submitted->config->webhooks_bytes > 0))) {
            put_experiment_id(waiting->experiment, &reply.writer);
            if (submitted->config->webhooks_bytes > 0) {
                pack_text(&reply.writer, "tells_webhooks");
                pack_bool(&reply.writer, webhooks_are_told(daemon));
            }
            put_stored_on(daemon, effect, &reply.writer);
            render_lacks(daemon->core, submitted, &reply.writer);
            render_program(daemon->core, submitted, &reply.writer);
            query_put_blocked(daemon, &reply.writer);
            client_reply_send(daemon, client, &reply, -1);
        } else if (client_reply_begin(&reply, waiting->id, true, 3u + (waiting->is_trial ? 2u : 0u) + effect->u.reply.already)) {
            char hex[2 * NODE_ID_BYTES + 1];
            if (waiting->is_slots) {
                pack_slots(&reply.writer, waiting->slots);
            } else if (waiting->is_drain) {
                bytes_to_hex(hex, waiting->node.bytes, NODE_ID_BYTES);
                pack_text(&reply.writer, "node");
                pack_text(&reply.writer, hex);
            } else {
                put_experiment_id(waiting->experiment, &reply.writer);
            }
            put_stored_on(daemon, effect, &reply.writer);
            if (waiting->is_trial) {
                const struct view_experiment *about = view_find_experiment(node_core_view(daemon->core), waiting->experiment);
                pack_text(&reply.writer, "trial");
                pack_u64(&reply.writer, waiting->trial);
                pack_text(&reply.writer, "state");
                pack_text(&reply.writer, about != NULL ? view_experiment_state_name(view_experiment_state(about)) : "cancelled");
            }
            if (effect->u.reply.already) {
                pack_text(&reply.writer, "already");
                pack_bool(&reply.writer, true);
            }
            client_reply_send(daemon, client, &reply, -1);
        }
    }
    daemon->stopping |= waiting->is_leave && effect->u.reply.code == 0;
    explicit_bzero(waiting->secret, sizeof waiting->secret);
    free(waiting);
}

void change_reply_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct change_waiting **link = &daemon->api->waiting;
    while (*link != NULL && (*link)->key != effect->u.reply.client) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        return;
    }
    bool is_leave = (*link)->is_leave;
    answer(daemon, link, effect);
    /* The core knows only the first client that asked to leave. */
    for (link = &daemon->api->waiting; is_leave && *link != NULL;) {
        if ((*link)->is_leave) {
            answer(daemon, link, effect);
        } else {
            link = &(*link)->next;
        }
    }
}

void change_control(struct daemon *daemon, struct client_request *request, int kind)
{
    experiment_id id;
    if (!client_argument_any_experiment(daemon, request, &id)) {
        return;
    }
    const struct view_experiment *known = view_find_experiment(node_core_view(daemon->core), id);
    if ((known == NULL || !known->known) && view_find_tombstone(node_core_view(daemon->core), id) == NULL) {
        client_reply_unknown_experiment(daemon, request, id); /* the core would refuse, too, but this sentence has the id */
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->experiment = id;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        event.u.request.experiment = id;
        daemon_event(daemon, &event);
    }
}

void change_trial(struct daemon *daemon, struct client_request *request, int kind)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint32_t index;
    if (!query_argument_any_trial(daemon, request, &experiment, &index, &trial)) {
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_trial = true;
        waiting->experiment = experiment->id;
        waiting->trial = index;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        event.u.request.experiment = experiment->id;
        event.u.request.trial = index;
        daemon_event(daemon, &event);
    }
}

/* What a user calls a label: no '=', since the value is behind it, and nothing that moves a terminal's cursor. */
static bool label_is_good(const char *label)
{
    for (const char *c = label; *c != '\0'; c++) {
        if (*c == '=' || (unsigned char)*c < ' ' || *c == 127) {
            return false;
        }
    }
    return label[0] != '\0';
}

/* Subjects that are a number, which the request has under the subject's name. */
static const struct numbered {
    int subject;
    const char *argument;
    uint64_t max;
    const char *allowed;
} numbered[] = {
    {FACT_PRIORITY, "priority", 99, "A priority is a number from 1, the first in the queue, to 99."},
    {FACT_MAX_TRIALS, "max_trials", SEARCH_TRIALS_MAX, "max_trials is the number of all trials together, at most 100000."},
    {FACT_MAX_SLOTS, "max_slots", CONFIG_SLOTS_MAX, "max_slots is a number from 1 to 256."},
};

/* Writes the number of such a subject in decimal digits to `out`, which has room for it. False: it is none, and the client has been
 * answered. */
static bool read_number(struct daemon *daemon, struct client_request *request, int subject, char *out)
{
    for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++) {
        uint64_t number = 0;
        if (numbered[i].subject != subject) {
            continue;
        }
        if (!client_argument_u64(request, numbered[i].argument, &number) || number < 1 || number > numbered[i].max) {
            client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "%s", numbered[i].allowed);
            return false;
        }
        format_text(out, FACT_LABEL_BYTES, "%llu", (unsigned long long)number);
    }
    return true;
}

/* Reads what is noted. False, and the client has been answered: it is too long. */
static bool read_value(struct daemon *daemon, struct client_request *request, char value[FACT_NOTE_BYTES])
{
    bool is_good = pack_find(&request->map, "value").failed || request_text(&request->map, "value", value, FACT_NOTE_BYTES);
    if (!is_good) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The text is too long: it may have at most %d bytes.",
                           FACT_NOTE_BYTES - 1);
    }
    return is_good;
}

static void annotate(struct daemon *daemon, struct change_waiting *waiting, enum fact_subject subject, bool is_set, const char *label,
                     const char *value)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_ANNOTATE;
    event.u.request.client = waiting->key;
    event.u.request.experiment = waiting->experiment;
    event.u.request.subject = subject;
    event.u.request.is_set = is_set;
    bytes_copy_text(event.u.request.label, sizeof event.u.request.label, label);
    bytes_copy_text(event.u.request.value, sizeof event.u.request.value, value);
    daemon_event(daemon, &event);
}

void change_describe_trial(struct daemon *daemon, struct client_request *request, int argument)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    char label[FACT_LABEL_BYTES], value[FACT_NOTE_BYTES] = "";
    uint32_t index;
    (void)argument;
    if (!query_argument_any_trial(daemon, request, &experiment, &index, &trial) || !read_value(daemon, request, value)) {
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_trial = true;
        waiting->experiment = experiment->id;
        waiting->trial = index;
        format_text(label, sizeof label, "%u", index);
        annotate(daemon, waiting, FACT_TRIAL_DESCRIPTION, value[0] != '\0', label, value);
    }
}

void change_annotate(struct daemon *daemon, struct client_request *request, int subject)
{
    struct view_experiment *experiment;
    char label[FACT_LABEL_BYTES] = "", value[FACT_NOTE_BYTES] = "";
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    if (subject == FACT_LABEL && (!request_text(&request->map, "label", label, sizeof label) || !label_is_good(label))) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The name of a label has 1 to %d bytes, and neither '=' nor control characters.", FACT_LABEL_BYTES - 1);
        return;
    }
    if (!read_value(daemon, request, value)) {
        return;
    }
    if (!read_number(daemon, request, subject, subject == FACT_MAX_TRIALS ? label : value)) {
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->experiment = experiment->id;
        annotate(daemon, waiting, (enum fact_subject)subject, !request_flag(&request->map, "remove"), label, value);
    }
}

void change_leave(struct daemon *daemon, struct client_request *request, int kind)
{
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_leave = true;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        daemon_event(daemon, &event);
    }
}

void change_node_slots(struct daemon *daemon, struct client_request *request, int kind)
{
    static const char *const arguments[] = {"slots", "for_s", NULL};
    node_id node;
    if (!client_argument_node(daemon, request, &node)) {
        return;
    }
    if (node_id_equal(node, daemon->keys.id)) {
        change_slots(daemon, request, kind);
    } else {
        elsewhere_ask(daemon, request, node, kind == NODE_REQUEST_WITHHOLD ? "withhold" : "return", arguments);
    }
}

void change_slots(struct daemon *daemon, struct client_request *request, int kind)
{
    struct pack_reader list = pack_find(&request->map, "slots");
    bool is_given = !list.failed;
    uint32_t count = is_given ? pack_read_array(&list) : 0;
    uint64_t slots = 0, for_s = 0;
    for (uint32_t i = 0; i < count && !list.failed; i++) {
        uint64_t slot = pack_read_u64_max(&list, FACT_SLOTS_MAX - 1);
        slots |= list.failed ? 0 : UINT64_C(1) << slot;
    }
    if (is_given && list.failed) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "`slots` is an array of a node's slot numbers, 0 to %d.", FACT_SLOTS_MAX - 1);
        return;
    }
    (void)client_argument_u64(request, "for_s", &for_s);
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        uint32_t own = node_core_lease(daemon->core)->count;
        waiting->is_slots = true;
        waiting->slots = slots != 0 ? slots : own == FACT_SLOTS_MAX ? UINT64_MAX : (UINT64_C(1) << own) - 1;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        event.u.request.slots = slots;
        event.u.request.for_s = for_s;
        daemon_event(daemon, &event);
    }
}

/* What the request says; false, and the client has been answered: it makes no sense. */
static bool read_policy(struct daemon *daemon, struct client_request *request, struct fact_policy *out)
{
    char hours[HOURS_BYTES] = "";
    uint64_t load = 0, back_after_s = POLICY_BACK_AFTER_S;
    bool has_hours = !pack_find(&request->map, "hours").failed;
    *out = (struct fact_policy){.activity = request_flag(&request->map, "activity")};
    if (has_hours && (!request_text(&request->map, "hours", hours, sizeof hours) || hours_read(hours, out->hours, &out->hours_count) != 0)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The hours '%.80s' are none; allowed are " HOURS_WORDS ".", hours);
        return false;
    }
    bool has_load = client_argument_u64(request, "load_percent", &load), has_back = client_argument_u64(request, "back_after_s", &back_after_s);
    if ((has_load && (load < 1 || load > 100)) || (has_back && back_after_s > FACT_BACK_AFTER_S_MAX)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "`load_percent` is a number from 1 to 100, of all processors, and `back_after_s` at most 7 days.");
        return false;
    }
    out->load_percent = (uint32_t)load;
    out->back_after_s = out->activity || load != 0 ? (uint32_t)back_after_s : 0;
    return true;
}

void change_policy(struct daemon *daemon, struct client_request *request, int kind)
{
    struct fact_policy policy;
    uint8_t body[512];
    struct pack_writer writer;
    if (!read_policy(daemon, request, &policy)) {
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        pack_writer_init(&writer, body, sizeof body);
        fact_policy_pack(&writer, &policy);
        waiting->is_drain = true; /* the answer names the node */
        waiting->node = daemon->keys.id;
        struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = body, .byte_count = (uint32_t)writer.used_bytes};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        daemon_event(daemon, &event);
    }
}

void change_drain(struct daemon *daemon, struct client_request *request, int kind)
{
    node_id node = daemon->keys.id;
    char hex[2 * NODE_ID_BYTES + 1];
    struct pack_reader value = pack_find(&request->map, "node"), now = pack_find(&request->map, "now");
    if (!value.failed && (!request_text(&request->map, "node", hex, sizeof hex) ||
                          bytes_from_hex(node.bytes, NODE_ID_BYTES, hex) != 0)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request names no node; give its id of 32 hexadecimal digits.");
        return;
    }
    const struct view_member *member = view_find_member(node_core_view(daemon->core), node);
    if (!value.failed && (member == NULL || (!member->admitted && node_core_is_syncing(daemon->core)))) {
        /* The core would refuse, too, but this sentence has the id. */
        client_reply_unknown(daemon, request, "node", hex, "nodes");
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_drain = true;
        waiting->node = node;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        event.u.request.node = node;
        event.u.request.at_once = pack_read_bool(&now);
        daemon_event(daemon, &event);
    }
}

/* Adds a member with as many addresses as fit one entry, from `*from` on. */
static void token_add_member(struct token *token, const uint8_t sign_public[32], const struct fact_node *node, uint32_t *from)
{
    struct token_member *member = &token->members[token->member_count++];
    memcpy(member->sign_public, sign_public, 32);
    member->address_count = 0;
    for (; member->address_count < TOKEN_ADDRESSES_MAX && *from < node->address_count; (*from)++) {
        bool needs_zone = strncmp(node->addresses[*from], "[fe80:", 6) == 0; /* which only the reader could add */
        if (!needs_zone || *from == 0) {
            bytes_copy_text(member->addresses[member->address_count++], sizeof member->addresses[0], node->addresses[*from]);
        }
    }
    token->member_count -= member->address_count == 0;
}

/* This node stands in two entries if it has more addresses than one takes: a member may stand in several, also for older
 * readers. */
static void token_fill(struct daemon *daemon, struct token *token)
{
    uint32_t from = 0;
    const struct fact_node *own = node_core_own_fact(daemon->core);
    do {
        token_add_member(token, daemon->keys.sign_public, own, &from);
    } while (from < own->address_count && token->member_count < 2);
    for (uint32_t i = 0; i < node_core_view(daemon->core)->member_count && token->member_count < TOKEN_MEMBERS_MAX; i++) {
        const struct view_member *member = node_core_view(daemon->core)->members[i];
        struct node_peer peer;
        if (!member->admitted || member->address_count == 0 || !node_core_find_peer(daemon->core, member->id, &peer) ||
            !node_core_is_alive(daemon->core, member->id)) {
            continue;
        }
        struct fact_node node = {.address_count = member->address_count};
        memcpy(node.addresses, member->addresses, sizeof node.addresses);
        uint32_t first = 0;
        token_add_member(token, member->public_key, &node, &first);
    }
}

void change_invite(struct daemon *daemon, struct client_request *request, int kind)
{
    uint64_t expires_s = 24 * 3600;
    (void)client_argument_u64(request, "expires_s", &expires_s);
    if (expires_s == 0 || expires_s > 366ull * 24 * 3600) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "An invite can live for at most a year and at least a second; give --expires 24h or the like.");
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting == NULL) {
        return;
    }
    waiting->is_invite = true;
    struct token *token = &waiting->token;
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    token->mesh = daemon->mesh;
    token_create(token->secret, event.u.request.public_key);
    token->expires_s = node_core_mesh_wall_s(daemon->core) + expires_s;
    token_fill(daemon, token);
    memcpy(waiting->invite_key, event.u.request.public_key, sizeof waiting->invite_key);
    event.u.request.kind = (enum node_request_kind)kind;
    event.u.request.client = waiting->key;
    event.u.request.expires_s = token->expires_s;
    daemon_event(daemon, &event);
}

struct invite_search {
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    size_t length;
    uint32_t count;
    uint8_t key[PUBLIC_KEY_BYTES];
};

static bool match_invite(void *context, const struct records_entry *entry)
{
    struct invite_search *search = context;
    char hex[2 * RENDER_INVITE_ID_BYTES + 1];
    if (entry->record.kind != FACT_INVITE || entry->record.key_bytes != PUBLIC_KEY_BYTES) {
        return true;
    }
    bytes_to_hex(hex, entry->record.key, RENDER_INVITE_ID_BYTES);
    bool is_same = search->count > 0 && memcmp(search->key, entry->record.key, PUBLIC_KEY_BYTES) == 0;
    if (strncmp(hex, search->hex, search->length) == 0 && !is_same) {
        memcpy(search->key, entry->record.key, PUBLIC_KEY_BYTES);
        search->count++;
    }
    return true;
}

#define INVITE_PREFIX_MIN 4

void change_revoke(struct daemon *daemon, struct client_request *request, int kind)
{
    struct invite_search search = {0};
    if (!request_text(&request->map, "invite", search.hex, sizeof search.hex)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks `invite`, the id of an invite.");
        return;
    }
    search.length = strlen(search.hex);
    if (search.length >= INVITE_PREFIX_MIN) {
        records_each(node_core_records(daemon->core), match_invite, &search);
    }
    if (search.count == 0) {
        client_reply_unknown(daemon, request, "invite", search.hex, "invite --list");
        return;
    }
    if (search.count > 1) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Several invites have ids that begin with %s; give more digits.", search.hex);
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_revoke = true;
        memcpy(waiting->invite_key, search.key, sizeof waiting->invite_key);
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        memcpy(event.u.request.public_key, search.key, sizeof event.u.request.public_key);
        daemon_event(daemon, &event);
    }
}

void change_evict(struct daemon *daemon, struct client_request *request, int kind)
{
    char hex[2 * NODE_ID_BYTES + 1];
    node_id node;
    if (!request_text(&request->map, "node", hex, sizeof hex) || strlen(hex) != 2 * NODE_ID_BYTES ||
        bytes_from_hex(node.bytes, NODE_ID_BYTES, hex) != 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request lacks `node`, a node id of %d hexadecimal digits.", 2 * NODE_ID_BYTES);
        return;
    }
    struct change_waiting *waiting = change_wait(daemon, request);
    if (waiting != NULL) {
        waiting->is_eviction = true;
        waiting->node = node;
        struct pack_reader with_vouched = pack_find(&request->map, "with_vouched");
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = (enum node_request_kind)kind;
        event.u.request.client = waiting->key;
        event.u.request.node = node;
        event.u.request.with_vouched = pack_read_bool(&with_vouched) && !with_vouched.failed;
        daemon_event(daemon, &event);
    }
}

void change_close(struct daemon *daemon)
{
    while (daemon->api->waiting != NULL) {
        struct change_waiting *waiting = daemon->api->waiting;
        daemon->api->waiting = waiting->next;
        free(waiting);
    }
}
