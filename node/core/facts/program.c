#include "node/core/facts/program.h"

#include <string.h>

#include "base/err.h"
#include "node/core/facts/inside.h"

/* ---- the name in an entrypoint ------------------------------------------------------------------------------------- */

#define WORD_BYTES 256

/* Words of the shell behind which anything can come, and commands that change what a name means. */
static const char *const shell_words[] = {
    "!",       ".",      ":",        "alias", "bg",      "bind",     "break",  "builtin", "caller", "case",   "command",
    "compgen", "complete", "conda",  "continue", "coproc", "declare", "dirs",  "disown",  "do",     "done",   "echo",
    "elif",    "else",   "enable",   "esac",  "eval",    "exit",     "false",  "fc",      "fg",     "fi",     "for",
    "function", "getopts", "hash",   "help",  "history", "if",       "in",     "jobs",    "kill",   "let",    "local",
    "logout",  "mamba",  "mapfile",  "micromamba", "module", "ml",   "popd",   "printf",  "pushd",  "pwd",    "read",
    "readarray", "readonly", "return", "select", "shift", "shopt",   "source", "suspend", "test",   "then",   "times",
    "trap",    "true",   "type",     "typeset", "ulimit", "umask",   "unalias", "unset",  "until",  "wait",   "while",
    NULL};
static const char *const carriers[] = {"exec", "nohup", "nice", "time", "env", NULL};

static bool is_one_of(const char *word, const char *const *list)
{
    while (*list != NULL && strcmp(*list, word) != 0) {
        list++;
    }
    return *list != NULL;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c != '\0' && strchr("._+-/", c) != NULL);
}

/* Characters that a word may have which is skipped: nothing that the shell replaces or takes as an end. */
static bool is_skipped(char c)
{
    return is_plain(c) || (c != '\0' && strchr("=:,@%", c) != NULL);
}

static bool is_end(char c)
{
    return c == '\0' || strchr(" \t\n;&|<>", c) != NULL;
}

/* Takes the next word. False: there is none, or it is none of those that are understood. */
static bool take_word(const char **at, char word[WORD_BYTES])
{
    const char *p = *at;
    while (*p == ' ' || *p == '\t') {
        p++;
    }
    bool is_quoted = *p == '\'';
    p += is_quoted;
    size_t used = 0;
    while (is_skipped(*p) && used + 1 < WORD_BYTES) {
        word[used++] = *p++;
    }
    word[used] = '\0';
    if (is_quoted && *p++ != '\'') {
        return false;
    }
    *at = p;
    return used > 0 && is_end(*p);
}

/* Takes the end of a command behind which the next one runs as well. */
static bool take_end(const char **at)
{
    const char *p = *at;
    while (*p == ' ' || *p == '\t') {
        p++;
    }
    size_t bytes = strncmp(p, "&&", 2) == 0 ? 2 : *p == ';' || *p == '\n' ? 1 : 0;
    *at = p + bytes;
    return bytes > 0;
}

/* True for NAME=value; `*sets_path` if it is PATH. */
static bool is_assignment(const char *word, bool *sets_path)
{
    const char *equals = strchr(word, '=');
    size_t name = equals != NULL ? (size_t)(equals - word) : 0;
    bool is_name = name > 0 && (word[0] < '0' || word[0] > '9');
    for (size_t i = 0; i < name; i++) {
        is_name = is_name && is_plain(word[i]) && strchr(".+-/", word[i]) == NULL;
    }
    *sets_path |= is_name && name == 4 && memcmp(word, "PATH", 4) == 0;
    return is_name;
}

/* Takes the arguments of set or export. */
static bool take_settings(const char **at, bool *sets_path)
{
    char word[WORD_BYTES];
    while (take_word(at, word)) {
        (void)is_assignment(word, sets_path);
    }
    return take_end(at);
}

static bool sets_path_variable(const struct config *config)
{
    struct pack_reader reader;
    pack_reader_init(&reader, config->environment, config->environment_bytes);
    uint32_t pairs = config->environment_bytes > 0 ? pack_read_map(&reader) : 0;
    for (uint32_t i = 0; i < pairs && !reader.failed; i++) {
        size_t bytes;
        const char *name = pack_read_text(&reader, &bytes);
        if (!reader.failed && pack_text_is(name, bytes, "PATH")) {
            return true;
        }
        pack_skip(&reader);
    }
    return false;
}

