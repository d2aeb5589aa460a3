#ifndef TRAIN_SHOAL_SHOAL_H
#define TRAIN_SHOAL_SHOAL_H
/* libshoal: the library that makes a training program in C a worker of a Shoal trial.
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
 * The daemon may be restarted while the program trains. Reports and saves then wait in memory (up to SHOAL_QUEUE_MAX), and
 * libshoal, from within its calls, tries to connect again every 200 ms and repeats the requests without an answer. A call that
 * may be in the training loop does not wait for an absent daemon. After 60 s without a daemon, shoal_report, shoal_progress and
 * shoal_checkpoint_save return ERR_CLOSED. Collectives use sockets between the workers only.
 *
 * One call on a context at a time, from any thread: a program with several threads holds a lock of its own around each call.
 * A child made by fork does not use the context of its parent. Functions that can fail return 0 or a negative code of
 * base/err.h; out-parameters are untouched on failure, and shoal_error gives a sentence. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* SHOAL_ERROR_BYTES: size of an error sentence with its NUL. SHOAL_QUEUE_MAX: most reports that wait for the daemon;
 * fewer if they have more than 64 MiB.
 * SHOAL_TIMEOUT_DEFAULT_MS: the time of a collective unless the environment has SHOAL_COLLECTIVE_TIMEOUT, in seconds (the
 * experiment's collective_timeout); see shoal_set_timeout. */
#define SHOAL_ERROR_BYTES 512
#define SHOAL_QUEUE_MAX 4096
#define SHOAL_TIMEOUT_DEFAULT_MS 60000

/* The context of a worker; opaque. */
struct shoal;

/* Connects to the daemon, then forms the group with the other workers of the attempt; waits until all are connected. The caller
 * owns *out and closes it with shoal_close. On failure `error` holds one sentence and *out is NULL: ERR_CLOSED (no daemon),
 * ERR_REFUSED (the daemon no longer knows this worker), ERR_TIMEOUT, ERR_MALFORMED, ERR_MEMORY, ERR_IO. */
int shoal_open(struct shoal **out, char error[SHOAL_ERROR_BYTES]);

/* shoal_open in two parts, for programs that need a group late or never. shoal_open_link connects to the daemon only: rank and
 * size are those of the attempt, and reports, saves and loads work; a collective is ERR_USAGE. shoal_join forms the group, and
 * waits until every rank of the attempt has called it, at most 300 s or the time of shoal_set_timeout (ERR_TIMEOUT); once there
 * is a group it does nothing. An elastic context joins by shoal_step_begin instead, and shoal_join is ERR_USAGE. Errors as of
 * shoal_open. */
int shoal_open_link(struct shoal **out, char error[SHOAL_ERROR_BYTES]);
int shoal_join(struct shoal *shoal);

/* Waits up to 5 s for the answers to reports and saves, then frees the context and all its memory and clears the pointer. NULL
 * is allowed. */
void shoal_close(struct shoal **shoal);

/* The reason why the last call on this context failed: one sentence, "" if no call did. Valid until the next call. */
const char *shoal_error(const struct shoal *shoal);

/* This worker's place: its rank in the group (0 ... size - 1), the group's size and generation (a number that grows with each
 * group of the attempt), and the trial it works for. In an elastic context the first three change in shoal_step_begin. Strings
 * are valid until shoal_close. */
uint32_t shoal_rank(const struct shoal *shoal); /* 0 ... size - 1 */
uint32_t shoal_size(const struct shoal *shoal);
uint64_t shoal_generation(const struct shoal *shoal);
const char *shoal_experiment(const struct shoal *shoal); /* "-" outside Shoal */
uint32_t shoal_trial(const struct shoal *shoal);         /* index in the experiment */
uint32_t shoal_attempt(const struct shoal *shoal);       /* from 1; 0 outside Shoal */
uint64_t shoal_seed(const struct shoal *shoal);          /* of the trial, the same on all ranks */
uint64_t shoal_start_step(const struct shoal *shoal);    /* step of the checkpoint to start from, 0 if there is none */

/* Hyperparameters. `path` is "name" or "outer.inner". If the parameter is missing, *out is the fallback; a value of another
 * type is ERR_MALFORMED. shoal_hparams gives the whole map as packed MessagePack, valid until shoal_close, and its length in
 * bytes. */
