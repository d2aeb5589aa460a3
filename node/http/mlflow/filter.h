#ifndef NODE_HTTP_MLFLOW_FILTER_H
#define NODE_HTTP_MLFLOW_FILTER_H
/* The filters and orders of MLflow's searches (its documentation, "Search Runs" and "Search Experiments"): comparisons
 * joined by `and`, such as metrics.`validation/accuracy` > 0.9 and params.lr = '0.1' and attributes.status = 'FINISHED'
 * and tags.team LIKE 'v%' A core: text from anywhere. */

#include <stdbool.h>
#include <stddef.h>

#define FILTER_TERMS_MAX 32
#define FILTER_TEXT_BYTES 256
#define FILTER_VALUES_MAX 64 /* of one IN */

enum filter_of { FILTER_METRIC, FILTER_PARAM, FILTER_TAG, FILTER_ATTRIBUTE };
enum filter_op {
    FILTER_EQUAL,
    FILTER_UNEQUAL,
    FILTER_LESS,
    FILTER_AT_MOST,
    FILTER_MORE,
    FILTER_AT_LEAST,
    FILTER_LIKE,
    FILTER_ILIKE,
    FILTER_IN,
    FILTER_NOT_IN
};

struct filter_term {
    enum filter_of of;
    char key[FILTER_TEXT_BYTES];
    enum filter_op op;
    bool is_number;
    double number;
    char text[FILTER_TEXT_BYTES]; /* of IN: the texts, each with its NUL */
    size_t text_count;            /* of IN */
};

struct filter {
    struct filter_term terms[FILTER_TERMS_MAX];
    size_t count;
};

/* Reads a filter; NULL or blank: one that everything passes. False: `error` is one sentence with the position. */
bool filter_read(const char *text, struct filter *out, char error[256]);

/* One value of a run or an experiment. */
struct filter_value {
    enum { FILTER_ABSENT, FILTER_NUMBER, FILTER_TEXT } kind;
    double number;
    const char *text;
};

/* Whether a value passes a term. An absent value passes none. */
bool filter_passes(const struct filter_term *term, struct filter_value value);

/* "metrics.loss ASC", "attributes.start_time DESC", "params.lr". */
struct filter_order {
    enum filter_of of;
    char key[FILTER_TEXT_BYTES];
    bool descending;
};
bool filter_read_order(const char *text, struct filter_order *out, char error[256]);

/* The order of two values: numbers before texts, absent ones and not-a-numbers last in either order. Below 0: `a` is
 * first. */
int filter_compare(struct filter_value a, struct filter_value b, bool descending);

/* LIKE: % stands for any text, _ for one character. */
bool filter_like(const char *pattern, const char *text, bool ignores_case);

#endif
