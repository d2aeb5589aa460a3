#include "tools/shoal/cli.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "store/data_dir.h"

static const struct option_rule no_options[] = {{NULL, NULL, NULL}};
static const struct option_rule init_options[] = {
    {"name", "MESH", "what the mesh is called; default: as this node"},
    {"node-name", "NAME", "what this node is called; default: the host's name"},
    {NULL, NULL, NULL},
};
static const struct option_rule join_options[] = {
    {"name", "NAME", "what this node is called; default: the host's name"},
    {NULL, NULL, NULL},
};
static const struct option_rule invite_options[] = {
    {"expires", "TIME", "how long the token is good: 90s, 15m, 24h (default), 7d"},
    {"list", NULL, "show all invites and whether they are good, instead of a new one"},
    {"revoke", "ID", "make an invite useless: its id, the beginning of the id, or the token"},
    {NULL, NULL, NULL},
};
static const struct option_rule evict_options[] = {
    {"with-vouched", NULL, "nodes that only this node vouched for go, too"},
    {"yes", NULL, "do not ask, even on a terminal"},
    {NULL, NULL, NULL},
};
static const struct option_rule events_options[] = {
    {"follow", NULL, "go on as events happen"},
    {"from", "N", "begin with event number N"},
    {"since", "TIME", "begin a time ago, e.g. 2h or 7d, or at a time, e.g. '2026-11-25 16:00'; 30 days are kept"},
    {NULL, NULL, NULL},
};
static const struct option_rule submit_options[] = {
    {"context", "DIR", "the code directory; default: the directory of FILE"},
    {"set", "KEY=VALUE", "overrides a value of the file, e.g. searcher.max_trials=4; may be repeated"},
    {"follow", NULL, "then watch the experiment until it is over"},
    {"dry-run", NULL, "list what would travel, the largest first, and what is left out and why; send nothing"},
    {"help-config", NULL, "list every key of the configuration file"},
    {NULL, NULL, NULL},
};
static const struct option_rule wait_options[] = {
    {"timeout", "TIME", "give up after this time (exit code 5): 90, 90s, 15m, 24h"},
    {NULL, NULL, NULL},
};
static const struct option_rule logs_options[] = {
    {"follow", NULL, "go on as the trial writes"},
    {"rank", "N", "only the worker of this rank; default: all workers"},
    {NULL, NULL, NULL},
};

static const struct option_rule withhold_options[] = {
    {"for", "TIME", "for this time: 90s, 15m, 2h, 7d; default: until --return"},
    {"return", NULL, "give the slots back to the mesh"},
    {NULL, NULL, NULL},
};
static const struct option_rule drain_options[] = {
    {"now", NULL, "the node's workers save a checkpoint and move; default: they finish there"},
    {"wait", NULL, "return when no worker runs there any more"},
    {"timeout", "TIME", "with --wait: give up after this time (exit code 5): 90, 90s, 15m, 24h"},
    {NULL, NULL, NULL},
};

static const char node_details[] =
    "NODE is a node's id, the beginning of an id (at least 4 digits), or a name that only one node has, as shoal nodes\n"
    "prints it (elm~3f2a: of several nodes named elm the one whose id begins with 3f2a); default: this node.\n";

static const struct option_rule delete_options[] = {
    {"yes", NULL, "do not ask, even on a terminal"},
    {NULL, NULL, NULL},
};

#define EXPERIMENT_DETAILS                                                                                             \
    "EXP is an experiment's id, the beginning of an id (at least 4 digits), or a name that only one experiment has.\n"

static const char experiment_details[] = EXPERIMENT_DETAILS;
static const char trial_details[] = EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n";

#define OUTPUT_DETAILS                                                                                                 \
    "They are what the key keep of the configuration names (below work/), what lies in $SHOAL_OUTPUT_DIR (output/), and the\n" \
    "newest of $SHOAL_CHECKPOINT_DIR (checkpoint/), as last copied; after the end of a program that was killed, also what it\n" \
    "had not finished (unfinished/).\n" EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it; PATH one of shoal output ls.\n"
static const char output_details[] = OUTPUT_DETAILS;

