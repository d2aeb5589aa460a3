#ifndef TOOLS_SHOAL_LOG_PREFIX_H
#define TOOLS_SHOAL_LOG_PREFIX_H
/* What stands before each line of a log that several workers wrote: a template, as torchrun's
 * TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE. ${rank}, ${local_rank}, ${host}, ${attempt} and ${role_name} stand for what they say;
 * everything else stands for itself. A core. */

#include <stdbool.h>
#include <stddef.h>

#include "tools/shoal/log_lines.h"

#define LOG_PREFIX_STANDARD "[rank=${rank}] "
#define LOG_PREFIX_BYTES_MAX 1024 /* of a prefix; a longer one is cut */

/* The first "${...}" of the template that is none of the names, and its length; NULL: there is none. */
const char *log_prefix_unknown(const char *text, size_t *bytes);

/* Writes the prefix of a line of this worker; returns its length. */
size_t log_prefix_write(const char *text, const struct log_source *source, char out[LOG_PREFIX_BYTES_MAX]);

#endif
