#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
    fflush(stderr);
    abort();
}
