#include "train/trainer/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/plan/ledger.h"
#include "train/trainer/data.h"
#include "train/trainer/models/vector.h"
#include "train/trainer/state.h"

#define BUCKET_BYTES (256 * 1024) /* at least, except the last bucket: a smaller bucket costs more waiting than it hides */
/* from this size on, a copy costs more than reading lines just written by another processor */
#define SHARED_BYTES (4 * 1024 * 1024)
#define EVALUATE_COUNT 250 /* samples in a batch of an evaluation */
#define PRINT_S 5.0
#define LEAVE_MS 45000 /* for the daemon to take the last checkpoint */

struct trainer {
    struct shoal *shoal;
    const struct trainer_options *options;
    struct trainer_data data;
    struct model *model;
    struct trainer_state state;
    struct {
        double loss_sum;
        uint64_t loss_count;
    } counters;      /* of the state, as handed over to other ranks */
    float *reduced;  /* [parameter_count + 1]: gradients, loss */
    bool is_shared;  /* `reduced` is from shoal_alloc */
    size_t bucket_end;  /* of `reduced`: from here on the elements are in a bucket */
    int bucket_error;   /* of the first bucket that could not be begun */
    float *inputs;   /* [batch][features] */
    uint8_t *labels; /* [batch] */
    uint8_t fingerprint[TRAINER_FINGERPRINT_BYTES];
    uint32_t rank, size; /* in this generation */
    uint64_t generation;
    struct {
        uint64_t validated_step; /* + 1; 0: none */
        uint64_t is_tested;
    } done; /* work beside the steps that is done; rank 0 of a new generation tells the other ranks */
    bool stopped;
    bool is_apart; /* stopped in no group: each worker saves its own state, because rank 0 may be gone */
    uint64_t steps_per_epoch, step_count;
    uint64_t shuffled_epoch; /* the epoch of data.order, + 1; 0: none yet */
    uint64_t saved_step;
    struct ledger_range range; /* of the last step */
    bool is_balanced; /* the range was shared by speeds */
    struct timespec applied, applied_steady; /* when the step was applied; its commit may take until a broken group is left */
    int step_log_fd;
    double printed_at_s;
    uint64_t printed_step;
    char *error; /* the caller's */
};

