#include "tests/unit/elastic_fixture.h"

#include <dirent.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/forked.h"

#define WAIT_MS 60000

void elastic_sleep_ms(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    (void)nanosleep(&pause, NULL);
}

/* ---- the program ---- */

/* The share of a step's samples: a whole number, at most 11 for each. */
static float contribution(uint64_t step, uint32_t first, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t sample = first; sample < first + count; sample++) {
        sum += random_mix(step * ELASTIC_BATCH + sample) % 12;
    }
    return (float)sum;
}

static void fill(float *out, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = factor * (float)(1 + i % 7);
    }
}

static void apply(float *state, const float *sums, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        state[i] += sums[i];
    }
}

static uint64_t hash_of(const float *state, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &state[i], sizeof bits);
        hash = random_mix(hash ^ bits);
    }
    return hash;
}

uint64_t elastic_expected(const struct elastic_plan *plan, uint64_t steps)
{
    float *state = calloc(2 * plan->values, sizeof *state);
    assert_non_null(state);
    for (uint64_t step = 0; step < steps; step++) {
        fill(state + plan->values, plan->values, contribution(step, 0, ELASTIC_BATCH));
        apply(state, state + plan->values, plan->values);
    }
    uint64_t hash = hash_of(state, plan->values);
    free(state);
    return hash;
}

static int make_step(struct elastic_worker *w, uint64_t step)
{
    uint32_t first;
    int error = shoal_share(w->shoal, ELASTIC_BATCH, &first, &w->part);
    if (error != 0) {
        return error;
    }
    w->count = w->plan->values;
    fill(w->gradients, w->count, contribution(step, first, w->part) * (w->plan->is_rough ? 0.1f : 1.0f));
    if (w->plan->at_step != NULL) {
        w->plan->at_step(w, step);
    }
    error = shoal_all_reduce_f32(w->shoal, w->gradients, w->count);
    if (error != 0) {
        return error;
    }
    apply(w->state, w->gradients, w->plan->values);
    error = shoal_step_commit(w->shoal);
    w->word->parts[step + 1] = w->part;
    w->word->hashes[step + 1] = hash_of(w->state, w->plan->values);
    atomic_store(&w->word->applied, step + 1);
    return error;
}

static int train(struct elastic_worker *w)
{
    for (;;) {
        uint64_t step;
        int error = shoal_step_begin(w->shoal, &step);
        if (error != 0) {
            return error;
        }
        atomic_store(&w->word->generation, shoal_generation(w->shoal));
        if (w->plan->timeout_ms > 0) {
            shoal_set_timeout(w->shoal, w->plan->timeout_ms);
        }
        if (step == w->plan->steps) {
            (void)shoal_barrier(w->shoal); /* who ends at once is a loss to those who still commit: the fake daemon tells of it */
            return 0;
        }
        error = make_step(w, step);
        if (error == SHOAL_AGAIN) {
            atomic_fetch_add(&w->word->broken, 1);
        } else if (error != 0) {
            return error;
        }
    }
}

static int pack(void *context, const void **bytes, size_t *count)
{
    struct elastic_worker *w = context;
    atomic_fetch_add(&w->word->packs, 1);
    *bytes = w->state;
    *count = w->plan->values * sizeof *w->state;
    return w->word->refuses;
}

static int unpack(void *context, const void *bytes, size_t count)
{
    struct elastic_worker *w = context;
    atomic_fetch_add(&w->word->unpacks, 1);
    if (count != w->plan->values * sizeof *w->state || w->word->refuses != 0) {
        return w->word->refuses != 0 ? w->word->refuses : ERR_MALFORMED;
    }
    memcpy(w->state, bytes, count);
    return 0;
}

static int work(struct elastic_worker *w)
{
    int error = shoal_open_elastic(&w->shoal, w->word->error);
    if (error != 0) {
        return error;
    }
    w->registered = w->plan->values;
    w->state = calloc(w->plan->values, sizeof *w->state);
    w->gradients = calloc(2 * w->plan->values, sizeof *w->gradients); /* at_step may want more */
    if (w->state == NULL || w->gradients == NULL) {
        _exit(80);
    }
    if (w->plan->at_step != NULL) {
        w->plan->at_step(w, UINT64_MAX);
    }
    shoal_check_finite(w->shoal, w->plan->checks_finite);
    error = w->plan->is_packed ? shoal_on_state(w->shoal, pack, unpack, w)
                               : shoal_register(w->shoal, w->state, w->registered * sizeof *w->state);
    error = error == 0 ? train(w) : error;
    if (error != 0) {
        (void)snprintf(w->word->error, sizeof w->word->error, "%s", shoal_error(w->shoal));
    }
    w->word->rank = shoal_rank(w->shoal);
    w->word->size = shoal_size(w->shoal);
    w->word->hash = hash_of(w->state, w->plan->values);
    shoal_close(&w->shoal);
    free(w->state);
    free(w->gradients);
    return error;
}

