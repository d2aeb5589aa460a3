/* chaos_worker: a worker that costs next to nothing and whose every state is known beforehand. Its state after step s is
 * a digest: of the experiment's nonce and the trial for s = 0, then of the digest before and s. A checkpoint is made from
 * the digest alone, and so is what the ranks all-reduce in each step: whatever is lost, mixed or old shows, here or to
 * tests/chaos/run.py, which computes the same. Hyperparameters: nonce, steps, step_ms, checkpoint_every, checkpoint_words. */

#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/shoal.h"

#define REDUCED 32
#define WORDS_MAX (1 << 17)

struct job {
    int64_t nonce, steps, step_ms, every, words;
    uint64_t digest;
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

/* Sets the digest to that of the checkpoint's step, and checks that the checkpoint is the one of that step. */
static int load(struct shoal *shoal, struct job *job, uint64_t *step)
{
    void *bytes;
    size_t count;
    int code = shoal_checkpoint_load(shoal, &bytes, &count, step);
    if (code == ERR_NOT_FOUND) {
        *step = 0;
        return 0;
    }
    if (code != 0) {
        return code;
    }
    static uint8_t wanted[WORDS_MAX * 8];
    for (uint64_t s = 1; s <= *step; s++) {
        job->digest = mix(job->digest ^ s);
    }
    fill(job, wanted);
    bool same = count == (size_t)job->words * 8 && memcmp(bytes, wanted, count) == 0;
    free(bytes);
    if (!same) {
        fprintf(stderr, "WRONG CHECKPOINT at step %llu\n", (unsigned long long)*step);
        return ERR_CORRUPT;
    }
    return 0;
}

static int report(struct shoal *shoal, const struct job *job, uint64_t step)
{
    static const char *const name = "digest";
    double value = (double)(job->digest >> 40);
    return shoal_report(shoal, "training", step, &name, &value, 1);
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
        struct timespec pause = {.tv_sec = job->step_ms / 1000, .tv_nsec = job->step_ms % 1000 * 1000000};
        (void)nanosleep(&pause, NULL);
        float values[REDUCED + 1], own[REDUCED];
        for (size_t i = 0; i < REDUCED; i++) {
            values[i] = own[i] = (float)((job->digest >> i) & 0xff);
        }
        values[REDUCED] = shoal_should_stop(shoal) ? 1 : 0;
        code = shoal_all_reduce_f32(shoal, values, REDUCED + 1);
        for (size_t i = 0; code == 0 && i < REDUCED; i++) {
            if (values[i] != ranks * own[i]) {
                fprintf(stderr, "WRONG SUM at step %llu\n", (unsigned long long)step);
                return ERR_CORRUPT;
            }
        }
        bool last = step == (uint64_t)job->steps, stop = code == 0 && values[REDUCED] > 0;
        if (code == 0 && shoal_rank(shoal) == 0 && (stop || last || step % (uint64_t)job->every == 0)) {
            int saved = save(shoal, job, step);
            if (saved != 0) { /* a full disk costs progress only if something else fails too */
                fprintf(stderr, "step %llu is not saved: %s\n", (unsigned long long)step, shoal_error(shoal));
            }
        }
        if (code == 0 && shoal_rank(shoal) == 0) {
            code = last || step % 10 == 0 ? report(shoal, job, step) : shoal_progress(shoal, step);
        }
        if (stop) {
            break;
        }
    }
    if (code == 0) {
        code = shoal_flush(shoal, 60000);
    }
    return code == ERR_REFUSED && step == (uint64_t)job->steps ? 0 : code; /* a checkpoint: reports are never refused */
}

int main(void)
{
    struct shoal *shoal;
    struct job job = {.digest = 0};
    char error[SHOAL_ERROR_BYTES];
    if (shoal_open(&shoal, error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int code = read_job(shoal, &job);
    if (code == 0) {
        job.digest = mix((uint64_t)job.nonce * 1000 + shoal_trial(shoal));
        code = run(shoal, &job);
    }
    if (code != 0) {
        fprintf(stderr, "chaos_worker: %s\n", shoal_error(shoal));
    }
    shoal_close(&shoal);
    return code == 0 ? 0 : 1;
}