static bool program_of_line(const char *at, char word[WORD_BYTES], bool *sets_path)
{
    char directory[WORD_BYTES];
    while (*at != '\0') {
        if (*at == '\n' || *at == ' ' || *at == '\t') {
            at++;
        } else if (*at == '#') {
            const char *newline = strchr(at, '\n');
            at = newline != NULL ? newline : at + strlen(at);
        } else if (!take_word(&at, word)) {
            return false;
        } else if (is_assignment(word, sets_path) || is_one_of(word, carriers)) {
            continue;
        } else if (strcmp(word, "cd") == 0) {
            if (!take_word(&at, directory) || !take_end(&at)) {
                return false;
            }
        } else if (strcmp(word, "set") == 0 || strcmp(word, "export") == 0) {
            if (!take_settings(&at, sets_path)) {
                return false;
            }
        } else {
            return true;
        }
    }
    return false;
}

_Static_assert(CONFIG_PROGRAM_BYTES == FACT_PROGRAM_BYTES, "the lean form of a configuration has the name");

bool program_name_is_good(const char *name)
{
    size_t bytes = 0;
    while (is_plain(name[bytes])) {
        bytes++;
    }
    return bytes > 0 && name[bytes] == '\0';
}

bool program_of_config(const struct config *config, char out[FACT_PROGRAM_BYTES])
{
    char word[WORD_BYTES];
    bool sets_path = false;
    memset(out, 0, FACT_PROGRAM_BYTES);
    if (config->program[0] != '\0') { /* the lean form, which has no entrypoint */
        memcpy(out, config->program, FACT_PROGRAM_BYTES);
        return true;
    }
    if (!program_of_line(config_entrypoint(config), word, &sets_path) || strlen(word) >= FACT_PROGRAM_BYTES || word[0] == '-' ||
        is_one_of(word, shell_words) || !program_name_is_good(word)) {
        return false;
    }
    bool has_slash = strchr(word, '/') != NULL;
    if (has_slash ? word[0] != '/' : sets_path || sets_path_variable(config)) {
        return false;
    }
    memcpy(out, word, strlen(word) + 1);
    return true;
}

/* ---- the record ----------------------------------------------------------------------------------------------------- */

#define PROGRAM_PARTS 4

_Static_assert(FACT_PROGRAMS_MAX * (FACT_PROGRAM_BYTES + 2 * FACT_PROGRAM_VERSION_BYTES + 8) + 16 <= RECORD_BODY_BYTES_MAX,
               "a full list fits into a record");

void fact_programs_pack(struct pack_writer *writer, const struct fact_programs *fact)
{
    pack_array(writer, 1);
    pack_array(writer, fact->count);
    for (uint32_t i = 0; i < fact->count; i++) {
        const struct fact_program *program = &fact->items[i];
        pack_array(writer, PROGRAM_PARTS);
        pack_text(writer, program->name);
        pack_bool(writer, program->is_there);
        pack_text(writer, program->version);
        pack_text(writer, program->torch);
    }
}

static void read_program(struct pack_reader *reader, struct fact_program *out)
{
    memset(out, 0, sizeof *out);
    uint32_t extra = fact_element_open(reader, PROGRAM_PARTS);
    pack_read_text_copy(reader, out->name, sizeof out->name);
    out->is_there = pack_read_bool(reader);
    pack_read_text_copy(reader, out->version, sizeof out->version);
    pack_read_text_copy(reader, out->torch, sizeof out->torch);
    fact_element_close(reader, extra);
}

int fact_programs_read(const struct record *record, struct fact_programs *out)
{
    struct pack_reader reader;
    uint32_t extra;
    memset(out, 0, sizeof *out);
    fact_body_open(&reader, record, 1, &extra);
    out->count = pack_read_array(&reader);
    if (out->count > FACT_PROGRAMS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->count && !reader.failed; i++) {
        read_program(&reader, &out->items[i]);
        if (out->items[i].name[0] == '\0' || (i > 0 && strcmp(out->items[i - 1].name, out->items[i].name) >= 0)) {
            return ERR_MALFORMED;
        }
    }
    return fact_body_close_unkeyed(&reader, extra, record);
}

bool fact_programs_find(const struct record *record, const char *name, struct fact_program *out)
{
    struct pack_reader reader;
    uint32_t extra;
    fact_body_open(&reader, record, 1, &extra);
    uint32_t count = pack_read_array(&reader);
    for (uint32_t i = 0; i < count && !reader.failed; i++) {
        read_program(&reader, out);
        if (!reader.failed && strcmp(out->name, name) == 0) {
            return true;
        }
    }
    return false;
}
