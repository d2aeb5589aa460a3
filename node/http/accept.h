#ifndef NODE_HTTP_ACCEPT_H
#define NODE_HTTP_ACCEPT_H
/* Takes connections, waits until the head of the request is there, and hands those with a good head to the server. One
 * thread holds all connections that have not sent a whole head: they cost a descriptor each, and are closed after 10 s.
 */

#include <stdbool.h>

/* Listens at a numeric address. Returns the descriptor, or -1: `errno` says why. */
int accept_listen(const char *host, unsigned short port);

/* Runs until `control_fd` ends. `is_tls`: tls_start has been called, and each connection goes through it. */
void accept_loop(int listen_fd, int control_fd, bool is_tls);

#endif
