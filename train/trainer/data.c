#include "train/trainer/data.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/random.h"
#include "train/trainer/models/vector.h"

/* Mean and deviation of Fashion-MNIST's training pixels, as fractions of 255. */
#define PIXEL_MEAN 0.2860f
#define PIXEL_DEVIATION 0.3530f

/* The first stream of the seed for orders; the model's layers use the low streams. */
#define ORDER_STREAM (1ull << 32)

static int read_pair(const char *directory, const char *images_name, const char *labels_name, struct idx_images *images,
                     struct idx_labels *labels, char *error)
{
    int result = idx_images_read(directory, images_name, images, error);
    return result != 0 ? result
                       : idx_labels_read(directory, labels_name, images->count, TRAINER_CLASSES, labels, error);
}

int trainer_data_open(struct trainer_data *data, const char *directory, char error[IDX_ERROR_BYTES])
{
    *data = (struct trainer_data){0};
    int result = read_pair(directory, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", &data->train_images,
                           &data->train_labels, error);
    if (result == 0) {
        result = read_pair(directory, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", &data->test_images,
                           &data->test_labels, error);
    }
    const struct idx_images *train = &data->train_images, *test = &data->test_images;
    if (result == 0 && (train->rows != test->rows || train->columns != test->columns || train->count < 24)) {
        (void)snprintf(error, IDX_ERROR_BYTES, "%.200s: %u training images of %u x %u and test images of %u x %u: there must "
                                               "be at least 24, all of one size",
                       directory, train->count, train->rows, train->columns, test->rows, test->columns);
        result = ERR_MALFORMED;
    }
    if (result == 0) {
        data->order = malloc(train->count * sizeof *data->order);
        if (data->order == NULL) {
            bytes_copy_text(error, IDX_ERROR_BYTES, "no memory is left for the order of the samples");
            result = ERR_MEMORY;
        }
    }
    if (result != 0) {
        trainer_data_close(data);
        return result;
    }
    uint32_t held_out = train->count / 12 < TRAINER_VALIDATION_MAX ? train->count / 12 : TRAINER_VALIDATION_MAX;
    uint32_t kept = train->count - held_out;
    data->features = train->rows * train->columns;
    data->train = (struct trainer_set){train->pixels, data->train_labels.labels, kept};
    data->validation = (struct trainer_set){train->pixels + (size_t)kept * data->features,
                                            data->train_labels.labels + kept, held_out};
    data->test = (struct trainer_set){test->pixels, data->test_labels.labels, test->count};
    data->variant = reduce_cpu_best();
    return 0;
}

void trainer_data_close(struct trainer_data *data)
{
    idx_images_free(&data->train_images);
    idx_images_free(&data->test_images);
    idx_labels_free(&data->train_labels);
    idx_labels_free(&data->test_labels);
    free(data->order);
    *data = (struct trainer_data){0};
}

void trainer_data_shuffle(struct trainer_data *data, uint64_t seed, uint64_t epoch)
{
    struct random random;
    random_init_stream(&random, seed, ORDER_STREAM + epoch);
    for (uint32_t i = 0; i < data->train.count; i++) {
        uint32_t j = (uint32_t)random_below(&random, (uint64_t)i + 1);
        data->order[i] = data->order[j];
        data->order[j] = i;
    }
}

void trainer_data_gather(const struct trainer_data *data, const struct trainer_set *set, const uint32_t *order,
                         uint32_t start, uint32_t count, float *inputs, uint8_t *labels)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t item = order != NULL ? order[start + i] : start + i;
        vector_scale_bytes(data->variant, inputs + (size_t)i * data->features, set->pixels + item * data->features,
                           data->features, 1.0f / (255.0f * PIXEL_DEVIATION), -PIXEL_MEAN / PIXEL_DEVIATION);
        labels[i] = set->labels[item];
    }
}
