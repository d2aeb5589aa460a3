#ifndef TRAIN_TRAINER_DATA_H
#define TRAIN_TRAINER_DATA_H
/* The samples of a classification of small images: which are for training, validation and test, and in which order an epoch
 * takes them. All of it follows from (seed, epoch) and is the same on all ranks; which of them belong to a step and a rank
 * says train/plan/ledger.h. */

#include <stddef.h>
#include <stdint.h>

#include "train/group/reduce_cpu.h"
#include "train/trainer/idx.h"

#define TRAINER_CLASSES 10
#define TRAINER_VALIDATION_MAX 5000

struct trainer_set {
    const uint8_t *pixels; /* [count][features] */
    const uint8_t *labels;
    uint32_t count;
};

struct trainer_data {
    struct idx_images train_images, test_images; /* own the memory of the sets below */
    struct idx_labels train_labels, test_labels;
    uint32_t features;
    struct trainer_set train, validation, test;
    uint32_t *order; /* [train.count], the permutation of the epoch */
    enum reduce_variant variant;
};

/* Reads the four MNIST-named files of a directory. The last 5,000 training images (a twelfth of smaller files) are the
 * validation set. Errors as train/trainer/idx.h, plus ERR_MALFORMED when the images of both files differ in size. */
int trainer_data_open(struct trainer_data *data, const char *directory, char error[IDX_ERROR_BYTES]);
void trainer_data_close(struct trainer_data *data);

/* Makes data->order the permutation of an epoch (Fisher and Yates). */
void trainer_data_shuffle(struct trainer_data *data, uint64_t seed, uint64_t epoch);

/* Copies samples as floats of mean 0 and deviation 1: set items start ... start + count - 1, through `order` if it is not NULL. */
void trainer_data_gather(const struct trainer_data *data, const struct trainer_set *set, const uint32_t *order,
                         uint32_t start, uint32_t count, float *inputs, uint8_t *labels);

#endif
