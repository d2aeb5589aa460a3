/* chaos_worker: a worker that costs next to nothing and whose every state is known beforehand. Its state after step s is
 * a digest: of the experiment's nonce and the trial for s = 0, then of the digest before and s. A checkpoint is made from
 * the digest alone, and so is what the ranks all-reduce in each step: whatever is lost, mixed or old shows, here or to
 * tests/chaos/run.py, which computes the same. What shows here is appended to the file that CHAOS_WRONG names: a run may not end
 * well then, also if a restart hides it. Hyperparameters: nonce, steps, step_ms, checkpoint_every, checkpoint_words.
 *
 * usage: chaos_worker [elastic]. With `elastic` the ranks come and go within an attempt. Each one brings its part of a step's
 * items to the sum, so a part that is missing or there twice shows too; the digest does not depend on how many they are. */

#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/shoal/shoal.h"

#define REDUCED 32
#define WORDS_MAX (1 << 17)

struct job {
    int64_t nonce, steps, step_ms, every, words;
    uint64_t initial, digest;
};

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int read_job(struct shoal *shoal, struct job *job)
{
    int code = shoal_hparam_int(shoal, "nonce", 0, &job->nonce);
    code = code == 0 ? shoal_hparam_int(shoal, "steps", 100, &job->steps) : code;
    code = code == 0 ? shoal_hparam_int(shoal, "step_ms", 20, &job->step_ms) : code;
    code = code == 0 ? shoal_hparam_int(shoal, "checkpoint_every", 20, &job->every) : code;
    code = code == 0 ? shoal_hparam_int(shoal, "checkpoint_words", 1024, &job->words) : code;
    return code == 0 && (job->every < 1 || job->words < 1 || job->words > WORDS_MAX) ? ERR_USAGE : code;
}

static void fill(const struct job *job, uint8_t *bytes)
{
    for (int64_t i = 0; i < job->words; i++) {
        bytes_put_u64(bytes + 8 * i, i == 0 ? job->digest : mix(job->digest + (uint64_t)i));
    }
}

static int save(struct shoal *shoal, const struct job *job, uint64_t step)
{
    void *bytes;
    int code = shoal_checkpoint_begin(shoal, (size_t)job->words * 8, &bytes);
    if (code == 0) {
        fill(job, bytes);
        code = shoal_checkpoint_commit(shoal, step);
    }
    return code;
}

static int wrong(const struct shoal *shoal, const char *what, uint64_t step)
{
    const char *path = getenv("CHAOS_WRONG");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    fprintf(file == NULL ? stderr : file, "experiment %s trial %u attempt %u generation %llu rank %u of %u has a wrong %s at step %llu\n",
            shoal_experiment(shoal), shoal_trial(shoal), shoal_attempt(shoal), (unsigned long long)shoal_generation(shoal),
            shoal_rank(shoal), shoal_size(shoal), what, (unsigned long long)step);
    if (file != NULL) {
        (void)fclose(file);
    }
    return ERR_CORRUPT;
}

/* Sets the digest to that of the checkpoint's step, and checks that the checkpoint is the one of that step. */
static int load(struct shoal *shoal, struct job *job, uint64_t *step)
{
    void *bytes;
    size_t count;
    int code = shoal_checkpoint_load(shoal, &bytes, &count, step);
    if (code == ERR_NOT_FOUND) {
        job->digest = job->initial;
        *step = 0;
        return 0;
    }
    if (code != 0) {
        return code;
    }
    static uint8_t wanted[WORDS_MAX * 8];
    job->digest = job->initial;
    for (uint64_t s = 1; s <= *step; s++) {
        job->digest = mix(job->digest ^ s);
    }
    fill(job, wanted);
    bool same = count == (size_t)job->words * 8 && memcmp(bytes, wanted, count) == 0;
    free(bytes);
    if (!same) {
        return wrong(shoal, "checkpoint", *step);
    }
    return 0;
}

static int report(struct shoal *shoal, const struct job *job, uint64_t step)
{
    static const char *const name = "digest";
    double value = (double)(job->digest >> 40);
    return shoal_report(shoal, "training", step, &name, &value, 1);
}

static void compute(const struct job *job)
{
    struct timespec pause = {.tv_sec = job->step_ms / 1000, .tv_nsec = job->step_ms % 1000 * 1000000};
    (void)nanosleep(&pause, NULL);
}

static float item(uint64_t digest, size_t i)
{
    return (float)((digest >> i) & 0xff);
}

/* What rank 0 tells after a step. */
static int tell(struct shoal *shoal, const struct job *job, uint64_t step, bool is_leaving)
{
    bool is_last = step == (uint64_t)job->steps;
    if (is_leaving || is_last || step % (uint64_t)job->every == 0) {
        int saved = save(shoal, job, step);
        if (saved != 0) { /* a full disk costs progress only if something else fails too */
            fprintf(stderr, "step %llu is not saved: %s\n", (unsigned long long)step, shoal_error(shoal));
        }
    }
    return is_last || step % 10 == 0 ? report(shoal, job, step) : shoal_progress(shoal, step);
}

