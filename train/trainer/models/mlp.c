#include "train/trainer/models/mlp.h"

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/random.h"
#include "train/trainer/models/vector.h"

#define CLASSES_MAX 256
#define LAYERS_MAX (MLP_HIDDEN_MAX + 1)

struct mlp {
    struct model model; /* first, so that a pointer to either is a pointer to both */
    enum reduce_variant variant;
    uint32_t layer_count;
    uint32_t widths[LAYERS_MAX + 1]; /* layer i is widths[i] -> widths[i + 1] */
    size_t offsets[LAYERS_MAX];      /* of a layer's weights in the parameters */
    uint32_t batch_count_max;
    float *memory;
    float *outputs[LAYERS_MAX]; /* [batch][widths[i + 1]] after ReLU; of the last layer: before softmax */
    float *deltas[LAYERS_MAX];  /* derivative of the loss by the input of ReLU or softmax */
};

static size_t weight_count(const struct mlp *mlp, uint32_t layer)
{
    return (size_t)mlp->widths[layer] * mlp->widths[layer + 1];
}

/* The biases of a layer in an array laid out as the parameters. */
static float *biases_of(const struct mlp *mlp, float *array, uint32_t layer)
{
    return array + mlp->offsets[layer] + weight_count(mlp, layer);
}

/* He et al., "Delving deep into rectifiers", ICCV 2015, as uniform numbers of the same variance: computed with + - * / and sqrt
 * alone, they have the same bits on every processor, unlike normal numbers by libm. */
static void mlp_init(const struct model *model, uint64_t seed, float *parameters)
{
    const struct mlp *mlp = (const struct mlp *)(const void *)model;
    for (uint32_t layer = 0; layer < mlp->layer_count; layer++) {
        struct random random;
        random_init_stream(&random, seed, layer);
        double bound = sqrt(6.0 / mlp->widths[layer]);
        float *weights = parameters + mlp->offsets[layer];
        size_t count = weight_count(mlp, layer);
        for (size_t i = 0; i < count; i++) {
            weights[i] = (float)((2.0 * random_double(&random) - 1.0) * bound);
        }
        memset(weights + count, 0, mlp->widths[layer + 1] * sizeof *weights);
    }
}

static void forward(struct mlp *mlp, const float *parameters, const struct model_batch *batch)
{
    CHECK(batch->count <= mlp->batch_count_max);
    const float *input = batch->inputs;
    for (uint32_t layer = 0; layer < mlp->layer_count; layer++) {
        uint32_t in = mlp->widths[layer], out = mlp->widths[layer + 1];
        const float *weights = parameters + mlp->offsets[layer];
        const float *biases = weights + weight_count(mlp, layer);
        float *output = mlp->outputs[layer];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)batch->count, (int)out, (int)in, 1.0f, input, (int)in,
                    weights, (int)out, 0.0f, output, (int)out);
        if (layer + 1 < mlp->layer_count) {
            vector_add_bias_relu(mlp->variant, output, biases, batch->count, out);
        } else {
            vector_add_bias(mlp->variant, output, biases, batch->count, out);
        }
        input = output;
    }
}

/* The loss of a sample; `delta`, if not NULL, gets the derivative: softmax minus the one-hot label. */
static double cross_entropy(const float *scores, uint32_t classes, uint8_t label, float *delta)
{
    float highest = scores[0];
    for (uint32_t c = 1; c < classes; c++) {
        highest = scores[c] > highest ? scores[c] : highest;
    }
    double powers[CLASSES_MAX], sum = 0;
    for (uint32_t c = 0; c < classes; c++) {
        powers[c] = exp((double)(scores[c] - highest));
        sum += powers[c];
    }
    for (uint32_t c = 0; c < classes && delta != NULL; c++) {
        delta[c] = (float)(powers[c] / sum) - (c == label ? 1.0f : 0.0f);
    }
    return log(sum) - (double)(scores[label] - highest);
}

