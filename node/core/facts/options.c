#include "node/core/facts/options.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

static const char *const searcher_words[] = {"single", "grid", "random", "asha", "adaptive_asha", "tpe", "pbt", "custom", NULL};
static const char *const mode_words[] = {"standard", "aggressive", "conservative", NULL};
static const char *const slot_words[] = {"any", "cpu", "cuda", NULL};
static const char *const retry_words[] = {"node", "any", "never", NULL};
static const char *const tensorboard_words[] = {"keep", "read", NULL};
static const char *const signal_words[] = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", NULL};
static const char *const keep_words[] = {"first", "all", NULL};
static const char *const links_words[] = {"refuse", "keep", "follow", NULL};
static const char *const partition_words[] = {"continue", "pause_minority", NULL};

_Static_assert(sizeof(enum search_kind) == sizeof(uint32_t) && sizeof(enum config_slot_kind) == sizeof(uint32_t) &&
                   sizeof(enum config_on_partition) == sizeof(uint32_t) && sizeof(enum config_retry) == sizeof(uint32_t) &&
                   sizeof(enum config_stop_signal) == sizeof(uint32_t) && sizeof(enum config_keep_ranks) == sizeof(uint32_t) &&
                   sizeof(enum config_links) == sizeof(uint32_t) && sizeof(enum search_mode) == sizeof(uint32_t),
               "words are stored as 32 bits");

/* First part of a row: the key in the file, the field, its bounds or words, and its default. */
#define FIELD(name) .offset = offsetof(struct config, name), .size = sizeof((struct config *)0)->name
#define TEXT(key_, field) .key = key_, .kind = OPTION_TEXT, FIELD(field)
#define NAME(key_, field) .key = key_, .kind = OPTION_NAME, FIELD(field)
#define LINES(key_, field) .key = key_, .kind = OPTION_LINES, FIELD(field)
#define NUMBER(key_, field, min_, max_, standard_) \
    .key = key_, .kind = OPTION_NUMBER, FIELD(field), .min = min_, .max = max_, .standard = standard_
#define SECONDS(key_, field, min_, max_, standard_) NUMBER(key_, field, min_, max_, standard_), .unit = OPTION_SECONDS
#define BYTES(key_, field, min_, max_, standard_) NUMBER(key_, field, min_, max_, standard_), .unit = OPTION_BYTES
#define REAL(key_, field, above_, max_, standard_) \
    .key = key_, .kind = OPTION_REAL, FIELD(field), .min = above_, .max = max_, .standard = standard_
#define HUNDREDTHS(key_, field, min_, max_, standard_) REAL(key_, field, min_, max_, standard_), .parts = 100
#define TRUTH(key_, field, standard_) .key = key_, .kind = OPTION_TRUTH, FIELD(field), .standard = standard_
#define WORD(key_, field, words_, standard_) \
    .key = key_, .kind = OPTION_WORD, FIELD(field), .words = words_, .standard = standard_
#define OTHER(key_, type_) .key = key_, .kind = OPTION_OTHER, .type = type_

/* Second part of a row: the place and the key in the record. */
#define ALWAYS(place_, key_) .packing = PACKED_ALWAYS, .place = place_, .packed_key = key_
#define LATER(place_, key_) .packing = PACKED_LATER, .place = place_, .packed_key = key_
#define SPARSE(place_, key_) .packing = PACKED_SPARSE, .place = place_, .packed_key = key_