const struct command cli_commands[] = {
    {"init", "", "make a mesh and this node's key",
     "Makes the data directory, the key and the mesh's first member record. Then start shoald.\n", init_options, 0, 0,
     command_init},
    {"invite", "", "print a token with which others can join",
     "Anybody with the token can join until it expires. Send it over a channel that you trust.\n", invite_options, 0, 0,
     command_invite},
    {"join", "TOKEN", "make this node's key and join a mesh",
     "A member that the token names vouches for this node's key. Then start shoald. '-' reads the token\n"
     "from standard input.\n",
     join_options, 1, 1, command_join},
    {"status", "", "this node and its mesh", NULL, no_options, 0, 0, command_status},
    {"nodes", "", "the nodes of the mesh", NULL, no_options, 0, 0, command_nodes},
    {"slots", "", "the slots of the mesh, and what runs on them", NULL, no_options, 0, 0, command_slots},
    {"submit", "FILE", "start an experiment; the last word printed is its id",
     "FILE is YAML; '-' reads standard input (then --context is needed). The code directory travels without what\n"
     "git ignores, without .git, .venv and any directory with a pyvenv.cfg, __pycache__, node_modules,\n"
     ".ipynb_checkpoints, wandb and mlruns, and without sockets, pipes and devices. A .shoalignore file (the rules of\n"
     ".gitignore) leaves out more; its \"!PATTERN\" brings back what any of these leave out, \"!/build/gen.py\" also\n"
     "from an ignored directory. Returns once code and record are on disk here and on another node.\n",
     submit_options, 0, 1, command_submit},
    {"ls", "", "the experiments", NULL, no_options, 0, 0, command_ls},
    {"show", "EXP", "one experiment and its trials", experiment_details, no_options, 1, 1, command_show},
    {"wait", "EXP", "return when an experiment is over: 0 completed, 1 cancelled or failed", experiment_details,
     wait_options, 1, 1, command_wait},
    {"watch", "EXP", "follow an experiment: a screen on a terminal, lines in a pipe", experiment_details, no_options, 1, 1,
     command_watch},
    {"cancel", "EXP", "end an experiment for good", experiment_details, no_options, 1, 1, command_cancel},
    {"pause", "EXP", "let the trials save a checkpoint and stop", experiment_details, no_options, 1, 1, command_pause},
    {"resume", "EXP", "let a paused experiment go on", experiment_details, no_options, 1, 1, command_resume},
    {"delete", "EXP [EXP...]", "end an experiment, and forget everything about it",
     "Its trials, results, metrics and checkpoints are gone, on all nodes and for ever. On a terminal you are asked\n"
     "first.\n" EXPERIMENT_DETAILS,
     delete_options, 1, OPERANDS_MAX, command_delete},
    {"metrics", "EXP[/TRIAL]", "the metric points, one per line", trial_details, no_options, 1, 1,
     command_metrics},
    {"logs", "EXP/TRIAL", "what a trial's workers wrote", trial_details, logs_options, 1, 1, command_logs},
    {"checkpoint ls", "EXP", "the checkpoints, and the nodes that hold them", experiment_details, no_options, 1, 1,
     command_checkpoint_ls},
    {"checkpoint get", "EXP/TRIAL[@STEP] DIR", "write a checkpoint, the newest or that of STEP, into DIR",
     "Writes DIR/checkpoint and DIR/metadata.json; DIR is made if it is not there.\n" EXPERIMENT_DETAILS
     "TRIAL is a number, as shoal show lists it; STEP one from shoal checkpoint ls.\n", no_options, 2, 2,
     command_checkpoint_get},
    {"checkpoint verify", "EXP/TRIAL", "let every node that holds a copy read it and check its hash", trial_details,
     no_options, 1, 1, command_checkpoint_verify},
    {"output ls", "EXP/TRIAL [PATH]", "the files that a trial's program has left", output_details, no_options, 1, 2,
     command_output_ls},
    {"output get", "EXP/TRIAL [PATH] [DIR]", "write these files, or those below PATH, into DIR",
     "DIR is made if it is not there; default: EXP-TRIAL. Files that are there already are replaced.\n" OUTPUT_DETAILS, no_options,
     1, 3, command_output_get},
    {"events", "", "what happened on this node", NULL, events_options, 0, 0, command_events},
    {"withhold", "[SLOT]...", "take slots of this node back from the mesh; default: all",
     "SLOT is a slot's index in shoal slots. A worker there is asked to save a checkpoint and leave, and killed after\n"
     "its experiment's preemption_timeout; its trial goes on elsewhere. Slots stay withheld when the daemon is restarted;\n"
     "the time of --for then begins anew.\n",
     withhold_options, 0, OPERANDS_MAX, command_withhold},
    {"drain", "[NODE]", "give a node no new work; its data stays available", node_details, drain_options, 0, 1,
     command_drain},
    {"undrain", "[NODE]", "let a drained node have work again", node_details, no_options, 0, 1, command_undrain},
    {"leave", "", "leave the mesh; returns when no worker runs here any more and another node knows", NULL, no_options,
     0, 0, command_leave},
    {"evict", "NODE", "shut a node out for ever; its trials run again elsewhere",
     "NODE is a name that only one node has, or the beginning of an id (at least 4 digits). The node's key never returns.\n"
     "Nodes that it vouched for stay unless --with-vouched is given. On a terminal you are asked first.\n",
     evict_options, 1, 1, command_evict},
    {"completion", "SHELL", "print a completion script for bash, zsh or fish",
     "The package installs all three. Else, in ~/.bashrc or ~/.zshrc: source <(shoal completion bash), or zsh; in fish:\n"
     "shoal completion fish > ~/.config/fish/completions/shoal.fish\n",
     no_options, 1, 1, command_completion},
    {NULL, NULL, NULL, NULL, NULL, 0, 0, NULL},
};

