/* libshoal against a fake daemon (tests/unit/fake_daemon.h), also one that goes away in the middle, and without one. */
#include "train/shoal/shoal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/pack.h"
#include "tests/unit/fake_daemon.h"
#include "tests/unit/forked.h"
#include "train/shoal/hparams.h"
#include "train/shoal/link.h"

#define HPARAMS "{\"learning_rate\": 0.25, \"hidden\": [64, 32], \"batch_size\": 128.0, \"note\": \"caf\\u00e9\", " \
                "\"optimizer\": {\"momentum\": 1}, \"none\": null}"

static const char *const loss_name[] = {"loss"};

static struct shoal *open_worker(struct fake_daemon *daemon)
{
    char error[SHOAL_ERROR_BYTES] = "";
    struct shoal *shoal;
    fake_daemon_environment(daemon, 0);
    int result = shoal_open(&shoal, error);
    assert_string_equal(error, "");
    assert_int_equal(result, 0);
    return shoal;
}

/* Until all is answered; then what the daemon's thread has written may be read here. */
static void flush(struct shoal *shoal, struct fake_daemon *daemon)
{
    int result = shoal_flush(shoal, 20000);
    assert_string_equal(result != 0 ? shoal_error(shoal) : "", "");
    assert_int_equal(result, 0);
    (void)pthread_mutex_lock(&daemon->mutex);
    (void)pthread_mutex_unlock(&daemon->mutex);
}

static void set_flag(struct fake_daemon *daemon, bool *flag, bool value)
{
    (void)pthread_mutex_lock(&daemon->mutex);
    *flag = value;
    (void)pthread_mutex_unlock(&daemon->mutex);
}

static void report(struct shoal *shoal, uint64_t step)
{
    double value = (double)step / 2;
    assert_int_equal(shoal_report(shoal, "training", step, loss_name, &value, 1), 0);
}

/* Calls of a training loop until the daemon has `field` at a value: what brings libshoal back is being called. */
static bool train_until(struct shoal *shoal, struct fake_daemon *daemon, const size_t *field, size_t at_least)
{
    for (int i = 0; i < 1000; i++) {
        (void)shoal_should_stop(shoal);
        /* Not lock: the daemon holds the mutex while it answers, and may wait for this thread to take its answers. */
        if (pthread_mutex_trylock(&daemon->mutex) == 0) {
            bool reached = *field >= at_least;
            (void)pthread_mutex_unlock(&daemon->mutex);
            if (reached) {
                return true;
            }
        }
        struct timespec step = {.tv_nsec = 10000000};
        (void)nanosleep(&step, NULL);
    }
    return false;
}

