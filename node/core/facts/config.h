#ifndef NODE_CORE_FACTS_CONFIG_H
#define NODE_CORE_FACTS_CONFIG_H
/* The configuration of an experiment: what the YAML file says, checked, with defaults filled in. The struct is what the
 * cores and shells read; packed, it is the larger part of the experiment record. */

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "train/search/search.h"

#define CONFIG_TEXT_BYTES_MAX (64u * 1024) /* the YAML file */
#define CONFIG_PACKED_BYTES_MAX 7168       /* fits a record of 8 KiB with what else it holds */
#define CONFIG_NAME_BYTES 128
#define CONFIG_ENTRYPOINT_BYTES 1024
#define CONFIG_METRIC_BYTES 64
#define CONFIG_SLOTS_MAX 64
#define CONFIG_RESTARTS_MAX 1000
#define CONFIG_REPLICAS_MAX 8 /* FACT_HOLDERS_MAX: a manifest names no more holders */
#define CONFIG_SAVE_MAX 1000
#define CONFIG_PREEMPTION_TIMEOUT_S_MAX 86400
#define CONFIG_SCRATCH_BYTES (2 * CONFIG_PACKED_BYTES_MAX) /* enough for config_parse_yaml */
#define CONFIG_ERROR_BYTES 512

enum config_slot_kind { CONFIG_SLOT_ANY, CONFIG_SLOT_CPU, CONFIG_SLOT_CUDA };
enum config_on_partition { CONFIG_PARTITION_CONTINUE, CONFIG_PARTITION_PAUSE_MINORITY };

struct config {
    char name[CONFIG_NAME_BYTES];
    char description[256];
    char entrypoint[CONFIG_ENTRYPOINT_BYTES]; /* run by `/bin/sh -c` in the attempt's copy of the code */
    char metric[CONFIG_METRIC_BYTES];         /* searcher.metric, default "accuracy"; looked up in group validation */
    bool smaller_is_better;
    enum search_kind searcher;
    uint32_t max_trials;
    uint32_t slots_per_trial; /* 1 ... CONFIG_SLOTS_MAX, default 1 */
    uint32_t min_slots;       /* default slots_per_trial */
    uint32_t max_slots;       /* default slots_per_trial */
    uint32_t priority;        /* 1 ... 99, default 42, lower first */
    enum config_slot_kind slot_kind;
    uint32_t max_restarts; /* default 5 */
    uint64_t seed;         /* default 0 */
    uint32_t preemption_timeout_s; /* default 60 */
    uint32_t checkpoint_replicas;  /* checkpoint.replicas, default 2 */
    uint32_t save_experiment_best; /* which checkpoints are kept: checkpoint.save_..., default 0, */
    uint32_t save_trial_best;      /* ... 1, */
    uint32_t save_trial_latest;    /* ... 1 */
    enum config_on_partition on_partition;
    bool balance; /* parts of a step follow the ranks' speeds (train/plan/balance.h), default no */
    /* Borrowed from the bytes that were parsed or unpacked: */
    const uint8_t *environment; /* a MessagePack map text -> text; environment.variables */
    uint32_t environment_bytes;
    const uint8_t *labels; /* a MessagePack array of texts */
    uint32_t labels_bytes;
    const uint8_t *hyperparameters; /* a MessagePack array of parameters (train/search/search.h) */
    uint32_t hyperparameters_bytes;
};

/* True for the names that the daemon sets in a worker's environment (docs/wire.md): through them it finds its socket and
 * token. Other SHOAL_... names are the programs' own (SHOAL_DATA of shoal-train). */
bool config_variable_is_reserved(const char *name, size_t bytes);

struct search_space config_search_space(const struct config *config);

/* One MessagePack map; unpack checks every bound: 0 or ERR_MALFORMED. The save_... fields of a record from before they were
 * there have their defaults. `balance` is in the map only where it is true. */
void config_pack(struct pack_writer *writer, const struct config *config);
int config_unpack(struct pack_reader *reader, struct config *out);

/* Reads YAML (libyaml). `overrides` are "key.path=value" texts of --set, applied before checking, values in YAML.
 * Borrowed parts of `out` point into `scratch`, which the caller keeps. On ERR_MALFORMED `error` holds one sentence: the
 * line, the key and what is allowed, e.g. "exp.yaml:7: searcher.name is 'rando'; allowed are single, grid, random". */
int config_parse_yaml(const char *file_name, const char *text, size_t text_bytes, const char *const *overrides,
                      size_t override_count, uint8_t *scratch, size_t scratch_bytes, struct config *out,
                      char error[CONFIG_ERROR_BYTES]);

#endif
