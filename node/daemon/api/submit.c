#include "node/daemon/api/submit.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/visible.h"
#include "node/daemon/api/change.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/tokens.h"
#include "node/daemon/wire/request.h"

#define ACCOUNT_BYTES 16384 /* for an entry of the system's list of accounts */

struct submit_job {
    struct job job;
    struct chunks *chunks;
    uint64_t serial, id;
    uint32_t account;              /* that submits, unless `user` is known */
    char user[CONFIG_USER_BYTES];
    experiment_id experiment;
    char file[REQUEST_FILE_BYTES];
    char *text;
    size_t text_bytes;
    char *overrides[REQUEST_OVERRIDES_MAX];
    size_t override_count;
    int archive_fd;
    uint64_t archive_bytes;
    hash256 code, config_text, checkpoint; /* checkpoint: as in the event SUBMIT, or none */
    uint64_t checkpoint_bytes;
    uint32_t checkpoint_parts, fetched_parts; /* of a checkpoint of several parts; else 0 */
    bool begins; /* with the checkpoint of another experiment */
    struct config_begin begin;
    struct config config; /* borrows from `scratch` */
    uint8_t *scratch;     /* [CONFIG_SCRATCH_BYTES] */
    uint64_t wall_s;      /* when the request came */
    uint32_t trial_count; /* of a large experiment; else 0 */
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    size_t packed_bytes;
    int result;
    bool is_config_error;
    char error[CONFIG_ERROR_BYTES];
};

static int memory_fd(const void *bytes, size_t count)
{
    int fd = memfd_create("shoal-config", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, bytes, count) != (ssize_t)count) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int store(struct submit_job *submit, const void *bytes, size_t count)
{
    int fd = memory_fd(bytes, count);
    if (fd < 0) {
        return ERR_IO;
    }
    int result = chunks_put_blob_from_fd(submit->chunks, fd, count, 0, &submit->config_text, submit->error, sizeof submit->error);
    (void)close(fd);
    return result;
}

/* Packs the configuration for the record, and stores what goes beside the record: the file, or with a configuration that does
 * not fit into a record also the whole configuration. */
static int pack_and_store(struct submit_job *submit, const struct config *config)
{
    struct config lean;
    struct pack_writer writer;
    bool is_plain = config_is_plain(config);
    config_make_lean(config, &lean);
    pack_writer_init(&writer, submit->packed, sizeof submit->packed);
    config_pack(&writer, is_plain ? config : &lean);
    submit->packed_bytes = writer.used_bytes;
    if (writer.failed) {
        return ERR_FULL;
    }
    if (is_plain) {
        return store(submit, submit->text, submit->text_bytes);
    }
    struct search_space space = config_search_space(config);
    uint8_t *blob = malloc(CONFIG_BLOB_BYTES_MAX);
    if (blob == NULL || search_trial_count(&space, &submit->trial_count) != 0) {
        free(blob);
        return ERR_MEMORY;
    }
    pack_writer_init(&writer, blob, CONFIG_BLOB_BYTES_MAX);
    config_blob_pack(&writer, config, submit->text, submit->text_bytes);
    int result = writer.failed ? ERR_FULL : store(submit, blob, writer.used_bytes);
    free(blob);
    return result;
}

/* The name of an account, or its number where it has none. May wait for a directory service. */
static void name_account(uint32_t account, char out[CONFIG_USER_BYTES])
{
    struct passwd entry, *found = NULL;
    char bytes[ACCOUNT_BYTES];
    if (getpwuid_r((uid_t)account, &entry, bytes, sizeof bytes, &found) != 0) {
        found = NULL;
    }
    if (found != NULL && found->pw_name[0] != '\0') {
        (void)visible_text(out, CONFIG_USER_BYTES, found->pw_name);
    } else {
        (void)format_text(out, CONFIG_USER_BYTES, "%u", account);
    }
}

static void store_work(struct job *job)
{
    struct submit_job *submit = (struct submit_job *)job;
    if (submit->user[0] == '\0') {
        name_account(submit->account, submit->user);
    }
    (void)bytes_copy_text(submit->config.user, sizeof submit->config.user, submit->user);
    submit->result = pack_and_store(submit, &submit->config);
    if (submit->result == 0) {
        submit->result = chunks_put_blob_from_fd(submit->chunks, submit->archive_fd, submit->archive_bytes, 0,
                                                 &submit->code, submit->error, sizeof submit->error);
    }
}

