#ifndef STORE_GIT_FORMAT_H
#define STORE_GIT_FORMAT_H
/* Two of git's file formats, as gitformat-index(5) and git-config(1) document them: the list of tracked files, and
 * configuration. Cores: bytes in, decisions out. The bytes may be damaged: every length is checked. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the index ---- */

/* Steps through the paths of an index file of version 2, 3 or 4. */
struct git_index {
    const uint8_t *bytes; /* borrowed */
    size_t count;
    size_t at;
    size_t hash_bytes;
    uint32_t version;
    uint32_t left;       /* entries to come */
    char *path;          /* [path_room], the caller's; ends in NUL */
    size_t path_room;
    size_t path_bytes;   /* of the present path */
    uint32_t mode;       /* of the present entry: a file, a link, or 0160000 for the directory of a submodule */
};

/* The mode of a submodule's directory. */
#define GIT_MODE_SUBMODULE 0160000u

/* Begins. `hash_bytes`: 20, or 32 in a repository with extensions.objectFormat = sha256. `path` is a buffer of the caller
 * for one path. 0; ERR_MALFORMED: no index, or of another version, or split into two files (core.splitIndex). */
int git_index_begin(struct git_index *index, const uint8_t *bytes, size_t count, size_t hash_bytes, char *path,
                    size_t path_room);

/* True: the next path is in index->path. False: there is none, or the index is damaged (*rc is then ERR_MALFORMED, or
 * ERR_FULL for a path longer than the buffer). Paths come in the order of their bytes. */
bool git_index_next(struct git_index *index, int *rc);

/* ---- configuration ---- */

#define GIT_CONFIG_VALUE_BYTES 4096

/* Steps through the variables of a configuration file. */
struct git_config {
    const char *at, *end;    /* borrowed */
    char section[64];        /* in lower case, without a subsection: "core"; cut at its size */
    bool has_subsection;     /* [include "x"]: no section that is asked for here has one */
    char key[64];            /* in lower case: "excludesfile" */
    char value[GIT_CONFIG_VALUE_BYTES]; /* without quotes, comments and escapes; "true" for a key without "=" */
};

void git_config_begin(struct git_config *config, const char *text, size_t text_bytes);

/* True: section, key and value are those of the next variable. False: there is none, or the rest cannot be read. */
bool git_config_next(struct git_config *config);

/* git's truth values: "true", "yes", "on", "1" in any case. */
bool git_config_truth(const char *value);

#endif
