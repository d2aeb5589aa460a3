#ifndef TRAIN_SHOAL_SHOAL_H
#define TRAIN_SHOAL_SHOAL_H
/* libshoal: what a training program in C links to be a worker of a Shoal trial.
 *
 *     struct shoal *shoal;
 *     char error[SHOAL_ERROR_BYTES];
 *     if (shoal_open(&shoal, error) != 0) { fprintf(stderr, "%s\n", error); return 1; }
 *     load the checkpoint, if there is one; then for each step:
 *         compute; shoal_all_reduce_f32(shoal, gradients, count); apply;
 *         shoal_report(...), shoal_checkpoint_save(...) now and then; leave when shoal_should_stop(shoal)
 *     shoal_close(&shoal);
 *
 * Outside Shoal (no SHOAL_SOCKET in the environment) the same program runs alone: a group of one, hyperparameters from
 * SHOAL_HPARAMS (JSON) and the seed from SHOAL_SEED where set, reports and checkpoints accepted and dropped.
 *
 * The daemon may be restarted while the program trains. Then reports and saves wait in memory (SHOAL_QUEUE_MAX of them)
 * and libshoal connects again, every 200 ms, from within its calls, and sends what was not answered once more. A call that
 * could be in the training loop does not wait for a daemon that is away. After 60 s without one, shoal_report,
 * shoal_progress and shoal_checkpoint_save return ERR_CLOSED. Collectives use sockets between the workers only.
 *
 * Calls on a context come from one thread. Errors are the negative codes of base/err.h; out-parameters are untouched on failure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define SHOAL_ERROR_BYTES 512
#define SHOAL_QUEUE_MAX 4096
#define SHOAL_TIMEOUT_DEFAULT_MS 60000

struct shoal;

/* Connects to the daemon, then forms the group with the other workers of the attempt: waits until all are there.
 * On failure `error` holds one sentence and *out is NULL. ERR_CLOSED (no daemon), ERR_REFUSED (it knows this worker no
 * more), ERR_TIMEOUT, ERR_MALFORMED, ERR_MEMORY, ERR_IO. The caller owns *out and closes it with shoal_close. */
int shoal_open(struct shoal **out, char error[SHOAL_ERROR_BYTES]);

/* Waits up to 5 s for unanswered reports and saves, then frees everything and clears the pointer. NULL is allowed. */
void shoal_close(struct shoal **shoal);

/* Why the last call on this context failed: one sentence, "" if none did. Valid until the next call. */
const char *shoal_error(const struct shoal *shoal);

uint32_t shoal_rank(const struct shoal *shoal); /* 0 ... size - 1 */
uint32_t shoal_size(const struct shoal *shoal);
uint64_t shoal_generation(const struct shoal *shoal);
const char *shoal_experiment(const struct shoal *shoal); /* "-" outside Shoal */
uint32_t shoal_trial(const struct shoal *shoal);         /* index in the experiment */
uint32_t shoal_attempt(const struct shoal *shoal);       /* from 1; 0 outside Shoal */
uint64_t shoal_seed(const struct shoal *shoal);          /* of the trial, the same on all ranks */
uint64_t shoal_start_step(const struct shoal *shoal);    /* of the checkpoint to start from, 0 if none */

/* Hyperparameters. `path` is "name" or "outer.inner". A missing one gives the fallback; another type is ERR_MALFORMED.
 * shoal_hparams gives the whole packed MessagePack map, valid until close. */
const uint8_t *shoal_hparams(const struct shoal *shoal, size_t *bytes);
int shoal_hparam_double(struct shoal *shoal, const char *path, double fallback, double *out);
int shoal_hparam_int(struct shoal *shoal, const char *path, int64_t fallback, int64_t *out); /* 64.0 is 64 */

/* Copies with a NUL. ERR_FULL when it does not fit `size`. `fallback` may be NULL: then ERR_NOT_FOUND. */
int shoal_hparam_text(struct shoal *shoal, const char *path, const char *fallback, char *out, size_t size);

