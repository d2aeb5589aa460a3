#ifndef NODE_CONFIG_SCALAR_H
#define NODE_CONFIG_SCALAR_H
/* What a single value says, by the core schema of YAML 1.2: `true` and `false` are the only truth values, `no` and `1_000`
 * are texts. Pure. */

#include <stdbool.h>
#include <stdint.h>

enum scalar_type { SCALAR_NULL, SCALAR_TRUTH, SCALAR_INTEGER, SCALAR_NUMBER, SCALAR_TEXT, SCALAR_NOT_FINITE, SCALAR_HUGE };

struct scalar {
    enum scalar_type type;
    bool truth;
    bool is_negative;
    uint64_t magnitude; /* of an integer */
    double number;      /* of an integer or a number */
};

/* `is_plain`: it stands without quotes; with them it is always a text. Empty, `~` and `null` are SCALAR_NULL; what is no
 * finite double or no 64-bit integer says so. */
struct scalar scalar_read(const char *text, bool is_plain);

/* No control characters, which could do things to a terminal; `lines`: line ends and tabs are fine. */
bool scalar_is_clean(const char *text, bool lines);

#endif
