#include "base/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"

/* A numeric address; family 0: the text is none. */
struct address {
    int family;
    uint8_t bytes[16];
    bool is_loopback;
    char zone[IF_NAMESIZE];
};

static struct address address_read(const char *host)
{
    struct address address = {0};
    char text[INET6_ADDRSTRLEN];
    size_t bytes = strcspn(host, "%");
    if (host[bytes] == '%' && !bytes_copy_text(address.zone, sizeof address.zone, host + bytes + 1)) {
        return (struct address){0};
    }
    if (strcmp(host, "localhost") == 0) {
        return (struct address){.family = AF_INET, .is_loopback = true};
    }
    if (!bytes_copy_text_n(text, sizeof text, host, bytes)) {
        return (struct address){0};
    }
    if (inet_pton(AF_INET, text, address.bytes) == 1) {
        address.family = AF_INET;
        address.is_loopback = address.bytes[0] == 127;
    } else if (inet_pton(AF_INET6, text, address.bytes) == 1) {
        address.family = AF_INET6;
        address.is_loopback = IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)(const void *)address.bytes);
    }
    return address;
}

static bool has_address(const struct ifaddrs *entry, const struct address *wanted)
{
    if (entry->ifa_addr == NULL) {
        return false;
    }
    if (wanted->is_loopback) {
        return (entry->ifa_flags & IFF_LOOPBACK) != 0;
    }
    if (entry->ifa_addr->sa_family != wanted->family ||
        (wanted->zone[0] != '\0' && strcmp(wanted->zone, entry->ifa_name) != 0)) {
        return false;
    }
    if (wanted->family == AF_INET) {
        struct sockaddr_in address;
        memcpy(&address, entry->ifa_addr, sizeof address);
        return memcmp(&address.sin_addr, wanted->bytes, 4) == 0;
    }
    struct sockaddr_in6 address;
    memcpy(&address, entry->ifa_addr, sizeof address);
    return memcmp(&address.sin6_addr, wanted->bytes, 16) == 0;
}

bool interface_of_address(const char *host, char *name, size_t size)
{
    struct address wanted = address_read(host);
    struct ifaddrs *list;
    bool found = false;
    if (wanted.family == 0 || getifaddrs(&list) != 0) {
        return false;
    }
    for (const struct ifaddrs *entry = list; entry != NULL && !found; entry = entry->ifa_next) {
        found = has_address(entry, &wanted) && strlen(entry->ifa_name) < size;
        if (found) {
            (void)bytes_copy_text(name, size, entry->ifa_name);
        }
    }
    freeifaddrs(list);
    return found;
}
