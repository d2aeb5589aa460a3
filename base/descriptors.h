#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H
/* The three standard descriptors. Whatever started the program may have closed some of them. */

/* Opens /dev/null on each of descriptors 0, 1 and 2 that is closed. Otherwise a file or socket that is opened later
 * would get such a number, and receive what the program writes to standard output or standard error. Writes to a
 * standard output that was closed still fail afterwards, as before; writes to a standard error that was closed succeed,
 * since nobody reads it. Call this first in main. 0, or ERR_IO: there is no /dev/null, and the program should stop. */
int descriptors_fill_standard(void);

#endif