const uint8_t *shoal_hparams(const struct shoal *shoal, size_t *bytes);
int shoal_hparam_double(struct shoal *shoal, const char *path, double fallback, double *out);
int shoal_hparam_int(struct shoal *shoal, const char *path, int64_t fallback, int64_t *out); /* 64.0 counts as 64 */

/* Copies a text with its NUL to out[size]. ERR_FULL if `size` bytes are too few, ERR_NOT_FOUND if the parameter is missing and
 * `fallback` is NULL, ERR_MALFORMED as above. */
int shoal_hparam_text(struct shoal *shoal, const char *path, const char *fallback, char *out, size_t size);

/* Reads a list of whole numbers to out[capacity]; a single number counts as a list of one. *count is the length. ERR_FULL above
 * `capacity`, ERR_MALFORMED as above. */
int shoal_hparam_int_list(struct shoal *shoal, const char *path, const int64_t *fallback, size_t fallback_count,
                          int64_t *out, size_t capacity, size_t *count);

/* How far the trial may go now, in a search that stops trials early: the length of the first rung behind `length`, which is how far
 * the trial has come; the last rung's from there on, since the trial is done then. The unit is that of searcher.max_length: steps,
 * unless the configuration names seconds or a metric. At each rung the program reports its validation, which is compared with
 * other trials' and decides whether the trial goes on. SHOAL_UNBOUNDED outside such a search. Outside Shoal too the rungs are those of
 * SHOAL_RUNGS, ascending numbers with blanks between them. */
#define SHOAL_RUNGS_MAX 32
#define SHOAL_UNBOUNDED UINT64_MAX
uint64_t shoal_until(const struct shoal *shoal, uint64_t length);

/* Collectives. Every rank makes the same calls in the same order with the same counts and types. A call waits for the other
 * ranks, at most SHOAL_TIMEOUT_DEFAULT_MS (or the time of collective_timeout or shoal_set_timeout) without a moved byte.
 * After an error the group is lost and every later collective returns the same error: the program should end, and Shoal starts
 * the next attempt from the checkpoint (exceptions: shoal_check_finite, and elastic groups below). ERR_CLOSED (a rank is gone), ERR_TIMEOUT,
 * ERR_MALFORMED (ranks disagree), ERR_AUTH, ERR_MEMORY, ERR_IO. ERR_USAGE does not harm the group: an unknown type or root, or
 * elements not aligned to their size.
 *
 * Arrays stay the caller's and are changed in place; on an error their contents are undefined. `count` is in elements of
 * `type`, for broadcast in bytes.
 *
 * all_reduce: values[count] becomes the sum over the ranks, with the same bits on every rank. reduce_scatter: slice r of
 * values[count], the elements from count * r / size to count * (r + 1) / size, becomes the sum on rank r; its other slices are
 * undefined. all_gather: slice r of rank r reaches all ranks. broadcast: bytes[count] of rank `root` reach every rank. barrier:
 * returns when all ranks have called it.
 *
 * Halves (IEEE 754 binary16) and bfloat16 are added as float32 and rounded to nearest, ties to even: once if all ranks of the
 * group share a host, otherwise each time a partial sum travels to another rank. The order of the sums depends only on the
 * number of elements, the number of ranks and their hosts, so a repeated step ends with the same bits. Where the additional
 * rounding matters, sum float32. */
enum shoal_type { SHOAL_F32 = 1, SHOAL_F16, SHOAL_BF16, SHOAL_BYTES };

int shoal_all_reduce(struct shoal *shoal, void *values, size_t count, enum shoal_type type);
int shoal_all_reduce_f32(struct shoal *shoal, float *values, size_t count); /* of SHOAL_F32 */
int shoal_reduce_scatter(struct shoal *shoal, void *values, size_t count, enum shoal_type type);
int shoal_all_gather(struct shoal *shoal, void *values, size_t count, enum shoal_type type); /* also of SHOAL_BYTES */
int shoal_broadcast(struct shoal *shoal, void *bytes, size_t count, uint32_t root);
int shoal_barrier(struct shoal *shoal);
void shoal_set_timeout(struct shoal *shoal, int timeout_ms); /* timeout_ms > 0; holds for later groups and shoal_join as well */

