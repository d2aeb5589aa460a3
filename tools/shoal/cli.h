#ifndef TOOLS_SHOAL_CLI_H
#define TOOLS_SHOAL_CLI_H
/* The surroundings of every command of `shoal`: streams, terminal, data directory. */

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "store/git.h"
#include "tools/shoal/options.h"

enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1, /* refused by the daemon, or failed here */
    CLI_USAGE = 2,   /* the command line is wrong */
    CLI_NO_DAEMON = 3,
    CLI_NO_SUCH_THING = 4, /* no such experiment, trial, checkpoint, node, slot or invite */
    CLI_TIMED_OUT = 5
};

struct cli {
    FILE *out, *err;
    FILE *in; /* the user's answers; commands ask, on `err`, only if `in` is a terminal */
    bool in_is_terminal, out_is_terminal, err_is_terminal;
    bool colours;          /* may be written to `out` */
    bool utf8;             /* the locale's characters are UTF-8 */
    const char *shoal_dir; /* $SHOAL_DIR, or NULL */
    const char *home;      /* $HOME, or NULL */
    const char *tmpdir;    /* $TMPDIR, or NULL */
    struct git_places git; /* where git's configuration is */
    bool json;             /* --json */
    const char *about;     /* what sentences are about, such as "searcher.warm_start: ", written before each; NULL: nothing */
    char dir[PATH_MAX];    /* the data directory */
};

extern const struct command cli_commands[]; /* ends with a row whose name is NULL */

/* The whole program: parses argv, runs the command, returns an exit code (enum cli_exit). Fills `json` and `dir`; the caller
 * has set all other fields. A failed write to `out` makes CLI_DONE a CLI_REFUSED. */
int cli_run(struct cli *cli, int argc, char *const *argv);

