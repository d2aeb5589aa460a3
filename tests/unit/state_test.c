/* The state environment and the data directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "store/data_dir.h"
#include "store/state_lmdb.h"

#define ERROR_BYTES 512

struct place {
    char dir[64];
    char error[ERROR_BYTES];
    bool mounted;
};

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return -1;
    }
    snprintf(place->dir, sizeof place->dir, "/tmp/shoal-state-test-XXXXXX");
    *state = place;
    return mkdtemp(place->dir) != NULL ? 0 : -1;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    if (place->mounted) {
        umount2(place->dir, MNT_DETACH);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", place->dir);
    int rc = system(command);
    free(place);
    return rc;
}

struct seen {
    unsigned count;
    char keys[256];
};

static int note_key(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes)
{
    (void)value;
    (void)value_bytes;
    struct seen *seen = context;
    seen->count++;
    size_t used = strlen(seen->keys);
    snprintf(seen->keys + used, sizeof seen->keys - used, "%.*s ", (int)key_bytes, (const char *)key);
    return key_bytes == 4 && memcmp(key, "stop", 4) == 0 ? 17 : 0;
}

static struct state_op op_put(enum state_table table, const char *key, const char *value)
{
    return (struct state_op){
        .table = table, .key = key, .key_bytes = strlen(key), .value = value, .value_bytes = strlen(value)};
}

static void state_keeps_what_was_put(void **state)
{
    struct place *place = *state;
    struct state *store;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    struct state_op ops[] = {
        op_put(STATE_RECORDS, "b", "two"),
        op_put(STATE_RECORDS, "a", "one"),
        op_put(STATE_FENCES, "a", "fence"),
        op_put(STATE_RECORDS, "b", "three"),
    };
    assert_int_equal(state_put_batch(store, ops, 4), 0);
    assert_int_equal(state_put_batch(store, ops, 0), 0);
    state_close(&store);
    assert_null(store);
    state_close(&store);

    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    char value[16];
    size_t bytes = 0;
    assert_int_equal(state_get(store, STATE_RECORDS, "b", 1, value, sizeof value, &bytes), 0);
    assert_int_equal(bytes, 5);
    assert_memory_equal(value, "three", 5);
    assert_int_equal(state_get(store, STATE_RECORDS, "b", 1, value, 4, &bytes), ERR_FULL);
    assert_int_equal(bytes, 5);
    assert_int_equal(state_get(store, STATE_FENCES, "a", 1, value, sizeof value, &bytes), 0);
    assert_memory_equal(value, "fence", 5);
    assert_int_equal(state_get(store, STATE_META, "a", 1, value, sizeof value, &bytes), ERR_NOT_FOUND);
    assert_int_equal(state_get(store, STATE_META, "", 0, value, sizeof value, &bytes), ERR_USAGE);

    struct seen seen = {0};
    assert_int_equal(state_each(store, STATE_RECORDS, note_key, &seen), 0);
    assert_string_equal(seen.keys, "a b ");

    struct state_op more[] = {
        op_put(STATE_RECORDS, "stop", ""),
        {.table = STATE_RECORDS, .key = "a", .key_bytes = 1, .is_delete = true},
        {.table = STATE_RECORDS, .key = "absent", .key_bytes = 6, .is_delete = true},
        op_put(STATE_RECORDS, "z", "last"),
    };
    assert_int_equal(state_put_batch(store, more, 4), 0);
    seen = (struct seen){0};
    assert_int_equal(state_each(store, STATE_RECORDS, note_key, &seen), 17);
    assert_string_equal(seen.keys, "b stop ");
    seen = (struct seen){0};
    assert_int_equal(state_each(store, STATE_META, note_key, &seen), 0);
    assert_int_equal(seen.count, 0);
    state_close(&store);
}

static void state_batch_is_all_or_nothing(void **state)
{
    struct place *place = *state;
    struct state *store;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    char long_key[STATE_KEY_BYTES_MAX + 1];
    memset(long_key, 'k', sizeof long_key);
    struct state_op ops[] = {
        op_put(STATE_RECORDS, "first", "1"),
        {.table = STATE_RECORDS, .key = long_key, .key_bytes = sizeof long_key, .value = "2", .value_bytes = 1},
    };
    assert_int_equal(state_put_batch(store, ops, 2), ERR_USAGE);
    char value[4];
    size_t bytes;
    assert_int_equal(state_get(store, STATE_RECORDS, "first", 5, value, sizeof value, &bytes), ERR_NOT_FOUND);
    ops[1].key_bytes = STATE_KEY_BYTES_MAX;
    assert_int_equal(state_put_batch(store, ops, 2), 0);
    assert_int_equal(state_get(store, STATE_RECORDS, long_key, STATE_KEY_BYTES_MAX, value, sizeof value, &bytes), 0);
    ops[1].key_bytes = 0;
    assert_int_equal(state_put_batch(store, ops, 2), ERR_USAGE);
    ops[1] = op_put(STATE_RECORDS, "large", "");
    ops[1].value_bytes = STATE_VALUE_BYTES_MAX + 1;
    assert_int_equal(state_put_batch(store, ops, 2), ERR_USAGE);
    state_close(&store);
}

static void assert_file_is_reserved(const struct place *place)
{
    char path[128];
    struct stat info;
    snprintf(path, sizeof path, "%s/state/data.mdb", place->dir);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, STATE_FILE_BYTES);
    assert_true((uint64_t)info.st_blocks * 512 >= STATE_FILE_BYTES);
}

static void state_file_stays_reserved(void **state)
{
    struct place *place = *state;
    for (int life = 0; life < 3; life++) {
        struct state *store;
        assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
        assert_file_is_reserved(place);
        struct state_op op = op_put(STATE_META, "life", "x");
        assert_int_equal(state_put_batch(store, &op, 1), 0);
        state_close(&store);
        assert_file_is_reserved(place);
    }
}

/* A tmpfs on the place, or a printed line and a skipped test where that is not allowed. */
static void place_mount(struct place *place, const char *size)
{
    char option[32];
    snprintf(option, sizeof option, "size=%s", size);
    if (mount("none", place->dir, "tmpfs", 0, option) != 0) {
        print_message("skipped: mounting a tmpfs on %s: %s\n", place->dir, strerror(errno));
        skip();
    }
    place->mounted = true;
}

