/* Packed configurations, as experiment records of any peer hold them, and the trials that follow from them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "node/config/hparams.h"
#include "node/core/facts/config.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/facts_make.h"

static void visit_variable(void *context, const char *variable, struct pack_reader value)
{
    (void)context;
    CHECK(strlen(variable) < HPARAMS_VARIABLE_BYTES);
    char *text = hparams_text(value);
    CHECK(text != NULL);
    free(text);
}

static void check_trial(const struct config *config, uint32_t index)
{
    static uint8_t values[SEARCH_VALUES_BYTES_MAX];
    static char text[8 * SEARCH_VALUES_BYTES_MAX];
    struct search_space space = config_search_space(config);
    struct pack_writer writer;
    pack_writer_init(&writer, values, sizeof values);
    CHECK(search_trial_values(&space, config->seed, index, &writer) == 0 && !writer.failed);
    struct pack_reader reader;
    pack_reader_init(&reader, values, writer.used_bytes);
    struct pack_reader again = reader;
    CHECK(json_from_pack(&reader, text, sizeof text) == 0);
    int named = hparams_variables(again, visit_variable, NULL);
    CHECK(named == 0 || named == ERR_FULL);
    char *entrypoint = hparams_fill(config_entrypoint(config), again);
    CHECK(entrypoint != NULL && strlen(entrypoint) > 0);
    free(entrypoint);
}

static void count_report(void *context, const char *sentence)
{
    CHECK(sentence[0] != '\0');
    (*(uint32_t *)context)++;
}

static void check_form(const uint8_t *data, size_t size, enum config_form form)
{
    static uint8_t first[CONFIG_WHOLE_BYTES_MAX], second[CONFIG_WHOLE_BYTES_MAX];
    struct pack_reader reader;
    struct config config, again;
    pack_reader_init(&reader, data, size);
    if (config_unpack_form(&reader, form, &config) != 0) {
        CHECK(reader.failed);
        return;
    }
    CHECK((config_entrypoint(&config)[0] == '\0') == (form == CONFIG_LEAN));
    struct search_space space = config_search_space(&config);
    uint32_t trials;
    if (form != CONFIG_LEAN) {
        CHECK(search_trial_count(&space, &trials) == 0 && trials >= 1 && trials <= SEARCH_TRIALS_MAX);
        char error[HPARAMS_ERROR_BYTES];
        CHECK((hparams_check_variables(&space, error) == 0) == (error[0] == '\0'));
        uint32_t count = 0;
        int result = hparams_check_entrypoint(config_entrypoint(&config), &space, count_report, &count);
        CHECK((result == 0) == (count == 0));
        hparams_near_misses(config_entrypoint(&config), &space, count_report, &count);
        check_trial(&config, 0);
        check_trial(&config, trials - 1);
        (void)config_is_plain(&config);
    }
    struct pack_writer writer, other;
    pack_writer_init(&writer, first, sizeof first);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    pack_reader_init(&reader, first, writer.used_bytes);
    CHECK(config_unpack_form(&reader, form, &again) == 0);
    pack_writer_init(&other, second, sizeof second);
    config_pack(&other, &again);
    CHECK(other.used_bytes == writer.used_bytes && memcmp(first, second, writer.used_bytes) == 0);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct config config;
    check_form(data, size, CONFIG_PLAIN);
    check_form(data, size, CONFIG_LEAN);
    check_form(data, size, CONFIG_WHOLE);
    (void)config_blob_read(data, size, &config);
}

/* The parameters of each kind, and what may be said about them. */
static uint32_t space_make(enum search_kind kind, uint8_t *out, size_t size)
{
    static const uint8_t one[] = {0x01}, three[] = {0x93, 0x01, 0xa1, 'x', 0xc3}, when[] = {0x92, 0x92, 0x01, 0x92, 0x00, 0x02, 0x92, 0x02, 0x91, 0x03},
                         initial[] = {0x91, 0x92, 0x92, 0x01, 0x02, 0x92, 0x05, 0x10};
    static const struct search_parameter parameters[] = {
        {.name = "hidden", .kind = SEARCH_CONST, .values = one, .values_bytes = sizeof one},
        {.name = "a.choice", .kind = SEARCH_CATEGORICAL, .values = three, .values_bytes = sizeof three},
        {.name = "a.layers", .kind = SEARCH_INT, .minval = 1, .maxval = 4, .count = 2},
        {.name = "b", .kind = SEARCH_DOUBLE, .minval = 0.5, .maxval = 1.5, .count = 3},
        {.name = "c", .kind = SEARCH_LOG, .minval = -4, .maxval = -1, .base = 10, .count = 2},
        {.name = "d", .kind = SEARCH_INT, .minval = 16, .maxval = 64, .is_log = true, .count = 3},
        {.name = "e", .kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1, .step = 0.5, .when = when, .when_bytes = sizeof when}};
    static const struct search_head head = {
        .sampler = SEARCH_SAMPLER_SOBOL, .initial = initial, .initial_bytes = sizeof initial};
    static const uint32_t plain_count = 5;
    struct pack_writer writer;
    pack_writer_init(&writer, out, size);
    uint32_t count = kind == SEARCH_SINGLE ? plain_count : sizeof parameters / sizeof parameters[0];
    if (kind == SEARCH_RANDOM) {
        search_head_pack(&writer, &head, count);
    } else {
        pack_array(&writer, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        search_parameter_pack(&writer, &parameters[i]);
    }
    CHECK(!writer.failed);
    return (uint32_t)writer.used_bytes;
}

void fuzz_seeds(void)
{
    static uint8_t packed[CONFIG_PACKED_BYTES_MAX], space[1024];
    static const uint8_t environment[] = {0x81, 0xa1, 'A', 0xa1, '1'}, labels[] = {0x91, 0xa4, 'f', 'a', 's', 't'};
    for (int kind = SEARCH_SINGLE; kind <= SEARCH_ADAPTIVE_ASHA; kind++) {
        struct config config;
        make_config(&config, 5, 2);
        config.searcher = (enum search_kind)kind;
        config.hyperparameters = space;
        config.hyperparameters_bytes = space_make((enum search_kind)kind, space, sizeof space);
        config.environment = environment;
        config.environment_bytes = sizeof environment;
        config.labels = labels;
        config.labels_bytes = sizeof labels;
        config.balance = kind == SEARCH_GRID;
        config.num_rungs = 3;
        config.max_time = 900;
        config.divisor = kind == SEARCH_ADAPTIVE_ASHA ? 2.5 : config.divisor;
        config.bracket_count = kind == SEARCH_ADAPTIVE_ASHA ? 2 : 0;
        memset(config.bracket_rungs, 3, sizeof config.bracket_rungs);
        (void)bytes_copy_text(config.entrypoint, sizeof config.entrypoint,
                              "t {{hp.hidden}} ${{ hp.a.layers }} \"{{hp.b}}\" '{{hp.a.choice}}' # {{hp.c");
        if (kind == SEARCH_SINGLE) {
            make_config(&config, 1, 0); /* one random parameter alone */
        }
        fuzz_seed(packed, make_packed_config(&config, packed));
        struct config lean;
        config_make_lean(&config, &lean);
        fuzz_seed(packed, make_packed_config(&lean, packed));
        static char command[CONFIG_ENTRYPOINT_BYTES + 8];
        memset(command, 'x', sizeof command - 1);
        config.command = command;
        config.entrypoint[0] = '\0';
        struct pack_writer writer;
        pack_writer_init(&writer, packed, sizeof packed);
        config_blob_pack(&writer, &config, "text", 4);
        CHECK(!writer.failed);
        fuzz_seed(packed, writer.used_bytes);
    }
}
