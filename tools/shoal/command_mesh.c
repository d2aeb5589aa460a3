/* init, join, invite, leave: how a node enters and leaves a mesh. init and join need no daemon: both prepare the data
 * directory from which the daemon then starts (docs/wire.md). */

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/err.h"
#include "base/units.h"
#include "gossip/control_join.h"
#include "gossip/keys.h"
#include "gossip/message.h"
#include "gossip/token.h"
#include "node/config/names.h"
#include "node/core/facts/facts.h"
#include "node/signer.h"
#include "store/data_dir.h"
#include "store/state_lmdb.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"

#define JOIN_TIMEOUT_MS 10000
#define JOIN_TIMEOUT_EXPIRED_MS 5000 /* if the token has expired by this machine's clock, which may be wrong */
#define EXPIRES_STANDARD_S 86400
#define EXPIRES_S_MAX (366ull * 86400)
#define BATCH_MAX 1024 /* most meta values and records of one WELCOME, which have at least 100 bytes each */

_Static_assert(BATCH_MAX > MESSAGE_BYTES_MAX / (RECORD_HEAD_BYTES + 2 + RECORD_SIGNATURE_BYTES) + 4,
               "all records of an answer fit");

/* A data directory, locked by this process. */
struct house {
    int lock_fd;
    struct state *state;
    struct keys keys;
};

static int node_name(struct cli *cli, const char *given, char out[FACT_NAME_BYTES])
{
    char host[256] = "";
    if (given == NULL) {
        if (gethostname(host, sizeof host - 1) != 0) {
            host[0] = '\0';
        }
        host[strcspn(host, ".")] = '\0'; /* the short name */
    }
    const char *name = given != NULL ? given : host;
    if (!names_node_is_good(name)) {
        return cli_fail(cli, CLI_USAGE,
                        "'%.80s' cannot be a node's name: allowed are 1 to %d " NAMES_NODE_WORDS, name,
                        FACT_NAME_BYTES - 1);
    }
    (void)bytes_copy_text(out, FACT_NAME_BYTES, name);
    return CLI_DONE;
}

static void house_close(struct house *house)
{
    state_close(&house->state);
    keys_wipe(&house->keys);
    if (house->lock_fd >= 0) {
        (void)close(house->lock_fd);
    }
}

/* A key left by an earlier, interrupted try is used again: a member may have vouched for that key already. */
static int house_keys(struct cli *cli, struct house *house)
{
    char error[256];
    int result = keys_load(cli->dir, &house->keys, error);
    if (result == ERR_NOT_FOUND) {
        keys_create(&house->keys);
        result = keys_save(&house->keys, cli->dir, error);
    }
    return result == 0 ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "%s", error);
}

/* Opens a directory that belongs to no mesh yet, and makes a key there. On failure nothing stays open. */
static int house_open(struct cli *cli, struct house *house)
{
    char error[512];
    *house = (struct house){.lock_fd = -1};
    if (keys_start() != 0) {
        return cli_fail(cli, CLI_REFUSED, "libsodium does not start");
    }
    int opened = data_dir_open(cli->dir, &house->lock_fd, error, sizeof error);
    if (opened != 0) {
        house->lock_fd = -1;
        return cli_fail(cli, opened == ERR_USAGE ? CLI_USAGE : CLI_REFUSED, "%s", error);
    }
    int code = CLI_DONE;
    mesh_id mesh;
    size_t bytes;
    if (state_open(cli->dir, &house->state, error, sizeof error) != 0) {
        code = cli_fail(cli, CLI_REFUSED, "%s", error);
    } else if (state_get(house->state, STATE_META, "mesh", 4, &mesh, sizeof mesh, &bytes) != ERR_NOT_FOUND) {
        char hex[2 * MESH_ID_BYTES + 1], name[FACT_NAME_BYTES] = "";
        if (state_get(house->state, STATE_META, "mesh_name", 9, name, sizeof name - 1, &bytes) == 0) {
            name[bytes] = '\0';
        }
        bytes_to_hex(hex, mesh.bytes, MESH_ID_BYTES);
        if (keys_load(cli->dir, &house->keys, error) == ERR_NOT_FOUND) {
            keys_say_gone(cli->dir, hex, error);
            code = cli_fail(cli, CLI_REFUSED, "%s", error);
        } else {
            code = cli_fail(cli, CLI_REFUSED,
                            "%s has a node of the mesh %s%s%s already, which shoald brings back, also after a leave; a node of another mesh, or one after an "
                            "eviction, needs a directory of its own: --dir DIR",
                            cli->dir, name, name[0] != '\0' ? " " : "", hex);
        }
    } else {
        code = house_keys(cli, house);
    }
    if (code != CLI_DONE) {
        house_close(house);
    }
    return code;
}

