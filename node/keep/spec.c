#include "node/keep/spec.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pack.h"
#include "node/keep/proto.h"

static void pack_texts(struct pack_writer *writer, const char *const *texts, size_t count)
{
    pack_array(writer, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_text(writer, texts[i]);
    }
}

static size_t text_bytes(const char *text)
{
    return strlen(text) + 5; /* the longest head of a text */
}

size_t keep_spec_bytes(const struct keep_spec *spec)
{
    size_t bytes = 512 + spec->identity_bytes + text_bytes(spec->working_directory) + text_bytes(spec->entrypoint);
    for (size_t i = 0; i < spec->lock_count; i++) {
        bytes += text_bytes(spec->lock_paths[i]);
    }
    for (size_t i = 0; i < spec->environment_count; i++) {
        bytes += text_bytes(spec->environment[i]);
    }
    return bytes;
}

void keep_spec_pack(struct pack_writer *writer, const struct keep_spec *spec)
{
    pack_map(writer, 11);
    pack_text(writer, "version");
    pack_u64(writer, KEEP_PROTO_VERSION);
    pack_text(writer, "identity");
    pack_bin(writer, spec->identity, spec->identity_bytes);
    pack_text(writer, "lease_ms");
    pack_u64(writer, spec->lease_ms);
    pack_text(writer, "log_cap_bytes");
    pack_u64(writer, spec->log_cap_bytes);
    pack_text(writer, "working_directory");
    pack_text(writer, spec->working_directory);
    pack_text(writer, "entrypoint");
    pack_text(writer, spec->entrypoint);
    pack_text(writer, "stop_signal");
    pack_u64(writer, spec->stop_signal);
    pack_text(writer, "polite");
    pack_bool(writer, spec->is_polite);
    pack_text(writer, "locks");
    pack_texts(writer, spec->lock_paths, spec->lock_count);
    pack_text(writer, "environment");
    pack_texts(writer, spec->environment, spec->environment_count);
    pack_text(writer, "secret_bytes");
    pack_u64(writer, spec->secret_count > 0 ? keep_spec_secret_bytes(spec) : 0);
}

size_t keep_spec_secret_bytes(const struct keep_spec *spec)
{
    size_t bytes = 0;
    for (size_t i = 0; i < spec->secret_count; i++) {
        bytes += strlen(spec->secrets[i]) + 1;
    }
    return bytes;
}

void keep_spec_pack_secrets(struct pack_writer *writer, const struct keep_spec *spec)
{
    for (size_t i = 0; i < spec->secret_count; i++) {
        pack_raw(writer, (const uint8_t *)spec->secrets[i], strlen(spec->secrets[i]) + 1);
    }
}

/* Copies a text value, with `before` in front; NULL if it is missing or malformed. */
static char *text_take(struct pack_reader *reader, const char *before)
{
    size_t bytes;
    const char *text = pack_read_text(reader, &bytes);
    if (reader->failed || memchr(text, '\0', bytes) != NULL) {
        return NULL;
    }
    size_t before_bytes = strlen(before);
    char *copy = malloc(before_bytes + bytes + 1);
    if (copy != NULL) {
        memcpy(copy, before, before_bytes);
        memcpy(copy + before_bytes, text, bytes);
        copy[before_bytes + bytes] = '\0';
    }
    return copy;
}

static void texts_free(char **texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        explicit_bzero(texts[i], strlen(texts[i]));
        free(texts[i]);
    }
    free(texts);
}

/* Copies a list of texts; the result ends in NULL. NULL if it is malformed or too long. */
static char **texts_take(struct pack_reader *reader, size_t count_max, size_t *count)
{
    size_t elements = pack_read_array(reader);
    char **texts = reader->failed || elements > count_max ? NULL : calloc(elements + 1, sizeof *texts);
    for (size_t i = 0; texts != NULL && i < elements; i++) {
        texts[i] = text_take(reader, "");
        if (texts[i] == NULL) {
            texts_free(texts);
            return NULL;
        }
    }
    *count = elements;
    return texts;
}

/* Looks for a program in the worker's PATH. A program that is found there is neither a keyword nor a special builtin of the
 * shell. False: none, and `file` is then undefined. */
static bool path_find(char *const *environment, const char *name, size_t bytes, char file[KEEP_PATH_BYTES])
{
    const char *path = NULL;
    for (size_t i = 0; environment[i] != NULL; i++) {
        if (strncmp(environment[i], "PATH=", 5) == 0) {
            path = environment[i] + 5;
        }
    }
    while (path != NULL && *path != '\0') {
        size_t part = strcspn(path, ":");
        int n = snprintf(file, KEEP_PATH_BYTES, "%.*s/%.*s", (int)part, path, (int)bytes, name);
        struct stat info; /* a directory ("/usr/bin/.") may be entered, and is no program */
        if (*path == '/' && n > 0 && n < KEEP_PATH_BYTES && access(file, X_OK) == 0 && stat(file, &info) == 0 &&
            S_ISREG(info.st_mode)) {
            return true;
        }
        path += part + (path[part] == ':' ? 1 : 0);
    }
    return false;
}

/* True if the shell would only run one program for `entrypoint`: no separator, pipe, subshell or substitution outside
 * quotes, and a first word that names a program. When in doubt, false. */
