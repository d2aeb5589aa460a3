#ifndef NODE_HTTP_ASK_H
#define NODE_HTTP_ASK_H
/* Asks the daemon for whole documents. */

#include "base/pack.h"
#include "node/http/channel.h"

/* Packs the head of a request, with the caller's secret (NULL: none); the caller packs `arguments` pairs behind it. */
void ask_begin(struct pack_writer *writer, const char *op, const char *secret, uint32_t arguments);

/* Reads the replies to a request up to the last, and joins them; replies with `progress` are passed over. A refusal is
 * the document then: the caller looks at `ok`. 0; the errors of channel_next. The document lives in the channel's zone.
 */
int ask_collect(struct channel *channel, msgpack_object *out);

/* Sends a request without arguments, and collects. */
int ask_document(struct channel *channel, const char *op, const char *secret, msgpack_object *out);

/* As ask_document, about an experiment; `trial` below 0: about all of its trials. */
int ask_experiment(struct channel *channel, const char *op, const char *secret, const char *experiment, long long trial,
                   msgpack_object *out);

#endif