const struct config_option config_options[] = {
    {NAME("name", name), ALWAYS(0, "name"),
     .standard_words = "the file's name without its ending",
     .help = "What the experiment is called in lists."},
    {TEXT("user", user), SPARSE(56, "user"),
     .is_of_submitter = true,
     .help = "The account that submitted the experiment."},
    {LINES("description", description), ALWAYS(1, "description"),
     .standard_words = "none",
     .help = "What it is for."},
    {OTHER("labels", "list"),
     .allowed = "a list of at most 64 texts of 1 ... 63 bytes",
     .standard_words = "none",
     .help = "Words attached to the experiment."},
    {TEXT("entrypoint", entrypoint), ALWAYS(2, "entrypoint"),
     .type = "text or list",
     .allowed = "a command of one or more lines, or a list of words",
     .standard_words = "required",
     .help = "The command that runs a trial, in a copy of the context directory, by `bash -o pipefail -c` (`sh -c` on a node "
             "without bash). Its status is the last command's; of a pipe, the status of the last part that failed. Several lines, "
             "written as a block (|), are a script: only its last command's status counts, unless it begins with set -e. Words of "
             "a list are quoted for the shell. {{hp.NAME}} stands for a hyperparameter (nested: {{hp.optimizer.lr}}), as one word."},
    {WORD("context.links", context_links, links_words, CONFIG_LINKS_REFUSE), SPARSE(28, "context_links"),
     .help = "What happens to symbolic links that lead out of the context directory: refuse fails the submit, keep sends the "
             "link (to data that is on every node), follow sends a copy of what it leads to."},
    {OTHER("environment.environment_variables", "list"),
     .allowed = "a list of NAME=VALUE texts, at most 256",
     .standard_words = "none",
     .help = "Variables for the program; they take the place of Shoal's, but for the ranks, MASTER_ADDR, MASTER_PORT and the GPUs."},
    {OTHER("environment.variables", "map"),
     .allowed = "a map of names to single values, at most 256",
     .standard_words = "none",
     .help = "Variables for the program, written as a map."},
    {TEXT("environment.requirements", requirements), SPARSE(31, "requirements"),
     .standard_words = "none",
     .help = "A file of packages for pip in the context directory, such as requirements.txt. Each node makes a virtual environment "
             "for its content, once, and gives it to all programs that name the same; it sees the machine's own packages, and "
             "pip fetches only what these do not satisfy: torch without a version means the torch that the machine has. An "
             "environment that nobody has used for 14 days is removed, or at once when less than a tenth of the disk is free "
             "and another one is made. The content of the file counts, that of files which it includes (-r, -c), and the variables "
             "PIP_... of environment.variables: a local package that changes needs a new version in the file."},
    {TEXT("environment.python", python), SPARSE(32, "python"),
     .standard_words = "python3",
     .help = "The Python that the virtual environment of environment.requirements is made with: a path, or a name that PATH has. A "
             "Python of a virtual environment lends its packages too."},
    {TRUTH("environment.warm", warm, false), SPARSE(41, "warm"),
     .help = "Whether each node keeps a process of the program's Python that has imported what the program imports, and forks each trial's "
             "process from it: short trials then begin without the second or two of their imports. A trial that cannot be begun so "
             "runs as always, and its log says why: the entrypoint is not one python command, or the imports fail, leave threads or "
             "open a GPU. The process ends after a minute without a trial, with its experiment, or when memory is short."},
    {OTHER("secrets", "list"),
     .allowed = "a list of at most 32 names as environment variables have them: letters, digits and _, no digit first, of 1 ... 63 bytes",
     .standard_words = "none",
     .help = "Secrets of the mesh (shoal secret set NAME) that the program finds as environment variables of these names. Their values are "
             "in no configuration, no record in clear and no log of Shoal. A trial waits for a node that has a copy of each of them."},
    {OTHER("webhooks", "list"),
     .allowed = "a list of at most 4 maps with url (http://, https:// or secret:NAME), on (a list of completed, failed, best, node_lost and "
                "log_match: PATTERN), and perhaps secret (a name of shoal secret ls) and form: slack",
     .standard_words = "none",
     .help = "Addresses that are told of events of the experiment by POST, as Standard Webhooks 1.0 say: completed and failed are its ends, "
             "best is a new best trial, node_lost the death of a node that ran a trial of it, log_match the first line of each worker's log that "
             "matches the pattern. The secret signs. It is tried again after 5 s, 30 s, 2 min, 10 min and 1 h, by another node if need be, "
             "always with the same webhook-id. form: slack sends a sentence as Slack and Mattermost take it."},
    {OTHER("hyperparameters", "map"),
     .allowed = "a map of names to values, {type: const, val}, {type: categorical, vals}, {type: int, minval, maxval, count, log, "
                "step}, {type: double, minval, maxval, count, step}, {type: log, base, minval, maxval, count}, or maps of such",
     .standard_words = "none",
     .help = "The search space; minval and maxval of log are exponents, its base is 10 if not given. Both bounds belong to a range; "
             "an int with log: true is even on the logarithm, and with step: N the values are minval, minval + N ... maxval. count is "
             "the number of a grid's points in the range; where it is not given, a grid takes all integers or steps. Each of these types "
             "may have when: {NAME: value or list of values}: a trial has the hyperparameter only if the earlier ones that are named (const, "
             "categorical or int) have such values, and a grid has no combination twice that differs in inactive ones only. A map with a type that is "
             "none of these words, such as {type: ResNet, depth: 50}, is a value like any other; {type: const, val: {...}} "
             "makes any map one. Programs find the values as SHOAL_HP_NAME (nested: SHOAL_HP_OPTIMIZER__LR) and in the JSON file "
             "$SHOAL_HPARAMS_FILE."},
    {WORD("searcher.name", searcher, searcher_words, SEARCH_SINGLE), ALWAYS(5, "searcher"),
     .help = "How trials are chosen: one, all points of a grid, random ones, or random ones of which the bad ones are stopped early "
             "(asha, which may be written async_halving; adaptive_asha, which needs to be told less), or trials that are drawn where "
             "earlier ones did well (tpe: the tree-structured Parzen estimator, as in Optuna 5), or a population that trains in rounds, the worst "
             "members of which are replaced by copies of the best with other values (pbt: population-based training), or what a program of your "
             "own says (custom). shoal preview FILE shows what trials there would be."},
    {TEXT("searcher.metric", metric), ALWAYS(3, "metric"),
     .standard_text = "accuracy",
     .help = "The metric of group validation that trials are compared by."},
    {TRUTH("searcher.smaller_is_better", smaller_is_better, false), ALWAYS(4, "smaller_is_better"),
     .standard_words = "true if searcher.metric is given, else false",
     .help = "Whether the best trial has the lowest metric."},
    {NUMBER("searcher.max_trials", max_trials, 1, SEARCH_TRIALS_MAX, 0), ALWAYS(6, "max_trials"),
     .standard_words = "required for random, asha, adaptive_asha, tpe and custom",
     .help = "The number of trials of the searchers that draw them."},
    {NUMBER("searcher.max_concurrent_trials", max_concurrent_trials, 0, SEARCH_TRIALS_MAX, 0), SPARSE(39, "max_concurrent_trials"),
     .standard_words = "16",
     .help = "How many trials of the experiment may run at a time, of grid, random, asha, adaptive_asha, tpe, pbt and custom; 0 for no limit. Each "
             "bracket of adaptive_asha may have one in any case. The fewer at a time, the more results each draw of tpe knows."},
    {NUMBER("searcher.n_startup_trials", n_startup_trials, 0, SEARCH_TRIALS_MAX, 10), SPARSE(42, "n_startup_trials"),
     .help = "So many trials of tpe have to be over before it draws from their results; the values of the first trials are random. With "
             "sampler: tpe so many must have reached a rung, and more than there are hyperparameters."},
    {NUMBER("searcher.max_time", max_time, 1, SEARCH_TIME_MAX, 0), SPARSE(36, "max_time"),
     .standard_words = "required for asha, adaptive_asha and custom, unless max_length is given",
     .help = "How long a trial that is never stopped trains, counted by searcher.time_metric. The rungs at which trials are compared "
             "are parts of it. The program has to know it, too: it ends by itself. tpe may go without: its trials are compared by what "
             "they last reported before their end; with it, by the first report at or beyond it, which then ends the trial."},
    {TEXT("searcher.time_metric", time_metric), SPARSE(37, "time_metric"),
     .standard_text = "steps",
     .help = "What searcher.max_time counts: steps or batches for the step of a report, seconds for the seconds of training, or a "
             "metric that the program reports beside searcher.metric, such as epochs."},
    {NUMBER("searcher.population_size", population_size, 2, PBT_POPULATION_MAX, 0), SPARSE(46, "population_size"),
     .standard_words = "required for pbt",
     .help = "How many members the population of pbt has. Each of them is one trial in each round: trial number round * population_size + "
             "member, counted from 0."},
    {NUMBER("searcher.num_rounds", num_rounds, 1, PBT_ROUNDS_MAX, 0), SPARSE(47, "num_rounds"),
     .standard_words = "required for pbt",
     .help = "How many rounds pbt has. A trial of the second and later rounds goes on from the newest checkpoint of a trial of the round before."},
    {OTHER("searcher.length_per_round", "number or map"),
     .allowed = "a whole number from 1 on, or a map of one of steps, batches, epochs to such a number",
     .standard_words = "required for pbt",
     .help = "How long each round of pbt lasts, counted by searcher.time_metric from the beginning of the first round: the first validation report "
             "at or beyond round * length_per_round ends a trial, which saves and leaves when it is asked to (shoal_should_stop, SIGTERM)."},
    {HUNDREDTHS("searcher.truncate_fraction", truncate_fraction, 0, 50, 25), SPARSE(48, "truncate_fraction"),
     .help = "The part of the population of pbt that is replaced after each round, rounded down: the worst members by copies of the best. A member "
             "that failed is replaced in any case."},
    {HUNDREDTHS("searcher.resample_probability", resample_probability, 0, 100, 25), SPARSE(49, "resample_probability"),
     .help = "How likely a hyperparameter of a copy of pbt is drawn anew from its whole range."},
    {HUNDREDTHS("searcher.perturb_factor", perturb_factor, 0, 99, 20), SPARSE(50, "perturb_factor"),
     .help = "A hyperparameter of a copy of pbt that is not drawn anew is multiplied by 1 - perturb_factor or 1 + perturb_factor; words and truth "
             "values stay."},
    {OTHER("searcher.max_length", "number or map"),
     .allowed = "a whole number from 1 on, or a map of one of steps, batches, epochs, seconds to such a number",
     .standard_words = "none",
     .help = "For asha, adaptive_asha, tpe and custom the same as max_time with its time_metric, as in {epochs: 20}. No effect with other "
             "searchers."},
    {TEXT("searcher.entrypoint", searcher_entrypoint), SPARSE(51, "searcher_entrypoint"),
     .standard_words = "required for custom",
     .help = "The command of the program that decides in a search with the searcher custom, such as python3 my_search.py. It runs in a copy "
             "of the context directory on one node, takes no slot, and calls shoal.Searcher.run() (docs/python.md)."},
    {NUMBER("searcher.every", every, 1, SEARCH_TIME_MAX, 0), SPARSE(52, "every"),
     .standard_words = "max_time",
     .help = "After each such length, counted by searcher.time_metric, the program of the searcher custom is told what a trial has "
             "reported; 32 times at most until max_time."},
    {SECONDS("searcher.timeout", searcher_timeout_s, 1, 86400, 600), SPARSE(53, "searcher_timeout"),
     .help = "So long may the program of the searcher custom take for its first words, and for each answer; then it is started again."},
    {NUMBER("searcher.num_rungs", num_rungs, 1, SEARCH_RUNGS_MAX, 0), SPARSE(33, "num_rungs"),
     .standard_words = "required for asha",
     .help = "How many rungs asha has: the last one at max_time, each other one at 1/divisor of the next."},
    {NUMBER("searcher.max_rungs", max_rungs, 1, SEARCH_RUNGS_MAX, 5), SPARSE(34, "max_rungs"),
     .help = "The most rungs of a bracket of adaptive_asha; fewer, if divisor^(rungs-1) would exceed max_time or max_trials."},
    {REAL("searcher.divisor", divisor, 1, SEARCH_DIVISOR_MAX, 4), SPARSE(35, "divisor"),
     .help = "The best 1/divisor of the trials that have reached a rung of asha or adaptive_asha go on from it."},
    {WORD("searcher.mode", mode, mode_words, SEARCH_STANDARD), SPARSE(38, "mode"),
     .help = "How many rungs the brackets of adaptive_asha have, of M at most: standard (M-1)/2+1 to M, aggressive M alone, conservative "
             "1 to M. With more rungs bad trials are stopped earlier."},
    {OTHER("searcher.bracket_rungs", "list"),
     .allowed = "a list of at most 32 whole numbers 1 ... 32",
     .standard_words = "none",
     .help = "The numbers of rungs of the brackets of adaptive_asha, in place of mode and max_rungs."},
    {OTHER("searcher.stop_once", "true or false"),
     .allowed = "true or false",
     .standard_words = "true",
     .help = "true: asha and adaptive_asha decide once whether a trial goes on from a rung, and stop it where it does not. false: such a "
             "trial is paused, and its slots are free; when it is among the best 1/divisor of its rung later, it goes on from its checkpoint. "
             "Fewer trials train long, and none goes on from a rung that fewer than divisor trials have reached."},
    {OTHER("searcher.sampler", "word"),
     .allowed = "random, sobol, tpe",
     .standard_words = "random",
     .help = "How random, asha and adaptive_asha place their draws: independently, or by a Sobol sequence, which fills the space more evenly (at "
             "most 64 hyperparameters that are searched; best with a power of two of trials). With tpe, asha and adaptive_asha draw where "
             "trials did well at the highest rung that enough have reached (what is known as BOHB)."},
    {OTHER("searcher.initial", "list"),
     .allowed = "a list of maps of names to values, at most one for each trial, and 1000",
     .standard_words = "none",
     .help = "Own values for the first trials that are drawn, such as [{lr: 0.01, optimizer.name: sgd}]: trial 0 has those of the first map, "
             "and so on. What a map leaves out is drawn; a value that the search space does not have is refused."},
    {OTHER("searcher.warm_start", "list"),
     .allowed = "a list of at most 64 experiments (EXP) or trials (EXP/TRIAL)",
     .standard_words = "none",
     .help = "Earlier experiments with the same hyperparameters: the values of their best trials, by searcher.metric of the new one, become those of "
             "the first trials, behind those of searcher.initial: as many as a quarter of max_trials, and 16 at most. EXP/TRIAL names one trial. "
             "Submit looks them up, and the experiment's configuration tells which trials were taken."},
    {NUMBER("resources.slots_per_trial", slots_per_trial, 1, CONFIG_SLOTS_MAX, 1), ALWAYS(7, "slots_per_trial"),
     .help = "Workers that train one trial together."},
    {NUMBER("resources.min_slots", min_slots, 1, CONFIG_SLOTS_MAX, 1), ALWAYS(8, "min_slots"),
     .standard_words = "slots_per_trial",
     .help = "The fewest slots with which a trial may continue; at most slots_per_trial. If it is below max_slots, an "
             "elastic program's group continues without the workers that it loses."},
    {NUMBER("resources.max_slots", max_slots, 1, CONFIG_SLOTS_MAX, 1), ALWAYS(9, "max_slots"),
     .standard_words = "slots_per_trial",
     .help = "The most slots to which a trial may grow while no other trial waits; at least slots_per_trial."},
    {TRUTH("resources.even_hosts", even_hosts, false), SPARSE(30, "even_hosts"),
     .help = "Whether a trial has the same number of ranks on every node, as Lightning wants it (it refuses 3 on one and 1 on "
             "another). A trial waits while there is no such place, and show says so; its group never changes, so an elastic "
             "program begins again from its checkpoint when it loses a worker."},
    {NUMBER("resources.priority", priority, 1, 99, 42), ALWAYS(10, "priority"),
     .help = "A trial with a lower number goes first in the queue."},
    {WORD("resources.slot_kind", slot_kind, slot_words, CONFIG_SLOT_ANY), ALWAYS(11, "slot_kind"),
     .help = "The kind of slot that a trial needs."},
    {TEXT("resources.constraints", constraints), SPARSE(60, "constraints"),
     .type = "map",
     .allowed = "a map with model (a text or a list of texts), memory (a size such as 24G) and labels (a list of NAME or NAME=VALUE)",
     .standard_words = "none",
     .help = "Which slots a trial may have: those of a model whose name contains the text, or one of several, in capitals or not; with at "
             "least so much memory (7 % less is enough: a GPU of 16 GB shows 15 GiB); on nodes that shoald --label gave all of the labels, "
             "of which NAME fits any value. A trial waits while no such slot is there, and says so."},
    {NUMBER("checkpoint.replicas", checkpoint_replicas, 1, CONFIG_REPLICAS_MAX, 2), ALWAYS(15, "replicas"),
     .help = "Copies of each checkpoint, on different nodes; 8 at most."},
    {NUMBER("checkpoint.save_experiment_best", save_experiment_best, 0, CONFIG_SAVE_MAX, 0),
     LATER(16, "save_experiment_best"),
     .help = "How many of the best checkpoints of all trials together are kept, by searcher.metric."},
    {NUMBER("checkpoint.save_trial_best", save_trial_best, 0, CONFIG_SAVE_MAX, 1), LATER(17, "save_trial_best"),
     .help = "How many of the best checkpoints of each trial are kept, by the metric last reported before each save."},
    {NUMBER("checkpoint.save_trial_latest", save_trial_latest, 0, CONFIG_SAVE_MAX, 1), LATER(18, "save_trial_latest"),
     .help = "How many of the newest checkpoints of each trial are kept; a trial that is not over always keeps its "
             "newest."},
    {TEXT("checkpoint.begin_from", begin_from), SPARSE(43, "begin_from"),
     .standard_words = "none",
     .help = "The checkpoint of another experiment's trial with which a single trial begins, EXPERIMENT/TRIAL@STEP with the whole id: shoal fork "
             "EXP/TRIAL@STEP writes it. The checkpoint is kept for the new experiment, whatever becomes of the old one."},
    {TEXT("depends_on", depends_on), SPARSE(57, "depends_on"),
     .type = "list",
     .allowed = "a list of at most 16 experiments, by their names or ids",
     .standard_words = "none",
     .help = "Experiments that have to be completed before this one begins; submit writes down their ids. Where one fails, or is "
             "cancelled or deleted, this one goes on waiting and says so: shoal resume begins it all the same, shoal retry gives the "
             "other one another try."},
    {TEXT("start_after", start_after), SPARSE(58, "start_after"),
     .type = "time",
     .allowed = "a time such as 2026-12-01 18:00, by the clock of the machine that submits, or with a Z behind it by UTC; or how long "
                "from now, such as 2h",
     .standard_words = "none",
     .help = "The experiment begins at this time or later, by the clocks of most nodes."},
    {OTHER("keep", "list"),
     .allowed = "a list of at most 16 paths of 1 ... 255 bytes below the context directory, without '..'",
     .standard_words = "none",
     .help = "Files and directories that the program writes and that outlive it, beside $SHOAL_OUTPUT_DIR, which always "
             "does: copied to other nodes while the program runs, put back at the same place for the next attempt, and read "
             "with shoal output. A direct child of such a directory counts when nothing in it has changed for 2 s."},
    {BYTES("keep_bytes_max", keep_bytes_max, 1, 256ull << 30, 16ull << 30), SPARSE(25, "keep_bytes_max"),
     .help = "The most bytes that a worker may have in what is kept; with more nothing further is copied, and a sentence "
             "says so."},
    {WORD("keep_ranks", keep_ranks, keep_words, CONFIG_KEEP_FIRST), SPARSE(26, "keep_ranks"),
     .help = "Whose files are kept: those of rank 0, or those of all ranks (at most 64), which the next attempt finds "
             "united in every rank's directory, as torch.distributed.checkpoint wants them."},
    {BYTES("logs.max_bytes", logs_max_bytes, 1u << 20, 1ull << 40, 64ull << 20), SPARSE(44, "logs_max_bytes"),
     .help = "The most bytes of output that are kept of one worker; with more the oldest lines go, and shoal logs says so. They are "
             "stored compressed, on the worker's node and on another one."},
    {SECONDS("logs.keep", logs_keep_s, 0, 3153600000, 0), SPARSE(45, "logs_keep"),
     .standard_words = "0, for ever",
     .help = "How long logs are kept after the end of the experiment, such as 30d; those of a pinned experiment stay. "
             "shoal delete removes them at once."},
    {TRUTH("metrics_from_output", metrics_from_output, false), SPARSE(27, "metrics_from_output"),
     .help = "Whether a line '::shoal metric GROUP NAME=VALUE... step=N' of rank 0's output is a metric."},
    {WORD("tensorboard", tensorboard, tensorboard_words, CONFIG_TENSORBOARD_KEEP), SPARSE(55, "tensorboard"),
     .help = "What becomes of event files that rank 0 writes to SHOAL_TENSORBOARD_DIR, as SummaryWriter does: keep them with the trial's "
             "files only, or also read their scalars, which become metrics: validation/accuracy is accuracy in the group validation."},
    {TRUTH("mlflow", mlflow, true), SPARSE(54, "mlflow"),
     .help = "Whether the program finds the MLflow API of its node, and its trial's run there, in MLFLOW_TRACKING_URI and the like; "
             "false for a program that calls mlflow.set_tracking_uri itself."},
    {NUMBER("max_restarts", max_restarts, 0, CONFIG_RESTARTS_MAX, 5), ALWAYS(12, "max_restarts"),
     .help = "How often a trial is started again after its own failures; lost nodes do not count."},
    {WORD("retry", retry, retry_words, CONFIG_RETRY_NODE), SPARSE(21, "retry"),
     .help = "Which failures are tried again: node gives a trial up that fails in the same way within 10 s of its start on two "
             "nodes, or three times where there is only one, any tries each failure again up to max_restarts, never "
             "tries none."},
    {SECONDS("exit_barrier", exit_barrier_s, 0, CONFIG_STALL_S_MAX, 300), SPARSE(22, "exit_barrier"),
     .help = "The time after which an attempt has failed if one rank has ended with status 0, and the others have neither ended nor "
             "written output nor reported progress meanwhile; 0 for no end."},
    {SECONDS("stall_timeout", stall_timeout_s, 0, CONFIG_STALL_S_MAX, 0), SPARSE(23, "stall_timeout"),
     .help = "The time after which an attempt has failed if none of its ranks writes output or reports progress, and one rank "
             "uses no processor time either or is stopped; 0 for no end. Without it show tells of such ranks after 5 minutes."},
    {SECONDS("max_runtime", max_runtime_s, 0, 31536000, 0), SPARSE(59, "max_runtime"),
     .standard_words = "0, no limit",
     .help = "For how long a trial may run, such as 2h: the time for which its program runs, that of all its attempts together, without what it "
             "waits for slots, is paused or fetches its code. Then it is asked to save and leave, and is stopped, with its checkpoints "
             "kept; shoal retry gives it as much time again."},
    {WORD("stop_signal", stop_signal, signal_words, CONFIG_SIGTERM), SPARSE(24, "stop_signal"),
     .help = "The signal that asks a program without libshoal to save and leave. Its helper processes get SIGTERM after it."},
    {NUMBER("seed", seed, 0, INT64_MAX, 0), ALWAYS(13, "seed"),
     .help = "All random choices follow from it."},
    {NUMBER("seed_of_trial", seed_of_trial, 0, SEARCH_TRIALS_MAX - 1, 0), SPARSE(40, "seed_of_trial"),
     .help = "Trial 0 gets the SHOAL_SEED of this trial of an experiment with the same seed, trial 1 that of the next one; shoal "
             "reproduce sets it. The hyperparameters do not follow it."},
    {SECONDS("preemption_timeout", preemption_timeout_s, 0, CONFIG_PREEMPTION_TIMEOUT_S_MAX, 60),
     ALWAYS(14, "preemption_timeout"),
     .help = "The time that a trial has to save and leave when it must make room."},
    {WORD("on_partition", on_partition, partition_words, CONFIG_PARTITION_CONTINUE), ALWAYS(19, "on_partition"),
     .help = "What each side of a split mesh does: continue, or start nothing on a side with less than half of the "
             "members."},
    {SECONDS("collective_timeout", collective_timeout_s, 1, CONFIG_COLLECTIVE_TIMEOUT_S_MAX, 60), SPARSE(29, "collective_timeout"),
     .help = "The time without a moved byte after which a collective fails, in programs with libshoal. Other programs find it in "
             "SHOAL_COLLECTIVE_TIMEOUT, in seconds, for init_process_group(timeout=timedelta(seconds=...)) of PyTorch."},
    {TRUTH("balance", balance, false), SPARSE(20, "balance"),
     .help = "Whether the parts of a step follow the measured speeds of its slots, in elastic programs that ask libshoal "
             "for their part, such as shoal-train. Then two runs do not end with the same bits."},
};

