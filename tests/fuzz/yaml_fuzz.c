/* Configuration files: the text, and behind each NUL an override of --set. What is accepted packs, and unpacks to the same. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/core/facts/config.h"
#include "tests/fuzz/fuzz.h"

#define OVERRIDES_MAX 4

static void check_form(const struct config *config, enum config_form form, size_t room)
{
    static uint8_t first[CONFIG_WHOLE_BYTES_MAX], second[CONFIG_WHOLE_BYTES_MAX];
    struct pack_writer writer, other;
    pack_writer_init(&writer, first, room);
    config_pack(&writer, config);
    CHECK(!writer.failed);
    struct pack_reader reader;
    struct config again;
    pack_reader_init(&reader, first, writer.used_bytes);
    CHECK(config_unpack_form(&reader, form, &again) == 0);
    pack_writer_init(&other, second, sizeof second);
    config_pack(&other, &again);
    CHECK(other.used_bytes == writer.used_bytes && memcmp(first, second, writer.used_bytes) == 0);
}

static void check_config(const struct config *config)
{
    struct config lean;
    config_make_lean(config, &lean);
    check_form(&lean, CONFIG_LEAN, CONFIG_PACKED_BYTES_MAX);
    check_form(config, CONFIG_WHOLE, CONFIG_WHOLE_BYTES_MAX);
    if (config_is_plain(config)) {
        check_form(config, CONFIG_PLAIN, CONFIG_PACKED_BYTES_MAX);
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static uint8_t scratch[CONFIG_SCRATCH_BYTES];
    char error[CONFIG_ERROR_BYTES] = "";
    struct config config;
    const uint8_t *end = memchr(data, 0, size);
    size_t text_bytes = end != NULL ? (size_t)(end - data) : size;
    char *text = malloc(text_bytes + 1), *rest = malloc(size - text_bytes + 1);
    CHECK(text != NULL && rest != NULL);
    memcpy(text, data, text_bytes);
    memcpy(rest, data + text_bytes, size - text_bytes);
    rest[size - text_bytes] = '\0';
    const char *overrides[OVERRIDES_MAX];
    size_t count = 0;
    for (size_t at = 1; at < size - text_bytes && count < OVERRIDES_MAX; at += strlen(rest + at) + 1) {
        overrides[count++] = rest + at;
    }
    int result = config_parse_yaml("exp.yaml", text, text_bytes, overrides, count, scratch, sizeof scratch, &config, error);
    CHECK((result == 0) == (error[0] == '\0'));
    if (result == 0) {
        check_config(&config);
    }
    free(text);
    free(rest);
}

static void seed(const char *text, const char *override)
{
    uint8_t input[4096];
    size_t bytes = strlen(text), more = override != NULL ? strlen(override) + 1 : 0;
    CHECK(bytes + more < sizeof input);
    memcpy(input, text, bytes);
    if (override != NULL) {
        input[bytes] = 0;
        memcpy(input + bytes + 1, override, more - 1);
    }
    fuzz_seed(input, bytes + more);
}

void fuzz_seeds(void)
{
    static const char whole[] =
        "name: mnist # a comment\ndescription: \"two\\nlines\"\nlabels: [fast, 'a b']\nentrypoint: shoal-train mlp\n"
        "environment:\n  environment_variables:\n    - A=1=2\n  variables: {B: x y, C: 3, D: }\n"
        "hyperparameters:\n  hidden: 128\n  optimizer:\n    learning_rate: {type: log, minval: -4, maxval: -1, base: 10}\n"
        "    momentum: {type: double, minval: 0.1, maxval: 0.9, count: 3}\n"
        "  layers: {type: int, minval: 1, maxval: 4}\n  activation: {type: categorical, vals: [relu, tanh]}\n"
        "  width: {type: int, minval: 16, maxval: 64, log: true}\n  slope: {type: double, minval: 0, maxval: 1, step: 0.5, when: "
        "{activation: relu, layers: [1, 2]}}\n"
        "searcher: {name: random, metric: accuracy, smaller_is_better: false, max_trials: 4, sampler: sobol, "
        "initial: [{layers: 2, optimizer.momentum: 0.5}]}\n"
        "resources:\n  slots_per_trial: 2\n  min_slots: 1\n  max_slots: 4\n  priority: 30\n  slot_kind: cpu\n"
        "checkpoint:\n  replicas: 3\nmax_restarts: 2\nseed: 17\npreemption_timeout: 30\non_partition: pause_minority\nbalance: on\n";
    seed(whole, NULL);
    seed("name: a\nentrypoint: b\n", "searcher.max_trials=3");
    seed("entrypoint: [t, --a={{hp.a}}, \"x {{hp.m.k}}\"]\nhyperparameters: {a: 'b c', m: {k: 1}}\n", NULL);
    seed("entrypoint: \"t ${{ hp.a }} `x` # it's\\n\"\nhyperparameters: {a-b: 1, a: {type: const, val: {A-: 1, a_: 2}}}\n", NULL);
    seed("name: &x a\nentrypoint: *x\n", NULL);
    seed("name: a\nentrypoint: |\n  line\n  line\nsearcher:\n  name: grid\nhyperparameters:\n  x: {type: int, minval: 1, maxval: 3, "
         "count: 3}\n",
         "hyperparameters.x.count=2");
    seed("x-a: &a {b: &c [1], d: {type: log}}\nentrypoint: x\nhyperparameters: {<<: [*a, {e: *c}], f: *a, g: {}, h: }\n",
         "hyperparameters.a={<<: {a: 1}, b: &x 2, c: *x}");
    seed("{\"name\": \"json\", \"entrypoint\": \"true\", \"hyperparameters\": {\"a\": [1, 2.5, null, true]}}", "seed=0x10");
}
