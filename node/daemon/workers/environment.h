#ifndef NODE_DAEMON_WORKERS_ENVIRONMENT_H
#define NODE_DAEMON_WORKERS_ENVIRONMENT_H
/* What a worker's program starts with: its environment, its entrypoint with the hyperparameters filled in, and the file of
 * hyperparameters. The environment has, a later one in the place of an earlier:
 *
 *   1  variables of the daemon that pass (inherited.h)
 *   2  defaults: torchrun's variables but for the ranks, the interface of the group's network, the number of threads
 *   3  the variables of the experiment
 *   4  ranks, MASTER_ADDR and MASTER_PORT, the GPUs, and Shoal's own variables */

#include "node/daemon/ground/daemon.h"
#include "node/secret_box.h"

/* The file of hyperparameters in the worker's directory. */
#define HPARAMS_FILE "hparams.json"

/* All zero is empty; environment_close frees it. */
struct worker_start {
    char **variables; /* [count], `NAME=value` each */
    size_t count, capacity;
    char *entrypoint;
    char *hparams; /* content of HPARAMS_FILE */
    char **secrets; /* [secret_count], `NAME=value` each: for the program alone, so apart from the variables */
    size_t secret_count;
    char lacking[FACT_NAME_BYTES]; /* a secret that this node cannot open: the rest is not to be used; "": none */
    bool failed;   /* memory was short: the rest is not to be used */
};

/* Fills in what the worker of a SPAWN effect starts with, in this directory. */
void environment_build(const struct daemon *daemon, const struct node_effect *effect, const struct config *config,
                       const char *directory, struct worker_start *out);

/* Fills in the variables that every worker here has, whatever its experiment: for a look at what workers would find. */
void environment_of_machine(const struct daemon *daemon, struct worker_start *out);

/* Fills in what pip runs with: these and the variables of the experiment. */
void environment_of_packages(const struct daemon *daemon, const struct config *config, struct worker_start *out);

/* Fills in the secrets alone, as many as this node can open now: for a command beside the program. */
void environment_of_secrets(const struct daemon *daemon, const struct config *config, struct worker_start *out);

/* Fills in what the program of a search starts with (searcher.h). */
void environment_of_searcher(const struct daemon *daemon, const struct config *config, experiment_id experiment, lease_token token,
                             const char *directory, struct worker_start *out);

/* Opens this node's copy of a secret. False: it is not set, or this node has no copy. The caller wipes `out`. */
bool environment_open_secret(const struct daemon *daemon, const char *name, struct secret_box_value *out);

/* Frees everything, and overwrites the secrets first. */
void environment_close(struct worker_start *start);

#endif
