#include "node/daemon/wire/metric_line.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/visible.h"

#define BEGINNING "::shoal metric "
#define PAIRS_MAX 64

/* Cuts the next word off; NULL: there is none. */
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t\r");
    if (*word == '\0') {
        return NULL;
    }
    char *end = word + strcspn(word, " \t\r");
    *rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

static bool read_step(const char *text, uint64_t *out)
{
    char *end;
    bool is_number = isdigit((unsigned char)text[0]) && strlen(text) < 19;
    *out = is_number ? strtoull(text, &end, 10) : 0;
    return is_number && *end == '\0';
}

/* A decimal number, or nan or inf; not a hexadecimal one. */
static bool read_value(const char *text, double *out)
{
    char *end;
    if (text[0] == '\0' || strpbrk(text, "xX(") != NULL) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0';
}

/* Reads what follows BEGINNING and ends in NUL, which it cuts into words. */
static bool read_line(char *line, uint64_t step, uint8_t packed[METRIC_LINE_BYTES], struct request_report *out)
{
    char *rest = line, *names[PAIRS_MAX];
    double values[PAIRS_MAX];
    uint32_t count = 0;
    const char *group = next_word(&rest);
    bool is_good = group != NULL && strchr(group, '=') == NULL;
    for (char *word = is_good ? next_word(&rest) : NULL; word != NULL && is_good; word = next_word(&rest)) {
        char *equals = strchr(word, '=');
        is_good = equals != NULL && equals != word && count < PAIRS_MAX;
        if (is_good) {
            *equals = '\0';
            bool is_step = strcmp(word, "step") == 0;
            is_good = is_step ? read_step(equals + 1, &step) : read_value(equals + 1, &values[count]);
            names[count] = word;
            count += !is_step;
        }
    }
    if (!is_good || count == 0) {
        return false;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, packed, METRIC_LINE_BYTES);
    pack_map(&writer, 3);
    pack_text(&writer, "group");
    pack_text(&writer, group);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "metrics");
    pack_map(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(&writer, names[i]);
        pack_double(&writer, values[i]);
    }
    struct pack_reader reader;
    pack_reader_init(&reader, packed, writer.used_bytes);
    return !writer.failed && request_report_read(&reader, out) == 0;
}

void metric_lines_cut(struct metric_lines *lines)
{
    lines->used = lines->matched = 0;
    lines->is_begun = false;
}

/* Notes which part of BEGINNING the last bytes are; true: they are all of it. Only its colons occur in it twice. */
static bool match(struct metric_lines *lines, char byte)
{
    bool is_colon_more = byte == ':' && lines->matched == 2;
    if (!is_colon_more) {
        lines->matched = byte == BEGINNING[lines->matched] ? lines->matched + 1 : byte == ':';
    }
    bool is_whole = lines->matched == strlen(BEGINNING);
    lines->matched = is_whole ? 0 : lines->matched;
    return is_whole;
}

/* The line is shown on terminals: a program must not draw there what it likes. */
static void keep_malformed(struct metric_lines *lines, const char *shown)
{
    if (!lines->is_malformed) {
        char text[METRIC_LINE_SHOWN_BYTES - sizeof BEGINNING + 1];
        lines->is_malformed = true;
        (void)visible_text(text, sizeof text, shown);
        (void)snprintf(lines->malformed, sizeof lines->malformed, BEGINNING "%s", text);
    }
}

bool metric_lines_next(struct metric_lines *lines, const uint8_t *bytes, size_t count, size_t *at, uint64_t step,
                       uint8_t packed[METRIC_LINE_BYTES], struct request_report *out)
{
    while (*at < count) {
        char byte = (char)bytes[(*at)++];
        if (byte != '\n' && byte != '\r') {
            if (match(lines, byte)) {
                lines->is_begun = true;
                lines->used = 0;
            } else if (lines->is_begun) {
                lines->is_begun = byte != '\0' && lines->used + 1 < sizeof lines->line;
                lines->line[lines->used++] = byte;
            }
            continue;
        }
        bool may_be = lines->is_begun;
        char shown[METRIC_LINE_SHOWN_BYTES];
        lines->line[may_be ? lines->used : 0] = '\0';
        metric_lines_cut(lines);
        (void)snprintf(shown, sizeof shown, "%.100s", lines->line);
        shown[bytes_whole_utf8(shown, strlen(shown))] = '\0';
        if (may_be && read_line(lines->line, step, packed, out)) {
            return true;
        }
        if (may_be) {
            keep_malformed(lines, shown);
        }
    }
    return false;
}
