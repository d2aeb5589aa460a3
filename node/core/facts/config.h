#ifndef NODE_CORE_FACTS_CONFIG_H
#define NODE_CORE_FACTS_CONFIG_H
/* The configuration of an experiment: the options of its YAML file, checked, with defaults filled in. Cores and shells
 * read the struct; packed, it is the larger part of the experiment's record. Bounds and defaults of the options are in one
 * table (options.c); options.h says how to add an option. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "train/search/asha.h"
#include "train/search/pbt.h"
#include "train/search/search.h"

#define CONFIG_TEXT_BYTES_MAX (1u << 20) /* the YAML file */
#define CONFIG_PACKED_BYTES_MAX 7168 /* in a record: its other fields fit beside the configuration in 8 KiB */
#define CONFIG_WHOLE_BYTES_MAX (2u << 20) /* in a blob */
#define CONFIG_NAME_BYTES 128
#define CONFIG_ENTRYPOINT_BYTES 1024 /* of an entrypoint in a record, with its NUL */
#define CONFIG_METRIC_BYTES 64
#define CONFIG_PROGRAM_BYTES 64 /* as FACT_PROGRAM_BYTES */
#define CONFIG_USER_BYTES 64 /* of an account's name, with the NUL */
#define CONFIG_PATH_BYTES 256 /* of environment.requirements and environment.python, with the NUL */
#define CONFIG_SEARCHER_BYTES 512 /* of searcher.entrypoint, with the NUL */
#define CONFIG_DEPENDS_MAX 16
#define CONFIG_DEPENDS_BYTES (CONFIG_DEPENDS_MAX * 17) /* as many ids of 16 digits with a space between, with the NUL */
#define CONFIG_START_BYTES 24 /* of start_after in a record, with the NUL */
#define CONFIG_CONSTRAINTS_BYTES 512 /* of resources.constraints in a record, with the NUL */
#define CONFIG_CONSTRAINT_BYTES 64   /* of one model or label, with the NUL */
#define CONFIG_MEMORY_LESS_PERCENT 7 /* so much less than constraints.memory is enough: a GPU of 16 GB shows 15 GiB */
#define CONFIG_BEGIN_BYTES 64 /* of checkpoint.begin_from, with the NUL */
#define CONFIG_SLOTS_MAX 256
#define CONFIG_RESTARTS_MAX 1000
#define CONFIG_REPLICAS_MAX 8 /* as FACT_HOLDERS_MAX: the holders that a manifest can name */
#define CONFIG_SAVE_MAX 1000
#define CONFIG_PREEMPTION_TIMEOUT_S_MAX 86400
#define CONFIG_STALL_S_MAX 604800
#define CONFIG_COLLECTIVE_TIMEOUT_S_MAX 86400
#define CONFIG_SCRATCH_BYTES CONFIG_WHOLE_BYTES_MAX /* enough for config_parse_yaml */
#define CONFIG_SENTENCE_BYTES 512 /* one problem of a file, with its place and the NUL */
#define CONFIG_PROBLEMS_MAX 20
#define CONFIG_ERROR_BYTES ((CONFIG_PROBLEMS_MAX + 1) * CONFIG_SENTENCE_BYTES) /* room for all of them */

enum config_slot_kind { CONFIG_SLOT_ANY, CONFIG_SLOT_CPU, CONFIG_SLOT_CUDA };
enum config_retry { CONFIG_RETRY_NODE, CONFIG_RETRY_ANY, CONFIG_RETRY_NEVER };
enum config_tensorboard { CONFIG_TENSORBOARD_KEEP, CONFIG_TENSORBOARD_READ };
enum config_stop_signal { CONFIG_SIGTERM, CONFIG_SIGINT, CONFIG_SIGHUP, CONFIG_SIGQUIT, CONFIG_SIGUSR1, CONFIG_SIGUSR2 };
enum config_keep_ranks { CONFIG_KEEP_FIRST, CONFIG_KEEP_ALL };
enum config_links { CONFIG_LINKS_REFUSE, CONFIG_LINKS_KEEP, CONFIG_LINKS_FOLLOW };
enum config_on_partition { CONFIG_PARTITION_CONTINUE, CONFIG_PARTITION_PAUSE_MINORITY };

