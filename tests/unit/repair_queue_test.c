#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "node/daemon/disk/repair_queue.h"

#define MINUTE_MS 60000ull

static hash256 blob_of(uint64_t number)
{
    hash256 blob = {{0}};
    bytes_put_u64(blob.bytes, number);
    return blob;
}

static void what_nobody_has_is_tried_more_and_more_rarely(void **state)
{
    (void)state;
    static struct repair_queue queue;
    uint64_t now_ms = 1000;
    uint32_t tries = 0;
    for (uint64_t minute = 0; minute < 7 * 1440; minute++, now_ms += MINUTE_MS) {
        if (repair_queue_may(&queue, now_ms, blob_of(1), 1)) {
            repair_queue_failed(&queue, now_ms, blob_of(1), 1);
            tries++;
        }
    }
    assert_in_range(tries, 12, 15); /* after 10, 20, 40 ... minutes, then once a day */
    assert_true(repair_queue_may(&queue, now_ms, blob_of(2), 1)); /* of others nothing is known */
}

static void another_holder_is_tried_at_once(void **state)
{
    (void)state;
    static struct repair_queue queue;
    repair_queue_failed(&queue, 0, blob_of(1), 1);
    assert_false(repair_queue_may(&queue, MINUTE_MS, blob_of(1), 0));
    assert_false(repair_queue_may(&queue, MINUTE_MS, blob_of(1), 1));
    assert_true(repair_queue_may(&queue, MINUTE_MS, blob_of(1), 2));
    repair_queue_failed(&queue, MINUTE_MS, blob_of(1), 2);
    assert_false(repair_queue_may(&queue, 2 * MINUTE_MS, blob_of(1), 2));
    repair_queue_forget(&queue, blob_of(1));
    assert_true(repair_queue_may(&queue, 2 * MINUTE_MS, blob_of(1), 2));
}

static void more_failures_than_rows_forget_what_is_due_first(void **state)
{
    (void)state;
    static struct repair_queue queue;
    for (uint64_t i = 0; i <= REPAIR_QUEUE_MAX; i++) {
        repair_queue_failed(&queue, i, blob_of(i), 0);
    }
    assert_int_equal(queue.count, REPAIR_QUEUE_MAX);
    assert_true(repair_queue_may(&queue, MINUTE_MS, blob_of(0), 0));
    assert_false(repair_queue_may(&queue, MINUTE_MS, blob_of(1), 0));
    assert_false(repair_queue_may(&queue, MINUTE_MS, blob_of(REPAIR_QUEUE_MAX), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_has_is_tried_more_and_more_rarely),
        cmocka_unit_test(another_holder_is_tried_at_once),
        cmocka_unit_test(more_failures_than_rows_forget_what_is_due_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
