#ifndef STORE_COMPONENT_H
#define STORE_COMPONENT_H
/* Steps through the names in a path, without "." and empty names; where a symbolic link leads by its names alone. */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct component {
    const char *next; /* begins as the path */
    const char *name; /* not NUL-terminated */
    size_t length;
};

static inline bool component_next(struct component *component)
{
    do {
        component->next += *component->next == '/';
        component->name = component->next;
        component->length = strcspn(component->name, "/");
        component->next += component->length;
    } while (*component->next != '\0' &&
             (component->length == 0 || (component->length == 1 && component->name[0] == '.')));
    return component->length > 1 || (component->length == 1 && component->name[0] != '.');
}

static inline bool component_is_up(const struct component *component)
{
    return component->length == 2 && memcmp(component->name, "..", 2) == 0;
}

/* True if a link at `path` (below a root) to `target` stays below the root: the target is relative, and has ".." only at its
 * beginning and not above the root. */
bool component_link_stays(const char *path, const char *target);

#endif
