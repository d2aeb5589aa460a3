/* tensorboard: experiments as event files, for TensorBoard, which is started on them unless they are to be left in a
 * directory. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "tools/shoal/board.h"

#define ROUND_MS 1000 /* between looks, or as long as the last look took: half of the daemon's time is left to others */
#define SLICE_MS 100
#define TEMPORARY "shoal-tensorboard-XXXXXX"

static volatile sig_atomic_t is_asked_to_end;

static void ask_to_end(int number)
{
    (void)number;
    is_asked_to_end = 1;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the viewer -------------------------------------------------------------------------------------------------- */

/* Runs `tensorboard --logdir DIR`, which ends with this process. -1 with errno: it cannot be run. */
static pid_t viewer_start(const char *directory)
{
    int ends[2], reason = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent) {
            (void)execlp("tensorboard", "tensorboard", "--logdir", directory, (char *)NULL);
        }
        reason = errno;
        (void)!write(ends[1], &reason, sizeof reason);
        _exit(127);
    }
    (void)close(ends[1]);
    bool has_failed = child > 0 && read(ends[0], &reason, sizeof reason) == sizeof reason;
    (void)close(ends[0]);
    if (has_failed) {
        (void)waitpid(child, NULL, 0);
        errno = reason;
    }
    return has_failed ? -1 : child;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* A running command. */
struct show_on_board {
    struct cli *cli;
    struct board_wish wish;
    struct board *board;
    char directory[PATH_MAX];
    pid_t viewer; /* 0: none runs */
    bool is_temporary;
};

/* Waits until the time; false: the command is to end, or the viewer has ended. */
static bool wait_until(struct show_on_board *run, uint64_t until_ms)
{
    for (;;) {
        if (run->viewer > 0 && waitpid(run->viewer, NULL, WNOHANG) == run->viewer) {
            run->viewer = 0;
            return false;
        }
        uint64_t now = now_ms();
        if (is_asked_to_end || now >= until_ms) {
            return !is_asked_to_end;
        }
        (void)poll(NULL, 0, until_ms - now < SLICE_MS ? (int)(until_ms - now) : SLICE_MS);
    }
}

/* Writes what comes, until all is over, or with a viewer until that has ended. */
static int follow(struct show_on_board *run, bool is_over)
{
    bool has_viewer = run->viewer > 0;
    int code = CLI_DONE;
    uint64_t rest_ms = ROUND_MS;
    while (code == CLI_DONE && (has_viewer || !is_over) && wait_until(run, now_ms() + rest_ms)) {
        if (is_over) {
            continue;
        }
        uint64_t begun_ms = now_ms();
        code = board_round(run->board, &is_over);
        uint64_t took_ms = now_ms() - begun_ms;
        rest_ms = took_ms < ROUND_MS / 2 ? ROUND_MS - took_ms : took_ms;
    }
    return code;
}

static void write_counts(const struct show_on_board *run)
{
    const struct board_counts counts = board_counts(run->board);
    if (!run->cli->json) {
        (void)fprintf(run->cli->out, "%llu %s of %llu %s, %llu points and %llu files of programs in %s\n",
                      (unsigned long long)counts.trials, counts.trials == 1 ? "trial" : "trials",
                      (unsigned long long)counts.experiments, counts.experiments == 1 ? "experiment" : "experiments",
                      (unsigned long long)counts.points, (unsigned long long)counts.files, run->directory);
        return;
    }
    uint8_t bytes[PATH_MAX + 128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 5);
    pack_text(&writer, "directory");
    pack_text(&writer, run->directory);
    pack_text(&writer, "experiments");
    pack_u64(&writer, counts.experiments);
    pack_text(&writer, "trials");
    pack_u64(&writer, counts.trials);
    pack_text(&writer, "points");
    pack_u64(&writer, counts.points);
    pack_text(&writer, "files");
    pack_u64(&writer, counts.files);
    (void)document_write_packed_json(run->cli->out, bytes, writer.used_bytes);
}

/* Starts TensorBoard on the temporary directory; where there is none, tells what to type. */
static void start_viewer(struct show_on_board *run)
{
    struct sigaction action = {.sa_handler = ask_to_end};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)fflush(run->cli->out);
    run->viewer = viewer_start(run->directory);
    if (run->viewer < 0) {
        cli_warn(run->cli, "the program tensorboard cannot be run: %s; where there is one, type: tensorboard --logdir %s",
                 strerror(errno), run->directory);
        run->viewer = 0;
        run->is_temporary = false;
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
    }
}

static int make_directory(struct show_on_board *run, const char *given)
{
    const char *tmpdir = run->cli->tmpdir != NULL && run->cli->tmpdir[0] == '/' ? run->cli->tmpdir : "/tmp";
    int length = given != NULL ? snprintf(run->directory, sizeof run->directory, "%s", given)
                               : snprintf(run->directory, sizeof run->directory, "%s/" TEMPORARY, tmpdir);
    if (length < 0 || length >= (int)sizeof run->directory) {
        return cli_fail(run->cli, CLI_USAGE, "the path %.200s... is too long", run->directory);
    }
    if (given != NULL ? mkdir(given, 0755) != 0 && errno != EEXIST : mkdtemp(run->directory) == NULL) {
        return cli_fail(run->cli, CLI_REFUSED, "the directory %.200s cannot be made: %s", run->directory, strerror(errno));
    }
    run->is_temporary = given == NULL;
    return CLI_DONE;
}

static int show(struct show_on_board *run, const struct arguments *arguments)
{
    bool is_over;
    int code = board_open(run->cli, &run->wish, arguments->operands, arguments->operand_count, &run->board);
    if (code != CLI_DONE) {
        return code;
    }
    code = board_round(run->board, &is_over);
    if (code == CLI_DONE && run->wish.follows && !run->cli->json) {
        write_counts(run);
    }
    bool wants_viewer = run->is_temporary, is_kept = code == CLI_DONE;
    if (code == CLI_DONE && wants_viewer) {
        start_viewer(run);
    }
    if (code == CLI_DONE && run->wish.follows && (!wants_viewer || run->viewer > 0 || options_has(arguments, "follow"))) {
        code = follow(run, is_over);
    }
    if (run->viewer > 0) {
        (void)kill(run->viewer, SIGTERM);
        (void)waitpid(run->viewer, NULL, 0);
    }
    if (is_kept && (!run->wish.follows || run->cli->json)) {
        write_counts(run);
    }
    board_warn(run->board);
    return code == CLI_DONE && board_counts(run->board).lacking > 0 ? CLI_REFUSED : code;
}

int command_tensorboard(struct cli *cli, const struct arguments *arguments)
{
    const char *given = options_value(arguments, "logdir");
    struct show_on_board run = {.cli = cli};
    int code = make_directory(&run, given);
    if (code != CLI_DONE) {
        return code;
    }
    run.wish = (struct board_wish){.directory = run.directory,
                                   .follows = options_has(arguments, "follow") || given == NULL,
                                   .has_profile = options_has(arguments, "profile"),
                                   .has_large = options_has(arguments, "files")};
    code = show(&run, arguments);
    board_close(&run.board);
    if (run.is_temporary) {
        (void)nftw(run.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    return code;
}
