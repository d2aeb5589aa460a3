#ifndef NODE_CORE_FACTS_OPTIONS_H
#define NODE_CORE_FACTS_OPTIONS_H
/* The options of an experiment's configuration, one row for each. A row says how an option is written in a YAML file
 * (read by node/config) and in the experiment's record (packed by config.c), and gives its bounds, default and help text.
 *
 * To add an option that is a number, a truth value, a word or a text:
 *
 * 1. struct config (config.h) gets a field: uint32_t or uint64_t for a number (double, if it may have a fraction), bool for a
 *    truth value, an enum for a word, an array of char for a text.
 * 2. config_options (options.c) gets a row, beside the other rows of the option's section; the help has the order of the
 *    rows. Take the lowest place above all others, and SPARSE: records then contain the option only where it differs from
 *    its default. So all other configurations keep their bytes, and a record from before the option reads as if it had the
 *    default. An older node ignores the option.
 *
 * The YAML reader, `shoal submit --help-config`, the record and tests/unit/options_test.c need no other line. If the bounds
 * depend on another option, config_finish of node/config/config_yaml.c checks them with a sentence for the user, and
 * config_is_good of config.c checks them in records, which may come from any peer. A list or a map has a reader in
 * node/config (fields.h) and its own lines in config.c.
 *
 * Records of experiments stay in the mesh for years: an option keeps its packed key, its place, the order of its words and
 * its default. Its bounds never become narrower; if they become wider, an older node refuses a record beyond its own. */

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
    OPTION_REAL,   /* double: above `min`, at most `max`; of parts from `min` to `max`, both allowed */
    OPTION_OTHER   /* a list or a map; the row names no field */
};

/* What a number counts. A file may have units (base/units.h); the field, the bounds and the record never have. */
enum option_unit { OPTION_PLAIN, OPTION_SECONDS, OPTION_BYTES };

/* Whether a record contains an option. */
enum option_packing {
    PACKED_NOT,    /* no; config.c packs lists and maps without the table */
    PACKED_ALWAYS, /* a record without the option is malformed */
    PACKED_LATER,  /* always written; a record from before the option has the default */
    PACKED_SPARSE  /* written where it differs from the default; a record without it has the default */
};

/* One option. All texts are static. */
struct config_option {
    const char *key; /* in the file: "resources.slots_per_trial" */
    enum option_kind kind;
    size_t offset, size; /* of the field in struct config; a text may have size - 1 bytes */
    uint64_t min, max;   /* bounds of a number in a file; a record may also have the default */
    enum option_unit unit; /* of a number */
    uint32_t parts; /* of a real: its bounds and its default count this many parts of 1; 0: they count ones */
    const char *const *words; /* the values of a word; a NULL at the end */
    uint64_t standard;        /* the default: a number, a truth value, or the number of a word */
    const char *standard_text; /* the default of a text; NULL: the empty text */
    enum option_packing packing;
    const char *packed_key; /* in the record's map */
    uint32_t place;         /* in the record's map, from 0; each place has one option */
    /* The type and the allowed values in words, for options with a reader in node/config (fields.h, hyperparameters.h).
     * NULL: options_store reads the option, and both follow from the fields above. */
    const char *type;
    const char *allowed;
    const char *standard_words; /* the default in the help; NULL: follows from the fields above */
    const char *help;           /* one or two sentences */
    bool is_of_submitter; /* of records only: the node that takes the submit fills it in, and no file may have the key */
};

#define CONFIG_OPTIONS_MAX 80
extern const struct config_option config_options[];
extern const size_t config_option_count; /* at most CONFIG_OPTIONS_MAX */

/* The option with this key in the file, which must be there. */
const struct config_option *config_option_find(const char *key);

/* The value of an OPTION_NUMBER, an OPTION_TRUTH (0 or 1) or an OPTION_WORD (the word's number). */
uint64_t config_option_number(const struct config_option *option, const struct config *config);

/* Stores the value of an option of these kinds; it must fit the field. */
void config_option_set_number(const struct config_option *option, uint64_t number, struct config *config);

/* The same for an OPTION_REAL. */
double config_option_real(const struct config_option *option, const struct config *config);
void config_option_set_real(const struct config_option *option, double number, struct config *config);

/* The bounds and the default of an OPTION_REAL, as numbers. */
double config_option_real_of(const struct config_option *option, uint64_t count);

/* True if the number is within the bounds of an OPTION_REAL; NaN is not. */
bool config_option_real_is_good(const struct config_option *option, double number);

/* Sets each option to its default and all other fields to zero. The YAML reader sets the defaults that depend on other
 * options or on the file: name, smaller_is_better, min_slots and max_slots. */
void config_options_set_standard(struct config *out);

#endif
