/* watch on a terminal: a screen that is redrawn in place, and keys. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/document.h"
#include "tools/shoal/keyboard.h"
#include "tools/shoal/print.h"
#include "tools/shoal/show.h"
#include "tools/shoal/trials.h"
#include "tools/shoal/watching.h"

#define NOTES_MAX 4
#define CONSTANT_LINES 2
#define WAITING_LINES 4
#define REDRAW_MS 1000  /* so often elapsed times are drawn anew, and an opened trial is asked for */
#define CURVE_AGE_MS 5000 /* its curve is asked for again after this */
#define CURVE_LINES_MAX 12
#define TRIAL_TEXT_LINES 14 /* of an opened trial, around its curve */
#define NONE SIZE_MAX

enum view { VIEW_LIST, VIEW_TRIAL };

struct watch_screen {
    struct cli *cli;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    bool has_keys, is_left, is_closed;
    enum view view;
    bool asks_cancel; /* the footer asks whether to cancel the experiment */
    size_t lines_before;
    uint64_t drawn_ms;
    bool is_old; /* the screen is to be drawn anew */
    msgpack_zone *zone;
    msgpack_object document; /* the last one, in the zone; nil before */
    size_t sort;             /* of sort_keys */
    uint64_t marked;         /* the number of the trial that the mark is at */
    size_t first, rows;      /* of the last table: the row at the top, and how many there was room for */
    msgpack_zone *trial_zone;
    msgpack_object trial; /* document of the opened trial, in trial_zone */
    uint64_t trial_ms, curve_ms;
    struct show_curve curve;
};

/* "": by number where all trials fit, else those that run first. */
static const char *const sort_keys[] = {"", "best", "value", "step", "elapsed", "state", "trial"};

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the list of trials -------------------------------------------------------------------------------------------- */

static size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

/* Writes the first notes of the trials below the table, a line each. */
static void write_notes(FILE *out, const struct trials *trials)
{
    size_t count = 0;
    for (size_t i = 0; i < trials->count; i++) {
        msgpack_object_array list = document_list(trials->items[i].row, "notes");
        for (uint32_t k = 0; k < list.size && count < NOTES_MAX; k++) {
            char note[256];
            count++;
            document_value_text(&list.ptr[k], note, sizeof note);
            (void)fprintf(out, "trial %llu: %s\n", (unsigned long long)trials->items[i].index, note);
        }
    }
}

static void write_footer(FILE *out, const struct watch_screen *screen, size_t width)
{
    const char *arrows = screen->cli->utf8 ? "↑↓" : "up/down", *sort = sort_keys[screen->sort];
    char text[256];
    if (!screen->has_keys || screen->is_closed) {
        return;
    }
    if (screen->asks_cancel) {
        render_text(out, screen->cli->colours, RENDER_YELLOW, "Cancel the experiment for good, with all its trials? y/n");
        (void)fputc('\n', out);
        return;
    }
    if (screen->view == VIEW_LIST) {
        (void)snprintf(text, sizeof text, "%s choose  Enter open  l log  s sort%s%s  c cancel  q quit", arrows, sort[0] != '\0' ? ":" : "", sort);
    } else {
        (void)snprintf(text, sizeof text, "Esc back  %s next  l log  c cancel  q quit", arrows);
    }
    if (render_width(text) > width) {
        (void)snprintf(text, sizeof text, "%s %s", arrows, screen->view == VIEW_LIST ? "Enter l s c q" : "Esc l c q");
    }
    render_text(out, screen->cli->colours, RENDER_DIM, text);
    (void)fputc('\n', out);
}

/* The row of the trial with the mark. */
static size_t marked_row(const struct watch_screen *screen, const struct trials *trials)
{
    for (size_t i = 0; i < trials->count; i++) {
        if (trials->items[i].index == screen->marked) {
            return i;
        }
    }
    return 0;
}

