#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H
/* Bounded text formatting for cores: like snprintf, without locale, floating point or libc. */

#include <stddef.h>

/* Formats into `out` like snprintf. Understands %s %c %u %d %llu %lld %zu %x %% (no widths). The text is cut at `size`
 * and always ends in NUL. Returns the number of chars written, without the NUL. */
size_t format_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
