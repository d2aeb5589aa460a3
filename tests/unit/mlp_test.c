/* The MLP against a plain reference in double precision, and its gradient against finite differences of that. */
#include "train/trainer/models/mlp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"

#define INPUTS 7
#define CLASSES 4
#define BATCH 9
#define UNITS_MAX 8

static const struct mlp_options tiny = {
    .inputs = INPUTS, .classes = CLASSES, .hidden = {6, 5}, .hidden_count = 2, .batch_count_max = BATCH};

static struct model *model_new(const struct mlp_options *options)
{
    struct model *model;
    assert_int_equal(mlp_new(&model, options), 0);
    return model;
}

static void fill_batch(float inputs[BATCH * INPUTS], uint8_t labels[BATCH])
{
    struct random random;
    random_init(&random, 42);
    for (size_t i = 0; i < BATCH * INPUTS; i++) {
        inputs[i] = (float)(random_double(&random) * 4 - 2);
    }
    for (size_t i = 0; i < BATCH; i++) {
        labels[i] = (uint8_t)random_below(&random, CLASSES);
    }
}

/* The summed loss of the batch, computed as it is written in a textbook. */
static double reference_loss(const double *parameters, const float *inputs, const uint8_t *labels)
{
    static const unsigned widths[] = {INPUTS, 6, 5, CLASSES};
    double total = 0;
    for (size_t sample = 0; sample < BATCH; sample++) {
        double now[UNITS_MAX], next[UNITS_MAX];
        const double *p = parameters;
        for (size_t k = 0; k < INPUTS; k++) {
            now[k] = (double)inputs[sample * INPUTS + k];
        }
        for (size_t layer = 0; layer < 3; layer++) {
            unsigned in = widths[layer], out = widths[layer + 1];
            for (unsigned j = 0; j < out; j++) {
                next[j] = p[in * out + j];
                for (unsigned k = 0; k < in; k++) {
                    next[j] += now[k] * p[k * out + j];
                }
                if (layer < 2 && next[j] < 0) {
                    next[j] = 0;
                }
            }
            memcpy(now, next, sizeof now);
            p += in * out + out;
        }
        double sum = 0;
        for (unsigned c = 0; c < CLASSES; c++) {
            sum += exp(now[c]);
        }
        total += log(sum) - now[labels[sample]];
    }
    return total;
}

static void test_the_gradient_is_the_slope_of_the_loss(void **state)
{
    (void)state;
    struct model *model = model_new(&tiny);
    assert_int_equal(model->parameter_count, 7 * 6 + 6 + 6 * 5 + 5 + 5 * 4 + 4);
    assert_string_equal(model->shape, "7-6-5-4");
    float inputs[BATCH * INPUTS], parameters[128], gradients[128];
    double wide[128];
    uint8_t labels[BATCH];
    fill_batch(inputs, labels);
    model->init(model, 3, parameters);
    for (size_t i = 0; i < model->parameter_count; i++) {
        parameters[i] += 0.01f * (float)(i % 7); /* biases too */
        wide[i] = (double)parameters[i];
    }
    memset(gradients, 0x7f, sizeof gradients); /* it writes, it does not add */
    struct model_batch batch = {inputs, labels, BATCH};
    double loss = model->gradient(model, parameters, &batch, gradients, NULL, NULL);
    assert_true(fabs(loss - reference_loss(wide, inputs, labels)) < 1e-4); /* fp32 sums of about 10 */
    const double step = 1e-6;
    for (size_t i = 0; i < model->parameter_count; i++) {
        double kept = wide[i];
        wide[i] = kept + step;
        double above = reference_loss(wide, inputs, labels);
        wide[i] = kept - step;
        double below = reference_loss(wide, inputs, labels);
        wide[i] = kept;
        double slope = (above - below) / (2 * step);
        /* fp32 against double over sums of up to 9 * 7 products of about 1. */
        assert_true(fabs(slope - (double)gradients[i]) < 1e-4 * (1 + fabs(slope)));
    }
    model->destroy(model);
}