/* Switches the check for infinities and NaN in all-reduces on or off; off at the start. The same setting on all ranks. With the
 * check an all-reduce examines the values and the sums, a pass over each: if a sum is not finite, the call (or
 * shoal_all_reduce_wait) returns ERR_NOT_FINITE on every rank, and shoal_error names the step, the collective in the step (from
 * 1), the rank that brought the value, and its index. The group stays whole: a program may skip the update (and still call
 * shoal_step_commit), scale its loss differently and go on. */
void shoal_check_finite(struct shoal *shoal, bool is_wanted);

/* Memory for arrays to be summed: an all-reduce of such memory copies nothing between ranks of one host. shoal_alloc gives
 * `bytes` zeroed bytes, aligned to a page, valid until shoal_free or shoal_close. Entering a group (shoal_step_begin) or an
 * error of a collective may reset the memory to zeros, so it suits gradients; parameters, which a group hands over, belong
 * elsewhere. Each rank allocates as it likes. ERR_USAGE (0 bytes), ERR_FULL (SHOAL_ALLOCATIONS_MAX), ERR_MEMORY, ERR_IO.
 * shoal_free allows NULL. */
#define SHOAL_ALLOCATIONS_MAX 32
int shoal_alloc(struct shoal *shoal, size_t bytes, void **out);
void shoal_free(struct shoal *shoal, void *memory);

/* An all-reduce beside the computation. shoal_all_reduce_begin returns at once; shoal_all_reduce_wait returns when everything
 * begun is summed or the group is broken, after which no sum may be used. Between begin and wait the arrays belong to libshoal:
 * the program neither reads nor writes them. So the gradients of a layer travel while those of the layer below are computed:
 *
 *     for each layer, last first: compute its gradients; shoal_all_reduce_begin(shoal, gradients, count, SHOAL_F32);
 *     error = shoal_all_reduce_wait(shoal);
 *
 * Every rank begins the same arrays in the same order. They are summed one after another, to the same bits as by
 * shoal_all_reduce. Other calls may come in between; a collective first waits for everything begun, and fails as wait would.
 * shoal_step_commit comes after wait.
 *
 * begin: ERR_USAGE, ERR_FULL (SHOAL_BEGUN_MAX arrays are waiting), ERR_MEMORY (no thread can be started), SHOAL_AGAIN (in no
 * group); the array is then not begun. wait: the error of the first failed array as of a collective; 0 if nothing was begun.
 *
 * If the ranks are on several hosts and this host has more processors than ranks, a thread of libshoal sums, to hide the wait
 * for the network. Otherwise wait itself sums, because summing needs the processors that compute. shoal_use_thread overrides
 * the choice; ranks may choose differently. */
#define SHOAL_BEGUN_MAX 64
int shoal_all_reduce_begin(struct shoal *shoal, void *values, size_t count, enum shoal_type type);
int shoal_all_reduce_wait(struct shoal *shoal);
void shoal_use_thread(struct shoal *shoal, bool is_wanted);

/* Collectives of GPU memory. Every rank calls shoal_use_gpu once: after shoal_open, or between shoal_open_elastic and the first
 * shoal_step_begin. From then on the arrays of collectives and of shoal_register may be memory of the CUDA device current at
 * the call, or managed memory; each collective detects the kind. Checkpoints are in host memory.
 * A worker sees all GPUs of its attempt on the host: make the one with the number LOCAL_RANK current (cudaSetDevice) first.
 *
 * NCCL moves the memory if every rank has a GPU of its own and the same NCCL (2.18 or later) and all ranks are on one host;
 * with SHOAL_GPU_PLAIN on all ranks also between hosts, on links of NCCL's own, which are neither encrypted nor authenticated.
 * With NCCL all ranks give GPU memory in a collective, or none does. Otherwise GPU memory goes through host memory and its
 * links: slower, but ranks without a GPU, with arrays in host memory, can take part. shoal_gpu_path tells the path of this
 * group and the reason in one sentence; "" before the group exists and in a group of one. Valid until the next call.
 *
 * A collective waits for the program's work queued on CUDA's legacy default stream and on streams that synchronise with it (not
 * on streams made with cudaStreamNonBlocking), and returns when the result is in the memory.
 *
 * With NCCL, too, all ranks end with the same bits, but the bits differ from those of host memory, and halves and bfloat16 are
 * rounded at each addition. Two runs have the same bits if NCCL, its settings, the GPUs and their wiring, and the ranks are the
 * same. For this purpose shoal_use_gpu sets NCCL_ALGO=Ring and NCCL_PROTO=Simple in this process unless the environment has
 * them; call it before other threads read the environment.
 *
 * CUDA and NCCL are opened at run time as libcudart.so.13, .12, .11.0 and libnccl.so.2, or as named by SHOAL_LIBCUDART and
 * SHOAL_LIBNCCL. A missing library is no error. ERR_USAGE (called twice, or too late), ERR_MEMORY, errors as of a
 * collective. */