/* A list of whole numbers; a single number is a list of one. ERR_FULL above `capacity`. */
int shoal_hparam_int_list(struct shoal *shoal, const char *path, const int64_t *fallback, size_t fallback_count,
                          int64_t *out, size_t capacity, size_t *count);

/* Collectives: every rank makes the same calls in the same order with the same counts and types. They wait for the others, at
 * most SHOAL_TIMEOUT_DEFAULT_MS (or what shoal_set_timeout says) without a byte moving. After an error the group is lost and
 * every later collective returns the same error: end the program, Shoal starts the next attempt from the checkpoint (but see
 * shoal_check_finite, and elastic groups below).
 * ERR_CLOSED (a rank is gone), ERR_TIMEOUT, ERR_MALFORMED (ranks disagree), ERR_AUTH, ERR_MEMORY, ERR_IO; and ERR_USAGE, by
 * which nothing is lost: no such type or root, elements that are not aligned to their size.
 *
 * The memory is the caller's; on an error what is in it is undefined.
 *
 * all_reduce: values[count] becomes the sum over the ranks, with the same bits on every rank. reduce_scatter: slice r of
 * values[count], which is elements count * r / size to count * (r + 1) / size, becomes the sum on rank r; its other slices are
 * undefined. all_gather: slice r of rank r reaches all ranks. broadcast: bytes[count] of `root` reach every rank. barrier: returns when
 * all ranks have called it.
 *
 * Halves (IEEE 754 binary16) and bfloat16 are added as float32 and rounded to nearest, ties to even: once, where all ranks of
 * the group share a host; else each time that a sum of some ranks travels on to another rank. Which sums those are depends
 * on the number of elements, the number of ranks and their hosts only, so a step that is done over ends with the same bits.
 * Where one rounding too many matters, sum float32. */
enum shoal_type { SHOAL_F32 = 1, SHOAL_F16, SHOAL_BF16, SHOAL_BYTES };

int shoal_all_reduce(struct shoal *shoal, void *values, size_t count, enum shoal_type type);
int shoal_all_reduce_f32(struct shoal *shoal, float *values, size_t count); /* of SHOAL_F32 */
int shoal_reduce_scatter(struct shoal *shoal, void *values, size_t count, enum shoal_type type);
int shoal_all_gather(struct shoal *shoal, void *values, size_t count, enum shoal_type type); /* SHOAL_BYTES, too */
int shoal_broadcast(struct shoal *shoal, void *bytes, size_t count, uint32_t root);
int shoal_barrier(struct shoal *shoal);
void shoal_set_timeout(struct shoal *shoal, int timeout_ms); /* > 0; also of the groups to come */

/* With true, an all-reduce looks at the values and at the sums, which costs a pass over each: if a sum is infinite or no number,
 * it (or shoal_all_reduce_wait) returns ERR_NOT_FINITE, the same on every rank, and shoal_error names the step, the collective
 * in the step (from 1), the rank that brought the value, and where. The group stays whole: a program may leave the step out
 * (with shoal_step_commit all the same), scale its loss otherwise and go on. False at the beginning, for such programs as
 * expect infinities; the same on all ranks. */
void shoal_check_finite(struct shoal *shoal, bool is_wanted);

/* Memory for arrays that are summed: an all-reduce of them copies nothing between ranks of one host. `bytes` zeroed bytes, from
 * the beginning of a page on, until shoal_free or shoal_close. Coming into a group (shoal_step_begin) and the error of a
 * collective may leave zeros in it, so what a group hands on lies elsewhere: gradients belong here, parameters do not. Ranks
 * need not do alike. ERR_USAGE (no bytes), ERR_FULL, ERR_MEMORY, ERR_IO. shoal_free takes NULL, too. */
