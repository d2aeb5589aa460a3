#ifndef BASE_ERR_H
#define BASE_ERR_H
/* The list of all errors. A function that can fail returns 0 or one of these negative numbers; after a failure its
 * out-parameters are unchanged. */

#define ERR_MAP(X)                                                           \
    X(ERR_MALFORMED, -1, "malformed", "the bytes do not follow the format")  \
    X(ERR_FULL, -2, "full", "a fixed limit is reached")                      \
    X(ERR_NOT_FOUND, -3, "not found", "there is no such thing")              \
    X(ERR_EXISTS, -4, "exists", "it exists already")                         \
    X(ERR_REFUSED, -5, "refused", "the rules do not allow it")               \
    X(ERR_STALE, -6, "stale", "a newer one is known")                        \
    X(ERR_IO, -7, "input/output", "the operating system reported an error")  \
    X(ERR_MEMORY, -8, "memory", "no memory is left")                         \
    X(ERR_TIMEOUT, -9, "timeout", "it took too long")                        \
    X(ERR_CORRUPT, -10, "corrupt", "the stored bytes do not match their hash") \
    X(ERR_CLOSED, -11, "closed", "the other side is gone")                   \
    X(ERR_NO_SPACE, -12, "no space", "the disk is full")                     \
    X(ERR_VERSION, -13, "version", "the other side speaks another version")  \
    X(ERR_USAGE, -14, "usage", "an argument is wrong")                       \
    X(ERR_AUTH, -15, "auth", "a key, signature or token is not valid")       \
    X(ERR_AGAIN, -16, "again", "not now; the caller may try again")          \
    X(ERR_NOT_FINITE, -17, "not finite", "a number is infinite or not a number")

/* The numbers of the list. */
enum err {
#define ERR_ENUM(symbol, code, name, text) symbol = (code),
    ERR_MAP(ERR_ENUM)
#undef ERR_ENUM
};

/* The short name ("malformed") and the sentence of an error; "ok" for 0, "unknown" for a number that is not in the
 * list. Both return static strings that are always valid. */
const char *err_name(int code);
const char *err_text(int code);

#endif
