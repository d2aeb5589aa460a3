#ifndef TRAIN_TRAINER_DATA_H
#define TRAIN_TRAINER_DATA_H
/* The samples of a classification of small images: the sets for training, validation and test, and the order of an epoch. All
 * of it follows from (seed, epoch) and is the same on all ranks; train/plan/ledger.h tells which samples belong to a step and a
 * rank. */

#include <stddef.h>
#include <stdint.h>

#include "train/group/reduce_cpu.h"
#include "train/trainer/idx.h"

#define TRAINER_CLASSES 10
#define TRAINER_VALIDATION_MAX 5000

/* A set of samples, borrowed from struct trainer_data. */
struct trainer_set {
    const uint8_t *pixels; /* [count][features] */
    const uint8_t *labels;
    uint32_t count;
};

/* All samples; opened by trainer_data_open, which fills in every field. */
struct trainer_data {
    struct idx_images train_images, test_images; /* own the memory of the sets below */
    struct idx_labels train_labels, test_labels;
    uint32_t features;
    struct trainer_set train, validation, test;
    uint32_t *order; /* [train.count], the permutation of the epoch */
    enum reduce_variant variant;
};

/* Reads the four MNIST-named files of a directory. The last 5,000 training images (a twelfth of smaller files) are the
 * validation set. Errors as of train/trainer/idx.h, plus ERR_MALFORMED if the images of the two files differ in size; nothing
 * is then left open. trainer_data_close frees everything. */
int trainer_data_open(struct trainer_data *data, const char *directory, char error[IDX_ERROR_BYTES]);
void trainer_data_close(struct trainer_data *data);

/* Makes data->order the permutation of an epoch (Fisher and Yates). */
void trainer_data_shuffle(struct trainer_data *data, uint64_t seed, uint64_t epoch);

/* Copies items start ... start + count - 1 of a set, by way of `order` if not NULL: inputs [count][features] as floats of mean
 * 0 and deviation 1, and labels [count]. */
void trainer_data_gather(const struct trainer_data *data, const struct trainer_set *set, const uint32_t *order,
                         uint32_t start, uint32_t count, float *inputs, uint8_t *labels);

#endif
