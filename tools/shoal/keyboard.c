#include "tools/shoal/keyboard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const char cursor_hide[] = "\033[?25l", cursor_show[] = "\033[?25h";
static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* What the handlers of signals need: set before the handlers are. */
static struct {
    bool is_open;
    int in, out;
    struct termios before;
    volatile sig_atomic_t is_raw, is_resized, was_suspended;
} keyboard;

/* A background job that touched the terminal's mode would be stopped. */
static bool has_terminal(void)
{
    return keyboard.in >= 0 && tcgetpgrp(keyboard.in) == getpgrp();
}

static void take_terminal(void)
{
    struct termios now = keyboard.before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* Ctrl-C and Ctrl-Z stay signals */
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    if (has_terminal() && tcsetattr(keyboard.in, TCSANOW, &now) == 0) {
        keyboard.is_raw = 1;
    }
    ssize_t written = write(keyboard.out, cursor_hide, sizeof cursor_hide - 1);
    (void)written; /* a terminal that is gone shows no cursor */
}

static void give_terminal_back(void)
{
    if (keyboard.is_raw != 0 && has_terminal()) {
        (void)tcsetattr(keyboard.in, TCSANOW, &keyboard.before);
    }
    keyboard.is_raw = 0;
    ssize_t written = write(keyboard.out, cursor_show, sizeof cursor_show - 1);
    (void)written;
}

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    (void)sigaction(number, &action, NULL);
}

/* The signal's own action comes when the handler has returned. */
static void end_by_signal(int number)
{
    int error = errno;
    give_terminal_back();
    set_handler(number, SIG_DFL);
    (void)raise(number);
    errno = error;
}

static void note_change(int number)
{
    (void)number;
    keyboard.is_resized = 1;
}

static void go_on(int number)
{
    (void)number;
    int error = errno;
    set_handler(SIGTSTP, end_by_signal);
    take_terminal();
    keyboard.was_suspended = 1;
    errno = error;
}

void keyboard_open(int in, int out)
{
    keyboard.in = in >= 0 && tcgetattr(in, &keyboard.before) == 0 ? in : -1;
    keyboard.out = out;
    keyboard.is_raw = keyboard.is_resized = keyboard.was_suspended = 0;
    keyboard.is_open = true;
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++) {
        set_handler(ending_signals[i], end_by_signal);
    }
    set_handler(SIGTSTP, end_by_signal);
    set_handler(SIGCONT, go_on);
    set_handler(SIGWINCH, note_change);
    take_terminal();
}

void keyboard_close(void)
{
    static const int others[] = {SIGTSTP, SIGCONT, SIGWINCH};
    if (!keyboard.is_open) {
        return;
    }
    keyboard.is_open = false;
    give_terminal_back();
    for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++) {
        set_handler(ending_signals[i], SIG_DFL);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        set_handler(others[i], SIG_DFL);
    }
}

/* The last letter of an escape sequence as a key. */
static int key_of(const char *bytes, ssize_t count)
{
    if (count >= 3 && bytes[0] == KEY_ESCAPE && (bytes[1] == '[' || bytes[1] == 'O')) {
        return bytes[2] == 'A' ? KEY_UP : bytes[2] == 'B' ? KEY_DOWN : bytes[2] == '5' ? KEY_PAGE_UP : bytes[2] == '6' ? KEY_PAGE_DOWN : KEY_NONE;
    }
    return bytes[0] == '\r' ? KEY_ENTER : (unsigned char)bytes[0];
}

/* Reads one character, or what a key that is a sequence has sent at once. */
static int read_key(void)
{
    char bytes[8];
    ssize_t count = read(keyboard.in, bytes, 1);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
        return KEY_NONE;
    }
    if (count <= 0) {
        return KEY_END;
    }
    struct pollfd more = {.fd = keyboard.in, .events = POLLIN};
    while (bytes[0] == KEY_ESCAPE && count < (ssize_t)sizeof bytes && poll(&more, 1, 0) > 0 && read(keyboard.in, bytes + count, 1) == 1) {
        count++;
        char last = bytes[count - 1];
        if (count > 2 && (last == '~' || (last >= 'A' && last <= 'Z'))) {
            break;
        }
    }
    return key_of(bytes, count);
}

static int next_key(int timeout_ms)
{
    struct pollfd ready = {.fd = keyboard.in, .events = POLLIN};
    if (keyboard.is_raw == 0 || !has_terminal() || poll(&ready, 1, timeout_ms) <= 0) {
        return KEY_NONE;
    }
    return (ready.revents & (POLLERR | POLLNVAL)) != 0 ? KEY_END : read_key();
}

int keyboard_key(void)
{
    return next_key(0);
}

int keyboard_wait(void)
{
    int key = KEY_NONE;
    while (key == KEY_NONE && keyboard.is_raw != 0) {
        key = next_key(200);
    }
    return key;
}

static bool take_flag(volatile sig_atomic_t *flag)
{
    bool was_set = *flag != 0;
    *flag = 0;
    return was_set;
}

bool keyboard_was_resized(void)
{
    return take_flag(&keyboard.is_resized);
}

bool keyboard_was_suspended(void)
{
    return take_flag(&keyboard.was_suspended);
}
