#include "tools/shoal/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/data_dir.h"
#include "tools/shoal/trials.h"

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
static const struct option_rule open_options[] = {
    {"node", "NODE", "the dashboard of another node, at its door for other machines"},
    {"read-only", NULL, "the session may change nothing"},
    {"print", NULL, "print the link only; start no browser"},
    {NULL, NULL, NULL}};
static const struct option_rule connect_options[] = {
    {"out", "FILE", "where the certificate goes; default: the node's name and .pem"},
    {NULL, NULL, NULL}};
static const struct option_rule session_options[] = {
    {"all", NULL, "end all sessions at this node"},
    {NULL, NULL, NULL}};
static const struct option_rule token_options[] = {
    {"name", "NAME", "what the token is for, as shoal token ls shows it"},
    {"read-only", NULL, "the token may change nothing"},
    {"expires", "TIME", "how long it is good: 15m, 24h, 30d (default 90d)"},
    {NULL, NULL, NULL}};
static const struct option_rule webhook_options[] = {
    {"on", "EVENT", "completed, failed, best or node_lost; may be repeated"},
    {"log-match", "PATTERN", "the first line of each worker's log that matches the regular expression"},
    {"secret", "SECRET", "a secret (shoal secret ls) that signs"},
    {"slack", NULL, "a sentence as Slack and Mattermost take it, instead of the event's document"},
    {NULL, NULL, NULL}};
