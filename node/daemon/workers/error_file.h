#ifndef NODE_DAEMON_WORKERS_ERROR_FILE_H
#define NODE_DAEMON_WORKERS_ERROR_FILE_H
/* The file that a program decorated with PyTorch's @record leaves at TORCHELASTIC_ERROR_FILE when it fails: JSON, written by the
 * program, so nothing in it is trusted. */

#include <stdbool.h>
#include <stddef.h>

#define ERROR_FILE_BYTES_MAX (1u << 20) /* a larger file is passed over */

/* Finds the message in a file's text: {"message": "text"} or {"message": {"message": "text", ...}}. Writes the first line of it,
 * cut at `size` > 0 and never inside a character; control characters become blanks. False: there is none, or the text is no
 * JSON as far as it was read; `out` is then empty. Pure. */
bool error_file_message(const char *text, size_t bytes, char *out, size_t size);

/* Reads error.json in the worker's directory. False: there is no usable file; `out` is then empty. */
bool error_file_read(const char *directory, char *out, size_t size);

#endif