static void submit_work(struct job *job)
{
    struct submit_job *submit = (struct submit_job *)job;
    struct config *config = &submit->config;
    submit->scratch = malloc(CONFIG_SCRATCH_BYTES);
    if (submit->scratch == NULL) {
        submit->result = ERR_MEMORY;
        return;
    }
    submit->result = config_parse_yaml(submit->file, submit->text, submit->text_bytes,
                                       (const char *const *)submit->overrides, submit->override_count, submit->scratch,
                                       CONFIG_SCRATCH_BYTES, config, submit->error);
    submit->is_config_error = submit->result != 0;
    if (submit->result != 0) {
        return;
    }
    submit->begins = config_begin(config, &submit->begin);
    if (config->start_in_s > 0) {
        (void)config_start_write(config->start_after, submit->wall_s + config->start_in_s);
    }
    if (config->dependencies_bytes == 0) { /* else submit_done finds the experiments first */
        store_work(job);
    }
}

static void submit_free(struct submit_job *submit)
{
    for (size_t i = 0; i < submit->override_count; i++) {
        free(submit->overrides[i]);
    }
    if (submit->archive_fd >= 0) {
        (void)close(submit->archive_fd);
    }
    free(submit->scratch);
    free(submit->text);
    free(submit);
}

/* ---- depends_on ---------------------------------------------------------------------------------------------------------- */

#define NAMED_IDS_BYTES (4 * (2 * EXPERIMENT_ID_BYTES + 2))

#define PREFIX_MIN 4 /* digits, as on the command line */

/* The experiment with this name or id, or with an id that begins so. NULL: none, or several; `ids` then has the first of these. */
static const struct view_experiment *find_named(const struct view *view, const char *text, uint32_t *count, char ids[NAMED_IDS_BYTES])
{
    const struct view_experiment *found = NULL;
    size_t used = 0;
    *count = 0;
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        char hex[2 * EXPERIMENT_ID_BYTES + 1];
        bytes_to_hex(hex, experiment->id.bytes, EXPERIMENT_ID_BYTES);
        if (experiment->known && strcmp(text, hex) == 0) {
            *count = 1;
            return experiment;
        }
        bool is_begun = strlen(text) >= PREFIX_MIN && strncmp(hex, text, strlen(text)) == 0;
        if (experiment->known && (is_begun || strcmp(text, experiment->config->name) == 0)) {
            found = experiment;
            used += *count < 3 ? format_text(ids + used, NAMED_IDS_BYTES - used, "%s%s", used > 0 ? ", " : "", hex) : 0;
            ++*count;
        }
    }
    return *count == 1 ? found : NULL;
}

/* Looks one name up. False, after an error reply: it names no experiment that can be waited for. */
static bool find_dependency(struct daemon *daemon, struct submit_job *submit, struct client *client, const char *text)
{
    struct config *config = &submit->config;
    uint32_t count;
    char ids[NAMED_IDS_BYTES] = "", hex[2 * EXPERIMENT_ID_BYTES + 1];
    const struct view_experiment *found = find_named(node_core_view(daemon->core), text, &count, ids);
    if (count > 1) {
        client_reply_error(daemon, client, submit->id, EXIT_REFUSED,
                           "depends_on names %s, which %u experiments fit: %s%s; give one of these ids.", text, count, ids,
                           count > 3 ? ", ..." : "");
        return false;
    }
    if (found == NULL) {
        client_reply_error(daemon, client, submit->id, EXIT_NOT_FOUND,
                           "depends_on names %s, and there is no experiment with that name or id; `shoal ls` lists them.", text);
        return false;
    }
    enum view_experiment_state state = view_experiment_state(found);
    if (state == VIEW_CANCELLED || state == VIEW_FAILED) {
        client_reply_error(daemon, client, submit->id, EXIT_REFUSED,
                           "depends_on names %s, which %s and will never be completed; leave it out%s.", text,
                           state == VIEW_FAILED ? "has failed" : "is cancelled", state == VIEW_FAILED ? ", or retry its trials first" : "");
        return false;
    }
    size_t used = strlen(config->depends_on);
    bytes_to_hex(hex, found->id.bytes, EXPERIMENT_ID_BYTES);
    if (strstr(config->depends_on, hex) == NULL) {
        (void)format_text(config->depends_on + used, sizeof config->depends_on - used, "%s%s", used > 0 ? " " : "", hex);
    }
    return true;
}

/* Puts the ids of the named experiments into the configuration. False, after an error reply. */
static bool find_dependencies(struct daemon *daemon, struct submit_job *submit, struct client *client)
{
    struct pack_reader names;
    char text[CONFIG_NAME_BYTES];
    pack_reader_init(&names, submit->config.dependencies, submit->config.dependencies_bytes);
    for (uint32_t left = pack_read_array(&names); left > 0; left--) {
        pack_read_text_copy(&names, text, sizeof text);
        if (!find_dependency(daemon, submit, client, text)) {
            return false;
        }
    }
    return true;
}

/* ---- the experiment ------------------------------------------------------------------------------------------------------ */