static void test_a_worker_learns_who_it_is(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 77, HPARAMS);
    struct shoal *shoal = open_worker(&daemon);
    assert_int_equal(shoal_rank(shoal), 0);
    assert_int_equal(shoal_size(shoal), 1);
    assert_int_equal(shoal_trial(shoal), 4);
    assert_int_equal(shoal_attempt(shoal), 2);
    assert_int_equal(shoal_generation(shoal), 1);
    assert_int_equal(shoal_seed(shoal), 77);
    assert_int_equal(shoal_start_step(shoal), 0);
    assert_string_equal(shoal_experiment(shoal), "00112233aabbccdd");
    double number;
    int64_t whole, list[4];
    size_t count;
    char text[16];
    assert_int_equal(shoal_hparam_double(shoal, "learning_rate", 1, &number), 0);
    assert_true(number == 0.25);
    assert_int_equal(shoal_hparam_double(shoal, "optimizer.momentum", 0, &number), 0);
    assert_true(number == 1.0);
    assert_int_equal(shoal_hparam_double(shoal, "none", 7, &number), 0);
    assert_true(number == 7.0);
    assert_int_equal(shoal_hparam_int(shoal, "batch_size", 1, &whole), 0);
    assert_int_equal(whole, 128);
    assert_int_equal(shoal_hparam_int(shoal, "absent", 9, &whole), 0);
    assert_int_equal(whole, 9);
    assert_int_equal(shoal_hparam_int(shoal, "learning_rate", 9, &whole), ERR_MALFORMED);
    assert_non_null(strstr(shoal_error(shoal), "'learning_rate' must be a whole number"));
    assert_int_equal(shoal_hparam_int_list(shoal, "hidden", NULL, 0, list, 4, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(list[1], 32);
    assert_int_equal(shoal_hparam_int_list(shoal, "batch_size", NULL, 0, list, 4, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(list[0], 128);
    assert_int_equal(shoal_hparam_int_list(shoal, "hidden", NULL, 0, list, 1, &count), ERR_FULL);
    assert_int_equal(shoal_hparam_text(shoal, "note", NULL, text, sizeof text), 0);
    assert_string_equal(text, "caf\xc3\xa9");
    assert_int_equal(shoal_hparam_text(shoal, "absent", NULL, text, sizeof text), ERR_NOT_FOUND);
    shoal_close(&shoal);
    assert_null(shoal);
    fake_daemon_stop(&daemon);
}

static void test_reports_and_checkpoints_reach_the_daemon(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    void *bytes;
    size_t count;
    uint64_t step;
    assert_int_equal(shoal_checkpoint_load(shoal, &bytes, &count, &step), ERR_NOT_FOUND);
    const char *names[] = {"accuracy", "loss"};
    const double values[] = {0.75, 1.5};
    assert_int_equal(shoal_report(shoal, "validation", 12, names, values, 2), 0);
    assert_int_equal(shoal_progress(shoal, 12), 0);
    uint8_t state_bytes[100000];
    for (size_t i = 0; i < sizeof state_bytes; i++) {
        state_bytes[i] = (uint8_t)(i * 31);
    }
    for (uint64_t k = 1; k <= 5; k++) { /* more saves than buffers, of different sizes */
        assert_int_equal(shoal_checkpoint_save(shoal, k, state_bytes, 20000 * k), 0);
    }
    flush(shoal, &daemon);
    assert_int_equal(daemon.report_count, 1);
    assert_string_equal(daemon.reports[0].group, "validation");
    assert_int_equal(daemon.reports[0].step, 12);
    assert_true(daemon.reports[0].accuracy == 0.75 && daemon.reports[0].loss == 1.5);
    assert_int_equal(daemon.progress_step, 12);
    assert_int_equal(daemon.save_count, 5);
    assert_int_equal(shoal_checkpoint_load(shoal, &bytes, &count, &step), 0);
    assert_int_equal(step, 5);
    assert_int_equal(count, 100000);
    assert_memory_equal(bytes, state_bytes, count);
    free(bytes);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_notices_are_heard(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    assert_false(shoal_should_stop(shoal));
    assert_string_equal(shoal_stop_reason(shoal), "");
    fake_daemon_notice(&daemon, "durable", 40);
    fake_daemon_notice(&daemon, "weather", 0);
    fake_daemon_notice(&daemon, "stop", 0);
    assert_true(shoal_should_stop(shoal)); /* what has been sent on a Unix socket is there */
    assert_int_equal(shoal_durable_step(shoal), 40);
    assert_string_equal(shoal_stop_reason(shoal), "pause");
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Whether the span lies in that of its step. */
static bool lies_in_its_step(const struct fake_daemon *daemon, const struct span *span)
{
    for (uint32_t i = 0; i < daemon->span_count; i++) {
        const struct span *step = &daemon->spans[i];
        if (step->kind == SPAN_STEP && step->step == span->step) {
            return step->begin_ns <= span->begin_ns && span->end_ns <= step->end_ns;
        }
    }
    return false;
}

static void test_where_the_time_of_steps_goes_is_told_and_traced(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    uint64_t step = 1, steps_of_trace = 0, kinds[SPAN_KINDS] = {0};
    assert_int_equal(shoal_progress(shoal, step), 0); /* the first step is not measured: nobody knows when it began */
    fake_daemon_notice(&daemon, "trace", 9);
    bool is_traced = false;
    while (!is_traced && step < 2000) {
        uint64_t begin_ns = now_ns();
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        shoal_span(shoal, SHOAL_SPAN_DATA, begin_ns, now_ns());
        assert_int_equal(shoal_barrier(shoal), 0);
        assert_int_equal(shoal_checkpoint_save(shoal, step, "state", 5), 0);
        assert_int_equal(shoal_progress(shoal, ++step), 0);
        (void)pthread_mutex_lock(&daemon.mutex);
        is_traced = daemon.trace == 9;
        (void)pthread_mutex_unlock(&daemon.mutex);
    }
    assert_true(is_traced);
    flush(shoal, &daemon);
    assert_true(daemon.profile_steps > 0 && daemon.profile_data_ns >= 2000000 * daemon.profile_steps);
    assert_true(daemon.profile_step_ns >= daemon.profile_data_ns + daemon.profile_collective_ns);
    for (uint32_t i = 0; i < daemon.span_count; i++) {
        const struct span *span = &daemon.spans[i];
        assert_true(lies_in_its_step(&daemon, span));
        steps_of_trace += span->kind == SPAN_STEP;
        kinds[span->kind]++;
    }
    assert_true(steps_of_trace >= 4); /* two are wanted, and two more in case other ranks began later */
    assert_int_equal(kinds[SPAN_DATA], steps_of_trace);
    assert_int_equal(kinds[SPAN_BARRIER], steps_of_trace);
    assert_int_equal(kinds[SPAN_SAVE], steps_of_trace);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_nothing_is_lost_when_the_daemon_restarts(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    report(shoal, 1);
    flush(shoal, &daemon);
    set_flag(&daemon, &daemon.mute_reports, true); /* this one arrives, its answer does not: it must be sent again */
    report(shoal, 2);
    assert_true(fake_daemon_wait(&daemon, &daemon.report_count, 2));
    fake_daemon_break(&daemon);
    struct timespec from, to;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    for (uint64_t step = 3; step <= 50; step++) {
        report(shoal, step);
        assert_int_equal(shoal_progress(shoal, step), 0);
        assert_false(shoal_should_stop(shoal));
    }
    assert_int_equal(shoal_checkpoint_save(shoal, 50, "state of 50", 12), 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    assert_true(to.tv_sec - from.tv_sec <= 1); /* nobody waited for the daemon */
    set_flag(&daemon, &daemon.mute_reports, false);
    fake_daemon_return(&daemon);
    assert_true(train_until(shoal, &daemon, &daemon.save_count, 1));
    flush(shoal, &daemon);
    assert_int_equal(daemon.open_count, 2);
    assert_int_equal(daemon.session_changes, 1); /* so the daemon knows what is there twice */
    assert_int_equal(daemon.report_count, 51); /* 1, 2, 2 again, 3 ... 50, in order */
    for (uint64_t i = 2; i < 51; i++) {
        assert_int_equal(daemon.reports[i].step, i);
    }
    assert_int_equal(daemon.checkpoint_step, 50);
    assert_string_equal((char *)daemon.checkpoint, "state of 50");
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_a_refused_report_is_told_once_and_refuses_no_checkpoint(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    (void)pthread_mutex_lock(&daemon.mutex);
    daemon.refuse_reports = 1;
    (void)pthread_mutex_unlock(&daemon.mutex);
    report(shoal, 1);
    report(shoal, 2);
    assert_true(train_until(shoal, &daemon, &daemon.report_count, 2));
    assert_int_equal(shoal_checkpoint_save(shoal, 2, "state of 2", 11), 0);
    assert_int_equal(shoal_flush(shoal, 20000), ERR_REFUSED);
    assert_int_equal(daemon.save_count, 1);
    flush(shoal, &daemon);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_away_newer_checkpoints_replace_older_ones(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    fake_daemon_break(&daemon);
    for (uint64_t step = 10; step <= 80; step += 10) {
        char text[16];
        (void)snprintf(text, sizeof text, "state %03u", (unsigned)step);
        assert_int_equal(shoal_checkpoint_save(shoal, step, text, 10), 0);
    }
    fake_daemon_return(&daemon);
    assert_true(train_until(shoal, &daemon, &daemon.save_count, 2));
    flush(shoal, &daemon);
    assert_int_equal(daemon.save_count, 2);
    assert_int_equal(daemon.checkpoint_step, 80);
    assert_string_equal((char *)daemon.checkpoint, "state 080");
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void *release_later(void *argument)
{
    struct fake_daemon *daemon = argument;
    if (fake_daemon_wait(daemon, &daemon->held_count, 2)) {
        fake_daemon_release_saves(daemon);
    }
    return NULL;
}

static void test_a_third_save_waits_for_a_buffer(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    set_flag(&daemon, &daemon.hold_saves, true);
    assert_int_equal(shoal_checkpoint_save(shoal, 1, "one", 4), 0);
    assert_int_equal(shoal_checkpoint_save(shoal, 2, "two", 4), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, &daemon), 0);
    assert_int_equal(shoal_checkpoint_save(shoal, 3, "three", 6), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    flush(shoal, &daemon);
    assert_int_equal(daemon.save_count, 3);
    assert_string_equal((char *)daemon.checkpoint, "three");
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_the_queue_is_bounded_and_keeps_the_oldest(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    fake_daemon_break(&daemon);
    uint64_t step = 0;
    double value = 1;
    while (shoal_report(shoal, "training", step, loss_name, &value, 1) == 0) {
        step++;
        assert_true(step <= SHOAL_QUEUE_MAX);
    }
    assert_int_equal(step, SHOAL_QUEUE_MAX);
    assert_int_equal(shoal_report(shoal, "training", step, loss_name, &value, 1), ERR_FULL);
    assert_int_equal(shoal_checkpoint_save(shoal, step, "x", 1), 0); /* there is always room for the saves */
    fake_daemon_return(&daemon);
    assert_true(train_until(shoal, &daemon, &daemon.save_count, 1));
    flush(shoal, &daemon);
    assert_int_equal(daemon.report_count, SHOAL_QUEUE_MAX);
    assert_int_equal(daemon.reports[SHOAL_QUEUE_MAX - 1].step, SHOAL_QUEUE_MAX - 1);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void pack_report(struct pack_writer *writer, uint64_t step)
{
    pack_array(writer, 3);
    pack_text(writer, "training");
    pack_u64(writer, step);
    pack_map(writer, 1);
    pack_text(writer, "loss");
    pack_double(writer, (double)step / 2);
}

static void test_packed_reports_are_taken_as_the_queue_has_room(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    fake_daemon_break(&daemon);
    enum { REPORTS = SHOAL_QUEUE_MAX + 100 };
    static uint8_t bytes[REPORTS * 64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    for (uint64_t step = 0; step < REPORTS; step++) {
        pack_report(&writer, step);
    }
    assert_false(writer.failed);
    size_t done = 0, taken = 1;
    while (taken > 0) {
        assert_int_equal(shoal_report_packed(shoal, bytes + done, writer.used_bytes - done, &taken), 0);
        done += taken;
    }
    assert_true(done < writer.used_bytes); /* the daemon is away, and the queue full */
    fake_daemon_return(&daemon);
    assert_true(train_until(shoal, &daemon, &daemon.report_count, SHOAL_QUEUE_MAX));
    assert_int_equal(shoal_report_packed(shoal, bytes + done, writer.used_bytes - done, &taken), 0);
    assert_int_equal(taken, writer.used_bytes - done);
    flush(shoal, &daemon);
    assert_int_equal(daemon.report_count, REPORTS);
    for (uint64_t step = 0; step < REPORTS; step++) {
        assert_int_equal(daemon.reports[step].step, step);
        assert_true(daemon.reports[step].loss == (double)step / 2);
    }
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_a_malformed_packed_report_is_refused_after_the_good_ones(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_report(&writer, 1);
    size_t good = writer.used_bytes, taken;
    pack_array(&writer, 3);
    pack_text(&writer, "training");
    pack_u64(&writer, 2);
    pack_text(&writer, "no map");
    assert_int_equal(shoal_report_packed(shoal, bytes, writer.used_bytes, &taken), ERR_MALFORMED);
    assert_int_equal(taken, good);
    assert_int_equal(shoal_report_packed(shoal, bytes, good - 1, &taken), ERR_MALFORMED); /* cut short */
    assert_int_equal(taken, 0);
    flush(shoal, &daemon);
    assert_int_equal(daemon.report_count, 1);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_a_link_without_a_group_reports_and_loads(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 0, "{}"); /* the other rank never comes */
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    fake_daemon_environment(&daemon, 0);
    assert_int_equal(shoal_open_link(&shoal, error), 0);
    assert_int_equal(shoal_size(shoal), 2);
    report(shoal, 1);
    assert_int_equal(shoal_checkpoint_save(shoal, 7, "seven", 6), 0);
    flush(shoal, &daemon);
    int fd;
    size_t count;
    uint64_t step;
    assert_int_equal(shoal_checkpoint_open(shoal, &fd, &count, &step), 0);
    char text[6];
    assert_int_equal(step, 7);
    assert_int_equal(count, 6);
    assert_int_equal(pread(fd, text, sizeof text, 0), 6);
    assert_string_equal(text, "seven");
    (void)close(fd);
    float value = 1;
    assert_int_equal(shoal_all_reduce_f32(shoal, &value, 1), ERR_USAGE);
    assert_non_null(strstr(shoal_error(shoal), "shoal_join"));
    assert_int_equal(shoal_all_reduce_begin(shoal, &value, 1, SHOAL_F32), ERR_USAGE);
    assert_int_equal(shoal_barrier(shoal), ERR_USAGE);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_cuts_travel_behind_the_checkpoint(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    fake_daemon_environment(&daemon, 0);
    assert_int_equal(shoal_open_link(&shoal, error), 0);
    void *room;
    for (uint64_t k = 3; k > 0; k--) { /* smaller ones lie in the buffer of a larger one */
        static const uint64_t cuts[] = {0, 4096, 9000};
        assert_int_equal(shoal_checkpoint_begin(shoal, 10000 * k, &room), 0);
        memset(room, (int)k, 10000 * k);
        assert_int_equal(shoal_checkpoint_commit_cut(shoal, k, cuts, k), 0);
        flush(shoal, &daemon);
        assert_int_equal(daemon.checkpoint_bytes, 10000 * k);
        assert_int_equal(daemon.checkpoint[10000 * k - 1], k);
        assert_int_equal(daemon.cut_count, k);
        assert_memory_equal(daemon.cuts, cuts, k * sizeof cuts[0]);
    }
    for (size_t larger = 30008; larger < 100000000; larger *= 2500) { /* the file has cuts where the buffer grows to */
        assert_int_equal(shoal_checkpoint_begin(shoal, larger, &room), 0);
        memset(room, 7, larger);
        assert_int_equal(shoal_checkpoint_commit(shoal, 7), 0);
        flush(shoal, &daemon);
        assert_int_equal(daemon.checkpoint_bytes, larger);
        assert_int_equal(daemon.checkpoint[larger - 1], 7);
    }
    static const uint64_t bad[][2] = {{5, 5}, {7, 6}, {0, 100}, {UINT64_MAX, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(shoal_checkpoint_begin(shoal, 100, &room), 0);
        assert_int_equal(shoal_checkpoint_commit_cut(shoal, 9, bad[i], 2), ERR_USAGE);
        assert_non_null(strstr(shoal_error(shoal), "ascend"));
    }
    assert_int_equal(shoal_checkpoint_begin(shoal, 100, &room), 0);
    assert_int_equal(shoal_checkpoint_commit_cut(shoal, 9, bad[0], SHOAL_CUTS_MAX + 1), ERR_USAGE);
    assert_int_equal(shoal_checkpoint_save(shoal, 10, "ten", 4), 0); /* nothing is in the way of the next one */
    flush(shoal, &daemon);
    assert_int_equal(daemon.checkpoint_step, 10);
    assert_int_equal(daemon.cut_count, 0);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_parts_of_checkpoints(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    fake_daemon_environment(&daemon, 0);
    assert_int_equal(shoal_open_link(&shoal, error), 0);
    uint32_t parts = 9;
    void *room;
    assert_int_equal(shoal_checkpoint_parts(shoal, &parts), 0);
    assert_int_equal(parts, 0);
    const struct shoal_part part = {.save = UINT64_MAX - 1, .part = 3, .parts = 4};
    assert_int_equal(shoal_checkpoint_begin(shoal, 100, &room), 0);
    memset(room, 5, 100);
    assert_int_equal(shoal_checkpoint_commit_part(shoal, 6, &part, NULL, 0), 0);
    flush(shoal, &daemon);
    assert_int_equal(daemon.checkpoint_step, 6);
    assert_true(daemon.saved_part.save == part.save && daemon.saved_part.part == 3 && daemon.saved_part.parts == 4);
    static const struct shoal_part bad[] = {{1, 4, 4}, {1, 0, 0}, {1, 0, SHOAL_PARTS_OF_CHECKPOINT_MAX + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(shoal_checkpoint_begin(shoal, 100, &room), 0);
        assert_int_equal(shoal_checkpoint_commit_part(shoal, 7, &bad[i], NULL, 0), ERR_USAGE);
    }
    assert_int_equal(shoal_checkpoint_save(shoal, 8, "whole", 6), 0);
    flush(shoal, &daemon);
    assert_int_equal(daemon.saved_part.parts, 0);
    daemon.loadable_parts = 4;
    assert_int_equal(shoal_checkpoint_parts(shoal, &parts), 0);
    assert_int_equal(parts, 4);
    int fd;
    size_t count;
    uint64_t step;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(shoal_checkpoint_open_part(shoal, i, &fd, &count, &step), 0);
        assert_true(daemon.loaded_part == i && count == 6 && step == 8);
        close(fd);
    }
    assert_int_equal(daemon.loaded_range_bytes, 0);
    const struct shoal_range ranges[SHOAL_RANGES_MAX + 1] = {{7, 1}, {UINT64_MAX, 2}};
    assert_int_equal(shoal_checkpoint_open_ranges(shoal, 1, ranges, 2, &fd, &count, &step), 0);
    assert_true(daemon.loaded_part == 1 && count == 6 && daemon.loaded_range_bytes == 32);
    assert_int_equal(bytes_get_u64(daemon.loaded_ranges), 7);
    assert_true(bytes_get_u64(daemon.loaded_ranges + 16) == UINT64_MAX && bytes_get_u64(daemon.loaded_ranges + 24) == 2);
    close(fd);
    assert_int_equal(shoal_checkpoint_open_ranges(shoal, 1, ranges, SHOAL_RANGES_MAX, &fd, &count, &step), 0);
    close(fd);
    assert_int_equal(shoal_checkpoint_open_ranges(shoal, 1, ranges, SHOAL_RANGES_MAX + 1, &fd, &count, &step), ERR_USAGE);
    assert_int_equal(shoal_checkpoint_open_ranges(shoal, 1, ranges, 0, &fd, &count, &step), ERR_USAGE);
    assert_int_equal(shoal_checkpoint_open(shoal, &fd, &count, &step), 0);
    assert_true(daemon.loaded_part == UINT64_MAX);
    close(fd);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_a_link_joins_its_group_later(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    fake_daemon_environment(&daemon, 0);
    assert_int_equal(shoal_open_link(&shoal, error), 0);
    assert_int_equal(shoal_join(shoal), 0);
    assert_int_equal(shoal_join(shoal), 0);
    float value = 3;
    assert_int_equal(shoal_all_reduce_f32(shoal, &value, 1), 0);
    assert_true(value == 3);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_a_rank_that_joins_alone_gives_up_in_time(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 0, "{}");
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    fake_daemon_environment(&daemon, 0);
    assert_int_equal(shoal_open_link(&shoal, error), 0);
    shoal_set_timeout(shoal, 50);
    assert_int_equal(shoal_join(shoal), ERR_TIMEOUT);
    assert_string_equal(shoal_error(shoal), "within 0 s not all 2 ranks of the attempt have begun to join their group");
    report(shoal, 1);
    flush(shoal, &daemon);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static void test_a_refused_worker_says_why(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    set_flag(&daemon, &daemon.refuse, true);
    fake_daemon_environment(&daemon, 0);
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    assert_int_equal(shoal_open(&shoal, error), ERR_REFUSED);
    assert_null(shoal);
    assert_string_equal(error, "no worker here has this token");
    (void)setenv("SHOAL_TOKEN", "zz", 1);
    assert_int_equal(shoal_open(&shoal, error), ERR_USAGE);
    assert_non_null(strstr(error, "SHOAL_TOKEN"));
    fake_daemon_stop(&daemon);
}

/* One rank of a group, in a process of its own: the daemon breaks between the collectives. Exit status 0 if all held. */
static int rank_body(struct fake_daemon *daemon, uint32_t rank)
{
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    fake_daemon_environment(daemon, rank);
    if (shoal_open(&shoal, error) != 0) {
        (void)fprintf(stderr, "rank %u: %s\n", rank, error);
        return 1;
    }
    float values[1001];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 1001; i++) {
            values[i] = (float)(rank + 1) * (float)i;
        }
        double value = 0.5;
        if (shoal_all_reduce_f32(shoal, values, 1001) != 0 || values[1000] != 6000.0f || values[1] != 6.0f ||
            (rank == 0 && shoal_report(shoal, "training", (uint64_t)round, loss_name, &value, 1) != 0)) {
            (void)fprintf(stderr, "rank %u round %d: %s\n", rank, round, shoal_error(shoal));
            return 2;
        }
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    char text[8] = "";
    if (rank == 1) {
        memcpy(text, "hello", 6);
    }
    if (shoal_broadcast(shoal, text, sizeof text, 1) != 0 || strcmp(text, "hello") != 0 || shoal_barrier(shoal) != 0 ||
        shoal_broadcast(shoal, text, 1, 3) != ERR_USAGE) {
        return 3;
    }
    int flushed = shoal_flush(shoal, 15000);
    shoal_close(&shoal);
    return flushed == 0 ? 0 : 4;
}

static void test_collectives_go_on_while_the_daemon_is_away(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 3, 0, "{}");
    pid_t children[3];
    for (uint32_t rank = 0; rank < 3; rank++) {
        children[rank] = fake_daemon_fork(&daemon);
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            forked_end(rank_body(&daemon, rank));
        }
    }
    assert_true(fake_daemon_wait(&daemon, &daemon.report_count, 20));
    fake_daemon_break(&daemon);
    fake_daemon_return(&daemon);
    for (uint32_t rank = 0; rank < 3; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    (void)pthread_mutex_lock(&daemon.mutex); /* they flushed: the daemon has it all */
    (void)pthread_mutex_unlock(&daemon.mutex);
    uint64_t next = 0; /* every round's report is there; those around the break perhaps twice */
    for (size_t i = 0; i < daemon.report_count; i++) {
        assert_true(daemon.reports[i].step <= next);
        if (daemon.reports[i].step == next) {
            next++;
        }
    }
    assert_int_equal(next, 200);
    assert_true(daemon.open_count > 3);
    fake_daemon_stop(&daemon);
}

/* Asks for its group as any worker does, and ends when it is there, without a link to the other. */
static void leave_once_there_is_a_group(const struct fake_daemon *daemon)
{
    struct shoal *s;
    char error[SHOAL_ERROR_BYTES];
    int listen_fd;
    uint16_t port;
    fake_daemon_environment(daemon, 1);
    if (shoal_open_elastic(&s, error) != 0 || client_listen(s, &listen_fd, &port) != 0) {
        _exit(1);
    }
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    client_link_begin(&writer, bytes, ++s->last_id, "worker_group", 2);
    pack_text(&writer, "port");
    pack_u64(&writer, port);
    pack_text(&writer, "elastic");
    pack_bool(&writer, true);
    _exit(client_link_call(s, &writer, s->last_id, 60000) == 0 ? 0 : 1);
}

static void test_a_worker_that_is_lost_while_the_group_forms_is_not_waited_for(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 2, 7, "{}");
    daemon.tells_of_losses = true;
    pid_t lost = fake_daemon_fork(&daemon);
    assert_true(lost >= 0);
    if (lost == 0) {
        leave_once_there_is_a_group(&daemon);
    }
    struct shoal *shoal;
    char error[SHOAL_ERROR_BYTES];
    uint64_t step, began_ms = client_link_now_ms();
    fake_daemon_environment(&daemon, 0);
    assert_int_equal(shoal_open_elastic(&shoal, error), 0);
    assert_int_equal(shoal_step_begin(shoal, &step), 0);
    assert_int_equal(shoal_size(shoal), 1);
    assert_int_equal(shoal_generation(shoal), 2);
    assert_true(client_link_now_ms() - began_ms < 15000); /* a group has 20 s to form */
    int status;
    assert_int_equal(waitpid(lost, &status, 0), lost);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

/* A firewall lets the range through and no other port. */
static void test_the_links_use_the_ports_that_the_daemon_names(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    char error[SHOAL_ERROR_BYTES];
    const struct ports range = {7861, 7864};
    for (int i = 0; i < 4; i++) {
        struct shoal *shoal;
        (void)setenv("SHOAL_PORTS", i < 2 ? "7861-7864" : i == 2 ? "7864-7861" : "", 1); /* the last two name none */
        fake_daemon_start(&daemon, 1, 0, "{}");
        fake_daemon_environment(&daemon, 0);
        assert_int_equal(shoal_open(&shoal, error), 0);
        uint16_t port = fake_daemon_port(&daemon, 0);
        assert_int_equal(port >= range.low && port <= range.high, i < 2);
        shoal_close(&shoal);
        fake_daemon_stop(&daemon);
    }
    (void)unsetenv("SHOAL_PORTS");
    uint16_t port;
    int lock;
    for (uint32_t i = 0; i < 4; i++) { /* all are free again */
        assert_int_equal(ports_lock((struct ports){(uint16_t)(7861 + i), (uint16_t)(7861 + i)}, 0, &port, &lock), 0);
        (void)close(lock);
    }
}

static void test_outside_shoal_a_program_is_a_group_of_one(void **state)
{
    (void)state;
    (void)unsetenv("SHOAL_SOCKET");
    (void)setenv("SHOAL_HPARAMS", "{\"epochs\": 2.5}", 1);
    (void)setenv("SHOAL_SEED", "9", 1);
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    assert_int_equal(shoal_open(&shoal, error), 0);
    assert_int_equal(shoal_size(shoal), 1);
    assert_int_equal(shoal_seed(shoal), 9);
    double epochs;
    assert_int_equal(shoal_hparam_double(shoal, "epochs", 1, &epochs), 0);
    assert_true(epochs == 2.5);
    float values[2] = {1, 2};
    assert_int_equal(shoal_all_reduce_f32(shoal, values, 2), 0);
    assert_true(values[0] == 1.0f && values[1] == 2.0f);
    assert_int_equal(shoal_barrier(shoal), 0);
    report(shoal, 1);
    assert_int_equal(shoal_checkpoint_save(shoal, 1, "x", 1), 0);
    assert_int_equal(shoal_flush(shoal, 0), 0);
    assert_false(shoal_should_stop(shoal));
    shoal_close(&shoal);
    (void)setenv("SHOAL_HPARAMS", "{\"epochs\": 2.5", 1);
    assert_int_equal(shoal_open(&shoal, error), ERR_USAGE);
    assert_non_null(strstr(error, "SHOAL_HPARAMS"));
    (void)setenv("SHOAL_HPARAMS", "{}", 1);
    (void)setenv("SHOAL_SEED", "-1", 1);
    assert_int_equal(shoal_open(&shoal, error), ERR_USAGE);
    (void)unsetenv("SHOAL_HPARAMS");
    (void)unsetenv("SHOAL_SEED");
    static const char *const bad[] = {"", "0", "-1", "1x", "86401", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)setenv("SHOAL_COLLECTIVE_TIMEOUT", bad[i], 1);
        assert_int_equal(shoal_open(&shoal, error), ERR_USAGE);
        assert_non_null(strstr(error, "SHOAL_COLLECTIVE_TIMEOUT"));
    }
    (void)setenv("SHOAL_COLLECTIVE_TIMEOUT", "86400", 1);
    assert_int_equal(shoal_open(&shoal, error), 0);
    shoal_close(&shoal);
    (void)unsetenv("SHOAL_COLLECTIVE_TIMEOUT");
}

static void test_a_program_sees_how_far_it_may_go(void **state)
{
    (void)state;
    (void)unsetenv("SHOAL_SOCKET");
    char error[SHOAL_ERROR_BYTES];
    struct shoal *shoal;
    assert_int_equal(shoal_open(&shoal, error), 0);
    assert_true(shoal_until(shoal, 0) == SHOAL_UNBOUNDED && shoal_until(shoal, 1000) == SHOAL_UNBOUNDED);
    shoal_close(&shoal);
    (void)setenv("SHOAL_RUNGS", "15 62 1000", 1);
    assert_int_equal(shoal_open(&shoal, error), 0);
    static const uint64_t rows[][2] = {{0, 15}, {14, 15}, {15, 62}, {61, 62}, {62, 1000}, {999, 1000}, {1000, 1000}, {2000, 1000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(shoal_until(shoal, rows[i][0]), rows[i][1]);
    }
    shoal_close(&shoal);
    static const char *const bad[] = {"x", "0", "-1", "5 5", "7 3", "3,4", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)setenv("SHOAL_RUNGS", bad[i], 1);
        assert_int_equal(shoal_open(&shoal, error), ERR_USAGE);
        assert_non_null(strstr(error, "SHOAL_RUNGS"));
    }
    (void)unsetenv("SHOAL_RUNGS");
}

static void test_json_is_read_strictly(void **state)
{
    (void)state;
    static const char *const bad[] = {"",        "[1]",         "{",          "{}x",           "{\"a\"}",      "{\"a\":}",
                                      "{\"a\":1,}", "{\"a\":tru}", "{\"a\":\"\\q\"}", "{\"a\":\"", "{\"a\":\"\\u12\"}", "{\"a\":[1 2]}",
                                      "{\"a\":\"\\ud800x\"}", "{1:2}", "{\"a\":--1}", "{\"a\":\"\\"};
    uint8_t bytes[256];
    struct pack_writer w;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pack_writer_init(&w, bytes, sizeof bytes);
        assert_int_equal(hparams_from_json(bad[i], &w), ERR_MALFORMED);
    }
    char deep[200] = "{\"a\":";
    memset(deep + 5, '[', 100);
    pack_writer_init(&w, bytes, sizeof bytes);
    assert_int_equal(hparams_from_json(deep, &w), ERR_MALFORMED);
    pack_writer_init(&w, bytes, 8);
    assert_int_equal(hparams_from_json("{\"abc\": 12345678}", &w), ERR_FULL);
    pack_writer_init(&w, bytes, sizeof bytes);
    assert_int_equal(hparams_from_json(" { \"a\" : [ -3 , 1e2 , true, \"\\ud83d\\ude00\" ] } ", &w), 0);
    struct pack_reader value;
    assert_int_equal(hparams_find(bytes, w.used_bytes, "a", &value), 0);
    assert_int_equal(pack_read_array(&value), 4);
    assert_int_equal(pack_read_i64(&value), -3);
    assert_int_equal(pack_peek(&value), PACK_DOUBLE);
    assert_true(pack_read_double(&value) == 100.0);
    assert_true(pack_read_bool(&value));
    size_t length;
    const char *text = pack_read_text(&value, &length);
    assert_int_equal(length, 4);
    assert_memory_equal(text, "\xf0\x9f\x98\x80", 4);
    assert_true(pack_at_end(&value));
}

/* At once, and not by the next checkpoint. */
static void test_a_report_that_the_daemon_would_not_keep_is_refused(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    struct shoal *shoal = open_worker(&daemon);
    static const char digits[] = "0123456789012345678901234567890123456789012345678901234567890123456789"
                                 "0123456789012345678901234567890123456789012345678901234567";
    _Static_assert(sizeof digits == SHOAL_METRIC_BYTES_MAX + 2, "one byte too many");
    const char *too_long[] = {digits}, *longest[] = {digits + 1};
    static const char *many[SHOAL_METRICS_BYTES_MAX / 16 + 1];
    static double values[SHOAL_METRICS_BYTES_MAX / 16 + 1];
    size_t most = SHOAL_METRICS_BYTES_MAX / 16;
    for (size_t i = 0; i <= most; i++) {
        many[i] = digits + sizeof digits - 1 - 4;
    }
    assert_int_equal(shoal_report(shoal, "training", 1, too_long, values, 1), ERR_USAGE);
    assert_non_null(strstr(shoal_error(shoal), "127"));
    assert_int_equal(shoal_report(shoal, digits, 2, loss_name, values, 1), ERR_USAGE);
    assert_non_null(strstr(shoal_error(shoal), "31"));
    assert_int_equal(shoal_report(shoal, "training", 3, many, values, most + 1), ERR_USAGE);
    assert_non_null(strstr(shoal_error(shoal), "524288"));
    assert_int_equal(shoal_report(shoal, "training", 4, longest, values, 1), 0);
    assert_int_equal(shoal_report(shoal, "training", 5, many, values, most), 0);
    flush(shoal, &daemon);
    assert_int_equal(daemon.report_count, 2);
    shoal_close(&shoal);
    fake_daemon_stop(&daemon);
}

static int load_without_descriptors(struct fake_daemon *daemon)
{
    struct shoal *shoal = open_worker(daemon);
    if (shoal_checkpoint_save(shoal, 7, "state of 7", 11) != 0 || shoal_flush(shoal, 20000) != 0) {
        return 1;
    }
    struct rlimit limit, none;
    int next = dup(0);
    (void)close(next);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){(rlim_t)next, limit.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &none);
    void *bytes = NULL;
    size_t count = 0;
    uint64_t step = 0;
    int without = shoal_checkpoint_load(shoal, &bytes, &count, &step);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (without != ERR_MEMORY || strstr(shoal_error(shoal), "descriptor") == NULL) {
        return 2;
    }
    bool is_there = shoal_checkpoint_load(shoal, &bytes, &count, &step) == 0 && step == 7 && strcmp(bytes, "state of 7") == 0;
    free(bytes);
    shoal_close(&shoal);
    return is_there ? 0 : 3;
}

/* It hears so, instead of asking again and again. */
static void test_a_program_without_descriptors_cannot_load(void **state)
{
    (void)state;
    struct fake_daemon daemon;
    fake_daemon_start(&daemon, 1, 0, "{}");
    pid_t child = fork(); /* the limit is not the daemon's */
    if (child == 0) {
        _exit(load_without_descriptors(&daemon));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    fake_daemon_stop(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worker_learns_who_it_is),
        cmocka_unit_test(test_reports_and_checkpoints_reach_the_daemon),
        cmocka_unit_test(test_notices_are_heard),
        cmocka_unit_test(test_where_the_time_of_steps_goes_is_told_and_traced),
        cmocka_unit_test(test_nothing_is_lost_when_the_daemon_restarts),
        cmocka_unit_test(test_a_refused_report_is_told_once_and_refuses_no_checkpoint),
        cmocka_unit_test(test_away_newer_checkpoints_replace_older_ones),
        cmocka_unit_test(test_a_third_save_waits_for_a_buffer),
        cmocka_unit_test(test_the_queue_is_bounded_and_keeps_the_oldest),
        cmocka_unit_test(test_packed_reports_are_taken_as_the_queue_has_room),
        cmocka_unit_test(test_a_malformed_packed_report_is_refused_after_the_good_ones),
        cmocka_unit_test(test_a_link_without_a_group_reports_and_loads),
        cmocka_unit_test(test_cuts_travel_behind_the_checkpoint),
        cmocka_unit_test(test_parts_of_checkpoints),
        cmocka_unit_test(test_a_link_joins_its_group_later),
        cmocka_unit_test(test_a_rank_that_joins_alone_gives_up_in_time),
        cmocka_unit_test(test_a_refused_worker_says_why),
        cmocka_unit_test(test_collectives_go_on_while_the_daemon_is_away),
        cmocka_unit_test(test_a_worker_that_is_lost_while_the_group_forms_is_not_waited_for),
        cmocka_unit_test(test_the_links_use_the_ports_that_the_daemon_names),
        cmocka_unit_test(test_outside_shoal_a_program_is_a_group_of_one),
        cmocka_unit_test(test_a_program_sees_how_far_it_may_go),
        cmocka_unit_test(test_json_is_read_strictly),
        cmocka_unit_test(test_a_report_that_the_daemon_would_not_keep_is_refused),
        cmocka_unit_test(test_a_program_without_descriptors_cannot_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
