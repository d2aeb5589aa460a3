/* What a webhook is told, how it is signed, and where it may be. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/webhooks/body.h"
#include "node/webhooks/reach.h"
#include "node/webhooks/sign.h"

static void a_signature_is_that_of_the_standard(void **state)
{
    static const struct {
        const char *secret, *id, *body, *signature;
        uint64_t timestamp_s;
    } known[] = {
        {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "{\"test\": 2432232314}",
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", 1614265330},
        {"whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf",
         "{\"event_type\":\"ping\",\"data\":{\"success\":true}}",
         "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=", 1731705121},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char out[WEBHOOK_SIGNATURE_BYTES];
        assert_int_equal(webhook_sign(known[i].secret, strlen(known[i].secret), known[i].id, known[i].timestamp_s,
                                      known[i].body, strlen(known[i].body), out),
                         0);
        assert_string_equal(out, known[i].signature);
    }
}

static void a_secret_without_the_prefix_is_the_key_and_a_broken_one_is_refused(void **state)
{
    (void)state;
    char out[WEBHOOK_SIGNATURE_BYTES], other[WEBHOOK_SIGNATURE_BYTES];
    assert_int_equal(webhook_sign("abc", 3, "msg_1", 1, "{}", 2, out), 0);
    assert_int_equal(webhook_sign("whsec_YWJj", 10, "msg_1", 1, "{}", 2, other), 0); /* abc */
    assert_string_equal(out, other);
    assert_int_equal(webhook_sign("whsec_%%", 8, "msg_1", 1, "{}", 2, out), ERR_MALFORMED);
    assert_string_equal(out, "");
    assert_int_equal(webhook_sign("whsec_", 6, "msg_1", 1, "{}", 2, out), ERR_MALFORMED);
}

static bool reaches(const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        return webhook_reaches((const struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return webhook_reaches((const struct sockaddr *)&v6);
}

static void addresses_of_the_machine_and_of_metadata_services_are_refused(void **state)
{
    static const char *const refused[] = {"127.0.0.1",
                                          "127.8.9.1",
                                          "0.0.0.0",
                                          "169.254.169.254",
                                          "169.254.1.1",
                                          "100.100.100.200",
                                          "192.0.0.192",
                                          "224.0.0.1",
                                          "255.255.255.255",
                                          "::1",
                                          "::",
                                          "fe80::1",
                                          "ff02::1",
                                          "::ffff:127.0.0.1",
                                          "::ffff:169.254.169.254",
                                          "::127.0.0.1",
                                          "fd00:ec2::254",
                                          "64:ff9b::7f00:1",
                                          "2002:7f00:1::",
                                          "2002:a9fe:a9fe::1"};
    static const char *const taken[] = {"10.0.0.1",        "192.168.1.20", "172.16.0.1",  "8.8.8.8",
                                        "100.100.100.201", "fd00::1",      "2001:db8::1", "::ffff:10.0.0.1"};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (reaches(refused[i])) {
            fail_msg("%s is reached", refused[i]);
        }
    }
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (!reaches(taken[i])) {
            fail_msg("%s is refused", taken[i]);
        }
    }
    const struct sockaddr other = {.sa_family = AF_UNIX};
    assert_false(webhook_reaches(&other));
}

static struct node_webhook_due due_of(enum fact_hook_event event)
{
    struct node_webhook_due due = {
        .fact = {.event = event, .trial = 3, .attempt = 2, .rank = 1, .text = "a \"line\" <b> & more"}, .value = 0.25};
    memset(due.experiment.bytes, 0xab, sizeof due.experiment.bytes);
    memset(due.node.bytes, 0xcd, sizeof due.node.bytes);
    return due;
}

static const struct webhook_words words = {
    .mesh = "lab", .experiment = "mlp", .metric = "loss", .node = "alder", .now_s = 1700000000};

static void a_body_says_what_happened(void **state)
{
    static const struct {
        enum fact_hook_event event;
        const char *body;
    } known[] = {
        {FACT_HOOK_COMPLETED, "{\"type\": \"experiment.completed\", \"timestamp\": \"2023-11-14T22:13:20Z\", \"data\": "
                              "{\"mesh\": \"lab\", \"experiment\": "
                              "\"abababababababab\", \"name\": \"mlp\"}}"},
        {FACT_HOOK_BEST,
         "{\"type\": \"trial.best\", \"timestamp\": \"2023-11-14T22:13:20Z\", \"data\": {\"mesh\": \"lab\", "
         "\"experiment\": "
         "\"abababababababab\", \"name\": \"mlp\", \"trial\": 3, \"metric\": \"loss\", \"value\": 0.25}}"},
        {FACT_HOOK_LOG_MATCH, "{\"type\": \"trial.log_match\", \"timestamp\": \"2023-11-14T22:13:20Z\", \"data\": "
                              "{\"mesh\": \"lab\", \"experiment\": "
                              "\"abababababababab\", \"name\": \"mlp\", \"trial\": 3, \"attempt\": 2, \"rank\": 1, "
                              "\"line\": \"a \\\"line\\\" <b> & more\"}}"},
        {FACT_HOOK_NODE_LOST, "{\"type\": \"node.lost\", \"timestamp\": \"2023-11-14T22:13:20Z\", \"data\": {\"mesh\": "
                              "\"lab\", \"experiment\": "
                              "\"abababababababab\", \"name\": \"mlp\", \"node\": "
                              "\"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd\", \"label\": \"alder\"}}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct node_webhook_due due = due_of(known[i].event);
        char body[WEBHOOK_BODY_BYTES];
        assert_int_equal(webhook_body(&due, &words, body), strlen(known[i].body));
        assert_string_equal(body, known[i].body);
    }
}

static void people_get_a_sentence(void **state)
{
    (void)state;
    char body[WEBHOOK_BODY_BYTES];
    struct node_webhook_due due = due_of(FACT_HOOK_LOG_MATCH);
    due.hook.is_slack = true;
    (void)webhook_body(&due, &words, body);
    assert_string_equal(body, "{\"text\": \"mlp (abababab), trial 3: a \\\"line\\\" &lt;b&gt; &amp; more\"}");
    due = due_of(FACT_HOOK_FAILED);
    due.hook.is_slack = true;
    (void)webhook_body(&due, &words, body);
    assert_string_equal(body, "{\"text\": \"mlp (abababab) has failed on lab\"}");
    memset(due.fact.text, '&', sizeof due.fact.text - 1); /* the longest */
    due.fact.event = FACT_HOOK_LOG_MATCH;
    assert_true(webhook_body(&due, &words, body) > 400);
}

static void addresses_are_checked(void **state)
{
    static const char *const good[] = {"http://a", "https://chat.example:8443/x?y=1", "http://[fd00::1]:80/",
                                       "secret:CHAT_URL"};
    static const char *const bad[] = {
        "",           "ftp://a", "http://",  "http:///x",   "http://:80", "https://user:pw@host/",
        "http://a b", "secret:", "secret:9", "http://a\\b", "HTTP"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(config_url_is_good(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(config_url_is_good(bad[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_is_that_of_the_standard),
        cmocka_unit_test(a_secret_without_the_prefix_is_the_key_and_a_broken_one_is_refused),
        cmocka_unit_test(addresses_of_the_machine_and_of_metadata_services_are_refused),
        cmocka_unit_test(a_body_says_what_happened),
        cmocka_unit_test(people_get_a_sentence),
        cmocka_unit_test(addresses_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
