#ifndef NODE_HTTP_MLFLOW_MLFLOW_H
#define NODE_HTTP_MLFLOW_MLFLOW_H
/* MLflow's REST API (docs/mlflow.md): experiments are those of the mesh, runs their trials. The
 * official client finds, filters and sorts them, and reads their metrics and files. A trial's program writes to its
 * own. */

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* A request below /api/2.0/mlflow, /api/3.0/mlflow or /api/2.0/mlflow-artifacts, in this process's words. */
struct mlflow_call {
    struct MHD_Connection *connection; /* for its query */
    const char *method, *path;
    const char *body; /* JSON; not NUL-terminated */
    size_t body_bytes;
    const char *secret; /* NULL: none */
};

/* True for the paths that are MLflow's. */
bool mlflow_has(const char *path);

/* Answers. NULL: no memory is left. */
struct MHD_Response *mlflow_answer(const struct mlflow_call *call, int *status);

/* Whether the request brings a file, whose bytes are taken as they come. */
bool mlflow_is_upload(const char *method, const char *path);

/* An upload: begun before its first byte, and ended after the last one, with the answer; or dropped. What goes wrong is
 * in the answer. begin: the call's connection is not used, and its texts are copied; NULL: no memory is left. end and
 * drop free it. */
struct mlflow_upload;
struct mlflow_upload *mlflow_upload_begin(const struct mlflow_call *call);
bool mlflow_upload_is_good(const struct mlflow_upload *upload); /* its bytes are kept */
void mlflow_upload_take(struct mlflow_upload *upload, const char *bytes, size_t count);
struct MHD_Response *mlflow_upload_end(struct mlflow_upload *upload, int *status);
void mlflow_upload_drop(struct mlflow_upload *upload);

#endif