static void fill_disk(const struct place *place)
{
    char path[128];
    snprintf(path, sizeof path, "%s/filler", place->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    static const char block[65536];
    for (size_t size = sizeof block; size > 0; size = size > 512 ? size / 2 : 0) {
        while (write(fd, block, size) > 0) {
        }
    }
    assert_int_equal(write(fd, block, 1), -1);
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

/* Large values until one is refused. */
static unsigned put_large(struct state *store, unsigned at_most)
{
    static char large[STATE_VALUE_BYTES_MAX];
    int rc = 0;
    unsigned stored = 0;
    while (rc == 0 && stored < at_most) {
        struct state_op op = {.table = STATE_RECORDS,
                              .key = &stored,
                              .key_bytes = sizeof stored,
                              .value = large,
                              .value_bytes = sizeof large};
        rc = state_put_batch(store, &op, 1);
        stored += rc == 0;
    }
    assert_int_equal(rc, stored == at_most ? 0 : ERR_NO_SPACE);
    return stored;
}

/* More than its disk has room for: refused without harm, and deleting makes room. */
static void state_full_of_large_values_is_an_answer(void **state)
{
    struct place *place = *state;
    place_mount(place, "70m");
    struct state *store;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    unsigned stored = put_large(store, 200);
    assert_in_range(stored, 40, 64);
    assert_file_is_reserved(place);
    static char large[STATE_VALUE_BYTES_MAX];
    for (unsigned i = 0; i < stored; i++) {
        size_t bytes;
        assert_int_equal(state_get(store, STATE_RECORDS, &i, sizeof i, large, sizeof large, &bytes), 0);
        struct state_op op = {.table = STATE_RECORDS, .key = &i, .key_bytes = sizeof i, .is_delete = true};
        assert_int_equal(state_put_batch(store, &op, 1), 0);
    }
    struct state_op op = op_put(STATE_FENCES, "f", "1");
    assert_int_equal(state_put_batch(store, &op, 1), 0);
    state_close(&store);
}

/* Small records, many to a batch, until one batch is refused: as many as are stored. */
static unsigned put_small(struct state *store)
{
    char value[300] = {0};
    unsigned keys[256];
    struct state_op ops[256];
    unsigned stored = 0;
    for (int rc = 0; rc == 0 && stored < 1000000; stored += rc == 0 ? 256 : 0) {
        for (unsigned i = 0; i < 256; i++) {
            keys[i] = (stored + i) * 2654435761u; /* as idents are: in no order */
            ops[i] = (struct state_op){.table = STATE_RECORDS,
                                       .key = &keys[i],
                                       .key_bytes = sizeof keys[i],
                                       .value = value,
                                       .value_bytes = sizeof value};
        }
        rc = state_put_batch(store, ops, 256);
        assert_true(rc == 0 || rc == ERR_NO_SPACE);
    }
    return stored;
}

static void state_keeps_a_reserve_for_what_frees_room(void **state)
{
    struct place *place = *state;
    place_mount(place, "70m");
    struct state *store;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    fill_disk(place);
    unsigned stored = put_small(store);
    assert_in_range(stored, 50000, 200000);
    state_close(&store);
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);

    /* Of one batch what is urgent goes on, and the rest is refused. */
    struct state_op ops[] = {op_put(STATE_META, "boot", "2"), op_put(STATE_RECORDS, "verdict", "v"),
                             op_put(STATE_RECORDS, "tombstone", "t"), op_put(STATE_FENCES, "fence", "f")};
    ops[2].is_urgent = true;
    int codes[4];
    assert_int_equal(state_put_batch(store, ops, 4), ERR_NO_SPACE);
    state_put_each(store, ops, 4, codes);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], ERR_NO_SPACE);
    assert_int_equal(codes[2], 0);
    assert_int_equal(codes[3], 0);
    char value[4];
    size_t bytes;
    assert_int_equal(state_get(store, STATE_RECORDS, "tombstone", 9, value, sizeof value, &bytes), 0);
    assert_int_equal(state_get(store, STATE_RECORDS, "verdict", 7, value, sizeof value, &bytes), ERR_NOT_FOUND);

    for (unsigned i = 0; i < stored; i += 256) {
        unsigned keys[256];
        struct state_op deletions[256];
        for (unsigned k = 0; k < 256; k++) {
            keys[k] = (i + k) * 2654435761u;
            deletions[k] = (struct state_op){
                .table = STATE_RECORDS, .key = &keys[k], .key_bytes = sizeof keys[k], .is_delete = true};
        }
        assert_int_equal(state_put_batch(store, deletions, 256), 0);
    }
    state_put_each(store, ops, 4, codes);
    assert_int_equal(codes[1], 0);
    state_close(&store);
    assert_file_is_reserved(place);
}

