#ifndef NODE_DAEMON_LOCAL_HTTP_H
#define NODE_DAEMON_LOCAL_HTTP_H
/* The HTTP door: the process shoal-http (node/http), which the daemon starts and starts again. It holds no key and no
 * right of its own: for each connection that it serves it hands the daemon one end of a socket pair, which becomes a
 * client of the table of requests like those of the local socket, but each of its requests carries a token and has that
 * token's rights (api/tokens.h).
 *
 * Of a door for other machines the first message on the pair is the daemon's: the certificate and its key, as text.
 *
 * Messages from shoal-http to the daemon, on a socket pair of packets: HTTP_CHANNEL with a descriptor, the daemon's end
 * of a new connection; HTTP_LINE and a text, an event line; HTTP_PORT and a port (2 bytes, big-endian), where it
 * listens. */

#include <zmq.h>

#include "node/daemon/ground/daemon.h"

#define HTTP_CHANNEL 'c'
#define HTTP_LINE 'l'
#define HTTP_PORT 'p'
#define HTTP_MESSAGE_BYTES_MAX 512
#define HTTP_DEFAULT "127.0.0.1:7412"

/* Whether the door may listen there: "off", or a numeric address and a port, which may be 0 on this machine only. 0, or
 * ERR_USAGE: `error` says what is wrong. */
int http_check(const char *listen, char error[256]);

/* Whether the door that the options want is one for other machines, which speaks HTTPS, and nothing else. */
bool http_is_tls(const struct daemon_options *options);

/* Finds shoal-http, if the options want it, and has it make the certificate where there is none that will do. `*door`
 * is what others have to know. Called before http_open. Whatever fails, here and there, is an event line: a daemon works
 * without its HTTP door. */
void http_prepare(struct daemon *daemon, struct fact_door *door);

/* Starts shoal-http. */
void http_open(struct daemon *daemon);

/* Closes the door, after its clients. Waits for a second at most until the process has passed on what it was told, and
 * ends it. */
void http_close(struct daemon *daemon);

/* The descriptor that the loop waits for; -1: none. */
int http_fd(const struct daemon *daemon);

/* Takes the messages of shoal-http. For each connection `add` is called with a descriptor that it owns from then on. */
typedef void http_add_fn(struct daemon *daemon, int fd);
void http_process(struct daemon *daemon, http_add_fn *add);

/* Starts shoal-http again once it has ended, and has the certificate made anew before it ends (NODE_EVENT_DOOR). Called in
 * each turn of the loop. */
void http_tick(struct daemon *daemon, uint64_t now_ms);

#endif
