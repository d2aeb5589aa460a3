#ifndef NODE_KEEP_SHELL_WIRE_H
#define NODE_KEEP_SHELL_WIRE_H
/* The frames between the command line and a shoal-keep that runs a command beside a worker (docs/wire.md, "Streams"): a
 * big-endian u32 length (base/frame.h), a byte with the kind, and what belongs to it. Arithmetic only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHELL_FRAME_BYTES_MAX (64u * 1024) /* with the kind */
#define SHELL_DATA_BYTES (16u * 1024)      /* of input or output in one frame */
#define SHELL_WORDS_MAX 1024
#define SHELL_COMMAND_BYTES (60u * 1024) /* the words, with a NUL each */
#define SHELL_TERM_BYTES 64
#define SHELL_TEXT_BYTES 256

enum shell_kind {
    SHELL_RUN = 'r',
    SHELL_INPUT = 'i',
    SHELL_INPUT_END = 'e',
    SHELL_WINDOW = 'w',
    SHELL_SIGNAL = 's',
    SHELL_OUTPUT = 'o',
    SHELL_ERRORS = 'p',
    SHELL_EXIT = 'x',
    SHELL_FAILED = 'f'
};

/* The size of a terminal. */
struct shell_window {
    uint16_t rows, columns;
};

/* One frame; fields that its kind does not use are zero. */
struct shell_frame {
    uint8_t kind;         /* enum shell_kind, or one of a later version */
    const uint8_t *bytes; /* INPUT, OUTPUT, ERRORS; FAILED: a sentence, without a NUL */
    size_t count;
    struct shell_window window; /* WINDOW, RUN */
    int signal;                 /* SIGNAL: 1 to 31 */
    int32_t code;               /* EXIT: exit code, or the negative number of the signal */
    /* RUN: */
    bool has_terminal;
    char term[SHELL_TERM_BYTES];
    uint32_t word_count;
    char words[SHELL_COMMAND_BYTES]; /* one behind the other, each with its NUL */
};

/* Encodes what frame_send takes. Of RUN `words` holds `word_count` texts. ERR_FULL: `capacity` is too small. */
int shell_frame_encode(const struct shell_frame *frame, uint8_t *out, size_t capacity, size_t *count);

/* Decodes a frame; `bytes` of it point into the input. ERR_MALFORMED: `*out` is undefined. */
int shell_frame_decode(const uint8_t *bytes, size_t count, struct shell_frame *out);

#endif
