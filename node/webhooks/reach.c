#include "node/webhooks/reach.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

static bool reaches_v4(uint32_t address)
{
    static const struct {
        uint32_t network, mask;
    } refused[] = {
        {0x00000000, 0xff000000}, /* 0.0.0.0/8: this machine */
        {0x7f000000, 0xff000000}, /* 127.0.0.0/8 */
        {0xa9fe0000, 0xffff0000}, /* 169.254.0.0/16: link-local, 169.254.169.254 included */
        {0x646464c8, 0xffffffff}, /* 100.100.100.200: the metadata of a cloud */
        {0xc0000000, 0xffffff00}, /* 192.0.0.0/24: of protocols, 192.0.0.192 is a metadata service */
        {0xe0000000, 0xe0000000}, /* 224.0.0.0/3: groups, reserved, broadcast */
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if ((address & refused[i].mask) == refused[i].network) {
            return false;
        }
    }
    return true;
}

/* An IPv4 address in one of IPv6: mapped, compatible, NAT64 or 6to4. Returns where it begins, or -1. */
static int embedded_at(const uint8_t bytes[16])
{
    static const uint8_t zeros[12], nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (memcmp(bytes, mapped, 12) == 0 || memcmp(bytes, nat64, 12) == 0 || memcmp(bytes, zeros, 12) == 0) {
        return 12;
    }
    return bytes[0] == 0x20 && bytes[1] == 0x02 ? 2 : -1;
}

static bool reaches_v6(const uint8_t bytes[16])
{
    static const uint8_t metadata[16] = {0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54};
    int at = embedded_at(bytes);
    if (at >= 0) { /* :: and ::1 are 0.0.0.0 and 0.0.0.1 */
        return reaches_v4((uint32_t)bytes[at] << 24 | (uint32_t)bytes[at + 1] << 16 | (uint32_t)bytes[at + 2] << 8 |
                          bytes[at + 3]);
    }
    bool is_link_local = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
    return !is_link_local && bytes[0] != 0xff && memcmp(bytes, metadata, 16) != 0;
}

bool webhook_reaches(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return reaches_v4(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return reaches_v6(v6.sin6_addr.s6_addr);
    }
    return false;
}
