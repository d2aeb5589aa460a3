#include "train/group/gpu/library.h"

#include <dlfcn.h>
#include <string.h>

void *library_open(const char *name, bool loaded)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
}

/* ISO C has no conversion from dlsym's result to a function; POSIX promises that copying the pointer works. */
const char *library_find(void *library, const struct library_symbol *symbols, size_t count)
{
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        memcpy(symbols[i].function_pointer, &symbol, sizeof symbol);
        if (symbol == NULL && missing == NULL) {
            missing = symbols[i].name;
        }
    }
    return missing;
}
