/* The door for those who have an invite. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "gossip/control_join.h"
#include "gossip/message.h"
#include "gossip/token.h"
#include "tests/unit/control_fixture.h"

struct joiner {
    struct token token;
    struct keys keys;
    uint8_t buffer[MESSAGE_BYTES_MAX];
    struct join_answer answer;
    int result;
    bool done;
    uint64_t timeout_ms;
    pthread_mutex_t mutex;
    char error[256];
};

static void *joiner_run(void *context)
{
    struct joiner *joiner = context;
    int result = control_join(&joiner->token, &joiner->keys, "ws-2", joiner->timeout_ms,
                              joiner->buffer, sizeof joiner->buffer, &joiner->answer, joiner->error);
    (void)pthread_mutex_lock(&joiner->mutex);
    joiner->result = result;
    joiner->done = true;
    (void)pthread_mutex_unlock(&joiner->mutex);
    return NULL;
}

static bool joiner_done(struct joiner *joiner)
{
    (void)pthread_mutex_lock(&joiner->mutex);
    bool done = joiner->done;
    (void)pthread_mutex_unlock(&joiner->mutex);
    return done;
}

/* Serves a's door while somebody joins with `joiner->token`, answering with `answer`; returns the number of requests.
 */
static int serve_join(struct side *a, struct joiner *joiner, const struct join_answer *answer)
{
    pthread_t thread;
    int requests = 0;
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    uint8_t invite_key[32];
    token_invite_key(&joiner->token, invite_key);
    (void)pthread_mutex_init(&joiner->mutex, NULL);
    assert_int_equal(pthread_create(&thread, NULL, joiner_run, joiner), 0);
    while (!joiner_done(joiner)) {
        side_turn(a, 20);
        struct control_incoming in;
        while (control_receive(a->control, &in) == 0) {
            struct join_request request;
            assert_int_equal(in.from.kind, ZAP_INVITE);
            assert_true(node_id_is_none(in.from.node));
            assert_memory_equal(in.from.invite_key, invite_key, 32);
            assert_int_equal(join_request_decode(in.bytes, in.count, joiner->token.mesh, invite_key, &request), 0);
            assert_memory_equal(request.sign_public, joiner->keys.sign_public, 32);
            requests++;
            size_t count = join_answer_encode(answer, bytes, sizeof bytes);
            assert_int_equal(control_reply(a->control, in.client, bytes, count), 0);
            assert_int_equal(control_reply(a->control, in.client + 1, bytes, count), ERR_NOT_FOUND);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_mutex_destroy(&joiner->mutex);
    return requests;
}

static struct joiner *joiner_new(const struct side *a)
{
    struct joiner *joiner = calloc(1, sizeof *joiner);
    assert_non_null(joiner);
    keys_create(&joiner->keys);
    joiner->timeout_ms = 60000;
    uint8_t invite_key[32];
    token_create(joiner->token.secret, invite_key);
    joiner->token.mesh = (mesh_id){{4}};
    joiner->token.member_count = 1;
    memcpy(joiner->token.members[0].sign_public, a->keys.sign_public, 32);
    joiner->token.members[0].address_count = 1;
    (void)bytes_copy_text(joiner->token.members[0].addresses[0], TOKEN_ADDRESS_BYTES, a->address);
    return joiner;
}

static void one_joins_with_an_invite(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    struct joiner *joiner = joiner_new(&a);
    uint8_t invite_key[32];
    token_invite_key(&joiner->token, invite_key);
    assert_int_equal(control_admit(a.control, invite_key, true, false), 0);
    struct join_answer welcome = {.records = (const uint8_t *)"records", .record_bytes = 7};
    assert_int_equal(serve_join(&a, joiner, &welcome), 1);
    assert_int_equal(joiner->result, 0);
    assert_int_equal(joiner->answer.record_bytes, 7);
    assert_memory_equal(joiner->answer.records, "records", 7);

    joiner->done = false;
    struct join_answer refusal = {.code = ERR_REFUSED, .text = "The invite has expired."};
    assert_int_equal(serve_join(&a, joiner, &refusal), 1);
    assert_int_equal(joiner->result, ERR_REFUSED);
    assert_non_null(strstr(joiner->error, "The invite has expired."));

    joiner->done = false;
    joiner->timeout_ms = 3000;
    assert_int_equal(control_admit(a.control, invite_key, true, true), 0); /* revoked */
    assert_int_equal(serve_join(&a, joiner, &welcome), 0);
    assert_int_equal(joiner->result, ERR_TIMEOUT);
    assert_non_null(strstr(joiner->error, "No member let us in"));
    free(joiner);
    side_close(&a);
}

static void invites_do_not_open_the_bulk_door(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    uint8_t secret[32], invite_key[32];
    token_create(secret, invite_key);
    assert_int_equal(control_admit(a.control, invite_key, true, false), 0);
    assert_int_equal(control_admit(a.control, a.keys.sign_public, false, false), 0);
    void *asker = zmq_socket(a.context, ZMQ_REQ);
    int zero = 0;
    assert_int_equal(zmq_setsockopt(asker, ZMQ_LINGER, &zero, sizeof zero), 0);
    assert_int_equal(zmq_connect(asker, "inproc://zeromq.zap.01"), 0);
    static const struct {
        const char *version, *domain, *mechanism;
        int key; /* 0: the invite's, 1: the member's, 2: another, 3: too short */
        const char *status;
    } rows[] = {
        {"1.0", ZAP_DOMAIN_CONTROL, "CURVE", 0, "200"}, {"1.0", ZAP_DOMAIN_CONTROL, "CURVE", 1, "200"},
        {"1.0", ZAP_DOMAIN_BULK, "CURVE", 0, "300"},    {"1.0", ZAP_DOMAIN_BULK, "CURVE", 1, "200"},
        {"1.0", ZAP_DOMAIN_BULK, "CURVE", 2, "300"},    {"1.0", "", "CURVE", 1, "300"},
        {"2.0", ZAP_DOMAIN_BULK, "CURVE", 1, "300"},    {"1.0", ZAP_DOMAIN_BULK, "NULL", 1, "300"},
        {"1.0", ZAP_DOMAIN_BULK, "CURVE", 3, "300"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint8_t *key = rows[i].key == 0 ? invite_key : rows[i].key == 2 ? secret : a.keys.curve_public;
        (void)zmq_send(asker, rows[i].version, 3, ZMQ_SNDMORE);
        (void)zmq_send(asker, "77", 2, ZMQ_SNDMORE);
        (void)zmq_send(asker, rows[i].domain, strlen(rows[i].domain), ZMQ_SNDMORE);
        (void)zmq_send(asker, "127.0.0.1", 9, ZMQ_SNDMORE);
        (void)zmq_send(asker, "", 0, ZMQ_SNDMORE);
        (void)zmq_send(asker, rows[i].mechanism, strlen(rows[i].mechanism), ZMQ_SNDMORE);
        (void)zmq_send(asker, key, rows[i].key == 3 ? 31 : 32, 0);
        side_turn(&a, 1000);
        char frames[6][256];
        int sizes[6];
        for (int f = 0; f < 6; f++) {
            sizes[f] = zmq_recv(asker, frames[f], sizeof frames[f], 0);
            assert_in_range(sizes[f], 0, 255);
        }
        assert_int_equal(sizes[2], 3);
        assert_memory_equal(frames[1], "77", 2);
        assert_memory_equal(frames[2], rows[i].status, 3);
    }
    assert_int_equal(zmq_send(asker, "1.0", 3, 0), 3); /* six frames are missing */
    side_turn(&a, 1000);
    char frame[256];
    assert_int_equal(zmq_recv(asker, frame, sizeof frame, 0), 3);
    assert_int_equal(zmq_close(asker), 0);
    side_close(&a);
}

static void any_number_of_invites_leaves_room_for_members(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    uint8_t key[32] = {0};
    for (uint32_t i = 0; i <= ZAP_KEYS_MAX; i++) {
        bytes_put_u32(key, i);
        assert_int_equal(control_admit(a.control, key, true, false), 0);
    }
    for (uint32_t i = 0; i < ZAP_KEYS_MAX - ZAP_INVITES_MAX; i++) {
        bytes_put_u32(key, i);
        assert_int_equal(zap_admit_member(a.zap, key, (node_id){{1}}), 0);
    }
    bytes_put_u32(key, ZAP_KEYS_MAX - ZAP_INVITES_MAX); /* the first ones went */
    assert_int_equal(control_admit(a.control, key, true, true), ERR_NOT_FOUND);
    bytes_put_u32(key, ZAP_KEYS_MAX - ZAP_INVITES_MAX + 1);
    assert_int_equal(control_admit(a.control, key, true, true), 0);
    side_close(&a);
}

/* Members' doors, each of which opens only once the one before it was asked, so that who is asked first is no matter of
 * luck. Each has its answer, or none (code ERR_AGAIN). The joiner runs beside, until it is done. Returns how many were asked. */
static uint32_t serve(struct side *sides, const struct join_answer *answers, uint32_t count, struct joiner *joiner)
{
    pthread_t thread;
    uint32_t open = 1, asked = 0;
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    joiner->done = false;
    (void)pthread_mutex_init(&joiner->mutex, NULL);
    assert_int_equal(pthread_create(&thread, NULL, joiner_run, joiner), 0);
    while (!joiner_done(joiner)) {
        for (uint32_t i = 0; i < open; i++) {
            struct control_incoming in;
            side_turn(&sides[i], 10);
            while (control_receive(sides[i].control, &in) == 0) {
                asked++;
                open = i + 2 < count ? i + 2 : count;
                if (answers[i].code != ERR_AGAIN) {
                    size_t byte_count = join_answer_encode(&answers[i], bytes, sizeof bytes);
                    assert_int_equal(control_reply(sides[i].control, in.client, bytes, byte_count), 0);
                }
            }
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_mutex_destroy(&joiner->mutex);
    return asked;
}

#define DOORS 3

/* Their doors, and somebody whose token names them all. */
static struct joiner *doors_open(struct side sides[DOORS])
{
    struct joiner *joiner = NULL;
    for (uint32_t i = 0; i < DOORS; i++) {
        side_open(&sides[i]);
        joiner = i == 0 ? joiner_new(&sides[0]) : joiner;
        struct token *token = &joiner->token;
        token->member_count = i + 1;
        memcpy(token->members[i].sign_public, sides[i].keys.sign_public, 32);
        token->members[i].address_count = 1;
        (void)bytes_copy_text(token->members[i].addresses[0], TOKEN_ADDRESS_BYTES, sides[i].address);
        uint8_t invite_key[32];
        token_invite_key(token, invite_key);
        assert_int_equal(control_admit(sides[i].control, invite_key, true, false), 0);
    }
    return joiner;
}

static void who_is_refused_by_one_member_asks_the_next(void **state)
{
    (void)state;
    struct side sides[DOORS];
    struct joiner *joiner = doors_open(sides);
    struct join_answer refusal = {.code = ERR_REFUSED, .text = "This node is leaving."};
    struct join_answer other = {.code = ERR_REFUSED, .text = "Nor do I."};
    struct join_answer silence = {.code = ERR_AGAIN};
    struct join_answer welcome = {.records = (const uint8_t *)"records", .record_bytes = 7};
    joiner->token.member_count = 2;
    assert_int_equal(serve(sides, (struct join_answer[]){refusal, welcome}, 2, joiner), 2);
    assert_int_equal(joiner->result, 0);
    assert_int_equal(joiner->answer.record_bytes, 7);

    assert_int_equal(serve(sides, (struct join_answer[]){refusal, other}, 2, joiner), 2);
    assert_int_equal(joiner->result, ERR_REFUSED);
    assert_non_null(strstr(joiner->error, "This node is leaving."));

    joiner->token.member_count = 3; /* who says nothing keeps nobody from the last one either */
    assert_int_equal(serve(sides, (struct join_answer[]){refusal, silence, welcome}, 3, joiner), 3);
    assert_int_equal(joiner->result, 0);
    free(joiner);
    for (uint32_t i = 0; i < DOORS; i++) {
        side_close(&sides[i]);
    }
}

/* czmq handles signals and prints its log unless it is told not to, and ends the process that lacks a descriptor. */
static void joining_leaves_the_process_as_it_was(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    struct joiner *joiner = joiner_new(&a);
    uint8_t buffer[MESSAGE_BYTES_MAX];
    struct join_answer answer;
    char error[256] = "";
    int result = control_join(&joiner->token, &joiner->keys, "ws-2", 300, buffer, sizeof buffer, &answer, error);
    assert_int_equal(result, ERR_TIMEOUT);
    const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action;
        assert_int_equal(sigaction(signals[i], NULL, &action), 0);
        assert_true(action.sa_handler == SIG_DFL);
    }
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    /* The three standard ones are open, so fewer than 8 are left, even while libzmq still closes those of the call before. */
    few.rlim_cur = 8;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    result = control_join(&joiner->token, &joiner->keys, "ws-2", 300, buffer, sizeof buffer, &answer, error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(result, ERR_FULL);
    assert_non_null(strstr(error, "leaves fewer than the 8 that joining takes"));
    free(joiner);
    side_close(&a);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_joins_with_an_invite),
        cmocka_unit_test(invites_do_not_open_the_bulk_door),
        cmocka_unit_test(any_number_of_invites_leaves_room_for_members),
        cmocka_unit_test(who_is_refused_by_one_member_asks_the_next),
        cmocka_unit_test(joining_leaves_the_process_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
