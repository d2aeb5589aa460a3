/* Files of other people's repositories: rules of .gitignore files, git's configuration and git's index.
 *
 * The first byte says what follows: 'i' a path, a NUL and a file of rules; 'c' a configuration; 'x' an index. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/visible.h"
#include "store/git_format.h"
#include "store/ignore.h"
#include "tests/fuzz/fuzz.h"

#define PATH_MAX_HERE 256
#define SHOWN_BYTES 64

/* A path as callers have it: names that are not empty, one '/' between them. */
static bool is_path(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 0 && path[0] != '/' && path[bytes - 1] != '/' && strstr(path, "//") == NULL;
}

static void try_rules(const char *data, size_t size)
{
    const char *nul = memchr(data, '\0', size);
    if (nul == NULL || !is_path(data)) {
        return;
    }
    const struct ignore_file file = {.text = nul + 1, .text_bytes = size - (size_t)(nul + 1 - data)};
    struct ignore_file folded = file;
    folded.ignores_case = true;
    struct ignore_place place = {7, 0};
    for (int is_directory = 0; is_directory < 2; is_directory++) {
        uint32_t line = 0;
        enum ignore_decision decision = ignore_decide(&file, data, is_directory, &line);
        CHECK((decision == IGNORE_UNDECIDED) == (line == 0));
        CHECK(ignore_find(&file, 1, data, is_directory, &place) == decision);
        CHECK(decision == IGNORE_UNDECIDED || (place.file == 0 && place.line == line));
        (void)ignore_find(&folded, 1, data, is_directory, &place);
    }
    /* Only a line with a '!' reaches into a directory. */
    bool reaches = ignore_reaches_into(&file, 1, data);
    CHECK(!reaches || memchr(file.text, '!', file.text_bytes) != NULL);
    char shown[SHOWN_BYTES];
    size_t length = visible_text(shown, sizeof shown, data);
    CHECK(length < sizeof shown && strlen(shown) == length);
    for (size_t i = 0; i < length; i++) {
        CHECK((unsigned char)shown[i] >= 0x20 && shown[i] != 0x7f);
    }
}

static void try_config(const char *data, size_t size)
{
    static struct git_config config;
    size_t count = 0;
    git_config_begin(&config, data, size);
    while (git_config_next(&config)) {
        CHECK(memchr(config.section, 0, sizeof config.section) != NULL && memchr(config.key, 0, sizeof config.key) != NULL);
        CHECK(memchr(config.value, 0, sizeof config.value) != NULL && config.key[0] != '\0');
        (void)git_config_truth(config.value);
        count++;
    }
    CHECK(count <= size);
}

static void try_index(const uint8_t *data, size_t size)
{
    struct git_index index;
    char path[PATH_MAX_HERE];
    size_t count = 0;
    int rc = git_index_begin(&index, data, size, 20, path, sizeof path);
    while (rc == 0 && git_index_next(&index, &rc)) {
        CHECK(index.path_bytes < sizeof path && strlen(path) == index.path_bytes);
        count++;
    }
    CHECK(count <= size);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    uint8_t *copy = malloc(size); /* of the exact size, so that a read behind the end shows */
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    if (copy[0] == 'i' && size > 1) {
        try_rules((const char *)copy + 1, size - 1);
    } else if (copy[0] == 'c') {
        try_config((const char *)copy + 1, size - 1);
    } else if (copy[0] == 'x') {
        try_index(copy + 1, size - 1);
    }
    free(copy);
}

static void seed(const char *bytes, size_t size)
{
    fuzz_seed((const uint8_t *)bytes, size);
}
#define SEED(text) seed(text, sizeof(text) - 1)

void fuzz_seeds(void)
{
    SEED("isrc/data/x.json\0data/*\n*.json\n!config.json\n/build/\nlogs/**\n!logs/keep/\n");
    SEED("ia/b/c\0**/c\n!/a/**/c\na/[!b-d]/\\*\n[[:alpha:]]?\\ \n#x\n\xef\xbb\xbf*/\r\n");
    SEED("ca\0");
    SEED("c[core]\n\texcludesFile = \"~/a b\" ; x\n[include \"y\"]path=\\\nz\nbare\n");
    static const char entry[] = "xDIRC\0\0\0\2\0\0\0\1"
                                "0123456789012345678901230000\0\0\201\244012345670123456789012345678\0\1a\0\0\0\0\0\0\0\0\0"
                                "01234567890123456789";
    SEED(entry);
    static const char fourth[] = "xDIRC\0\0\0\4\0\0\0\2"
                                 "0123456789012345678901230\0\0\0\201\2440123456701230123456789012345678\0\1\0ab\0"
                                 "0123456789012345678901230\0\0\0\201\2440123456701230123456789012345678\0\1\1c\0"
                                 "01234567890123456789";
    SEED(fourth);
}