static void write_sentence(struct cli *cli, const char *format, va_list values)
{
    (void)fflush(cli->out);
    (void)fputs("shoal: ", cli->err);
    (void)vfprintf(cli->err, format, values);
    (void)fputc('\n', cli->err);
    (void)fflush(cli->err);
}

bool cli_hears_yes(struct cli *cli)
{
    char line[16] = "";
    (void)fflush(cli->out);
    (void)fflush(cli->err);
    if (fgets(line, sizeof line, cli->in) == NULL) {
        (void)fputc('\n', cli->err);
    }
    line[strcspn(line, "\n")] = '\0';
    return strcasecmp(line, "yes") == 0 || strcasecmp(line, "y") == 0;
}

int cli_fail(struct cli *cli, int code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_sentence(cli, format, values);
    va_end(values);
    return code;
}

void cli_warn(struct cli *cli, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    write_sentence(cli, format, values);
    va_end(values);
}

static void write_options(FILE *out, const struct option_rule *rule)
{
    for (; rule->name != NULL; rule++) {
        char left[64];
        (void)snprintf(left, sizeof left, "--%s%s%s", rule->name, rule->value != NULL ? " " : "",
                       rule->value != NULL ? rule->value : "");
        (void)fprintf(out, "  %-18s %s\n", left, rule->help);
    }
}

static void help_command(FILE *out, const struct command *command)
{
    (void)fprintf(out, "Usage: shoal %s%s%s%s\n\n%c%s.\n", command->name, *command->operands != '\0' ? " " : "",
                  command->operands, command->options->name != NULL ? " [OPTION]..." : "",
                  command->summary[0] >= 'a' && command->summary[0] <= 'z' ? command->summary[0] - 'a' + 'A'
                                                                           : command->summary[0],
                  command->summary + 1);
    if (command->details != NULL) {
        (void)fputs(command->details, out);
    }
    (void)fputs("\nOptions:\n", out);
    write_options(out, command->options);
    write_options(out, options_common);
}