#define SHOAL_GPU_PLAIN 1u
int shoal_use_gpu(struct shoal *shoal, unsigned flags);
const char *shoal_gpu_path(const struct shoal *shoal);

/* Elastic groups: a lost worker costs its group the present step, and no other worker's process ends. Open with
 * shoal_open_elastic, register the state that training carries from step to step, then
 *
 *     for (;;) {
 *         uint64_t step;                                    steps applied so far
 *         int error = shoal_step_begin(shoal, &step);       enters a group: rank, size and generation may change
 *         if (error == SHOAL_STOP || step == last) break;
 *         compute this rank's part of the step (shoal_share)
 *         error = shoal_all_reduce_f32(shoal, gradients, count);
 *         if (error == SHOAL_AGAIN) continue;               the group is broken: the step is not applied
 *         apply
 *         error = shoal_step_commit(shoal);                 SHOAL_AGAIN: applied all the same
 *         if (error == SHOAL_STOP) break;
 *     }
 *
 * Between begin and commit all ranks make the same collectives. A collective outside may return SHOAL_AGAIN as well; repeat the
 * interrupted work after the next shoal_step_begin. */
#define SHOAL_AGAIN 1 /* call shoal_step_begin */
#define SHOAL_STOP 2  /* Shoal asks to stop: rank 0, or a worker in no group, saves a checkpoint; then leave with status 0 */

/* As shoal_open, but without a group: rank and size are known after shoal_step_begin. */
int shoal_open_elastic(struct shoal **out, char error[SHOAL_ERROR_BYTES]);

#define SHOAL_PARTS_MAX 32

/* Registers a part of the state: bytes[count], the caller's memory, must stay valid until shoal_close. The state is everything
 * that must be equal for a step to give the same result: parameters, optimiser state, generator state, counters. All ranks
 * register the same sizes in the same order, before the first shoal_step_begin. If sizes differ, shoal_step_begin returns
 * ERR_MALFORMED with a sentence naming two ranks and their sizes: on every rank, or, if the ranks with the state agree, only on
 * the ranks that join them. ERR_FULL (SHOAL_PARTS_MAX), ERR_USAGE (too late, no bytes, or after shoal_on_state). */
int shoal_register(struct shoal *shoal, void *bytes, size_t count);

/* Sets the function that loads the state. It is called in shoal_step_begin, on rank 0 of a group in which no rank has the
 * state; the other ranks receive the state from there. It loads the checkpoint if there is one (shoal_checkpoint_load),
 * otherwise leaves the parts in their initial state, and sets *step to the number of applied steps. Its error ends
 * shoal_step_begin on all ranks, but ERR_MEMORY only on this rank: the other ranks form a group without it. Without a load
 * function training begins at step 0. */
typedef int shoal_load_state(void *context, uint64_t *step);
void shoal_on_load(struct shoal *shoal, shoal_load_state *load, void *context);

/* Instead of shoal_register, for a state without a fixed size or place, as of an interpreter's objects. `pack` is called in
 * shoal_step_begin, on the one rank that hands the state over, and only if another rank needs it: it gives *bytes[*count], which
 * stay the program's and valid until shoal_step_begin returns. `unpack` is called in shoal_step_begin on each rank that takes the
 * state, with memory that libshoal frees afterwards; the program keeps copies. A rank that loses the group before `unpack` still
 * has the state that it had. An error of either function ends shoal_step_begin on its rank only; the other ranks form a group
 * without it. shoal_step_commit compares no hashes of such a state. All ranks call shoal_on_state, or none. ERR_USAGE (too late, or
 * parts are registered). */
