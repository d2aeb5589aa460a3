#include "node/daemon/workers/environment.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interface.h"
#include "base/json.h"
#include "node/config/hparams.h"
#include "node/daemon/workers/inherited.h"
#include "node/secret_box.h"
#include "node/daemon/workers/trial_token.h"
#include "node/slots/processors.h"

#define DEBIAN_TORCH_VERSION "/usr/lib/python3/dist-packages/torch/version.py"
#define STANDARD_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

/* ---- the list of variables --------------------------------------------------------------------------------------- */

static char **find(struct worker_start *start, const char *name, size_t bytes)
{
    for (size_t i = 0; i < start->count; i++) {
        if (strncmp(start->variables[i], name, bytes) == 0 && start->variables[i][bytes] == '=') {
            return &start->variables[i];
        }
    }
    return NULL;
}

/* The value of a variable that is set so far; NULL: it is not set. */
static const char *get(struct worker_start *start, const char *name)
{
    char **found = find(start, name, strlen(name));
    return found != NULL ? *found + strlen(name) + 1 : NULL;
}

/* Takes `variable` ("NAME=value" from malloc, or NULL: no memory) into the list. */
static void put(struct worker_start *start, char *variable)
{
    if (variable == NULL) {
        start->failed = true;
        return;
    }
    char **found = find(start, variable, strcspn(variable, "="));
    if (found != NULL) {
        free(*found);
        *found = variable;
        return;
    }
    if (start->count == start->capacity) {
        size_t capacity = 2 * start->capacity + 64;
        char **grown = realloc(start->variables, capacity * sizeof *grown);
        if (grown == NULL) {
            start->failed = true;
            free(variable);
            return;
        }
        start->variables = grown;
        start->capacity = capacity;
    }
    start->variables[start->count++] = variable;
}

static void set_n(struct worker_start *start, const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    char *text = malloc(name_bytes + value_bytes + 2);
    if (text != NULL) {
        memcpy(text, name, name_bytes);
        text[name_bytes] = '=';
        memcpy(text + name_bytes + 1, value, value_bytes);
        text[name_bytes + 1 + value_bytes] = '\0';
    }
    put(start, text);
}

static void set(struct worker_start *start, const char *name, const char *value)
{
    set_n(start, name, strlen(name), value, strlen(value));
}

static void set_number(struct worker_start *start, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    set(start, name, text);
}

/* Sets a variable that nobody has set so far. */
static void set_default(struct worker_start *start, const char *name, const char *value)
{
    if (get(start, name) == NULL) {
        set(start, name, value);
    }
}

/* ---- the parts --------------------------------------------------------------------------------------------------- */

static void add_inherited(struct worker_start *start, const struct inherited_rules *rules)
{
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strchr(*variable, '=') != NULL && inherited_passes(*variable, rules)) {
            put(start, strdup(*variable));
        }
    }
    const char *path = getenv("PATH");
    set(start, "PATH", path != NULL ? path : STANDARD_PATH);
    for (size_t i = 0; i < rules->count; i++) {
        if (strchr(rules->items[i], '=') != NULL) {
            put(start, strdup(rules->items[i]));
        }
    }
}

static bool path_has(const char *path, const char *directory, size_t bytes)
{
    while (*path != '\0') {
        size_t part = strcspn(path, ":");
        if (part == bytes && memcmp(path, directory, bytes) == 0) {
            return true;
        }
        path += part + (path[part] == ':');
    }
    return false;
}

/* Adds those of the directories, separated by colons, that the variable lacks to its end. */
static void append_path(struct worker_start *start, const char *name, const char *directories)
{
    for (const char *at = directories; *at != '\0';) {
        size_t bytes = strcspn(at, ":");
        const char *path = get(start, name);
        path = path != NULL ? path : "";
        if (bytes > 0 && !path_has(path, at, bytes)) {
            char *longer = malloc(strlen(name) + strlen(path) + bytes + 3);
            if (longer != NULL) {
                (void)sprintf(longer, "%s=%s%s%.*s", name, path, path[0] != '\0' ? ":" : "", (int)bytes, at);
            }
            put(start, longer);
        }
        at += bytes + (at[bytes] == ':');
    }
}