__attribute__((format(printf, 3, 4))) static int fail(struct trainer *t, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(t->error, TRAINER_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return code;
}

/* Fails with libshoal's sentence; SHOAL_AGAIN and SHOAL_STOP are no failures and are returned as they are. */
static int fail_shoal(struct trainer *t, int code)
{
    if (code > 0) {
        return code;
    }
    if (code == ERR_NOT_FINITE) {
        return fail(t, code, "%s", shoal_error(t->shoal)); /* the sentence names the step itself */
    }
    return fail(t, code, "step %llu: %s", (unsigned long long)t->state.step, shoal_error(t->shoal));
}

static double clock_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- set-up ---- */

static int take_memory(struct trainer *t)
{
    uint32_t share = t->options->batch_size; /* a group may shrink to a single rank */
    uint32_t batch = share > EVALUATE_COUNT ? share : EVALUATE_COUNT;
    struct mlp_options shape = {
        .inputs = t->data.features,
        .classes = TRAINER_CLASSES,
        .hidden_count = t->options->hidden_count,
        .batch_count_max = batch,
    };
    memcpy(shape.hidden, t->options->hidden, sizeof shape.hidden);
    int error = mlp_new(&t->model, &shape);
    if (error != 0) {
        return fail(t, error, "cannot make a model of %u hidden layers: %s", shape.hidden_count, err_text(error));
    }
    size_t count = t->model->parameter_count;
    t->state.parameter_count = count;
    t->state.parameters = vector_new(count);
    t->state.velocities = vector_new(count);
    t->inputs = vector_new((size_t)batch * t->data.features);
    t->labels = malloc(batch);
    if (t->state.parameters == NULL || t->state.velocities == NULL || t->inputs == NULL || t->labels == NULL) {
        return fail(t, ERR_MEMORY, "no memory is left for %zu parameters", count);
    }
    memset(t->state.velocities, 0, count * sizeof(float));
    size_t reduced_bytes = (count + 1) * sizeof(float);
    void *reduced = NULL;
    t->is_shared = reduced_bytes >= SHARED_BYTES;
    if (t->is_shared) {
        error = shoal_alloc(t->shoal, reduced_bytes, &reduced);
    } else {
        reduced = vector_new(count + 1);
        error = reduced == NULL ? fail(t, ERR_MEMORY, "no memory is left for %zu gradients", count) : 0;
    }
    if (error != 0) {
        return t->is_shared ? fail_shoal(t, error) : error;
    }
    t->reduced = reduced;
    return 0;
}

/* The facts that must be the same to continue from a checkpoint. Not the ranks, so that another group can take over; and not
 * the number of steps, so that a run can be made longer, unless the learning rate depends on it. */
static void make_fingerprint(struct trainer *t)
{
    char text[512];
    (void)snprintf(text, sizeof text, "mlp %s batch %u rate %.17g momentum %.17g seed %llu samples %u decay %.17g over %llu",
                   t->model->shape,
                   t->options->batch_size, t->options->learning_rate, t->options->momentum,
                   (unsigned long long)shoal_seed(t->shoal), t->data.train.count, t->options->learning_rate_decay,
                   t->options->learning_rate_decay > 0 ? (unsigned long long)t->step_count : 0);
    (void)crypto_generichash(t->fingerprint, sizeof t->fingerprint, (const uint8_t *)text, strlen(text), NULL, 0);
}

/* Loads the state, on rank 0 of a group that has no state yet. */
static int load(void *context, uint64_t *step)
{
    struct trainer *t = context;
    void *bytes = NULL;
    size_t count = 0;
    uint64_t of_step = 0;
    int error = shoal_checkpoint_load(t->shoal, &bytes, &count, &of_step);
    const char *why;
    if (error == ERR_NOT_FOUND) {
        *step = 0;
        return 0;
    }
    if (error != 0) {
        return fail(t, error, "cannot load the checkpoint: %s", shoal_error(t->shoal));
    }
    error = trainer_state_decode(&t->state, t->fingerprint, bytes, count, &why);
    free(bytes);
    if (error != 0) {
        return fail(t, error, "the checkpoint %s: it cannot be continued", why);
    }
    t->counters.loss_sum = t->state.loss_sum;
    t->counters.loss_count = t->state.loss_count;
    *step = t->saved_step = t->state.step;
    return 0;
}

/* Registers the parts of the state that a rank receives from another rank's memory. */
static int register_state(struct trainer *t)
{
    size_t bytes = t->state.parameter_count * sizeof(float);
    int error = shoal_register(t->shoal, t->state.parameters, bytes);
    error = error != 0 ? error : shoal_register(t->shoal, t->state.velocities, bytes);
    error = error != 0 ? error : shoal_register(t->shoal, &t->counters, sizeof t->counters);
    shoal_on_load(t->shoal, load, t);
    return error == 0 ? 0 : fail_shoal(t, error);
}

/* ---- a step ---- */

static void log_step(struct trainer *t)
{
    char line[256];
    int length = snprintf(line, sizeof line, "%llu %s %u %u %u %llu %llu %u %u %u %u %u %llu %d\n",
                          (unsigned long long)t->applied.tv_sec * 1000 + (unsigned long long)t->applied.tv_nsec / 1000000,
                          shoal_experiment(t->shoal), shoal_trial(t->shoal), shoal_attempt(t->shoal), t->rank,
                          (unsigned long long)t->state.step, (unsigned long long)t->generation, t->size, t->range.batch_first,
                          t->range.batch_count, t->range.first, t->range.count,
                          (unsigned long long)t->applied_steady.tv_sec * 1000000 +
                              (unsigned long long)t->applied_steady.tv_nsec / 1000,
                          (int)t->is_balanced);
    /* A single write, so that lines of several ranks do not mix. Training goes on even if the log cannot be written. */
    (void)!write(t->step_log_fd, line, (size_t)length);
}

/* Reduces gradients in buckets while the backward pass computes those of the layers below. The loss travels in the first
 * bucket. The buckets' ends depend on the model alone, so that the sums have the same bits in every run. */
static void reduce_bucket(void *context, size_t offset, double loss)
{
    struct trainer *t = context;
    if (t->bucket_end > t->state.parameter_count) {
        t->reduced[t->state.parameter_count] = (float)loss;
    }
    size_t count = t->bucket_end - offset;
    if (t->bucket_error == 0 && (offset == 0 || count * sizeof(float) >= BUCKET_BYTES)) {
        t->bucket_error = shoal_all_reduce_begin(t->shoal, t->reduced + offset, count, SHOAL_F32);
        t->bucket_end = offset;
    }
}

/* Computes, reduces and applies the next step. */
static int train_step(struct trainer *t)
{
    struct ledger_range range = ledger_batch_of(t->data.train.count, t->options->batch_size, t->state.step);
    if (t->shuffled_epoch != range.epoch + 1) {
        trainer_data_shuffle(&t->data, shoal_seed(t->shoal), range.epoch);
        t->shuffled_epoch = range.epoch + 1;
    }
    int error = shoal_share(t->shoal, range.batch_count, &range.first, &range.count);
    if (error != 0) {
        return fail_shoal(t, error);
    }
    range.first += range.batch_first;
    t->range = range;
    t->is_balanced = shoal_is_balanced(t->shoal);
    trainer_data_gather(&t->data, &t->data.train, t->data.order, range.first, range.count, t->inputs, t->labels);
    struct model_batch batch = {t->inputs, t->labels, range.count};
    size_t parameter_count = t->state.parameter_count;
    t->bucket_end = parameter_count + 1;
    t->bucket_error = 0;
    (void)t->model->gradient(t->model, t->state.parameters, &batch, t->reduced, reduce_bucket, t);
    error = shoal_all_reduce_wait(t->shoal); /* even if a later bucket could not be begun */
    error = t->bucket_error != 0 ? t->bucket_error : error;
    if (error != 0) {
        return fail_shoal(t, error);
    }
    double done = (double)t->state.step / (double)t->step_count;
    float rate = (float)(t->options->learning_rate * (1.0 - t->options->learning_rate_decay * done));
    float momentum = (float)t->options->momentum;
    float scale = 1.0f / (float)range.batch_count;
    vector_sgd(t->data.variant, t->state.parameters, t->state.velocities, t->reduced, parameter_count, scale, momentum, rate);
    t->counters.loss_sum += (double)t->reduced[parameter_count] / range.batch_count;
    t->counters.loss_count++;
    t->state.step++;
    (void)clock_gettime(CLOCK_REALTIME, &t->applied);
    (void)clock_gettime(CLOCK_MONOTONIC, &t->applied_steady);
    return 0;
}

/* ---- reports and checkpoints of rank 0 ---- */

/* Reports metrics. A diverged run has values that are not finite; they are left out, because trials cannot be ordered by
 * them. */
static int report(struct trainer *t, const char *group, const char *const *names, const double *values, size_t count)
{
    const char *kept_names[4];
    double kept[4];
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            kept_names[kept_count] = names[i];
            kept[kept_count++] = values[i];
        }
    }
    if (t->rank != 0 || kept_count == 0) {
        return 0;
    }
    int error = shoal_report(t->shoal, group, t->state.step, kept_names, kept, kept_count);
    if (error == ERR_FULL) {
        (void)fprintf(stderr, "step %llu: a report is lost: %s\n", (unsigned long long)t->state.step, shoal_error(t->shoal));
        return 0;
    }
    return error == 0 ? 0 : fail_shoal(t, error);
}

