#include "base/event.h"

#include <string.h>

static const char *const words[] = {
#define EVENT_WORD(name, word) word,
    EVENT_KINDS(EVENT_WORD)
#undef EVENT_WORD
};

#define EVENT_FITS(name, word) _Static_assert(sizeof word <= EVENT_KIND_BYTES, "the word fits");
EVENT_KINDS(EVENT_FITS)
#undef EVENT_FITS

const char *event_kind_name(enum event_kind kind)
{
    return kind < EVENT_KIND_COUNT ? words[kind] : words[EVENT_OTHER];
}

enum event_kind event_kind_of(const char *word, size_t bytes)
{
    enum event_kind kind = EVENT_OTHER;
    while (kind < EVENT_KIND_COUNT && (strlen(words[kind]) != bytes || memcmp(words[kind], word, bytes) != 0)) {
        kind++;
    }
    return kind;
}

bool event_kind_is(enum event_kind kind, const char *word)
{
    const char *name = event_kind_name(kind);
    size_t bytes = strlen(word);
    return bytes > 0 && strncmp(name, word, bytes) == 0 && (name[bytes] == '\0' || name[bytes] == '.');
}

bool event_kind_is_known(const char *word)
{
    bool is_known = false;
    for (enum event_kind kind = EVENT_OTHER; kind < EVENT_KIND_COUNT; kind++) {
        is_known |= event_kind_is(kind, word);
    }
    return is_known;
}