const size_t config_option_count = sizeof config_options / sizeof config_options[0];
_Static_assert(sizeof config_options / sizeof config_options[0] <= CONFIG_OPTIONS_MAX, "arrays have room for each option");

const struct config_option *config_option_find(const char *key)
{
    size_t i = 0;
    while (i < config_option_count && strcmp(config_options[i].key, key) != 0) {
        i++;
    }
    CHECK(i < config_option_count);
    return &config_options[i];
}

uint64_t config_option_number(const struct config_option *option, const struct config *config)
{
    const char *field = (const char *)config + option->offset;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    bool truth = false;
    switch (option->kind) {
    case OPTION_NUMBER:
    case OPTION_WORD:
        if (option->size == sizeof wide) {
            memcpy(&wide, field, sizeof wide);
            return wide;
        }
        CHECK(option->size == sizeof narrow);
        memcpy(&narrow, field, sizeof narrow);
        return narrow;
    case OPTION_TRUTH:
        memcpy(&truth, field, sizeof truth);
        return truth;
    default:
        CHECK(false);
        return 0;
    }
}

double config_option_real(const struct config_option *option, const struct config *config)
{
    double number = 0;
    CHECK(option->kind == OPTION_REAL && option->size == sizeof number);
    memcpy(&number, (const char *)config + option->offset, sizeof number);
    return number;
}

