#include "node/config/names.h"

#include <string.h>

static bool is_name(const char *name, char lowest)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        if (name[i] < lowest || name[i] > '~') {
            return false;
        }
    }
    return length > 0 && length < FACT_NAME_BYTES;
}

bool names_node_is_good(const char *name)
{
    return is_name(name, '!');
}

bool names_mesh_is_good(const char *name)
{
    return is_name(name, ' ');
}