typedef int shoal_pack_state(void *context, const void **bytes, size_t *count);
typedef int shoal_unpack_state(void *context, const void *bytes, size_t count);
int shoal_on_state(struct shoal *shoal, shoal_pack_state *pack, shoal_unpack_state *unpack, void *context);

/* Leaves the group in a step that this worker cannot finish, after an error of the program for example. The other ranks lose
 * the step; sums that were begun end. The state stays as it is, and shoal_step_begin enters a group again. Outside a group, and
 * outside Shoal, it does nothing. */
void shoal_leave(struct shoal *shoal);

/* The program's state belongs to no step any more: a step was broken after a part of it had been applied. Leaves the group; the
 * next shoal_step_begin takes the state from another rank, or from the checkpoint if no rank has it. Until then nothing is
 * saved. */
void shoal_forget_state(struct shoal *shoal);

/* Enters a group if this worker is in none: waits for the other workers, and receives the state from a rank that has it or
 * hands the state over. *step is the number of applied steps. Returns 0; SHOAL_STOP (in no group); ERR_CLOSED (the daemon is
 * gone); ERR_REFUSED; ERR_MALFORMED (ranks registered different sizes, or the last group broke because ranks called different
 * collectives: the sentence names two ranks and their calls); ERR_MEMORY; ERR_IO; ERR_CORRUPT (the state arrived only in part,
 * no rank has it any more, and there is no checkpoint: only a restarted program can begin); or the load function's error. */
int shoal_step_begin(struct shoal *shoal, uint64_t *step);

/* Ends a step that is applied in memory. All ranks learn alike whether a rank was asked to stop, or to leave the group for a
 * larger one. Every SHOAL_CHECK_STEPS steps a hash of the state is compared: ERR_CORRUPT on the ranks that differ from the
 * majority (on all ranks if there is none). ERR_USAGE if a begun all-reduce was not waited for. 0, SHOAL_STOP, SHOAL_AGAIN (the
 * step counts all the same), or errors as of shoal_step_begin. */
#define SHOAL_CHECK_STEPS 256
int shoal_step_commit(struct shoal *shoal);

/* This rank's part [*first, *first + *count) of a step's `total` items (samples, for example). Parts are contiguous, in rank
 * order, and cover all items. Called between shoal_step_begin and shoal_step_commit, before the items are computed, once for
 * each computation. The equal part of rank r starts at total * r / size. Returns 0 or SHOAL_AGAIN.
 *
 * Parts are equal unless the experiment has `balance: on` and the program is elastic; then they follow the ranks' speeds, with
 * at least one item per rank if there are enough. libshoal measures the time from this call to shoal_step_commit, without
 * collectives and waits in them, but with the program's queued GPU work. After the steps 4, 8, 16 and 32 of a group, and then
 * every 32 steps, all ranks agree on new parts if a rank has computed for 200 ms since the last agreement. Ranks that move to
 * another group bring their speeds. Time spent outside the measured span does not matter.
 *
 * Sum over a rank's items instead of averaging, all-reduce the sums, and divide by `total`: the result is exact for any parts.
 * Rounded sums, however, depend on which rank adds which items: with `balance: on` two runs end with different bits, while all
 * ranks of a run have the same bits. */
int shoal_share(struct shoal *shoal, uint32_t total, uint32_t *first, uint32_t *count);

/* Whether shoal_share gives parts by speed in this group: the same on all its ranks, and true even while the parts are
 * equal. */
bool shoal_is_balanced(const struct shoal *shoal);

#define SHOAL_GROUP_BYTES_MAX 31   /* of a name, without its NUL */
#define SHOAL_METRIC_BYTES_MAX 127
#define SHOAL_METRICS_BYTES_MAX 524288 /* of a report: the bytes of its names, and 12 for each metric */