static struct state_op put(enum state_table table, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes)
{
    return (struct state_op){.table = table,
                             .key = key,
                             .key_bytes = key_bytes,
                             .value = value,
                             .value_bytes = value_bytes,
                             .is_delete = false};
}

static int house_write(struct cli *cli, struct house *house, const struct state_op *ops, size_t op_count)
{
    int result = state_put_batch(house->state, ops, op_count);
    return result == 0 ? CLI_DONE
                       : cli_fail(cli, CLI_REFUSED, "writing to %s/state failed: %s", cli->dir, err_text(result));
}

/* Prints the next command to type, with --dir if the user gave it. */
static void say_next(struct cli *cli, const struct arguments *arguments, bool founder)
{
    bool given = options_value(arguments, "dir") != NULL;
    const char *option = given ? " --dir " : "", *dir = given ? cli->dir : "";
    (void)fprintf(cli->out, "next: shoald%s%s\n", option, dir);
    if (founder) {
        (void)fprintf(cli->out, "then, for others to join: shoal%s%s invite\n", option, dir);
    }
}

static void say_ids(struct cli *cli, const char *mesh_name, mesh_id mesh, const char *name, node_id id)
{
    char mesh_hex[2 * MESH_ID_BYTES + 1], node_hex[2 * NODE_ID_BYTES + 1];
    bytes_to_hex(mesh_hex, mesh.bytes, MESH_ID_BYTES);
    bytes_to_hex(node_hex, id.bytes, NODE_ID_BYTES);
    if (!cli->json) {
        (void)fprintf(cli->out, "mesh %s%s%s\nnode %s %s\n", mesh_name, *mesh_name != '\0' ? " " : "", mesh_hex, name,
                      node_hex);
        return;
    }
    uint8_t bytes[512];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 2);
    for (int i = 0; i < 2; i++) {
        pack_text(&writer, i == 0 ? "mesh" : "node");
        pack_map(&writer, 2);
        pack_text(&writer, "id");
        pack_text(&writer, i == 0 ? mesh_hex : node_hex);
        pack_text(&writer, "name");
        if (i == 0 && *mesh_name == '\0') {
            pack_nil(&writer); /* as in `status`: the member that answered does not know it */
        } else {
            pack_text(&writer, i == 0 ? mesh_name : name);
        }
    }
    (void)document_write_packed_json(cli->out, bytes, writer.used_bytes);
}

/* ---- init -------------------------------------------------------------------------------------------------------- */

/* The founder's own record: the founder vouches for itself, and the mesh id follows from the founder's key. */
static size_t found(const struct keys *keys, const char *name, mesh_id *mesh, record_ident *ident,
                    uint8_t envelope[RECORD_ENVELOPE_BYTES_MAX])
{
    struct fact_member fact = {.nonce = {0}};
    memcpy(fact.public_key, keys->sign_public, sizeof fact.public_key);
    (void)bytes_copy_text(fact.name, sizeof fact.name, name);
    randombytes_buf(fact.nonce, sizeof fact.nonce);
    *mesh = mesh_id_of_founder(fact.public_key, fact.nonce);
    uint8_t body[256];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_member_pack(&writer, &fact);
    struct fact_key key = fact_key_node_id(keys->id);
    struct record record = {
        .kind = FACT_MEMBER,
        .writer = keys->id,
        .version = {.boot = 1 + randombytes_uniform(UINT32_MAX), .seq = 1}, /* boot 0: before the daemon's first */
        .key = key.bytes,
        .key_bytes = key.count,
        .body = body,
        .body_bytes = (uint16_t)writer.used_bytes,
    };
    size_t count = record_encode(&record, envelope, RECORD_ENVELOPE_BYTES_MAX);
    keys_sign_record(keys, *mesh, envelope, count);
    *ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    return count;
}