/* The file grows ahead of what is used, so that a disk which fills up later still leaves it room. */
static void state_reserves_more_as_it_grows(void **state)
{
    struct place *place = *state;
    place_mount(place, "320m");
    struct state *store;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    assert_int_equal(put_large(store, 100), 100);
    char path[128];
    snprintf(path, sizeof path, "%s/state/data.mdb", place->dir);
    for (int life = 0; life < 2; life++) {
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_size, 3 * STATE_FILE_BYTES);
        assert_true((uint64_t)info.st_blocks * 512 >= 3 * STATE_FILE_BYTES);
        if (life == 0) {
            fill_disk(place);
        }
        assert_int_equal(put_large(store, 120), 120); /* in the room that it had reserved */
        state_close(&store);
        assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    }
    assert_in_range(put_large(store, 300), 150, 3 * 64);
    struct state_op op = op_put(STATE_FENCES, "f", "1");
    assert_int_equal(state_put_batch(store, &op, 1), 0);
    state_close(&store);
}

static void state_writes_on_a_full_disk(void **state)
{
    struct place *place = *state;
    place_mount(place, "70m");
    struct state *store;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
    fill_disk(place);
    char value[8192] = {0};
    for (unsigned life = 0; life < 3; life++) {
        for (unsigned i = 0; i < 500; i++) {
            unsigned key = i % 40;
            value[0] = (char)(life + i);
            struct state_op op = {.table = STATE_FENCES,
                                  .key = &key,
                                  .key_bytes = sizeof key,
                                  .value = value,
                                  .value_bytes = 100 + (i * 37) % 8000};
            assert_int_equal(state_put_batch(store, &op, 1), 0);
        }
        state_close(&store);
        assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), 0);
        unsigned key = 499 % 40;
        size_t bytes;
        assert_int_equal(state_get(store, STATE_FENCES, &key, sizeof key, value, sizeof value, &bytes), 0);
        assert_int_equal((unsigned char)value[0], (unsigned char)(life + 499));
    }
    state_close(&store);
    assert_file_is_reserved(place);
}

