/* shoal init and shoal join, against real directories and a real control socket. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/pack.h"
#include "gossip/control.h"
#include "gossip/message.h"
#include "gossip/token.h"
#include "node/core/facts/facts.h"
#include "store/data_dir.h"
#include "store/state_lmdb.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

struct found {
    size_t record_count;
    struct fact_member member;
    mesh_id mesh;
    node_id writer;
    bool signature_good;
    uint8_t envelope[1024];
    size_t envelope_bytes;
};

static int look_at_record(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes)
{
    struct found *found = context;
    struct record record;
    assert_int_equal(record_decode(value, value_bytes, &record), 0);
    record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    assert_int_equal(key_bytes, sizeof ident.bytes);
    assert_memory_equal(key, ident.bytes, key_bytes);
    found->record_count++;
    assert_int_equal(record.kind, FACT_MEMBER);
    assert_int_equal(fact_member_read(&record, &found->member), 0);
    found->writer = record.writer;
    assert_true(value_bytes <= sizeof found->envelope);
    memcpy(found->envelope, value, value_bytes);
    found->envelope_bytes = value_bytes;
    found->signature_good = keys_verify_record(found->member.public_key, found->mesh, value, value_bytes) == 0;
    return 0;
}

static void look_at(const char *dir, struct found *out, char name[64])
{
    struct state *store;
    char error[256];
    size_t bytes;
    memset(out, 0, sizeof *out);
    assert_int_equal(state_open(dir, &store, error, sizeof error), 0);
    assert_int_equal(state_get(store, STATE_META, "mesh", 4, &out->mesh, sizeof out->mesh, &bytes), 0);
    assert_int_equal(bytes, MESH_ID_BYTES);
    assert_int_equal(state_get(store, STATE_META, "name", 4, name, 63, &bytes), 0);
    name[bytes] = '\0';
    assert_int_equal(state_each(store, STATE_RECORDS, look_at_record, out), 0);
    state_close(&store);
}

static void init_makes_a_mesh_once(void **state)
{
    (void)state;
    char dir[128], name[64], error[256];
    (void)snprintf(dir, sizeof dir, "%s/deep/init", root);
    assert_int_equal(RUN("init", "--dir", dir, "--name", "lab of x", "--node-name", "alpha"), CLI_DONE);
    struct found found;
    struct keys keys;
    look_at(dir, &found, name);
    assert_int_equal(keys_load(dir, &keys, error), 0);
    assert_string_equal(name, "alpha");
    assert_int_equal(found.record_count, 1);
    assert_true(found.signature_good);
    assert_memory_equal(found.member.public_key, keys.sign_public, 32);
    assert_string_equal(found.member.name, "alpha");
    assert_true(node_id_equal(found.writer, keys.id));
    assert_true(mesh_id_equal(found.mesh, mesh_id_of_founder(found.member.public_key, found.member.nonce)));
    assert_int_equal(RUN("init", "--dir", dir), CLI_REFUSED);
    assert_sentence("has a node of the mesh lab of x ");
    struct found again;
    look_at(dir, &again, name);
    assert_memory_equal(again.envelope, found.envelope, found.envelope_bytes);
    assert_int_equal(RUN("init", "--dir", dir, "--node-name", "two words"), CLI_USAGE);
}

/* A member's door: answers JOINs as a daemon would, with the founder's record and, if it vouches, one for the joiner.
 */
struct door {
    pthread_t thread;
    void *context;
    struct zap *zap;
    struct control *control;
    struct keys keys;
    struct found founder;
    struct token token;
    uint8_t invite_key[32];
    bool vouches, refuses;
    const char *mesh; /* the mesh's name that joiners are told; NULL: the member is of an older version */
    const char *aged; /* a file that seems an hour old when the answer comes; or NULL */
    int wake[2];
};

static size_t voucher(const struct door *door, const struct join_request *request, uint8_t *out, size_t capacity)
{
    struct fact_member fact = {.nonce = {0}};
    memcpy(fact.public_key, request->sign_public, 32);
    (void)snprintf(fact.name, sizeof fact.name, "%s", request->name);
    uint8_t body[256];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_member_pack(&writer, &fact);
    struct fact_key key = fact_key_node_id(node_id_of_key(request->sign_public));
    struct record record = {.kind = FACT_MEMBER,
                            .writer = door->keys.id,
                            .version = {1ull << 32, 7},
                            .key = key.bytes,
                            .key_bytes = key.count,
                            .body = body,
                            .body_bytes = (uint16_t)writer.used_bytes};
    size_t count = record_encode(&record, out, capacity);
    keys_sign_record(&door->keys, door->token.mesh, out, count);
    return count;
}

