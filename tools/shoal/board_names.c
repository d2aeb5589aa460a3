#include "tools/shoal/board_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FIRST_CAPACITY 64
#define SUFFIX_BYTES 24 /* "~2" */
#define REPLACEMENT 0xfffd
#define STEM_BYTES 200 /* of a directory's name: leaves room for an id, within the 255 bytes of file systems */

size_t board_clean(const char *text, size_t bytes, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0, taken; i < bytes; i += taken) {
        char replacement[4];
        size_t count = bytes_utf8((const uint8_t *)text + i, bytes - i);
        const char *from = count > 0 ? text + i : replacement;
        taken = count > 0 ? count : 1;
        count = count > 0 ? count : bytes_put_utf8(replacement, REPLACEMENT);
        if (count >= size - used) {
            break;
        }
        memcpy(out + used, from, count);
        used += count;
    }
    out[used] = '\0';
    return used;
}

void board_directory(const char *name, const char *id, char out[BOARD_DIRECTORY_BYTES])
{
    char stem[STEM_BYTES];
    size_t bytes = board_clean(name, strlen(name), stem, sizeof stem);
    for (size_t i = 0; i < bytes; i++) {
        stem[i] = (char)(stem[i] == '/' ? '_' : stem[i]);
    }
    bool is_none = bytes == 0 || strcmp(stem, ".") == 0 || strcmp(stem, "..") == 0;
    (void)snprintf(out, BOARD_DIRECTORY_BYTES, "%s%s%s%s", stem, is_none ? "_" : "", id[0] != '\0' ? "~" : "", id);
}

static uint64_t key_of(const char *group, size_t group_bytes, const char *name, size_t name_bytes)
{
    uint64_t key = bytes_hash64(name, name_bytes, bytes_hash64(group, group_bytes, group_bytes));
    return key == 0 ? 1 : key;
}

static struct board_tag *slot_of(const struct board_tags *tags, uint64_t key)
{
    size_t at = (size_t)key & (tags->capacity - 1);
    while (tags->slots[at].key != 0 && tags->slots[at].key != key) {
        at = (at + 1) & (tags->capacity - 1);
    }
    return &tags->slots[at];
}

static bool grow(struct board_tags *tags)
{
    struct board_tags bigger = *tags;
    bigger.capacity = tags->capacity == 0 ? FIRST_CAPACITY : 2 * tags->capacity;
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < tags->capacity; i++) {
        if (tags->slots[i].key != 0) {
            *slot_of(&bigger, tags->slots[i].key) = tags->slots[i];
        }
    }
    free(tags->slots);
    *tags = bigger;
    return true;
}

/* Writes the tag, with the first suffix that no other metric's tag has. */
static bool make(struct board_tags *tags, const char *group, size_t group_bytes, const char *name, size_t name_bytes,
                 struct board_tag *out)
{
    size_t size = 3 * (group_bytes + name_bytes) + SUFFIX_BYTES, stem = 0;
    char *text = malloc(size);
    if (text == NULL) {
        return false;
    }
    stem += board_clean(group, group_bytes, text, size);
    text[stem++] = '/';
    stem += board_clean(name, name_bytes, text + stem, size - stem);
    size_t bytes = stem;
    int added = hash_set_add(&tags->texts, bytes_hash64(text, bytes, 0));
    for (unsigned number = 2; added == 0; number++) {
        bytes = stem + (size_t)snprintf(text + stem, size - stem, "~%u", number);
        added = hash_set_add(&tags->texts, bytes_hash64(text, bytes, 0));
    }
    *out = (struct board_tag){.text = text, .bytes = bytes, .has_suffix = bytes > stem};
    if (added < 0) {
        free(text);
    }
    return added > 0;
}

const struct board_tag *board_tag(struct board_tags *tags, const char *group, size_t group_bytes, const char *name,
                                  size_t name_bytes, bool *is_new)
{
    uint64_t key = key_of(group, group_bytes, name, name_bytes);
    *is_new = false;
    if (tags->count > 0 && slot_of(tags, key)->key == key) {
        return slot_of(tags, key);
    }
    struct board_tag made;
    if ((4 * (tags->count + 1) > 3 * tags->capacity && !grow(tags)) ||
        !make(tags, group, group_bytes, name, name_bytes, &made)) {
        return NULL;
    }
    struct board_tag *slot = slot_of(tags, key);
    made.key = key;
    *slot = made;
    tags->count++;
    *is_new = true;
    return slot;
}

void board_tags_free(struct board_tags *tags)
{
    for (size_t i = 0; i < tags->capacity; i++) {
        free(tags->slots[i].text);
    }
    free(tags->slots);
    hash_set_free(&tags->texts);
    *tags = (struct board_tags){0};
}
