#include "tools/shoal/log_prefix.h"

#include <stdio.h>
#include <string.h>

#define ROLE_NAME "default" /* as torchrun calls the only role */
#define VALUE_BYTES 64

static const char *const names[] = {"rank", "local_rank", "host", "attempt", "role_name"};

static void value_of(size_t name, const struct log_source *source, char out[VALUE_BYTES])
{
    const unsigned long long numbers[] = {source->rank, source->local_rank, 0, source->attempt};
    if (name == 2 || name == 4) {
        (void)snprintf(out, VALUE_BYTES, "%s", name == 2 ? source->host : ROLE_NAME);
    } else {
        (void)snprintf(out, VALUE_BYTES, "%llu", numbers[name]);
    }
}

/* The length of the "${...}" that the text begins with, 0 if it begins with none; `*name` is its place in `names`, or their
 * number if it is none of them. */
static size_t read_name(const char *text, size_t *name)
{
    size_t count = sizeof names / sizeof names[0];
    const char *end = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;
    *name = count;
    if (end == NULL) {
        return 0;
    }
    size_t bytes = (size_t)(end - text) - 2;
    for (size_t i = 0; i < count; i++) {
        *name = strlen(names[i]) == bytes && memcmp(names[i], text + 2, bytes) == 0 ? i : *name;
    }
    return bytes + 3;
}

const char *log_prefix_unknown(const char *text, size_t *bytes)
{
    while (*text != '\0') {
        size_t name;
        *bytes = read_name(text, &name);
        if (*bytes > 0 && name == sizeof names / sizeof names[0]) {
            return text;
        }
        text += *bytes > 0 ? *bytes : 1;
    }
    return NULL;
}

size_t log_prefix_write(const char *text, const struct log_source *source, char out[LOG_PREFIX_BYTES_MAX])
{
    size_t used = 0;
    while (*text != '\0' && used + VALUE_BYTES < LOG_PREFIX_BYTES_MAX) {
        size_t name, bytes = read_name(text, &name);
        if (bytes > 0 && name < sizeof names / sizeof names[0]) {
            char value[VALUE_BYTES];
            value_of(name, source, value);
            memcpy(out + used, value, strlen(value));
            used += strlen(value);
            text += bytes;
        } else {
            out[used++] = *text++;
        }
    }
    return used;
}
