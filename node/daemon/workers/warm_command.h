#ifndef NODE_DAEMON_WORKERS_WARM_COMMAND_H
#define NODE_DAEMON_WORKERS_WARM_COMMAND_H
/* What a warm process (warm.h) can be for: the command of a worker, its variables, the memory of the machine. Pure functions, but for
 * memory from malloc. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WARM_WHY_BYTES 320
#define WARM_MEMORY_SHARE 10 /* memory is short with less than one part of so many available */

/* `python3 -O train.py --lr 0.1` is the interpreter `python3`, its options `-O`, and the arguments `train.py`, `--lr`, `0.1`. */
struct warm_command {
    char *text;            /* from malloc: the words, each with its NUL, in this order */
    size_t bytes;          /* of the text */
    size_t options;        /* where the options begin in the text; the interpreter is in front, unless there is a choice */
    size_t arguments;      /* where the arguments begin: a script, or -m and a module, and what follows */
    char *choice;          /* from malloc: a line of the shell that leaves the interpreter in $p; NULL: none */
};

/* Reads an entrypoint that is one program of Python with its arguments and asks nothing else of the shell, or the line of
 * shoal.search (train/python/shoal/_search.py), which chooses the interpreter first. 0, and the caller closes `out`; ERR_USAGE: it is
 * something else, and `why` is the end of a sentence; ERR_MEMORY. */
int warm_command_read(const char *entrypoint, struct warm_command *out, char why[WARM_WHY_BYTES]);

void warm_command_close(struct warm_command *command);

/* True for "NAME=value" of a variable that differs between the trials of an experiment, or between their attempts. */
bool warm_differs(const char *variable);

/* True if so little memory (of the machine, in any unit) is available that warm processes have to go. */
bool warm_memory_is_short(uint64_t available, uint64_t total);

#endif
