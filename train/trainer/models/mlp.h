#ifndef TRAIN_TRAINER_MODELS_MLP_H
#define TRAIN_TRAINER_MODELS_MLP_H
/* A multilayer perceptron: fully connected layers with ReLU in between and softmax cross-entropy at the end. OpenBLAS
 * multiplies, in as many threads as it is set to.
 *
 * Parameters, layer by layer: weights [width in][width out], row-major, then biases [width out]. */

#include "train/trainer/models/model.h"

#define MLP_HIDDEN_MAX 8
#define MLP_WIDTH_MAX 16384

/* The arguments of mlp_new. */
struct mlp_options {
    uint32_t inputs, classes; /* inputs >= 1, classes >= 2 */
    uint32_t hidden[MLP_HIDDEN_MAX]; /* each 1 ... MLP_WIDTH_MAX */
    uint32_t hidden_count; /* 0 is softmax regression */
    uint32_t batch_count_max;
};

/* Makes a model with all the memory it will use. The caller ends it with (*out)->destroy. 0, ERR_USAGE (a number out of range),
 * ERR_MEMORY. */
int mlp_new(struct model **out, const struct mlp_options *options);

#endif