#define SHOAL_ALLOCATIONS_MAX 32
int shoal_alloc(struct shoal *shoal, size_t bytes, void **out);
void shoal_free(struct shoal *shoal, void *memory);

/* An all-reduce beside the computation. begin returns at once; wait returns when all that was begun is summed, or the group is
 * broken: then nothing of it may be used. From begin to wait the values are libshoal's: the program neither reads nor
 * writes them. So the gradients of a layer travel while those of the layer below are computed:
 *
 *     for each layer, last first: compute its gradients; shoal_all_reduce_begin(shoal, gradients, count, SHOAL_F32);
 *     error = shoal_all_reduce_wait(shoal);
 *
 * Every rank begins the same in the same order, and one is summed after the other, to the bits that shoal_all_reduce gives.
 * Other calls may come between; a collective among them first waits for what was begun, and fails as wait would.
 * shoal_step_commit comes after wait.
 *
 * begin: ERR_USAGE, ERR_FULL (SHOAL_BEGUN_MAX wait already), ERR_MEMORY (no thread can be started), SHOAL_AGAIN (in no group);
 * nothing was begun then. wait: as a collective, for the first that failed; 0 where nothing was begun.
 *
 * A thread of libshoal does it where ranks are on several hosts, for there it hides waiting for the network, and this host has
 * more processors than ranks; else wait does it, since summing is work of the processors that compute. shoal_use_thread
 * says otherwise. What ranks use need not be alike. */
#define SHOAL_BEGUN_MAX 64
int shoal_all_reduce_begin(struct shoal *shoal, void *values, size_t count, enum shoal_type type);
int shoal_all_reduce_wait(struct shoal *shoal);
void shoal_use_thread(struct shoal *shoal, bool is_wanted);

/* Collectives of GPU memory. Every rank calls it, once: after shoal_open, or between shoal_open_elastic and the first shoal_step_begin.
 * From then on what collectives and shoal_register are given may be memory of the CUDA device that was current then, or
 * managed memory; each call finds out. Checkpoints are host memory.
 *
 * The memory goes by NCCL where every rank has a GPU of its own and the same NCCL (2.18 or later), and all are on one host; with
 * SHOAL_GPU_PLAIN on all ranks also between hosts, on links of NCCL's own, which are neither encrypted nor authenticated. Then all
 * ranks give GPU memory in a collective, or none does. Else it goes through host memory and the links of host memory: slower,
 * but ranks without a GPU, whose memory is the host's, can be of the group. shoal_gpu_path says which it is in this group, and why,
 * in one sentence; "" before the group is there, and in a group of one. Valid until the next call.
 *
 * A collective waits for what the program has queued on CUDA's legacy default stream and on streams that synchronise with it (not on
 * streams made with cudaStreamNonBlocking), and returns when the result is in the memory.
 *
 * By NCCL, too, all ranks end with the same bits, but they are not those of host memory, and halves and bfloat16 are rounded at each
 * addition. Two runs have the same bits if NCCL, its settings, the GPUs and their wiring, and the ranks are the same. For
 * that it sets NCCL_ALGO=Ring and NCCL_PROTO=Simple in this process where the environment does not say otherwise; call it before there are
 * threads that read the environment.
 *
 * CUDA and NCCL are opened at run time as libcudart.so.13, .12, .11.0 and libnccl.so.2, or what SHOAL_LIBCUDART and SHOAL_LIBNCCL
 * name. That something is missing is no error. ERR_USAGE (called twice, or too late), ERR_MEMORY, errors as of a collective. */
#define SHOAL_GPU_PLAIN 1u
int shoal_use_gpu(struct shoal *shoal, unsigned flags);
const char *shoal_gpu_path(const struct shoal *shoal);

