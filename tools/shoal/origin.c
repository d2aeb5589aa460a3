#include "tools/shoal/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"

#define MARK "# shoal: "
#define DIFF_HASH_BYTES 16

/* ---- the lines ----------------------------------------------------------------------------------------------------------- */

/* The beginning of the line that ends at `end` (behind its newline, if it has one). */
static size_t line_start(const char *text, size_t end)
{
    size_t at = end;
    if (at > 0 && text[at - 1] == '\n') {
        at--;
    }
    while (at > 0 && text[at - 1] != '\n') {
        at--;
    }
    return at;
}

static bool begins_with(const char *text, size_t bytes, const char *word)
{
    return bytes >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* A copy of `text` without its escapes. */
static char *unescape(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    size_t used = 0;
    for (size_t i = 0; copy != NULL && i < bytes; i++) {
        bool is_escape = text[i] == '\\' && i + 1 < bytes;
        i += is_escape;
        copy[used++] = is_escape && text[i] == 'n' ? '\n' : text[i];
    }
    if (copy != NULL) {
        copy[used] = '\0';
    }
    return copy;
}

static void add_override(struct origin *origin, const char *text, size_t bytes)
{
    char **bigger = realloc(origin->overrides, (origin->override_count + 1) * sizeof *bigger);
    char *copy = bigger != NULL ? unescape(text, bytes) : NULL;
    origin->overrides = bigger != NULL ? bigger : origin->overrides;
    if (copy != NULL) {
        origin->overrides[origin->override_count++] = copy;
    }
}

static void read_line(struct origin *origin, const char *line, size_t bytes)
{
    const struct {
        const char *word;
        char *out;
        size_t size;
    } rows[] = {{"commit ", origin->commit, sizeof origin->commit},
                {"diff ", origin->diff, sizeof origin->diff},
                {"version ", origin->version, sizeof origin->version},
                {"from ", origin->from, sizeof origin->from}};
    if (begins_with(line, bytes, "set ")) {
        add_override(origin, line + 4, bytes - 4);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t word = strlen(rows[i].word);
        if (begins_with(line, bytes, rows[i].word)) {
            (void)bytes_copy_text_n(rows[i].out, rows[i].size, line + word, bytes - word);
        }
    }
}

size_t origin_read(const char *text, size_t bytes, struct origin *out)
{
    size_t at = bytes;
    *out = (struct origin){.override_count = 0};
    for (size_t start = line_start(text, at); at > 0 && begins_with(text + start, at - start, MARK); start = line_start(text, at)) {
        at = start;
    }
    for (size_t line = at; line < bytes;) {
        const char *end = memchr(text + line, '\n', bytes - line);
        size_t length = end != NULL ? (size_t)(end - text) - line : bytes - line;
        read_line(out, text + line + strlen(MARK), length - strlen(MARK));
        line += length + 1;
    }
    return at;
}

void origin_free(struct origin *origin)
{
    for (size_t i = 0; i < origin->override_count; i++) {
        free(origin->overrides[i]);
    }
    free(origin->overrides);
    *origin = (struct origin){.override_count = 0};
}

void origin_write(FILE *out, const struct origin *origin, const char *const *overrides, size_t override_count)
{
    for (size_t i = 0; i < override_count; i++) {
        (void)fputs(MARK "set ", out);
        for (const char *c = overrides[i]; *c != '\0'; c++) {
            (void)fprintf(out, "%s%c", *c == '\n' || *c == '\\' ? "\\" : "", *c == '\n' ? 'n' : *c);
        }
        (void)fputc('\n', out);
    }
    const char *const rows[][2] = {
        {"commit", origin->commit}, {"diff", origin->diff}, {"version", origin->version}, {"from", origin->from}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i][1][0] != '\0') {
            (void)fprintf(out, MARK "%s %s\n", rows[i][0], rows[i][1]);
        }
    }
}

/* ---- git ----------------------------------------------------------------------------------------------------------------- */

/* Runs git and gives its output to `take`. False if it cannot be run, or fails. */
static bool run_git(char *const *words, void (*take)(void *context, const uint8_t *bytes, size_t count), void *context)
{
    extern char **environ;
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    bool is_set = posix_spawn_file_actions_init(&actions) == 0;
    bool runs = is_set && posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
                posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
                posix_spawnp(&pid, words[0], &actions, NULL, words, environ) == 0;
    if (is_set) {
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[1]);
    uint8_t bytes[65536];
    ssize_t count = 0;
    while (runs && ((count = read(ends[0], bytes, sizeof bytes)) > 0 || (count < 0 && errno == EINTR))) {
        take(context, bytes, count > 0 ? (size_t)count : 0);
    }
    (void)close(ends[0]);
    int status = 1;
    while (runs && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return runs && count == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct commit {
    char text[ORIGIN_HASH_BYTES];
    size_t used;
};

static void take_commit(void *context, const uint8_t *bytes, size_t count)
{
    struct commit *commit = context;
    for (size_t i = 0; i < count && bytes[i] != '\n' && commit->used + 1 < sizeof commit->text; i++) {
        commit->text[commit->used++] = (char)bytes[i];
    }
}

struct difference {
    crypto_generichash_state state;
    uint64_t bytes;
};

static void take_difference(void *context, const uint8_t *bytes, size_t count)
{
    struct difference *difference = context;
    (void)crypto_generichash_update(&difference->state, bytes, count);
    difference->bytes += count;
}

void origin_ask_git(const char *dir, struct origin *out)
{
    struct commit commit = {.used = 0};
    struct difference difference = {.bytes = 0};
    char git[] = "git", at[] = "-C", *path = strdup(dir), lockless[] = "--no-optional-locks", parse[] = "rev-parse", verify[] = "--verify",
         head[] = "HEAD", diff[] = "diff", no_external[] = "--no-ext-diff", no_filter[] = "--no-textconv", binary[] = "--binary",
         plain[] = "--no-color", here[] = ".", dashes[] = "--";
    char *const parse_words[] = {git, at, path, parse, verify, head, NULL};
    char *const diff_words[] = {git, lockless, at, path, diff, no_external, no_filter, binary, plain, head, dashes, here, NULL};
    out->commit[0] = out->diff[0] = '\0';
    if (path != NULL && run_git(parse_words, take_commit, &commit)) {
        (void)bytes_copy_text(out->commit, sizeof out->commit, commit.text);
        (void)crypto_generichash_init(&difference.state, NULL, 0, DIFF_HASH_BYTES);
        if (run_git(diff_words, take_difference, &difference) && difference.bytes > 0) {
            uint8_t hash[DIFF_HASH_BYTES];
            (void)crypto_generichash_final(&difference.state, hash, sizeof hash);
            bytes_to_hex(out->diff, hash, sizeof hash);
        }
    }
    free(path);
}
