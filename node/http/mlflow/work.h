#ifndef NODE_HTTP_MLFLOW_WORK_H
#define NODE_HTTP_MLFLOW_WORK_H
/* A request of MLflow's API under way: its arguments, the daemon's documents, its answer. For the files of this folder.
 */

#include <jansson.h>
#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "node/http/channel.h"
#include "node/http/mlflow/mlflow.h"

#define WORK_ID_BYTES 24         /* of an experiment's id in decimal digits */
#define WORK_EXPERIMENT_BYTES 17 /* in hexadecimal ones */
#define WORK_RUN_BYTES 33

/* `answer` is the JSON object to send; `status` other than 200: an error, with `error_code` and `message`. */
struct work {
    const struct mlflow_call *call;
    struct channel channel;
    json_t *body; /* NULL: none, or GET */
    json_t *answer;
    const char *rest;          /* of the path, behind the route's */
    struct MHD_Response *file; /* to send in place of `answer`; NULL: none */
    int status;
    const char *error_code;
    char message[1024];
};

/* A run, as its id names it. */
struct work_run {
    char experiment[WORK_EXPERIMENT_BYTES];
    uint64_t trial;
    char further[9];  /* the number of a further run of its program's (wire/texts.h); "": the trial's own */
    uint64_t attempt; /* of work_own_trial: the present one */
};

/* Makes the answer an error; returns false. */
bool work_fail(struct work *work, int status, const char *error_code, const char *message);
bool work_fail_argument(struct work *work, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool work_fail_memory(struct work *work);

/* A text of the body, or of the query. NULL: none. */
const char *work_argument(const struct work *work, const char *name);

/* A number as JSON's, or as a text: clients send 64-bit numbers either way. */
uint64_t work_number(const struct work *work, const char *name, uint64_t standard);

/* Asks the daemon for a document; `experiment` NULL: about none, `trial` below 0: about all of its trials. False: the
 * daemon has refused, or does not answer. */
bool work_ask(struct work *work, const char *op, const char *experiment, long long trial, msgpack_object *out);

/* Sends a request that the caller has packed (ask_begin); the answer is as in work_ask. work_put only sends, and
 * work_take takes the answer to the first request whose answer was not taken yet. */
bool work_send(struct work *work, const struct pack_writer *writer, msgpack_object *out);
bool work_put(struct work *work, const struct pack_writer *writer);
bool work_take(struct work *work, msgpack_object *out);

/* As work_take, for an answer with a descriptor, which is the caller's; -1: none came. */
bool work_take_file(struct work *work, msgpack_object *out, int *fd);

/* The answer, or the error, as a response; what the work has is then freed, but not the channel. NULL: no memory is
 * left. */
struct MHD_Response *work_answer(struct work *work, int *status);

/* The experiment's id in decimal digits, with the first bit off: clients read it as a signed number. */
void work_decimal(const char *experiment, char out[WORK_ID_BYTES]);
void work_run_id(const struct work_run *run, char out[WORK_RUN_BYTES]);

/* The experiment of a list with this id or this name; a nil if there is none. Of several with one name the newest. */
const msgpack_object *work_find_experiment(const msgpack_object *list, const char *id, const char *name);

/* Reads the argument run_id, or run_uuid. */
bool work_read_run(struct work *work, struct work_run *out);
bool work_read_run_id(struct work *work, const char *id, struct work_run *out);

/* ---- runs.c
 * ---------------------------------------------------------------------------------------------------------- */

void work_add_tag(json_t *tags, const char *key, const char *value);
json_t *work_experiment(const msgpack_object *row); /* of `ls` */

/* What the programs of an experiment's trials have written by MLflow: an object of the trials' indices, each with an
 * object for each section of their texts (node/daemon/wire/texts.h). `trial` below 0: of all trials. False: the answer
 * is an error. */
bool work_read_texts(struct work *work, const char *experiment, long long trial, json_t **out);

/* Each trial's texts are a series of their own, so those of more trials are not read at once. */
#define RUNS_TEXTS_MAX 2000

/* The documents of all runs of an experiment, a list; of one with more than RUNS_TEXTS_MAX trials without texts and
 * further runs. False: the answer is an error. */
bool runs_read(struct work *work, const char *experiment, json_t **out);

/* JSON has no NaN; the client's reader of numbers takes texts for it and for infinities. */
json_t *runs_metric_value(double value);

/* Asks for a run's document. NULL: the answer is an error. */
json_t *work_get_run(struct work *work, const struct work_run *run);

/* ---- artifacts.c
 * ----------------------------------------------------------------------------------------------------- */

bool artifacts_list_run(struct work *work);
bool artifacts_list(struct work *work);
bool artifacts_get(struct work *work);
bool artifacts_delete(struct work *work);

/* ---- models.c
 * -------------------------------------------------------------------------------------------------------- */

/* The `model_outputs` of a run, from the documents of the trial's models. */
json_t *models_outputs(const json_t *models, const char *run);

bool models_create(struct work *work);
bool models_one(struct work *work); /* what is below logged-models/ID */
bool models_search(struct work *work);
bool models_outputs_of_run(struct work *work);

/* ---- registry.c
 * ------------------------------------------------------------------------------------------------------ */

/* The model registry: requests below registered-models and model-versions. */
bool registry_search_models(struct work *work);
bool registry_get_model(struct work *work);
bool registry_latest(struct work *work);
bool registry_get_by_alias(struct work *work);
bool registry_search_versions(struct work *work);
bool registry_get_version(struct work *work);
bool registry_download_uri(struct work *work);
bool registry_create_model(struct work *work);
bool registry_create_version(struct work *work);
bool registry_describe(struct work *work);
bool registry_remove(struct work *work);
bool registry_set_tag(struct work *work);
bool registry_set_alias(struct work *work);
bool registry_refuse(struct work *work);

/* ---- write.c
 * --------------------------------------------------------------------------------------------------------- */

/* The trial whose token the caller has. False: another token's, or the answer is an error (then `work->status` is not
 * 200). */
bool work_own_trial(struct work *work, struct work_run *out);

/* Keeps a name of the trial's as a tag. */
bool work_write_tag(struct work *work, const struct work_run *run, const char *key, const char *value);

/* Writes the texts of an object into a section, and takes back those that are null. */
bool work_write_section(struct work *work, const struct work_run *run, const char *section, json_t *texts);

/* As work_own_trial; false: the answer says why the caller may not write. */
bool work_own_or_refuse(struct work *work, struct work_run *out);

/* Writes a request about a trial up to its further arguments, of which there are `arguments`. */
void work_begin_trial(const struct work *work, struct pack_writer *writer, const char *op, const struct work_run *run,
                      uint32_t arguments);

bool write_create_experiment(struct work *work);
bool write_create_run(struct work *work);
bool write_update_run(struct work *work);
bool write_metric(struct work *work);
bool write_batch(struct work *work);
bool write_parameter(struct work *work);
bool write_tag(struct work *work);
bool write_delete_tag(struct work *work);
bool write_inputs(struct work *work);
bool write_model_json(struct work *work);
bool write_lifecycle(struct work *work);
bool write_nothing(struct work *work);

#endif
