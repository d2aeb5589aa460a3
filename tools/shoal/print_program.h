#ifndef TOOLS_SHOAL_PRINT_PROGRAM_H
#define TOOLS_SHOAL_PRINT_PROGRAM_H
/* Sentences about the program that an entrypoint names: which nodes lack it or its PyTorch, and which versions would meet in one
 * group. */

#include <msgpack.h>
#include <stdint.h>

#define PRINT_PROGRAM_BYTES 1536 /* of a sentence */

typedef void print_program_fn(void *context, const char *sentence);

/* Calls `say` for each sentence about a map with `program` (docs/wire.md). `slots_per_trial` above 1: also where the nodes that trials
 * may get have different versions. */
void print_program(const msgpack_object *map, uint64_t slots_per_trial, print_program_fn *say, void *context);

/* Calls `say` for each running trial of a `show` document whose nodes have different versions. */
void print_program_mixes(const msgpack_object *experiment, print_program_fn *say, void *context);

#endif
