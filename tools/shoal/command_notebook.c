/* notebook: JupyterLab as a trial, with its port on this machine. The trial's program is
 * train/python/shoal/_notebook.py, which leaves port and token in a file that this command reads by a stream: they
 * stand in no record, no log and no command line. */

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "tools/shoal/browser.h"
#include "tools/shoal/forward.h"
#include "tools/shoal/shell.h"
#include "tools/shoal/submission.h"
#include "tools/shoal/submit_context.h"

#define IDLE_S_DEFAULT 3600
#define IDLE_S_MAX (30u * 86400)
#define PORT_DEFAULT 8888
#define LOOK_S 2    /* between looks where it listens, while connections fail */
#define PATIENCE 20 /* failures to reach it before a sentence tells why */
#define PLACE_SCRIPT "cat \"$SHOAL_OUTPUT_DIR/../notebook.json\""

struct notebook {
    struct cli *cli;
    const char *id;
    bool is_shown, wants_browser;
    char url[512];
    time_t look_s;
    uint32_t failures; /* to reach it while its trial runs */
    pid_t words;       /* the process that shows what the notebook says; 0: none */
};

/* ---- the configuration ----------------------------------------------------------------------------------------- */

static void write_name(FILE *out, const char *given, const char *dir)
{
    char path[PATH_MAX] = "";
    const char *word = given;
    if (word == NULL && realpath(dir, path) != NULL) {
        word = strrchr(path, '/') + 1;
    }
    (void)fputs(given != NULL ? "name: \"" : "name: \"notebook-", out);
    for (; word != NULL && *word != '\0'; word++) {
        (void)fputc(isalnum((unsigned char)*word) != 0 || *word == '_' || *word == '-' ? *word : '-', out);
    }
    (void)fputs("\"\n", out);
}

static int read_idle(struct cli *cli, const struct arguments *arguments, uint64_t *out)
{
    const char *text = options_value(arguments, "idle");
    *out = IDLE_S_DEFAULT;
    if (text != NULL && strcmp(text, "never") == 0) {
        *out = 0;
    } else if (text != NULL && (units_read_time(text, IDLE_S_MAX, out) != 0 || *out == 0)) {
        return cli_fail(cli, CLI_USAGE, "--idle %.40s is no time; allowed are 30m, 1h, 2d, up to 30d, or never", text);
    }
    return CLI_DONE;
}

/* The caller frees `*text`. */
static int write_config(struct cli *cli, const struct arguments *arguments, const char *dir, char **text, size_t *bytes)
{
    const char *slots = options_value(arguments, "slots"), *kind = options_value(arguments, "kind");
    uint64_t count = 1, idle_s;
    int code = read_idle(cli, arguments, &idle_s);
    if (code == CLI_DONE && slots != NULL && (options_number(slots, CONFIG_SLOTS_MAX, &count) != 0 || count == 0)) {
        code = cli_fail(cli, CLI_USAGE, "--slots %.40s is no number of slots; give a number from 1 to %d", slots,
                        CONFIG_SLOTS_MAX);
    }
    if (code == CLI_DONE && kind != NULL && strcmp(kind, "cpu") != 0 && strcmp(kind, "cuda") != 0 &&
        strcmp(kind, "any") != 0) {
        code = cli_fail(cli, CLI_USAGE, "--kind %.40s is no kind of slot; allowed are any, cpu and cuda", kind);
    }
    FILE *out = code == CLI_DONE ? open_memstream(text, bytes) : NULL;
    if (code == CLI_DONE && out == NULL) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    if (code != CLI_DONE) {
        return code;
    }
    write_name(out, options_value(arguments, "name"), dir);
    (void)fprintf(out,
                  "labels: [notebook]\nentrypoint: exec python3 -m shoal._notebook --idle %llu\nresources:\n  "
                  "slots_per_trial: %llu\n",
                  (unsigned long long)idle_s, (unsigned long long)count);
    (void)fprintf(out, "  slot_kind: %s\n", kind != NULL ? kind : "any");
    return fclose(out) == 0 ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "no memory is left");
}

static int submit(struct cli *cli, const struct arguments *arguments, const char *dir, struct submission *submission)
{
    struct client client;
    struct cli quiet = *cli;
    int code = submission_begin(cli, submission);
    submission->file = "shoal notebook";
    if (code == CLI_DONE) {
        code = write_config(cli, arguments, dir, &submission->text, &submission->text_bytes);
    }
    submission->override_count = options_values(arguments, "set", submission->overrides, SUBMISSION_OVERRIDES_MAX + 1);
    code = code == CLI_DONE ? submission_check(cli, submission) : code;
    if (code == CLI_DONE && arguments->operand_count == 0) {
        code = submit_context_check_unnamed(cli, dir, "shoal notebook DIR");
    }
    code = code == CLI_DONE ? submission_pack(cli, dir, submission) : code;
    quiet.json = false;
    code = code == CLI_DONE ? submission_deliver(&quiet, submission, cli->err, &client) : code;
    if (code == CLI_DONE) {
        client_close(&client);
    }
    return code;
}

/* ---- the notebook's words -------------------------------------------------------------------------------------- */

