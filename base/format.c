#include "base/format.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

struct cursor {
    char *out;
    size_t size;
    size_t used;
};

static void put_char(struct cursor *cursor, char c)
{
    if (cursor->used + 1 < cursor->size) {
        cursor->out[cursor->used++] = c;
    }
}

static void put_number(struct cursor *cursor, uint64_t value, unsigned base)
{
    char digits[24];
    size_t count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (count > 0) {
        put_char(cursor, digits[--count]);
    }
}

static void put_signed(struct cursor *cursor, int64_t value)
{
    if (value < 0) {
        put_char(cursor, '-');
    }
    put_number(cursor, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
}

size_t format_text(char *out, size_t size, const char *format, ...)
{
    struct cursor cursor = {out, size, 0};
    va_list arguments;
    va_start(arguments, format);
    for (const char *p = format; *p != '\0'; p++) {
        if (*p != '%') {
            put_char(&cursor, *p);
            continue;
        }
        p++;
        int longs = 0;
        bool is_size = false;
        for (; *p == 'l' || *p == 'z'; p++) {
            longs += *p == 'l';
            is_size |= *p == 'z';
        }
        if (*p == '\0') {
            break;
        }
        switch (*p) {
        case 's':
            for (const char *text = va_arg(arguments, const char *); *text != '\0'; text++) {
                put_char(&cursor, *text);
            }
            break;
        case 'c':
            put_char(&cursor, (char)va_arg(arguments, int));
            break;
        case 'u':
        case 'x': {
            uint64_t value = is_size      ? va_arg(arguments, size_t)
                             : longs == 2 ? va_arg(arguments, unsigned long long)
                             : longs == 1 ? va_arg(arguments, unsigned long)
                                          : va_arg(arguments, unsigned);
            put_number(&cursor, value, *p == 'x' ? 16 : 10);
            break;
        }
        case 'd': {
            int64_t value = longs == 2   ? va_arg(arguments, long long)
                            : longs == 1 ? va_arg(arguments, long)
                                         : va_arg(arguments, int);
            put_signed(&cursor, value);
            break;
        }
        default:
            put_char(&cursor, *p);
        }
    }
    va_end(arguments);
    if (size > 0) {
        out[cursor.used] = '\0';
    }
    return cursor.used;
}