/* How much of a configuration a packed form holds. An experiment whose configuration fits into a record has the plain form
 * there. All others have the lean form in the record, with all that coordinators and owners decide by, and the whole
 * configuration in a blob, which the worker's node reads before the start. */
enum config_form {
    CONFIG_PLAIN, /* whole, within the bounds of every version: CONFIG_PACKED_BYTES_MAX and config_is_plain */
    CONFIG_LEAN,  /* without entrypoint (but with the name of its program), environment and labels; without
                     hyperparameters, unless these are plain or config_is_drawn */
    CONFIG_WHOLE  /* whole, up to CONFIG_WHOLE_BYTES_MAX */
};

struct config {
    char user[CONFIG_USER_BYTES]; /* the account that submitted it, as its node saw it; "": not known. A claim that opens nothing */
    char name[CONFIG_NAME_BYTES];
    char description[256];
    char entrypoint[CONFIG_ENTRYPOINT_BYTES]; /* for the shell; "": it is in `command`. Read both with config_entrypoint */
    char program[CONFIG_PROGRAM_BYTES];       /* of the lean form: what program_of_config found in the entrypoint, or "" */
    char metric[CONFIG_METRIC_BYTES];         /* searcher.metric; looked up in group validation */
    bool smaller_is_better;
    enum search_kind searcher;
    uint32_t max_trials; /* of searchers that draw trials; 0 for the others */
    uint32_t max_concurrent_trials; /* 0: no limit */
    uint32_t n_startup_trials; /* of tpe, and of the sampler tpe: so many trials are over before results are drawn from */
    uint64_t max_time; /* of searchers that halve: this and the following; config_search_halving has all of it. 0 of tpe: a result
                        * is what a trial has reached at its end */
    uint32_t population_size; /* of pbt: this and the following; max_time is the length of a round, max_trials all trials of all rounds */
    uint32_t num_rounds;
    double truncate_fraction, resample_probability, perturb_factor;
    char time_metric[CONFIG_METRIC_BYTES]; /* what max_time counts; read with config_search_time */
    uint32_t num_rungs;
    uint32_t max_rungs;
    double divisor;
    enum search_mode mode;
    uint8_t bracket_rungs[SEARCH_BRACKETS_MAX];
    uint32_t bracket_count; /* numbers in bracket_rungs */
    char searcher_entrypoint[CONFIG_SEARCHER_BYTES]; /* of the searcher custom: the program that decides */
    uint64_t every;             /* of the searcher custom: the length between two reports; 0: max_time */
    uint32_t searcher_timeout_s; /* of the searcher custom: the longest time for an answer */
    bool promotes; /* searcher.stop_once is false: paused trials are promoted */
    uint32_t slots_per_trial;
    uint32_t min_slots; /* at most slots_per_trial */
    uint32_t max_slots; /* at least slots_per_trial */
    bool even_hosts;    /* a group has the same number of ranks on every node, and never changes */
    uint32_t priority;  /* lower first */
    enum config_slot_kind slot_kind;
    uint32_t max_restarts;
    uint64_t seed;
    uint32_t seed_of_trial;
    uint32_t preemption_timeout_s;
    uint32_t checkpoint_replicas;  /* checkpoint.replicas */
    uint32_t save_experiment_best; /* checkpoint.save_...: the numbers of checkpoints that are kept */
    uint32_t save_trial_best;
    uint32_t save_trial_latest;
    char begin_from[CONFIG_BEGIN_BYTES]; /* checkpoint.begin_from, of a single trial; "": from nothing. Read with config_begin */
    char depends_on[CONFIG_DEPENDS_BYTES]; /* ids of experiments; "": of none. Read with config_dependencies */
    char start_after[CONFIG_START_BYTES];  /* "2026-12-01T17:00:00Z"; "": at once. Read with config_start_after */
    char constraints[CONFIG_CONSTRAINTS_BYTES]; /* lines "model=TEXT", "memory=BYTES", "label=TEXT"; "": none. Read with config_constraint */
    uint32_t max_runtime_s; /* for how long a trial may run, with all its attempts; 0: no limit */
    uint64_t start_in_s; /* of a file only: start_after is so long after its submission, and its time is not known yet; 0: no */
    enum config_on_partition on_partition;
    enum config_retry retry;
    uint32_t exit_barrier_s;  /* 0: none */
    uint32_t stall_timeout_s; /* 0: none */
    enum config_stop_signal stop_signal;
    enum config_keep_ranks keep_ranks; /* whose files are kept: of rank 0, or of all ranks, united */
    uint64_t keep_bytes_max;           /* of the files of one worker */
    uint64_t logs_max_bytes;           /* of the log of one worker */
    uint64_t logs_keep_s;              /* after the experiment's end; 0: for ever */
    enum config_tensorboard tensorboard; /* whether event files of rank 0 are read into the trial's metrics */
    bool mlflow;                       /* programs find the MLflow API of their node, and their run there */
    bool metrics_from_output;          /* lines that begin with "::shoal metric " are metrics */
    enum config_links context_links; /* symbolic links that lead out of the context directory */
    char requirements[CONFIG_PATH_BYTES]; /* environment.requirements: a file of the code; "": none */
    char python[CONFIG_PATH_BYTES];       /* environment.python: a path, or a name that PATH has; "": python3 */
    bool warm; /* trials are forked from a process that has done their imports (node/daemon/workers/warm.h) */
    uint32_t collective_timeout_s;
    bool balance; /* parts of a step follow the ranks' speeds (train/plan/balance.h) */
    /* Borrowed from the bytes that were parsed or unpacked: */
    const char *command; /* an entrypoint that is longer, ends in NUL; NULL: it is in `entrypoint` */
    const uint8_t *environment; /* a MessagePack map text -> text; environment.variables */
    uint32_t environment_bytes;
    const uint8_t *labels; /* a MessagePack array of texts */
    uint32_t labels_bytes;
    const uint8_t *keep; /* a MessagePack array of texts: paths below the work directory, see config_keep_is_good; may be NULL */
    uint32_t keep_bytes;
    const uint8_t *secrets; /* a MessagePack array of texts: names of secrets, read with config_secret; may be NULL */
    uint32_t secrets_bytes;
    const uint8_t *webhooks; /* a MessagePack array of maps, read with config_webhook; may be NULL */
    uint32_t webhooks_bytes;
    const uint8_t *dependencies; /* of a file only: a MessagePack array of texts, the names in depends_on; may be NULL */
    uint32_t dependencies_bytes;
    const uint8_t *hyperparameters; /* a MessagePack array of parameters (train/search/search.h) */
    uint32_t hyperparameters_bytes;
};