static const struct option_rule import_options[] = {
    {"name", "NAME", "the name of each experiment; default: that of the run, or its path below DIR"},
    {"metric", "NAME", "the metric that compares them; default: the first of the group validation, else the first"},
    {NULL, NULL, NULL}};
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
    {"kind", "KIND", "only events of this kind, or of this area: trial.failed, node.dead, trial, slot, experiment"},
    {"experiment", "EXP", "only events of this experiment"},
    {"node", "NODE", "those of another node"},
    {"since", "TIME", "begin a time ago, e.g. 2h or 7d, or at a time, e.g. '2026-11-25 16:00'; 30 days are kept"},
    {NULL, NULL, NULL},
};
static const struct option_rule submit_options[] = {
    {"context", "DIR", "the code directory; default: the directory of FILE"},
    {"set", "KEY=VALUE", "overrides a value of the file, e.g. searcher.max_trials=4; may be repeated"},
    {"after", "EXP", "begin once that experiment is completed (depends_on); may be repeated"},
    {"start-after", "TIME", "begin at that time or later, e.g. '2026-12-01 18:00', or so long from now, e.g. 2h (start_after)"},
    {"follow", NULL, "then watch the experiment until it is over"},
    {"dry-run", NULL, "list what would travel, the largest first, and what is left out and why; send nothing"},
    {"help-config", NULL, "list every key of the configuration file"},
    {NULL, NULL, NULL},
};
static const struct option_rule preview_options[] = {
    {"set", "KEY=VALUE", "a value of the configuration, e.g. searcher.max_trials=64; may be repeated"},
    {NULL, NULL, NULL},
};
static const struct option_rule run_options[] = {
    {"slots", "N", "workers that run it together; default: 1"},
    {"hp", "NAME=VALUE", "a hyperparameter: a value, or int:LOW:HIGH, double:LOW:HIGH, log:LOW:HIGH, categorical:A,B, const:TEXT; "
     "int:LOW:HIGH:log is even on the logarithm, and behind the bounds of int and double :step=N goes by steps; may be repeated"},
    {"trials", "N", "how many trials search such hyperparameters"},
    {"seed", "N", "of what the trials draw; default: a new one each time, which is told: the same seed draws the same again"},
    {"sampler", "NAME",
     "how they are drawn: random; sobol, which fills the space more evenly; or tpe, beside asha or adaptive_asha, from "
     "results; default: random"},
    {"initial", "VALUES", "own values of a trial, such as lr=0.1,n=64, from trial 0 on; may be repeated. What is left out is drawn"},
    {"searcher", "NAME",
     "random; tpe, which draws where others did well; asha (with --set searcher.num_rungs=N) or adaptive_asha, which stop "
     "bad trials early; pbt, whose worst trials go on as copies of the best, in 4 rounds unless --set searcher.num_rounds=N; "
     "or custom (with --set searcher.entrypoint=COMMAND), a program of your own; all but random need --metric, and all but "
     "random and tpe --max-length; default: random"},
    {"max-length", "LENGTH",
     "how long a trial that is never stopped trains (with pbt: in all rounds): N steps, or UNIT=N, e.g. epochs=20, of a "
     "metric that it reports"},
    {"metric", "NAME",
     "what trials are compared by: the lower the better; default: accuracy, the higher the better; searchers that go by "
     "results have no default"},
    {"maximize", NULL, "the higher the better, of the metric that --metric names"},
    {"keep", "PATH", "a file or directory that the program writes here and that outlives it (shoal output); may be repeated"},
    {"name", "NAME", "what the experiment is called; default: as the script"},
    {"context", "DIR", "the code directory; default: the current one"},
    {"set", "KEY=VALUE", "any other value of a configuration file, e.g. max_restarts=3; may be repeated"},
    {"print", NULL, "print the configuration file that does the same, and run nothing"},
    {NULL, NULL, NULL},
};
static const struct option_rule ls_options[] = {
    {"state", "STATE", "only experiments in this state, or in one of several: running,paused"},
    {"label", "NAME=VALUE", "only experiments with this label, whatever its value if VALUE is left out; may be repeated"},
    {"user", "NAME", "only experiments that this account submitted, as the node that took them saw it; may be repeated"},
    {"since", "TIME", "only experiments submitted since then: a time ago, e.g. 2h or 7d, or a time, e.g. '2026-11-25 16:00'"},
    {"archived", NULL, "also experiments that are archived"},
    {"sort", "COLUMN", "the order, by one column or several: state,-best; with a - the largest first; default: submitted"},
    {"columns", "COLUMN", "which columns, in this order: id,name,best,labels"},
    {"csv", NULL, "print comma-separated values"},
    {NULL, NULL, NULL},
};
static const struct option_rule usage_options[] = {
    {"by", "WHAT", "what the sums are told apart by, one or several: user, label, model, node, day, month; default: user"},
    {"since", "TIME", "from this day on: a time ago, e.g. 7d, or a day, e.g. 2026-11-25; default: 30d; before 35 days ago whole months count"},
    {"csv", NULL, "print comma-separated values, in seconds"},
    {NULL, NULL, NULL},
};
static const struct option_rule compare_options[] = {
    {"all", NULL, "also what is equal"},
    {"csv", NULL, "print comma-separated values"},
    {NULL, NULL, NULL},
};
static const struct option_rule config_command_options[] = {
    {"file", NULL, "the file as it was submitted, with comments that tell what --set changed and what the code was made from"},
    {NULL, NULL, NULL},
};
static const struct option_rule fork_options[] = {
    {"set", "KEY=VALUE", "what is different, e.g. hyperparameters.lr=0.01; may be repeated"},
    {NULL, NULL, NULL},
};
static const struct option_rule extend_options[] = {
    {"max-trials", "N", "how many trials it has then, all together"},
    {NULL, NULL, NULL},
};
static const struct option_rule label_options[] = {
    {"remove", NULL, "take the labels back, also those of the configuration file"},
    {NULL, NULL, NULL},
};
static const struct option_rule show_options[] = {
    {"all", NULL, "all trials and their last lines, where there are many; default: the best 20"},
    {"columns", "COLUMNS", "these columns in this order, e.g. trial,best,params; default: all that say something"},
    {"packages", NULL, "of one trial the Python packages that it ran with"},
    {"sort", "KEY", "by a column, a hyperparameter or a metric, e.g. best, hp.lr or lr; --sort=-KEY turns the order around"},
    {"where", "CONDITIONS", "only the trials that meet them, e.g. 'hp.lr<0.01 and hp.net=small and metric>=0.9'"},
    {NULL, NULL, NULL},
};
static const struct option_rule wait_options[] = {
    {"timeout", "TIME", "give up after this time (exit code 5): 90, 90s, 15m, 24h"},
    {NULL, NULL, NULL},
};
static const struct option_rule metrics_options[] = {
    {"all", NULL, "also void points: of steps that a later attempt, which went on from an older checkpoint, made anew"},
    {"csv", NULL, "a table: a column for each metric, a row for each point"},
    {"follow", NULL, "go on as points come, until the trial, or all of the experiment, is over"},
    {"points", "N", "about N sums over the whole of each attempt instead of each point: count, min, max, mean, last"},
    {"profile", NULL, "instead of the reported metrics, what each rank used (system/rankN/...) and where the time of its steps went (time/rankN/...)"},
    {"x", "step|time|NAME", "add x: the step, the time in s, or a metric of the group, e.g. epoch; points without it are left out"},
    {NULL, NULL, NULL},
};
static const struct option_rule export_options[] = {
    {"csv", "FILE", "the trials as comma-separated values: a column for each hyperparameter and metric"},
    {"html", "FILE", "one page with everything inside: curves, trials, configuration"},
    {"svg", "FILE", "the curves of the best trials as a drawing"},
    {NULL, NULL, NULL},
};
static const struct option_rule tensorboard_options[] = {
    {"files", NULL, "event files of programs also from trials that keep more than 64 MiB: all that they keep travels to this node"},
    {"follow", NULL, "go on as points come, at most 2 s behind, until all is over"},
    {"profile", NULL, "also what the ranks used and where the time of their steps went, as system/... and time/..."},
    {"logdir", "DIR", "write into DIR, and start nothing; default: a temporary directory, on which tensorboard is started"},
    {NULL, NULL, NULL},
};
static const struct option_rule trace_options[] = {
    {"out", "FILE", "write the trace into FILE, and a line about it; default: the trace goes to standard output"},
    {"steps", "N", "so many steps, 1 to 64; default: 1"},
    {"timeout", "TIME", "give up after this time (exit code 5): 90, 90s, 15m; default: 50s. A trace takes two steps more than N"},
    {NULL, NULL, NULL},
};
static const struct option_rule logs_options[] = {
    {"attempt", "N", "the attempt of this number, or all attempts: all; default: the newest"},
    {"follow", NULL, "go on, from the first attempt and over later ones, until the trial is over; with --attempt N until that one is (also -f)"},
    {"grep", "PATTERN", "only lines in which the pattern is: . [a-z] ^ $ ( ) | * + ? \\d \\w \\s have their usual meanings"},
    {"prefix", "TEXT", "what stands before each line, e.g. '[${host}:${local_rank}] '; default: '[rank=${rank}] '"},
    {"rank", "N", "only the worker of this rank, as it wrote; default: all workers"},
    {"raw", NULL, "no prefixes; the bytes as the workers wrote them, progress bars too"},
    {"since", "TIME", "only lines that ended since: a time ago, e.g. 15m or 2h, or a time, e.g. '2026-11-25 16:00'"},
    {"tail", "N", "only the last N lines of each worker; with --follow also what comes"},
    {NULL, NULL, NULL},
};

