#ifndef TOOLS_SHOAL_SUBMISSION_H
#define TOOLS_SHOAL_SUBMISSION_H
/* An experiment on its way to the daemon (command_submit.c). Each function that returns an `int` returns an exit code; on failure
 * its sentence is written. */

#include "base/id.h"
#include "node/core/facts/config.h"
#include "tools/shoal/client.h"
#include "tools/shoal/origin.h"
#include "tools/shoal/preview.h"

#define SUBMISSION_OVERRIDES_MAX 64

struct submission {
    char id[2 * EXPERIMENT_ID_BYTES + 1];
    const char *file; /* the configuration's name in error messages; set by the caller */
    char *text;       /* the configuration (YAML), from malloc; set by the caller with text_bytes and the overrides */
    size_t text_bytes;
    const char *overrides[SUBMISSION_OVERRIDES_MAX + 1]; /* "KEY=VALUE"; one too many is refused by submission_check */
    size_t override_count;
    struct origin origin; /* owns the overrides that the file brought with it */
    char *resolved[2];    /* further overrides, from malloc (warm_start.h) */
    char *waits[3];       /* those of --after, of --start-after, and start_after as a time of UTC, likewise */
    int archive_fd;
    uint64_t archive_bytes;
    uint64_t code_bytes; /* of the files that travel, as --dry-run tells them */
    char name[CONFIG_NAME_BYTES];
    char *entrypoint;
    char requirements[CONFIG_PATH_BYTES]; /* environment.requirements; "": none */
    enum config_links links;
    uint32_t slots_per_trial;
    char trials[PREVIEW_LINE_BYTES]; /* how many trials, in words; "": one */
};

/* An empty submission with a new id. The caller frees it, also after a failure. */
int submission_begin(struct cli *cli, struct submission *out);
void submission_free(struct submission *submission);

/* Checks the configuration, so that a mistake is reported before gigabytes are packed, and fills the fields that follow from it. */
int submission_check(struct cli *cli, struct submission *submission);

/* Takes what the file says of an earlier submission (origin.h) out of the text; its overrides come before those that the submission
 * has. */
int submission_take_origin(struct cli *cli, struct submission *submission);

/* Packs the code directory, and puts the configuration behind it. */
int submission_pack(struct cli *cli, const char *dir, struct submission *submission);

/* Puts the configuration, with what the experiment is made from, behind the packed code. */
int submission_append_text(struct cli *cli, struct submission *submission);

/* Sends it, and tells on `out` what the daemon has answered. After CLI_DONE `*client` is open and the caller's to close; after a
 * failure closing it does no harm. */
int submission_deliver(struct cli *cli, const struct submission *submission, FILE *out, struct client *client);

#endif
