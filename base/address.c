#include "base/address.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

void address_host(const char *address, char *host, size_t size)
{
    const char *colon = strrchr(address, ':');
    bool is_bracketed = address[0] == '[';
    const char *from = is_bracketed ? address + 1 : address;
    size_t count = colon == NULL ? strlen(from) : (size_t)(colon - from) - (is_bracketed && colon > from ? 1 : 0);
    bytes_copy_text_n(host, size, from, count);
}
