#include "node/http/mlflow/keys.h"

#include <string.h>

#include "node/daemon/wire/texts.h"

bool keys_place(const char *key, const char *searched, struct metric_place *out)
{
    const char *slash = strchr(key, '/');
    size_t group = slash != NULL ? (size_t)(slash - key) : 0;
    bool has_group = group > 0 && group < KEYS_GROUP_BYTES && slash[1] != '\0';
    const char *name = has_group ? slash + 1 : key;
    if (strlen(name) >= KEYS_NAME_BYTES) {
        return false;
    }
    *out = (struct metric_place){.is_bare = !has_group};
    if (has_group) {
        memcpy(out->group, key, group);
    } else {
        bool is_searched = searched[0] != '\0' && strcmp(key, searched) == 0;
        strcpy(out->group, is_searched ? "validation" : "training");
    }
    memcpy(out->name, name, strlen(name));
    return true;
}

size_t keys_chars(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80 ||
           (c != '\0' && strchr("_-.:/ ", c) != NULL);
}

/* Whether each name between slashes is one. */
static bool has_names(const char *path)
{
    for (;;) {
        size_t bytes = strcspn(path, "/");
        if (bytes == 0 || (path[0] == '.' && (bytes == 1 || (bytes == 2 && path[1] == '.')))) {
            return false;
        }
        if (path[bytes] == '\0') {
            return true;
        }
        path += bytes + 1;
    }
}

bool keys_is_key(const char *key)
{
    for (const char *c = key; *c != '\0'; c++) {
        if (!is_key_char(*c)) {
            return false;
        }
    }
    return keys_chars(key) <= KEYS_CHARS_MAX && has_names(key);
}

bool keys_is_path(const char *path)
{
    for (const char *c = path; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\') {
            return false;
        }
    }
    return has_names(path);
}

#define HEX "0123456789abcdef"

bool keys_model_run(const char *model, char run[33])
{
    if (strncmp(model, "m-", 2) != 0 || strlen(model) != 34 || strspn(model + 2, HEX) != 32) {
        return false;
    }
    memcpy(run, model + 2, 16);
    memcpy(run + 16, "00000000", 8);
    memcpy(run + 24, model + 18, 8);
    run[32] = '\0';
    return true;
}

/* Takes the next name of a path; false: it has `size` bytes or more, or there is none. */
static bool take_name(const char **path, char *out, size_t size)
{
    size_t bytes = strcspn(*path, "/");
    if (bytes == 0 || bytes >= size) {
        return false;
    }
    memcpy(out, *path, bytes);
    out[bytes] = '\0';
    *path += bytes + ((*path)[bytes] == '/');
    return true;
}

bool keys_artifact(const char *text, struct artifact_place *out)
{
    char experiment[24], name[40], word[16], prefix[48] = "";
    if (!take_name(&text, experiment, sizeof experiment) || strspn(experiment, "0123456789") != strlen(experiment) ||
        !take_name(&text, name, sizeof name)) {
        return false;
    }
    if (strcmp(name, "models") == 0) {
        if (!take_name(&text, name, sizeof name) || !keys_model_run(name, out->run)) {
            return false;
        }
        memcpy(prefix, "models/", 8);
        memcpy(prefix + 7, name, strlen(name) + 1);
    } else if (strlen(name) == 32 && strspn(name, HEX) == 32) {
        memcpy(out->run, name, sizeof out->run);
        if (memcmp(name + 16, "00000000", TEXTS_FURTHER_CHARS) != 0) { /* a further run's files are by themselves */
            memcpy(prefix, "runs/", 6);
            memcpy(prefix + 5, name + 16, TEXTS_FURTHER_CHARS);
            prefix[5 + TEXTS_FURTHER_CHARS] = '\0';
        }
    } else {
        return false;
    }
    if (!take_name(&text, word, sizeof word) || strcmp(word, "artifacts") != 0) {
        return false;
    }
    size_t before = strlen(prefix), bytes = strlen(text);
    if (before + bytes + 2 > sizeof out->path || (bytes > 0 && !keys_is_path(text))) {
        return false;
    }
    memcpy(out->path, prefix, before);
    out->path[before] = '/';
    size_t at = before > 0 && bytes > 0 ? before + 1 : before;
    memcpy(out->path + at, text, bytes + 1);
    return true;
}

/* Bytes of the word at `text` that is no JSON; 0: there is none. */
static size_t word_at(const char *text, size_t count)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t bytes = strlen(words[i]);
        if (bytes <= count && memcmp(text, words[i], bytes) == 0) {
            return bytes;
        }
    }
    return 0;
}

size_t keys_quoted_bytes(size_t count)
{
    return count + 2 * (count / strlen("NaN"));
}

size_t keys_quote(const char *body, size_t count, char *out)
{
    size_t used = 0;
    bool in_text = false;
    for (size_t i = 0; i < count; i++) {
        size_t word = in_text ? 0 : word_at(body + i, count - i);
        if (word > 0) {
            out[used++] = '"';
            memcpy(out + used, body + i, word);
            used += word;
            out[used++] = '"';
            i += word - 1;
            continue;
        }
        out[used++] = body[i];
        if (in_text && body[i] == '\\' && i + 1 < count) {
            out[used++] = body[++i];
        } else if (body[i] == '"') {
            in_text = !in_text;
        }
    }
    return used;
}
