#ifndef TESTS_SIM_OWN_PROGRAM_H
#define TESTS_SIM_OWN_PROGRAM_H
/* The user's program of a search with the searcher custom (version 19 of plans), as these worlds have it. What it answers
 * follows from the events that it has heard, each of them whole and in their order, and from nothing else; an event more,
 * less, altered or at another place changes all answers behind it. A core. */

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"

#define OWN_TRIALS_MAX 8
#define OWN_ACTIONS_MAX 16 /* that it has thought of and not said yet; beyond them it forgets */

enum own_event_kind { OWN_START, OWN_REPORT, OWN_END, OWN_MORE, OWN_OTHER };

/* The values of a trial, as numbers. */
struct own_values {
    uint32_t count; /* 0: none */
    double rate, hidden;
};

/* What came of the answer to the event before. */
struct own_before {
    bool is_there;
    bool is_finished;
    uint32_t created_count, stopped_count;
    struct {
        uint32_t trial;
        struct own_values values;
    } created[OWN_ACTIONS_MAX];
    uint32_t stopped[OWN_ACTIONS_MAX];
};

struct own_event {
    enum own_event_kind kind;
    struct own_before before;
    /* REPORT and END. */
    uint32_t trial;
    uint64_t step, length; /* length: of an END 0 completed, 1 failed, 2 stopped */
    double metric;
    struct own_values values;
};

enum own_action_kind { OWN_CREATE, OWN_STOP, OWN_FINISH };

/* A value that is left out is drawn by the searcher. */
struct own_action {
    enum own_action_kind kind;
    bool has_rate, has_hidden;
    double rate, hidden;
    uint32_t trial;
};

/* How the program of an experiment is written. */
struct own_style {
    uint32_t says;   /* at most so many actions in one answer: the rest comes behind */
    uint32_t trials; /* max_trials */
    bool has_hidden; /* the search space has two parameters */
    bool is_hasty;   /* creates as much as it can at once */
};

struct own_program {
    struct own_style style;
    uint64_t heard; /* all events so far */
    uint32_t known; /* bits: trials that it has been told of as created */
    bool is_finished;
    uint32_t action_count;
    struct own_action actions[OWN_ACTIONS_MAX];
};

struct own_answer {
    bool has_more;
    uint32_t count;
    struct own_action actions[OWN_ACTIONS_MAX];
};

void own_program_begin(const struct own_style *style, struct own_program *program);

/* It is told of the next event, and answers. */
void own_program_hear(struct own_program *program, const struct own_event *event, struct own_answer *answer);

/* An event as its node sends it. False: it is none. `*number` is its place in the log, `*is_replay` whether its answer is
 * recorded. */
bool own_event_read(const uint8_t *bytes, size_t count, struct own_event *out, uint64_t *number, bool *is_replay);

/* The values of a map, or none where there is no map. */
struct own_values own_values_read(struct pack_reader values);

bool own_event_is_same(const struct own_event *a, const struct own_event *b);

void own_answer_pack(const struct own_answer *answer, struct pack_writer *writer);

#endif