static const struct option_rule exec_options[] = {
    {"tty", NULL, "on a terminal of its own, as for an interactive program (also -t)"},
    {"rank", "N", "beside the worker of this rank; default: 0"},
    {NULL, NULL, NULL},
};
static const struct option_rule forward_options[] = {
    {"rank", "N", "to the node of the worker of this rank; default: 0"},
    {NULL, NULL, NULL},
};
static const struct option_rule notebook_options[] = {
    {"slots", "N", "slots that it holds; default: 1. Kernels use those of the notebook's own machine"},
    {"kind", "KIND", "kind of slot: any, cpu or cuda; default: any"},
    {"idle", "TIME", "without use for so long it ends and gives its slot back: 30m, 1h (default), 2d, or never"},
    {"attach", "EXP", "reach a notebook that runs already, from any node"},
    {"name", "NAME", "what the experiment is called; default: notebook- and the directory's name"},
    {"port", "PORT", "port on this machine; default: 8888, 0: any"},
    {"print", NULL, "print the link only; start no browser"},
    {"set", "KEY=VALUE", "any other value of a configuration file, e.g. environment.requirements=requirements.txt; may be repeated"},
    {NULL, NULL, NULL},
};
static const struct option_rule withhold_options[] = {
    {"for", "TIME", "for this time: 90s, 15m, 2h, 7d; default: until --return"},
    {"node", "NODE", "slots of another node, which has to be alive; default: this one"},
    {"return", NULL, "give the slots back to the mesh"},
    {NULL, NULL, NULL},
};
static const struct option_rule policy_options[] = {
    {"hours", "TIMES", "by this machine's clock: 9-18 mon-fri, 22-6, or several: '9-12 sat,sun; 14-18 mon'"},
    {"load", "PERCENT", "other processes than workers use so much of all processors, for 10 s: 50%"},
    {"activity", NULL, "the keyboard, the mouse or a terminal is used"},
    {"back-after", "TIME", "the slots return so long after the last load or activity; default: 10m"},
    {"off", NULL, "no policy"},
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

static const struct option_rule checkpoint_get_options[] = {
    {"unpack", NULL, "write the files that it consists of, if run.save of the Python package wrote it"},
    {NULL, NULL, NULL},
};

static const struct option_rule model_register_options[] = {
    {"name", "NAME", "what the model is called; default: the experiment's name"},
    {"alias", "ALIAS", "a name for the new version, such as champion"},
    {NULL, NULL, NULL},
};

static const struct option_rule model_get_options[] = {
    {"unpack", NULL, "write the files that a checkpoint consists of, if run.save of the Python package wrote it"},
    {NULL, NULL, NULL},
};

static const struct option_rule delete_options[] = {
    {"yes", NULL, "do not ask, even on a terminal"},
    {NULL, NULL, NULL},
};

#define EXPERIMENT_DETAILS                                                                                             \
    "EXP is an experiment's id, the beginning of an id (at least 4 digits), or a name that only one experiment has.\n"

#define ONLY_TRIAL_DETAILS "TRIAL is a number, as shoal show lists it; an experiment with one trial needs none.\n"

static const char experiment_details[] = EXPERIMENT_DETAILS;
static const char trial_details[] = EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n";

static const char metrics_details[] =
    "Without TRIAL the points of all trials. Void points are left out unless --all is given. NaN and infinities are NaN,\n"
    "Infinity and -Infinity in CSV, and the same words as texts in JSON.\n" EXPERIMENT_DETAILS
    "TRIAL is a number, as shoal show lists it.\n";

static const char logs_details[] =
    "Every node can show the log of every attempt, also of those that failed, until the experiment is deleted.\n"
    "Where a trial can have several workers, lines begin with their rank. In the TEXT of --prefix ${rank}, ${local_rank},\n"
    "${host}, ${attempt} and ${role_name} stand for their values: '[${role_name}${local_rank}]:' is what torchrun writes.\n" EXPERIMENT_DETAILS
    ONLY_TRIAL_DETAILS;

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
    {"open", "[EXP[/TRIAL]]", "open the dashboard of this node in a browser",
     "Prints a link that opens one session, within a minute. From another machine: ssh -L 7412:127.0.0.1:7412 HOST, and open the link\n"
     "there. --node NODE opens the dashboard of a node whose shoald has a door for other machines (--http 0.0.0.0:7412): the door has to\n"
     "have the certificate of which that node has told the mesh, and its SHA-256 is printed for the browser's warning.\n",
     open_options, 0, 1, command_open},
    {"connect", "NODE", "trust the HTTPS door of a node from this machine",
     "Fetches the certificate of the door (shoald --http 0.0.0.0:7412), compares it with what the node has told the mesh, and writes it to\n"
     "a file. Prints what curl, Python and MLflow's client have to be told; eval \"$(shoal connect NODE)\" sets it in a shell.\n",
     connect_options, 1, 1, command_connect},
    {"token create", "", "make a token for a program that uses the HTTP API",
     "The token is shown this once. It works at the HTTP door of every node: Authorization: Bearer TOKEN.\n", token_options, 0, 0,
     command_token_create},
    {"token ls", "", "the tokens of the mesh", NULL, no_options, 0, 0, command_token_ls},
    {"token revoke", "ID", "end a token, on all nodes and for ever", "ID is one of shoal token ls, or its first digits, at least 4.\n", no_options,
     1, 1, command_token_revoke},
    {"scrape-config", "", "where Prometheus finds the metrics of the mesh",
     "A part of prometheus.yml. With --json the targets alone, as file_sd reads them and the HTTP door serves them at\n"
     "/api/v1/prometheus/targets for http_sd.\n",
     no_options, 0, 0, command_scrape_config},
    {"secret set", "NAME", "set a secret, which programs find as the variable NAME",
     "The value is read from standard input, or asked for on a terminal; a newline at its end is not part of it. Programs get it by\n"
     "secrets: [NAME] in their configuration, on every node, and no command, log or page shows it. A new value counts from the next\n"
     "attempt on.\n",
     no_options, 1, 1, command_secret_set},
    {"secret ls", "", "the names of the secrets, and how many nodes have a copy", NULL, no_options, 0, 0, command_secret_ls},
    {"secret rm", "SECRET", "remove a secret, on all nodes", "Programs that run keep it; trials that ask for it wait until it is set again.\n",
     no_options, 1, 1, command_secret_rm},
    {"session ls", "", "the sessions of browsers at this node's door", "Each node has its own; one that ended is not listed.\n", no_options, 0, 0,
     command_session_ls},
    {"session revoke", "[SESSION]", "end a session of a browser, at once and for ever",
     "SESSION is one of shoal session ls, or its first digits, at least 4.\n", session_options, 0, 1, command_session_revoke},
    {"webhook add", "URL", "tell an address of events of all experiments, and of lost nodes",
     "By POST, as Standard Webhooks 1.0 say: webhook-id, webhook-timestamp, and with --secret webhook-signature. It is tried again after\n"
     "5 s, 30 s, 2 min, 10 min and 1 h, always with the same webhook-id, by another node if need be; the status 410 ends it. URL is\n"
     "http://, https://, or secret:NAME for an address that is a secret itself. The key webhooks of a configuration is for one experiment.\n",
     webhook_options, 1, 1, command_webhook_add},
    {"webhook ls", "", "the webhooks of the mesh, and what became of telling them", NULL, no_options, 0, 0, command_webhook_ls},
    {"webhook test", "WEBHOOK", "send a webhook a test", "WEBHOOK is one of shoal webhook ls, or its first digits, at least 4.\n", no_options, 1, 1,
     command_webhook_test},
    {"webhook rm", "WEBHOOK", "remove a webhook, or an allowed host", "WEBHOOK is one of shoal webhook ls, or its first digits, at least 4.\n",
     no_options, 1, 1, command_webhook_rm},
    {"webhook allow", "HOST", "let webhooks reach a host of this machine or its network",
     "Addresses of the machine itself, link-local ones and those of metadata services are refused, unless the mesh allows the HOST of\n"
     "the URL by name.\n",
     no_options, 1, 1, command_webhook_allow},
    {"status", "", "this node and its mesh", NULL, no_options, 0, 0, command_status},
    {"nodes", "", "the nodes of the mesh", NULL, no_options, 0, 0, command_nodes},
    {"slots", "", "the slots of the mesh, and what runs on them",
     "Below them the warm processes (environment.warm) of this node; each node lists its own.\n",
     no_options, 0, 0, command_slots},
    {"queue", "", "which experiments wait for slots, in their order, and what for",
     "Each line is an experiment and what the first of its waiting trials waits for. WAITING counts these trials, SINCE is when the\n"
     "first one began to wait, SLOTS how many it asks for. Experiments that are paused, and trials that a search holds back, do\n"
     "not wait for slots; shoal why EXP/TRIAL tells about any trial, shoal set EXP priority=N moves an experiment.\n",
     no_options, 0, 0, command_queue},
    {"usage", "", "what the slots of the mesh were used for: slot-hours by user, label, model, node, day or month",
     "A slot counts from its lease to the end of the worker, whatever became of the trial; LOST is the part behind the last\n"
     "checkpoint of attempts that failed or were lost. Each node counts its own slots, by days and months of UTC, and writes it\n"
     "every minute and 5 s after a worker has ended; deleting an experiment takes nothing away. label is the experiment's label\n"
     "`project`, or else its first one by name. Days are kept for 35 days, months for five years.\n",
     usage_options, 0, 0, command_usage},
    {"top", "", "the mesh at work: slots, what runs on them, how fast, and what it uses",
     "On a terminal a page that is drawn anew every 2 s, until Ctrl-C; in a pipe and with --json one page, after 4 s: a speed is\n"
     "taken over the last looks, at most 14 s. CPU and RAM are those of the worker's processes, CPU in percent of one processor;\n"
     "GPU and MEMORY are those of the whole GPU.\n",
     no_options, 0, 0, command_top},
    {"submit", "FILE", "start an experiment; the last word printed is its id",
     "FILE is YAML; '-' reads standard input (then --context is needed). The code directory travels without what\n"
     "git ignores, without .git, .venv and any directory with a pyvenv.cfg, __pycache__, node_modules,\n"
     ".ipynb_checkpoints, wandb, mlruns and shoal-runs. A .shoalignore file (the rules of .gitignore) leaves out more; its\n"
     "\"!PATTERN\" brings back what any of these leave out, \"!/build/gen.py\" also from an ignored directory. Sockets, pipes,\n"
     "devices and the data directory of a node, which has its private key, never travel.\n"
     "Returns once code and record are on disk here and on another node.\n",
     submit_options, 0, 1, command_submit},
    {"preview", "FILE", "the trials that a configuration file gives: how many, how long, with which hyperparameters",
     "Starts nothing, and needs no daemon unless searcher.warm_start names earlier experiments. Of asha and\n"
     "adaptive_asha it shows the brackets with their rungs, and how many trials reach each rung if all trials of a\n"
     "bracket report at the same time; in a real search it is more. Of searchers that draw from results (tpe, pbt,\n"
     "sampler: tpe) only the first trials have values before the search; those of custom come from its program, which\n"
     "preview does not start. '-' reads standard input.\n",
     preview_options, 1, 1, command_preview},
    {"run", "COMMAND...", "run a program without a file: shoal run --slots 4 -- python3 train.py",
     "Submits the current directory, shows what the program writes, and ends with the program's status (128 + N if signal N\n"
     "killed it). A \"--\" stands before the command. A hyperparameter stands where the command has {{hp.NAME}}, else behind it\n"
     "as --NAME VALUE. The program runs in a copy of the directory: of what it writes, the paths of --keep and what is below\n"
     "$SHOAL_OUTPUT_DIR outlive it (shoal output ls, get). With several trials their progress is shown in place of their\n"
     "output. Ctrl-C asks whether to cancel the run or to leave it running; after a second one, after SIGTERM and without a\n"
     "terminal to ask on it runs on. A program that fails is not started again (--set max_restarts=N); one whose node is lost\n"
     "is.\n",
     run_options, 1, OPERANDS_MAX, command_run},
    {"ls", "", "the experiments",
     "The columns are id, name, state, trials, total, queued, running, completed, failed, stopped, best, metric, best_trial,\n"
     "coordinator, term, submitted, user, labels, description, pinned, archived, priority and waiting. Experiments without a value\n"
     "are last. user is shown by itself where the experiments have several.\n",
     ls_options, 0, 0, command_ls},
    {"show", "EXP[/TRIAL]", "one experiment and its trials, or one trial",
     "The columns are " TRIALS_NAMES ":\n"
     "value is the newest value of searcher.metric; params are the hyperparameters that differ, a column each. A terminal that is\n"
     "too narrow shows the first of them.\n" EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n",
     show_options, 1, 1, command_show},
    {"why", "EXP/TRIAL", "why a trial waits, runs, failed or was stopped",
     EXPERIMENT_DETAILS ONLY_TRIAL_DETAILS, no_options, 1, 1, command_why},
    {"rungs", "EXP", "what a search has decided: which trials went on, were stopped or were replaced",
     "Of asha and adaptive_asha: how many trials reached each rung, went on and were stopped. --json has every\n"
     "decision: trial, rung, metric, and its place among those that had reached the rung by then. With\n"
     "searcher.stop_once false some trials are paused: they hold no slots, and go on from their checkpoints when they\n"
     "are among the best 1/divisor of the rung; shoal stop and shoal retry let one go on at once. Of pbt: the trials of\n"
     "each round, the best first, and which of them went on or were replaced by a copy of which other.\n" EXPERIMENT_DETAILS,
     no_options, 1, 1, command_rungs},
    {"wait", "EXP", "return when an experiment is over: 0 completed, 1 cancelled or failed",
     "A search whose program (searcher custom) is not started any more ends the wait, too, with 1 and the reason.\n"
     EXPERIMENT_DETAILS,
     wait_options, 1, 1, command_wait},
    {"watch", "EXP", "follow an experiment: a screen on a terminal, lines in a pipe",
     "On a terminal these keys work: up and down choose a trial, Enter opens it, l follows its log until Ctrl-C, s sorts by another\n"
     "column, c cancels the experiment after a question, q ends the command; the experiment goes on.\n" EXPERIMENT_DETAILS,
     no_options, 1, 1, command_watch},
    {"stop", "EXP/TRIAL", "let one trial save and leave for good; the others go on",
     "The program is asked to save and leave, as by shoal pause, and killed after the experiment's preemption_timeout. A trial\n"
     "that has not begun never does. The trial is then stopped: its checkpoints, logs and files stay, its last metric counts for\n"
     "the best trial, and an experiment whose trials are all completed or stopped is completed.\n" EXPERIMENT_DETAILS
     "TRIAL is a number, as shoal show lists it.\n",
     no_options, 1, 1, command_stop},
    {"retry", "EXP/TRIAL", "let a failed or stopped trial run again",
     "The trial goes on from its newest checkpoint and files, and its failures so far count no more. Its experiment runs again, if it\n"
     "was over. A trial that is completed, or whose experiment is cancelled, does not run again; nor does one whose checkpoints and\n"
     "files are deleted, as the options save_... ask.\n" EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n",
     no_options, 1, 1, command_retry},
    {"cancel", "EXP", "end an experiment for good", experiment_details, no_options, 1, 1, command_cancel},
    {"pause", "EXP", "let the trials save a checkpoint and stop", experiment_details, no_options, 1, 1, command_pause},
    {"resume", "EXP", "let a paused experiment go on, or one begin whose depends_on did not complete", experiment_details, no_options, 1, 1, command_resume},
    {"compare", "EXP[/TRIAL] [EXP[/TRIAL]...]", "what differs between experiments or trials, a column for each",
     "Hyperparameters and results first, then the configuration and the code. Of an experiment its best trial counts, or its only\n"
     "one.\n" EXPERIMENT_DETAILS
     "TRIAL is a number, as shoal show lists it.\n",
     compare_options, 2, OPERANDS_MAX, command_compare},
    {"config", "EXP", "the configuration of an experiment, with all defaults",
     "The values in force: what shoal set and extend have changed is marked, with the value that was submitted.\n" EXPERIMENT_DETAILS,
     config_command_options, 1, 1, command_config},
    {"code", "EXP DIR", "write the code of an experiment into DIR",
     "DIR is made if it is not there; files that are there already are not replaced.\n" EXPERIMENT_DETAILS, no_options, 2, 2, command_code},
    {"fork", "EXP[/TRIAL[@STEP]]", "submit an experiment once more, with changes; or a trial, from one of its checkpoints",
     "The same code and configuration, as shoal config --file shows it, and begins afresh. Its name is NAME-2, or the next number\n"
     "that is free, unless --set name=NAME gives another one. What shoal set and extend have changed is taken over. With TRIAL the new experiment has this trial only, with its\n"
     "hyperparameters and its seed, and goes on from its newest checkpoint, or that of STEP (shoal checkpoint ls lists them):\n"
     "--set hyperparameters.lr=0.01 changes what comes after.\n" EXPERIMENT_DETAILS,
     fork_options, 1, 1, command_fork},
    {"reproduce", "EXP/TRIAL", "submit one trial once more: the same code, hyperparameters and seed",
     "The new experiment has this trial only. shoal compare then tells what differs.\n" EXPERIMENT_DETAILS
     "TRIAL is a number, as shoal show lists it.\n",
     no_options, 1, 1, command_reproduce},
    {"label", "EXP NAME[=VALUE]...", "attach labels to an experiment, or take them back",
     "They stand beside the labels of the configuration file, in shoal ls and show. A new VALUE takes the place of the old one.\n"
     EXPERIMENT_DETAILS,
     label_options, 2, OPERANDS_MAX, command_label},
    {"describe", "EXP[/TRIAL] TEXT", "say what an experiment is for, in place of its configuration's description, or note something about a trial",
     "An empty TEXT takes the note back.\n" EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n",
     no_options, 2, 2, command_describe},
    {"archive", "EXP [EXP...]", "leave experiments that are over out of lists", experiment_details, no_options, 1, OPERANDS_MAX,
     command_archive},
    {"unarchive", "EXP [EXP...]", "list archived experiments again", experiment_details, no_options, 1, OPERANDS_MAX, command_unarchive},
    {"pin", "EXP [EXP...]", "keep experiments: they are not deleted, and all checkpoints stay", experiment_details, no_options, 1,
     OPERANDS_MAX, command_pin},
    {"unpin", "EXP [EXP...]", "let experiments be deleted, and checkpoints go, again", experiment_details, no_options, 1, OPERANDS_MAX,
     command_unpin},
    {"extend", "EXP", "let a search go on: give it further trials, also once it is over",
     "The trials so far stay as they are. The further ones begin as the search's own do: by its seed and their numbers, and beside\n"
     "the same results. An experiment that was over runs again. One that was cancelled gets no further trials, nor does one with\n"
     "the searcher grid or single.\n" EXPERIMENT_DETAILS,
     extend_options, 1, 1, command_extend},
    {"set", "EXP KEY=N", "change priority, max_slots or max_trials of an experiment",
     "priority=N: a trial of an experiment with a lower number goes first in the queue: 1 to 99. What runs goes on.\n"
     "max_slots=N: the workers up to which an elastic group grows; a group that has more keeps them.\n"
     "max_trials=N: as shoal extend EXP --max-trials N.\n"
     "Other options cannot be changed: shoal fork submits the experiment once more with other values.\n" EXPERIMENT_DETAILS,
     no_options, 2, 2, command_set},
    {"delete", "EXP [EXP...]", "end an experiment, and forget everything about it",
     "Its trials, results, metrics and checkpoints are gone, on all nodes and for ever. On a terminal you are asked\n"
     "first.\n" EXPERIMENT_DETAILS,
     delete_options, 1, OPERANDS_MAX, command_delete},
    {"metrics", "EXP[/TRIAL]", "the metric points, one per line", metrics_details, metrics_options, 1, 1,
     command_metrics},
    {"import tfevents", "DIR", "runs of TensorBoard as experiments",
     "Each directory below DIR with event files is a run, with what is below it, and becomes an experiment with one trial, the\n"
     "labels imported and tfevents, the hyperparameters of the page HPARAMS, and the scalars with their times. The trial needs a\n"
     "slot for a moment: its program copies the files to where they are read.\n",
     import_options, 1, 1, command_import_tfevents},
    {"import mlruns", "DIR", "runs of MLflow's file store as experiments",
     "DIR is mlruns, or a directory in it. Each run becomes an experiment as by import tfevents, with its parameters; one that did\n"
     "not finish becomes a failed one. Artifacts stay behind.\n",
     import_options, 1, 1, command_import_mlruns},
    {"tensorboard", "EXP[/TRIAL] [EXP[/TRIAL]...]", "the metric points as event files, and TensorBoard on them",
     "Writes DIR/EXPERIMENT/TRIAL, from any node: the points as GROUP/NAME, hyperparameters and how trials ended, and below program/\n"
     "the files that programs wrote into $SHOAL_TENSORBOARD_DIR. Files in DIR are only ever continued: with the same DIR the next\n"
     "call adds what is new. Without --logdir the files follow the trials until tensorboard ends, and are then removed.\n"
     EXPERIMENT_DETAILS "TRIAL is a number, as shoal show lists it.\n",
     tensorboard_options, 1, OPERANDS_MAX, command_tensorboard},
    {"export", "EXP", "write an experiment into a file for somebody without an account",
     "The page of --html opens from a disk, in any browser: it has no script and loads nothing. It shows the best 5000 trials and\n"
     "the curves of the best 10. '-' in the place of FILE writes to standard output.\n" EXPERIMENT_DETAILS,
     export_options, 1, 1, command_export},
    {"trace", "EXP[/TRIAL]", "the next steps of all ranks of a running trial, span by span on one clock, for chrome://tracing",
     "Of programs with libshoal or import shoal: steps, waits for data, sums and other collectives with their bytes, forward and\n"
     "backward of shoal.torch.DistributedDataParallel, saves of checkpoints. Programs without a connection to Shoal, such as\n"
     "plain torchrun scripts, cannot be traced; PyTorch has torch.profiler for them.\n" EXPERIMENT_DETAILS ONLY_TRIAL_DETAILS,
     trace_options, 1, 1, command_trace},
    {"logs", "EXP[/TRIAL]", "what a trial's workers wrote", logs_details, logs_options, 1, 1, command_logs},
    {"checkpoint ls", "EXP", "the checkpoints, and the nodes that hold them", experiment_details, no_options, 1, 1,
     command_checkpoint_ls},
    {"checkpoint get", "EXP[/TRIAL[@STEP]] DIR", "write a checkpoint, the newest or that of STEP, into DIR",
     "Writes DIR/checkpoint and DIR/metadata.json; DIR is made if it is not there. With --unpack DIR/state.msgpack and\n"
     "DIR/NAME.safetensors stand in the place of DIR/checkpoint; files that are there already are replaced. Of a checkpoint of\n"
     "several parts each part comes into a directory DIR/part-N.\n" EXPERIMENT_DETAILS
     ONLY_TRIAL_DETAILS "STEP is one from shoal checkpoint ls.\n", checkpoint_get_options, 2, 2,
     command_checkpoint_get},
    {"checkpoint verify", "EXP/TRIAL", "let every node that holds a copy read it and check its hash", trial_details,
     no_options, 1, 1, command_checkpoint_verify},
    {"model ls", "[MODEL]", "the registered models, or the versions of one", "MODEL is a name of shoal model ls.\n", no_options, 0, 1,
     command_model_ls},
    {"model register", "EXP[/TRIAL[@STEP]]", "make a checkpoint of a trial the next version of a model",
     "The newest checkpoint, or that of STEP; of a trial without checkpoints the files that its program has left. It is kept, whatever the\n"
     "options save_... say, until shoal model rm, and its experiment is not deleted before.\n" EXPERIMENT_DETAILS ONLY_TRIAL_DETAILS,
     model_register_options, 1, 1, command_model_register},
    {"model alias", "MODEL VERSION ALIAS", "let a name stand for a version of a model, in place of the one that it stands for now",
     "VERSION is a number of shoal model ls MODEL. ALIAS has letters, digits, _ and -.\n", no_options, 3, 3, command_model_alias},
    {"model unalias", "MODEL ALIAS", "take an alias back", NULL, no_options, 2, 2, command_model_unalias},
    {"model get", "MODEL DIR", "write a version of a model into DIR",
     "MODEL is NAME, for the newest version, NAME@ALIAS or NAME/VERSION. A checkpoint as shoal checkpoint get writes it, files as shoal output get does.\n", model_get_options, 2, 2, command_model_get},
    {"model rm", "MODEL", "remove a model with all of its versions, or one version",
     "MODEL is NAME, or NAME/VERSION. The trials and their checkpoints stay as long as their experiments keep them. On a terminal you are asked first.\n", delete_options, 1, 1,
     command_model_rm},
    {"output ls", "EXP/TRIAL [PATH]", "the files that a trial's program has left", output_details, no_options, 1, 2,
     command_output_ls},
    {"output get", "EXP/TRIAL [PATH] [DIR]", "write these files, or those below PATH, into DIR",
     "DIR is made if it is not there; default: EXP-TRIAL. Files that are there already are replaced.\n" OUTPUT_DETAILS, no_options,
     1, 3, command_output_get},
    {"exec", "EXP/TRIAL COMMAND...", "run a command beside a trial's program: shoal exec -t EXP/0 -- bash",
     "On the worker's node, as its account, in its directory and with its environment. The exit status is the command's, 128 + N if signal\n"
     "N has ended it; 1 with a sentence if it did not run. It ends with this command, or with the trial's attempt, and so does\n"
     "what it leaves running. Words after -- are no options of shoal.\n" EXPERIMENT_DETAILS ONLY_TRIAL_DETAILS,
     exec_options, 2, OPERANDS_MAX, command_exec},
    {"port-forward", "EXP/TRIAL PORT[:REMOTE]", "reach a port of a trial's machine from this one",
     "Listens at http://127.74.X.Y:PORT/, an address of its own for each trial, until Ctrl-C or the trial's end, and carries each\n"
     "connection to port REMOTE (default: PORT) of the loopback of the worker's node. When the trial moves, connections go where it is then.\n"
     EXPERIMENT_DETAILS ONLY_TRIAL_DETAILS,
     forward_options, 2, 2, command_forward},
    {"notebook", "[DIR]", "JupyterLab on a slot of the mesh, in a browser here",
     "Begins a trial that runs JupyterLab, and prints a link to it. The code directory (default: the current one) is copied to where\n"
     "JupyterLab works, $SHOAL_OUTPUT_DIR: so files outlive the node, and the notebook goes on elsewhere with them (shoal output get).\n"
     "A kernel that computes, a cell that is run and a file that is saved count as use. shoal ls --label notebook lists notebooks,\n"
     "shoal cancel EXP ends one.\n",
     notebook_options, 0, 1, command_notebook},
    {"events", "", "what happened on this node, or on another one", NULL, events_options, 0, 0, command_events},
    {"withhold", "[SLOT]...", "take slots of a node back from the mesh; default: all of this one",
     "SLOT is a slot's index in shoal slots. A worker there is asked to save a checkpoint and leave, and killed after\n"
     "its experiment's preemption_timeout; its trial goes on elsewhere. Slots stay withheld when the daemon is restarted;\n"
     "the time of --for then begins anew.\n",
     withhold_options, 0, OPERANDS_MAX, command_withhold},
    {"owner policy", "", "when this machine is its owner's, and its slots are withheld",
     "The options are the whole policy; without any the policy is shown. While a reason holds, all slots of this machine are withheld\n"
     "as by shoal withhold: workers save and leave within their preemption_timeout, and trials go on elsewhere. Slots that you\n"
     "withhold or return yourself stay as you want them until the next reason.\n",
     policy_options, 0, 0, command_owner_policy},
    {"owner", "[NODE]", "what runs on a node, since when, and until when its slots are withheld", node_details, no_options, 0, 1,
     command_owner},
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

/* A text of several lines is several sentences. */
static void write_sentence(struct cli *cli, const char *format, va_list values)
{
    char *text = NULL;
    (void)fflush(cli->out);
    if (vasprintf(&text, format, values) < 0) {
        text = NULL;
    }
    const char *at = text != NULL ? text : format;
    do {
        size_t bytes = strcspn(at, "\n");
        (void)fprintf(cli->err, "shoal: %s%.*s\n", cli->about != NULL ? cli->about : "", (int)bytes, at);
        at += bytes + (at[bytes] == '\n');
    } while (*at != '\0');
    (void)fflush(cli->err);
    free(text);
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
    const char *rest = strstr(command->operands, "COMMAND..."); /* its words may look like options */
    int before = rest != NULL ? (int)(rest - command->operands) : (int)strlen(command->operands);
    (void)fprintf(out, "Usage: shoal %s%s%.*s%s%s%s\n\n%c%s.\n", command->name, *command->operands != '\0' ? " " : "", before,
                  command->operands, rest == NULL && command->options->name != NULL ? " " : "",
                  command->options->name != NULL ? "[OPTION]..." : "", rest != NULL ? " -- COMMAND..." : "",
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
