#ifndef TOOLS_SHOAL_IMPORT_H
#define TOOLS_SHOAL_IMPORT_H
/* Runs that were made elsewhere, on their way into the mesh (command_import.c). Each becomes an experiment with one
 * trial, whose program leaves the run's event files where `tensorboard: read` finds them. So nothing of it is special:
 * it has a lease, an attempt and an end like any other, and what was read is metrics with the times that they had. */

#include <limits.h>
#include <stdio.h>

#include "tools/shoal/cli.h"

#define IMPORT_NAME_BYTES 128
#define IMPORT_RUNS_MAX 10000

/* A hyperparameter: its name, and its value as YAML. */
struct import_hparam {
    char *name, *value;
};

/* One run, filled by its reader. */
struct import_run {
    char name[IMPORT_NAME_BYTES]; /* of the experiment, unless --name says otherwise */
    char from[PATH_MAX];          /* its directory */
    bool has_failed;              /* it ended in another way than well: its trial fails, too */
    bool wants_hparams;
    struct import_hparam *hparams; /* from malloc, with what they have */
    size_t hparam_count;
    char metric[IMPORT_NAME_BYTES]; /* the first of group validation, else the first; "": none */
    bool is_of_validation;
    uint64_t points;
};

/* Writes the run's event files into the directory `to`, and fills what is known of the run. An exit code; on failure
 * its sentence is written. */
typedef int import_reader(struct cli *cli, struct import_run *run, const char *to);
int import_read_tfevents(struct cli *cli, struct import_run *run, const char *to); /* import_tfevents.c */
int import_read_mlruns(struct cli *cli, struct import_run *run, const char *to);   /* import_mlruns.c */

/* For the readers: notes a metric by its tag, and adds a hyperparameter, a number or truth where its text is one. */
void import_note_tag(struct import_run *run, const char *tag, size_t bytes);
void import_put_hparam(struct import_run *run, const char *name, size_t name_bytes, const char *value,
                       size_t value_bytes);

/* Whether the directory is a run. Called for the given directory and those below it, parents first; nothing below a run
 * is another. */
typedef bool import_finder(struct cli *cli, const char *directory);
bool import_is_tfevents(struct cli *cli, const char *directory);
bool import_is_mlrun(struct cli *cli, const char *directory);

#endif
