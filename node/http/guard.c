#include "node/http/guard.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"

/* The length of a Host without its port. */
static size_t without_port(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    if (host[0] == '[') {
        return end != NULL ? (size_t)(end - host) + 1 : strlen(host);
    }
    return end != NULL ? (size_t)(end - host) : strlen(host);
}

static bool name_is(const char *host, size_t bytes, const char *name)
{
    return bytes > 0 && strlen(name) == bytes && strncasecmp(host, name, bytes) == 0;
}

/* 127.0.0.0/8, in decimal parts only. */
static bool is_loopback(const char *host, size_t bytes)
{
    unsigned parts[4];
    char text[16], rest;
    if (bytes >= sizeof text) {
        return false;
    }
    memcpy(text, host, bytes);
    text[bytes] = '\0';
    if (strspn(text, "0123456789.") != bytes ||
        sscanf(text, "%3u.%3u.%3u.%3u%c", &parts[0], &parts[1], &parts[2], &parts[3], &rest) != 4) {
        return false;
    }
    return parts[0] == 127 && parts[1] <= 255 && parts[2] <= 255 && parts[3] <= 255;
}

/* An address in its usual form; of IPv6 in brackets, and without a zone. */
static bool is_address(const char *host, size_t bytes)
{
    char text[INET6_ADDRSTRLEN];
    uint8_t address[16];
    bool is_wide = bytes > 2 && host[0] == '[' && host[bytes - 1] == ']';
    size_t from = is_wide ? 1 : 0, count = bytes - 2 * from;
    if (count >= sizeof text) {
        return false;
    }
    memcpy(text, host + from, count);
    text[count] = '\0';
    return inet_pton(is_wide ? AF_INET6 : AF_INET, text, address) == 1;
}

bool guard_host_is_ours(const char *host, const char *const names[], size_t name_count, bool takes_addresses)
{
    if (host == NULL) {
        return false;
    }
    size_t bytes = without_port(host);
    const char *port = host + bytes;
    if (*port != '\0' && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1))) {
        return false;
    }
    if (name_is(host, bytes, "localhost") || name_is(host, bytes, "[::1]") || is_loopback(host, bytes) ||
        (takes_addresses && is_address(host, bytes))) {
        return true;
    }
    for (size_t i = 0; i < name_count; i++) {
        if (name_is(host, bytes, names[i])) {
            return true;
        }
    }
    return false;
}

bool guard_origin_is(const char *origin, const char *host, bool is_tls)
{
    const char *scheme = is_tls ? "https://" : "http://";
    size_t bytes = strlen(scheme);
    return host != NULL && strncmp(origin, scheme, bytes) == 0 && strcasecmp(origin + bytes, host) == 0;
}

static bool take(const char *text, size_t bytes, char out[GUARD_SECRET_BYTES])
{
    if (bytes == 0 || bytes >= GUARD_SECRET_BYTES) {
        return false;
    }
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return true;
}

static bool take_password(const char *base64, char out[GUARD_SECRET_BYTES])
{
    char text[2 * GUARD_SECRET_BYTES];
    size_t bytes;
    if (sodium_base642bin((uint8_t *)text, sizeof text - 1, base64, strlen(base64), " ", &bytes, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0) {
        return false;
    }
    text[bytes] = '\0';
    const char *colon = strchr(text, ':');
    return colon != NULL && take(colon + 1, strlen(colon + 1), out);
}

/* "a=1; NAME=VALUE; b=2" */
static bool take_cookie(const char *cookies, const char *name, char out[GUARD_SECRET_BYTES])
{
    size_t name_bytes = strlen(name);
    while (*cookies != '\0') {
        cookies += strspn(cookies, "; ");
        size_t bytes = strcspn(cookies, ";");
        if (bytes > name_bytes && strncmp(cookies, name, name_bytes) == 0 && cookies[name_bytes] == '=') {
            return take(cookies + name_bytes + 1, bytes - name_bytes - 1, out);
        }
        cookies += bytes;
    }
    return false;
}

bool guard_secret(const char *authorization, const char *cookies, const char *cookie_name, char out[GUARD_SECRET_BYTES],
                  bool *is_cookie)
{
    *is_cookie = false;
    if (authorization != NULL) {
        if (strncasecmp(authorization, "Bearer ", 7) == 0) {
            const char *secret = authorization + 7 + strspn(authorization + 7, " ");
            return take(secret, strlen(secret), out);
        }
        return strncasecmp(authorization, "Basic ", 6) == 0 && take_password(authorization + 6, out);
    }
    *is_cookie = cookies != NULL && take_cookie(cookies, cookie_name, out);
    return *is_cookie;
}

void guard_csrf(const char *secret, char out[GUARD_CSRF_BYTES])
{
    static const char label[] = "shoal csrf 1";
    uint8_t hash[16];
    (void)crypto_generichash(hash, sizeof hash, (const uint8_t *)secret, strlen(secret), (const uint8_t *)label,
                             sizeof label - 1);
    bytes_to_hex(out, hash, sizeof hash);
}

bool guard_csrf_is(const char *secret, const char *given)
{
    char wanted[GUARD_CSRF_BYTES];
    guard_csrf(secret, wanted);
    return given != NULL && strlen(given) == sizeof wanted - 1 && sodium_memcmp(given, wanted, sizeof wanted - 1) == 0;
}

bool guard_type_is_json(const char *type)
{
    static const char json[] = "application/json";
    return type != NULL && strncasecmp(type, json, sizeof json - 1) == 0 &&
           strchr("; \t", type[sizeof json - 1]) != NULL;
}
