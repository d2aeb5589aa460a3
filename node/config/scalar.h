#ifndef NODE_CONFIG_SCALAR_H
#define NODE_CONFIG_SCALAR_H
/* The meaning of a single value, by the core schema of YAML 1.2: only `true` and `false` are truth values, `no` and
 * `1_000` are texts. Pure. */

#include <stdbool.h>
#include <stdint.h>

/* NOT_FINITE: a number above the largest double; HUGE: an integer of more than 64 bits. */
enum scalar_type { SCALAR_NULL, SCALAR_TRUTH, SCALAR_INTEGER, SCALAR_NUMBER, SCALAR_TEXT, SCALAR_NOT_FINITE, SCALAR_HUGE };

/* A value; the fields that its type does not use are zero. */
struct scalar {
    enum scalar_type type;
    bool truth;
    bool is_negative;
    uint64_t magnitude; /* absolute value of an integer */
    double number;      /* value of an integer or a number */
};

/* Reads a value. `is_plain`: written without quotes; with quotes it is always a text. Empty, `~` and `null` are
 * SCALAR_NULL. */
struct scalar scalar_read(const char *text, bool is_plain);

/* True if `text` has no control characters, which could disturb a terminal; with `lines`, line ends and tabs are
 * allowed. */
bool scalar_is_clean(const char *text, bool lines);

#endif
