#ifndef BASE_CHECK_H
#define BASE_CHECK_H
/* CHECK(condition): our own code is wrong if it does not hold. On in every build, unlike assert. Never for what a peer,
 * a disk, a file or a user sent: that is an error (base/err.h). */

_Noreturn void check_failed(const char *file, int line, const char *condition);

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

#endif