static void test_parts_of_a_batch_add_up(void **state)
{
    (void)state;
    struct model *model = model_new(&tiny);
    float inputs[BATCH * INPUTS], parameters[128], whole[128], part[128], sum[128] = {0};
    uint8_t labels[BATCH];
    fill_batch(inputs, labels);
    model->init(model, 3, parameters);
    struct model_batch batch = {inputs, labels, BATCH};
    double loss = model->gradient(model, parameters, &batch, whole, NULL, NULL), parts = 0;
    static const uint32_t cuts[] = {0, 4, 4, 9}; /* one part is empty */
    for (size_t k = 0; k < 3; k++) {
        batch = (struct model_batch){inputs + cuts[k] * INPUTS, labels + cuts[k], cuts[k + 1] - cuts[k]};
        parts += model->gradient(model, parameters, &batch, part, NULL, NULL);
        for (size_t i = 0; i < model->parameter_count; i++) {
            sum[i] += part[i];
        }
    }
    assert_true(fabs(loss - parts) < 1e-4);
    for (size_t i = 0; i < model->parameter_count; i++) {
        assert_true(fabsf(sum[i] - whole[i]) < 1e-4f);
    }
    model->destroy(model);
}

static void test_evaluation_agrees_with_training(void **state)
{
    (void)state;
    struct mlp_options wide = tiny;
    wide.hidden[0] = 32;
    wide.hidden_count = 1;
    struct model *model = model_new(&wide);
    float inputs[BATCH * INPUTS], parameters[512], gradients[512];
    assert_true(model->parameter_count <= 512);
    uint8_t labels[BATCH];
    fill_batch(inputs, labels);
    model->init(model, 8, parameters);
    struct model_batch batch = {inputs, labels, BATCH};
    double first = model->gradient(model, parameters, &batch, gradients, NULL, NULL), last = first;
    for (int step = 0; step < 500; step++) {
        last = model->gradient(model, parameters, &batch, gradients, NULL, NULL);
        for (size_t i = 0; i < model->parameter_count; i++) {
            parameters[i] -= 0.02f * gradients[i];
        }
    }
    assert_true(last < first / 20); /* nine samples can be learnt by heart */
    double loss = 1;
    uint64_t correct = 5;
    model->evaluate(model, parameters, &batch, &loss, &correct);
    assert_int_equal(correct, 5 + BATCH); /* it adds */
    assert_true(fabs(loss - 1 - model->gradient(model, parameters, &batch, gradients, NULL, NULL)) < 1e-6);
    model->destroy(model);
}

static void test_the_start_follows_from_the_seed(void **state)
{
    (void)state;
    struct model *model = model_new(&tiny);
    float a[128], b[128], c[128];
    model->init(model, 3, a);
    model->init(model, 3, b);
    model->init(model, 4, c);
    assert_memory_equal(a, b, model->parameter_count * sizeof(float));
    assert_memory_not_equal(a, c, model->parameter_count * sizeof(float));
    double bound = sqrt(6.0 / INPUTS);
    for (size_t i = 0; i < 7 * 6; i++) {
        assert_true(fabs((double)a[i]) <= bound);
    }
    for (size_t i = 7 * 6; i < 7 * 6 + 6; i++) {
        assert_true(a[i] == 0.0f);
    }
    model->destroy(model);
}

static void test_shapes_out_of_range_are_refused(void **state)
{
    (void)state;
    struct model *model;
    struct mlp_options o = tiny;
    o.hidden[1] = 0;
    assert_int_equal(mlp_new(&model, &o), ERR_USAGE);
    o = tiny;
    o.hidden[0] = MLP_WIDTH_MAX + 1;
    assert_int_equal(mlp_new(&model, &o), ERR_USAGE);
    o = tiny;
    o.hidden_count = MLP_HIDDEN_MAX + 1;
    assert_int_equal(mlp_new(&model, &o), ERR_USAGE);
    o = tiny;
    o.classes = 1;
    assert_int_equal(mlp_new(&model, &o), ERR_USAGE);
    o = tiny;
    o.hidden_count = 0;
    assert_int_equal(mlp_new(&model, &o), 0);
    assert_string_equal(model->shape, "7-4");
    model->destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(test_parts_of_a_batch_add_up),
        cmocka_unit_test(test_evaluation_agrees_with_training),
        cmocka_unit_test(test_the_start_follows_from_the_seed),
        cmocka_unit_test(test_shapes_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
