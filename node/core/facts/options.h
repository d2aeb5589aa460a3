#ifndef NODE_CORE_FACTS_OPTIONS_H
#define NODE_CORE_FACTS_OPTIONS_H
/* The options of an experiment's configuration, one row for each. A row says how an option is written in a YAML file
 * (read by node/config), how the experiment's record contains it (packed by config.c), its bounds, its default and its
 * help text.
 *
 * To add an option that is a number, a truth value, a word or a text:
 *
 * 1. struct config (config.h) gets a field: uint32_t or uint64_t for a number, bool for a truth value, an enum for a word,
 *    an array of char for a text.
 * 2. config_options (options.c) gets a row, beside the other rows of the option's section; the order of the rows is the
 *    order of the help. Give it the next place that no row has, and SPARSE: the option is in a record only where it
 *    differs from its default. So the records of all other configurations keep their bytes, records from before the
 *    option read as if it had its default, and an older node that meets the option ignores it.
 * 3. docs/design.md says what the option does, in the part about what it changes.
 *
 * The YAML reader, `shoal submit --help-config`, the record and the tests of bounds need no other line. If the option
 * depends on another one, config_finish of node/config/config_yaml.c checks that with a sentence for the user, and
 * config_unpack once more, because a record may come from anywhere. A list or a map is read by a function of its own
 * (node/config/fields.h) and packed by a line of its own in config.c.
 *
 * An option that is in records keeps its packed key, its place, the order of its words and its default: records of
 * experiments stay in the mesh for years. Its bounds may become wider, not narrower. */

#include <stddef.h>

#include "node/core/facts/config.h"

/* The kind of an option and of its field in struct config. */
enum option_kind {
    OPTION_TEXT,   /* one line, not empty; char[], ends in NUL */
    OPTION_NAME,   /* a text without '/' */
    OPTION_LINES,  /* a text that may be empty or have several lines */
    OPTION_NUMBER, /* uint32_t or uint64_t */
    OPTION_TRUTH,  /* bool */
    OPTION_WORD,   /* an enum, whose values count the words from 0 */
    OPTION_OTHER   /* a list or a map; the row names no field */
};

/* Whether a record contains an option. */
enum option_packing {
    PACKED_NOT,    /* no, or by a line of its own in config.c */
    PACKED_ALWAYS, /* a record without the option is malformed */
    PACKED_LATER,  /* always written; a record from before the option was there lacks it and gets the default */
    PACKED_SPARSE  /* written where it differs from the default; a record that lacks it gets the default */
};

/* One option. All texts are static. */
struct config_option {
    const char *key; /* in the file: "resources.slots_per_trial" */
    enum option_kind kind;
    size_t offset, size; /* of the field in struct config; a text may have size - 1 bytes */
    uint64_t min, max;   /* bounds of a number that is given; a record may hold the default as well */
    const char *const *words; /* the values of a word; a NULL at the end */
    uint64_t standard;        /* the default: a number, a truth value, or the number of a word */
    const char *standard_text; /* the default of a text; NULL: the empty text */
    enum option_packing packing;
    const char *packed_key; /* in the record's map */
    uint32_t place;         /* in the record's map, from 0; each place has one option */
    /* For an option that is read by a function of its own (node/config/fields.h, hyperparameters.h): its type and its
     * allowed values, in words. NULL: both follow from the fields above. */
    const char *type;
    const char *allowed;
    const char *standard_words; /* the default in the help; NULL: follows from the fields above */
    const char *help;           /* one or two sentences */
};

#define CONFIG_OPTIONS_MAX 64
extern const struct config_option config_options[];
extern const size_t config_option_count; /* at most CONFIG_OPTIONS_MAX */

/* The option with this key in the file, which must be there. */
const struct config_option *config_option_find(const char *key);

/* The value of an OPTION_NUMBER, an OPTION_TRUTH (0 or 1) or an OPTION_WORD (the word's number). */
uint64_t config_option_number(const struct config_option *option, const struct config *config);

/* Stores such a value, which must fit the field. */
void config_option_set_number(const struct config_option *option, uint64_t number, struct config *config);

/* Sets each option to its default, and everything else to zero. Defaults that depend on another option (min_slots,
 * max_slots, smaller_is_better, the name) are up to the YAML reader. */
void config_options_set_standard(struct config *out);

#endif
