#include "node/http/gate.h"

#include <stdbool.h>
#include <string.h>

/* What the fields of a head have said so far. */
struct head {
    bool is_old; /* HTTP/1.0 */
    unsigned fields, hosts, lengths, encodings;
    uint64_t body_bytes;
};

struct refusal {
    int status;
    const char *why;
};

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_visible(char c)
{
    return c > ' ' && c < 0x7f;
}

static bool text_is(const char *bytes, size_t count, const char *text)
{
    return count == strlen(text) && memcmp(bytes, text, count) == 0;
}

/* As text_is, for ASCII letters of either case; `text` has lower case only. */
static bool word_is(const char *bytes, size_t count, const char *text)
{
    if (count != strlen(text)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i] >= 'A' && bytes[i] <= 'Z' ? (char)(bytes[i] - 'A' + 'a') : bytes[i];
        if (c != text[i]) {
            return false;
        }
    }
    return true;
}

/* METHOD SP target SP HTTP/1.x */
static struct refusal read_request_line(const char *line, size_t count, struct head *head)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"};
    const char *first = memchr(line, ' ', count);
    if (first == NULL) {
        return (struct refusal){400, "The request line is not METHOD TARGET VERSION."};
    }
    size_t method = (size_t)(first - line), rest = count - method - 1;
    const char *target = first + 1, *second = memchr(target, ' ', rest);
    if (second == NULL || memchr(second + 1, ' ', rest - (size_t)(second - target) - 1) != NULL) {
        return (struct refusal){400, "The request line is not METHOD TARGET VERSION."};
    }
    size_t target_bytes = (size_t)(second - target), version_bytes = rest - target_bytes - 1;
    bool is_known = false;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        is_known |= text_is(line, method, methods[i]);
    }
    if (!is_known) {
        return (struct refusal){501, "The method is none of GET, HEAD, POST, PUT, PATCH and DELETE."};
    }
    head->is_old = text_is(second + 1, version_bytes, "HTTP/1.0");
    if (!head->is_old && !text_is(second + 1, version_bytes, "HTTP/1.1")) {
        return (struct refusal){505, "The version is neither HTTP/1.1 nor HTTP/1.0."};
    }
    if (target_bytes == 0 || target[0] != '/') {
        return (struct refusal){400, "The target does not begin with a slash."};
    }
    for (size_t i = 0; i < target_bytes; i++) {
        if (!is_visible(target[i])) {
            return (struct refusal){400, "The target holds a character that has to be written with a percent sign."};
        }
        if (target[i] == '%' && target_bytes - i > 2 && memcmp(target + i, "%00", 3) == 0) {
            return (struct refusal){400, "The target holds a NUL."};
        }
    }
    return (struct refusal){0};
}

/* NAME ":" value */
static struct refusal read_field(const char *line, size_t count, struct head *head)
{
    size_t name = 0;
    while (name < count && is_token_char(line[name])) {
        name++;
    }
    if (name == 0 || name == count || line[name] != ':') {
        return (struct refusal){400, "A line of the head is not NAME: VALUE."};
    }
    const char *value = line + name + 1, *end = line + count;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    for (const char *c = value; c < end; c++) {
        if ((unsigned char)*c < ' ' && *c != '\t') {
            return (struct refusal){400, "A field of the head holds a control character."};
        }
    }
    size_t value_bytes = (size_t)(end - value);
    if (word_is(line, name, "host")) {
        head->hosts++;
    } else if (word_is(line, name, "content-length")) {
        head->lengths++;
        bool is_number = value_bytes > 0 && value_bytes <= 18;
        head->body_bytes = 0;
        for (size_t i = 0; i < value_bytes && is_number; i++) {
            is_number = value[i] >= '0' && value[i] <= '9';
            head->body_bytes = 10 * head->body_bytes + (uint64_t)(value[i] - '0');
        }
        if (!is_number) {
            return (struct refusal){400, "The Content-Length is no number."};
        }
    } else if (word_is(line, name, "transfer-encoding")) {
        head->encodings++;
        if (!word_is(value, value_bytes, "chunked")) {
            return (struct refusal){501, "The Transfer-Encoding is not chunked."};
        }
    }
    head->fields++;
    return (struct refusal){0};
}

static struct refusal read_whole(const struct head *head)
{
    if (head->hosts > 1 || (head->hosts == 0 && !head->is_old)) {
        return (struct refusal){400, "The head has no Host, or several."};
    }
    if (head->lengths > 1 || head->encodings > 1 || (head->lengths > 0 && head->encodings > 0)) {
        return (struct refusal){400, "The length of the body is told twice."};
    }
    if (head->encodings > 0 && head->is_old) {
        return (struct refusal){400, "HTTP/1.0 has no Transfer-Encoding."};
    }
    return (struct refusal){0};
}

enum gate_verdict gate_judge(const char *bytes, size_t count, int *status, const char **why)
{
    struct gate_head head;
    return gate_read(bytes, count, status, why, &head);
}

enum gate_verdict gate_read(const char *bytes, size_t count, int *status, const char **why, struct gate_head *out)
{
    struct head head = {0};
    struct refusal refusal = {0};
    size_t from = 0;
    size_t limit = count < GATE_HEAD_BYTES_MAX ? count : GATE_HEAD_BYTES_MAX;
    bool is_first = true;
    while (refusal.status == 0) {
        const char *newline = memchr(bytes + from, '\n', limit - from);
        size_t most = newline != NULL ? (size_t)(newline - bytes) : limit;
        if (is_first && most - from > GATE_LINE_BYTES_MAX) {
            refusal = (struct refusal){414, "The request line is longer than 8 KiB."};
            break;
        }
        const char *early = memchr(bytes + from, '\r', most - from);
        if (early != NULL &&
            early != bytes + most - 1) { /* neither the last of the line nor, without a LF yet, of all bytes */
            refusal = (struct refusal){400, "The head holds a CR that no LF follows."};
            break;
        }
        if (newline == NULL) {
            if (count < GATE_HEAD_BYTES_MAX) {
                return GATE_MORE;
            }
            refusal = (struct refusal){431, "The head is longer than 32 KiB."};
            break;
        }
        if (early == NULL) {
            refusal = (struct refusal){400, "A line of the head ends in LF without CR."};
            break;
        }
        size_t line_bytes = most - from - 1;
        if (line_bytes == 0) {
            refusal = is_first ? (struct refusal){400, "The request begins with an empty line."} : read_whole(&head);
            if (refusal.status == 0) {
                *out = (struct gate_head){.bytes = most + 1,
                                          .is_old = head.is_old,
                                          .has_length = head.lengths > 0,
                                          .is_chunked = head.encodings > 0,
                                          .body_bytes = head.body_bytes};
                return GATE_GOOD;
            }
        } else if (is_first) {
            refusal = read_request_line(bytes + from, line_bytes, &head);
        } else if (head.fields == GATE_FIELDS_MAX) {
            refusal = (struct refusal){431, "The head has more than 100 fields."};
        } else {
            refusal = read_field(bytes + from, line_bytes, &head);
        }
        is_first = false;
        from = most + 1;
    }
    *status = refusal.status;
    *why = refusal.why;
    return GATE_BAD;
}
