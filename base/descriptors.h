#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H
/* The three standard descriptors, which the caller of a program may have closed. */

/* Fills whichever of descriptors 0, 1 and 2 is closed with /dev/null, so that no file or socket that is opened later gets
 * its number, and with it what is written to standard output or error. To a standard output that was closed writing still
 * fails, as before; on standard error nobody listens, and it succeeds. Call it first in main. ERR_IO: there is no
 * /dev/null; the program should not go on. */
int descriptors_fill_standard(void);

#endif
