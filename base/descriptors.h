#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H
/* The three standard descriptors, of which the program's starter may have closed some, and how many more can be opened. */

#include <stdbool.h>

/* Opens /dev/null on each of descriptors 0, 1 and 2 that is closed. Otherwise a file or socket that is opened later
 * would get such a number, and receive what the program writes to standard output or standard error. Writes to a
 * standard output that was closed still fail afterwards, as before; writes to a standard error that was closed succeed,
 * since nobody reads it. Call this first in main. 0, or ERR_IO: there is no /dev/null, and the program should stop. */
int descriptors_fill_standard(void);

#define DESCRIPTORS_LEFT_MAX 64

/* Whether `count` descriptors, at most DESCRIPTORS_LEFT_MAX, could be opened now: opens and closes as many. For libraries
 * that end the process where there is none left. False also where standard input is closed. */
bool descriptors_are_left(unsigned count);

#endif
