#include "node/daemon/workers/error_file.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

#define DEPTH_MAX 32

struct json {
    const char *at, *end;
};

static void skip_blanks(struct json *json)
{
    while (json->at < json->end && memchr(" \t\r\n", *json->at, 4) != NULL) {
        json->at++;
    }
}

/* Takes the character if it is the next one that is no blank. */
static bool take(struct json *json, char c)
{
    skip_blanks(json);
    bool is_there = json->at < json->end && *json->at == c;
    json->at += is_there;
    return is_there;
}

/* Takes a text in quotes; `inside` gets what stands between them, escapes included. */
static bool take_text(struct json *json, struct json *inside)
{
    if (!take(json, '"')) {
        return false;
    }
    inside->at = json->at;
    for (; json->at < json->end && *json->at != '"'; json->at++) {
        json->at += *json->at == '\\' && json->at + 1 < json->end;
    }
    inside->end = json->at;
    return take(json, '"');
}

/* Passes over one value. */
static bool skip_value(struct json *json, uint32_t depth)
{
    struct json inside;
    skip_blanks(json);
    if (json->at == json->end || depth > DEPTH_MAX) {
        return false;
    }
    if (*json->at == '"') {
        return take_text(json, &inside);
    }
    if (*json->at != '{' && *json->at != '[') {
        const char *start = json->at;
        while (json->at < json->end && memchr(",]} \t\r\n", *json->at, 7) == NULL) {
            json->at++;
        }
        return json->at > start;
    }
    bool is_map = *json->at == '{';
    char close = is_map ? '}' : ']';
    json->at++;
    if (take(json, close)) {
        return true;
    }
    do {
        if ((is_map && (!take_text(json, &inside) || !take(json, ':'))) || !skip_value(json, depth + 1)) {
            return false;
        }
    } while (take(json, ','));
    return take(json, close);
}

/* Moves to the value of a key in the map that comes next. */
static bool find_key(struct json *json, const char *key)
{
    struct json name;
    if (!take(json, '{')) {
        return false;
    }
    do {
        if (!take_text(json, &name) || !take(json, ':')) {
            return false;
        }
        if ((size_t)(name.end - name.at) == strlen(key) && memcmp(name.at, key, strlen(key)) == 0) {
            return true;
        }
    } while (skip_value(json, 0) && take(json, ','));
    return false;
}

static uint32_t hex4(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = strchr("00112233445566778899aAbBcCdDeEfF", at[i]);
        static const char digits[] = "00112233445566778899aAbBcCdDeEfF";
        if (digit == NULL || at[i] == '\0') {
            return UINT32_MAX;
        }
        value = value * 16 + (uint32_t)(strchr(digits, at[i]) - digits) / 2;
    }
    return value;
}

/* Takes one character of a text; returns its code point, UINT32_MAX: a broken escape. */
static uint32_t take_escape(struct json *inside)
{
    char c = inside->at[1];
    inside->at += 2;
    if (c == 'u' && inside->end - inside->at >= 4) {
        uint32_t code = hex4(inside->at);
        inside->at += 4;
        if (code >= 0xd800 && code < 0xdc00 && inside->end - inside->at >= 6 && memcmp(inside->at, "\\u", 2) == 0) {
            uint32_t low = hex4(inside->at + 2);
            inside->at += 6;
            return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
        }
        return code >= 0xd800 && code < 0xe000 ? 0xfffd : code;
    }
    return c == 'n' || c == 'r' ? '\n' : c == 't' || c == 'b' || c == 'f' ? ' ' : (uint32_t)(unsigned char)c;
}

/* How many bytes of the character at `at` belong together. */
static size_t character_bytes(const char *at, const char *end)
{
    size_t bytes = 1;
    while (at + bytes < end && ((unsigned char)at[bytes] & 0xc0) == 0x80 && bytes < 4) {
        bytes++;
    }
    return bytes;
}