static void state_says_when_there_is_no_room_for_it(void **state)
{
    struct place *place = *state;
    place_mount(place, "4m");
    struct state *store = NULL;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), ERR_NO_SPACE);
    assert_non_null(strstr(place->error, "64 MiB"));
    /* Not one byte: also then an answer, and not a SIGBUS in LMDB's lock file. */
    char fresh[128];
    snprintf(fresh, sizeof fresh, "%s/fresh", place->dir);
    assert_int_equal(mkdir(fresh, 0700), 0);
    fill_disk(place);
    assert_int_equal(state_open(fresh, &store, place->error, ERROR_BYTES), ERR_NO_SPACE);
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), ERR_NO_SPACE);
    assert_null(store);
}

static void state_refuses_a_damaged_file(void **state)
{
    struct place *place = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/state", place->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/state/data.mdb", place->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    char junk[8192];
    memset(junk, 'j', sizeof junk);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    close(fd);
    struct state *store = NULL;
    assert_int_equal(state_open(place->dir, &store, place->error, ERROR_BYTES), ERR_CORRUPT);
    assert_non_null(strstr(place->error, place->dir));
    assert_null(store);
}

/* ---- data directory ---- */

static void data_dir_is_made_private_and_held_by_one(void **state)
{
    struct place *place = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/with/parents", place->dir);
    int lock_fd = -1;
    assert_int_equal(data_dir_open(path, &lock_fd, place->error, ERROR_BYTES), 0);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(fcntl(lock_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

    pid_t child = fork();
    if (child == 0) {
        int second_fd = -1;
        char expected[32];
        snprintf(expected, sizeof expected, "(pid %ld)", (long)getppid());
        int rc = data_dir_open(path, &second_fd, place->error, ERROR_BYTES);
        bool named = strstr(place->error, expected) != NULL && strstr(place->error, path) != NULL;
        _exit(rc == ERR_EXISTS && named && second_fd == -1 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(lock_fd);

    /* The holder is gone: the next one gets it, and its number is written. */
    child = fork();
    if (child == 0) {
        _exit(data_dir_open(path, &lock_fd, place->error, ERROR_BYTES) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char file[160];
    snprintf(file, sizeof file, "%s/lock", path);
    FILE *lock = fopen(file, "r");
    assert_non_null(lock);
    long pid = 0;
    assert_int_equal(fscanf(lock, "%ld", &pid), 1);
    fclose(lock);
    assert_int_equal(pid, child);
}

/* What is not reachable by an address of a socket would be a node whose programs find no daemon. */
static void a_path_too_long_for_the_socket_is_refused_before_anything_is_made(void **state)
{
    struct place *place = *state;
    char path[DATA_DIR_PATH_MAX + 2];
    memset(path, 'x', sizeof path);
    int length = snprintf(path, sizeof path, "%s", place->dir);
    assert_in_range(length, 1, DATA_DIR_PATH_MAX - 2);
    path[length] = '/';
    path[sizeof path - 1] = '\0';
    int lock_fd = -1;
    assert_int_equal(data_dir_open(path, &lock_fd, place->error, ERROR_BYTES), ERR_USAGE);
    assert_non_null(strstr(place->error, "has 96 bytes and at most 95 are allowed"));
    assert_true(strlen(place->error) < 256); /* the daemon's errors have no more */
    assert_int_equal(access(path, F_OK), -1);
    path[sizeof path - 2] = '\0';
    assert_int_equal(data_dir_open(path, &lock_fd, place->error, ERROR_BYTES), 0);
    close(lock_fd);
}

static void a_relative_path_is_seen_from_the_root(void **state)
{
    struct place *place = *state;
    char out[PATH_MAX], expected[PATH_MAX], before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(place->dir), 0);
    assert_int_equal(data_dir_absolute("a/b", out, sizeof out, place->error, ERROR_BYTES), 0);
    snprintf(expected, sizeof expected, "%.100s/a/b", place->dir);
    assert_string_equal(out, expected);
    assert_int_equal(data_dir_absolute("a/b", out, strlen(expected), place->error, ERROR_BYTES), ERR_USAGE);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(data_dir_absolute("a", out, sizeof out, place->error, ERROR_BYTES), 0);
    assert_string_equal(out, "/a");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(data_dir_absolute("/a/../b", out, sizeof out, place->error, ERROR_BYTES), 0);
    assert_string_equal(out, "/a/../b");
    assert_int_equal(data_dir_absolute("", out, sizeof out, place->error, ERROR_BYTES), ERR_USAGE);
}

static void data_dir_is_as_if_taken_now_when_its_holder_says_so(void **state)
{
    struct place *place = *state;
    char path[128], lock[136];
    int lock_fd;
    (void)snprintf(path, sizeof path, "%s/fresh", place->dir);
    assert_true(data_dir_taken_ms(path) == UINT64_MAX);
    assert_int_equal(data_dir_open(path, &lock_fd, place->error, ERROR_BYTES), 0);
    (void)snprintf(lock, sizeof lock, "%s/lock", path);
    struct timespec times[2];
    (void)clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= 3600;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, lock, times, 0), 0);
    assert_true(data_dir_taken_ms(path) >= 3600 * 1000);
    data_dir_refresh(lock_fd);
    assert_true(data_dir_taken_ms(path) < 1800 * 1000);
    (void)close(lock_fd);
}

static void data_dir_open_to_others_is_closed_or_refused(void **state)
{
    struct place *place = *state;
    int lock_fd = -1;
    struct stat info;
    assert_int_equal(chmod(place->dir, 0755), 0);
    assert_int_equal(data_dir_open(place->dir, &lock_fd, place->error, ERROR_BYTES), 0);
    assert_int_equal(stat(place->dir, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    close(lock_fd);

    char path[128];
    snprintf(path, sizeof path, "%s/home", place->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0755), 0);
    char file[160];
    snprintf(file, sizeof file, "%s/letter", path);
    close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    assert_int_equal(data_dir_open(path, &lock_fd, place->error, ERROR_BYTES), ERR_REFUSED);
    assert_non_null(strstr(place->error, path));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0755);

    assert_int_equal(data_dir_open(file, &lock_fd, place->error, ERROR_BYTES), ERR_IO);
    assert_int_equal(data_dir_open("", &lock_fd, place->error, ERROR_BYTES), ERR_USAGE);
}

static void network_file_systems_are_known(void **state)
{
    (void)state;
    assert_string_equal(data_dir_network_name(0x6969), "NFS");
    assert_string_equal(data_dir_network_name((long)0xff534d42u), "CIFS");
    assert_string_equal(data_dir_network_name((long)(int)0xff534d42u), "CIFS"); /* sign-extended */
    assert_string_equal(data_dir_network_name(0x517b), "SMB");
    assert_string_equal(data_dir_network_name(0x0bd00bd0), "Lustre");
    assert_string_equal(data_dir_network_name(0x01021997), "9P");
    assert_null(data_dir_network_name(0xef53));            /* ext4 */
    assert_null(data_dir_network_name(0x58465342));        /* xfs */
    assert_null(data_dir_network_name((long)0x9123683eu)); /* btrfs */
    assert_null(data_dir_network_name(0x01021994));        /* tmpfs */
    assert_null(data_dir_network_name(0x794c7630));        /* overlayfs */
    assert_null(data_dir_network_name(0x65735546));        /* FUSE: its mount type says */
    assert_string_equal(data_dir_network_name_fuse("fuse.sshfs"), "sshfs");
    assert_string_equal(data_dir_network_name_fuse("fuse.glusterfs"), "glusterfs");
    assert_null(data_dir_network_name_fuse("fuseblk"));
    assert_null(data_dir_network_name_fuse("fuse.encfs"));
    assert_null(data_dir_network_name_fuse("sshfs"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(state_keeps_what_was_put),
        TEST(state_batch_is_all_or_nothing),
        TEST(state_file_stays_reserved),
        TEST(state_full_of_large_values_is_an_answer),
        TEST(state_keeps_a_reserve_for_what_frees_room),
        TEST(state_reserves_more_as_it_grows),
        TEST(state_writes_on_a_full_disk),
        TEST(state_says_when_there_is_no_room_for_it),
        TEST(state_refuses_a_damaged_file),
        TEST(data_dir_is_made_private_and_held_by_one),
        TEST(a_path_too_long_for_the_socket_is_refused_before_anything_is_made),
        TEST(a_relative_path_is_seen_from_the_root),
        TEST(data_dir_is_as_if_taken_now_when_its_holder_says_so),
        TEST(data_dir_open_to_others_is_closed_or_refused),
        cmocka_unit_test(network_file_systems_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
