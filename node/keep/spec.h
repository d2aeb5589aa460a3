#ifndef NODE_KEEP_SPEC_H
#define NODE_KEEP_SPEC_H
/* The file KEEP_FILE_SPEC: what the daemon wants run, and what shoal-keep reads from it. A MessagePack map in which
 * unknown keys are ignored. */

#include "node/keep/keep.h"

/* Enough bytes for keep_spec_pack. */
size_t keep_spec_bytes(const struct keep_spec *spec);

/* The bytes of keep_spec_pack_secrets: the secrets, each with its NUL, which travel through the socket of the run instead of the file. */
size_t keep_spec_secret_bytes(const struct keep_spec *spec);
void keep_spec_pack_secrets(struct pack_writer *writer, const struct keep_spec *spec);

/* Writes a spec; look at writer->failed afterwards. */
void keep_spec_pack(struct pack_writer *writer, const struct keep_spec *spec);

/* A spec as shoal-keep has read it; all pointers are owned. */
struct keep_run {
    char *working_directory;
    char *shell;        /* path of the shell that runs the command */
    bool is_bash;       /* the shell is bash, and gets `-o pipefail` */
    char *command;      /* for -c of the shell */
    char **environment; /* ends in NULL */
    char **locks;
    size_t lock_count;
    uint64_t lease_ms;
    uint64_t log_cap_bytes;
    int stop_signal; /* SIGTERM if the spec has none */
    bool is_polite;
    size_t secret_bytes; /* that wait in the socket, for keep_run_add_secrets */
};

/* Reads a spec and copies everything. ERR_MALFORMED, also if a rule of node/keep/keep.h is broken or memory is short:
 * `*out` is unchanged then. */
int keep_run_read(const uint8_t *bytes, size_t count, struct keep_run *out);

/* Appends the secrets, as they come from the socket, to the environment. ERR_MALFORMED or ERR_MEMORY: the run is not to be started. */
int keep_run_add_secrets(struct keep_run *run, const uint8_t *bytes, size_t count);

/* Frees everything, and overwrites the environment first, which may contain keys. */
void keep_run_close(struct keep_run *run);

/* Overwrites the environment only, for a process that lives on beside the worker. */
void keep_run_wipe(struct keep_run *run);

#endif
