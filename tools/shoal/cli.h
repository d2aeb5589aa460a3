#ifndef TOOLS_SHOAL_CLI_H
#define TOOLS_SHOAL_CLI_H
/* What every command of `shoal` gets: where to write, what the terminal can do, which data directory. */

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/shoal/options.h"

enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1, /* or failed */
    CLI_USAGE = 2,
    CLI_NO_DAEMON = 3,
    CLI_NO_SUCH_THING = 4,
    CLI_TIMED_OUT = 5
};

struct cli {
    FILE *out, *err;
    FILE *in; /* answers to questions, which are asked on `err` and only if this is a terminal */
    bool in_is_terminal, out_is_terminal, err_is_terminal;
    bool colours;          /* on `out` */
    const char *shoal_dir; /* $SHOAL_DIR, or NULL */
    const char *home;      /* $HOME, or NULL */
    bool json;             /* --json */
    char dir[PATH_MAX];    /* the data directory */
};

extern const struct command cli_commands[];

/* The whole program: parses, runs, returns the exit code. Fills `json` and `dir`; the rest is set before. */
int cli_run(struct cli *cli, int argc, char *const *argv);

/* Writes "shoal: " and one sentence to standard error; returns `code`. */
int cli_fail(struct cli *cli, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same without an end: the program goes on. */
void cli_warn(struct cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* After a question on standard error: reads one line; true if it says yes. */
bool cli_hears_yes(struct cli *cli);

/* The commands, by file. */
int command_init(struct cli *cli, const struct arguments *arguments); /* command_mesh.c */
int command_join(struct cli *cli, const struct arguments *arguments);
int command_invite(struct cli *cli, const struct arguments *arguments);
int command_leave(struct cli *cli, const struct arguments *arguments);
int command_evict(struct cli *cli, const struct arguments *arguments); /* command_evict.c */
int command_status(struct cli *cli, const struct arguments *arguments); /* command_node.c */
int command_nodes(struct cli *cli, const struct arguments *arguments);
int command_slots(struct cli *cli, const struct arguments *arguments);
int command_events(struct cli *cli, const struct arguments *arguments);
int command_withhold(struct cli *cli, const struct arguments *arguments); /* command_owner.c */
int command_drain(struct cli *cli, const struct arguments *arguments);
int command_undrain(struct cli *cli, const struct arguments *arguments);
int command_submit(struct cli *cli, const struct arguments *arguments); /* command_submit.c */
int command_ls(struct cli *cli, const struct arguments *arguments);     /* command_experiment.c */
int command_show(struct cli *cli, const struct arguments *arguments);
int command_wait(struct cli *cli, const struct arguments *arguments);
int command_cancel(struct cli *cli, const struct arguments *arguments);
int command_pause(struct cli *cli, const struct arguments *arguments);
int command_resume(struct cli *cli, const struct arguments *arguments);
int command_delete(struct cli *cli, const struct arguments *arguments);
int command_watch(struct cli *cli, const struct arguments *arguments);   /* command_watch.c */
int command_metrics(struct cli *cli, const struct arguments *arguments); /* command_trial.c */
int command_logs(struct cli *cli, const struct arguments *arguments);
int command_checkpoint_ls(struct cli *cli, const struct arguments *arguments);
int command_checkpoint_get(struct cli *cli, const struct arguments *arguments);
int command_checkpoint_verify(struct cli *cli, const struct arguments *arguments);

#endif
