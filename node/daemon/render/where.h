#ifndef NODE_DAEMON_RENDER_WHERE_H
#define NODE_DAEMON_RENDER_WHERE_H
/* Conditions on the numbers of trials, such as "hp.lr<0.01 and hp.net=small and metric>=0.9". A core: text from anywhere. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WHERE_BYTES 256      /* of a text of conditions, with its NUL */
#define WHERE_NAME_BYTES 128 /* of a hyperparameter, "optimizer.lr", with its NUL */
#define WHERE_CONDITIONS_MAX 8
#define WHERE_PREFIX "hp."

enum where_subject { WHERE_HYPERPARAMETER, WHERE_METRIC, WHERE_STEP, WHERE_INDEX };
enum where_operator { WHERE_LESS, WHERE_AT_MOST, WHERE_MORE, WHERE_AT_LEAST, WHERE_EQUAL, WHERE_UNEQUAL };

struct where_condition {
    enum where_subject subject;
    char name[WHERE_NAME_BYTES]; /* HYPERPARAMETER */
    enum where_operator op;
    bool is_number; /* the text is one, and `number` is it */
    double number;
    char text[WHERE_NAME_BYTES];
};

struct where {
    uint32_t count;
    struct where_condition items[WHERE_CONDITIONS_MAX];
};

/* Reads conditions joined by " and "; an empty text has none. A value may stand in quotes. False: `error` is one sentence. */
#define WHERE_ERROR_BYTES 256
bool where_read(const char *text, struct where *out, char error[WHERE_ERROR_BYTES]);

/* A value of a trial. */
struct where_value {
    enum { WHERE_ABSENT, WHERE_NUMBER, WHERE_TEXT, WHERE_OTHER } kind; /* OTHER: a list, a map */
    double number;
    const char *text; /* TEXT: `bytes` of it, not NUL-terminated; true and false are texts */
    size_t bytes;
};

/* Whether the value passes. An absent value and not-a-number pass nothing; texts are only equal or not. */
bool where_passes(const struct where_condition *condition, struct where_value value);

/* The value under "optimizer.lr" in a packed map of hyperparameters, nested or not. */
struct where_value where_find(const uint8_t *values, size_t bytes, const char *name);

/* What values are sorted by: numbers by size, behind them texts by their first six bytes; NaN: no such thing. */
double where_key(struct where_value value);

#endif