void config_option_set_real(const struct config_option *option, double number, struct config *config)
{
    CHECK(config_option_real_is_good(option, number) && option->size == sizeof number);
    memcpy((char *)config + option->offset, &number, sizeof number);
}

double config_option_real_of(const struct config_option *option, uint64_t count)
{
    return option->parts > 0 ? (double)count / option->parts : (double)count;
}

bool config_option_real_is_good(const struct config_option *option, double number)
{
    CHECK(option->kind == OPTION_REAL);
    double low = config_option_real_of(option, option->min), high = config_option_real_of(option, option->max);
    return (option->parts > 0 ? number >= low : number > low) && number <= high; /* false for NaN */
}

void config_option_set_number(const struct config_option *option, uint64_t number, struct config *config)
{
    char *field = (char *)config + option->offset;
    uint32_t narrow = (uint32_t)number;
    bool truth = number != 0;
    switch (option->kind) {
    case OPTION_NUMBER:
    case OPTION_WORD:
        if (option->size == sizeof number) {
            memcpy(field, &number, sizeof number);
            return;
        }
        CHECK(option->size == sizeof narrow && narrow == number);
        memcpy(field, &narrow, sizeof narrow);
        return;
    case OPTION_TRUTH:
        memcpy(field, &truth, sizeof truth);
        return;
    default:
        CHECK(false);
    }
}

void config_options_set_standard(struct config *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        switch (option->kind) {
        case OPTION_NUMBER:
        case OPTION_TRUTH:
        case OPTION_WORD:
            config_option_set_number(option, option->standard, out);
            break;
        case OPTION_REAL:
            config_option_set_real(option, config_option_real_of(option, option->standard), out);
            break;
        case OPTION_TEXT:
        case OPTION_NAME:
        case OPTION_LINES:
            if (option->standard_text != NULL) {
                CHECK(bytes_copy_text((char *)out + option->offset, option->size, option->standard_text));
            }
            break;
        case OPTION_OTHER:
            break;
        }
    }
}