/* Reports metrics: names[count] with values[count] belong to `group` ("training", "validation", "test") at `step`. Usually
 * called by rank 0 only. Copies its arguments and does not wait. On an error nothing of the report is kept: ERR_FULL (the queue
 * is full), ERR_CLOSED, ERR_REFUSED (the daemon no longer knows this worker), ERR_USAGE (a name is too long, or there are too
 * many). The metric that trials are compared by (searcher.metric) has at most 63 bytes. */
int shoal_report(struct shoal *shoal, const char *group, uint64_t step, const char *const *names, const double *values,
                 size_t count);

/* Reports many times at once: bytes[count] are reports back to back, each the MessagePack array [group, step, metrics], with
 * metrics a map of name to number. *taken is the length in bytes of the reports that were taken; it is less than `count` when
 * the queue is full, and the caller gives the rest later. Copies its arguments and does not wait. Errors as of shoal_report,
 * but for ERR_FULL; ERR_MALFORMED: the next report is not such an array. The *taken bytes before an error are reported. */
int shoal_report_packed(struct shoal *shoal, const void *bytes, size_t count, size_t *taken);

/* Sends and receives as much as possible without waiting. For a thread that keeps the connection alive beside a program that
 * makes no other calls for a while. 0, ERR_CLOSED or ERR_REFUSED. */
int shoal_pump(struct shoal *shoal);

/* Reports the number of applied steps; cheap enough for every step (sent at most every 200 ms). ERR_CLOSED, ERR_REFUSED. */
int shoal_progress(struct shoal *shoal, uint64_t step);

/* Where the time goes. libshoal measures how long steps take and how much of that is spent in collectives, and tells the daemon once
 * a second; `shoal metrics --profile` shows it, and `shoal trace` each span of a few steps. A step of an elastic context ends with
 * shoal_step_commit, else with the next shoal_progress (or shoal_report) of a later step. What only the program knows it may tell:
 * shoal_span, a span of its own thread by CLOCK_MONOTONIC (a wait for data counts as that, the others are for traces only);
 * shoal_step_mark, the end of a step, for programs that do not report their progress at each. Both cost less than a microsecond. */
enum shoal_span_kind { SHOAL_SPAN_DATA = 2, SHOAL_SPAN_FORWARD, SHOAL_SPAN_BACKWARD };
void shoal_span(struct shoal *shoal, enum shoal_span_kind kind, uint64_t begin_ns, uint64_t end_ns);
void shoal_step_mark(struct shoal *shoal, uint64_t step);

/* Saves a checkpoint of `step`: copies bytes[count] and returns; the daemon stores and replicates them while training goes on.
 * The choice of the best checkpoints (save_trial_best) uses the last reported value of searcher.metric, so report the
 * measurement of this step first. There are two buffers. If the daemon is still reading both, the call waits for one, at most
 * 50 s (ERR_TIMEOUT: not saved). If the daemon is away and both buffers wait for it, the new checkpoint replaces the newer of
 * the two. Also ERR_MEMORY, ERR_CLOSED, ERR_REFUSED (the daemon refused this or the last checkpoint; shoal_error has the
 * reason), ERR_CORRUPT (there is no valid state: the group broke while the state was arriving, or shoal_forget_state was called, and
 * shoal_step_begin has not received one since). */
int shoal_checkpoint_save(struct shoal *shoal, uint64_t step, const void *bytes, size_t count);

/* The same without the copy: begin gives *bytes with room for `count` bytes, owned by libshoal, and commit hands them over. No
 * other call comes in between. Errors as of shoal_checkpoint_save. */
int shoal_checkpoint_begin(struct shoal *shoal, size_t count, void **bytes);
int shoal_checkpoint_commit(struct shoal *shoal, uint64_t step);

/* shoal_checkpoint_commit with advice for the store: cuts[cut_count] are ascending offsets below the checkpoint's bytes, for
 * example those of its tensors. A part between two cuts that is the same in the next checkpoint is neither stored nor sent
 * again, wherever it lies by then. Parts smaller than 64 KiB share chunks. The array is copied. Errors as of
 * shoal_checkpoint_save; ERR_USAGE: the cuts do not ascend, lie beyond the end, or are more than SHOAL_CUTS_MAX: the
 * checkpoint is not saved. */
#define SHOAL_CUTS_MAX 65536
int shoal_checkpoint_commit_cut(struct shoal *shoal, uint64_t step, const uint64_t *cuts, size_t cut_count);

