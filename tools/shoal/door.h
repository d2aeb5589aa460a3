#ifndef TOOLS_SHOAL_DOOR_H
#define TOOLS_SHOAL_DOOR_H
/* The HTTPS door of another node (docs/http.md): where it is, and whether what answers there has the certificate that the node
 * has told the mesh. */

#include "gossip/control_address.h"
#include "gossip/fingerprint.h"
#include "tools/shoal/client.h"

#define DOOR_PEM_BYTES 16384
#define DOOR_FINGERPRINT_BYTES (2 * FINGERPRINT_BYTES + 1)

/* The door of a node, as the mesh knows it. */
struct door {
    char id[CLIENT_NODE_TEXT_BYTES], name[128], host[CONTROL_HOST_BYTES];
    char address[CONTROL_ADDRESS_BYTES + 16]; /* HOST:PORT, numeric */
    char fingerprint[DOOR_FINGERPRINT_BYTES];
};

/* Finds the node by its name or id, and its door. Each function returns an exit code; on failure its sentence is written. */
int door_find(struct client *client, const char *operand, struct door *out);

/* Fetches the certificate, as text, from the door, which has to have its key, and compares it. */
int door_fetch(struct cli *cli, const struct door *door, char pem[DOOR_PEM_BYTES]);

#endif
