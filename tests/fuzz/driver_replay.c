/* The main of a fuzz target where libFuzzer is not at hand: runs the seeds, the given files (those of given directories too)
 * and then mutations of the seeds, always the same ones. No coverage guides it: it keeps what was found from coming back,
 * and finds the shallow. usage: TARGET [--mutations N | --seconds S] [--finding FILE] [FILE or DIRECTORY]...
 *
 * Inputs run in a child process that shows the input it is at in shared memory; when the child ends badly, the input is
 * written to FILE (default: fuzz-finding) and the exit status is 1. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/random.h"
#include "tests/fuzz/fuzz.h"

#define SEEDS_MAX 1024
#define INPUT_SECONDS_MAX 60 /* it hangs; less is also met by one that gets no processor */
#define MUTATIONS 5000

struct shown {
    uint64_t executions;
    size_t bytes;
    uint8_t input[FUZZ_INPUT_BYTES_MAX];
};

static struct seed {
    uint8_t *bytes;
    size_t count;
} seeds[SEEDS_MAX];
static size_t seed_count;
static struct shown *shown;

void fuzz_seed(const void *bytes, size_t count)
{
    CHECK(seed_count < SEEDS_MAX && count <= FUZZ_INPUT_BYTES_MAX);
    struct seed *seed = &seeds[seed_count++];
    seed->count = count;
    seed->bytes = malloc(count + 1);
    CHECK(seed->bytes != NULL);
    if (count > 0) {
        memcpy(seed->bytes, bytes, count);
    }
}

static void run_input(const uint8_t *bytes, size_t count)
{
    uint8_t *exact = malloc(count > 0 ? count : 1);
    CHECK(exact != NULL);
    if (count > 0) {
        memcpy(shown->input, bytes, count);
        memcpy(exact, bytes, count);
    }
    shown->bytes = count;
    shown->executions++;
    (void)alarm(INPUT_SECONDS_MAX);
    fuzz_one(exact, count);
    (void)alarm(0);
    free(exact);
}

static void run_path(const char *path)
{
    struct stat status;
    CHECK(stat(path, &status) == 0);
    if (S_ISDIR(status.st_mode)) {
        DIR *list = opendir(path);
        CHECK(list != NULL);
        const struct dirent *entry;
        while ((entry = readdir(list)) != NULL) {
            char below[4096];
            (void)snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
            if (entry->d_name[0] != '.') {
                run_path(below);
            }
        }
        (void)closedir(list);
        return;
    }
    static uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t count = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    run_input(bytes, count);
}

/* One small change; returns the new length. */
static size_t mutate(struct random *random, uint8_t *bytes, size_t count)
{
    static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0x90, 0xc0, 0xc4, 0xcf, 0xd9, 0xdf, 0xff, '\n', '"', '/', '.', '-'};
    size_t at = count > 0 ? random_below(random, count) : 0;
    size_t span = 1 + random_below(random, 16);
    span = span < count - at ? span : count - at;
    switch (random_below(random, 7)) {
    case 0:
        if (count > 0) {
            bytes[at] ^= (uint8_t)(1u << random_below(random, 8));
        }
        return count;
    case 1:
        if (count > 0) {
            bytes[at] = telling[random_below(random, sizeof telling)];
        }
        return count;
    case 2:
        for (size_t i = 0; i < span; i++) {
            bytes[at + i] = (uint8_t)random_u64(random);
        }
        return count;
    case 3: /* a part is lost */
        memmove(bytes + at, bytes + at + span, count - at - span);
        return count - span;
    case 4: /* a part comes twice */
        if (count + span > FUZZ_INPUT_BYTES_MAX) {
            return count;
        }
        memmove(bytes + at + span, bytes + at, count - at);
        return count + span;
    case 5:
        return at; /* cut short */
    default: { /* goes on as another seed does */
        const struct seed *other = &seeds[random_below(random, seed_count)];
        size_t from = other->count > 0 ? random_below(random, other->count) : 0;
        size_t part = other->count - from;
        part = part < FUZZ_INPUT_BYTES_MAX - at ? part : FUZZ_INPUT_BYTES_MAX - at;
        memcpy(bytes + at, other->bytes + from, part);
        return at + part;
    }
    }
}

static void run_mutations(uint64_t mutations, time_t seconds)
{
    static uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    time_t end = time(NULL) + seconds;
    struct random random;
    random_init(&random, 1);
    for (uint64_t i = 0; seconds > 0 ? time(NULL) < end : i < mutations; i++) {
        const struct seed *seed = &seeds[random_below(&random, seed_count)];
        size_t count = seed->count;
        memcpy(bytes, seed->bytes, count);
        for (uint64_t changes = 1 + random_below(&random, 4); changes > 0; changes--) {
            count = mutate(&random, bytes, count);
        }
        run_input(bytes, count);
    }
}

static void run_all(char **paths, uint64_t mutations, time_t seconds)
{
    fuzz_seeds();
    CHECK(seed_count > 0);
    for (size_t i = 0; i < seed_count; i++) {
        run_input(seeds[i].bytes, seeds[i].count);
    }
    for (; *paths != NULL; paths++) {
        run_path(*paths);
    }
    run_mutations(mutations, seconds);
    for (size_t i = 0; i < seed_count; i++) {
        free(seeds[i].bytes);
    }
}

int main(int argc, char **argv)
{
    uint64_t mutations = MUTATIONS;
    time_t seconds = 0;
    const char *finding = "fuzz-finding";
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        if (strcmp(argv[at], "--mutations") == 0) {
            mutations = strtoull(argv[at + 1], NULL, 10);
        } else if (strcmp(argv[at], "--seconds") == 0) {
            seconds = (time_t)strtol(argv[at + 1], NULL, 10);
        } else if (strcmp(argv[at], "--finding") == 0) {
            finding = argv[at + 1];
        } else {
            break;
        }
    }
    for (int i = at; i < argc; i++) {
        if (access(argv[i], R_OK) != 0) {
            fprintf(stderr, "%s: %s is no option and no file or directory that can be read: %s.\n", argv[0], argv[i], strerror(errno));
            return 2;
        }
    }
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shown != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        run_all(argv + at, mutations, seconds);
        exit(0); /* through the leak check, where there is one */
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("executions: %llu\n", (unsigned long long)shown->executions);
    if (!good) {
        FILE *file = fopen(finding, "wb");
        if (file != NULL) {
            (void)fwrite(shown->input, 1, shown->bytes, file);
            (void)fclose(file);
        }
        fprintf(stderr, "Input %llu ended the target with %s %d; it is kept in %s.\n", (unsigned long long)shown->executions,
                WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), finding);
    }
    return good ? 0 : 1;
}