/* How often a trial is started again after failures of its program. */
static inline uint32_t config_restarts(const struct config *config)
{
    return config->retry == CONFIG_RETRY_NEVER ? 0 : config->max_restarts;
}

/* True for the environment variables that the daemon sets for a worker (docs/wire.md), such as the path of its socket and
 * its token. Other names that begin with SHOAL_ are free for programs (SHOAL_DATA of shoal-train). A new experiment has none of
 * them; a record may have those that an older version did not set. */
bool config_variable_is_reserved(const char *name, size_t bytes);

/* True for the variables by which a program knows its rank and its group (RANK, MASTER_ADDR, ...): the daemon sets them. */
bool config_variable_is_rank(const char *name, size_t bytes);

#define CONFIG_SECRETS_MAX 32
#define CONFIG_SECRET_BYTES 64 /* of a name, with the NUL; as FACT_NAME_BYTES */

/* True for a name that a secret can have: that of an environment variable which the daemon does not set. */
bool config_secret_is_good(const char *name, size_t bytes);

/* The same for records: a later version may set a variable itself that this one leaves to secrets. */
bool config_secret_name_is_sound(const char *name, size_t bytes);

/* Copies the name of the secret at `index` that the trials ask for. False: they ask for no more. */
bool config_secret(const struct config *config, uint32_t index, char out[CONFIG_SECRET_BYTES]);

#define CONFIG_WEBHOOKS_MAX 4
#define CONFIG_URL_BYTES 384     /* with the NUL */
#define CONFIG_PATTERN_BYTES 257 /* as PATTERN_BYTES_MAX, with the NUL */

