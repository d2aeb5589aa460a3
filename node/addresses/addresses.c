#include "node/addresses/addresses.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"

#define SYSFS "/sys/class/net"
#define PATH_BYTES 320
#define DEPTH_MAX 4 /* a bridge over a VLAN over a bond over a card */
#define SPEED_WIRELESS 300
#define SPEED_TUNNEL 100
#define SPEED_UNKNOWN 1000
/* Flags in /proc/net/if_inet6 (linux/if_addr.h). */
#define FLAG_TEMPORARY 0x01u
#define FLAG_DAD_FAILED 0x08u
#define FLAG_DEPRECATED 0x20u
#define FLAG_TENTATIVE 0x40u

/* ---- interfaces ------------------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool exists(const char *sysfs, const char *interface, const char *file)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s/%s", sysfs, interface, file);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

/* Names that container engines and hypervisors give to what is theirs alone. */
static bool has_container_name(const char *name)
{
    static const char *const prefixes[] = {"docker", "virbr", "veth",   "cni",       "podman", "lxcbr", "lxdbr", "incusbr",
                                           "vnet",   "cali",  "flannel", "kube-ipvs", "cilium", "nodelocaldns", "weave"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (begins(name, prefixes[i])) {
            return true;
        }
    }
    bool is_docker_net = begins(name, "br-") && strlen(name) == 15; /* "br-" and the first 12 digits of the network's id */
    for (const char *p = name + 3; is_docker_net && *p != '\0'; p++) {
        is_docker_net = isxdigit((unsigned char)*p) != 0;
    }
    return is_docker_net;
}

