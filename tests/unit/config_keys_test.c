/* Each key of a configuration has a value here that it refuses, with the one sentence that says so. A new key needs a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/config/config_yaml.h"
#include "node/core/facts/config.h"

#define OVERRIDES_MAX 12
#define RANDOM "searcher.name=random;searcher.max_trials=9"
#define ASHA "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2;searcher.max_time=9"
#define SPACE "hyperparameters={x: {type: double, minval: 0, maxval: 1}}"
#define CUSTOM "searcher.name=custom;searcher.metric=m;searcher.max_trials=9;searcher.max_time=9;searcher.entrypoint=x;" SPACE
#define ADAPTIVE "searcher.name=adaptive_asha;searcher.metric=m;searcher.max_trials=9;searcher.max_time=9"

#define PBT_NAME \
    "hyperparameters.x.type=double;hyperparameters.x.minval=0;hyperparameters.x.maxval=1;searcher.name=pbt;searcher.metric=m"
#define PBT PBT_NAME ";searcher.population_size=4;searcher.num_rounds=3;searcher.length_per_round=5"

#define START \
    "a time such as 2026-12-01 18:00, by the clock of the machine that submits, or with a Z behind it by UTC; or how long from now, such as 2h"

#define FITTING "a map with model (a text or a list of texts), memory (a size such as 24G) and labels (a list of NAME or NAME=VALUE)"

static uint8_t scratch[CONFIG_SCRATCH_BYTES];
static char error_text[CONFIG_ERROR_BYTES];

/* `beside`: what the value needs to be looked at, as assignments with ';' between them. `sentence`: without the place before it. */
static const struct row {
    const char *key, *beside, *value, *sentence;
} rows[] = {
        {"name", NULL, "''", "name is empty; allowed are texts of 1 ... 127 bytes without '/' and control characters"},
        {"name", NULL, "a/b", "name is 'a/b'; allowed are texts of 1 ... 127 bytes without '/' and control characters"},
        {"name", NULL, "[a]", "name is a list; allowed are texts of 1 ... 127 bytes without '/' and control characters"},
        {"description", NULL, "[a]", "description is a list; allowed are texts of 0 ... 255 bytes without control characters"},
        {"description", NULL, "\"a\\eb\"", "description is 'a?b'; allowed are texts of 0 ... 255 bytes without control characters"},
        {"labels", NULL, "one", "labels is 'one'; allowed is a list of at most 64 texts of 1 ... 63 bytes"},
        {"labels", NULL, "[[a]]", "labels is a list; allowed is a list of at most 64 texts of 1 ... 63 bytes"},
        {"labels", NULL, "[fine, '']", "labels is empty; allowed is a list of at most 64 texts of 1 ... 63 bytes"},
        {"entrypoint", NULL, "''", "entrypoint is empty; allowed is a command of one or more lines, or a list of words"},
        {"entrypoint", NULL, "{a: b}", "entrypoint is a map; allowed is a command of one or more lines, or a list of words"},
        {"entrypoint", NULL, "[a, [b]]", "entrypoint is a list; allowed is a command of one or more lines, or a list of words"},
        {"context.links", NULL, "copy", "context.links is 'copy'; allowed are refuse, keep, follow"},
        {"context.links", NULL, "[keep]", "context.links is a list; allowed are refuse, keep, follow"},
        {"environment.environment_variables", NULL, "A=1",
         "environment.environment_variables is 'A=1'; allowed is a list of NAME=VALUE texts, at most 256"},
        {"environment.environment_variables", NULL, "[AB]",
         "environment.environment_variables is 'AB'; allowed is a list of NAME=VALUE texts, at most 256"},
        {"environment.environment_variables", NULL, "[RANK=1]",
         "the environment variable 'RANK' is set by the daemon for each rank; remove it, and set a variable of another name in "
         "the entrypoint if a program needs it"},
        {"environment.variables", NULL, "3", "environment.variables is '3'; allowed is a map of names to single values, at most 256"},
        {"environment.variables", NULL, "{1A: 2}",
         "the environment variable '1A' has a bad name; allowed are letters, digits and _, no digit first"},
        {"environment.variables", NULL, "{X: [1]}",
         "environment.variables is a list; allowed is a map of names to single values, at most 256"},
        {"environment.variables", NULL, "{SHOAL_TOKEN: a}",
         "the environment variable 'SHOAL_TOKEN' is set by the daemon; choose another name"},
        {"environment.requirements", NULL, "../r.txt",
         "environment.requirements is '../r.txt'; allowed is a path below the context directory, such as requirements.txt, "
         "without '..'"},
        {"environment.requirements", NULL, "[r.txt]",
         "environment.requirements is a list; allowed are texts of 1 ... 255 bytes without control characters"},
        {"environment.python", "environment.requirements=r.txt", "--x",
         "environment.python is '--x'; allowed is the name or path of a program, without '=' and not beginning with '-'"},
        {"environment.python", "environment.requirements=r.txt", "[python3]",
         "environment.python is a list; allowed are texts of 1 ... 255 bytes without control characters"},
        {"environment.python", NULL, "python3.9",
         "environment.python has no effect without environment.requirements; add it, or name the Python in the entrypoint"},
        {"environment.warm", NULL, "maybe", "environment.warm is 'maybe'; allowed are true, false, on, off"},
        {"environment.warm", NULL, "[true]", "environment.warm is a list; allowed are true, false, on, off"},
        {"hyperparameters", NULL, "5", "hyperparameters is '5'; allowed is a map of names to values"},
        {"hyperparameters", NULL, "{a: {type: lgo, base: 2}}",
         "hyperparameters.a.type is 'lgo'; did you mean 'log'? (allowed are const, categorical, int, double, log; a map of the "
         "program's own is written {type: const, val: {...}})"},
        {"hyperparameters", NULL, "{a: {type: int, minval: 3, maxval: 2}}",
         "hyperparameters.a.minval is '3' and maxval '2'; minval must not be above maxval"},
        {"searcher.name", NULL, "rando", "searcher.name is 'rando'; allowed are single, grid, random, asha, adaptive_asha, tpe, pbt, custom"},
        {"searcher.name", NULL, "[grid]", "searcher.name is a list; allowed are single, grid, random, asha, adaptive_asha, tpe, pbt, custom"},
        {"searcher.metric", NULL, "[a]", "searcher.metric is a list; allowed are texts of 1 ... 63 bytes without control characters"},
        {"searcher.metric", NULL, "''", "searcher.metric is empty; allowed are texts of 1 ... 63 bytes without control characters"},
        {"searcher.smaller_is_better", "searcher.metric=loss", "yes",
         "searcher.smaller_is_better is 'yes'; allowed are true, false, on, off"},
        {"searcher.max_trials", "searcher.name=random", "0", "searcher.max_trials is '0'; allowed are 1 ... 100000"},
        {"searcher.max_trials", "searcher.name=random", "100001", "searcher.max_trials is '100001'; allowed are 1 ... 100000"},
        {"searcher.max_trials", "searcher.name=asha;searcher.metric=m;searcher.num_rungs=2;searcher.max_time=9", "many",
         "searcher.max_trials is 'many'; allowed are 1 ... 100000"},
        {"searcher.max_trials", NULL, "4",
         "searcher.max_trials has no effect with searcher.name single; remove it or use random, asha, adaptive_asha, tpe or custom"},
        {"searcher.max_trials", "searcher.name=grid", "4",
         "searcher.max_trials has no effect with searcher.name grid; remove it or use random, asha, adaptive_asha, tpe or custom"},
        {"searcher.max_concurrent_trials", RANDOM, "-1", "searcher.max_concurrent_trials is '-1'; allowed are 0 ... 100000"},
        {"searcher.max_concurrent_trials", ADAPTIVE, "[4]", "searcher.max_concurrent_trials is a list; allowed are 0 ... 100000"},
        {"searcher.max_concurrent_trials", NULL, "4",
         "searcher.max_concurrent_trials has no effect with searcher.name single; remove it or use grid, random, asha, adaptive_asha, tpe, pbt or custom"},
        {"searcher.max_time", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2", "0",
         "searcher.max_time is '0'; allowed are 1 ... 1000000000000"},
        {"searcher.max_time", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2", "1.5",
         "searcher.max_time is '1.5'; allowed are 1 ... 1000000000000"},
        {"searcher.max_time", RANDOM, "9",
         "searcher.max_time has no effect with searcher.name random; remove it or use asha, adaptive_asha, tpe or custom"},
        {"searcher.time_metric", ASHA, "[steps]",
         "searcher.time_metric is a list; allowed are texts of 1 ... 63 bytes without control characters"},
        {"searcher.time_metric", ASHA, "''",
         "searcher.time_metric is empty; allowed are texts of 1 ... 63 bytes without control characters"},
        {"searcher.time_metric", RANDOM, "steps",
         "searcher.time_metric has no effect with searcher.name random; remove it or use asha, adaptive_asha, tpe, pbt or custom"},
        {"searcher.entrypoint", "searcher.name=custom;searcher.metric=m;searcher.max_trials=9;searcher.max_time=9;" SPACE, "[a]",
         "searcher.entrypoint is a list; allowed are texts of 1 ... 511 bytes without control characters"},
        {"searcher.every", CUSTOM, "0", "searcher.every is '0'; allowed are 1 ... 1000000000000"},
        {"searcher.timeout", CUSTOM, "0", "searcher.timeout is '0'; allowed are 1 ... 86400 seconds, and numbers with the units s, m, h and d, such as 90s, 5m or 1h30m"},
        {"searcher.max_length", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2", "0",
         "searcher.max_length is '0'; allowed is a whole number from 1 on, or a map of one of steps, batches, epochs, seconds "
         "to such a number"},
        {"searcher.max_length", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2", "{minutes: 3}",
         "searcher.max_length is a map; allowed is a whole number from 1 on, or a map of one of steps, batches, epochs, seconds "
         "to such a number"},
        {"searcher.max_length", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2", "{steps: 0}",
         "searcher.max_length is a map; allowed is a whole number from 1 on, or a map of one of steps, batches, epochs, seconds "
         "to such a number"},
        {"searcher.max_length", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2", "{steps: 3, epochs: 1}",
         "searcher.max_length is a map; allowed is a whole number from 1 on, or a map of one of steps, batches, epochs, seconds "
         "to such a number"},
        {"searcher.max_length", ASHA, "9", "searcher.max_length says the same as searcher.max_time; remove one of them"},
        {"searcher.max_length", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.num_rungs=2;searcher.time_metric=seconds", "{steps: 3}",
         "searcher.max_length counts steps and searcher.time_metric is 'seconds'; remove one of them"},
        {"searcher.num_rungs", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.max_time=9", "0",
         "searcher.num_rungs is '0'; allowed are 1 ... 32"},
        {"searcher.num_rungs", "searcher.name=asha;searcher.metric=m;searcher.max_trials=9;searcher.max_time=9", "33",
         "searcher.num_rungs is '33'; allowed are 1 ... 32"},
        {"searcher.num_rungs", ADAPTIVE, "3", "searcher.num_rungs has no effect with searcher.name adaptive_asha; remove it or use asha"},
        {"searcher.max_rungs", ADAPTIVE, "0", "searcher.max_rungs is '0'; allowed are 1 ... 32"},
        {"searcher.max_rungs", ADAPTIVE, "five", "searcher.max_rungs is 'five'; allowed are 1 ... 32"},
        {"searcher.max_rungs", ASHA, "3", "searcher.max_rungs has no effect with searcher.name asha; remove it or use adaptive_asha"},
        {"searcher.population_size", PBT_NAME ";searcher.num_rounds=3;searcher.length_per_round=5", "1",
         "searcher.population_size is '1'; allowed are 2 ... 10000"},
        {"searcher.population_size", RANDOM, "4", "searcher.population_size has no effect with searcher.name random; remove it or use pbt"},
        {"searcher.num_rounds", PBT_NAME ";searcher.population_size=4;searcher.length_per_round=5", "0",
         "searcher.num_rounds is '0'; allowed are 1 ... 1000"},
        {"searcher.num_rounds", PBT_NAME ";searcher.population_size=1000;searcher.length_per_round=5", "1000",
         "searcher.population_size times searcher.num_rounds is 1000000 trials; allowed are 100000"},
        {"searcher.length_per_round", PBT_NAME ";searcher.population_size=4;searcher.num_rounds=3", "0",
         "searcher.length_per_round is '0'; allowed is a whole number from 1 on, or a map of one of steps, batches, epochs to such a number"},
        {"searcher.length_per_round", PBT_NAME ";searcher.population_size=4;searcher.num_rounds=3", "{seconds: 5}",
         "searcher.length_per_round is a map; allowed is a whole number from 1 on, or a map of one of steps, batches, epochs to such a number"},
        {"searcher.length_per_round", RANDOM, "5", "searcher.length_per_round has no effect with searcher.name random; remove it or use pbt"},
        {"searcher.truncate_fraction", PBT, "0.6", "searcher.truncate_fraction is '0.6'; allowed are numbers from 0 to 0.5"},
        {"searcher.truncate_fraction", ASHA, "0.2", "searcher.truncate_fraction has no effect with searcher.name asha; remove it or use pbt"},
        {"searcher.resample_probability", PBT, "-0.1", "searcher.resample_probability is '-0.1'; allowed are numbers from 0 to 1"},
        {"searcher.resample_probability", RANDOM, "1",
         "searcher.resample_probability has no effect with searcher.name random; remove it or use pbt"},
        {"searcher.perturb_factor", PBT, "1", "searcher.perturb_factor is '1'; allowed are numbers from 0 to 0.99"},
        {"searcher.perturb_factor", RANDOM, "0.2", "searcher.perturb_factor has no effect with searcher.name random; remove it or use pbt"},
        {"searcher.time_metric", PBT, "seconds",
         "searcher.time_metric is 'seconds', and rounds of pbt are not counted in seconds; count steps, or a metric that the program reports"},
        {"searcher.divisor", ASHA, "1", "searcher.divisor is '1'; allowed are numbers above 1, up to 1000000"},
        {"searcher.divisor", ASHA, ".nan", "searcher.divisor is '.nan'; allowed are numbers above 1, up to 1000000"},
        {"searcher.divisor", ADAPTIVE, "1000001", "searcher.divisor is '1000001'; allowed are numbers above 1, up to 1000000"},
        {"searcher.divisor", RANDOM, "4",
         "searcher.divisor has no effect with searcher.name random; remove it or use asha or adaptive_asha"},
        {"searcher.mode", ADAPTIVE, "fast", "searcher.mode is 'fast'; allowed are standard, aggressive, conservative"},
        {"searcher.mode", ASHA, "standard", "searcher.mode has no effect with searcher.name asha; remove it or use adaptive_asha"},
        {"searcher.bracket_rungs", ADAPTIVE, "3", "searcher.bracket_rungs is '3'; allowed is a list of at most 32 whole numbers 1 ... 32"},
        {"searcher.bracket_rungs", ADAPTIVE, "[0]",
         "searcher.bracket_rungs is a list; allowed is a list of at most 32 whole numbers 1 ... 32"},
        {"searcher.bracket_rungs", ADAPTIVE, "[2, 33]",
         "searcher.bracket_rungs is a list; allowed is a list of at most 32 whole numbers 1 ... 32"},
        {"searcher.bracket_rungs", ASHA, "[2]",
         "searcher.bracket_rungs has no effect with searcher.name asha; remove it or use adaptive_asha"},
        {"searcher.stop_once", ASHA, "maybe", "searcher.stop_once is 'maybe'; allowed is true or false"},
        {"searcher.stop_once", RANDOM, "true",
         "searcher.stop_once has no effect with searcher.name random; remove it or use asha or adaptive_asha"},
        {"searcher.sampler", RANDOM, "sobl", "searcher.sampler is 'sobl'; allowed are random, sobol, tpe"},
        {"searcher.sampler", ADAPTIVE, "[sobol]", "searcher.sampler is a list; allowed are random, sobol, tpe"},
        {"searcher.sampler", "searcher.name=grid", "sobol",
         "searcher.sampler has no effect with searcher.name grid; remove it or use random, asha or adaptive_asha"},
        {"searcher.initial", RANDOM, "{x: 1}", "searcher.initial is a map; allowed is a list of maps of names to values"},
        {"searcher.initial", RANDOM, "[{x: 1}]",
         "searcher.initial[0] names x, which is no hyperparameter; allowed are the names of hyperparameters, nested ones with "
         "dots"},
        {"searcher.initial", "searcher.name=grid", "[{}]",
         "searcher.initial has no effect with searcher.name grid; remove it or use random, asha, adaptive_asha or tpe"},
        {"resources.slots_per_trial", NULL, "-1", "resources.slots_per_trial is '-1'; allowed are 1 ... 256"},
        {"resources.slots_per_trial", NULL, "257", "resources.slots_per_trial is '257'; allowed are 1 ... 256"},
        {"resources.min_slots", NULL, "0", "resources.min_slots is '0'; allowed are 1 ... 256"},
        {"resources.min_slots", NULL, "2", "resources.min_slots is 2 and slots_per_trial 1; allowed are 1 ... slots_per_trial"},
        {"resources.max_slots", "resources.slots_per_trial=4", "2",
         "resources.max_slots is 2 and slots_per_trial 4; allowed are slots_per_trial ... 256"},
        {"resources.max_slots", NULL, "many", "resources.max_slots is 'many'; allowed are 1 ... 256"},
        {"resources.even_hosts", NULL, "2", "resources.even_hosts is '2'; allowed are true, false, on, off"},
        {"resources.priority", NULL, "0", "resources.priority is '0'; allowed are 1 ... 99"},
        {"resources.priority", NULL, "100", "resources.priority is '100'; allowed are 1 ... 99"},
        {"resources.slot_kind", NULL, "gpu", "resources.slot_kind is 'gpu'; allowed are any, cpu, cuda"},
        {"checkpoint.replicas", NULL, "0", "checkpoint.replicas is '0'; allowed are 1 ... 8"},
        {"checkpoint.replicas", NULL, "9", "checkpoint.replicas is '9'; allowed are 1 ... 8"},
        {"checkpoint.save_experiment_best", NULL, "-1", "checkpoint.save_experiment_best is '-1'; allowed are 0 ... 1000"},
        {"checkpoint.save_trial_best", NULL, "all", "checkpoint.save_trial_best is 'all'; allowed are 0 ... 1000"},
        {"checkpoint.save_trial_latest", NULL, "1.5", "checkpoint.save_trial_latest is '1.5'; allowed are 0 ... 1000"},
        {"secrets", NULL, "API_KEY",
         "secrets is 'API_KEY'; allowed is a list of at most 32 names as environment variables have them: letters, digits and _, no digit "
         "first, of 1 ... 63 bytes"},
        {"secrets", NULL, "[fine, 9LIVES]",
         "secrets has '9LIVES', which is no name for a secret; allowed are names of environment variables that the daemon does not set: "
         "letters, digits and _, no digit first, at most 63 bytes"},
        {"secrets", NULL, "[MASTER_ADDR]",
         "secrets has 'MASTER_ADDR', which is no name for a secret; allowed are names of environment variables that the daemon does not "
         "set: letters, digits and _, no digit first, at most 63 bytes"},
        {"secrets", NULL, "[A, A]", "secrets has A twice; remove one of them"},
        {"webhooks", NULL, "[{url: 'ftp://a', on: [failed]}]",
         "the url 'ftp://a' of a webhook is not good; allowed are http://HOST..., https://HOST... of at most 383 bytes without blanks and "
         "without a password, and secret:NAME"},
        {"webhooks", NULL, "[{url: 'http://a', on: [{log_match: '('}]}]", "the pattern '(' of a webhook is not good: a ( has no )"},
        {"webhooks", NULL, "[{url: 'http://a'}]",
         "webhooks is a map; allowed is a list of at most 4 maps with url (http://, https:// or secret:NAME), on (a list of completed, "
         "failed, best, node_lost and log_match: PATTERN), and perhaps secret (a name of shoal secret ls) and form: slack"},
        {"keep", NULL, "../x",
         "keep is '../x'; allowed is a list of at most 16 paths of 1 ... 255 bytes below the context directory, without '..'"},
        {"keep", NULL, "[a, /b]",
         "keep has '/b'; allowed are paths below the context directory, such as checkpoints/, without '..' and not absolute (a "
         "program can write elsewhere into $SHOAL_OUTPUT_DIR)"},
        {"keep", NULL, "{a: b}",
         "keep is a map; allowed is a list of at most 16 paths of 1 ... 255 bytes below the context directory, without '..'"},
        {"keep_bytes_max", NULL, "0",
         "keep_bytes_max is '0'; allowed are 1 ... 274877906944 bytes, and numbers with the units K, M, G and T (of 1,024; also "
         "KiB, MiB, GiB and TiB), such as 512M or 16G"},
        {"keep_bytes_max", NULL, "16X",
         "keep_bytes_max is '16X'; allowed are 1 ... 274877906944 bytes, and numbers with the units K, M, G and T (of 1,024; "
         "also KiB, MiB, GiB and TiB), such as 512M or 16G"},
        {"keep_ranks", NULL, "some", "keep_ranks is 'some'; allowed are first, all"},
        {"mlflow", NULL, "1", "mlflow is '1'; allowed are true, false, on, off"},
        {"metrics_from_output", NULL, "1", "metrics_from_output is '1'; allowed are true, false, on, off"},
        {"tensorboard", NULL, "write", "tensorboard is 'write'; allowed are keep, read"},
        {"max_restarts", NULL, "-1", "max_restarts is '-1'; allowed are 0 ... 1000"},
        {"max_restarts", NULL, "1001", "max_restarts is '1001'; allowed are 0 ... 1000"},
        {"retry", NULL, "sometimes", "retry is 'sometimes'; allowed are node, any, never"},
        {"exit_barrier", NULL, "-1",
         "exit_barrier is '-1'; allowed are 0 ... 604800 seconds, and numbers with the units s, m, h and d, such as 90s, 5m or "
         "1h30m"},
        {"exit_barrier", NULL, "soon",
         "exit_barrier is 'soon'; allowed are 0 ... 604800 seconds, and numbers with the units s, m, h and d, such as 90s, 5m "
         "or 1h30m"},
        {"stall_timeout", NULL, "[3]",
         "stall_timeout is a list; allowed are 0 ... 604800 seconds, and numbers with the units s, m, h and d, such as 90s, 5m "
         "or 1h30m"},
        {"stall_timeout", NULL, "1e9",
         "stall_timeout is '1e9'; allowed are 0 ... 604800 seconds, and numbers with the units s, m, h and d, such as 90s, 5m "
         "or 1h30m"},
        {"stop_signal", NULL, "SIGKILL", "stop_signal is 'SIGKILL'; allowed are SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2"},
        {"seed", NULL, "-1", "seed is '-1'; allowed are 0 ... 9223372036854775807"},
        {"seed", NULL, "9223372036854775808", "seed is '9223372036854775808'; allowed are 0 ... 9223372036854775807"},
        {"seed_of_trial", NULL, "100000", "seed_of_trial is '100000'; allowed are 0 ... 99999"},
        {"preemption_timeout", NULL, "x",
         "preemption_timeout is 'x'; allowed are 0 ... 86400 seconds, and numbers with the units s, m, h and d, such as 90s, 5m "
         "or 1h30m"},
        {"on_partition", NULL, "stop", "on_partition is 'stop'; allowed are continue, pause_minority"},
        {"collective_timeout", NULL, "0",
         "collective_timeout is '0'; allowed are 1 ... 86400 seconds, and numbers with the units s, m, h and d, such as 90s, 5m "
         "or 1h30m"},
        {"balance", NULL, "1", "balance is '1'; allowed are true, false, on, off"},
        {"searcher.n_startup_trials", RANDOM, "5", "searcher.n_startup_trials has no effect with searcher.name random; remove it or use tpe, or asha or adaptive_asha with sampler: tpe"},
        {"searcher.warm_start", RANDOM, "one", "searcher.warm_start is 'one'; allowed is a list of at most 64 experiments (EXP) or trials (EXP/TRIAL)"},
        {"searcher.warm_start", RANDOM, "[[a]]", "searcher.warm_start is a list; allowed is a list of at most 64 experiments (EXP) or trials (EXP/TRIAL)"},
        {"checkpoint.begin_from", NULL, "mlp/0", "checkpoint.begin_from is 'mlp/0'; allowed is EXPERIMENT/TRIAL@STEP with the whole id, such as a1b2c3d4e5f60718/0@400"},
        {"checkpoint.begin_from", NULL, "[a]", "checkpoint.begin_from is a list; allowed are texts of 1 ... 63 bytes without control characters"},
        {"depends_on", NULL, "prep", "depends_on is 'prep'; allowed is a list of at most 16 experiments, by their names or ids"},
        {"depends_on", NULL, "[[a]]", "depends_on is a list; allowed is a list of at most 16 experiments, by their names or ids"},
        {"depends_on", NULL, "['']", "depends_on is empty; allowed is a list of at most 16 experiments, by their names or ids"},
        {"start_after", NULL, "tomorrow", "start_after is 'tomorrow'; allowed is " START},
        {"start_after", NULL, "3600", "start_after is '3600'; allowed is " START},
        {"start_after", NULL, "2026-02-29", "start_after is '2026-02-29'; allowed is " START},
        {"max_runtime", NULL, "long", "max_runtime is 'long'; allowed are 0 ... 31536000 seconds, and numbers with the units s, m, h and d, such as 90s, 5m or 1h30m"},
        {"max_runtime", NULL, "366d", "max_runtime is '366d'; allowed are 0 ... 31536000 seconds, and numbers with the units s, m, h and d, such as 90s, 5m or 1h30m"},
        {"resources.constraints", NULL, "A100", "resources.constraints is 'A100'; allowed is " FITTING},
        {"resources.constraints", NULL, "{memory: much}", "resources.constraints is 'much'; allowed is " FITTING},
        {"resources.constraints", NULL, "{labels: fast}", "resources.constraints is 'fast'; allowed is " FITTING},
        {"resources.constraints", NULL, "{model: [[a]]}", "resources.constraints is a list; allowed is " FITTING},
        {"resources.constraints", NULL, "{modle: A100}", "unknown key 'resources.constraints.modle'; did you mean 'model'? (allowed are model, memory, labels)"},
        {"logs.max_bytes", NULL, "10K", "logs.max_bytes is '10K'; allowed are 1048576 ... 1099511627776 bytes, and numbers with the units K, M, G and T (of 1,024; also KiB, MiB, GiB and TiB), such as 512M or 16G"},
        {"logs.max_bytes", NULL, "much", "logs.max_bytes is 'much'; allowed are 1048576 ... 1099511627776 bytes, and numbers with the units K, M, G and T (of 1,024; also KiB, MiB, GiB and TiB), such as 512M or 16G"},
        {"logs.keep", NULL, "soon", "logs.keep is 'soon'; allowed are 0 ... 3153600000 seconds, and numbers with the units s, m, h and d, such as 90s, 5m or 1h30m"},
        {"logs.keep", NULL, "[1]", "logs.keep is a list; allowed are 0 ... 3153600000 seconds, and numbers with the units s, m, h and d, such as 90s, 5m or 1h30m"},
};