/* Runs `shoal logs`, which shows on standard error what the notebook says. */
static pid_t start_words(struct notebook *notebook, bool follows)
{
    char target[64];
    pid_t parent = getpid(), pid;
    (void)snprintf(target, sizeof target, "%s/0", notebook->id);
    (void)fflush(notebook->cli->out);
    (void)fflush(notebook->cli->err);
    pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
            _exit(CLI_REFUSED);
        }
        (void)execl("/proc/self/exe", "shoal", "--dir", notebook->cli->dir, "logs", target, "--raw", "--grep",
                    "^notebook: ", follows ? "--follow" : "--tail=3", (char *)NULL);
        _exit(CLI_REFUSED);
    }
    return pid;
}

static void end_words(struct notebook *notebook)
{
    if (notebook->words > 0) {
        (void)kill(notebook->words, SIGTERM);
        (void)waitpid(notebook->words, NULL, 0);
    }
    notebook->words = 0;
}

/* ---- its address ----------------------------------------------------------------------------------------------- */

/* The text of a value in {"port": N, "token": "..."}; false: it is not there, or has characters that no token has. */
static bool find_value(const char *json, const char *key, char *out, size_t size)
{
    char quoted[32];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(json, quoted);
    if (at == NULL) {
        return false;
    }
    at += strlen(quoted);
    at += strspn(at, " \"");
    size_t bytes = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~");
    if (bytes == 0 || bytes >= size) {
        return false;
    }
    memcpy(out, at, bytes);
    out[bytes] = '\0';
    return true;
}

static void show(struct notebook *notebook)
{
    struct cli *cli = notebook->cli;
    if (cli->json) {
        (void)fprintf(cli->out, "{\"experiment\":\"%s\",\"url\":\"%s\"}\n", notebook->id, notebook->url);
    } else {
        (void)fprintf(cli->out, "%s\n", notebook->url);
    }
    (void)fflush(cli->out);
    if (notebook->wants_browser && !notebook->is_shown) {
        (void)browser_show(cli->dir, notebook->url);
    }
    notebook->is_shown = true;
}

/* Asks where the notebook listens, which changes when it begins anew on another node. */
static bool look(struct forward *forward, void *context)
{
    struct notebook *notebook = context;
    char json[1024], port_text[16], token[256], url[sizeof notebook->url];
    uint64_t port;
    time_t now_s = time(NULL);
    if (forward->port != 0 && (!forward->has_failed || now_s < notebook->look_s)) {
        return true;
    }
    notebook->look_s = now_s + LOOK_S;
    bool is_read = shell_read(notebook->cli, &forward->target, PLACE_SCRIPT, true, json, sizeof json) == CLI_DONE &&
                   find_value(json, "port", port_text, sizeof port_text) &&
                   find_value(json, "token", token, sizeof token) && options_number(port_text, UINT16_MAX, &port) == 0;
    if (!is_read) {
        notebook->failures += forward->is_running;
        if (notebook->failures ==
            PATIENCE) { /* the owner of the node may not let anybody in: then a sentence says so */
            (void)shell_read(notebook->cli, &forward->target, "true", false, json, sizeof json);
        }
        return true;
    }
    forward->port = (uint16_t)port;
    forward->has_failed = false;
    (void)snprintf(url, sizeof url, "http://%s/lab?token=%s", forward->address, token);
    if (strcmp(url, notebook->url) != 0) {
        (void)snprintf(notebook->url, sizeof notebook->url, "%s", url);
        show(notebook);
    }
    if (notebook->words == 0) {
        notebook->words = start_words(notebook, true);
    }
    return true;
}

/* Serves the notebook of this experiment until it is over, or the user leaves. */
static int attend(struct cli *cli, const struct arguments *arguments, const char *experiment)
{
    struct forward forward;
    struct target target = {.has_trial = true};
    uint64_t port = PORT_DEFAULT;
    const char *given = options_value(arguments, "port");
    struct notebook notebook = {.cli = cli, .wants_browser = !cli->json && !options_has(arguments, "print")};
    if (given != NULL && options_number(given, UINT16_MAX, &port) != 0) {
        return cli_fail(cli, CLI_USAGE, "--port %.40s is no port", given);
    }
    (void)snprintf(target.experiment, sizeof target.experiment, "%s", experiment);
    int code = forward_open(cli, &target, 0, (uint16_t)port, &forward);
    if (code != CLI_DONE) {
        return code;
    }
    notebook.id = forward.target.experiment;
    code = forward_serve(&forward, look, &notebook);
    forward_close(&forward);
    end_words(&notebook);
    if (code > 128) {
        cli_warn(cli,
                 "the notebook goes on without this terminal; shoal notebook --attach %s reaches it again, shoal "
                 "cancel %s ends it",
                 notebook.id, notebook.id);
    } else if (code == CLI_DONE && !notebook.is_shown) {
        notebook.words = start_words(&notebook, false);
        (void)waitpid(notebook.words, NULL, 0);
        code = CLI_REFUSED;
    }
    return code;
}

int command_notebook(struct cli *cli, const struct arguments *arguments)
{
    struct submission submission;
    const char *attached = options_value(arguments, "attach");
    const char *dir = arguments->operand_count > 0 ? arguments->operands[0] : ".";
    if (attached != NULL && arguments->operand_count > 0) {
        return cli_fail(cli, CLI_USAGE, "--attach reaches a notebook that runs, and takes no directory");
    }
    if (attached != NULL) {
        return attend(cli, arguments, attached);
    }
    int code = submit(cli, arguments, dir, &submission);
    code = code == CLI_DONE ? attend(cli, arguments, submission.id) : code;
    submission_free(&submission);
    return code;
}