/* ---- the test's side ---- */

void elastic_begin(struct elastic_run *run, const struct elastic_plan *plan, uint32_t size)
{
    assert_true(plan->steps < ELASTIC_STEPS_MAX);
    memset(run->pids, 0, sizeof run->pids);
    run->plan = plan;
    run->words = mmap(NULL, FAKE_RANKS_MAX * sizeof *run->words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(run->words != MAP_FAILED);
    fake_daemon_start(&run->daemon, size, 7, "{}");
    run->daemon.tells_of_losses = true; /* no worker is there yet */
    run->daemon.balances = plan->balances;
    run->daemon.hosts = plan->hosts > 0 ? plan->hosts : FAKE_RANKS_MAX;
}

void elastic_fork(struct elastic_run *run, uint32_t from, uint32_t to)
{
    pid_t parent = getpid();
    for (uint32_t number = from; number < to; number++) {
        run->words[number].result = 1;
        run->pids[number] = fake_daemon_fork(&run->daemon);
        assert_true(run->pids[number] >= 0);
        if (run->pids[number] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(81);
            }
            fake_daemon_environment(&run->daemon, number);
            struct elastic_worker worker = {.number = number, .plan = run->plan, .word = &run->words[number]};
            worker.word->result = work(&worker);
            forked_end(worker.word->result != 0);
        }
    }
}

void elastic_wait(const _Atomic uint64_t *field, uint64_t at_least)
{
    int waited_ms = 0;
    for (; atomic_load(field) < at_least && waited_ms < WAIT_MS; waited_ms++) {
        elastic_sleep_ms(1);
    }
    assert_true(atomic_load(field) >= at_least);
}

void elastic_wait_group_count(struct elastic_run *run, size_t at_least)
{
    assert_true(fake_daemon_wait(&run->daemon, &run->daemon.group_count, at_least));
}

void elastic_signal(struct elastic_run *run, uint32_t number, int signal_number)
{
    assert_int_equal(kill(run->pids[number], signal_number), 0);
    if (signal_number == SIGKILL) {
        assert_int_equal(waitpid(run->pids[number], NULL, 0), run->pids[number]);
        run->pids[number] = 0;
    }
}

int elastic_wait_end(struct elastic_run *run, uint32_t number)
{
    int status = -1;
    for (int waited_ms = 0; run->pids[number] != 0 && waited_ms < WAIT_MS; waited_ms++) {
        if (waitpid(run->pids[number], &status, WNOHANG) == run->pids[number]) {
            run->pids[number] = 0;
        } else {
            elastic_sleep_ms(1);
        }
    }
    assert_int_equal(run->pids[number], 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void elastic_assert_done(struct elastic_run *run, uint32_t number)
{
    int status = elastic_wait_end(run, number);
    const struct elastic_word *word = &run->words[number];
    assert_string_equal(word->error, "");
    assert_int_equal(word->result, 0);
    assert_int_equal(status, 0);
    assert_true(word->hash == elastic_expected(run->plan, run->plan->steps));
}

const char *elastic_assert_failed(struct elastic_run *run, uint32_t number, int error)
{
    int status = elastic_wait_end(run, number);
    const struct elastic_word *word = &run->words[number];
    if (word->result != error) {
        print_error("worker %u: %s\n", number, word->error);
    }
    assert_int_equal(word->result, error);
    assert_int_equal(status, 1);
    assert_true(strlen(word->error) > 10);
    return word->error;
}

void elastic_end(struct elastic_run *run)
{
    for (uint32_t number = 0; number < FAKE_RANKS_MAX; number++) {
        if (run->pids[number] > 0) {
            elastic_signal(run, number, SIGKILL);
        }
    }
    fake_daemon_stop(&run->daemon);
    (void)munmap(run->words, FAKE_RANKS_MAX * sizeof *run->words);
}

size_t elastic_tcp_sockets(int *fds, size_t max)
{
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        struct sockaddr_in peer;
        socklen_t bytes = sizeof peer;
        int fd = atoi(entry->d_name);
        if (fd > 2 && count < max && getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sin_family == AF_INET) {
            fds[count++] = fd;
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count;
}