/* Elastic groups: a lost worker costs its group the step that it was in, and nobody's process. Open with shoal_open_elastic,
 * register what training carries from step to step, then
 *
 *     for (;;) {
 *         uint64_t step;                                    steps applied so far
 *         int error = shoal_step_begin(shoal, &step);       comes into a group: rank, size and generation may be others
 *         if (error == SHOAL_STOP || step == last) break;
 *         compute this rank's part of the step (shoal_share)
 *         error = shoal_all_reduce_f32(shoal, gradients, count);
 *         if (error == SHOAL_AGAIN) continue;               the group is broken: the step is not applied
 *         apply
 *         error = shoal_step_commit(shoal);                 SHOAL_AGAIN: applied all the same
 *         if (error == SHOAL_STOP) break;
 *     }
 *
 * Between begin and commit all ranks make the same collectives. Every collective outside them, too, may return SHOAL_AGAIN; do
 * over after the next shoal_step_begin what was under way. */
#define SHOAL_AGAIN 1 /* call shoal_step_begin */
#define SHOAL_STOP 2  /* Shoal has asked for it: rank 0, and who is in no group, saves; then leave with status 0 */

/* As shoal_open, but without a group yet: rank and size are known after shoal_step_begin. */
int shoal_open_elastic(struct shoal **out, char error[SHOAL_ERROR_BYTES]);

#define SHOAL_PARTS_MAX 32

/* A part of the state: `bytes` stays valid until close. All ranks register the same sizes in the same order, before the first
 * shoal_step_begin (which else is ERR_MALFORMED on every rank, and names two ranks and their sizes; on those only
 * who join a group that agrees). What must be the same for a step to give the same result belongs to it: parameters, optimiser state,
 * generator state, counters. ERR_FULL, ERR_USAGE. */
int shoal_register(struct shoal *shoal, void *bytes, size_t count);

/* Called in rank 0 of a group of which nobody has the state yet, the others get it from there: loads the checkpoint if there is
 * one (shoal_checkpoint_load), else leaves the parts as they begin, and says how many steps they have behind them. Its
 * error ends shoal_step_begin on all ranks; ERR_MEMORY on this one only, the others form a group without it. Without it training begins at step 0. */
typedef int shoal_load_state(void *context, uint64_t *step);
void shoal_on_load(struct shoal *shoal, shoal_load_state *load, void *context);

/* Comes into a group if this worker is in none: waits for the others, gets the state from one who has it, or hands it on. 0,
 * SHOAL_STOP (in no group), ERR_CLOSED (the daemon is gone), ERR_REFUSED, ERR_MALFORMED (ranks registered different sizes, or the
 * last group broke because ranks called different collectives: the sentence names two of them and what they called),
 * ERR_MEMORY, ERR_IO, ERR_CORRUPT (the state came from another in part, nobody has it any more, and there is no checkpoint: only
 * a program that is started anew can begin), what the load function said. */
int shoal_step_begin(struct shoal *shoal, uint64_t *step);

/* The step is applied in memory. Learns whether anybody was asked to stop or to leave the group for a larger one, the same on
 * all ranks. Every SHOAL_CHECK_STEPS it compares a hash of the state: ERR_CORRUPT on the rank that differs from the most (on
 * all, if none are the most). ERR_USAGE where what was begun is not waited for. 0, SHOAL_STOP, SHOAL_AGAIN, ERR_... as
 * shoal_step_begin. */
#define SHOAL_CHECK_STEPS 256
int shoal_step_commit(struct shoal *shoal);

/* This rank's part [*first, *first + *count) of a step's `total` items, samples for example: contiguous, in rank order, together
 * all of them. Called between shoal_step_begin and shoal_step_commit, before the items are computed, once for what is computed
 * once. Of `total` items equal parts are those from total * rank / size on.
 *
 * Parts are equal unless the experiment says `balance: on` and the program is elastic: then they follow the ranks' speeds, with
 * at least one item for each rank where there are enough. libshoal measures, from this call to shoal_step_commit, how long a
 * rank takes for its items, without the collectives and what it waits for in them (but with what the program has queued on the
 * GPU). After the steps 4, 8, 16 and 32 of a group, and every 32 steps from then on, all ranks agree on parts, if one of them has
 * computed for 200 ms since they last did. Those who go on in another group bring their speeds. It does not matter how long a
 * rank takes outside of that time.
 *
 * Add up over a rank's items, not their mean; all-reduce the sums, and divide them by `total`: that is exact, whatever the parts
 * are. But sums that are rounded depend on who adds what: with `balance: on` two runs do not end with the same bits. All ranks
 * of a run do. 0, or SHOAL_AGAIN. */
