#ifndef TRAIN_GROUP_GPU_LIBRARY_H
#define TRAIN_GROUP_GPU_LIBRARY_H
/* Libraries that are opened at run time. A shell. */

#include <stdbool.h>
#include <stddef.h>

struct library_symbol {
    const char *name;
    void *function_pointer; /* what to set */
};

/* The library, or NULL. `loaded`: only if the process has it already. */
void *library_open(const char *name, bool loaded);

/* Sets the function pointers, to NULL where there is no such symbol. Returns the name of the first that is missing; NULL: none. */
const char *library_find(void *library, const struct library_symbol *symbols, size_t count);

#endif
