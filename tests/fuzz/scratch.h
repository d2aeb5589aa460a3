#ifndef TESTS_FUZZ_SCRATCH_H
#define TESTS_FUZZ_SCRATCH_H
/* A directory of this process's own, in memory where /dev/shm can be written. Made at the first call and removed, with
 * what is in it, at the end of the process (not after a crash). */

const char *scratch_directory(void);

/* Removes what is at a path, with all below it; links are not followed. Absent is fine. */
void scratch_remove(const char *path);

#endif