/* What stands around the table. */
static char *text_above(const struct watch_screen *screen, const struct trials_style *style, const struct trials *trials)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) {
        print_experiment_head(out, style, &screen->document);
        print_waiting(out, style, WAITING_LINES, trials->experiment);
        trials_write_constants(out, style, trials, CONSTANT_LINES);
        (void)fclose(out);
    }
    return text;
}

static char *text_below(const struct watch_screen *screen, const struct trials_style *style, const struct trials *trials)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out != NULL) {
        write_notes(out, trials);
        write_footer(out, screen, style->width);
        (void)fclose(out);
    }
    return text;
}

static bool read_sorted(const struct watch_screen *screen, size_t rows, struct trials *trials)
{
    if (!trials_read(&screen->document, (uint64_t)time(NULL), trials)) {
        return false;
    }
    const char *key = sort_keys[screen->sort];
    (void)trials_sort(trials, key[0] != '\0' ? key : trials->count > rows ? "state" : "trial");
    return true;
}

/* Scrolls so that the marked row is on the screen. */
static void scroll(struct watch_screen *screen, size_t marked, size_t count)
{
    size_t rows = screen->rows, last_first = count > rows ? count - rows : 0;
    screen->first = !screen->has_keys                  ? 0
                    : marked < screen->first          ? marked
                    : marked >= screen->first + rows  ? marked - rows + 1
                                                      : screen->first;
    screen->first = screen->first > last_first ? last_first : screen->first;
}

static void write_list(FILE *out, struct watch_screen *screen, const struct trials_style *style, size_t lines)
{
    static const struct trials_choice usual = {.count = 0};
    struct trials *trials = calloc(1, sizeof *trials);
    if (trials == NULL || !read_sorted(screen, lines, trials)) {
        free(trials);
        return;
    }
    char *above = text_above(screen, style, trials), *below = text_below(screen, style, trials);
    size_t around = lines_of(above != NULL ? above : "") + lines_of(below != NULL ? below : "") + 2; /* the table's head, the cursor */
    size_t rows = lines > around + 1 ? lines - around : 1;
    if (trials->count > rows) {
        rows -= rows > 1; /* "... and N more" */
        trials_free(trials);
        if (!read_sorted(screen, rows, trials)) {
            trials->count = 0;
        }
    }
    size_t marked = marked_row(screen, trials);
    screen->rows = rows;
    scroll(screen, marked, trials->count);
    (void)fputs(above != NULL ? above : "", out);
    trials_write(out, style, trials, &usual, screen->first, rows, screen->has_keys && !screen->is_closed ? marked : NONE);
    if (trials->count > rows) {
        (void)fprintf(out, "... and %zu more\n", trials->count - rows);
    }
    (void)fputs(below != NULL ? below : "", out);
    free(above);
    free(below);
    trials_free(trials);
    free(trials);
}

/* ---- an opened trial ----------------------------------------------------------------------------------------------- */

/* Asks the daemon about the opened trial, on a connection of its own beside the stream. */
static void ask_trial(struct watch_screen *screen, uint64_t now_ms)
{
    struct client client;
    struct reply reply;
    if (client_open(screen->cli, &client) != CLI_DONE) {
        return;
    }
    show_begin_trial(&client, screen->id, screen->marked);
    screen->trial_ms = now_ms;
    int code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    msgpack_zone *zone = code == CLI_DONE ? client_keep(&client) : NULL;
    if (zone != NULL) {
        msgpack_zone_free(screen->trial_zone);
        screen->trial_zone = zone;
        screen->trial = reply.document;
    }
    if (zone != NULL && (screen->curve_ms == 0 || now_ms >= screen->curve_ms + CURVE_AGE_MS)) {
        show_fetch_curve(&client, &screen->trial, &screen->curve);
        screen->curve_ms = clock_ms();
    }
    client_close(&client);
}

static void open_trial(struct watch_screen *screen)
{
    screen->view = VIEW_TRIAL;
    screen->curve_ms = 0;
    screen->trial = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    ask_trial(screen, clock_ms());
}