/* Writes "shoal: ", one sentence and a newline to `err`; so for each line, if there are several. Returns `code`. */
int cli_fail(struct cli *cli, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Writes the same kind of line as a warning: the command goes on. */
void cli_warn(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads one line from `in`, after the caller has written a question to `err`; true for "y" and "yes" in any case. */
bool cli_hears_yes(struct cli *cli);

/* One function for each row of cli_commands, grouped by file. Each reads operands and options from `arguments` (options.h),
 * connects to the daemon except in `init`, `join` and `preview`, prints to `out`, and returns an exit code; on failure its sentence is
 * written. */
int command_init(struct cli *cli, const struct arguments *arguments); /* command_mesh.c */
int command_join(struct cli *cli, const struct arguments *arguments);
int command_invite(struct cli *cli, const struct arguments *arguments);
int command_leave(struct cli *cli, const struct arguments *arguments);
int command_evict(struct cli *cli, const struct arguments *arguments); /* command_evict.c */
int command_open(struct cli *cli, const struct arguments *arguments); /* command_door.c */
int command_connect(struct cli *cli, const struct arguments *arguments); /* command_connect.c */
int command_token_create(struct cli *cli, const struct arguments *arguments);
int command_model_ls(struct cli *cli, const struct arguments *arguments); /* command_models.c */
int command_model_register(struct cli *cli, const struct arguments *arguments);
int command_model_alias(struct cli *cli, const struct arguments *arguments);
int command_model_unalias(struct cli *cli, const struct arguments *arguments);
int command_model_get(struct cli *cli, const struct arguments *arguments);
int command_model_rm(struct cli *cli, const struct arguments *arguments);
int command_secret_set(struct cli *cli, const struct arguments *arguments); /* command_secret.c */
int command_secret_ls(struct cli *cli, const struct arguments *arguments);
int command_secret_rm(struct cli *cli, const struct arguments *arguments);
int command_webhook_add(struct cli *cli, const struct arguments *arguments); /* command_webhook.c */
int command_webhook_allow(struct cli *cli, const struct arguments *arguments);
int command_webhook_ls(struct cli *cli, const struct arguments *arguments);
int command_webhook_test(struct cli *cli, const struct arguments *arguments);
int command_webhook_rm(struct cli *cli, const struct arguments *arguments);
int command_token_ls(struct cli *cli, const struct arguments *arguments);
int command_token_revoke(struct cli *cli, const struct arguments *arguments);
int command_import_tfevents(struct cli *cli, const struct arguments *arguments); /* command_import.c */
int command_import_mlruns(struct cli *cli, const struct arguments *arguments);
int command_scrape_config(struct cli *cli, const struct arguments *arguments); /* command_scrape.c */
int command_session_ls(struct cli *cli, const struct arguments *arguments);
int command_session_revoke(struct cli *cli, const struct arguments *arguments);
int command_status(struct cli *cli, const struct arguments *arguments); /* command_node.c */
int command_nodes(struct cli *cli, const struct arguments *arguments);
int command_slots(struct cli *cli, const struct arguments *arguments);
int command_queue(struct cli *cli, const struct arguments *arguments); /* command_queue.c */
int command_usage(struct cli *cli, const struct arguments *arguments); /* command_usage.c */
int command_top(struct cli *cli, const struct arguments *arguments); /* command_top.c */
int command_events(struct cli *cli, const struct arguments *arguments);
int command_withhold(struct cli *cli, const struct arguments *arguments); /* command_owner.c */
int command_owner_policy(struct cli *cli, const struct arguments *arguments);
int command_owner(struct cli *cli, const struct arguments *arguments);
int command_drain(struct cli *cli, const struct arguments *arguments);
int command_undrain(struct cli *cli, const struct arguments *arguments);
int command_submit(struct cli *cli, const struct arguments *arguments); /* command_submit.c */
int command_preview(struct cli *cli, const struct arguments *arguments);
int command_run(struct cli *cli, const struct arguments *arguments);    /* command_run.c */
int command_ls(struct cli *cli, const struct arguments *arguments);     /* command_ls.c */
int command_compare(struct cli *cli, const struct arguments *arguments); /* command_compare.c */
int command_config(struct cli *cli, const struct arguments *arguments); /* command_code.c */
int command_code(struct cli *cli, const struct arguments *arguments);
int command_fork(struct cli *cli, const struct arguments *arguments); /* command_fork.c */
int command_reproduce(struct cli *cli, const struct arguments *arguments);
int command_label(struct cli *cli, const struct arguments *arguments);  /* command_annotate.c */
int command_describe(struct cli *cli, const struct arguments *arguments);
int command_archive(struct cli *cli, const struct arguments *arguments);
int command_unarchive(struct cli *cli, const struct arguments *arguments);
int command_pin(struct cli *cli, const struct arguments *arguments);
int command_set(struct cli *cli, const struct arguments *arguments);
int command_extend(struct cli *cli, const struct arguments *arguments);
int command_unpin(struct cli *cli, const struct arguments *arguments);
int command_wait(struct cli *cli, const struct arguments *arguments);
int command_cancel(struct cli *cli, const struct arguments *arguments);
int command_stop(struct cli *cli, const struct arguments *arguments);
int command_retry(struct cli *cli, const struct arguments *arguments);
int command_pause(struct cli *cli, const struct arguments *arguments);
int command_resume(struct cli *cli, const struct arguments *arguments);
int command_delete(struct cli *cli, const struct arguments *arguments);
int command_show(struct cli *cli, const struct arguments *arguments);     /* command_show.c */
int command_why(struct cli *cli, const struct arguments *arguments);
int command_watch(struct cli *cli, const struct arguments *arguments);   /* command_watch.c */
int command_metrics(struct cli *cli, const struct arguments *arguments); /* command_metrics.c */
int command_export(struct cli *cli, const struct arguments *arguments); /* command_export.c */
int command_trace(struct cli *cli, const struct arguments *arguments);   /* command_trace.c */
int command_tensorboard(struct cli *cli, const struct arguments *arguments); /* command_tensorboard.c */
int command_logs(struct cli *cli, const struct arguments *arguments);    /* command_trial.c */
int command_rungs(struct cli *cli, const struct arguments *arguments);
int command_checkpoint_ls(struct cli *cli, const struct arguments *arguments);
int command_checkpoint_get(struct cli *cli, const struct arguments *arguments);
int command_checkpoint_verify(struct cli *cli, const struct arguments *arguments);
int command_exec(struct cli *cli, const struct arguments *arguments); /* command_exec.c */
int command_notebook(struct cli *cli, const struct arguments *arguments); /* command_notebook.c */
int command_forward(struct cli *cli, const struct arguments *arguments); /* command_forward.c */
int command_completion(struct cli *cli, const struct arguments *arguments); /* command_completion.c */
int command_output_ls(struct cli *cli, const struct arguments *arguments); /* command_output.c */
int command_output_get(struct cli *cli, const struct arguments *arguments);

#endif
