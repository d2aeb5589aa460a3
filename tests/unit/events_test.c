/* Events as clients and peers get them, and what a node answers to a peer that asks for its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/daemon/api/query.h"
#include "node/daemon/wire/event.h"

static char dir[64];
static struct journal journal;
static uint8_t answer_bytes[1 << 20];

static int make_journal(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/events-test-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    journal_open(&journal, dir, 1000);
    return 0;
}

static int remove_journal(void **state)
{
    (void)state;
    char command[128];
    journal_close(&journal);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* Events of which each third is of an experiment. */
static void append(uint64_t from, uint64_t end)
{
    const experiment_id experiment = {{1}};
    for (uint64_t seq = from; seq < end; seq++) {
        struct event_about about = seq % 3 == 0 ? event_of_trial(EVENT_TRIAL_FAILED, experiment, (uint32_t)seq)
                                                : event_of_slot(EVENT_SLOT_FREE, 1);
        journal_append(&journal, &(struct journal_event){seq, 10 * seq, about, "what happened"});
    }
}

/* What came of the questions of a client that asks until there is no more. */
struct answered {
    uint64_t count, first, last, next, reset_to;
    uint32_t questions;
};

static struct answered ask(const struct event_choice *choice, uint64_t from, size_t bytes_max)
{
    struct answered answered = {.next = from};
    uint8_t question[EVENT_QUESTION_BYTES];
    size_t question_bytes = event_question_pack(choice, question);
    bool more = true;
    while (more) {
        struct pack_writer out;
        struct pack_reader reader;
        const uint8_t *bytes;
        uint64_t sequence, before = answered.next;
        size_t count;
        pack_writer_init(&out, answer_bytes, sizeof answer_bytes);
        assert_int_equal(query_events_answer(&journal, before, question, question_bytes, bytes_max, &out, &more), 0);
        assert_true(!out.failed && out.used_bytes <= bytes_max + 64);
        pack_reader_init(&reader, answer_bytes, out.used_bytes);
        while (bulk_wire_entry_read(&reader, &sequence, &bytes, &count)) {
            struct event_held held;
            answered.next = count == 1 ? sequence : sequence + 1;
            answered.reset_to = count == 1 ? sequence : answered.reset_to;
            if (event_read(bytes, count, &held) == 0) {
                assert_int_equal(held.event.seq, sequence);
                assert_true(held.event.seq > answered.last);
                answered.first = answered.count++ == 0 ? sequence : answered.first;
                answered.last = sequence;
            }
        }
        assert_true(!more || answered.next > before);
        answered.questions++;
    }
    return answered;
}

static void a_peer_gets_each_event_once_and_in_order(void **state)
{
    (void)state;
    const struct event_choice all = {0}, trials = {.kind = "trial"}, none = {.kind = "node.dead"},
                              late = {.since_ms = 29000}, tail = {.tail = 100}, other = {.experiment = {{2}}};
    append(1, 3001);
    struct answered got = ask(&all, 1, 20000);
    assert_true(got.count == 3000 && got.first == 1 && got.last == 3000 && got.next == 3001 && got.questions > 10);
    got = ask(&trials, 1, 20000);
    assert_true(got.count == 1000 && got.first == 3 && got.next == 3001);
    got = ask(&none, 1, 20000);
    assert_true(got.count == 0 && got.next == 3001);
    got = ask(&other, 1, 20000);
    assert_int_equal(got.count, 0);
    got = ask(&late, 0, 20000);
    assert_true(got.count == 101 && got.first == 2900);
    got = ask(&tail, 0, 200000);
    assert_true(got.count >= 100 && got.count < 1500 && got.last == 3000);
    got = ask(&all, 3001, 20000); /* one that follows has had all */
    assert_true(got.count == 0 && got.next == 3001 && got.reset_to == 0);
    append(3001, 3003);
    got = ask(&all, 3001, 20000);
    assert_true(got.count == 2 && got.first == 3001 && got.reset_to == 0);
}

