#ifndef NODE_DAEMON_WIRE_TEXTS_H
#define NODE_DAEMON_WIRE_TEXTS_H
/* Texts of a trial: what its program has written by MLflow besides numbers. They come as maps of sections, each a map
 * of keys to texts; a later map counts before an earlier one, and a nil takes a key's text back.
 *
 *     params   once written by an attempt, a key's text stays
 *     tags
 *     names    the groups of the metrics that the program calls by their names alone
 *     models   documents of logged models, by their ids
 *     runs     documents of runs that the program has started, by their numbers (below)
 *
 * Nothing of the system but memory. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/pack.h"

#define TEXTS_KEY_BYTES_MAX 1016     /* 250 characters, and the number of a run */
#define TEXTS_BYTES_MAX (512u << 10) /* of a whole map: less than an answer has room for */
#define TEXTS_PARAMS_MAX 5000        /* of one attempt */
#define TEXTS_PARAMS_BYTES_MAX (4u << 20)

/* The parameters that an attempt has written so far. All zero: none. */
struct texts_params {
    struct texts_param {
        char *key, *value; /* `value` lies behind `key`, in the same memory */
    } * rows;
    size_t count, capacity, bytes;
};

/* A program may start further runs beside its trial's own. Each has a number, 8 hexadecimal digits, not all zero: in
 * its id, behind the experiment's; before the keys of its texts, with a mark that stands in no key; and in the group of
 * its metrics. */
#define TEXTS_FURTHER_CHARS 8
#define TEXTS_FURTHER_MARK '|'
#define TEXTS_FURTHER_GROUP "run-"

/* Whether the group of metrics is that of a further run. */
static inline bool texts_is_further(const char *group)
{
    size_t prefix = sizeof TEXTS_FURTHER_GROUP - 1;
    return strncmp(group, TEXTS_FURTHER_GROUP, prefix) == 0 && strlen(group) == prefix + TEXTS_FURTHER_CHARS &&
           strspn(group + prefix, "0123456789abcdef") == TEXTS_FURTHER_CHARS;
}

/* Whether the bytes are one such map, of known sections and texts within the bounds. */
bool texts_are_good(const uint8_t *bytes, size_t count);

/* A parameter that a map would change; the texts are cut. */
struct texts_clash {
    char key[TEXTS_KEY_BYTES_MAX + 1], was[256], wanted[256];
};

/* Takes the parameters of a good map. ERR_EXISTS: the map changes one, as `*clash` says. ERR_FULL: an attempt has no
 * room for so many. ERR_MEMORY. After an error nothing is taken. */
int texts_params_take(struct texts_params *params, const uint8_t *bytes, size_t count, struct texts_clash *clash);

/* Forgets the parameters from number `count` on. */
void texts_params_cut(struct texts_params *params, size_t count);

void texts_params_free(struct texts_params *params);

#endif