int command_init(struct cli *cli, const struct arguments *arguments)
{
    char name[FACT_NAME_BYTES], mesh_name[FACT_NAME_BYTES];
    int code = node_name(cli, options_value(arguments, "node-name"), name);
    if (code != CLI_DONE) {
        return code;
    }
    const char *given = options_value(arguments, "name");
    if (given != NULL && !names_mesh_is_good(given)) {
        return cli_fail(cli, CLI_USAGE, "'%.80s' cannot be a mesh's name: allowed are 1 to %d characters of ASCII",
                        given, FACT_NAME_BYTES - 1);
    }
    (void)bytes_copy_text(mesh_name, sizeof mesh_name, given != NULL ? given : name);
    struct house house;
    code = house_open(cli, &house);
    if (code != CLI_DONE) {
        return code;
    }
    uint8_t envelope[RECORD_ENVELOPE_BYTES_MAX];
    mesh_id mesh;
    record_ident ident;
    size_t count = found(&house.keys, name, &mesh, &ident, envelope);
    const struct state_op ops[] = {
        put(STATE_RECORDS, ident.bytes, sizeof ident.bytes, envelope, count),
        put(STATE_META, "mesh", 4, mesh.bytes, sizeof mesh.bytes),
        put(STATE_META, "mesh_name", 9, mesh_name, strlen(mesh_name)),
        put(STATE_META, "name", 4, name, strlen(name)),
    };
    code = house_write(cli, &house, ops, sizeof ops / sizeof ops[0]);
    if (code == CLI_DONE) {
        say_ids(cli, mesh_name, mesh, name, house.keys.id);
        if (!cli->json) {
            say_next(cli, arguments, true);
        }
        data_dir_refresh(house.lock_fd);
    }
    house_close(&house);
    return code;
}

/* ---- join -------------------------------------------------------------------------------------------------------- */

struct welcome {
    uint8_t answer[MESSAGE_BYTES_MAX];
    uint8_t good[MESSAGE_BYTES_MAX]; /* verified records, end to end */
    size_t good_bytes;
    struct state_op ops[BATCH_MAX];
    record_ident idents[BATCH_MAX];
    uint8_t peers[TOKEN_TEXT_BYTES];
};

static int token_text(struct cli *cli, const char *operand, char out[TOKEN_TEXT_BYTES * 2])
{
    if (strcmp(operand, "-") != 0) {
        bool fits = bytes_copy_text(out, TOKEN_TEXT_BYTES * 2, operand);
        return fits ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "the token is longer than any; copy it again");
    }
    size_t bytes = fread(out, 1, TOKEN_TEXT_BYTES * 2 - 1, stdin);
    out[bytes] = '\0';
    return CLI_DONE;
}

/* Tells the user if this machine's clock is not the member's. */
static void say_clock(struct cli *cli, const struct join_greeting *greeting)
{
    char apart[RENDER_UNIT_BYTES];
    uint64_t ours_s = (uint64_t)time(NULL);
    if (greeting->wall_s > 0 && print_clock((double)ours_s - (double)greeting->wall_s, apart)) {
        cli_warn(cli, "this machine's clock is %s %s%s's; set it right, for invites and logs go by it", apart,
                 ours_s > greeting->wall_s ? "of " : "", greeting->member);
    }
}

static int ask_members(struct cli *cli, const struct token *token, const struct house *house, const char *name,
                       struct welcome *welcome, struct join_answer *answer)
{
    char error[256];
    uint64_t now_s = (uint64_t)time(NULL);
    bool is_expired = now_s >= token->expires_s;
    int result = control_join(token, &house->keys, name, is_expired ? JOIN_TIMEOUT_EXPIRED_MS : JOIN_TIMEOUT_MS,
                              welcome->answer, sizeof welcome->answer, answer, error);
    if (result == ERR_TIMEOUT && is_expired) {
        char ago[RENDER_UNIT_BYTES];
        render_duration(ago, now_s - token->expires_s);
        return cli_fail(cli, CLI_TIMED_OUT,
                        "%s By this machine's clock the token expired %s ago; ask a member for a new one with shoal invite.",
                        error, ago);
    }
    if (result != 0) {
        return cli_fail(cli, result == ERR_TIMEOUT ? CLI_TIMED_OUT : CLI_REFUSED, "%s", error);
    }
    return CLI_DONE;
}

/* Verifies the records of the answer. A record counts only if a chain of vouchers ties its writer to the founder. */
static int verify(struct cli *cli, const struct token *token, const struct house *house,
                  const struct join_answer *answer, struct welcome *welcome)
{
    struct signer *signer;
    int result = signer_open(&house->keys, token->mesh, &signer);
    if (result != 0) {
        return cli_fail(cli, CLI_REFUSED, "the answer cannot be verified: %s", err_text(result));
    }
    welcome->good_bytes = signer_filter(signer, answer->records, answer->record_bytes, welcome->good);
    signer_close(&signer);
    return CLI_DONE;
}

