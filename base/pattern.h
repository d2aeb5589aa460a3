#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H
/* Regular expressions. Matching takes time in proportion to the length of the pattern times that of the text, so a pattern that
 * another node has sent cannot hold a thread up. No allocation. A core.
 *
 * Bytes stand for themselves, but for: . any byte, [a-z] [^a-z] one byte of a class, ^ $ the ends of the text, ( ) a group,
 * | either side, * + ? repetitions, \d \w \s digits, letters with digits and _, blanks, \D \W \S the opposite, \t a tab, \ before
 * any other byte that byte. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_BYTES_MAX 256  /* of the text of a pattern */
#define PATTERN_STEPS_MAX 1024 /* of a compiled pattern; each byte takes 1, a repetition or | up to 3 */
#define PATTERN_CLASSES_MAX 64

/* One step of the automaton; offsets of jumps are relative. */
struct pattern_step {
    uint8_t kind;
    uint8_t value; /* a byte, or the number of a class */
    int16_t to, or_to;
};

/* A compiled pattern; a plain value. */
struct pattern {
    char text[PATTERN_BYTES_MAX + 1];
    size_t text_bytes;
    bool is_plain; /* no byte of it means more than itself */
    uint32_t count;
    struct pattern_step steps[PATTERN_STEPS_MAX];
    uint32_t class_count;
    uint8_t classes[PATTERN_CLASSES_MAX][32]; /* bit b % 8 of byte b / 8: b is in the class */
};

/* Compiles a pattern. NULL, or a static text that says what is wrong with the pattern ("a ( has no )"). */
const char *pattern_compile(struct pattern *out, const char *text, size_t bytes);

/* True if any part of the text matches. */
bool pattern_matches(const struct pattern *pattern, const char *text, size_t bytes);

#endif
