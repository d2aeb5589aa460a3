#ifndef TOOLS_SHOAL_TAILS_H
#define TOOLS_SHOAL_TAILS_H
/* The last lines of failed trials. The document of `show` has the end of them, as much as fits into a record; more lies with
 * the logs, on the node where the program ran and on a second one. */

#include "base/document.h"
#include "tools/shoal/client.h"

#define TAILS_MAX 16 /* trials of which more than the end is fetched, in the order of the document */
#define TAIL_BYTES_MAX (64u * 1024)

/* The texts that were fetched. All zero at the start. */
struct tails {
    char *texts[TAILS_MAX];
    size_t count;
    msgpack_zone *zone; /* of the document */
};

/* Fetches the last lines of the failed trials in the client's last reply and puts them into its document in place of their
 * ends. What cannot be fetched stays as it is. The document is then valid until tails_free. */
void tails_fetch(struct client *client, const msgpack_object *experiment, struct tails *tails);

/* As tails_fetch, for the row of one trial in the last reply. */
void tails_fetch_one(struct client *client, const msgpack_object *experiment, const msgpack_object *trial, struct tails *tails);

/* Frees the texts. */
void tails_free(struct tails *tails);

#endif
