#include "gossip/control_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

bool control_address_split(const char *text, char host[CONTROL_HOST_BYTES], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) {
        return false;
    }
    const char *begin = text;
    size_t bytes = (size_t)(colon - text);
    if (*begin == '[') {
        if (bytes < 3 || begin[bytes - 1] != ']') {
            return false;
        }
        begin++;
        bytes -= 2;
    } else if (memchr(begin, ':', bytes) != NULL) {
        return false; /* IPv6 needs brackets: without them the port cannot be told from the address */
    }
    if (bytes >= CONTROL_HOST_BYTES) {
        return false;
    }
    uint32_t number = 0;
    size_t digits = strlen(colon + 1);
    for (const char *p = colon + 1; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || digits > 5) {
            return false;
        }
        number = number * 10 + (uint32_t)(*p - '0');
    }
    if (digits == 0 || number > 65535) {
        return false;
    }
    (void)bytes_copy_text_n(host, CONTROL_HOST_BYTES, begin, bytes);
    *port = (uint16_t)number;
    return true;
}

int control_address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_bytes)
{
    char host[CONTROL_HOST_BYTES], port_text[8];
    uint16_t port;
    if (!control_address_split(text, host, &port) || port == 0 || strcmp(host, "*") == 0) { /* glibc accepts "*" as any host */
        return ERR_USAGE;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    (void)snprintf(port_text, sizeof port_text, "%u", port);
    if (getaddrinfo(host, port_text, &hints, &found) != 0) {
        return ERR_USAGE;
    }
    memset(out, 0, sizeof *out);
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *out_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int control_address_check(const char *address)
{
    struct sockaddr_storage parsed;
    socklen_t bytes;
    return strlen(address) >= CONTROL_ADDRESS_BYTES ? ERR_USAGE : control_address_parse(address, &parsed, &bytes);
}

static int address_format(const struct addrinfo *found, char out[CONTROL_ADDRESS_BYTES])
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return ERR_NOT_FOUND;
    }
    bool wide = found->ai_family == AF_INET6;
    char text[NI_MAXHOST + NI_MAXSERV + 4];
    (void)snprintf(text, sizeof text, "%s%s%s:%s", wide ? "[" : "", host, wide ? "]" : "", port);
    return bytes_copy_text(out, CONTROL_ADDRESS_BYTES, text) ? 0 : ERR_NOT_FOUND;
}

/* 0.0.0.0, :: and ::ffff:0.0.0.0: a socket can listen there, but no machine has such an address. */
static bool is_unspecified(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff};
    const struct in6_addr *wide = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_UNSPECIFIED(wide) || memcmp(wide, mapped, sizeof mapped) == 0;
}

int control_address_resolve(const char *text, char out[CONTROL_ADDRESS_BYTES], char error[256])
{
    char host[CONTROL_HOST_BYTES], port_text[8];
    uint16_t port;
    if (!control_address_split(text, host, &port) || port == 0 || strcmp(host, "*") == 0) {
        (void)snprintf(error, 256,
                       "The address \"%.80s\" is not HOST:PORT with a host of at most 63 characters; write for example 10.0.0.5:7410 or "
                       "[fd00::5]:7410.",
                       text);
        return ERR_USAGE;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    (void)snprintf(port_text, sizeof port_text, "%u", port);
    int failure = getaddrinfo(host, port_text, &hints, &found);
    if (failure != 0) {
        (void)snprintf(error, 256, "The host \"%.63s\" was not found: %.80s.", host, gai_strerror(failure));
        return ERR_NOT_FOUND;
    }
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
        if (each->ai_family == AF_INET) { /* prefer IPv4: most labs' meshes use nothing else */
            chosen = each;
            break;
        }
    }
    int result;
    if (is_unspecified(chosen->ai_addr)) {
        result = ERR_USAGE;
        (void)snprintf(error, 256, "The host \"%.63s\" stands for every address of a machine; name one of them.", host);
    } else {
        result = address_format(chosen, out);
        if (result != 0) {
            (void)snprintf(error, 256, "The host \"%.63s\" has no usable address.", host);
        }
    }
    freeaddrinfo(found);
    return result;
}