/* A device, or an interface over one. */
static bool is_physical(const char *sysfs, const char *interface, int depth)
{
    char path[PATH_BYTES];
    if (exists(sysfs, interface, "device")) {
        return true;
    }
    (void)snprintf(path, sizeof path, "%s/%s", sysfs, interface);
    DIR *directory = depth < DEPTH_MAX ? opendir(path) : NULL;
    bool found = false;
    for (const struct dirent *entry; directory != NULL && !found && (entry = readdir(directory)) != NULL;) {
        found = begins(entry->d_name, "lower_") && is_physical(sysfs, entry->d_name + strlen("lower_"), depth + 1);
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return found;
}

/* True if every port of the bridge is an end of a container or of a virtual machine. */
static bool has_only_virtual_ports(const char *sysfs, const char *bridge)
{
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s/brif", sysfs, bridge);
    DIR *directory = opendir(path);
    bool only = true;
    for (const struct dirent *entry; directory != NULL && only && (entry = readdir(directory)) != NULL;) {
        only = entry->d_name[0] == '.' || has_container_name(entry->d_name) || begins(entry->d_name, "tap") ||
               exists(sysfs, entry->d_name, "tun_flags");
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return only;
}

bool addresses_is_container(const char *sysfs, const char *interface, bool has_route)
{
    bool is_bridge = exists(sysfs, interface, "bridge");
    if (is_physical(sysfs, interface, 0)) {
        return false;
    }
    if (has_container_name(interface)) {
        return !(is_bridge && has_route && !begins(interface, "docker") && !begins(interface, "virbr"));
    }
    return is_bridge && !has_route && has_only_virtual_ports(sysfs, interface);
}

uint32_t addresses_speed(const char *sysfs, const char *interface, bool is_tunnel)
{
    char path[PATH_BYTES];
    long speed = 0;
    (void)snprintf(path, sizeof path, "%s/%s/speed", sysfs, interface);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        char text[32] = ""; /* reading fails where the driver knows none */
        speed = fgets(text, sizeof text, file) != NULL ? strtol(text, NULL, 10) : 0;
        (void)fclose(file);
    }
    bool is_named_tunnel = begins(interface, "wg") || begins(interface, "tun") || begins(interface, "tailscale") ||
                           begins(interface, "ppp") || begins(interface, "zt");
    if (is_tunnel || is_named_tunnel || exists(sysfs, interface, "tun_flags")) {
        return SPEED_TUNNEL; /* what a tunnel tells of itself is not what the network below carries */
    }
    if (exists(sysfs, interface, "wireless") || exists(sysfs, interface, "phy80211")) {
        return SPEED_WIRELESS;
    }
    return speed > 0 && speed < 10000000 ? (uint32_t)speed : SPEED_UNKNOWN;
}

/* The interfaces of the default routes. */
static bool has_default_route(const char *interface)
{
    char line[512], name[64], destination[64], prefix[8];
    bool found = false;
    FILE *file = fopen("/proc/net/route", "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        found = sscanf(line, "%63s %63s", name, destination) == 2 && strcmp(destination, "00000000") == 0 &&
                strcmp(name, interface) == 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    file = found ? NULL : fopen("/proc/net/ipv6_route", "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *last = strrchr(line, ' ');
        found = sscanf(line, "%63s %7s", destination, prefix) == 2 && strspn(destination, "0") == 32 && strcmp(prefix, "00") == 0 &&
                last != NULL && sscanf(last, "%63s", name) == 1 && strcmp(name, interface) == 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* ---- addresses -------------------------------------------------------------------------------------------------------------- */

/* The flags of an IPv6 address; 0: unknown. */
static unsigned flags_of(const struct in6_addr *address, const char *interface)
{
    char wanted[33], line[256], hex[64], name[64];
    unsigned index, prefix, scope, flags, found = 0;
    bytes_to_hex(wanted, address->s6_addr, 16);
    FILE *file = fopen("/proc/net/if_inet6", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%63s %x %x %x %x %63s", hex, &index, &prefix, &scope, &flags, name) == 6 && strcmp(hex, wanted) == 0 &&
            strcmp(name, interface) == 0) {
            found = flags;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

static uint32_t prefix_of(const struct sockaddr *mask, bool is_wide)
{
    const uint8_t *bytes = is_wide ? ((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr.s6_addr
                                   : (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
    uint32_t bits = 0, count = is_wide ? 128 : 32;
    while (bits < count && (bytes[bits / 8] >> (7 - bits % 8) & 1) != 0) {
        bits++;
    }
    return bits;
}

static bool read_one(const struct ifaddrs *each, struct address_of_ours *out)
{
    if (each->ifa_addr == NULL || (each->ifa_addr->sa_family != AF_INET && each->ifa_addr->sa_family != AF_INET6)) {
        return false;
    }
    memset(out, 0, sizeof *out);
    out->is_wide = each->ifa_addr->sa_family == AF_INET6;
    const struct in6_addr *wide = &((const struct sockaddr_in6 *)(const void *)each->ifa_addr)->sin6_addr;
    const struct in_addr *narrow = &((const struct sockaddr_in *)(const void *)each->ifa_addr)->sin_addr;
    out->is_link_local = out->is_wide ? IN6_IS_ADDR_LINKLOCAL(wide) : (ntohl(narrow->s_addr) >> 16) == 0xa9fe;
    out->prefix = each->ifa_netmask != NULL ? prefix_of(each->ifa_netmask, out->is_wide) : out->is_wide ? 128 : 32;
    (void)bytes_copy_text(out->interface, sizeof out->interface, each->ifa_name);
    return inet_ntop(out->is_wide ? AF_INET6 : AF_INET, out->is_wide ? (const void *)wide : narrow, out->host,
                     sizeof out->host) != NULL;
}

static int order(const void *left, const void *right)
{
    const struct address_of_ours *a = left, *b = right;
    int difference = a->is_link_local - b->is_link_local;
    difference = difference != 0 ? difference : a->is_last - b->is_last;
    difference = difference != 0 ? difference : (a->speed < b->speed) - (a->speed > b->speed);
    difference = difference != 0 ? difference : a->is_wide - b->is_wide;
    difference = difference != 0 ? difference : strcmp(a->interface, b->interface);
    return difference != 0 ? difference : strcmp(a->host, b->host);
}

static bool has_stable(const struct addresses_of_ours *all, const struct address_of_ours *temporary)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct address_of_ours *other = &all->items[i];
        if (other->is_wide && !other->is_last && !other->is_link_local && strcmp(other->interface, temporary->interface) == 0) {
            return true;
        }
    }
    return false;
}

int addresses_read(struct addresses_of_ours *out)
{
    struct ifaddrs *all;
    out->count = 0;
    if (getifaddrs(&all) != 0) {
        return ERR_IO;
    }
    for (const struct ifaddrs *each = all; each != NULL && out->count < ADDRESSES_MAX; each = each->ifa_next) {
        struct address_of_ours *item = &out->items[out->count];
        unsigned wanted = IFF_UP | IFF_RUNNING;
        if ((each->ifa_flags & wanted) != wanted || (each->ifa_flags & IFF_LOOPBACK) != 0 || !read_one(each, item) ||
            addresses_is_container(SYSFS, each->ifa_name, has_default_route(each->ifa_name))) {
            continue;
        }
        unsigned flags = item->is_wide ? flags_of(&((struct sockaddr_in6 *)(void *)each->ifa_addr)->sin6_addr, each->ifa_name) : 0;
        if ((flags & (FLAG_TENTATIVE | FLAG_DAD_FAILED)) != 0) {
            continue;
        }
        item->is_last = (flags & (FLAG_DEPRECATED | FLAG_TEMPORARY)) != 0;
        item->speed = addresses_speed(SYSFS, each->ifa_name, (each->ifa_flags & IFF_POINTOPOINT) != 0);
        out->count++;
    }
    freeifaddrs(all);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        if (!out->items[i].is_last || !has_stable(out, &out->items[i])) {
            out->items[kept++] = out->items[i];
        }
    }
    out->count = kept;
    qsort(out->items, out->count, sizeof out->items[0], order);
    return 0;
}

bool addresses_find(const char *host, struct address_of_ours *out)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *each = all; each != NULL && !found; each = each->ifa_next) {
        found = read_one(each, out) && strcmp(out->host, host) == 0;
        out->speed = found ? addresses_speed(SYSFS, each->ifa_name, (each->ifa_flags & IFF_POINTOPOINT) != 0) : 0;
    }
    freeifaddrs(all);
    return found;
}

/* ---- changes ---------------------------------------------------------------------------------------------------------------- */

int addresses_watch(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    struct sockaddr_nl at = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* What the messages say is not read: the addresses are read anew as a whole, so that lost messages (ENOBUFS) do no harm. */
bool addresses_changed(int fd)
{
    bool changed = false;
    char bytes[8192];
    for (int i = 0; i < 256; i++) {
        ssize_t count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        changed |= count > 0 || errno == ENOBUFS;
        if (count < 0 && errno != ENOBUFS && errno != EINTR) {
            break;
        }
    }
    return changed;
}
