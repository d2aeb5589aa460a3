#ifndef NODE_DAEMON_WORKERS_ERROR_FILE_H
#define NODE_DAEMON_WORKERS_ERROR_FILE_H
/* The file that a program decorated with PyTorch's @record leaves at TORCHELASTIC_ERROR_FILE when it fails: JSON, written by the
 * program, so nothing in it is trusted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ERROR_FILE_BYTES_MAX (1u << 20) /* a larger file is passed over */
#define ERROR_MESSAGE_BYTES 256
#define ERROR_STACK_BYTES 320
#define ERROR_STACK_LINES 6

/* In both texts control characters are blanks, and no character is cut. */
struct error_file {
    char message[ERROR_MESSAGE_BYTES]; /* the first line */
    char stack[ERROR_STACK_BYTES];     /* the last whole lines of the call stack without the message, each with its '\n'; may be empty */
    uint64_t at_ms;                    /* milliseconds since 1970, as the program says; 0: not said */
};

/* Finds these in a file's text: {"message": {"message": "text", "extraInfo": {"py_callstack": "text", "timestamp": "seconds"}}} or
 * {"message": "text", "timestamp": seconds}; the times are texts or numbers. False: there is no message, or the text is no JSON
 * as far as it was read; `out` is then all zero. Pure. */
bool error_file_parse(const char *text, size_t bytes, struct error_file *out);

/* Reads error.json in the worker's directory. False: there is no usable file; `out` is then all zero. */
bool error_file_read(const char *directory, struct error_file *out);

#endif