static void write_trial(FILE *out, const struct watch_screen *screen, const struct trials_style *style, size_t lines)
{
    char *text = NULL;
    size_t bytes, room = lines > 2 ? lines - 2 : 1, curve_lines = lines > TRIAL_TEXT_LINES ? lines - TRIAL_TEXT_LINES : 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL) {
        return;
    }
    show_write_trial(memory, style, &screen->trial, &screen->curve, curve_lines < CURVE_LINES_MAX ? curve_lines : CURVE_LINES_MAX);
    (void)fclose(memory);
    const char *at = text;
    for (size_t i = 0; i < room && *at != '\0'; i++) {
        size_t length = strcspn(at, "\n");
        (void)fprintf(out, "%.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
    write_footer(out, screen, style->width);
    free(text);
}

/* ---- drawing ------------------------------------------------------------------------------------------------------- */

static void draw(struct watch_screen *screen)
{
    char *text = NULL;
    size_t bytes, columns, lines;
    FILE *out = screen->zone != NULL ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL) {
        return;
    }
    render_terminal_size(screen->cli->out, &columns, &lines);
    const struct trials_style style = {.colours = screen->cli->colours, .utf8 = screen->cli->utf8, .width = columns};
    if (screen->view == VIEW_TRIAL) {
        write_trial(out, screen, &style, lines);
    } else {
        write_list(out, screen, &style, lines);
    }
    (void)fclose(out);
    render_screen(screen->cli->out, text, columns, lines, &screen->lines_before);
    free(text);
    screen->drawn_ms = clock_ms();
    screen->is_old = false;
}

struct watch_screen *watch_screen_new(struct cli *cli, const char *id, bool has_keys)
{
    struct watch_screen *screen = calloc(1, sizeof *screen);
    if (screen == NULL) {
        return NULL;
    }
    screen->cli = cli;
    (void)snprintf(screen->id, sizeof screen->id, "%s", id);
    screen->has_keys = has_keys;
    (void)fflush(cli->out);
    keyboard_open(has_keys ? STDIN_FILENO : -1, STDOUT_FILENO);
    return screen;
}

void watch_screen_close(struct watch_screen *screen)
{
    if (screen == NULL || screen->is_closed) {
        return;
    }
    screen->is_closed = true;
    screen->view = VIEW_LIST;
    draw(screen);
    (void)fflush(screen->cli->out);
    keyboard_close();
}

void watch_screen_free(struct watch_screen *screen)
{
    watch_screen_close(screen);
    if (screen != NULL) {
        msgpack_zone_free(screen->zone);
        msgpack_zone_free(screen->trial_zone);
    }
    free(screen);
}

void watch_screen_take(struct watch_screen *screen, struct client *client, const msgpack_object *document)
{
    msgpack_object taken = *document;
    msgpack_zone *zone = client_keep(client);
    if (zone == NULL) {
        return;
    }
    msgpack_zone_free(screen->zone);
    screen->zone = zone;
    screen->document = taken;
    draw(screen);
}

msgpack_object watch_screen_document(const struct watch_screen *screen)
{
    return screen->document;
}

