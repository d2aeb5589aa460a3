#include "node/http/assets.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/* The arrays of bytes, and of each an ASSET(NAME, ARRAY); written by CMake. */
#include <assets_bytes.h>

static struct asset assets[] = {
#define ASSET(file, array) {.name = file, .bytes = array, .count = sizeof array - 1}, /* without the 0 at its end */
#include <assets_list.h>
#undef ASSET
};
#define ASSETS (sizeof assets / sizeof assets[0])

static const char *type_of(const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},   {".svg", "image/svg+xml"},
        {".json", "application/json"},         {".txt", "text/plain; charset=utf-8"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(dot, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return "application/octet-stream";
}

void assets_init(void)
{
    for (size_t i = 0; i < ASSETS; i++) {
        (void)snprintf(assets[i].tag, sizeof assets[i].tag, "\"%016llx\"",
                       (unsigned long long)bytes_hash64(assets[i].bytes, assets[i].count, 0));
        assets[i].type = type_of(assets[i].name);
    }
}

const struct asset *assets_find(const char *name)
{
    for (size_t i = 0; i < ASSETS; i++) {
        if (strcmp(assets[i].name, name) == 0) {
            return &assets[i];
        }
    }
    return NULL;
}
