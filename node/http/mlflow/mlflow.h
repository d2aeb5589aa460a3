#ifndef NODE_HTTP_MLFLOW_MLFLOW_H
#define NODE_HTTP_MLFLOW_MLFLOW_H
/* MLflow's REST API, as far as it reads (docs/mlflow.md): experiments are those of the mesh, runs their trials. The
 * official client finds, filters and sorts them, and reads their metrics. */

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

#endif
