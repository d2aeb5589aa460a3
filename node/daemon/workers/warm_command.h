#ifndef NODE_DAEMON_WORKERS_WARM_COMMAND_H
#define NODE_DAEMON_WORKERS_WARM_COMMAND_H
/* The command of a worker as a warm process (warm.h) runs it. Pure functions, but for memory from malloc. */

#include <stddef.h>

#define WARM_WHY_BYTES 320

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

#endif
