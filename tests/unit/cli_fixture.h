#ifndef TESTS_UNIT_CLI_FIXTURE_H
#define TESTS_UNIT_CLI_FIXTURE_H
/* The program `shoal`, run within a test, against a daemon's end of the local socket that answers with given documents
 * (it is the client that is tested). Each test program has one directory, and at most one such end at a time. */

#include <msgpack.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"

/* ---- running the program ----------------------------------------------------------------------------------------- */

extern char root[64];                     /* a directory of this test program, its --dir */
extern char *out_text, *err_text_written; /* what the last run wrote; valid until the next one */
extern const char *typed;                 /* on a terminal; NULL: there is none */
extern bool draws;                        /* its output is a terminal, of 80 columns and 24 lines */

/* Runs `shoal` with these words; returns its exit code. */
#define RUN(...) run_words((char *[]){"shoal", __VA_ARGS__, NULL})
int run_words(char **words);

void assert_has(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);

/* One line, one sentence, from the program. */
void assert_sentence(const char *part);

/* The file's text, cut at 4 KiB; valid until the next call. */
char *read_text(const char *path);

/* ---- the daemon's end -------------------------------------------------------------------------------------------- */

#define ANSWERS_MAX 4

/* Replies to one op, as JSON without the braces and the id; NULL ends. "hang up" closes the connection, "hex:" is a frame as it is,
 * "signal:" and a number sends this signal to the program and no reply,
 * "log:" and a digit are output of the worker of this rank, and so is "of4:", from a newer daemon, in a trial of at most 4;
 * "new:" likewise, of attempt 2, after a first one that was killed. */
struct answer {
    const char *op;
    const char *replies[ANSWERS_MAX];
    const char *carried; /* bytes of a descriptor that rides along with the last reply; "hex:": likewise */
};

struct fake {
    pthread_t thread;
    int listen_fd;
    const struct answer *answers;      /* op NULL ends */
    const struct answer *next_answers; /* of the connections behind the first, or NULL: the same */
    bool unlink_after;                 /* the first connection is the last */
    /* what the last request was; read after fake_stop */
    uint8_t request[FRAME_BYTES_MAX];
    size_t request_bytes;
    char ops[256]; /* all, each with a blank behind */
    int passed_fd;
    bool runs;
};

extern struct fake fake;

/* `answers` are borrowed until fake_stop. */
void fake_start(const struct answer *answers);
void fake_stop(void);

/* The last request; valid until the next call. */
msgpack_object last_request(void);

/* ---- documents --------------------------------------------------------------------------------------------------- */

#define EXPERIMENTS                                                                                         \
    "\"ok\":true,\"end\":true,\"experiments\":["                                                            \
    "{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\",\"coordinator\":"                  \
    "\"00112233445566778899aabbccddeeff\","                                                                 \
    "\"coordinator_name\":\"alpha\",\"term\":2,\"submitted_s\":1763700000,"                                 \
    "\"trials\":{\"total\":8,\"queued\":4,\"running\":1,\"completed\":3,\"failed\":0},"                     \
    "\"best\":{\"trial\":2,\"metric\":\"accuracy\",\"value\":0.88125}},"                                    \
    "{\"id\":\"a1b2ffffffffffff\",\"name\":\"twice\",\"state\":\"queued\",\"coordinator\":null,\"term\":0," \
    "\"trials\":{\"total\":1,\"queued\":1,\"running\":0,\"completed\":0,\"failed\":0},\"best\":null},"      \
    "{\"id\":\"0123456789abcdef\",\"name\":\"twice\",\"state\":\"failed\",\"coordinator\":null,\"term\":1," \
    "\"trials\":{\"total\":1,\"queued\":0,\"running\":0,\"completed\":0,\"failed\":1},\"best\":null}]"

#define SHOWN(state_, more)                                                                                            \
    "\"ok\":true," more                                                                                                \
    ",\"nodes\":3,\"nodes_alive\":3,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"" state_  \
    "\",\"coordinator\":\"00\",\"coordinator_name\":\"alpha\",\"term\":2,\"metric\":\"accuracy\","                     \
    "\"counts\":{\"total\":2,\"completed\":1,\"failed\":1},\"best\":{\"trial\":0,\"metric\":\"accuracy\",\"value\":0." \
    "9},"                                                                                                              \
    "\"trials\":[{\"index\":0,\"state\":\"completed\",\"attempt\":1,\"generation\":1,\"step\":300,"                    \
    "\"hyperparameters\":{\"hidden\":[64,32],\"learning_rate\":0.0125},"                                               \
    "\"metrics\":{\"training\":{\"loss\":0.25},\"validation\":{\"accuracy\":0.9}},"                                    \
    "\"slots\":[{\"node\":\"00\",\"node_name\":\"alpha\",\"index\":0},{\"node\":\"01\",\"node_name\":\"beta\","        \
    "\"index\":1}],"                                                                                                   \
    "\"checkpoint\":{\"step\":300,\"bytes\":10,\"durable\":true,\"holders\":[\"alpha\",\"beta\"]},\"restarts\":0,"     \
    "\"tail\":null},"                                                                                                  \
    "{\"index\":1,\"state\":\"failed\",\"attempt\":6,\"generation\":1,\"step\":0,\"hyperparameters\":{},\"metrics\":{" \
    "},"                                                                                                               \
    "\"slots\":[],\"checkpoint\":null,\"restarts\":5,\"reason\":\"exit status 1\",\"tail\":\"first\\nlast "            \
    "\\u0007line\\n\"}]}"

/* ---- for cmocka -------------------------------------------------------------------------------------------------- */

int make_root(void **state);
int remove_root(void **state);

/* After a test that failed in the middle. */
int stop_what_runs(void **state);

#endif