/* Hands the experiment to the core, which answers the client. Frees `submit`. */
static void hand_over(struct daemon *daemon, struct submit_job *submit, struct client *client)
{
    struct client_request request = {.client = client, .id = submit->id};
    struct change_waiting *waiting = change_wait(daemon, &request);
    if (waiting != NULL) {
        waiting->is_submit = true;
        waiting->experiment = submit->experiment;
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = NODE_REQUEST_SUBMIT;
        event.u.request.client = waiting->key;
        event.u.request.experiment = submit->experiment;
        event.u.request.code = submit->code;
        event.u.request.code_bytes = submit->archive_bytes;
        event.u.request.config_text = submit->config_text;
        event.u.request.checkpoint = submit->checkpoint;
        event.u.request.checkpoint_bytes = submit->checkpoint_bytes;
        event.u.request.checkpoint_parts = submit->checkpoint_parts;
        event.u.request.trial_count = submit->trial_count;
        event.bytes = submit->packed;
        event.byte_count = (uint32_t)submit->packed_bytes;
        daemon_event(daemon, &event);
    }
    submit_free(submit);
}

static const struct view_trial *beginning_trial(const struct daemon *daemon, const struct config_begin *begin)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), begin->experiment);
    return experiment != NULL ? view_find_trial(experiment, begin->trial) : NULL;
}

static void checkpoint_fetched(struct daemon *daemon, void *context, int code, const char *text);

/* Fetches the next part of a checkpoint of several parts. False, after an error reply: nobody is known to hold it any more. */
static bool fetch_next_part(struct daemon *daemon, struct submit_job *submit, struct client *client)
{
    const struct view_trial *trial = beginning_trial(daemon, &submit->begin);
    const struct view_set *set = trial != NULL ? view_find_set(trial, submit->checkpoint) : NULL;
    struct view_manifest part;
    if (set == NULL || !node_core_part(daemon->core, set, submit->fetched_parts, &part)) {
        client_reply_error(daemon, client, submit->id, EXIT_REFUSED,
                           "No node is known to hold part %u of the checkpoint of step %llu to begin with (any more).", submit->fetched_parts,
                           (unsigned long long)submit->begin.step);
        return false;
    }
    submit->fetched_parts++;
    query_fetch_checkpoint(daemon, &part, checkpoint_fetched, submit);
    return true;
}

static void checkpoint_fetched(struct daemon *daemon, void *context, int code, const char *text)
{
    struct submit_job *submit = context;
    struct client *client = client_find(daemon, submit->serial);
    if (client == NULL) {
        submit_free(submit);
    } else if (code != 0) {
        client_reply_error(daemon, client, submit->id, EXIT_REFUSED, "No complete copy of the checkpoint to begin with can be reached: %s", text);
        submit_free(submit);
    } else if (submit->fetched_parts == submit->checkpoint_parts) {
        hand_over(daemon, submit, client);
    } else if (!fetch_next_part(daemon, submit, client)) {
        submit_free(submit);
    }
}

#define STEPS_TOLD 8

/* The steps of the trial's checkpoints, the newest first: "300, 200, 100"; "" if there are none. */
static void tell_steps(const struct daemon *daemon, const struct view_trial *trial, char *out, size_t size)
{
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest found;
    size_t used = 0;
    uint32_t count = 0;
    out[0] = '\0';
    while (node_core_next_checkpoint(daemon->core, &row, &found) && count++ < STEPS_TOLD) {
        used += format_text(out + used, size - used, "%s%llu", used > 0 ? ", " : "", (unsigned long long)found.step);
    }
    if (count > STEPS_TOLD) {
        (void)format_text(out + used, size - used, ", ...");
    }
}

/* Finds the checkpoint of checkpoint.begin_from, and brings it onto this disk: from now on it is the new experiment's, too. Frees
 * `submit` in the end. */
