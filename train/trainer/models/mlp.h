#ifndef TRAIN_TRAINER_MODELS_MLP_H
#define TRAIN_TRAINER_MODELS_MLP_H
/* A multilayer perceptron: fully connected layers with ReLU between them, softmax cross-entropy at the end. OpenBLAS does
 * the products, in the threads that it is told to use.
 *
 * Parameters, layer by layer: weights [width in][width out], row-major, then biases [width out]. */

#include "train/trainer/models/model.h"

#define MLP_HIDDEN_MAX 8
#define MLP_WIDTH_MAX 16384

struct mlp_options {
    uint32_t inputs, classes; /* >= 1, classes >= 2 */
    uint32_t hidden[MLP_HIDDEN_MAX]; /* 1 ... MLP_WIDTH_MAX */
    uint32_t hidden_count; /* 0 is softmax regression */
    uint32_t batch_count_max;
};

/* Takes all memory it will use. 0, ERR_USAGE (a number out of its range), ERR_MEMORY. End it with (*out)->destroy. */
int mlp_new(struct model **out, const struct mlp_options *options);

#endif
