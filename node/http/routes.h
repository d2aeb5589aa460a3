#ifndef NODE_HTTP_ROUTES_H
#define NODE_HTTP_ROUTES_H
/* The routes of the HTTP API: one for each request of the local socket (docs/wire.md) that no worker sends. A table,
 * from which requests are matched and the OpenAPI document is written. A core. */

#include <stdbool.h>
#include <stddef.h>

#define ROUTES_PREFIX "/api/v1"
#define ROUTE_PARTS_MAX 4

enum route_kind {
    ROUTE_DOCUMENT, /* the reply as JSON */
    ROUTE_LIVE,     /* as ROUTE_DOCUMENT; with `follow` a stream of events */
    ROUTE_PIECES,   /* several replies, as an array in JSON; with `follow` a stream of events */
    ROUTE_PACKED,   /* one reply; its `bytes`, a map in MessagePack, become the member `platform` */
    ROUTE_STREAM,   /* a stream of events (text/event-stream), or, if the client takes none, its first document */
    ROUTE_FILE,     /* the bytes of the file that comes with the reply */
    ROUTE_EXPORT,   /* a file that the door writes from several documents (export.h); `op` is the first that it asks for */
    ROUTE_TARGETS,  /* the list `targets` of the reply alone, as Prometheus' http_sd wants it */
    ROUTE_SUBMIT    /* a configuration; replies with `progress` are passed over */
};

struct route {
    const char *method;
    const char *path; /* below ROUTES_PREFIX; {NAME} takes one part of the path and is the argument NAME */
    const char *op;   /* of the local socket */
    enum route_kind kind;
    /* The arguments beside those of the path: "NAME:TYPE" with a blank between them, in the query of GET and in the
     * body of the others. TYPE is u (number), t (text), b (true or false), n (array of numbers), a (array of texts);
     * NAME! must be given. */
    const char *arguments;
    const char *summary;
    const char *type; /* of ROUTE_FILE: its media type */
};

/* All rows, valid for ever. */
const struct route *routes_all(size_t *count);

/* What a path has for the {NAME}s of its route, in their order; not decoded, borrowed from the path. */
struct route_match {
    const struct route *route; /* NULL: no route has this path */
    bool has_path;             /* some route has the path, with another method */
    char allowed[64];          /* has_path: the methods of the path, for the field Allow */
    size_t part_count;
    struct {
        const char *name;
        size_t name_bytes;
        const char *value;
        size_t value_bytes;
    } parts[ROUTE_PARTS_MAX];
};

/* Finds the route of a method and a path (without its query), which begins with ROUTES_PREFIX. HEAD is GET. */
void routes_match(const char *method, const char *path, struct route_match *out);

/* Looks for an argument among those of a route. Returns its type, or '\0'; `*required` is set if it is found. */
char routes_argument(const struct route *route, const char *name, bool *required);

/* Goes through the arguments of a route: `*at` is NULL at first. False at the end. */
struct route_argument {
    const char *name; /* not NUL-terminated */
    size_t name_bytes;
    char type;
    bool required;
};
bool routes_next_argument(const struct route *route, const char **at, struct route_argument *out);

#endif