static void bring_checkpoint(struct daemon *daemon, struct submit_job *submit, struct client *client)
{
    const struct config_begin *begin = &submit->begin;
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), begin->experiment);
    const struct view_trial *trial = beginning_trial(daemon, begin);
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest found;
    bool is_found = false;
    while (!is_found && node_core_next_checkpoint(daemon->core, &row, &found)) {
        is_found = found.step == begin->step;
    }
    if (is_found) {
        submit->checkpoint = found.blob;
        submit->checkpoint_bytes = found.bytes;
    }
    if (is_found && found.set != NULL) {
        submit->checkpoint_parts = found.set->key.count;
        if (!fetch_next_part(daemon, submit, client)) {
            submit_free(submit);
        }
        return;
    }
    if (is_found) {
        query_fetch_checkpoint(daemon, &found, checkpoint_fetched, submit);
        return;
    }
    char id[2 * EXPERIMENT_ID_BYTES + 1], steps[STEPS_TOLD * 24];
    bytes_to_hex(id, begin->experiment.bytes, EXPERIMENT_ID_BYTES);
    tell_steps(daemon, trial, steps, sizeof steps);
    const char *name = experiment != NULL && experiment->known ? experiment->config->name : id;
    if (experiment == NULL) {
        client_reply_error(daemon, client, submit->id, EXIT_NOT_FOUND, "There is no experiment %s, whose checkpoint is to be begun with.", id);
    } else if (steps[0] == '\0') {
        client_reply_error(daemon, client, submit->id, EXIT_NOT_FOUND, "Trial %u of %s has no checkpoint to begin with.", begin->trial, name);
    } else {
        client_reply_error(daemon, client, submit->id, EXIT_NOT_FOUND,
                           "Trial %u of %s has no checkpoint of step %llu (any more); there are those of the steps %s.", begin->trial, name,
                           (unsigned long long)begin->step, steps);
    }
    submit_free(submit);
}

static void submit_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct submit_job *submit = (struct submit_job *)job;
    struct client *client = client_find(daemon, submit->serial);
    if (submit->result != 0 && client != NULL) {
        client_reply_error(daemon, client, submit->id, EXIT_REFUSED, "%s",
                           submit->error[0] != '\0' ? submit->error : err_text(submit->result));
    }
    if (submit->result != 0 || client == NULL) {
        submit_free(submit);
    } else if (submit->config.dependencies_bytes > 0 && submit->config.depends_on[0] == '\0') {
        if (!find_dependencies(daemon, submit, client)) {
            submit_free(submit);
            return;
        }
        submit->job = (struct job){.work = store_work, .done = submit_done};
        jobs_run(daemon->blob_jobs, &submit->job);
    } else if (submit->begins) {
        bring_checkpoint(daemon, submit, client);
    } else {
        hand_over(daemon, submit, client);
    }
}

/* Of a request by HTTP the token's name stands for the account; a session, and a client that the system does not know, are taken for
 * this node's own. */
static void note_submitter(const struct daemon *daemon, const struct client_request *request, struct submit_job *submit)
{
    _Static_assert(sizeof submit->user == FACT_NAME_BYTES, "the name of a token fits");
    submit->account = request->client->account != CLIENT_NO_ACCOUNT ? request->client->account : (uint32_t)geteuid();
    if (request->client->is_guest) {
        (void)tokens_name(daemon, request, submit->user);
    }
}

void submit_request(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct submit_job *submit = calloc(1, sizeof *submit);
    if (submit == NULL) {
        return;
    }
    submit->archive_fd = client_take_file(request);
    struct request_submit wanted;
    struct stat status;
    bool ok = request_submit_read(&request->map, &wanted) == 0 && submit->archive_fd >= 0 &&
              fstat(submit->archive_fd, &status) == 0 && S_ISREG(status.st_mode) &&
              wanted.archive_bytes <= (uint64_t)status.st_size &&
              (wanted.config != NULL || wanted.config_bytes <= (uint64_t)status.st_size - wanted.archive_bytes);
    submit->text = ok ? malloc(wanted.config_bytes + 1) : NULL;
    ok = submit->text != NULL && (wanted.config != NULL || pread(submit->archive_fd, submit->text, wanted.config_bytes,
                                                                 (off_t)wanted.archive_bytes) == (ssize_t)wanted.config_bytes);
    if (!ok) {
        submit_free(submit);
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The request to submit is malformed: it wants `experiment`, `file`, `config` or `config_bytes` (at most "
                           "1 MiB), `overrides` (at most %d texts), `bytes` and a descriptor with as many bytes.",
                           REQUEST_OVERRIDES_MAX);
        return;
    }
    submit->experiment = wanted.experiment;
    bytes_copy_text(submit->file, sizeof submit->file, wanted.file);
    if (wanted.config != NULL) {
        memcpy(submit->text, wanted.config, wanted.config_bytes);
    }
    submit->text[wanted.config_bytes] = '\0';
    submit->text_bytes = wanted.config_bytes;
    submit->archive_bytes = wanted.archive_bytes;
    note_submitter(daemon, request, submit);
    for (uint32_t i = 0; i < wanted.override_count; i++) {
        submit->overrides[submit->override_count] = strndup(wanted.overrides[i].text, wanted.overrides[i].bytes);
        submit->override_count += submit->overrides[submit->override_count] != NULL;
    }
    submit->job = (struct job){.work = submit_work, .done = submit_done};
    submit->chunks = daemon->chunks;
    submit->wall_s = node_core_mesh_wall_s(daemon->core);
    submit->serial = request->client->serial;
    submit->id = request->id;
    jobs_run(daemon->blob_jobs, &submit->job);
}
