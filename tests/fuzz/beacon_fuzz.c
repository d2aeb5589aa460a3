/* Datagrams of the beacon: anybody on the network can send them. */
#include <string.h>

#include "base/check.h"
#include "gossip/beacon.h"
#include "tests/fuzz/fuzz.h"

static const mesh_id mesh = {{4, 5, 6}};

void fuzz_one(const uint8_t *data, size_t size)
{
    node_id node;
    uint16_t port;
    uint8_t again[BEACON_BYTES];
    if (beacon_decode(data, size, mesh, &node, &port) == 0) {
        CHECK(size == BEACON_BYTES && port != 0);
        beacon_encode(mesh, node, port, again);
        CHECK(memcmp(again, data, BEACON_BYTES) == 0);
    }
}

void fuzz_seeds(void)
{
    uint8_t bytes[BEACON_BYTES];
    beacon_encode(mesh, (node_id){{9}}, 7400, bytes);
    fuzz_seed(bytes, sizeof bytes);
    beacon_encode((mesh_id){{1}}, (node_id){{9}}, 7400, bytes);
    fuzz_seed(bytes, sizeof bytes);
}