#define ROWS (sizeof rows / sizeof rows[0])

struct overrides {
    char text[1024];
    const char *list[OVERRIDES_MAX];
    size_t count;
};

static void add_beside(const struct row *row, struct overrides *out)
{
    out->count = 0;
    (void)snprintf(out->text, sizeof out->text, "%s", row->beside != NULL ? row->beside : "");
    for (char *at = strtok(out->text, ";"); at != NULL; at = strtok(NULL, ";")) {
        assert_true(out->count < OVERRIDES_MAX - 1);
        out->list[out->count++] = at;
    }
}

static void expect(const struct row *row, const char *text, const struct overrides *overrides, const char *place)
{
    struct config config;
    char wanted[CONFIG_ERROR_BYTES];
    (void)snprintf(wanted, sizeof wanted, "%s: %s", place, row->sentence);
    int result = config_parse_yaml("exp.yaml", text, strlen(text), overrides->list, overrides->count, scratch, sizeof scratch, &config,
                                   error_text);
    if (result != ERR_MALFORMED || strcmp(error_text, wanted) != 0) {
        fail_msg("%s: %s with %s\nsays   '%s'\nwanted '%s'", row->key, row->value, row->beside != NULL ? row->beside : "nothing beside",
                 error_text, wanted);
    }
}

