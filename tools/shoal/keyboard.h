#ifndef TOOLS_SHOAL_KEYBOARD_H
#define TOOLS_SHOAL_KEYBOARD_H
/* Single keys from a terminal. While it is open the terminal hands over each key at once and shows none, and its cursor is hidden.
 * A signal that ends or suspends the program puts the terminal back first. One keyboard at a time. */

#include <stdbool.h>

enum key {
    KEY_NONE = -1, /* no key waits */
    KEY_END = -2,  /* the terminal is gone */
    KEY_UP = 256,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_ENTER = '\n',
    KEY_ESCAPE = 27
};

/* Opens the terminal. `in`: where keys come from, -1: no keys are wanted; `out`: where the cursor is. */
void keyboard_open(int in, int out);

/* Puts the terminal and the signals back as they were. A second call is harmless. */
void keyboard_close(void);

/* The next key: a character, or one of enum key. Does not wait. */
int keyboard_key(void);

/* Waits for a key, or for the terminal's end. */
int keyboard_wait(void);

/* True once after the size of the terminal has changed: its lines may be broken anew. */
bool keyboard_was_resized(void);

/* True once after the program was suspended and goes on: others have written to the terminal. */
bool keyboard_was_suspended(void);

#endif
