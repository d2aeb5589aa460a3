#ifndef NODE_WEBHOOKS_REACH_H
#define NODE_WEBHOOKS_REACH_H
/* Which addresses a webhook may reach. A pure function. */

#include <stdbool.h>
#include <sys/socket.h>

/* False for addresses of this machine itself (loopback, unspecified), of its links (link-local, which the metadata
 * services of clouds have), of metadata services elsewhere, and of groups: the mesh must allow their host by name. */
bool webhook_reaches(const struct sockaddr *address);

#endif
