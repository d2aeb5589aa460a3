/* scripted_worker WORD...: a worker that does what its arguments say, one after the other:
 *     started            prints the step that it begins from
 *     report:GROUP:NAME:STEP:VALUE
 *     save:STEP:BYTES    hands over a checkpoint and does not wait for the answer
 *     flush              waits for all answers
 *     await:FILE         until FILE exists
 *     stops              until it is asked to save and leave
 *     rest:MS            so many milliseconds; ends with status 0 once it is asked to save and leave
 *     reason             prints why
 *     past:STEP:COUNT    passes over the next COUNT words if it began from STEP or a later step
 *     touch:FILE
 *     barrier            meets the other workers of its group
 *     many:GROUP:COUNT   reports as many metrics with long names, all of them 0
 *     exit:STATUS        ends at once, as a crash would */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "train/shoal/shoal.h"

#define FIELDS_MAX 5

static int await(const char *file)
{
    struct stat status;
    while (stat(file, &status) != 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return 0;
}

static int await_stop(struct shoal *shoal)
{
    while (!shoal_should_stop(shoal)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return 0;
}

static int rest(struct shoal *shoal, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += 10) {
        if (shoal_should_stop(shoal)) {
            shoal_close(&shoal);
            exit(0);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return 0;
}

static int touch(const char *file)
{
    FILE *made = fopen(file, "w");
    return made != NULL && fclose(made) == 0 ? 0 : -1;
}

static int save(struct shoal *shoal, uint64_t step, size_t count)
{
    void *bytes;
    int code = shoal_checkpoint_begin(shoal, count, &bytes);
    for (size_t i = 0; code == 0 && i < count / sizeof i; i++) {
        ((size_t *)bytes)[i] = i; /* no two chunks are alike */
    }
    return code != 0 ? code : shoal_checkpoint_commit(shoal, step);
}

static int many(struct shoal *shoal, const char *group, size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        char name[100];
        (void)snprintf(name, sizeof name, "%090zu", i);
        const char *names[] = {name};
        double value = 0;
        code = shoal_report(shoal, group, 1, names, &value, 1);
        code = code == 0 && i % 8 == 7 ? shoal_flush(shoal, 20000) : code;
    }
    return code;
}

static int perform(struct shoal *shoal, char *word)
{
    char *fields[FIELDS_MAX] = {NULL};
    size_t count = 0;
    for (char *field = strtok(word, ":"); field != NULL && count < FIELDS_MAX; field = strtok(NULL, ":")) {
        fields[count++] = field;
    }
    if (count == 1 && strcmp(fields[0], "started") == 0) {
        return printf("begins from step %llu\n", (unsigned long long)shoal_start_step(shoal)) > 0 && fflush(stdout) == 0 ? 0 : -1;
    }
    if (count == 5 && strcmp(fields[0], "report") == 0) {
        const char *name = fields[2];
        double value = strtod(fields[4], NULL);
        return shoal_report(shoal, fields[1], strtoull(fields[3], NULL, 10), &name, &value, 1);
    }
    if (count == 3 && strcmp(fields[0], "save") == 0) {
        return save(shoal, strtoull(fields[1], NULL, 10), strtoull(fields[2], NULL, 10));
    }
    if (count == 1 && strcmp(fields[0], "flush") == 0) {
        return shoal_flush(shoal, 20000);
    }
    if (count == 2 && strcmp(fields[0], "await") == 0) {
        return await(fields[1]);
    }
    if (count == 1 && strcmp(fields[0], "barrier") == 0) {
        return shoal_barrier(shoal);
    }
    if (count == 1 && strcmp(fields[0], "stops") == 0) {
        return await_stop(shoal);
    }
    if (count == 2 && strcmp(fields[0], "rest") == 0) {
        return rest(shoal, strtoull(fields[1], NULL, 10));
    }
    if (count == 1 && strcmp(fields[0], "reason") == 0) {
        return printf("asked to leave: %s\n", shoal_stop_reason(shoal)) > 0 && fflush(stdout) == 0 ? 0 : -1;
    }
    if (count == 2 && strcmp(fields[0], "touch") == 0) {
        return touch(fields[1]);
    }
    if (count == 3 && strcmp(fields[0], "many") == 0) {
        return many(shoal, fields[1], strtoull(fields[2], NULL, 10));
    }
    if (count == 2 && strcmp(fields[0], "exit") == 0) {
        _exit(atoi(fields[1]));
    }
    fprintf(stderr, "scripted_worker: no such word\n");
    return -1;
}

int main(int argc, char **argv)
{
    struct shoal *shoal;
    char error[SHOAL_ERROR_BYTES];
    if (shoal_open(&shoal, error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int code = 0;
    for (int i = 1; i < argc && code == 0; i++) {
        unsigned long long step;
        int words;
        if (sscanf(argv[i], "past:%llu:%d", &step, &words) == 2 && words >= 0) {
            i += shoal_start_step(shoal) >= step ? words : 0;
            continue;
        }
        code = perform(shoal, argv[i]);
        if (code != 0) {
            fprintf(stderr, "word %d: %s\n", i, shoal_error(shoal));
        }
    }
    shoal_close(&shoal);
    return code == 0 ? 0 : 1;
}
