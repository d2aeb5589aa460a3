#include "tests/unit/trainer_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/idx_files.h"
#include "train/trainer/ledger_command.h"

struct trained trained;

void trained_begin(void)
{
    idx_directory_make(trained.directory);
    idx_set_write(trained.directory, TRAINED_IMAGES, 100, 6, true);
}

void trained_end(void)
{
    idx_directory_remove(trained.directory);
}

size_t trained_read_text(const char *name, char *out, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", trained.directory, name);
    FILE *file = fopen(path, "r");
    size_t used = file != NULL ? fread(out, 1, size - 1, file) : 0;
    out[used] = 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)unlink(path);
    return used;
}

static void exec_rank(const struct fake_daemon *daemon, uint32_t rank, const char *data)
{
    char path[128];
    fake_daemon_environment(daemon, rank);
    (void)snprintf(path, sizeof path, "%s/steps", trained.directory);
    (void)setenv("SHOAL_STEP_LOG", path, 1);
    (void)snprintf(path, sizeof path, "%s/hashes", trained.directory);
    (void)setenv("SHOAL_FINAL_HASH", path, 1);
    (void)snprintf(path, sizeof path, "%s/errors", trained.directory);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 2) < 0 || freopen("/dev/null", "w", stdout) == NULL) {
        _exit(90);
    }
    const char *program = trained.pace[rank] > 0 ? SHOAL_TRAIN_PACED : SHOAL_TRAIN;
    (void)snprintf(path, sizeof path, "%u", trained.pace[rank]);
    (void)setenv("PACE", path, 1);
    (void)execl(program, program, "mlp", "--data", data, (char *)NULL);
    _exit(91);
}

void trained_start(struct fake_daemon *daemon, uint32_t from, uint32_t to, pid_t *children)
{
    for (uint32_t rank = from; rank < to; rank++) {
        children[rank] = fake_daemon_fork(daemon);
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            exec_rank(daemon, rank, trained.directory);
        }
    }
}

void trained_read(struct fake_daemon *daemon)
{
    (void)pthread_mutex_lock(&daemon->mutex); /* from here on its fields may be read */
    (void)pthread_mutex_unlock(&daemon->mutex);
    static char text[1 << 16];
    (void)trained_read_text("errors", trained.errors, sizeof trained.errors);
    (void)trained_read_text("steps", trained.steps, sizeof trained.steps);
    trained.step_lines = 0;
    for (const char *c = trained.steps; *c != 0; c++) {
        trained.step_lines += *c == '\n';
    }
    (void)trained_read_text("hashes", text, sizeof text);
    memset(trained.hashes, 0, sizeof trained.hashes);
    size_t lines = 0;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        unsigned trial, attempt, rank;
        char hex[80];
        assert_int_equal(sscanf(line, "%u %u %u %79s", &trial, &attempt, &rank, hex), 4);
        assert_true(rank < FAKE_RANKS_MAX && trial == 4 && attempt == 2);
        assert_true(lines < FAKE_RANKS_MAX);
        strcpy(trained.hashes[lines++], hex);
    }
}

bool trained_run_on(struct fake_daemon *daemon, const char *data, int expected)
{
    uint32_t size = daemon->size;
    pid_t children[FAKE_RANKS_MAX];
    for (uint32_t rank = 0; rank < size; rank++) {
        children[rank] = fake_daemon_fork(daemon);
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) {
            exec_rank(daemon, rank, data);
        }
    }
    bool all = true;
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        all = all && WIFEXITED(status) && WEXITSTATUS(status) == expected;
    }
    trained_read(daemon);
    if (!all) {
        print_error("%s", trained.errors);
    }
    return all;
}

bool trained_run(struct fake_daemon *daemon, int expected)
{
    return trained_run_on(daemon, trained.directory, expected);
}

void trained_assert_equal(uint32_t size)
{
    assert_int_equal(strlen(trained.hashes[0]), 64);
    for (uint32_t i = 1; i < size; i++) {
        assert_string_equal(trained.hashes[i], trained.hashes[0]);
    }
    assert_true(size == FAKE_RANKS_MAX || trained.hashes[size][0] == 0);
}

void trained_wait(const pid_t *children, uint32_t from, uint32_t to)
{
    for (uint32_t rank = from; rank < to; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            trained_read_text("errors", trained.errors, sizeof trained.errors);
            print_error("%s", trained.errors);
        }
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

void trained_kill(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

void trained_kill_all(const pid_t *children, uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_int_equal(kill(children[rank], SIGSTOP), 0);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        trained_kill(children[rank]);
    }
}

size_t trained_losses(const struct fake_daemon *daemon, uint64_t steps, double out[steps + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < daemon->report_count; i++) {
        const struct fake_report *r = &daemon->reports[i];
        if (strcmp(r->group, "training") == 0) {
            assert_true(r->step >= 1 && r->step <= steps);
            out[r->step] = r->loss;
            count++;
        }
    }
    return count;
}

struct ledger_verdict trained_prove(void)
{
    static char copy[sizeof trained.steps];
    struct ledger_line *lines = calloc(trained.step_lines + 1, sizeof *lines);
    assert_non_null(lines);
    size_t count = 0;
    memcpy(copy, trained.steps, sizeof copy);
    for (char *save = NULL, *text = strtok_r(copy, "\n", &save); text != NULL; text = strtok_r(NULL, "\n", &save)) {
        char experiment[64];
        uint32_t trial;
        assert_true(ledger_line_read(text, experiment, &trial, &lines[count++]));
        assert_int_equal(trial, 4);
    }
    qsort(lines, count, sizeof *lines, ledger_compare);
    struct ledger_verdict verdict = {0};
    char error[LEDGER_ERROR_BYTES] = "";
    bool holds = ledger_prove(lines, count, TRAINED_SAMPLES, &verdict, error);
    assert_string_equal(error, "");
    assert_true(holds);
    free(lines);
    return verdict;
}