/* An address that is told of events. In records, and in the configuration, a map: url, on (an array of words, and of maps {log_match:
 * PATTERN}), and perhaps secret and form. */
struct config_webhook {
    char url[CONFIG_URL_BYTES]; /* http:// or https://, or "secret:NAME": the value of that secret is the address */
    uint32_t on;                /* bit e: enum fact_hook_event e */
    char pattern[CONFIG_PATTERN_BYTES]; /* of LOG_MATCH (base/pattern.h) */
    char secret[CONFIG_SECRET_BYTES];   /* the name of the secret that signs; "": none */
    bool is_slack;                      /* form: slack, a sentence for a channel, which Mattermost takes, too */
};

/* Reads one, and checks it. False: it is malformed. */
bool config_webhook_read(struct pack_reader *reader, struct config_webhook *out);

/* The webhook at `index` of the configuration. False: there are no more. */
bool config_webhook(const struct config *config, uint32_t index, struct config_webhook *out);

/* Whether an address is one that a webhook can have. */
bool config_url_is_good(const char *url);

/* The words of `on`: "completed", "failed" ...; NULL at the end. */
extern const char *const config_webhook_words[];

#define CONFIG_KEEP_MAX 16
#define CONFIG_KEEP_ALL_SLOTS_MAX 64 /* as FACT_OUTPUTS_MAX: so many ranks can be united */
#define CONFIG_KEEP_BYTES 256 /* of one path, with the NUL */

/* True for a path that stays below the directory that it is relative to: of names, without "." and "..", not absolute. */
bool config_keep_is_good(const char *path, size_t bytes);

/* True for a name or path that `env` takes for a program, not for an option or a variable. */
bool config_python_is_good(const char *python);

/* The checkpoint of another experiment's trial with which the only trial of this one begins: "EXPERIMENT/TRIAL@STEP", with all 16
 * digits of the experiment's id. False: none, or a record of another node has a text that is something else; `*out` is then unchanged.
 * With such a text no trial ever begins. */
struct config_begin {
    experiment_id experiment;
    uint32_t trial;
    uint64_t step; /* at least 1 */
};
bool config_begin(const struct config *config, struct config_begin *out);

/* The experiments that have to be completed before this one begins; returns their number. An id of zeros stands for a text that is
 * none, which a record of another node may have: no such experiment is ever completed. */
uint32_t config_dependencies(const struct config *config, experiment_id out[CONFIG_DEPENDS_MAX]);

#define CONFIG_NEVER UINT64_MAX

/* When the experiment may begin, in seconds since 1970; 0: at once; CONFIG_NEVER: a record of another node has no time there. */
uint64_t config_start_after(const struct config *config);

/* The same number as such a text; false: it is beyond the year 9999. */
bool config_start_write(char out[CONFIG_START_BYTES], uint64_t at_s);

/* Reads "2026-12-01 18:00", also with seconds, with a T between day and time, or the day alone, which is its midnight: the seconds
 * from 1970 to that time of day, as if it were UTC. `*is_utc`: a Z follows it. False: the text is something else. */
bool config_start_read(const char *text, uint64_t *out, bool *is_utc);

/* One line of resources.constraints: a model, a label or the memory of a device. */
struct config_constraint {
    bool is_model, is_label;
    char text[CONFIG_CONSTRAINT_BYTES]; /* of these two */
    uint64_t memory;                    /* bytes; 0: of these two */
};

/* The constraint at `index`. False: there are no more. */
bool config_constraint(const struct config *config, uint32_t index, struct config_constraint *out);

/* Writes "model RTX 4090, memory 24G, label room=12". */
void config_constraints_write(const struct config *config, char *out, size_t size);

/* The slots of the node that all constraints allow: bit i is slot i. Slots of one of the named models, with enough memory, of a node
 * with all labels. 0 if the text has a line that this version does not know. */
struct fact_node;
uint64_t config_constraints_slots(const struct config *config, const struct fact_node *node);

/* True if a node needs FACT_READS_WAITS for the experiment: a node without it would begin it at once, or anywhere. */
bool config_needs_waits(const struct config *config);

/* The search space of the configuration; its bytes are borrowed from `config`. */
struct search_space config_search_space(const struct config *config);