/* Lists one operation per record; sets `*vouched` if one of them is a member's voucher for us. */
static size_t list_records(struct welcome *welcome, node_id self, bool *vouched)
{
    size_t count = 0;
    *vouched = false;
    for (size_t at = 0, bytes; at < welcome->good_bytes; at += bytes) {
        struct record record;
        if (record_length(welcome->good + at, welcome->good_bytes - at, &bytes) != 0 ||
            record_decode(welcome->good + at, bytes, &record) != 0) {
            return count;
        }
        struct fact_member fact;
        if (record.kind == FACT_MEMBER && !node_id_equal(record.writer, self) &&
            fact_member_read(&record, &fact) == 0) {
            *vouched = *vouched || node_id_equal(node_id_of_key(fact.public_key), self);
        }
        welcome->idents[count] = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
        welcome->ops[count] = put(STATE_RECORDS, welcome->idents[count].bytes, sizeof welcome->idents[count].bytes,
                                  welcome->good + at, bytes);
        count++;
    }
    return count;
}

static size_t list_peers(const struct token *token, uint8_t *out, size_t capacity)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, capacity);
    pack_array(&writer, token->member_count);
    for (uint32_t i = 0; i < token->member_count; i++) {
        const struct token_member *member = &token->members[i];
        pack_array(&writer, 1 + member->address_count);
        pack_bin(&writer, member->sign_public, sizeof member->sign_public);
        for (uint32_t a = 0; a < member->address_count; a++) {
            pack_text(&writer, member->addresses[a]);
        }
    }
    return writer.failed ? 0 : writer.used_bytes;
}

static int store(struct cli *cli, const struct token *token, struct house *house, const char *name, const char *mesh_name,
                 struct welcome *welcome)
{
    bool vouched;
    size_t count = list_records(welcome, house->keys.id, &vouched);
    if (!vouched) {
        return cli_fail(cli, CLI_REFUSED,
                        "the member that answered sent no proof that it belongs to the mesh of the token and vouches "
                        "for this node; ask somebody else of the mesh for a token");
    }
    size_t peers_bytes = list_peers(token, welcome->peers, sizeof welcome->peers);
    welcome->ops[count++] = put(STATE_META, "peers", 5, welcome->peers, peers_bytes);
    welcome->ops[count++] = put(STATE_META, "mesh", 4, token->mesh.bytes, sizeof token->mesh.bytes);
    welcome->ops[count++] = put(STATE_META, "name", 4, name, strlen(name));
    if (mesh_name[0] != '\0') {
        welcome->ops[count++] = put(STATE_META, "mesh_name", 9, mesh_name, strlen(mesh_name));
    }
    return house_write(cli, house, welcome->ops, count);
}

/* `greeting`: what the member said; empty where it is of an older version. */
static int join(struct cli *cli, const struct token *token, struct house *house, const char *name, struct join_greeting *greeting)
{
    struct join_answer answer;
    struct welcome *welcome = calloc(1, sizeof *welcome);
    if (welcome == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    int code = ask_members(cli, token, house, name, welcome, &answer);
    if (code == CLI_DONE) {
        code = verify(cli, token, house, &answer, welcome);
    }
    *greeting = (struct join_greeting){.wall_s = 0};
    if (code == CLI_DONE) {
        (void)join_greeting_read(answer.text, greeting);
        code = store(cli, token, house, name, greeting->mesh, welcome);
    }
    if (code == CLI_DONE) {
        say_clock(cli, greeting);
    }
    free(welcome);
    return code;
}

static int join_and_say(struct cli *cli, const struct arguments *arguments, const struct token *token, struct house *house,
                        const char *name)
{
    struct join_greeting greeting;
    int code = join(cli, token, house, name, &greeting);
    if (code == CLI_DONE) {
        say_ids(cli, greeting.mesh, token->mesh, name, house->keys.id);
        if (!cli->json) {
            say_next(cli, arguments, false);
        }
        data_dir_refresh(house->lock_fd);
    }
    return code;
}

int command_join(struct cli *cli, const struct arguments *arguments)
{
    char name[FACT_NAME_BYTES], text[TOKEN_TEXT_BYTES * 2], error[256];
    struct token token;
    struct house house;
    int code = node_name(cli, options_value(arguments, "name"), name);
    if (code == CLI_DONE) {
        code = token_text(cli, arguments->operands[0], text);
    }
    if (code == CLI_DONE && token_read(text, &token, error) != 0) {
        code = cli_fail(cli, CLI_REFUSED, "%s", error);
    }
    if (code == CLI_DONE) {
        code = house_open(cli, &house);
    }
    if (code == CLI_DONE) {
        code = join_and_say(cli, arguments, &token, &house, name);
        house_close(&house);
    }
    sodium_memzero(&token, sizeof token);
    sodium_memzero(text, sizeof text);
    return code;
}

/* ---- invite, leave ------------------------------------------------------------------------------------------------- */

static void render_invite(struct cli *cli, const msgpack_object *document)
{
    char text[TOKEN_TEXT_BYTES];
    document_text(document, "token", text, sizeof text);
    (void)fprintf(cli->out, "%s\n", text);
    if (cli->err_is_terminal) {
        char when[RENDER_UNIT_BYTES];
        render_time(when, 1000 * document_number(document, "expires_s"));
        char id[32];
        document_text(document, "invite", id, sizeof id);
        (void)fprintf(cli->err, "good until %s, its id is %s; on the other machine: shoal join TOKEN\n", when, id);
    }
}

static void render_invites(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "ID", false);
    table_column(&table, "STATE", false);
    table_column(&table, "EXPIRES", false);
    table_column(&table, "BY", false);
    msgpack_object_array list = document_list(document, "invites");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char state[32], writer[128], when[RENDER_UNIT_BYTES];
        print_cell_text(&table, item, "id");
        document_text(item, "state", state, sizeof state);
        table_cell(&table, render_state_colour(state), "%s", state);
        render_time(when, 1000 * document_number(item, "expires_s"));
        table_cell(&table, RENDER_PLAIN, "%s", when);
        document_node(item, "writer_name", writer, sizeof writer);
        table_cell(&table, RENDER_PLAIN, "%s", writer[0] == '\0' ? "-" : writer);
    }
    table_write(&table, cli->out, cli->colours);
}