static void a_peer_is_told_that_what_it_asks_for_is_not_here(void **state)
{
    (void)state;
    const struct event_choice all = {0};
    append(500, 2000);
    struct answered got = ask(&all, 20, 20000);
    assert_true(got.reset_to == 500 && got.first == 500 && got.count == 1500);
    got = ask(&all, 1, 20000); /* all that there is */
    assert_true(got.reset_to == 0 && got.count == 1500);
    got = ask(&all, 90000, 20000);
    assert_true(got.reset_to == 2000 && got.count == 0 && got.next == 2000);
}

static void an_empty_journal_has_an_answer(void **state)
{
    (void)state;
    const struct event_choice all = {0}, tail = {.tail = 5};
    assert_int_equal(ask(&all, 1, 20000).count, 0);
    assert_int_equal(ask(&tail, 0, 20000).count, 0);
}

static void a_malformed_question_is_refused(void **state)
{
    (void)state;
    static const uint8_t nil[1] = {0xc0};
    struct pack_writer out;
    bool more;
    pack_writer_init(&out, answer_bytes, sizeof answer_bytes);
    assert_int_equal(query_events_answer(&journal, 0, nil, sizeof nil, 1000, &out, &more), ERR_MALFORMED);
    assert_int_equal(query_events_answer(&journal, 0, nil, 0, 1000, &out, &more), ERR_MALFORMED);
}

static void an_event_of_a_peer_is_read_with_suspicion(void **state)
{
    (void)state;
    uint8_t bytes[EVENT_BYTES_MAX];
    char text[DAEMON_EVENT_BYTES];
    struct pack_writer writer;
    struct event_held held;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    text[0] = '\x1b';
    struct event_about about = event_of_node(EVENT_NODE_DEAD, (node_id){{7}});
    about.experiment = (experiment_id){{8}};
    about.has_trial = about.has_slot = true;
    about.trial = about.slot = about.attempt = UINT32_MAX;
    pack_writer_init(&writer, bytes, sizeof bytes);
    event_pack(&writer, &(struct journal_event){JOURNAL_SEQ_MAX, JOURNAL_SEQ_MAX, about, text});
    assert_true(!writer.failed && writer.used_bytes <= 448); /* query_events.c counts on it */
    assert_int_equal(event_read(bytes, writer.used_bytes, &held), 0);
    assert_true(held.text[0] == '?' && strlen(held.text) == sizeof text - 1 && held.event.about.slot == UINT32_MAX);
    assert_true(node_id_equal(held.event.about.node, about.node));
    for (size_t cut = 0; cut < writer.used_bytes; cut++) {
        (void)event_read(bytes, cut, &held);
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 5);
    pack_text(&writer, "seq");
    pack_u64(&writer, 1);
    pack_text(&writer, "wall_ms");
    pack_u64(&writer, 1);
    pack_text(&writer, "text");
    pack_text(&writer, "of a later version");
    pack_text(&writer, "kind");
    pack_text(&writer, "gpu.melted");
    pack_text(&writer, "node");
    pack_text(&writer, "no id");
    assert_int_equal(event_read(bytes, writer.used_bytes, &held), 0);
    assert_true(held.event.about.kind == EVENT_OTHER && node_id_is_none(held.event.about.node));
}

static void an_area_has_its_kinds(void **state)
{
    (void)state;
    assert_true(event_kind_is(EVENT_NODE_DEAD, "node") && event_kind_is(EVENT_NODE_DEAD, "node.dead"));
    assert_false(event_kind_is(EVENT_NODE_DEAD, "nod") || event_kind_is(EVENT_NODE_DEAD, "node.d"));
    assert_false(event_kind_is(EVENT_NODE_DEAD, "") || event_kind_is(EVENT_TRIAL_FAILED, "node"));
    assert_true(event_kind_is_known("checkpoint") && event_kind_is_known("other"));
    assert_false(event_kind_is_known("checkpoints") || event_kind_is_known(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_peer_gets_each_event_once_and_in_order, make_journal, remove_journal),
        cmocka_unit_test_setup_teardown(a_peer_is_told_that_what_it_asks_for_is_not_here, make_journal, remove_journal),
        cmocka_unit_test_setup_teardown(an_empty_journal_has_an_answer, make_journal, remove_journal),
        cmocka_unit_test_setup_teardown(a_malformed_question_is_refused, make_journal, remove_journal),
        cmocka_unit_test(an_event_of_a_peer_is_read_with_suspicion),
        cmocka_unit_test(an_area_has_its_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