static int report_training(struct trainer *t)
{
    const char *names[] = {"loss"};
    double values[] = {t->counters.loss_sum / (double)t->counters.loss_count};
    t->counters.loss_sum = 0;
    t->counters.loss_count = 0;
    double now_s = clock_s();
    if (t->rank == 0 && now_s - t->printed_at_s >= PRINT_S) {
        uint64_t steps = t->state.step - t->printed_step;
        (void)printf("epoch %.2f of %g, step %llu of %llu: loss %.4f, %.0f samples/s\n",
                     (double)t->state.step / (double)t->steps_per_epoch, t->options->epochs,
                     (unsigned long long)t->state.step, (unsigned long long)t->step_count, values[0],
                     (double)steps * t->options->batch_size / (now_s - t->printed_at_s));
        (void)fflush(stdout);
        t->printed_at_s = now_s;
        t->printed_step = t->state.step;
    }
    return report(t, "training", names, values, 1);
}

static int evaluate(struct trainer *t, const struct trainer_set *set, double *accuracy, double *loss)
{
    uint32_t start, count;
    ledger_share(set->count, t->rank, t->size, &start, &count);
    double loss_sum = 0;
    uint64_t correct_count = 0;
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < EVALUATE_COUNT ? count - done : EVALUATE_COUNT;
        trainer_data_gather(&t->data, set, NULL, start + done, part, t->inputs, t->labels);
        struct model_batch batch = {t->inputs, t->labels, part};
        t->model->evaluate(t->model, t->state.parameters, &batch, &loss_sum, &correct_count);
        done += part;
    }
    float sums[2] = {(float)correct_count, (float)loss_sum}; /* counts are exact in fp32 up to 2^24 */
    int error = shoal_all_reduce_f32(t->shoal, sums, 2);
    if (error != 0) {
        return fail_shoal(t, error);
    }
    *accuracy = (double)sums[0] / set->count;
    *loss = (double)sums[1] / set->count;
    return 0;
}

