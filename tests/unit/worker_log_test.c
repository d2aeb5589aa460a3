/* The output of a worker is read in jobs, while the worker goes from state to state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/daemon/ground/clock.h"
#include "node/daemon/ground/jobs.h"
#include "node/daemon/workers/log_match.h"
#include "node/daemon/workers/workers.h"

/* ---- what log.c calls ---- */

static struct job *queued; /* the job of a read that has begun */
static char stored[256];   /* the series */
static size_t stored_bytes;
static int series_code;

void jobs_run(struct jobs *jobs, struct job *job)
{
    (void)jobs;
    assert_null(queued);
    queued = job;
}

/* A program that has written so far "one line\n". */
int keep_log_read(const char *run_directory, uint64_t offset, uint8_t *buffer, size_t capacity_bytes, size_t *got, uint64_t *dropped)
{
    static const char text[] = "one line\n";
    (void)run_directory;
    assert_true(capacity_bytes >= sizeof text);
    *dropped = 0;
    *got = offset < sizeof text - 1 ? sizeof text - 1 - (size_t)offset : 0;
    memcpy(buffer, text + sizeof text - 1 - *got, *got);
    return 0;
}

int daemon_series_append(struct daemon *daemon, uint64_t id, const attempt_id *attempt, char kind, uint32_t rank, uint64_t seq,
                         const uint8_t *bytes, size_t count)
{
    (void)daemon;
    (void)attempt;
    (void)rank;
    assert_int_equal(id, 0);
    if (kind == 'w') {
        return 0; /* when the lines came */
    }
    assert_int_equal(kind, 'l');
    if (series_code == 0) {
        assert_true(stored_bytes + count < sizeof stored);
        memcpy(stored + stored_bytes, bytes, count);
        stored_bytes += count;
        assert_int_equal(seq, stored_bytes);
    }
    return series_code;
}

void daemon_series_output(struct daemon *daemon, struct daemon_worker *worker, const uint8_t *bytes, size_t count)
{
    (void)daemon;
    (void)worker;
    (void)bytes;
    (void)count;
}

void metric_lines_cut(struct metric_lines *lines)
{
    (void)lines;
}

/* No line is looked for. */
struct log_match *log_match_take(struct daemon *daemon, struct daemon_worker *worker)
{
    (void)daemon;
    (void)worker;
    return NULL;
}

void log_match_feed(struct log_match *match, uint64_t end, const uint8_t *bytes, size_t count, bool is_last)
{
    (void)end;
    (void)bytes;
    (void)count;
    (void)is_last;
    assert_null(match);
}

void log_match_give(struct daemon *daemon, struct daemon_worker *worker, const attempt_id *attempt, uint32_t rank,
                    struct log_match *match)
{
    (void)daemon;
    (void)worker;
    (void)attempt;
    (void)rank;
    assert_null(match);
}

void worker_stall_heard(struct worker_stall *stall, uint64_t now_ms)
{
    (void)stall;
    (void)now_ms;
}

uint64_t daemon_wall_ms(void)
{
    return 1000;
}

uint64_t daemon_now_ms(void)
{
    return 1000;
}

/* ---- the stories ---- */

static struct daemon *daemon_with_worker(enum worker_state state)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    assert_non_null(daemon);
    daemon->workers = calloc(1, sizeof *daemon->workers);
    assert_non_null(daemon->workers);
    daemon->workers->slots[0].state = state;
    daemon->workers->slots[0].prepare.u.worker.attempt.number = 1;
    queued = NULL;
    stored_bytes = 0;
    series_code = 0;
    return daemon;
}

static void daemon_free(struct daemon *daemon)
{
    free(daemon->workers);
    free(daemon);
}

static void end_job(struct daemon *daemon)
{
    struct job *job = queued;
    assert_non_null(job);
    queued = NULL;
    job->work(job);
    job->done(daemon, job);
}

static void a_read_that_ends_in_another_state_than_it_began_in_counts(void **state)
{
    (void)state;
    for (int from = WORKER_INSTALLING; from <= WORKER_RUNNING; from++) {
        for (int to = from; to <= WORKER_RUNNING; to++) {
            struct daemon *daemon = daemon_with_worker((enum worker_state)from);
            struct daemon_worker *worker = &daemon->workers->slots[0];
            daemon_workers_log(daemon, 0);
            daemon_workers_log(daemon, 0); /* one read at a time */
            worker->state = (enum worker_state)to;
            end_job(daemon);
            assert_false(worker->log_busy);
            assert_int_equal(stored_bytes, 9);
            assert_int_equal(worker->log_offset, 9);
            daemon_workers_log(daemon, 0); /* so the log goes on */
            end_job(daemon);
            assert_int_equal(stored_bytes, 9);
            daemon_free(daemon);
        }
    }
}

static void what_the_series_has_no_room_for_is_read_again(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_with_worker(WORKER_RUNNING);
    struct daemon_worker *worker = &daemon->workers->slots[0];
    series_code = ERR_FULL;
    daemon_workers_log(daemon, 0);
    end_job(daemon);
    assert_int_equal(worker->log_offset, 0);
    series_code = 0;
    daemon_workers_log(daemon, 0);
    end_job(daemon);
    assert_int_equal(worker->log_offset, 9);
    assert_memory_equal(stored, "one line\n", 9);
    daemon_free(daemon);
}

static void a_read_of_an_attempt_that_is_over_is_nothing_to_the_next(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_with_worker(WORKER_RUNNING);
    struct daemon_worker *worker = &daemon->workers->slots[0];
    daemon_workers_log(daemon, 0);
    worker->prepare.u.worker.attempt.number = 2;
    end_job(daemon);
    assert_int_equal(stored_bytes, 0);
    assert_int_equal(worker->log_offset, 0);
    daemon_free(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_that_ends_in_another_state_than_it_began_in_counts),
        cmocka_unit_test(what_the_series_has_no_room_for_is_read_again),
        cmocka_unit_test(a_read_of_an_attempt_that_is_over_is_nothing_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