/* `group`: only the commands whose first word is `group`; NULL: all commands. */
static void help_all(FILE *out, const char *group)
{
    (void)fprintf(out, "Usage: shoal %s%sCOMMAND ... [OPTION]...\n\n", group == NULL ? "" : group, group == NULL ? "" : " ");
    (void)fputs(group == NULL ? "Trains models on the machines of a lab, without a master.\n\nCommands:\n"
                              : "Commands:\n",
                out);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        char left[64];
        size_t bytes = group == NULL ? 0 : strlen(group);
        if (group != NULL && (strncmp(command->name, group, bytes) != 0 || command->name[bytes] != ' ')) {
            continue;
        }
        (void)snprintf(left, sizeof left, "%s %s", command->name, command->operands);
        (void)fprintf(out, "  %-36s %s\n", left, command->summary);
    }
    (void)fputs("\nOptions of all commands:\n", out);
    write_options(out, options_common);
    if (group == NULL) {
        (void)fputs("\nFirst steps: shoal init and shoald; then shoal invite, and on each other machine shoal join TOKEN and\n"
                    "shoald. After that shoal submit FILE works on any of them.\n",
                    out);
    }
    (void)fputs("\n" EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n", out);
    (void)fputs("The data directory is --dir, else $SHOAL_DIR, else ~/.local/state/shoal/<machine-id>.\n"
                "Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no daemon, 4 no such thing, 5 timed out.\n"
                "shoal COMMAND --help explains a command.\n",
                out);
}

/* Home directories are often shared between machines, so the default path holds the machine's id. As in node/daemon/main.c. */
static int default_dir(struct cli *cli, char out[PATH_MAX])
{
    char machine[64] = "";
    FILE *file = fopen("/etc/machine-id", "re");
    if (file != NULL) {
        if (fgets(machine, sizeof machine, file) == NULL) {
            machine[0] = '\0';
        }
        (void)fclose(file);
    }
    machine[strspn(machine, "0123456789abcdef")] = '\0';
    if (cli->home == NULL || cli->home[0] == '\0') {
        return cli_fail(cli, CLI_USAGE, "there is no $HOME; name the data directory with --dir or $SHOAL_DIR");
    }
    int length =
        snprintf(out, PATH_MAX, "%s/.local/state/shoal/%s", cli->home, machine[0] == '\0' ? "machine" : machine);
    return length > 0 && length < PATH_MAX ? CLI_DONE
                                           : cli_fail(cli, CLI_USAGE, "the path of the home directory is too long");
}

static int find_dir(struct cli *cli, const struct arguments *arguments)
{
    const char *given = options_value(arguments, "dir");
    char standard[PATH_MAX], error[512];
    given = given != NULL ? given : cli->shoal_dir != NULL && cli->shoal_dir[0] != '\0' ? cli->shoal_dir : NULL;
    if (given == NULL && default_dir(cli, standard) != CLI_DONE) {
        return CLI_USAGE;
    }
    if (data_dir_absolute(given != NULL ? given : standard, cli->dir, sizeof cli->dir, error, sizeof error) != 0) {
        return cli_fail(cli, CLI_USAGE, "%s", error);
    }
    return CLI_DONE;
}

static int run(struct cli *cli, int argc, char *const *argv)
{
    struct arguments arguments;
    char error[OPTIONS_ERROR_BYTES];
    bool asks_help = argc >= 2 && strcmp(argv[1], "help") == 0; /* "shoal help submit" = "shoal submit --help" */
    int parsed = asks_help ? options_parse(cli_commands, argc - 1, argv + 1, &arguments, error)
                           : options_parse(cli_commands, argc, argv, &arguments, error);
    if (asks_help && arguments.command != NULL) {
        help_command(cli->out, arguments.command);
        return CLI_DONE;
    }
    if (parsed != 0) {
        return cli_fail(cli, CLI_USAGE, "%s", error);
    }
    if (options_has(&arguments, "version")) {
        (void)fputs("shoal " SHOAL_VERSION "\n", cli->out);
        return CLI_DONE;
    }
    if (arguments.command == NULL) {
        bool asked = asks_help || options_has(&arguments, "help");
        help_all(asked ? cli->out : cli->err, arguments.group);
        return asked ? CLI_DONE : CLI_USAGE;
    }
    if (options_has(&arguments, "help")) {
        help_command(cli->out, arguments.command);
        return CLI_DONE;
    }
    cli->json = options_has(&arguments, "json");
    int code = find_dir(cli, &arguments);
    return code == CLI_DONE ? arguments.command->run(cli, &arguments) : code;
}

int cli_run(struct cli *cli, int argc, char *const *argv)
{
    int code = run(cli, argc, argv);
    if ((fflush(cli->out) != 0 || ferror(cli->out)) && code == CLI_DONE) {
        code = cli_fail(cli, CLI_REFUSED, "standard output could not be written; is its disk full?");
    }
    return code;
}