static int validate(struct trainer *t)
{
    double values[2];
    int error = evaluate(t, &t->data.validation, &values[0], &values[1]);
    if (error != 0) {
        return error;
    }
    if (t->rank == 0) {
        (void)printf("epoch %.2f of %g, step %llu: validation accuracy %.4f, loss %.4f\n",
                     (double)t->state.step / (double)t->steps_per_epoch, t->options->epochs,
                     (unsigned long long)t->state.step, values[0], values[1]);
        (void)fflush(stdout);
    }
    const char *names[] = {"accuracy", "loss"};
    return report(t, "validation", names, values, 2);
}

static int test(struct trainer *t)
{
    double accuracy, loss;
    int error = evaluate(t, &t->data.test, &accuracy, &loss);
    if (error != 0) {
        return error;
    }
    if (t->rank == 0) {
        (void)printf("test accuracy %.4f\n", accuracy);
        (void)fflush(stdout);
    }
    const char *names[] = {"accuracy"};
    return report(t, "test", names, &accuracy, 1);
}

/* Saves a checkpoint. The state is the same on all ranks; rank 0 hands it over. A checkpoint refused by the daemon (full disk,
 * slow disk) costs progress only if another failure follows, so training prints a line and goes on. */
static int save(struct trainer *t)
{
    if ((t->rank != 0 && !t->is_apart) || t->saved_step == t->state.step) {
        return 0;
    }
    void *room;
    t->state.loss_sum = t->counters.loss_sum;
    t->state.loss_count = t->counters.loss_count;
    int error = shoal_checkpoint_begin(t->shoal, trainer_state_bytes(&t->state), &room);
    if (error == ERR_REFUSED) { /* perhaps about the last checkpoint */
        (void)fprintf(stderr, "step %llu: the daemon refused a checkpoint or a report: %s\n", (unsigned long long)t->state.step,
                      shoal_error(t->shoal));
        error = shoal_checkpoint_begin(t->shoal, trainer_state_bytes(&t->state), &room);
    }
    if (error == 0) {
        trainer_state_encode(&t->state, t->fingerprint, room);
        error = shoal_checkpoint_commit(t->shoal, t->state.step);
    }
    if (error == 0) {
        t->saved_step = t->state.step;
        return 0;
    }
    if (error == ERR_CLOSED) {
        return fail_shoal(t, error);
    }
    (void)fprintf(stderr, "step %llu: the checkpoint is not saved: %s\n", (unsigned long long)t->state.step,
                  shoal_error(t->shoal));
    return 0;
}