/* So that shoal-train and the system's programs are found whatever PATH the configuration sets; at the end, since /usr/bin must
 * not hide the python of an environment. */
static void complete_path(struct worker_start *start, const char *program_directory)
{
    char more[KEEP_PATH_BYTES + sizeof STANDARD_PATH + 2];
    (void)snprintf(more, sizeof more, "%s:" STANDARD_PATH, program_directory);
    append_path(start, "PATH", more);
}

/* So that `import shoal` works in any Python: the package lies beside the programs, in a build directory or as installed. Its
 * directory holds nothing else, and stands behind the directories of the configuration. */
static void add_python(struct worker_start *start, const char *program_directory)
{
    static const char *const places[] = {"python", "../share/shoal/python"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char directory[KEEP_PATH_BYTES + 32], module[sizeof directory + 32];
        (void)snprintf(directory, sizeof directory, "%s/%s", program_directory, places[i]);
        (void)snprintf(module, sizeof module, "%s/shoal/__init__.py", directory);
        if (access(module, R_OK) == 0) {
            append_path(start, "PYTHONPATH", directory);
            return;
        }
    }
}

/* The virtual environment that packages.h has linked to the worker's directory, as its `activate` would set it. */
static void add_packages(struct worker_start *start, const char *directory)
{
    char link[KEEP_PATH_BYTES + 16], environment[KEEP_PATH_BYTES];
    (void)snprintf(link, sizeof link, "%s/packages", directory);
    ssize_t bytes = readlink(link, environment, sizeof environment - 1);
    if (bytes <= 0) {
        return;
    }
    environment[bytes] = '\0';
    set(start, "VIRTUAL_ENV", environment);
    const char *path = get(start, "PATH");
    char *longer = malloc(strlen(path) + (size_t)bytes + sizeof "PATH=/bin:");
    if (longer != NULL) {
        (void)sprintf(longer, "PATH=%s/bin:%s", environment, path);
    }
    put(start, longer);
}

/* The interface that carries the node's address in the group. gloo would take the address of the host's name instead, which
 * is 127.0.1.1 on Debian, and NCCL the first interface, which may be a bridge of containers. */
static void add_interface(struct worker_start *start, const char *host)
{
    char name[IF_NAMESIZE + 16], exact[IF_NAMESIZE + 17];
    if (!interface_of_address(host, name, sizeof name)) {
        return; /* the address is that of a router in front of this machine: programs choose by themselves */
    }
    (void)snprintf(exact, sizeof exact, "=%s", name);
    set_default(start, "GLOO_SOCKET_IFNAME", name);
    set_default(start, "NCCL_SOCKET_IFNAME", exact); /* without the sign the name is a prefix, and eth1 stands for eth10 too */
    set_default(start, "TP_SOCKET_IFNAME", name);
}

/* Each slot has the same share of the processors that the daemon may use. */
static uint32_t slot_processors(const struct daemon *daemon)
{
    uint32_t usable = processors_usable(), slots = daemon->slot_count > 0 ? (uint32_t)daemon->slot_count : 1;
    return usable > slots ? usable / slots : 1;
}

/* Debian's PyTorch is built without libuv, but from 2.4 on wants it by default, and fails. Another PyTorch of this machine, with
 * libuv, works without it, too. */
static bool debian_lacks_libuv(const char *version_file)
{
    char line[256] = "";
    unsigned int major = 0, minor = 0;
    FILE *file = fopen(version_file, "re");
    bool is_read = file != NULL && fgets(line, sizeof line, file) != NULL &&
                   sscanf(line, "__version__ = '%u.%u", &major, &minor) == 2;
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_read && (major > 2 || (major == 2 && minor >= 4));
}

