#ifndef NODE_CONFIG_HPARAMS_H
#define NODE_CONFIG_HPARAMS_H
/* Hyperparameters as programs find them: variables of the environment, and placeholders in the entrypoint. Pure functions, but
 * for memory from malloc.
 *
 * A variable is SHOAL_HP_ and the name in capital letters, with `_` for every character that is neither a letter nor a digit;
 * names of nested maps are joined by `__`: {optimizer: {lr: 0.1}} gives SHOAL_HP_OPTIMIZER__LR=0.1. A text is given as it is,
 * every other value as JSON (true, null, [1, 2]).
 *
 * A placeholder is {{hp.NAME}} with the names of nested maps joined by dots; blanks inside the braces and one `$` before them
 * are allowed. No shell gives the braces a meaning, so an entrypoint that is run without Shoal shows them as they are. The value
 * takes the place as one word: as it is if it consists of letters, digits and _@%+=:,./-, else in single quotes. Such quotes
 * have their meaning outside other quotes only, so a value that needs quotes is refused at submit where the placeholder stands
 * in quotes, behind a here-document or a backquote, or in a substitution in quotes. */

#include "node/core/facts/config.h"

#define HPARAMS_ERROR_BYTES 400
#define HPARAMS_VARIABLE_BYTES 512 /* of a variable's name, with the NUL */

/* A value with a variable of its own. `value` reads it; `variable` is valid during the call. */
typedef void (*hparams_visitor)(void *context, const char *variable, struct pack_reader value);

/* Visits the values of a trial (search_trial_values): all but the maps, which are entered. An empty map counts as a value.
 * ERR_MALFORMED; ERR_FULL: a name is too long, and its variable was left out. */
int hparams_variables(struct pack_reader values, hparams_visitor visitor, void *context);

/* The value as a variable and a placeholder give it. The caller frees it; NULL: no memory. */
char *hparams_text(struct pack_reader value);

/* The check at submit that each variable belongs to one hyperparameter. 0; ERR_MALFORMED with one sentence in `error`;
 * ERR_MEMORY. */
int hparams_check_variables(const struct search_space *space, char error[HPARAMS_ERROR_BYTES]);

/* Takes one sentence, which is valid during the call. */
typedef void (*hparams_report)(void *context, const char *sentence);

/* Reports each placeholder that cannot be filled in whatever trial. 0, or ERR_MALFORMED: there is one. */
int hparams_check_entrypoint(const char *entrypoint, const struct search_space *space, hparams_report report, void *context);

/* Reports braces that are no placeholders, and probably meant to be: {{lr}} where there is a hyperparameter lr, {{hparams.lr}},
 * ${hp.lr}. A program's own templates, such as {{.Id}}, are not reported. */
void hparams_near_misses(const char *entrypoint, const struct search_space *space, hparams_report report, void *context);

/* The entrypoint with the values of a trial. The caller frees it; NULL: no memory. A placeholder that cannot be filled (the
 * record is of a version without placeholders) stays as it is. */
char *hparams_fill(const char *entrypoint, struct pack_reader values);

/* True if `text` begins with a placeholder, `*bytes` is then its length. */
bool hparams_is_placeholder(const char *text, size_t *bytes);

#endif