/* ---- the loop ---- */

/* Whether the state is to be validated. A checkpoint of the same step is saved afterwards, because the choice of the best
 * checkpoints uses the last reported metric. */
static bool is_due(const struct trainer *t)
{
    return (t->state.step > 0 && t->state.step % t->steps_per_epoch == 0) || t->state.step == t->step_count;
}

/* Logs, reports and saves after a step applied on this rank, in any state of the group: nothing here may depend on other
 * ranks. */
static int tell(struct trainer *t, bool is_leaving)
{
    int error = 0;
    bool last = t->state.step == t->step_count;
    if (t->step_log_fd >= 0) {
        log_step(t);
    }
    if (t->state.step % t->options->report_every == 0 || last) {
        error = report_training(t);
    }
    if (error == 0 && ((t->state.step % t->options->checkpoint_every == 0 && !is_due(t)) || is_leaving)) {
        error = save(t);
    }
    if (error == 0 && t->rank == 0) {
        error = shoal_progress(t->shoal, t->state.step);
        error = error == 0 ? 0 : fail_shoal(t, error);
    }
    return error;
}

/* Makes a step and its reports. The commit comes in between, so that the state is complete before other ranks may ask for
 * it. */
static int step(struct trainer *t)
{
    int error = train_step(t);
    if (error != 0) {
        return error;
    }
    int committed = shoal_step_commit(t->shoal);
    error = tell(t, committed == SHOAL_STOP);
    return error != 0 ? error : committed == 0 ? 0 : fail_shoal(t, committed);
}

/* Enters a group, and in a new group agrees with the other ranks on the work beside the steps. */
static int begin(struct trainer *t)
{
    int error = shoal_step_begin(t->shoal, &t->state.step);
    if (error != 0) {
        return t->error[0] != '\0' && error < 0 ? error : fail_shoal(t, error);
    }
    if (t->generation == shoal_generation(t->shoal) && t->size != 0) {
        return 0;
    }
    t->rank = shoal_rank(t->shoal);
    t->size = shoal_size(t->shoal);
    error = shoal_broadcast(t->shoal, &t->done, sizeof t->done, 0);
    if (error != 0) {
        return fail_shoal(t, error);
    }
    t->generation = shoal_generation(t->shoal);
    if (t->rank == 0) {
        (void)printf("mlp %s (%zu parameters), %u samples, batch %u, generation %llu of %u ranks, steps %llu to %llu\n",
                     t->model->shape, t->model->parameter_count, t->data.train.count, t->options->batch_size,
                     (unsigned long long)t->generation, t->size, (unsigned long long)t->state.step,
                     (unsigned long long)t->step_count);
        (void)fflush(stdout);
        t->printed_at_s = clock_s();
        t->printed_step = t->state.step;
    }
    return 0;
}

/* Trains until all steps are made and tested, or Shoal asks to stop. Work interrupted by a broken group is repeated in the next
 * group. */
static int train(struct trainer *t)
{
    for (;;) {
        int error = begin(t);
        if (error == SHOAL_STOP) { /* in no group */
            t->stopped = t->is_apart = true;
            return t->size == 0 ? 0 : save(t);
        }
        bool is_over = t->state.step == t->step_count;
        if (error == 0 && is_due(t) && t->done.validated_step != t->state.step + 1) {
            error = validate(t);
            t->done.validated_step = error == 0 ? t->state.step + 1 : t->done.validated_step;
        }
        if (error == 0 && is_due(t) && (is_over || t->state.step % t->options->checkpoint_every == 0)) {
            error = save(t);
        }
        if (error == 0 && is_over && !t->done.is_tested) {
            error = test(t);
            t->done.is_tested = error == 0;
        }
        if (error == 0 && is_over) {
            return 0;
        }
        error = error == 0 ? step(t) : error;
        if (error == SHOAL_STOP) {
            t->stopped = t->state.step < t->step_count; /* otherwise training is as good as done */
            if (t->stopped) {
                return 0;
            }
        } else if (error != 0 && error != SHOAL_AGAIN) {
            return error;
        }
    }
}