static void add_defaults(struct worker_start *start, const struct daemon *daemon, const struct node_effect *effect,
                         const struct config *config, const char *directory)
{
    char text[KEEP_PATH_BYTES + 32], experiment[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(experiment, effect->u.worker.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    (void)snprintf(text, sizeof text, "%s-%u", experiment, effect->u.worker.attempt.trial);
    set_default(start, "TORCHELASTIC_RUN_ID", text);
    /* Attempts before this one, also those that no restart is counted for since a node was lost: a program that looks at the
     * number wants to know whether it is the first. */
    (void)snprintf(text, sizeof text, "%u", effect->u.worker.attempt.number > 0 ? effect->u.worker.attempt.number - 1 : 0);
    set_default(start, "TORCHELASTIC_RESTART_COUNT", text);
    (void)snprintf(text, sizeof text, "%u", config->max_restarts);
    set_default(start, "TORCHELASTIC_MAX_RESTARTS", text);
    set_default(start, "TORCHELASTIC_USE_AGENT_STORE", "False"); /* rank 0 serves the store at MASTER_PORT, not the daemon */
    (void)snprintf(text, sizeof text, "%s/error.json", directory);
    set_default(start, "TORCHELASTIC_ERROR_FILE", text);
    set_default(start, "TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"); /* from torchrun to itself only */
    set_default(start, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    set_default(start, "NCCL_ASYNC_ERROR_HANDLING", "1"); /* its name before PyTorch 2.2 */
    set_default(start, "ROLE_NAME", "default");
    (void)snprintf(text, sizeof text, "%u", slot_processors(daemon));
    set_default(start, "OMP_NUM_THREADS", text);
    add_interface(start, effect->u.worker.host[0] != '\0' ? effect->u.worker.host : daemon->host);
    if (daemon->slots[effect->u.worker.slot].kind == SLOT_CPU) {
        set_default(start, "ACCELERATE_USE_CPU", "true"); /* else Accelerate lets each rank train alone where it finds no GPU */
    }
    set_default(start, "PYTHONUNBUFFERED", "1"); /* output goes into a pipe, and would come in pieces of 8 KiB */
    if (debian_lacks_libuv(DEBIAN_TORCH_VERSION)) {
        set_default(start, "USE_LIBUV", "0");
    }
}

static void add_config(struct worker_start *start, const struct config *config)
{
    struct pack_reader reader;
    pack_reader_init(&reader, config->environment, config->environment_bytes);
    uint32_t pairs = config->environment_bytes > 0 ? pack_read_map(&reader) : 0;
    for (uint32_t i = 0; i < pairs && !reader.failed; i++) {
        size_t name_bytes, value_bytes;
        const char *name = pack_read_text(&reader, &name_bytes);
        const char *value = pack_read_text(&reader, &value_bytes);
        if (!reader.failed) {
            set_n(start, name, name_bytes, value, value_bytes);
        }
    }
}

/* A worker on a processor slot is to use no GPU: the GPUs are slots of another node here, or nobody's. Elsewhere the variable would
 * only be a difference to torchrun. */
static bool machine_has_gpus(void)
{
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0; /* the second one under Windows */
}

/* All ranks of the attempt on this node see the same whole GPUs, and LOCAL_RANK is the place in the list, as under torchrun. CUDA
 * gives a process one MIG device at most: such a rank sees its own only, and its LOCAL_RANK is 0, as with torchrun's
 * virtual_local_rank. */
static void add_gpus(struct worker_start *start, const struct daemon *daemon, const struct node_effect *effect)
{
    const struct slot_info *own = &daemon->slots[effect->u.worker.slot];
    char list[SLOTS_MAX * sizeof own->visible] = "";
    size_t used = 0;
    bool is_split = false;
    for (uint32_t i = 0; i < effect->u.worker.local_size; i++) {
        uint32_t slot = effect->u.worker.local_slots[i];
        const struct slot_info *info = slot < daemon->slot_count ? &daemon->slots[slot] : own;
        is_split |= info->is_part || info->kind != SLOT_CUDA;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? "," : "", info->visible);
    }
    if (own->kind == SLOT_CUDA) {
        set(start, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"); /* the order of the numbers; CUDA's own order begins with the fastest */
        set(start, "CUDA_VISIBLE_DEVICES", is_split ? own->visible : list);
        set_number(start, "LOCAL_RANK", is_split ? 0 : effect->u.worker.local_rank);
    } else {
        if (machine_has_gpus()) {
            set(start, "CUDA_VISIBLE_DEVICES", "");
        }
        set_number(start, "LOCAL_RANK", effect->u.worker.local_rank);
    }
}

static void add_ranks(struct worker_start *start, const struct node_effect *effect)
{
    set_number(start, "RANK", effect->u.worker.rank);
    set_number(start, "WORLD_SIZE", effect->u.worker.size);
    set_number(start, "LOCAL_WORLD_SIZE", effect->u.worker.local_size);
    set_number(start, "GROUP_RANK", effect->u.worker.node_rank);
    set_number(start, "GROUP_WORLD_SIZE", effect->u.worker.node_count);
    set_number(start, "ROLE_RANK", effect->u.worker.rank);
    set_number(start, "ROLE_WORLD_SIZE", effect->u.worker.size);
    set(start, "MASTER_ADDR", effect->u.worker.master_host);
    set_number(start, "MASTER_PORT", effect->u.worker.master_port);
}

static void add_own(struct worker_start *start, const struct daemon *daemon, const struct node_effect *effect,
                    const struct config *config)
{
    char text[KEEP_PATH_BYTES + 32];
    (void)snprintf(text, sizeof text, "%s/shoald.sock", daemon->dir);
    set(start, "SHOAL_SOCKET", text);
    bytes_to_hex(text, effect->u.worker.token.bytes, TOKEN_BYTES);
    set(start, "SHOAL_TOKEN", text);
    ports_write(daemon->options.ports, text);
    set(start, "SHOAL_PORTS", text);
    bytes_to_hex(text, effect->u.worker.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    set(start, "SHOAL_EXPERIMENT", text);
    set_number(start, "SHOAL_TRIAL", effect->u.worker.attempt.trial);
    set_number(start, "SHOAL_ATTEMPT", effect->u.worker.attempt.number);
    set_number(start, "SHOAL_RANK", effect->u.worker.rank);
    set_number(start, "SHOAL_SIZE", effect->u.worker.size);
    set_number(start, "SHOAL_SEED", effect->u.worker.seed);
    set_number(start, "SHOAL_COLLECTIVE_TIMEOUT", config->collective_timeout_s);
}

/* Adds a host to those that are reached without a proxy. */
static void add_direct(struct worker_start *start, const char *name, const char *host)
{
    const char *hosts = get(start, name);
    if (hosts == NULL || strstr(hosts, host) == NULL) {
        char text[1024];
        int bytes = snprintf(text, sizeof text, "%s%s%s", hosts != NULL ? hosts : "",
                             hosts != NULL && hosts[0] != '\0' ? "," : "", host);
        if (bytes > 0 && (size_t)bytes < sizeof text) {
            set(start, name, text);
        }
    }
}

/* So that a program that logs to MLflow writes to its trial, at this node's own door (docs/mlflow.md). A program with a
 * server of its own keeps it, and then the ids of this one would only mislead. */
static void add_mlflow(struct worker_start *start, const struct daemon *daemon, const struct node_effect *effect,
                       const struct config *config)
{
    const attempt_id *attempt = &effect->u.worker.attempt;
    char token[TRIAL_TOKEN_BYTES], text[64], experiment[2 * EXPERIMENT_ID_BYTES + 1];
    if (!config->mlflow || daemon->http_address[0] == '\0' || get(start, "MLFLOW_TRACKING_URI") != NULL) {
        return;
    }
    trial_token_of(effect->u.worker.token, token);
    bytes_to_hex(experiment, attempt->experiment.bytes, EXPERIMENT_ID_BYTES);
    set(start, "MLFLOW_TRACKING_URI", daemon->http_address);
    if (strncmp(daemon->http_address, "https:", 6) == 0) {
        set_default(start, "MLFLOW_TRACKING_SERVER_CERT_PATH", daemon->http_certificate);
    }
    if (get(start, "http_proxy") != NULL || get(start, "HTTP_PROXY") != NULL) {
        add_direct(start, "no_proxy", "127.0.0.1");
        add_direct(start, "NO_PROXY", "127.0.0.1");
    }
    set_default(start, "MLFLOW_TRACKING_TOKEN", token);
    (void)snprintf(text, sizeof text, "%s%016x", experiment, attempt->trial);
    set_default(start, "MLFLOW_RUN_ID", text);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)(bytes_get_u64(attempt->experiment.bytes) & INT64_MAX));
    set_default(start, "MLFLOW_EXPERIMENT_ID", text);
}

/* The lengths of the trial's rungs, ascending, with blanks between them, and what they count. They never change: a search that is
 * extended leaves each trial in its bracket. */
static void add_rungs(struct worker_start *start, const struct node_effect *effect, const struct config *config)
{
    char text[SEARCH_RUNGS_MAX * 24] = "";
    if (!search_halves(config->searcher) && config->searcher != SEARCH_PBT) {
        return;
    }
    const struct search_halving halving = config_search_halving(config);
    struct search_brackets brackets;
    search_brackets_make(&halving, &brackets);
    uint32_t rungs = brackets.list[search_trial_bracket(&brackets, effect->u.worker.attempt.trial)].rungs;
    uint64_t last = 0;
    for (uint32_t rung = 0, used = 0; rung < rungs; rung++) {
        uint64_t target = config_rung_target(config, effect->u.worker.attempt.trial, rungs, rung);
        if (target > last) { /* low rungs of a short search may be equal */
            used += (uint32_t)snprintf(text + used, sizeof text - used, "%s%llu", used > 0 ? " " : "", (unsigned long long)target);
        }
        last = target;
    }
    set(start, "SHOAL_RUNGS", text);
    set(start, "SHOAL_RUNG_UNIT", config->time_metric);
}

/* ---- hyperparameters --------------------------------------------------------------------------------------------- */

static void add_hparam(void *context, const char *variable, struct pack_reader value)
{
    char *text = hparams_text(value);
    /* A longer value is in the file only. */
    if (text != NULL && strlen(variable) + strlen(text) + 2 <= KEEP_VARIABLE_BYTES) {
        set(context, variable, text);
    }
    ((struct worker_start *)context)->failed |= text == NULL;
    free(text);
}

static void add_hparams(struct worker_start *start, const struct node_effect *effect, const struct config *config,
                        const struct view_attempt *attempt, const char *directory)
{
    uint8_t *bytes = malloc(SEARCH_VALUES_BYTES_MAX);
    struct pack_writer writer;
    struct pack_reader values;
    pack_writer_init(&writer, bytes, bytes != NULL ? SEARCH_VALUES_BYTES_MAX : 0);
    bool is_read = view_attempt_values(config, attempt, effect->u.worker.attempt.trial, &writer) == 0;
    bool is_other = attempt != NULL && view_attempt_draw(attempt) != effect->u.worker.draw;
    if ((!is_read || is_other) && config_is_drawn(config)) { /* no program is to train with other values than the record has */
        start->failed = true;
        free(bytes);
        return;
    }
    if (!is_read) { /* the memory is short, or the record is of a later version */
        pack_writer_init(&writer, bytes, bytes != NULL ? SEARCH_VALUES_BYTES_MAX : 0);
        pack_map(&writer, 0);
    }
    pack_reader_init(&values, bytes, writer.used_bytes);
    start->hparams = hparams_text(values);
    start->entrypoint = hparams_fill(config_entrypoint(config), values);
    start->failed |= bytes == NULL || start->hparams == NULL || start->entrypoint == NULL;
    if (start->failed) {
        free(bytes);
        return;
    }
    char path[KEEP_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/" HPARAMS_FILE, directory);
    set(start, "SHOAL_HPARAMS_FILE", path);
    if (strlen(start->hparams) + sizeof "SHOAL_HPARAMS=" <= KEEP_VARIABLE_BYTES) {
        set(start, "SHOAL_HPARAMS", start->hparams);
    }
    (void)hparams_variables(values, add_hparam, start);
    free(bytes);
}

/* ---- conda ------------------------------------------------------------------------------------------------------- */

/* True if conda is installed in the directory: then `script` is the file that defines the command `conda`. */
static bool conda_script(const char *directory, size_t bytes, const char *below, char *script, size_t size)
{
    int length = snprintf(script, size, "%.*s%s/etc/profile.d/conda.sh", (int)bytes, directory, below);
    return bytes > 0 && length > 0 && (size_t)length < size && access(script, R_OK) == 0;
}

/* The directory of a program's directory: "/opt/conda/bin/conda" -> "/opt/conda". */
static size_t prefix_bytes(const char *program)
{
    const char *bin = strstr(program, "/bin/");
    for (const char *next = bin; next != NULL; next = strstr(next + 1, "/bin/")) {
        bin = next;
    }
    return bin != NULL ? (size_t)(bin - program) : 0;
}

static bool conda_find(struct worker_start *start, char *script, size_t size)
{
    static const char *const at_home[] = {"/miniforge3", "/miniconda3", "/mambaforge", "/anaconda3", "/conda"};
    static const char *const elsewhere[] = {"/opt/conda", "/opt/miniforge3", "/opt/miniconda3", "/opt/anaconda3"};
    const char *program = get(start, "CONDA_EXE"), *home = get(start, "HOME"), *path = get(start, "PATH");
    if (program != NULL && conda_script(program, prefix_bytes(program), "", script, size)) {
        return true;
    }
    for (const char *at = path; at != NULL && *at != '\0';) { /* .../bin or .../condabin */
        size_t bytes = strcspn(at, ":"), parent = bytes;
        while (parent > 0 && at[parent - 1] != '/') {
            parent--;
        }
        if (parent > 1 && conda_script(at, parent - 1, "", script, size)) {
            return true;
        }
        at += bytes + (at[bytes] == ':');
    }
    for (size_t i = 0; home != NULL && i < sizeof at_home / sizeof at_home[0]; i++) {
        if (conda_script(home, strlen(home), at_home[i], script, size)) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        if (conda_script(elsewhere[i], strlen(elsewhere[i]), "", script, size)) {
            return true;
        }
    }
    return false;
}

/* `conda activate` is a function of the shell that only an interactive one has: here its definition comes first. */
static void prepare_conda(struct worker_start *start)
{
    char script[KEEP_PATH_BYTES];
    bool is_wanted = start->entrypoint != NULL &&
                     (strstr(start->entrypoint, "conda activate") != NULL || strstr(start->entrypoint, "mamba activate") != NULL);
    if (!is_wanted || !conda_find(start, script, sizeof script) || strchr(script, '\'') != NULL) {
        return;
    }
    char *longer = malloc(strlen(script) + strlen(start->entrypoint) + 6);
    if (longer == NULL) {
        start->failed = true;
        return;
    }
    (void)sprintf(longer, ". '%s'\n%s", script, start->entrypoint);
    free(start->entrypoint);
    start->entrypoint = longer;
}

/* The directories for files that outlive the worker; SHOAL_RESTORE_DIR only if a checkpoint was put back. */
static void add_outputs(struct worker_start *start, const char *directory)
{
    char path[KEEP_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/output", directory);
    set(start, "SHOAL_OUTPUT_DIR", path);
    (void)snprintf(path, sizeof path, "%s/output/tensorboard", directory); /* tools/shoal/board_files.c finds it in a snapshot */
    set(start, "SHOAL_TENSORBOARD_DIR", path);
    (void)snprintf(path, sizeof path, "%s/checkpoint", directory);
    set(start, "SHOAL_CHECKPOINT_DIR", path);
    (void)snprintf(path, sizeof path, "%s/restore", directory);
    if (access(path, F_OK) == 0) {
        set(start, "SHOAL_RESTORE_DIR", path);
    }
}

/* ---- secrets ----------------------------------------------------------------------------------------------------- */

bool environment_open_secret(const struct daemon *daemon, const char *name, struct secret_box_value *out)
{
    const struct view *view = node_core_view(daemon->core);
    const struct view_secret *now = view_secret_find(view, name);
    struct fact_secret fact;
    const uint8_t *box = now != NULL ? view_secret_copy(view, now, daemon->keys.id, &fact) : NULL;
    return box != NULL && secret_box_open(&daemon->keys, &fact, box, out) == 0;
}

static void add_secrets(struct worker_start *start, const struct daemon *daemon, const struct config *config)
{
    char name[CONFIG_SECRET_BYTES];
    start->secrets = calloc(CONFIG_SECRETS_MAX, sizeof *start->secrets);
    start->failed |= start->secrets == NULL;
    for (uint32_t i = 0; !start->failed && i < CONFIG_SECRETS_MAX && config_secret(config, i, name); i++) {
        struct secret_box_value value;
        if (!environment_open_secret(daemon, name, &value)) {
            bytes_copy_text(start->lacking, sizeof start->lacking, name);
            continue;
        }
        char *text = malloc(strlen(name) + value.bytes + 2);
        if (text != NULL) {
            (void)sprintf(text, "%s=%s", name, (const char *)value.text);
            start->secrets[start->secret_count++] = text;
        }
        start->failed |= text == NULL;
        secret_box_wipe(&value);
    }
}

void environment_of_secrets(const struct daemon *daemon, const struct config *config, struct worker_start *out)
{
    *out = (struct worker_start){0};
    add_secrets(out, daemon, config);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void environment_of_machine(const struct daemon *daemon, struct worker_start *out)
{
    const struct inherited_rules rules = {daemon->options.worker_env, daemon->options.worker_env_count};
    *out = (struct worker_start){0};
    add_inherited(out, &rules);
    complete_path(out, daemon->program_dir);
}

void environment_of_packages(const struct daemon *daemon, const struct config *config, struct worker_start *out)
{
    const struct inherited_rules rules = {daemon->options.worker_env, daemon->options.worker_env_count};
    *out = (struct worker_start){0};
    add_inherited(out, &rules);
    add_config(out, config);
    complete_path(out, daemon->program_dir);
}

void environment_of_searcher(const struct daemon *daemon, const struct config *config, experiment_id experiment, lease_token token,
                             const char *directory, struct worker_start *out)
{
    char text[KEEP_PATH_BYTES + 32];
    environment_of_packages(daemon, config, out);
    set_default(out, "PYTHONUNBUFFERED", "1"); /* its last words are in the log */
    add_python(out, daemon->program_dir);
    add_packages(out, directory);
    (void)snprintf(text, sizeof text, "%s/shoald.sock", daemon->dir);
    set(out, "SHOAL_SOCKET", text);
    set(out, "SHOAL_DIR", daemon->dir);
    bytes_to_hex(text, token.bytes, TOKEN_BYTES);
    set(out, "SHOAL_SEARCHER_TOKEN", text);
    bytes_to_hex(text, experiment.bytes, EXPERIMENT_ID_BYTES);
    set(out, "SHOAL_EXPERIMENT", text);
    prepare_conda(out);
    out->entrypoint = strdup(config->searcher_entrypoint);
    out->failed |= out->entrypoint == NULL;
}

void environment_build(const struct daemon *daemon, const struct node_effect *effect, const struct config *config,
                       const char *directory, struct worker_start *out)
{
    const struct inherited_rules rules = {daemon->options.worker_env, daemon->options.worker_env_count};
    *out = (struct worker_start){0};
    add_inherited(out, &rules);
    add_defaults(out, daemon, effect, config, directory);
    add_config(out, config);
    complete_path(out, daemon->program_dir);
    add_python(out, daemon->program_dir);
    add_packages(out, directory);
    add_own(out, daemon, effect, config);
    add_mlflow(out, daemon, effect, config);
    add_rungs(out, effect, config);
    add_outputs(out, directory);
    add_hparams(out, effect, config, view_find_attempt(node_core_view(daemon->core), &effect->u.worker.attempt), directory);
    add_ranks(out, effect);
    add_gpus(out, daemon, effect);
    add_secrets(out, daemon, config);
    prepare_conda(out);
}

void environment_close(struct worker_start *start)
{
    for (size_t i = 0; i < start->count; i++) {
        free(start->variables[i]);
    }
    free(start->variables);
    for (size_t i = 0; i < start->secret_count; i++) {
        explicit_bzero(start->secrets[i], strlen(start->secrets[i]));
        free(start->secrets[i]);
    }
    free(start->secrets);
    free(start->entrypoint);
    free(start->hparams);
    *start = (struct worker_start){0};
}
