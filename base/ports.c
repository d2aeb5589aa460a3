#include "base/ports.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

#define STATE_TIME_WAIT 6 /* the kernel's TCP_TIME_WAIT and TCP_LISTEN */
#define STATE_LISTEN 10

/* What the kernel's tables say of a port, the worst last. */
enum use { USE_NONE, USE_CLOSING, USE_BUSY, USE_LISTENS };

/* Reads a number from 1 to 65535 without sign or leading zero; NULL: there is none. */
static const char *read_port(const char *text, uint16_t *out)
{
    uint32_t value = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 6; digits++) {
        value = value * 10 + (uint32_t)(text[digits] - '0');
    }
    if (digits == 0 || text[0] == '0' || value > UINT16_MAX) {
        return NULL;
    }
    *out = (uint16_t)value;
    return text + digits;
}

int ports_read(const char *text, struct ports *out)
{
    struct ports range;
    const char *at = read_port(text, &range.low);
    at = at != NULL && *at == '-' ? read_port(at + 1, &range.high) : NULL;
    if (at == NULL || *at != '\0' || range.low > range.high) {
        return ERR_USAGE;
    }
    *out = range;
    return 0;
}

void ports_write(struct ports range, char out[PORTS_TEXT_BYTES])
{
    (void)snprintf(out, PORTS_TEXT_BYTES, "%u-%u", (unsigned)range.low, (unsigned)range.high);
}

bool ports_overlap(struct ports a, struct ports b)
{
    return a.low <= b.high && b.low <= a.high;
}

int ports_ephemeral(struct ports *out)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned low = 0, high = 0;
    bool is_read = file != NULL && fscanf(file, "%5u %5u", &low, &high) == 2;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!is_read || low < 1 || high > UINT16_MAX || low > high) {
        return ERR_IO;
    }
    *out = (struct ports){(uint16_t)low, (uint16_t)high};
    return 0;
}

/* 0; ERR_EXISTS: another process has the port's lock; ERR_IO with errno. */
static int lock_port(uint16_t port, int *lock_fd)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "shoal-port-%u", (unsigned)port);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(fd, (const struct sockaddr *)&address, bytes) == 0) {
        *lock_fd = fd;
        return 0;
    }
    int error = errno;
    (void)close(fd);
    errno = error;
    return error == EADDRINUSE ? ERR_EXISTS : ERR_IO;
}

/* The port `step` behind `from`, in a circle. */
static uint16_t port_behind(struct ports range, uint16_t from, uint32_t step)
{
    uint32_t count = range.high - range.low + 1u;
    uint32_t first = from >= range.low && from <= range.high ? from - range.low : 0;
    return (uint16_t)(range.low + (first + step) % count);
}

/* ERR_FULL: no port of that use is left. `uses` has an entry for each port of the range; NULL: any port will do. */
static int lock_first(struct ports range, uint16_t from, const uint8_t *uses, enum use use, uint16_t *port, int *lock_fd)
{
    CHECK(range.low >= 1 && range.low <= range.high);
    uint32_t count = range.high - range.low + 1u;
    for (uint32_t step = 0; step < count; step++) {
        uint16_t candidate = port_behind(range, from, step);
        if (uses != NULL && uses[candidate - range.low] != use) {
            continue;
        }
        int code = lock_port(candidate, lock_fd);
        if (code == 0) {
            *port = candidate;
        }
        if (code != ERR_EXISTS) {
            return code;
        }
    }
    return ERR_FULL;
}

int ports_lock(struct ports range, uint16_t from, uint16_t *port, int *lock_fd)
{
    return lock_first(range, from, NULL, USE_NONE, port, lock_fd);
}

/* Notes the uses that a table of the kernel tells. A line is "SLOT: ADDRESS:PORT ADDRESS:PORT STATE ...", the numbers in
 * hexadecimal. Without the table nothing is noted. */
static void read_table(const char *path, struct ports range, uint8_t *uses)
{
    FILE *file = fopen(path, "re");
    char line[512];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned port, state;
        if (sscanf(line, " %*u: %*32[0-9A-Fa-f]:%4x %*32[0-9A-Fa-f]:%*4x %2x", &port, &state) != 2 || port < range.low ||
            port > range.high) {
            continue;
        }
        uint8_t use = state == STATE_TIME_WAIT ? USE_CLOSING : state == STATE_LISTEN ? USE_LISTENS : USE_BUSY;
        uint8_t *known = &uses[port - range.low];
        *known = use > *known ? use : *known;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void ports_look(struct ports range, uint8_t *uses)
{
    memset(uses, USE_NONE, range.high - range.low + 1u);
    read_table("/proc/self/net/tcp", range, uses);
    read_table("/proc/self/net/tcp6", range, uses);
}

int ports_take_seen(struct ports range, uint16_t from, const uint8_t *uses, uint16_t *port, int *lock_fd)
{
    int code = lock_first(range, from, uses, USE_NONE, port, lock_fd);
    return code == ERR_FULL && uses != NULL ? lock_first(range, from, uses, USE_CLOSING, port, lock_fd) : code;
}

int ports_take(struct ports range, uint16_t from, uint16_t *port, int *lock_fd)
{
    uint8_t *uses = malloc(range.high - range.low + 1u);
    if (uses == NULL) {
        errno = ENOMEM;
        return ERR_IO;
    }
    ports_look(range, uses);
    int code = ports_take_seen(range, from, uses, port, lock_fd);
    free(uses);
    return code;
}

bool ports_has_stranger(uint16_t port)
{
    uint8_t use = USE_NONE;
    int lock_fd;
    if (lock_port(port, &lock_fd) != 0) {
        return false;
    }
    ports_look((struct ports){port, port}, &use);
    (void)close(lock_fd);
    return use == USE_LISTENS;
}