static int write_final_hash(struct trainer *t)
{
    uint8_t hash[32];
    char hex[65], line[160];
    (void)crypto_generichash(hash, sizeof hash, (const uint8_t *)t->state.parameters,
                             t->state.parameter_count * sizeof(float), NULL, 0);
    bytes_to_hex(hex, hash, sizeof hash);
    int length = snprintf(line, sizeof line, "%u %u %u %s\n", shoal_trial(t->shoal), shoal_attempt(t->shoal), t->rank, hex);
    int fd = open(t->options->final_hash, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    bool written = fd >= 0 && write(fd, line, (size_t)length) == length;
    int reason = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    return written ? 0 : fail(t, ERR_IO, "cannot write %s (SHOAL_FINAL_HASH): %s", t->options->final_hash, strerror(reason));
}

static int finish(struct trainer *t)
{
    int error = 0;
    if (!t->stopped && t->options->final_hash != NULL) {
        error = write_final_hash(t);
    }
    if (error != 0 || (t->rank != 0 && !t->is_apart) || t->size == 0) {
        return error;
    }
    error = shoal_flush(t->shoal, LEAVE_MS);
    if (error == ERR_REFUSED && !t->stopped) {
        (void)fprintf(stderr, "the daemon refused a report or a checkpoint: %s\n", shoal_error(t->shoal));
        return 0;
    }
    if (error == 0 && t->stopped && t->saved_step != t->state.step) {
        return fail(t, ERR_REFUSED, "asked to stop at step %llu, but its checkpoint is not saved",
                    (unsigned long long)t->state.step);
    }
    if (error != 0) {
        return fail_shoal(t, error);
    }
    if (t->stopped) {
        (void)printf("asked to stop: step %llu is saved\n", (unsigned long long)t->state.step);
    }
    return 0;
}

static int set_up(struct trainer *t)
{
    char text[IDX_ERROR_BYTES];
    int error = trainer_data_open(&t->data, t->options->data_dir, text);
    if (error != 0) {
        return fail(t, error, "%s", text);
    }
    if (t->options->batch_size > t->data.train.count) {
        return fail(t, ERR_USAGE, "hyperparameter 'batch_size' is %u; there are %u training samples", t->options->batch_size,
                    t->data.train.count);
    }
    t->steps_per_epoch = (t->data.train.count + t->options->batch_size - 1) / t->options->batch_size;
    t->step_count = (uint64_t)ceil(t->options->epochs * (double)t->steps_per_epoch);
    error = take_memory(t);
    if (error != 0) {
        return error;
    }
    make_fingerprint(t);
    shoal_check_finite(t->shoal, t->options->stops_at_nonfinite);
    if (t->options->step_log != NULL) {
        t->step_log_fd = open(t->options->step_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (t->step_log_fd < 0) {
            return fail(t, ERR_IO, "cannot open %s (SHOAL_STEP_LOG): %s", t->options->step_log, strerror(errno));
        }
    }
    t->model->init(t->model, shoal_seed(t->shoal), t->state.parameters);
    return register_state(t);
}

static void tear_down(struct trainer *t)
{
    if (t->model != NULL) {
        t->model->destroy(t->model);
    }
    if (t->step_log_fd >= 0) {
        (void)close(t->step_log_fd);
    }
    free(t->state.parameters);
    free(t->state.velocities);
    if (t->is_shared) {
        shoal_free(t->shoal, t->reduced);
    } else {
        free(t->reduced);
    }
    free(t->inputs);
    free(t->labels);
    trainer_data_close(&t->data);
}

int trainer_run(struct shoal *shoal, const struct trainer_options *options, char error[TRAINER_ERROR_BYTES])
{
    struct trainer t = {.shoal = shoal, .options = options, .step_log_fd = -1, .error = error};
    error[0] = '\0';
    int result = set_up(&t);
    if (result == 0) {
        t.saved_step = UINT64_MAX;
        t.printed_at_s = clock_s();
        result = train(&t);
    }
    if (result == 0) {
        result = finish(&t);
    }
    tear_down(&t);
    return result;
}