int shoal_share(struct shoal *shoal, uint32_t total, uint32_t *first, uint32_t *count);

/* Whether shoal_share gives parts by speed in this group: the same on all its ranks, true also while such parts are equal. */
bool shoal_is_balanced(const struct shoal *shoal);

#define SHOAL_GROUP_BYTES_MAX 31   /* of names, without their NUL */
#define SHOAL_METRIC_BYTES_MAX 127
#define SHOAL_METRICS_BYTES_MAX 7680 /* of one report: the bytes of its names, and 12 for each */

/* Reports metrics: names[count] with values[count] belong to `group` ("training", "validation", "test") at `step`. Usually
 * called by rank 0 only. Does not wait. ERR_FULL (the queue is full: nothing was kept of this report), ERR_CLOSED,
 * ERR_REFUSED (the daemon knows this worker no more), ERR_USAGE (a name is too long, or there are too many: nothing was kept). The
 * metric that trials are compared by (searcher.metric) has at most 63 bytes. */
int shoal_report(struct shoal *shoal, const char *group, uint64_t step, const char *const *names, const double *values,
                 size_t count);

/* Says how far training is; cheap enough for every step (sent at most every 200 ms). */
int shoal_progress(struct shoal *shoal, uint64_t step);

/* Saves a checkpoint: copies the bytes and returns; the daemon stores and replicates them while training goes on. Which are the
 * best (save_trial_best) goes by searcher.metric as it was last reported, so report what was measured at this step before. There
 * are two buffers. When the daemon still reads both, this waits for one, at most 50 s (ERR_TIMEOUT: not saved). When
 * the daemon is away and both wait for it, the newer checkpoint replaces the newer of the two. Also ERR_MEMORY, ERR_CLOSED,
 * ERR_REFUSED (the daemon refused this or the last checkpoint; shoal_error says why), ERR_CORRUPT (the registered parts hold no
 * state: the group broke while it came from another worker, and shoal_step_begin has not got it since). */
int shoal_checkpoint_save(struct shoal *shoal, uint64_t step, const void *bytes, size_t count);

/* The same without the copy: begin gives count bytes to fill, commit hands them over. Nothing else is called between. */
int shoal_checkpoint_begin(struct shoal *shoal, size_t count, void **bytes);
int shoal_checkpoint_commit(struct shoal *shoal, uint64_t step);

/* Waits until the daemon has answered all reports and saves. 0, ERR_TIMEOUT, ERR_CLOSED, ERR_REFUSED (it refused one;
 * said once). Call it before leaving after shoal_should_stop. */
int shoal_flush(struct shoal *shoal, int timeout_ms);

/* The checkpoint to start from. ERR_NOT_FOUND when there is none. The caller frees *bytes with free(). Also ERR_CLOSED,
 * ERR_TIMEOUT (50 s), ERR_MEMORY, ERR_CORRUPT (shorter than announced), ERR_MALFORMED. */
int shoal_checkpoint_load(struct shoal *shoal, void **bytes, size_t *count, uint64_t *step);

/* True once the daemon has asked this trial to save and leave (pause, cancel, preempt, leave). Ranks may learn it at
 * different steps: decide together, for example by an all-reduced flag. */
bool shoal_should_stop(struct shoal *shoal);

/* The step of the newest checkpoint that the daemon has confirmed as durable; 0 if none. */
uint64_t shoal_durable_step(const struct shoal *shoal);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
