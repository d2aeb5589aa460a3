#include "train/plan/element.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [0] = {"?", 0},
    [ELEMENT_F32] = {"f32", 4},
    [ELEMENT_F16] = {"f16", 2},
    [ELEMENT_BF16] = {"bf16", 2},
    [ELEMENT_BYTES] = {"bytes", 1},
};

#define TYPES (sizeof types / sizeof types[0])

size_t element_type_bytes(enum element_type type)
{
    return types[type < TYPES ? type : 0].bytes;
}

const char *element_type_name(enum element_type type)
{
    return types[type < TYPES ? type : 0].name;
}

enum element_type element_type_named(const char *name)
{
    for (enum element_type type = ELEMENT_F32; type < TYPES; type++) {
        if (strcmp(types[type].name, name) == 0) {
            return type;
        }
    }
    return 0;
}