static void door_answer(struct door *door, const struct control_incoming *in)
{
    static uint8_t records[4096], bytes[MESSAGE_BYTES_MAX];
    struct join_request request;
    struct join_answer answer = {.code = 0, .text = "", .records = records};
    if (in->from.kind != ZAP_INVITE ||
        join_request_decode(in->bytes, in->count, door->token.mesh, door->invite_key, &request) != 0) {
        return;
    }
    memcpy(records, door->founder.envelope, door->founder.envelope_bytes);
    size_t used = door->founder.envelope_bytes;
    if (door->vouches) {
        used += voucher(door, &request, records + used, sizeof records - used);
    }
    answer.record_bytes = (uint32_t)used;
    if (door->mesh != NULL) {
        struct join_greeting greeting = {.member = "alpha", .wall_s = (uint64_t)time(NULL)};
        (void)snprintf(greeting.mesh, sizeof greeting.mesh, "%s", door->mesh);
        join_greeting_write(&greeting, answer.text);
    }
    if (door->refuses) {
        answer = (struct join_answer){.code = ERR_REFUSED, .text = "the invite is revoked"};
    }
    struct timespec times[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    if (door->aged != NULL) {
        (void)utimensat(AT_FDCWD, door->aged, times, 0);
    }
    size_t count = join_answer_encode(&answer, bytes, sizeof bytes);
    (void)control_reply(door->control, in->client, bytes, count);
}

static void *door_run(void *context)
{
    struct door *door = context;
    for (;;) {
        zmq_pollitem_t items[CONTROL_POLL_MAX + 1];
        size_t count = control_poll_items(door->control, items);
        items[count] = (zmq_pollitem_t){.fd = door->wake[0], .events = ZMQ_POLLIN};
        (void)zmq_poll(items, (int)count + 1, 1000);
        if ((items[count].revents & ZMQ_POLLIN) != 0) {
            return NULL;
        }
        control_process(door->control);
        struct control_incoming in;
        while (control_receive(door->control, &in) == 0) {
            door_answer(door, &in);
        }
    }
}

static void door_open(struct door *door, const char *founder_dir)
{
    char error[256] = "", name[64];
    memset(door, 0, sizeof *door);
    assert_int_equal(keys_load(founder_dir, &door->keys, error), 0);
    look_at(founder_dir, &door->founder, name);
    door->context = zmq_ctx_new();
    assert_int_equal(zap_open(door->context, &door->zap, error), 0);
    struct control_options options = {
        .context = door->context, .zap = door->zap, .keys = &door->keys, .listen = "127.0.0.1:0"};
    assert_int_equal(control_open(&options, &door->control, error), 0);
    door->token =
        (struct token){.mesh = door->founder.mesh, .expires_s = (uint64_t)time(NULL) + 600, .member_count = 1};
    token_create(door->token.secret, door->invite_key);
    memcpy(door->token.members[0].sign_public, door->keys.sign_public, 32);
    door->token.members[0].address_count = 1;
    (void)snprintf(door->token.members[0].addresses[0], TOKEN_ADDRESS_BYTES, "127.0.0.1:%u",
                   control_port(door->control));
    assert_int_equal(control_admit(door->control, door->invite_key, true, false), 0);
}

/* The thread serves while one command runs: afterwards the door may be changed. */
static int door_serve(struct door *door, char **words)
{
    assert_int_equal(pipe2(door->wake, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&door->thread, NULL, door_run, door), 0);
    int code = run_words(words);
    assert_int_equal(write(door->wake[1], "x", 1), 1);
    assert_int_equal(pthread_join(door->thread, NULL), 0);
    (void)close(door->wake[0]);
    (void)close(door->wake[1]);
    return code;
}

static void join_takes_what_the_founder_s_chain_vouches_for(void **state)
{
    (void)state;
    char founder_dir[128], dir[128], token[TOKEN_TEXT_BYTES], name[64], error[256];
    (void)snprintf(founder_dir, sizeof founder_dir, "%s/founder", root);
    (void)snprintf(dir, sizeof dir, "%s/joiner", root);
    assert_int_equal(RUN("init", "--dir", founder_dir), CLI_DONE);
    struct door door;
    door_open(&door, founder_dir);
    (void)token_write(&door.token, token);
    char *words[] = {"shoal", "join", token, "--dir", dir, "--name", "beta", NULL};

    assert_int_equal(door_serve(&door, words), CLI_REFUSED); /* it does not vouch */
    assert_sentence("vouches for this node");
    struct keys keys, same_keys;
    assert_int_equal(keys_load(dir, &keys, error), 0);
    door.refuses = true;
    assert_int_equal(door_serve(&door, words), CLI_REFUSED);
    assert_sentence("the invite is revoked");
    door.refuses = false;
    door.vouches = true;
    char lock[136];
    (void)snprintf(lock, sizeof lock, "%s/lock", dir);
    door.aged = lock;
    door.mesh = "my lab";
    assert_int_equal(door_serve(&door, words), CLI_DONE);
    assert_has(out_text, "mesh my lab ");
    door.mesh = NULL; /* a member that does not know it */
    assert_true(data_dir_taken_ms(dir) < 1800 * 1000); /* from its end on a daemon behind it is waited for */
    door.aged = NULL;
    assert_has(out_text, "next: shoald --dir ");
    char other[128];
    (void)snprintf(other, sizeof other, "%s/second", root);
    char *as_json[] = {"shoal", "join", token, "--dir", other, "--name", "gamma", "--json", NULL};
    assert_int_equal(door_serve(&door, as_json), CLI_DONE);
    assert_has(out_text, "\"name\": null}, \"node\": {");

    assert_int_equal(keys_load(dir, &same_keys, error), 0);
    assert_memory_equal(keys.sign_public, same_keys.sign_public, 32); /* the tries before did not waste a key */
    struct state *store;
    assert_int_equal(state_open(dir, &store, error, sizeof error), 0);
    uint8_t peers[TOKEN_TEXT_BYTES];
    char mesh_name[64];
    size_t bytes;
    assert_int_equal(state_get(store, STATE_META, "mesh_name", 9, mesh_name, sizeof mesh_name, &bytes), 0);
    assert_int_equal(bytes, strlen("my lab"));
    assert_memory_equal(mesh_name, "my lab", bytes);
    assert_int_equal(state_get(store, STATE_META, "peers", 5, peers, sizeof peers, &bytes), 0);
    struct pack_reader reader;
    uint8_t public_key[32];
    char address[TOKEN_ADDRESS_BYTES];
    pack_reader_init(&reader, peers, bytes);
    assert_int_equal(pack_read_array(&reader), 1);
    assert_int_equal(pack_read_array(&reader), 2);
    pack_read_bin_exact(&reader, public_key, 32);
    pack_read_text_copy(&reader, address, sizeof address);
    assert_true(pack_at_end(&reader));
    assert_memory_equal(public_key, door.keys.sign_public, 32);
    assert_string_equal(address, door.token.members[0].addresses[0]);
    state_close(&store);
    struct found found;
    look_at(dir, &found, name);
    assert_int_equal(found.record_count, 2);
    assert_string_equal(name, "beta");
    assert_memory_equal(found.mesh.bytes, door.token.mesh.bytes, MESH_ID_BYTES);
    assert_int_equal(RUN("join", token, "--dir", dir), CLI_REFUSED);
    assert_sentence("has a node of the mesh my lab ");

    control_close(&door.control);
    zap_close(&door.zap);
    assert_int_equal(zmq_ctx_term(door.context), 0);
}

static void bad_tokens_leave_nothing_behind(void **state)
{
    (void)state;
    char dir[128], text[TOKEN_TEXT_BYTES];
    (void)snprintf(dir, sizeof dir, "%s/nothing", root);
    struct token token = {.mesh = {{1}}, .expires_s = 1000, .member_count = 1};
    uint8_t invite_key[32];
    assert_int_equal(keys_start(), 0);
    token_create(token.secret, invite_key);
    struct keys member;
    keys_create(&member);
    memcpy(token.members[0].sign_public, member.sign_public, sizeof token.members[0].sign_public);
    token.members[0].address_count = 1;
    (void)snprintf(token.members[0].addresses[0], TOKEN_ADDRESS_BYTES, "127.0.0.1:1");
    (void)token_write(&token, text);
    char late[128];
    (void)snprintf(late, sizeof late, "%s/late", root);
    assert_int_equal(RUN("join", text, "--dir", late), CLI_TIMED_OUT); /* the clock of this machine might be wrong */
    assert_sentence("expired");
    assert_int_equal(RUN("join", "shoal1-garbage", "--dir", dir), CLI_REFUSED);
    assert_int_equal(RUN("join", "word", "--dir", dir), CLI_REFUSED);
    assert_int_equal(RUN("join", "shoal1-AAAA", "--dir", dir, "--name", "\033"), CLI_USAGE);
    assert_int_equal(access(dir, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(init_makes_a_mesh_once, stop_what_runs),
        cmocka_unit_test_teardown(join_takes_what_the_founder_s_chain_vouches_for, stop_what_runs),
        cmocka_unit_test_teardown(bad_tokens_leave_nothing_behind, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
