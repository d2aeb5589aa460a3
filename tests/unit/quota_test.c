/* What may wait of each sender, and of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gossip/quota.h"

static struct quota quota, before;

static int start(void **state)
{
    (void)state;
    quota_init(&quota, &(struct quota_options){.messages_max = 4, .bytes_max = 100, .own_bytes = 30, .shared_bytes_max = 50});
    return 0;
}

static void assert_as_before(void)
{
    assert_int_equal(quota.shared_bytes, before.shared_bytes);
    for (int i = 0; i < QUOTA_SENDERS_MAX; i++) {
        assert_int_equal(quota.senders[i].messages, before.senders[i].messages);
        assert_int_equal(quota.senders[i].bytes, before.senders[i].bytes);
    }
}

static void assert_refused(uint16_t sender, size_t bytes)
{
    before = quota;
    assert_false(quota_take(&quota, sender, bytes));
    assert_as_before();
}

static void of_one_sender_messages_and_bytes_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_true(quota_take(&quota, 7, 1));
    }
    assert_refused(7, 1);
    assert_true(quota_take(&quota, QUOTA_SENDERS_MAX - 1, 60));
    assert_refused(QUOTA_SENDERS_MAX - 1, 41);
    quota_give(&quota, 7, 1);
    assert_true(quota_take(&quota, 7, 1));
}

static void a_single_message_may_be_larger_than_what_may_wait(void **state)
{
    (void)state;
    quota.options.shared_bytes_max = 1000;
    assert_true(quota_take(&quota, 1, 500));
    assert_refused(1, 1);
    quota_give(&quota, 1, 500);
    assert_true(quota_take(&quota, 1, 1));
    assert_refused(1, 500);
}

static void what_others_have_waiting_never_takes_a_senders_own_room(void **state)
{
    (void)state;
    assert_true(quota_take(&quota, 1, 60));
    assert_true(quota_take(&quota, 1, 20)); /* all that is shared */
    assert_int_equal(quota.shared_bytes, 50);
    for (uint16_t sender = 2; sender < 100; sender++) {
        assert_true(quota_take(&quota, sender, 30));
        assert_refused(sender, 1);
    }
    quota_give(&quota, 1, 20);
    assert_int_equal(quota.shared_bytes, 30);
    quota_give(&quota, 1, 60);
    assert_int_equal(quota.shared_bytes, 0);
    assert_true(quota_take(&quota, 2, 50));
    assert_refused(3, 1);
    assert_true(quota_take(&quota, 1, 30));
}

static void all_that_is_given_back_can_be_taken_again(void **state)
{
    (void)state;
    before = quota;
    for (int round = 0; round < 3; round++) {
        for (uint16_t sender = 0; sender < 5; sender++) {
            assert_true(quota_take(&quota, sender, 25));
            assert_true(quota_take(&quota, sender, 15));
        }
        for (uint16_t sender = 5; sender-- > 0;) {
            quota_give(&quota, sender, 25);
            quota_give(&quota, sender, 15);
        }
        assert_as_before();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(of_one_sender_messages_and_bytes_are_bounded, start),
        cmocka_unit_test_setup(a_single_message_may_be_larger_than_what_may_wait, start),
        cmocka_unit_test_setup(what_others_have_waiting_never_takes_a_senders_own_room, start),
        cmocka_unit_test_setup(all_that_is_given_back_can_be_taken_again, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