static bool is_one_program(const char *entrypoint, char *const *environment)
{
    const char *word = entrypoint + strspn(entrypoint, " \t");
    size_t word_bytes = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+-");
    if (word_bytes == 0 || (word[word_bytes] != '\0' && word[word_bytes] != ' ' && word[word_bytes] != '\t')) {
        return false;
    }
    char quote = '\0';
    for (const char *at = word; *at != '\0'; at++) {
        if (quote == '\'') {
            quote = *at == '\'' ? '\0' : quote;
        } else if (*at == '\\' && at[1] != '\0') {
            at++;
        } else if (*at == '"') {
            quote = quote == '"' ? '\0' : '"';
        } else if (*at == '`' || *at == '(' || (*at == '$' && at[1] == '\'') ||
                   (quote == '\0' && strchr(";&|)\n", *at) != NULL)) {
            return false;
        } else if (*at == '\'' && quote == '\0') {
            quote = '\'';
        }
    }
    char file[KEEP_PATH_BYTES];
    return quote == '\0' && (memchr(word, '/', word_bytes) != NULL || path_find(environment, word, word_bytes, file));
}

/* The shell of this machine: bash where there is one, since job scripts are written for it (`source`, `[[`, `conda
 * activate`), and since it tells a failure in front of a pipe. NULL: no memory. */
static char *shell_take(char *const *environment, bool *is_bash)
{
    char file[KEEP_PATH_BYTES] = "/bin/bash";
    *is_bash = environment != NULL && (access(file, X_OK) == 0 || path_find(environment, "bash", 4, file));
    return strdup(*is_bash ? file : "/bin/sh");
}

/* The command for the shell's -c: `exec` in front of a single program. A shell that stays between this process and the program
 * would hide how the program ended; would die of the SIGTERM that gives the program its grace; and would die alone if
 * this process is killed, since PR_SET_PDEATHSIG does not pass a fork. Some shells do not replace themselves by a
 * single program unasked (dash 0.5.12 does not). */
static char *command_take(struct pack_reader *entrypoint, char *const *environment)
{
    struct pack_reader again = *entrypoint;
    char *command = text_take(entrypoint, "");
    if (command == NULL || environment == NULL || !is_one_program(command, environment)) {
        return command;
    }
    free(command);
    return text_take(&again, "exec ");
}

int keep_run_read(const uint8_t *bytes, size_t count, struct keep_run *out)
{
    struct keep_run run = {0};
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    struct pack_reader working_directory = pack_find(&reader, "working_directory");
    struct pack_reader entrypoint = pack_find(&reader, "entrypoint");
    struct pack_reader locks = pack_find(&reader, "locks");
    struct pack_reader environment = pack_find(&reader, "environment");
    struct pack_reader lease = pack_find(&reader, "lease_ms");
    struct pack_reader log_cap = pack_find(&reader, "log_cap_bytes");
    struct pack_reader stop_signal = pack_find(&reader, "stop_signal");
    struct pack_reader polite = pack_find(&reader, "polite");
    struct pack_reader secret_bytes = pack_find(&reader, "secret_bytes");
    size_t environment_count;
    run.working_directory = text_take(&working_directory, "");
    run.locks = texts_take(&locks, KEEP_LOCKS_MAX, &run.lock_count);
    run.environment = texts_take(&environment, KEEP_ENVIRONMENT_MAX, &environment_count);
    run.command = command_take(&entrypoint, run.environment);
    run.shell = shell_take(run.environment, &run.is_bash);
    run.lease_ms = pack_read_u64(&lease);
    run.log_cap_bytes = pack_read_u64(&log_cap);
    run.stop_signal = (int)pack_read_u64_max(&stop_signal, 31);
    run.secret_bytes = (size_t)pack_read_u64_max(&secret_bytes, KEEP_SECRETS_BYTES_MAX);
    run.secret_bytes = secret_bytes.failed ? 0 : run.secret_bytes;
    run.is_polite = pack_read_bool(&polite) && !polite.failed;
    run.stop_signal = stop_signal.failed || run.stop_signal == 0 ? SIGTERM : run.stop_signal;
    if (run.working_directory == NULL || run.command == NULL || run.shell == NULL || run.locks == NULL || run.environment == NULL ||
        lease.failed || log_cap.failed || run.lease_ms == 0 || run.log_cap_bytes < KEEP_LOG_CAP_BYTES_MIN) {
        keep_run_close(&run);
        return ERR_MALFORMED;
    }
    *out = run;
    return 0;
}

int keep_run_add_secrets(struct keep_run *run, const uint8_t *bytes, size_t count)
{
    size_t had = 0, more = 0;
    while (run->environment[had] != NULL) {
        had++;
    }
    for (size_t i = 0; i < count; i++) {
        more += bytes[i] == '\0';
    }
    if (count == 0 || bytes[count - 1] != '\0' || more > KEEP_SECRETS_MAX) {
        return ERR_MALFORMED;
    }
    char **longer = realloc(run->environment, (had + more + 1) * sizeof *longer);
    if (longer == NULL) {
        return ERR_MEMORY;
    }
    run->environment = longer;
    for (const char *text = (const char *)bytes; more > 0; more--, text += strlen(text) + 1) {
        run->environment[had] = strdup(text);
        if (run->environment[had++] == NULL) {
            return ERR_MEMORY;
        }
        run->environment[had] = NULL;
    }
    return 0;
}

void keep_run_wipe(struct keep_run *run)
{
    for (size_t i = 0; run->environment[i] != NULL; i++) {
        explicit_bzero(run->environment[i], strlen(run->environment[i]));
    }
}

void keep_run_close(struct keep_run *run)
{
    free(run->working_directory);
    free(run->command);
    free(run->shell);
    texts_free(run->environment);
    texts_free(run->locks);
    *run = (struct keep_run){0};
}