/* A file needs an entrypoint; where the row is about that, it has a name instead. */
static const char *other_line(const struct row *row)
{
    return strcmp(row->key, "entrypoint") == 0 ? "name: n\n" : "entrypoint: x\n";
}

static void a_bad_value_of_the_command_line_is_refused_in_one_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct overrides overrides;
        char assignment[256], place[300];
        (void)snprintf(assignment, sizeof assignment, "%s=%s", rows[i].key, rows[i].value);
        (void)snprintf(place, sizeof place, "--set %s", assignment);
        add_beside(&rows[i], &overrides);
        overrides.list[overrides.count++] = assignment;
        expect(&rows[i], other_line(&rows[i]), &overrides, place);
    }
}

static void a_bad_value_of_the_file_is_refused_in_one_sentence_with_its_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct overrides overrides;
        char text[512];
        const char *key = rows[i].key, *dot = strchr(key, '.');
        int used = snprintf(text, sizeof text, "%s", other_line(&rows[i]));
        if (dot != NULL) {
            used += snprintf(text + used, sizeof text - (size_t)used, "%.*s:\n  ", (int)(dot - key), key);
        }
        (void)snprintf(text + used, sizeof text - (size_t)used, "%s: %s\n", dot != NULL ? dot + 1 : key, rows[i].value);
        add_beside(&rows[i], &overrides);
        expect(&rows[i], text, &overrides, dot != NULL ? "exp.yaml:3" : "exp.yaml:2");
    }
}

/* Marks the rows of the key, and fails where there is none. */
static void want_row(void *context, const struct config_option_text *text)
{
    bool *is_known = context;
    bool has_row = false;
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].key, text->key) == 0) {
            is_known[i] = has_row = true;
        }
    }
    if (!has_row) {
        fail_msg("%s has no row above: add a value that it refuses, and the sentence", text->key);
    }
}

static void each_key_that_help_config_lists_has_a_row(void **state)
{
    (void)state;
    bool is_known[ROWS] = {false};
    config_describe(want_row, is_known);
    for (size_t i = 0; i < ROWS; i++) {
        if (!is_known[i]) {
            fail_msg("%s has a row above, and is no key", rows[i].key);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_value_of_the_command_line_is_refused_in_one_sentence),
        cmocka_unit_test(a_bad_value_of_the_file_is_refused_in_one_sentence_with_its_line),
        cmocka_unit_test(each_key_that_help_config_lists_has_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
