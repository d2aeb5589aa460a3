#ifndef TRAIN_TRAINER_MODELS_MODEL_H
#define TRAIN_TRAINER_MODELS_MODEL_H
/* The interface between the trainer (train/trainer/trainer.h) and a model. The trainer owns the loop, the data, the parameters
 * and their optimiser; a model is arithmetic on them. All parameters lie in one flat array, first layer first, and so do the
 * gradients, computed from the end of the array to its beginning. */

#include <stddef.h>
#include <stdint.h>

/* A batch of samples: inputs [count][features], fp32, row-major; labels [count]. Borrowed for a call. */
struct model_batch {
    const float *inputs;
    const uint8_t *labels;
    uint32_t count; /* 0 is allowed */
};

/* Called when all gradients from `offset` on are computed; `loss` is the sum over the batch. */
typedef void model_made(void *context, size_t offset, double loss);

/* A model; a call of its functions uses the model's own memory, so one thread at a time. */
struct model {
    size_t parameter_count;
    char shape[128]; /* "784-256-10": part of the fingerprint of checkpoints, and printed */

    /* Fills parameters[parameter_count] from the seed, with the same bits on every machine. */
    void (*init)(const struct model *model, uint64_t seed, float *parameters);

    /* Writes gradients[parameter_count], the SUM over the batch's samples (not the mean: ranks have different counts), and
     * returns the sum of their losses. `made` (may be NULL) is called with falling offsets, the same for every batch, the last
     * of them 0. */
    double (*gradient)(struct model *model, const float *parameters, const struct model_batch *batch, float *gradients,
                       model_made *made, void *context);

    /* Adds the batch's losses to *loss_sum and the number of right answers to *correct_count. */
    void (*evaluate)(struct model *model, const float *parameters, const struct model_batch *batch, double *loss_sum,
                     uint64_t *correct_count);

    /* Frees the model. */
    void (*destroy)(struct model *model);
};

#endif
