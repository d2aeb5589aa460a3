#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H
/* The three standard descriptors, of which the program's starter may have closed some; how many more can be opened; whole reads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens /dev/null on each of descriptors 0, 1 and 2 that is closed. Otherwise a file or socket that is opened later
 * would get such a number, and receive what the program writes to standard output or standard error. Writes to a
 * standard output that was closed still fail afterwards, as before; writes to a standard error that was closed succeed,
 * since nobody reads it. Call this first in main. 0, or ERR_IO: there is no /dev/null, and the program should stop. */
int descriptors_fill_standard(void);

#define DESCRIPTORS_LEFT_MAX 64

/* Whether `count` descriptors, at most DESCRIPTORS_LEFT_MAX, could be opened now: opens and closes as many. For libraries
 * that end the process where there is none left. False also where standard input is closed. */
bool descriptors_are_left(unsigned count);

/* Reads exactly `count` bytes of a file from the offset on (pread). 0; ERR_AGAIN: the file ends before; ERR_IO: errno tells. */
int descriptor_read_at(int fd, void *bytes, size_t count, uint64_t offset);

/* Writes exactly `count` bytes to a file from the offset on (pwrite). 0; ERR_IO: errno tells, 0 if the file takes no more. */
int descriptor_write_at(int fd, const void *bytes, size_t count, uint64_t offset);

#endif