/* Writes the decoded text; returns the number of bytes, without the NUL. `is_line`: only the first line. */
static size_t unescape(struct json inside, bool is_line, char *out, size_t size)
{
    size_t used = 0;
    while (inside.at < inside.end) {
        char bytes[4];
        size_t count;
        if (*inside.at == '\\' && inside.end - inside.at >= 2) {
            uint32_t code = take_escape(&inside);
            count = bytes_put_utf8(bytes, code > 0x10ffff ? 0xfffd : code);
        } else {
            count = character_bytes(inside.at, inside.end);
            memcpy(bytes, inside.at, count);
            inside.at += count;
        }
        if (used + count >= size || (is_line && bytes[0] == '\n' && used > 0)) {
            break;
        }
        if (((unsigned char)bytes[0] < ' ' && (is_line || bytes[0] != '\n')) || bytes[0] == 0x7f) {
            bytes[0] = ' ';
        }
        memcpy(out + used, bytes, count);
        used += count;
    }
    out[used] = '\0';
    return used;
}

/* Where the last line of a text begins; `bytes` counts the text without the '\n' at its end. */
static size_t last_line(const char *text, size_t bytes)
{
    while (bytes > 0 && text[bytes - 1] != '\n') {
        bytes--;
    }
    return bytes;
}

/* The bytes of a text without the blanks and ends of lines at its end. */
static size_t without_blanks(const char *text, size_t bytes)
{
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == ' ')) {
        bytes--;
    }
    return bytes;
}

static void take_stack(struct json inside, struct error_file *out)
{
    size_t size = (size_t)(inside.end - inside.at) + 1; /* no escape is shorter than its character */
    char *text = malloc(size);
    if (text == NULL) {
        return;
    }
    size_t end = without_blanks(text, unescape(inside, false, text, size));
    size_t from = last_line(text, end), length = strlen(out->message);
    if (length > 0 && end - from >= length && memcmp(text + from, out->message, length) == 0) {
        end = without_blanks(text, from); /* a traceback ends with its message */
    }
    size_t first = end;
    for (uint32_t lines = 0; lines < ERROR_STACK_LINES && first > 0; lines++) {
        size_t next = last_line(text, first == end ? end : first - 1);
        if (end - next + 2 > sizeof out->stack) {
            break;
        }
        first = next;
    }
    if (first < end) {
        memcpy(out->stack, text + first, end - first);
        out->stack[end - first] = '\n';
        out->stack[end - first + 1] = '\0';
    }
    free(text);
}

/* Seconds, as a text or a number; digits behind the milliseconds are passed over. 0: no number. */
static uint64_t take_time_ms(struct json *json)
{
    (void)take(json, '"');
    uint64_t value = 0;
    int decimals = -1;
    for (; json->at < json->end && decimals < 3; json->at++) {
        if (*json->at == '.' && decimals < 0) {
            decimals = 0;
        } else if (*json->at >= '0' && *json->at <= '9' && value < UINT64_C(1000000000000000)) {
            value = value * 10 + (uint64_t)(*json->at - '0');
            decimals += decimals >= 0;
        } else {
            break;
        }
    }
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++) {
        value *= 10;
    }
    return value;
}

bool error_file_parse(const char *text, size_t bytes, struct error_file *out)
{
    struct json all = {text, text + bytes}, message = all, inside, stack, when = all;
    memset(out, 0, sizeof *out);
    if (!find_key(&message, "message")) {
        return false;
    }
    skip_blanks(&message);
    struct json map = message, extra = message;
    bool is_map = message.at < message.end && *message.at == '{';
    if ((is_map && !find_key(&message, "message")) || !take_text(&message, &inside) ||
        unescape(inside, true, out->message, sizeof out->message) == 0) {
        return false;
    }
    bool has_extra = is_map && find_key(&extra, "extraInfo");
    stack = extra;
    when = has_extra ? extra : is_map ? map : when;
    if (has_extra && find_key(&stack, "py_callstack") && take_text(&stack, &inside)) {
        take_stack(inside, out);
    }
    if (find_key(&when, "timestamp")) {
        out->at_ms = take_time_ms(&when);
    }
    return true;
}

bool error_file_read(const char *directory, struct error_file *out)
{
    char path[4096];
    memset(out, 0, sizeof *out);
    (void)snprintf(path, sizeof path, "%.4000s/error.json", directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW); /* the program may have made anything of this name */
    struct stat info;
    bool is_usable = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
                     info.st_size <= (off_t)ERROR_FILE_BYTES_MAX;
    char *text = is_usable ? malloc((size_t)info.st_size) : NULL;
    ssize_t bytes = text != NULL ? read(fd, text, (size_t)info.st_size) : 0;
    bool is_found = bytes > 0 && error_file_parse(text, (size_t)bytes, out);
    free(text);
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_found;
}
