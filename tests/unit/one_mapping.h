#ifndef TESTS_UNIT_ONE_MAPPING_H
#define TESTS_UNIT_ONE_MAPPING_H
/* Where ranks are threads of one process, memory that one of them shares lies at the same address for all. ThreadSanitizer
 * judges by addresses: were it mapped once more for each rank, as between processes, no access of one rank would meet those of
 * another, and no order between them would be asked for. A program that is linked with this, and with --wrap for
 * shm_memory_create, shm_memory_map and shm_memory_end (train/group/shm/memory.h), has it so. */

#include <stddef.h>

/* How often a rank was given the address of another one's memory. */
size_t one_mapping_shared(void);

/* How much memory has not been let go of by all. */
size_t one_mapping_left(void);

#endif
