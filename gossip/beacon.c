#include "gossip/beacon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "gossip/message.h"

#define MAGIC "SHLB"
#define MAGIC_BYTES 4
#define GROUP 0xefff4a0bu        /* 239.255.74.11: organisation-local scope */
#define LOOPBACK_ALL 0x7fffffffu /* 127.255.255.255 */
#define BAD_PER_CALL 64

/* ff02::4a0b: link-local scope, so the datagrams need no address but the link-local one that each IPv6 interface has. */
static const struct in6_addr GROUP_WIDE = {.s6_addr = {0xff, 0x02, [14] = 0x4a, [15] = 0x0b}};

struct beacon {
    int fd;
    int wide_fd; /* IPv6; -1: this machine has none */
    uint16_t port;
    mesh_id mesh;
    node_id self;
    uint8_t datagram[BEACON_BYTES];
    uint64_t begin_ms; /* when the first tick came */
    uint64_t next_ms;  /* 0: no tick yet */
};

/* A keyed hash, so that the mesh id itself is not broadcast. */
static void mesh_hash(mesh_id mesh, uint8_t out[16])
{
    static const uint8_t context[] = "shoal beacon 1..";
    (void)crypto_generichash(out, 16, mesh.bytes, MESH_ID_BYTES, context, sizeof context - 1);
}

void beacon_encode(mesh_id mesh, node_id self, uint16_t control_port, uint8_t out[BEACON_BYTES])
{
    memcpy(out, MAGIC, MAGIC_BYTES);
    out[4] = VERSION_OLDEST; /* the version that every program able to talk to us can read */
    bytes_put_u16(out + 5, control_port);
    mesh_hash(mesh, out + 7);
    memcpy(out + 23, self.bytes, NODE_ID_BYTES);
}

int beacon_decode(const uint8_t *bytes, size_t count, mesh_id mesh, node_id *node, uint16_t *control_port)
{
    if (count < MAGIC_BYTES + 1 || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) {
        return ERR_MALFORMED;
    }
    if (!version_is_spoken(version_ours(), bytes[4])) {
        return ERR_VERSION;
    }
    if (count != BEACON_BYTES || bytes_get_u16(bytes + 5) == 0) {
        return ERR_MALFORMED;
    }
    uint8_t hash[16];
    mesh_hash(mesh, hash);
    if (memcmp(hash, bytes + 7, sizeof hash) != 0) {
        return ERR_NOT_FOUND;
    }
    *control_port = bytes_get_u16(bytes + 5);
    memcpy(node->bytes, bytes + 23, NODE_ID_BYTES);
    return 0;
}

/* SO_REUSEADDR on every socket lets the daemons of a machine share the port; each daemon receives every broadcast. */
static int socket_open(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int one = 1, buffer_bytes = 64 * 1024;
    unsigned char ttl = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    (void)setsockopt(fd, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        int saved = errno;
        (void)close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int socket_open_wide(uint16_t port)
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1, zero = 0;
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
                    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) != 0 ||
                    setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &zero, sizeof zero) != 0 ||
                    bind(fd, (struct sockaddr *)&at, sizeof at) != 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int beacon_open(uint16_t port, mesh_id mesh, node_id self, uint16_t control_port, struct beacon **out, char error[256])
{
    struct beacon *beacon = calloc(1, sizeof *beacon);
    if (beacon == NULL) {
        (void)snprintf(error, 256, "No memory is left for the beacon.");
        return ERR_MEMORY;
    }
    beacon->fd = socket_open(port);
    if (beacon->fd < 0) {
        (void)snprintf(error, 256,
                       "The beacon cannot use UDP port %u: %.80s; nodes of this LAN will not be found automatically.",
                       port, strerror(errno));
        free(beacon);
        return ERR_IO;
    }
    beacon->wide_fd = socket_open_wide(port);
    beacon->port = port;
    beacon->mesh = mesh;
    beacon->self = self;
    beacon_encode(mesh, self, control_port, beacon->datagram);
    *out = beacon;
    return 0;
}

void beacon_close(struct beacon **beacon)
{
    if (*beacon != NULL) {
        (void)close((*beacon)->fd);
        if ((*beacon)->wide_fd >= 0) {
            (void)close((*beacon)->wide_fd);
        }
        free(*beacon);
        *beacon = NULL;
    }
}

int beacon_fd(const struct beacon *beacon)
{
    return beacon->fd;
}

int beacon_wide_fd(const struct beacon *beacon)
{
    return beacon->wide_fd;
}