/* The halving of a configuration whose searcher judges (search_judges). tpe and pbt have one rung; with max_time 0 no report reaches that
 * of tpe. The lengths of the rungs of a trial are those of config_rung_target. */
struct search_halving config_search_halving(const struct config *config);

/* The length of a rung, below `rungs`, of the trial: search_rung_target; of pbt the end of the round that the trial is of. */
uint64_t config_rung_target(const struct config *config, uint32_t trial, uint32_t rungs, uint32_t rung);

/* True if the values of a trial follow from what others have reached, and so are in records of its attempts (struct fact_draw).
 * Such a search space has at most CONFIG_DRAWN_PARAMETERS_MAX parameters. */
#define CONFIG_DRAWN_PARAMETERS_MAX 128
bool config_is_drawn(const struct config *config);

/* The number of reports of a trial of the searcher custom; above SEARCH_RUNGS_MAX: `every` is too short for max_time. */
uint64_t config_report_count(const struct config *config);

/* True if a node needs FACT_READS_SEARCH for the experiment: a node without it takes the record for a malformed one. */
bool config_needs_search(const struct config *config);

/* True if a node needs FACT_READS_PROMOTION for the experiment: a node without it takes the record for a malformed one. */
bool config_needs_promotion(const struct config *config);

/* True if a node needs FACT_READS_SECRETS for the experiment: a node without it passes over secrets, webhooks and event files. */
bool config_needs_secrets(const struct config *config);

/* True if a program of the user's decides, so that a node needs FACT_READS_CUSTOM. */
bool config_is_custom(const struct config *config);

/* What max_time counts: the step of a report, the seconds that a trial has trained, or the metric time_metric of the report. */
enum config_time { CONFIG_TIME_STEPS, CONFIG_TIME_SECONDS, CONFIG_TIME_METRIC };
enum config_time config_search_time(const struct config *config);

/* The command that the shell runs in the attempt's copy of the code; "" in the lean form. */
const char *config_entrypoint(const struct config *config);

/* True if every version of Shoal can read the whole configuration from a record. */
bool config_is_plain(const struct config *config);

/* Makes `lean` the lean form of a configuration; it borrows from the same bytes. */
void config_make_lean(const struct config *config, struct config *lean);

/* Appends the configuration as one MessagePack map, the options in the order of their places (options.h). The writer
 * fails if its buffer is too small. */
void config_pack(struct pack_writer *writer, const struct config *config);

/* Takes one packed configuration of a form and checks every bound, since it may come from any peer. Unknown keys are
 * ignored: a later version has written them. An option that a record from before it lacks has its default. The borrowed
 * parts of `out` point into the reader's bytes. 0, or ERR_MALFORMED: the reader has failed and `out` is unchanged. */
int config_unpack_form(struct pack_reader *reader, enum config_form form, struct config *out);
int config_unpack(struct pack_reader *reader, struct config *out); /* CONFIG_PLAIN */

/* A blob with a whole configuration: the array of the packed configuration and the text of its file. config_blob_read gives the
 * configuration, and borrows from `bytes`; 0 or ERR_MALFORMED. */
#define CONFIG_BLOB_BYTES_MAX (CONFIG_WHOLE_BYTES_MAX + CONFIG_TEXT_BYTES_MAX + 64)
void config_blob_pack(struct pack_writer *writer, const struct config *config, const char *text, size_t text_bytes);
int config_blob_read(const uint8_t *bytes, size_t count, struct config *out);

/* Reads YAML (libyaml). `overrides` are "key.path=value" texts of --set, applied before checking, values in YAML. The
 * borrowed parts of `out` point into `scratch`, which the caller keeps. 0, ERR_MALFORMED or ERR_MEMORY; after
 * an error `out` is unchanged and `error` holds a line for each problem, at most CONFIG_PROBLEMS_MAX: the place, the key and the
 * allowed values, e.g. "exp.yaml:7: searcher.name is 'rando'; allowed are single, grid, random". A file that is no YAML has one
 * problem. */
int config_parse_yaml(const char *file_name, const char *text, size_t text_bytes, const char *const *overrides,
                      size_t override_count, uint8_t *scratch, size_t scratch_bytes, struct config *out,
                      char error[CONFIG_ERROR_BYTES]);

#endif