static void render_revoked(struct cli *cli, const msgpack_object *document)
{
    char id[32];
    unsigned long long stored_on = document_number(document, "stored_on");
    document_text(document, "invite", id, sizeof id);
    (void)fprintf(cli->out, "%s revoked, stored on %llu node%s\n", id, stored_on, stored_on == 1 ? "" : "s");
}

/* Revokes the invite `text`: an id, or a token, expired or not. */
static int revoke_invite(struct cli *cli, const char *text)
{
    char id[17], error[256];
    struct token token;
    uint8_t key[32];
    bool is_id = strlen(text) < sizeof id;
    int read = is_id ? 0 : token_read(text, &token, error);
    if (read != 0) {
        return cli_fail(cli, CLI_USAGE, "%s", error);
    }
    if (is_id) {
        bytes_copy_text(id, sizeof id, text);
    } else {
        token_invite_key(&token, key);
        bytes_to_hex(id, key, (sizeof id - 1) / 2);
        sodium_memzero(&token, sizeof token);
    }
    struct client client;
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "invite_revoke", 1);
        pack_text(&client.request, "invite");
        pack_text(&client.request, id);
        code = print_reply(&client, render_revoked);
        client_close(&client);
    }
    return code;
}

int command_invite(struct cli *cli, const struct arguments *arguments)
{
    uint64_t expires_s = EXPIRES_STANDARD_S;
    const char *expires = options_value(arguments, "expires"), *revoked = options_value(arguments, "revoke");
    bool lists = options_has(arguments, "list");
    if ((expires != NULL) + (revoked != NULL) + lists > 1) {
        return cli_fail(cli, CLI_USAGE, "--expires, --list and --revoke do not go together; give one of them");
    }
    if (lists) {
        return print_simple(cli, "invites", render_invites);
    }
    if (revoked != NULL) {
        return revoke_invite(cli, revoked);
    }
    if (expires != NULL && (units_read_time(expires, EXPIRES_S_MAX, &expires_s) != 0 || expires_s == 0)) {
        return cli_fail(cli, CLI_USAGE, "--expires %.40s is no time; allowed are 90s, 15m, 24h, up to 366d", expires);
    }
    struct client client;
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "invite", 1);
        pack_text(&client.request, "expires_s");
        pack_u64(&client.request, expires_s);
        code = print_reply(&client, render_invite);
        client_close(&client);
    }
    return code;
}

int command_leave(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    struct client client;
    struct reply reply = {.end = false};
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(&client, "leave", 0);
    code = client_send(&client, -1);
    while (code == CLI_DONE && !reply.end) {
        code = client_next(&client, -1, false, &reply); /* workers save first, for up to preemption_timeout */
    }
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        unsigned long long stored_on = document_number(&reply.document, "stored_on");
        (void)fprintf(cli->out, "this node has left the mesh, stored on %llu node%s\n", stored_on, stored_on == 1 ? "" : "s");
        if (stored_on < 2 && document_number(&reply.document, "nodes_alive") > 1) {
            (void)fputs("no other node could store this in time: the other nodes may take this one for dead\n", cli->out);
        }
    }
    client_close(&client);
    return code;
}
