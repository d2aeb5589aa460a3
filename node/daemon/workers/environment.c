#include "node/daemon/workers/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define HPARAMS_TEXT_BYTES (16u * 1024)

static void environment_set(struct daemon_environment *environment, const char *name, const char *value)
{
    size_t name_bytes = strlen(name);
    char *text = malloc(name_bytes + strlen(value) + 2);
    if (text == NULL) {
        return;
    }
    (void)sprintf(text, "%s=%s", name, value);
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->items[i], text, name_bytes + 1) == 0) {
            free(environment->items[i]);
            environment->items[i] = text;
            return;
        }
    }
    if (environment->count < environment->capacity) {
        environment->items[environment->count++] = text;
    } else {
        free(text);
    }
}

static void environment_set_number(struct daemon_environment *environment, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    environment_set(environment, name, text);
}

static void environment_from_config(struct daemon_environment *environment, const struct config *config)
{
    struct pack_reader reader;
    pack_reader_init(&reader, config->environment, config->environment_bytes);
    uint32_t pairs = config->environment_bytes > 0 ? pack_read_map(&reader) : 0;
    for (uint32_t i = 0; i < pairs; i++) {
        char name[256], value[2048];
        pack_read_text_copy(&reader, name, sizeof name);
        pack_read_text_copy(&reader, value, sizeof value);
        if (!reader.failed) {
            environment_set(environment, name, value);
        }
    }
}

void daemon_environment_build(struct daemon *daemon, const struct node_effect *effect, const struct config *config,
                              struct daemon_environment *environment)
{
    static const char *const inherited[] = {"HOME", "USER",   "LOGNAME", "LANG", "LC_ALL",
                                            "TZ",   "TMPDIR", "SHELL",   "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof inherited / sizeof inherited[0]; i++) {
        const char *value = getenv(inherited[i]);
        if (value != NULL) {
            environment_set(environment, inherited[i], value);
        }
    }
    char text[HPARAMS_TEXT_BYTES];
    const char *path = getenv("PATH");
    (void)snprintf(text, sizeof text, "%s:%s", daemon->program_dir, path != NULL ? path : "/usr/local/bin:/usr/bin:/bin");
    environment_set(environment, "PATH", text);
    environment_set(environment, "OMP_NUM_THREADS", "1");
    environment_set(environment, "PYTHONUNBUFFERED", "1");
    /* Debian 13's PyTorch is built without libuv, but wants it by default and fails. A PyTorch with libuv works
     * without, too. */
    environment_set(environment, "USE_LIBUV", "0");
    environment_from_config(environment, config);
    (void)snprintf(text, sizeof text, "%s/shoald.sock", daemon->dir);
    environment_set(environment, "SHOAL_SOCKET", text);
    bytes_to_hex(text, effect->u.worker.token.bytes, TOKEN_BYTES);
    environment_set(environment, "SHOAL_TOKEN", text);
    ports_write(daemon->options.ports, text);
    environment_set(environment, "SHOAL_PORTS", text);
    bytes_to_hex(text, effect->u.worker.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    environment_set(environment, "SHOAL_EXPERIMENT", text);
    environment_set_number(environment, "SHOAL_TRIAL", effect->u.worker.attempt.trial);
    environment_set_number(environment, "SHOAL_ATTEMPT", effect->u.worker.attempt.number);
    environment_set_number(environment, "SHOAL_RANK", effect->u.worker.rank);
    environment_set_number(environment, "SHOAL_SIZE", effect->u.worker.size);
    environment_set_number(environment, "SHOAL_SEED", effect->u.worker.seed);
    uint8_t values[SEARCH_VALUES_BYTES_MAX];
    struct pack_writer writer;
    struct search_space space = config_search_space(config);
    pack_writer_init(&writer, values, sizeof values);
    struct pack_reader reader;
    if (search_trial_values(&space, config->seed, effect->u.worker.attempt.trial, &writer) == 0) {
        pack_reader_init(&reader, values, writer.used_bytes);
        if (json_from_pack(&reader, text, sizeof text) == 0) {
            environment_set(environment, "SHOAL_HPARAMS", text);
        }
    }
    environment_set_number(environment, "RANK", effect->u.worker.rank);
    environment_set_number(environment, "WORLD_SIZE", effect->u.worker.size);
    environment_set_number(environment, "LOCAL_RANK", effect->u.worker.local_rank);
    environment_set_number(environment, "LOCAL_WORLD_SIZE", effect->u.worker.local_size);
    environment_set_number(environment, "GROUP_RANK", effect->u.worker.node_rank);
    environment_set(environment, "MASTER_ADDR", effect->u.worker.master_host);
    environment_set_number(environment, "MASTER_PORT", effect->u.worker.master_port);
    environment_set(environment, "CUDA_VISIBLE_DEVICES", daemon->slots[effect->u.worker.slot].visible);
}
