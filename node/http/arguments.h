#ifndef NODE_HTTP_ARGUMENTS_H
#define NODE_HTTP_ARGUMENTS_H
/* The arguments of an HTTP request as those of a request of the local socket: from the path, the query and a body of
 * JSON to pairs in MessagePack, each checked against the route. No I/O. */

#include <stdint.h>

#include "base/pack.h"
#include "node/http/routes.h"

#define ARGUMENTS_MAX 24
#define ARGUMENTS_NAME_BYTES 32
#define ARGUMENTS_BODY_BYTES_MAX (1u << 20)
#define ARGUMENTS_STACK_BYTES (512u << 10) /* of a thread that reads a body: the reader of JSON goes 2,048 deep */

struct arguments {
    const struct route *route;
    struct pack_writer pairs;
    uint32_t count;
    bool follows;                                    /* `follow` is true: the answer has no end */
    char names[ARGUMENTS_MAX][ARGUMENTS_NAME_BYTES]; /* those that have been given */
    char error[256];                                 /* one sentence, once a function has failed */
};

/* Begins with an empty list. `bytes` is borrowed until the end. */
void arguments_init(struct arguments *arguments, const struct route *route, uint8_t *bytes, size_t size);

/* Adds an argument of the path or of the query, as text. False: `error` says why. */
bool arguments_add_part(struct arguments *arguments, const char *name, size_t name_bytes, const char *value,
                        size_t value_bytes);
bool arguments_add_query(struct arguments *arguments, const char *name, const char *value);

/* Adds the members of a JSON object. */
bool arguments_add_json(struct arguments *arguments, const char *body, size_t count);

/* Whether all that must be given are there. */
bool arguments_finish(struct arguments *arguments);

#endif
