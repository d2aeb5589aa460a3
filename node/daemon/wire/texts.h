#ifndef NODE_DAEMON_WIRE_TEXTS_H
#define NODE_DAEMON_WIRE_TEXTS_H
/* Texts of a trial: what its program has written by MLflow besides numbers. They come as maps of sections, each a map of keys to
 * texts; a later map counts before an earlier one, and a nil takes a key's text back.
 *
 *     params   once written by an attempt, a key's text stays
 *     tags
 *     names    the groups of the metrics that the program calls by their names alone
 *     models   documents of logged models, by their ids
 *
 * Nothing of the system but memory. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

#define TEXTS_KEY_BYTES_MAX 1000 /* 250 characters */
#define TEXTS_BYTES_MAX (512u << 10) /* of a whole map: less than an answer has room for */
#define TEXTS_PARAMS_MAX 5000        /* of one attempt */
#define TEXTS_PARAMS_BYTES_MAX (4u << 20)

/* The parameters that an attempt has written so far. All zero: none. */
struct texts_params {
    struct texts_param {
        char *key, *value; /* `value` lies behind `key`, in the same memory */
    } *rows;
    size_t count, capacity, bytes;
};

/* Whether the bytes are one such map, of known sections and texts within the bounds. */
bool texts_are_good(const uint8_t *bytes, size_t count);

/* A parameter that a map would change; the texts are cut. */
struct texts_clash {
    char key[TEXTS_KEY_BYTES_MAX + 1], was[256], wanted[256];
};

/* Takes the parameters of a good map. ERR_EXISTS: the map changes one, as `*clash` says. ERR_FULL: an attempt has no room for
 * so many. ERR_MEMORY. After an error nothing is taken. */
int texts_params_take(struct texts_params *params, const uint8_t *bytes, size_t count, struct texts_clash *clash);

/* Forgets the parameters from number `count` on. */
void texts_params_cut(struct texts_params *params, size_t count);

void texts_params_free(struct texts_params *params);

#endif
