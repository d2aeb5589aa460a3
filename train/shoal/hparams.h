#ifndef TRAIN_SHOAL_HPARAMS_H
#define TRAIN_SHOAL_HPARAMS_H
/* Hyperparameters as a worker sees them: a packed map that may hold maps and lists, with typed reads by path. */

#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

#define HPARAMS_BYTES_MAX (64u * 1024)

/* Converts JSON (an object) to a MessagePack map in `writer`. Integers stay integers. 0, ERR_MALFORMED, ERR_FULL (writer too
 * small); after an error the writer's content is undefined. */
int hparams_from_json(const char *text, struct pack_writer *writer);

/* Finds "a.b.c" in the nested maps of bytes[count]; *out points into `bytes`. A nil counts as absent. 0, ERR_NOT_FOUND,
 * ERR_MALFORMED (not a map). */
int hparams_find(const uint8_t *bytes, size_t count, const char *path, struct pack_reader *out);

/* Reads a whole number, also one written as 64.0. 0 or ERR_MALFORMED. */
int hparams_read_int(struct pack_reader *value, int64_t *out);

#endif
