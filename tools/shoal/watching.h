#ifndef TOOLS_SHOAL_WATCHING_H
#define TOOLS_SHOAL_WATCHING_H
/* The two forms of `watch`: lines for a pipe, a screen for a terminal. */

#include <msgpack.h>
#include <stdbool.h>

#include "tools/shoal/client.h"

/* ---- watch_lines.c ------------------------------------------------------------------------------------------------- */

struct watch_lines;

/* NULL: no memory is left. */
struct watch_lines *watch_lines_new(struct cli *cli);
void watch_lines_free(struct watch_lines *lines);

/* Writes a line for each change since the last document. */
void watch_lines_take(struct watch_lines *lines, const msgpack_object *document, bool end);

/* ---- watch_screen.c ------------------------------------------------------------------------------------------------ */

struct watch_screen;

/* Takes the terminal, for the experiment with this id, until watch_screen_free; `has_keys`: the user can press keys. NULL: no memory is
 * left. */
struct watch_screen *watch_screen_new(struct cli *cli, const char *id, bool has_keys);

/* Leaves the last screen where it is, without the footer, and gives the terminal back. NULL is harmless, here and below. */
void watch_screen_close(struct watch_screen *screen);
void watch_screen_free(struct watch_screen *screen);

/* Keeps the client's last reply, and draws it. */
void watch_screen_take(struct watch_screen *screen, struct client *client, const msgpack_object *document);

/* The last document that was taken, a nil before the first one; valid until the next one, or watch_screen_free. */
msgpack_object watch_screen_document(const struct watch_screen *screen);

/* True once watch_screen_look has returned false. */
bool watch_screen_is_left(const struct watch_screen *screen);

/* Obeys the keys that were pressed, and draws anew what is old. False: the user has left. */
bool watch_screen_look(struct watch_screen *screen);

#endif