/* A checkpoint of several parts: each rank saves a part of its own, and the ranks of a later attempt, perhaps more or fewer, read
 * the parts that they need. All parts of one save have the same `save` and `parts`. `save` is a number that all ranks agree on and that
 * no other save of the attempt has: a random one of rank 0, for example, broadcast. `part` is 0 to parts - 1, each of one
 * rank. Until all parts are stored the checkpoint is not there: an attempt then begins with an earlier one. It is durable
 * (shoal_durable_step) once every part is. */
#define SHOAL_PARTS_OF_CHECKPOINT_MAX 256
struct shoal_part {
    uint64_t save;
    uint32_t part, parts;
};

/* As shoal_checkpoint_commit_cut, of a part: between shoal_checkpoint_begin and this no other call. Also ERR_USAGE: part or parts
 * are out of bounds. The daemon refuses the part (ERR_REFUSED, of a later save or of shoal_flush) while a node of the mesh is of a
 * version without such checkpoints. */
int shoal_checkpoint_commit_part(struct shoal *shoal, uint64_t step, const struct shoal_part *part, const uint64_t *cuts,
                                 size_t cut_count);

/* How many parts the checkpoint to start from has; 0: it is a whole one (or there is none). ERR_CLOSED, ERR_TIMEOUT, ERR_MALFORMED. */
int shoal_checkpoint_parts(struct shoal *shoal, uint32_t *parts);

/* As shoal_checkpoint_open, of one part. It may come from another node: a node fetches a rank's share of the parts before the
 * program begins, and the others when they are asked for. (shoal_checkpoint_open of a checkpoint of several parts is
 * ERR_REFUSED.) ERR_REFUSED: no node that has it can be reached. */
int shoal_checkpoint_open_part(struct shoal *shoal, uint32_t part, int *fd, size_t *count, uint64_t *step);

/* As shoal_checkpoint_open_part, for a rank that needs some of the part's bytes: those of `ranges`, at most SHOAL_RANGES_MAX. Other
 * bytes of the descriptor may be zeros instead, which have not come from other nodes. Also ERR_USAGE. */
#define SHOAL_RANGES_MAX 512
struct shoal_range {
    uint64_t from, count;
};
int shoal_checkpoint_open_ranges(struct shoal *shoal, uint32_t part, const struct shoal_range *ranges, size_t range_count, int *fd,
                                 size_t *count, uint64_t *step);

/* Waits until the daemon has answered all reports and saves, at most timeout_ms. The daemon answers what is on its disk. 0,
 * ERR_TIMEOUT, ERR_CLOSED, ERR_REFUSED (the daemon refused one, of a full disk for example; returned once). Call it before leaving after shoal_should_stop. */
int shoal_flush(struct shoal *shoal, int timeout_ms);

/* Loads the checkpoint to start from: bytes[count] of `step`. The caller frees *bytes with free(). ERR_NOT_FOUND if there is
 * none. Also ERR_CLOSED, ERR_TIMEOUT (50 s), ERR_MEMORY, ERR_CORRUPT (shorter than announced), ERR_MALFORMED. */
int shoal_checkpoint_load(struct shoal *shoal, void **bytes, size_t *count, uint64_t *step);

/* The same without the copy: a read-only descriptor whose first `count` bytes are the checkpoint. The caller closes *fd. The
 * file is nobody's but the caller's, so it may be mapped. Errors as of shoal_checkpoint_load. */
int shoal_checkpoint_open(struct shoal *shoal, int *fd, size_t *count, uint64_t *step);

/* True once the daemon has asked this trial to save and leave (pause, stop, cancel, preempt, leave). Ranks may see it at different
 * steps: decide together, for example by an all-reduced flag. */
bool shoal_should_stop(struct shoal *shoal);

/* Why: "pause", "stop" (the trial is not begun again), "cancel", "preempt" or "leave"; "" until the daemon has asked. Valid until
 * shoal_close. */
const char *shoal_stop_reason(const struct shoal *shoal);

/* The step of the newest checkpoint confirmed as durable by the daemon; 0 if there is none. */
uint64_t shoal_durable_step(const struct shoal *shoal);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