/* As send_multicast, over IPv6. */
static void send_wide(const struct beacon *beacon, const char *interface)
{
    unsigned index = if_nametoindex(interface);
    struct ipv6_mreq group = {.ipv6mr_multiaddr = GROUP_WIDE, .ipv6mr_interface = index};
    struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_port = htons(beacon->port), .sin6_addr = GROUP_WIDE, .sin6_scope_id = index};
    if (index != 0 && beacon->wide_fd >= 0) {
        (void)setsockopt(beacon->wide_fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group);
        (void)sendto(beacon->wide_fd, beacon->datagram, BEACON_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to,
                     sizeof to);
    }
}

static void send_to(const struct beacon *beacon, uint32_t address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(beacon->port), .sin_addr.s_addr = address};
    (void)sendto(beacon->fd, beacon->datagram, BEACON_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to,
                 sizeof to);
}

/* Joining the group again is a harmless error, and covers interfaces that came up meanwhile. */
static void send_multicast(const struct beacon *beacon, struct in_addr interface)
{
    struct ip_mreqn group = {.imr_multiaddr.s_addr = htonl(GROUP), .imr_address = interface};
    (void)setsockopt(beacon->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
    if (setsockopt(beacon->fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof group) == 0) {
        send_to(beacon, htonl(GROUP));
    }
}

static void send_everywhere(const struct beacon *beacon)
{
    send_to(beacon, htonl(LOOPBACK_ALL));
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) {
        return;
    }
    int used = 0;
    for (const struct ifaddrs *each = all; each != NULL && used < BEACON_INTERFACES_MAX; each = each->ifa_next) {
        if (each->ifa_addr != NULL && each->ifa_addr->sa_family == AF_INET6 && (each->ifa_flags & IFF_UP) != 0 &&
            (each->ifa_flags & IFF_LOOPBACK) == 0 && (each->ifa_flags & IFF_MULTICAST) != 0 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)each->ifa_addr)->sin6_addr)) {
            used++;
            send_wide(beacon, each->ifa_name);
            continue;
        }
        if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET || (each->ifa_flags & IFF_UP) == 0 ||
            (each->ifa_flags & (IFF_LOOPBACK | IFF_POINTOPOINT)) != 0) {
            continue;
        }
        used++;
        if ((each->ifa_flags & IFF_MULTICAST) != 0) {
            send_multicast(beacon, ((struct sockaddr_in *)(void *)each->ifa_addr)->sin_addr);
        }
        if ((each->ifa_flags & IFF_BROADCAST) != 0 && each->ifa_broadaddr != NULL) {
            send_to(beacon, ((struct sockaddr_in *)(void *)each->ifa_broadaddr)->sin_addr.s_addr);
        }
    }
    freeifaddrs(all);
}

void beacon_tick(struct beacon *beacon, uint64_t now_ms)
{
    if (now_ms < beacon->next_ms) {
        return;
    }
    if (beacon->next_ms == 0) {
        beacon->begin_ms = now_ms;
    }
    beacon->next_ms = now_ms + (now_ms - beacon->begin_ms < BEACON_FAST_FOR_MS ? BEACON_FAST_MS : BEACON_SLOW_MS);
    send_everywhere(beacon);
}

uint64_t beacon_next_ms(const struct beacon *beacon)
{
    return beacon->next_ms;
}

/* Writes the sender's host as others write it in an address: IPv6 in brackets, link-local with the zone. */
static bool host_of(const struct sockaddr_storage *from, socklen_t bytes, char *out, size_t size)
{
    char host[NI_MAXHOST];
    if (getnameinfo((const struct sockaddr *)from, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0) {
        return false;
    }
    int length = snprintf(out, size, from->ss_family == AF_INET6 ? "[%s]" : "%s", host);
    return length > 0 && (size_t)length < size;
}

int beacon_receive(struct beacon *beacon, node_id *node, char address[BEACON_ADDRESS_BYTES])
{
    for (int i = 0; i < BAD_PER_CALL; i++) {
        uint8_t bytes[BEACON_BYTES + 1]; /* room for a byte more: a longer datagram is cut, but still found too long */
        struct sockaddr_storage from;
        socklen_t from_bytes = sizeof from;
        ssize_t count = recvfrom(beacon->fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &from_bytes);
        if (count < 0 && beacon->wide_fd >= 0) {
            from_bytes = sizeof from;
            count = recvfrom(beacon->wide_fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &from_bytes);
        }
        if (count < 0) {
            return ERR_AGAIN;
        }
        node_id found;
        uint16_t control_port;
        char host[BEACON_ADDRESS_BYTES - 6];
        if (beacon_decode(bytes, (size_t)count, beacon->mesh, &found, &control_port) != 0 ||
            node_id_equal(found, beacon->self) || node_id_is_none(found) ||
            !host_of(&from, from_bytes, host, sizeof host)) {
            continue;
        }
        *node = found;
        (void)snprintf(address, BEACON_ADDRESS_BYTES, "%s:%u", host, control_port);
        return 0;
    }
    return ERR_AGAIN;
}
