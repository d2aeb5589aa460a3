#ifndef NODE_HTTP_MLFLOW_KEYS_H
#define NODE_HTTP_MLFLOW_KEYS_H
/* What MLflow's clients send, in Shoal's words. A core. */

#include <stdbool.h>
#include <stddef.h>

#define KEYS_GROUP_BYTES 32 /* as the daemon's metrics have room for, with the NUL */
#define KEYS_NAME_BYTES 128
#define KEYS_CHARS_MAX 250 /* of a key, as MLflow's */

/* A metric's place among the trial's. */
struct metric_place {
    char group[KEYS_GROUP_BYTES], name[KEYS_NAME_BYTES];
    bool is_bare; /* the key named no group */
};

/* Finds the place of a metric: `group/name` is what it says; a name alone is of group `training`, or, if it is the
 * metric by which the trials of a search are compared (`searched`), of group `validation`. False: the name has more
 * than 127 bytes. */
bool keys_place(const char *key, const char *searched, struct metric_place *out);

/* Characters of a text in UTF-8. */
size_t keys_chars(const char *text);

/* Whether MLflow takes the text for the key of a metric, a parameter or a tag: letters, digits, and any of _-.:/ and
 * blanks, no path that leads out, and KEYS_CHARS_MAX at most. */
bool keys_is_key(const char *key);

/* Whether the text is a path below a trial's files: relative, of names that are neither empty, `.` nor `..`, without
 * control characters and backslashes. */
bool keys_is_path(const char *path);

/* Where an artifact lies: among the files of a trial (its output directory). */
#define KEYS_PATH_BYTES 1000
struct artifact_place {
    char run[33];
    char path[KEYS_PATH_BYTES]; /* "": the directory itself */
};

/* Reads a place below mlflow-artifacts:/, EXPERIMENT/RUN/artifacts[/PATH] or EXPERIMENT/models/MODEL/artifacts[/PATH].
 * False: it is none, or leads out. */
bool keys_artifact(const char *text, struct artifact_place *out);

/* A model's id is m- and 32 digits: the experiment's, 8 of the trial, 8 drawn ones. Finds the run; false: it is none.
 */
bool keys_model_run(const char *model, char run[33]);

/* Python's json writes NaN, Infinity and -Infinity, which are no JSON. Copies the body with quotes round those that
 * stand outside of texts. `out` has room for keys_quoted_bytes(count). Returns the bytes written. */
size_t keys_quoted_bytes(size_t count);
size_t keys_quote(const char *body, size_t count, char *out);

#endif
