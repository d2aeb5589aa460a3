#ifndef BASE_CHECK_H
#define BASE_CHECK_H
/* CHECK(condition) ends the process if the condition is false: then our own code is wrong. Unlike assert, CHECK is
 * compiled into every build. Never use CHECK on input from a peer, a disk, a file or a user: bad input is an error
 * (base/err.h). */

/* Prints the place and the condition on standard error and aborts. Only CHECK calls it. */
_Noreturn void check_failed(const char *file, int line, const char *condition);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

#endif
