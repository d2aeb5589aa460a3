#ifndef TESTS_UNIT_FORKED_H
#define TESTS_UNIT_FORKED_H
/* The end of a process that a test has forked. */

#include <stdbool.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

/* Leaves out what a program does at its end, which is its parent's to do, but not the search for memory that was lost. */
static inline _Noreturn void forked_end(int status)
{
#ifdef __SANITIZE_ADDRESS__
    if (__lsan_do_recoverable_leak_check() != 0) {
        status = 23;
    }
#endif
    _exit(status);
}

#endif
