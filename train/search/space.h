#ifndef TRAIN_SEARCH_SPACE_H
#define TRAIN_SEARCH_SPACE_H
/* A search space, read: its parameters with their conditions. For the searchers of this directory only. */

#include "base/random.h"
#include "train/search/search.h"

/* A condition: the value of parameter `other` is one of allowed[first] ... */
struct condition {
    uint32_t other, first, count;
};

/* The parameters of a space, read anew in each call. About 60 KiB, on the stack. */
struct parameters {
    struct search_head head;
    struct condition conditions[SEARCH_CONDITIONS_MAX];
    int64_t allowed[SEARCH_ALLOWED_MAX];
    uint32_t condition_count, allowed_count;
    uint32_t first_condition[SEARCH_PARAMETERS_MAX + 1]; /* the next parameter's is the end of this one's */
    bool is_controller[SEARCH_PARAMETERS_MAX];           /* a condition names it */
    struct search_parameter list[SEARCH_PARAMETERS_MAX];
    uint32_t count;
};

/* The value of a parameter in a trial: the number of a choice, an integer or a number. */
struct drawn {
    uint64_t choice;
    int64_t integer;
    double number;
    bool is_given;  /* the user's own, so a number is not rounded */
    bool is_active; /* the trial has it */
};

/* Reads a space; *values_max becomes the most bytes that the values of a trial take. 0, ERR_MALFORMED, or ERR_FULL: those are too
 * many. */
int space_read(const struct search_space *space, struct parameters *out, size_t *values_max);

/* The number of properties that the first versions did not know. */
uint32_t space_later_properties(const struct search_parameter *parameter);

/* The number of choices of a categorical. */
uint32_t space_choice_count(const struct search_parameter *parameter);

/* Whether the values of a range are finite in number. */
bool space_has_steps(const struct search_parameter *parameter);

/* The number of steps from minval to maxval: the values are minval + i * step for i = 0 ... the result. An int has a step of 1
 * if none is given. */
uint64_t space_step_count(const struct search_parameter *parameter);

/* Whether the trial meets the conditions of parameter `at`. What it drew before is settled. */
bool space_is_active(const struct parameters *parameters, uint32_t at, const struct drawn *drawn);

/* The number of trials with the user's own values; `out` then reads the values of the first. */
uint32_t space_initial_count(const struct parameters *parameters, struct pack_reader *out);

/* Reads the user's own values of one trial; `drawn` has an element for each parameter. */
void space_read_own_values(struct pack_reader *reader, const struct parameters *parameters, struct drawn *drawn);

/* The value of a parameter at `at` of [0, 1), as search_trial_point has it: equal parts of it belong to equally likely values. Of a const
 * it is 0. */
double space_value_at(const struct search_parameter *parameter, double at);

/* The value of a double or a log as a trial has it: with 9 digits, and in the bounds. */
double space_rounded(const struct search_parameter *parameter, double value);

/* The generator of the rule "by name" of search.h. */
void space_random_by_name(struct random *out, uint64_t seed, uint32_t index, const char *name);

#endif
