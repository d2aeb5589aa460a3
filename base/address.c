#include "base/address.h"

#include <string.h>

#include "base/bytes.h"
#include "base/format.h"

void address_host(const char *address, char *host, size_t size)
{
    const char *colon = strrchr(address, ':');
    bool is_bracketed = address[0] == '[';
    const char *from = is_bracketed ? address + 1 : address;
    size_t count = colon == NULL ? strlen(from) : (size_t)(colon - from) - (is_bracketed && colon > from ? 1 : 0);
    bytes_copy_text_n(host, size, from, count);
}

static const char *read_ipv4(const char *text, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t value = 0;
        int digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 4; text++, digits++) {
            value = value * 10 + (uint32_t)(*text - '0');
        }
        if (digits == 0 || digits > 3 || value > 255 || (i < 3 && *text++ != '.')) {
            return NULL;
        }
        out[i] = (uint8_t)value;
    }
    return text;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* RFC 4291, section 2.2: groups of hex digits, "::" once for groups of zeros, IPv4 as the last two groups. */
static bool read_ipv6(const char *text, uint8_t out[16])
{
    uint8_t bytes[16] = {0};
    int used = 0, gap = -1;
    if (text[0] == ':' && text[1] != ':') {
        return false;
    }
    while (*text != '\0' && *text != '%') {
        if (text[0] == ':' && text[1] == ':') {
            if (gap >= 0) {
                return false;
            }
            gap = used;
            text += 2;
            continue;
        }
        text += *text == ':';
        const char *end = used <= 12 ? read_ipv4(text, bytes + used) : NULL;
        if (end != NULL) {
            used += 4;
            text = end;
            break;
        }
        uint32_t value = 0;
        int digits = 0;
        for (; hex_value(*text) >= 0 && digits < 5; text++, digits++) {
            value = value << 4 | (uint32_t)hex_value(*text);
        }
        if (digits == 0 || digits > 4 || used > 14 || (*text != '\0' && *text != '%' && *text != ':')) {
            return false;
        }
        bytes[used++] = (uint8_t)(value >> 8);
        bytes[used++] = (uint8_t)value;
    }
    if ((*text != '\0' && *text != '%') || (gap < 0 ? used != 16 : used > 14)) {
        return false;
    }
    memset(out, 0, 16);
    int head = gap < 0 ? used : gap;
    memcpy(out, bytes, (size_t)head);
    memcpy(out + 16 - (used - head), bytes + head, (size_t)(used - head));
    return true;
}

bool address_parse(const char *host, uint8_t bytes[16], bool *is_wide)
{
    *is_wide = strchr(host, ':') != NULL;
    memset(bytes, 0, 16);
    if (*is_wide) {
        return read_ipv6(host, bytes);
    }
    const char *end = read_ipv4(host, bytes);
    return end != NULL && *end == '\0';
}

bool address_is_link_local(const char *host)
{
    uint8_t bytes[16];
    bool is_wide;
    return address_parse(host, bytes, &is_wide) && (is_wide ? bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80
                                                            : bytes[0] == 169 && bytes[1] == 254);
}

void address_network(const char *host, uint32_t prefix, char *out, size_t size)
{
    uint8_t bytes[16];
    bool is_wide;
    out[0] = '\0';
    if (prefix == 0 || !address_parse(host, bytes, &is_wide) || prefix > (is_wide ? 128u : 32u)) {
        return;
    }
    for (uint32_t bit = prefix; bit < 128; bit++) {
        bytes[bit / 8] &= (uint8_t)~(0x80u >> bit % 8);
    }
    if (!is_wide) {
        (void)format_text(out, size, "%u.%u.%u.%u/%u", bytes[0], bytes[1], bytes[2], bytes[3], prefix);
        return;
    }
    int groups = 8;
    while (groups > 0 && bytes[groups * 2 - 2] == 0 && bytes[groups * 2 - 1] == 0) {
        groups--;
    }
    size_t used = 0;
    for (int i = 0; i < groups; i++) {
        (void)format_text(out + used, size - used, i == 0 ? "%x" : ":%x", (unsigned)bytes[i * 2] << 8 | bytes[i * 2 + 1]);
        used = strlen(out);
    }
    (void)format_text(out + used, size - used, groups < 8 ? "::/%u" : "/%u", prefix);
}