static double mlp_gradient(struct model *model, const float *parameters, const struct model_batch *batch,
                           float *gradients, model_made *made, void *context)
{
    struct mlp *mlp = (struct mlp *)(void *)model;
    if (batch->count == 0) {
        memset(gradients, 0, model->parameter_count * sizeof *gradients);
        for (uint32_t layer = mlp->layer_count; layer-- > 0 && made != NULL;) {
            made(context, mlp->offsets[layer], 0);
        }
        return 0;
    }
    forward(mlp, parameters, batch);
    uint32_t last = mlp->layer_count - 1, classes = mlp->widths[mlp->layer_count];
    double loss = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        size_t at = (size_t)i * classes;
        loss += cross_entropy(mlp->outputs[last] + at, classes, batch->labels[i], mlp->deltas[last] + at);
    }
    vector_sum_rows(mlp->variant, biases_of(mlp, gradients, last), mlp->deltas[last], batch->count, classes);
    for (uint32_t layer = mlp->layer_count; layer-- > 0;) {
        uint32_t in = mlp->widths[layer], out = mlp->widths[layer + 1];
        const float *input = layer > 0 ? mlp->outputs[layer - 1] : batch->inputs;
        const float *delta = mlp->deltas[layer];
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)in, (int)out, (int)batch->count, 1.0f, input, (int)in,
                    delta, (int)out, 0.0f, gradients + mlp->offsets[layer], (int)out);
        if (made != NULL) {
            made(context, mlp->offsets[layer], loss);
        }
        if (layer > 0) {
            float *below = mlp->deltas[layer - 1];
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)batch->count, (int)in, (int)out, 1.0f, delta, (int)out,
                        parameters + mlp->offsets[layer], (int)out, 0.0f, below, (int)in);
            vector_relu_back(mlp->variant, biases_of(mlp, gradients, layer - 1), below, input, batch->count, in);
        }
    }
    return loss;
}

static void mlp_evaluate(struct model *model, const float *parameters, const struct model_batch *batch, double *loss_sum,
                         uint64_t *correct_count)
{
    struct mlp *mlp = (struct mlp *)(void *)model;
    if (batch->count == 0) {
        return;
    }
    forward(mlp, parameters, batch);
    uint32_t classes = mlp->widths[mlp->layer_count];
    for (uint32_t i = 0; i < batch->count; i++) {
        const float *scores = mlp->outputs[mlp->layer_count - 1] + (size_t)i * classes;
        uint32_t best = 0;
        for (uint32_t c = 1; c < classes; c++) {
            best = scores[c] > scores[best] ? c : best;
        }
        *loss_sum += cross_entropy(scores, classes, batch->labels[i], NULL);
        *correct_count += best == batch->labels[i];
    }
}

static void mlp_destroy(struct model *model)
{
    struct mlp *mlp = (struct mlp *)(void *)model;
    free(mlp->memory);
    free(mlp);
}

static bool options_hold(const struct mlp_options *o)
{
    bool good = o->inputs >= 1 && o->inputs <= 1u << 20 && o->classes >= 2 && o->classes <= CLASSES_MAX &&
                o->hidden_count <= MLP_HIDDEN_MAX && o->batch_count_max >= 1 && o->batch_count_max <= 1u << 20;
    for (uint32_t i = 0; good && i < o->hidden_count; i++) {
        good = o->hidden[i] >= 1 && o->hidden[i] <= MLP_WIDTH_MAX;
    }
    return good;
}

int mlp_new(struct model **out, const struct mlp_options *options)
{
    if (!options_hold(options)) {
        return ERR_USAGE;
    }
    struct mlp *mlp = calloc(1, sizeof *mlp);
    if (mlp == NULL) {
        return ERR_MEMORY;
    }
    mlp->model = (struct model){
        .init = mlp_init, .gradient = mlp_gradient, .evaluate = mlp_evaluate, .destroy = mlp_destroy};
    mlp->variant = reduce_cpu_best();
    mlp->layer_count = options->hidden_count + 1;
    mlp->batch_count_max = options->batch_count_max;
    mlp->widths[0] = options->inputs;
    memcpy(mlp->widths + 1, options->hidden, options->hidden_count * sizeof options->hidden[0]);
    mlp->widths[mlp->layer_count] = options->classes;

    int used = snprintf(mlp->model.shape, sizeof mlp->model.shape, "%u", mlp->widths[0]);
    size_t float_count = 0;
    for (uint32_t layer = 0; layer < mlp->layer_count; layer++) {
        used += snprintf(mlp->model.shape + used, sizeof mlp->model.shape - (size_t)used, "-%u", mlp->widths[layer + 1]);
        mlp->offsets[layer] = mlp->model.parameter_count;
        mlp->model.parameter_count += weight_count(mlp, layer) + mlp->widths[layer + 1];
        float_count += 2 * vector_lines((size_t)mlp->widths[layer + 1] * mlp->batch_count_max);
    }
    mlp->memory = vector_new(float_count);
    if (mlp->memory == NULL) {
        free(mlp);
        return ERR_MEMORY;
    }
    float *at = mlp->memory;
    for (uint32_t layer = 0; layer < mlp->layer_count; layer++) {
        size_t count = vector_lines((size_t)mlp->widths[layer + 1] * mlp->batch_count_max);
        mlp->outputs[layer] = at;
        mlp->deltas[layer] = at + count;
        at += 2 * count;
    }
    *out = &mlp->model;
    return 0;
}
