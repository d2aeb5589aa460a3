#include "node/config/determined.h"

#include <string.h>

#define NO_CONTAINERS "there are no containers; "
#define BY_PROGRAM "the program decides how long it trains, and when it validates and saves"
#define MODULE "determined.launch."
#define BLANKS " \t\n"

static const struct {
    const char *key, *what;
} rows[] = {
    {"bind_mounts", NO_CONTAINERS "the program sees the files of its node at their own paths"},
    {"checkpoint_policy", BY_PROGRAM},
    {"checkpoint_storage", "nodes keep checkpoints themselves; write save_experiment_best, save_trial_best and save_trial_latest "
                           "below checkpoint, where replicas says on how many nodes each is"},
    {"data", "Shoal does not hand it to programs; write what they need as hyperparameters"},
    {"debug", "shoal logs has all that a program writes, and shoald has a log level of its own"},
    {"environment.add_capabilities", NO_CONTAINERS "the program runs as the daemon's user"},
    {"environment.drop_capabilities", NO_CONTAINERS "the program runs as the daemon's user"},
    {"environment.force_pull_image", NO_CONTAINERS "install on the nodes what the program needs"},
    {"environment.image", NO_CONTAINERS "install on the nodes what the program needs"},
    {"environment.pod_spec", NO_CONTAINERS "install on the nodes what the program needs"},
    {"environment.ports", NO_CONTAINERS "a program listens on its node's own ports"},
    {"environment.proxy_ports", "there is no proxy; a program listens on its node's own ports, and other machines connect to that node"},
    {"environment.registry_auth", NO_CONTAINERS "install on the nodes what the program needs"},
    {"integrations", "Shoal starts the program without them"},
    {"log_policies", "retry, stall_timeout and max_restarts say which failures are tried again"},
    {"log_retention_days", "logs are kept until shoal delete"},
    {"min_checkpoint_period", BY_PROGRAM},
    {"min_validation_period", BY_PROGRAM},
    {"optimizations", "the program's own framework averages gradients"},
    {"perform_initial_validation", BY_PROGRAM},
    {"pbs", "Shoal starts programs itself, without a batch system"},
    {"profiling", "shoal show has the times and the traffic of trials, for all of them"},
    {"project", "experiments are found by name and by labels"},
    {"records_per_epoch", "the program itself counts epochs"},
    {"reproducibility", "write seed at the top level for its experiment_seed"},
    {"resources.agent_label", "shoald --label gives a node labels, and resources.constraints asks for them"},
    {"resources.devices", NO_CONTAINERS "the program sees the devices of its node"},
    {"resources.resource_pool", "there are no resource pools; use slot_kind and constraints to choose slots"},
    {"resources.shm_size", NO_CONTAINERS "the program has all of its node's /dev/shm"},
    {"resources.weight", "trials take turns by resources.priority"},
    {"scheduling_unit", BY_PROGRAM},
    {"slurm", "Shoal starts programs itself, without a batch system"},
    {"tensorboard_storage", "files that a program writes into $SHOAL_OUTPUT_DIR are kept, those of TensorBoard too"},
    {"workspace", "experiments are found by name and by labels"},
};

const char *determined_key(const char *key)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].key, key) == 0) {
            return rows[i].what;
        }
    }
    return NULL;
}

/* ---- launchers ---- */

/* Launchers whose work is done without them, or can do without them. */
static const struct {
    const char *name, *advice;
} dropped[] = {
    {"deepspeed", "is dropped from the entrypoint: Shoal starts one process per slot"},
    {"tensorflow", "is dropped from the entrypoint: Shoal starts one process per slot; with several slots the program has to set "
                   "TF_CONFIG from RANK and WORLD_SIZE, since Shoal does not"},
    {"torch_distributed", "is dropped from the entrypoint: Shoal starts one process per slot"},
};

/* The bytes of blanks at `text`, and of line ends that a shell skips. */
static size_t blanks(const char *text)
{
    size_t bytes = 0;
    for (size_t more = 1; more > 0; bytes += more) {
        more = strspn(text + bytes, BLANKS);
        more += strncmp(text + bytes + more, "\\\n", 2) == 0 ? 2 : 0;
    }
    return bytes;
}

static bool is_word(const char *text, size_t bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* Steps over the word at *at and the blanks behind it; returns the word's bytes. */
static size_t step(const char **at, const char **word)
{
    size_t bytes = strcspn(*at, BLANKS);
    *word = *at;
    *at += bytes;
    *at += blanks(*at);
    return bytes;
}

/* The command behind the launcher: at `at`, or behind the "--" that ends the launcher's options. NULL: there is none. */
static const char *find_command(const char *at)
{
    const char *word = at, *command = *at == '-' ? NULL : at;
    while (command == NULL && *at != '\0') {
        size_t bytes = step(&at, &word);
        if (is_word(word, bytes, "--trial")) {
            return NULL;
        }
        command = is_word(word, bytes, "--") ? at : NULL;
    }
    return command != NULL && *command != '\0' ? command : NULL;
}

bool determined_find_launcher(const char *entrypoint, struct determined_launcher *out)
{
    const char *at = entrypoint + blanks(entrypoint), *word;
    size_t bytes = step(&at, &word);
    bool is_python = is_word(word, bytes, "python3") || is_word(word, bytes, "python");
    bytes = step(&at, &word);
    if (!is_python || !is_word(word, bytes, "-m")) {
        return false;
    }
    bytes = step(&at, &word);
    if (bytes <= strlen(MODULE) || memcmp(word, MODULE, strlen(MODULE)) != 0) {
        return false;
    }
    *out = (struct determined_launcher){
        .name = word,
        .name_bytes = bytes,
        .advice = "cannot be used: it is a part of Determined, whose trial classes and master Shoal has not; write the command that "
                  "runs one process, which Shoal starts once per slot",
    };
    const char *command = find_command(at);
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0] && command != NULL; i++) {
        if (is_word(word + strlen(MODULE), bytes - strlen(MODULE), dropped[i].name)) {
            out->is_dropped = true;
            out->advice = dropped[i].advice;
            out->bytes = (size_t)(command - entrypoint);
        }
    }
    return true;
}
