#ifndef TRAIN_GROUP_GPU_LIBRARY_H
#define TRAIN_GROUP_GPU_LIBRARY_H
/* Libraries opened at run time. A shell. */

#include <stdbool.h>
#include <stddef.h>

/* A function to look up. */
struct library_symbol {
    const char *name;
    void *function_pointer; /* the function pointer to set */
};

/* Returns the library, or NULL. `loaded`: only if the process has it already. Never closed. */
void *library_open(const char *name, bool loaded);

/* Sets the function pointers, to NULL for missing symbols. Returns the name of the first missing symbol; NULL: none. */
const char *library_find(void *library, const struct library_symbol *symbols, size_t count);

#endif