/* Waits for what was told, if all went well so far. */
static int finish(struct shoal *shoal, const struct job *job, uint64_t step, int code)
{
    code = code == 0 ? shoal_flush(shoal, 60000) : code;
    return code == ERR_REFUSED && step == (uint64_t)job->steps ? 0 : code; /* a checkpoint: reports are never refused */
}

static int run(struct shoal *shoal, struct job *job)
{
    uint64_t step;
    int code = load(shoal, job, &step);
    float ranks = (float)shoal_size(shoal);
    if (code == 0 && step == (uint64_t)job->steps && shoal_rank(shoal) == 0) {
        code = report(shoal, job, step); /* an attempt before this one saved its end, but its last report may be lost */
    }
    while (code == 0 && step < (uint64_t)job->steps) {
        step++;
        job->digest = mix(job->digest ^ step);
        compute(job);
        float values[REDUCED + 1];
        for (size_t i = 0; i < REDUCED; i++) {
            values[i] = item(job->digest, i);
        }
        values[REDUCED] = shoal_should_stop(shoal) ? 1 : 0;
        code = shoal_all_reduce_f32(shoal, values, REDUCED + 1);
        for (size_t i = 0; code == 0 && i < REDUCED; i++) {
            if (values[i] != ranks * item(job->digest, i)) {
                return wrong(shoal, "sum", step);
            }
        }
        bool stop = code == 0 && values[REDUCED] > 0;
        if (code == 0 && shoal_rank(shoal) == 0) {
            code = tell(shoal, job, step, stop);
        }
        if (stop) {
            break;
        }
    }
    return finish(shoal, job, step, code);
}

/* The elastic program: what its ranks hand on is the digest, and libshoal tells how many steps that has behind it. */
struct elastic {
    struct shoal *shoal;
    struct job *job;
    uint64_t step;
};

static int load_state(void *context, uint64_t *step)
{
    struct elastic *e = context;
    return load(e->shoal, e->job, step);
}

static int elastic_step(struct elastic *e)
{
    uint64_t digest = mix(e->job->digest ^ (e->step + 1));
    uint32_t first, count;
    float values[REDUCED] = {0};
    int code = shoal_share(e->shoal, REDUCED, &first, &count);
    if (code != 0) {
        return code;
    }
    compute(e->job);
    for (uint32_t i = first; i < first + count; i++) {
        values[i] = item(digest, i);
    }
    code = shoal_all_reduce_f32(e->shoal, values, REDUCED);
    for (size_t i = 0; code == 0 && i < REDUCED; i++) {
        if (values[i] != item(digest, i)) {
            return wrong(e->shoal, "sum", e->step + 1);
        }
    }
    if (code != 0) {
        return code;
    }
    e->job->digest = digest;
    e->step++;
    code = shoal_step_commit(e->shoal);
    int told = shoal_rank(e->shoal) != 0 ? 0 : tell(e->shoal, e->job, e->step, code == SHOAL_STOP);
    return told != 0 ? told : code;
}

/* All steps are made: before anybody leaves rank 0 says so, once more, since who was it at the last step may be lost. */
static int elastic_end(struct elastic *e)
{
    int code = 0;
    if (shoal_rank(e->shoal) == 0) {
        code = finish(e->shoal, e->job, e->step, report(e->shoal, e->job, e->step));
    }
    return code == 0 ? shoal_barrier(e->shoal) : code;
}

static int run_elastic(struct shoal *shoal, struct job *job)
{
    struct elastic e = {.shoal = shoal, .job = job};
    int code = shoal_register(shoal, &job->digest, sizeof job->digest);
    shoal_on_load(shoal, load_state, &e);
    while (code == 0 || code == SHOAL_AGAIN) {
        code = shoal_step_begin(shoal, &e.step);
        if (code == SHOAL_STOP && shoal_rank(shoal) == 0 && e.step > 0) {
            code = tell(shoal, job, e.step, true); /* in no group: nobody else might save it */
            code = code == 0 ? SHOAL_STOP : code;
        } else if (code == 0 && e.step < (uint64_t)job->steps) {
            code = elastic_step(&e);
        } else if (code == 0) {
            code = elastic_end(&e);
            if (code == 0) {
                return 0;
            }
        }
    }
    return finish(shoal, job, e.step, code == SHOAL_STOP ? 0 : code);
}

int main(int argc, char **argv)
{
    struct shoal *shoal;
    struct job job = {.digest = 0};
    char error[SHOAL_ERROR_BYTES];
    bool is_elastic = argc == 2 && strcmp(argv[1], "elastic") == 0;
    if ((is_elastic ? shoal_open_elastic : shoal_open)(&shoal, error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int code = read_job(shoal, &job);
    if (code == 0) {
        job.digest = job.initial = mix((uint64_t)job.nonce * 1000 + shoal_trial(shoal));
        code = is_elastic ? run_elastic(shoal, &job) : run(shoal, &job);
    }
    if (code != 0) {
        fprintf(stderr, "chaos_worker: %s\n", shoal_error(shoal));
    }
    shoal_close(&shoal);
    return code == 0 ? 0 : 1;
}
