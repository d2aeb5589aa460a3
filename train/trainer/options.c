#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/pack.h"
#include "train/trainer/trainer.h"

#define DATA_DIR_DEFAULT "/usr/share/datasets/fashion-mnist"

static const char *const known_names[] = {"hidden",          "learning_rate", "momentum", "batch_size", "epochs",
                                          "checkpoint_every", "report_every", "data_dir",      "learning_rate_decay",
                                          "nonfinite"};

static int read_number(struct shoal *shoal, const char *name, double fallback, double low, double high, const char *range,
                       double *out, char *error)
{
    double value;
    if (shoal_hparam_double(shoal, name, fallback, &value) != 0) {
        bytes_copy_text(error, TRAINER_ERROR_BYTES, shoal_error(shoal));
        return ERR_USAGE;
    }
    if (!(value >= low && value <= high)) { /* NaN fails as well */
        (void)snprintf(error, TRAINER_ERROR_BYTES, "hyperparameter '%s' is %g; it must be %s", name, value, range);
        return ERR_USAGE;
    }
    *out = value;
    return 0;
}

static int read_count(struct shoal *shoal, const char *name, int64_t fallback, int64_t high, uint32_t *out, char *error)
{
    int64_t value;
    if (shoal_hparam_int(shoal, name, fallback, &value) != 0) {
        bytes_copy_text(error, TRAINER_ERROR_BYTES, shoal_error(shoal));
        return ERR_USAGE;
    }
    if (value < 1 || value > high) {
        (void)snprintf(error, TRAINER_ERROR_BYTES, "hyperparameter '%s' is %lld; it must be a whole number from 1 to %lld",
                       name, (long long)value, (long long)high);
        return ERR_USAGE;
    }
    *out = (uint32_t)value;
    return 0;
}

static int read_hidden(struct shoal *shoal, struct trainer_options *out, char *error)
{
    static const int64_t fallback[] = {256};
    int64_t widths[MLP_HIDDEN_MAX];
    size_t count;
    if (shoal_hparam_int_list(shoal, "hidden", fallback, 1, widths, MLP_HIDDEN_MAX, &count) != 0) {
        bytes_copy_text(error, TRAINER_ERROR_BYTES, shoal_error(shoal));
        return ERR_USAGE;
    }
    for (size_t i = 0; i < count; i++) {
        if (widths[i] < 1 || widths[i] > MLP_WIDTH_MAX) {
            (void)snprintf(error, TRAINER_ERROR_BYTES,
                           "hyperparameter 'hidden' has a layer of %lld units; 1 to %d are possible",
                           (long long)widths[i], MLP_WIDTH_MAX);
            return ERR_USAGE;
        }
        out->hidden[i] = (uint32_t)widths[i];
    }
    out->hidden_count = (uint32_t)count;
    return 0;
}

static int read_nonfinite(struct shoal *shoal, bool *stops, char *error)
{
    char text[16];
    if (shoal_hparam_text(shoal, "nonfinite", "stop", text, sizeof text) != 0) {
        bytes_copy_text(error, TRAINER_ERROR_BYTES, shoal_error(shoal));
        return ERR_USAGE;
    }
    *stops = strcmp(text, "stop") == 0;
    if (!*stops && strcmp(text, "ignore") != 0) {
        (void)snprintf(error, TRAINER_ERROR_BYTES, "hyperparameter 'nonfinite' is '%s'; it must be stop or ignore", text);
        return ERR_USAGE;
    }
    return 0;
}

static void name_unused(struct shoal *shoal)
{
    size_t bytes;
    struct pack_reader map;
    const uint8_t *packed = shoal_hparams(shoal, &bytes);
    pack_reader_init(&map, packed, bytes);
    uint32_t pairs = pack_read_map(&map);
    for (uint32_t i = 0; i < pairs && !map.failed; i++) {
        size_t length;
        const char *name = pack_read_text(&map, &length);
        bool known = false;
        for (size_t k = 0; k < sizeof known_names / sizeof known_names[0]; k++) {
            known = known || pack_text_is(name, length, known_names[k]);
        }
        if (!known && !map.failed) {
            (void)printf("hyperparameter '%.*s' is not used by this model\n", (int)length, name);
        }
        pack_skip(&map);
    }
}

int trainer_options_read(struct shoal *shoal, const char *data_dir, struct trainer_options *out,
                         char error[TRAINER_ERROR_BYTES])
{
    *out = (struct trainer_options){0};
    const char *fallback = data_dir != NULL ? data_dir : DATA_DIR_DEFAULT;
    if (data_dir != NULL && !bytes_copy_text(out->data_dir, sizeof out->data_dir, data_dir)) {
        (void)snprintf(error, TRAINER_ERROR_BYTES, "the data directory's name is longer than %zu bytes",
                       sizeof out->data_dir - 1);
        return ERR_USAGE;
    }
    if (data_dir == NULL && shoal_hparam_text(shoal, "data_dir", fallback, out->data_dir, sizeof out->data_dir) != 0) {
        bytes_copy_text(error, TRAINER_ERROR_BYTES, shoal_error(shoal));
        return ERR_USAGE;
    }
    int result = read_hidden(shoal, out, error);
    if (result == 0) {
        result = read_number(shoal, "learning_rate", 0.03, 1e-9, 100, "a number from 1e-9 to 100", &out->learning_rate, error);
    }
    if (result == 0) {
        result = read_number(shoal, "learning_rate_decay", 0, 0, 1, "a number from 0 to 1", &out->learning_rate_decay, error);
    }
    if (result == 0) {
        result = read_number(shoal, "momentum", 0.9, 0, 0.9999, "a number from 0 to 0.9999", &out->momentum, error);
    }
    if (result == 0) {
        result = read_number(shoal, "epochs", 3, 1e-4, 10000, "a number from 0.0001 to 10000", &out->epochs, error);
    }
    if (result == 0) {
        result = read_count(shoal, "batch_size", 128, 1 << 20, &out->batch_size, error);
    }
    if (result == 0) {
        result = read_count(shoal, "checkpoint_every", 100, 1 << 30, &out->checkpoint_every, error);
    }
    if (result == 0) {
        result = read_count(shoal, "report_every", 20, 1 << 30, &out->report_every, error);
    }
    if (result == 0) {
        result = read_nonfinite(shoal, &out->stops_at_nonfinite, error);
    }
    if (result == 0 && shoal_rank(shoal) == 0) {
        name_unused(shoal);
    }
    return result;
}
