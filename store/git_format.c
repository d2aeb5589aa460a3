#include "store/git_format.h"

#include <string.h>

#include "base/err.h"

/* ---- the index ---- */

#define HEADER_BYTES 12
#define STAT_BYTES 40 /* of an entry, before the hash; the mode is at byte 24 */
#define MODE_AT 24
#define FLAG_EXTENDED 0x40u /* in the first byte of the flags */

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

int git_index_begin(struct git_index *index, const uint8_t *bytes, size_t count, size_t hash_bytes, char *path,
                    size_t path_room)
{
    if (count < HEADER_BYTES + hash_bytes || memcmp(bytes, "DIRC", 4) != 0 || path_room == 0) {
        return ERR_MALFORMED;
    }
    *index = (struct git_index){.bytes = bytes,
                                .count = count - hash_bytes, /* the file ends with its own hash */
                                .at = HEADER_BYTES,
                                .hash_bytes = hash_bytes,
                                .version = read_u32(bytes + 4),
                                .left = read_u32(bytes + 8),
                                .path = path,
                                .path_room = path_room};
    path[0] = '\0';
    return index->version >= 2 && index->version <= 4 ? 0 : ERR_MALFORMED;
}

/* In version 4 a path is told as how many bytes of the path before are cut, and what follows them. */
static bool read_cut(struct git_index *index, size_t *cut)
{
    *cut = 0;
    if (index->version < 4) {
        *cut = index->path_bytes;
        return true;
    }
    for (bool first = true;; first = false) {
        if (index->at >= index->count || *cut > index->path_bytes) {
            return false;
        }
        uint8_t byte = index->bytes[index->at++];
        *cut = ((*cut + !first) << 7) + (byte & 127);
        if ((byte & 128) == 0) {
            return *cut <= index->path_bytes;
        }
    }
}

/* Behind the entries: a lower-case extension changes what the entries mean. "sdir" (directories of a sparse checkout) does no
 * harm here. */
static int read_extensions(const struct git_index *index)
{
    for (size_t at = index->at; index->count - at >= 8;) {
        const uint8_t *name = index->bytes + at;
        uint32_t bytes = read_u32(name + 4);
        if (name[0] >= 'a' && name[0] <= 'z' && memcmp(name, "sdir", 4) != 0) {
            return ERR_MALFORMED;
        }
        if (bytes > index->count - at - 8) {
            return ERR_MALFORMED;
        }
        at += 8 + bytes;
    }
    return 0;
}

bool git_index_next(struct git_index *index, int *rc)
{
    *rc = 0;
    if (index->left == 0) {
        *rc = read_extensions(index);
        return false;
    }
    size_t begin = index->at;
    *rc = ERR_MALFORMED;
    if (index->count - begin < STAT_BYTES + index->hash_bytes + 2) {
        return false;
    }
    index->mode = read_u32(index->bytes + begin + MODE_AT);
    index->at = begin + STAT_BYTES + index->hash_bytes;
    bool is_extended = (index->bytes[index->at] & FLAG_EXTENDED) != 0;
    index->at += is_extended ? 4 : 2;
    size_t cut;
    if (index->at > index->count || !read_cut(index, &cut)) {
        return false;
    }
    const uint8_t *name = index->bytes + index->at;
    const uint8_t *nul = memchr(name, 0, index->count - index->at);
    if (nul == NULL) {
        return false;
    }
    size_t kept = index->path_bytes - cut, added = (size_t)(nul - name);
    if (kept + added >= index->path_room) {
        *rc = ERR_FULL;
        return false;
    }
    memcpy(index->path + kept, name, added + 1);
    index->path_bytes = kept + added;
    index->at += added + 1;
    if (index->version < 4) { /* entries of the older versions are filled up to eight bytes */
        index->at = begin + (index->at - begin + 7) / 8 * 8;
    }
    if (index->at > index->count) {
        return false;
    }
    index->left--;
    *rc = 0;
    return true;
}

/* ---- configuration ---- */

void git_config_begin(struct git_config *config, const char *text, size_t text_bytes)
{
    memset(config, 0, sizeof *config);
    config->at = text;
    config->end = text + text_bytes;
    if (text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        config->at += 3;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

static void skip_line(struct git_config *config)
{
    while (config->at < config->end && *config->at != '\n') {
        config->at++;
    }
}

/* A name in lower case, cut at `size`; a cut name is none of those that are asked for. */
static void read_name(struct git_config *config, char *out, size_t size)
{
    size_t used = 0;
    for (; config->at < config->end && is_name(*config->at); config->at++) {
        char c = *config->at;
        if (used + 1 < size) {
            out[used++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
    }
    out[used] = '\0';
}

static bool read_section(struct git_config *config)
{
    config->at++;
    read_name(config, config->section, sizeof config->section);
    config->has_subsection = strchr(config->section, '.') != NULL;
    bool quoted = false;
    for (; config->at < config->end && *config->at != '\n'; config->at++) {
        if (quoted && *config->at == '\\' && config->at + 1 < config->end) {
            config->at++;
        } else if (*config->at == '"') {
            quoted = !quoted;
            config->has_subsection = true;
        } else if (*config->at == ']' && !quoted) {
            config->at++;
            return true;
        }
    }
    return false;
}

/* The value behind "=", to the end of its line; a backslash at the end continues the line. */
static bool read_value(struct git_config *config)
{
    size_t used = 0, solid = 0; /* `solid`: blanks at the end are cut unless they were quoted */
    bool quoted = false;
    while (config->at < config->end && is_blank(*config->at)) {
        config->at++;
    }
    for (; config->at < config->end && *config->at != '\n'; config->at++) {
        char c = *config->at;
        bool is_literal = quoted;
        if (!quoted && (c == '#' || c == ';')) {
            skip_line(config);
            break;
        }
        if (c == '"') {
            quoted = !quoted;
            continue;
        }
        if (c == '\\') {
            if (++config->at >= config->end) {
                return false;
            }
            c = *config->at;
            if (c == '\r' && config->at + 1 < config->end && config->at[1] == '\n') {
                c = *++config->at;
            }
            if (c == '\n') {
                continue;
            }
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'b' ? '\b' : c;
            is_literal = true;
        }
        if (used + 1 >= sizeof config->value) {
            return false;
        }
        config->value[used++] = c;
        solid = is_literal || !is_blank(c) ? used : solid;
    }
    config->value[solid] = '\0';
    return !quoted;
}

bool git_config_next(struct git_config *config)
{
    while (config->at < config->end) {
        char c = *config->at;
        if (is_blank(c) || c == '\n') {
            config->at++;
        } else if (c == '#' || c == ';') {
            skip_line(config);
        } else if (c == '[') {
            if (!read_section(config)) {
                return false;
            }
        } else if (is_name(c)) {
            read_name(config, config->key, sizeof config->key);
            while (config->at < config->end && is_blank(*config->at)) {
                config->at++;
            }
            if (config->at < config->end && *config->at == '=') {
                config->at++;
                return read_value(config);
            }
            skip_line(config);
            memcpy(config->value, "true", 5);
            return true;
        } else {
            return false;
        }
    }
    return false;
}

bool git_config_truth(const char *value)
{
    static const char *const words[] = {"true", "yes", "on", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t at = 0;
        while (words[i][at] != '\0' && (value[at] | 0x20) == (words[i][at] | 0x20)) {
            at++;
        }
        if (words[i][at] == '\0' && value[at] == '\0') {
            return true;
        }
    }
    return false;
}