bool watch_screen_is_left(const struct watch_screen *screen)
{
    return screen->is_left;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

/* Moves the mark by so many rows, in the order on the screen. */
static void move_mark(struct watch_screen *screen, long by)
{
    struct trials *trials = calloc(1, sizeof *trials);
    if (trials != NULL && read_sorted(screen, screen->rows, trials) && trials->count > 0) {
        long to = (long)marked_row(screen, trials) + by, last = (long)trials->count - 1;
        to = to < 0 ? 0 : to > last ? last : to;
        screen->marked = trials->items[to].index;
    }
    if (trials != NULL) {
        trials_free(trials);
    }
    free(trials);
    if (screen->view == VIEW_TRIAL) {
        open_trial(screen);
    }
}

static void cancel(struct watch_screen *screen)
{
    struct client client;
    struct reply reply;
    if (client_open(screen->cli, &client) != CLI_DONE) {
        return;
    }
    client_begin(&client, "cancel", 1);
    pack_text(&client.request, "experiment");
    pack_text(&client.request, screen->id);
    if (client_ask(&client, CLIENT_ANSWER_MS, &reply) != CLI_DONE) {
        screen->lines_before = 0; /* a sentence stands below the screen */
    }
    client_close(&client);
}

/* The child of show_log. */
static void write_log(struct watch_screen *screen)
{
    char target[64], dir[PATH_MAX];
    struct cli cli = *screen->cli;
    memcpy(dir, cli.dir, sizeof dir); /* cli_run fills cli.dir */
    (void)snprintf(target, sizeof target, "%s/%llu", screen->id, (unsigned long long)screen->marked);
    char *words[] = {"shoal", "logs", target, "--follow", "--dir", dir, NULL};
    int code = cli_run(&cli, 6, words);
    (void)fflush(NULL);
    _exit(code);
}

/* Shows the log of the marked trial below the screen, in a process of its own, which Ctrl-C ends. */
static void show_log(struct watch_screen *screen)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    keyboard_close();
    (void)fprintf(screen->cli->out, "--- log of trial %llu; Ctrl-C goes back ---\n", (unsigned long long)screen->marked);
    (void)fflush(NULL);
    (void)sigaction(SIGINT, &ignored, &before);
    pid_t child = fork();
    if (child == 0) {
        (void)sigaction(SIGINT, &before, NULL);
        write_log(screen);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    (void)sigaction(SIGINT, &before, NULL);
    keyboard_open(STDIN_FILENO, STDOUT_FILENO);
    if (child > 0 && WIFEXITED(status)) {
        (void)fputs("--- end of the log; press a key to go back ---\n", screen->cli->out);
        (void)fflush(screen->cli->out);
        screen->is_left |= keyboard_wait() == KEY_END;
    }
    screen->lines_before = 0;
}

static void answer(struct watch_screen *screen, int key)
{
    screen->asks_cancel = false;
    if (key == 'y' || key == 'Y') {
        cancel(screen);
    }
}

static void press(struct watch_screen *screen, int key)
{
    screen->is_old = true;
    if (key == KEY_END) {
        screen->is_left = true;
    } else if (screen->asks_cancel) {
        answer(screen, key);
    } else if (key == 'q') {
        screen->is_left = true;
    } else if (key == KEY_UP || key == 'k') {
        move_mark(screen, -1);
    } else if (key == KEY_DOWN || key == 'j') {
        move_mark(screen, 1);
    } else if (key == KEY_PAGE_UP || key == KEY_PAGE_DOWN) {
        move_mark(screen, key == KEY_PAGE_UP ? -10 : 10);
    } else if (key == KEY_ENTER || key == 'o') {
        open_trial(screen);
    } else if (key == KEY_ESCAPE || key == 'b') {
        screen->view = VIEW_LIST;
    } else if (key == 's') {
        screen->sort = (screen->sort + 1) % (sizeof sort_keys / sizeof sort_keys[0]);
        screen->first = 0;
    } else if (key == 'c') {
        screen->asks_cancel = true;
    } else if (key == 'l') {
        show_log(screen);
    }
}

bool watch_screen_look(struct watch_screen *screen)
{
    int key = KEY_NONE;
    if (keyboard_was_suspended()) {
        screen->is_old = true;
        screen->lines_before = 0; /* below what the shell has written */
    }
    if (keyboard_was_resized()) {
        screen->is_old = true;
        screen->lines_before = 0;
        (void)fputs("\033[H\033[2J", screen->cli->out);
    }
    while (screen->has_keys && screen->zone != NULL && !screen->is_left && (key = keyboard_key()) != KEY_NONE) {
        press(screen, key);
    }
    uint64_t now_ms = clock_ms();
    if (screen->view == VIEW_TRIAL && !screen->is_left && now_ms >= screen->trial_ms + REDRAW_MS) {
        ask_trial(screen, now_ms);
        screen->is_old = true;
    }
    if (!screen->is_left && (screen->is_old || now_ms >= screen->drawn_ms + REDRAW_MS)) {
        draw(screen);
    }
    return !screen->is_left;
}
