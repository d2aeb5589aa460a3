#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "base/err.h"
#include "gossip/keys.h"
#include "gossip/record.h"

static void dir_make(char dir[64])
{
    strcpy(dir, "/tmp/shoal-keys-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void dir_remove(const char *dir)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/key", dir);
    (void)unlink(path);
    assert_int_equal(rmdir(dir), 0); /* and no draft was left behind */
}

static void file_write(const char *dir, const char *text, mode_t mode)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/key", dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void the_same_seed_gives_the_same_keys(void **state)
{
    (void)state;
    uint8_t seed[32] = {1, 2, 3};
    struct keys a, b;
    assert_int_equal(keys_from_seed(seed, &a), 0);
    assert_int_equal(keys_from_seed(seed, &b), 0);
    assert_memory_equal(&a, &b, sizeof a);
    seed[31] = 1;
    assert_int_equal(keys_from_seed(seed, &b), 0);
    assert_memory_not_equal(a.id.bytes, b.id.bytes, NODE_ID_BYTES);
}

static void curve_keys_are_a_pair_and_follow_from_the_public_key(void **state)
{
    (void)state;
    struct keys keys;
    keys_create(&keys);
    uint8_t curve[32];
    assert_int_equal(keys_curve_of(keys.sign_public, curve), 0);
    assert_memory_equal(curve, keys.curve_public, 32);
    char secret_text[41], public_text[41], expected[41];
    assert_non_null(zmq_z85_encode(secret_text, keys.curve_secret, 32));
    assert_non_null(zmq_z85_encode(expected, keys.curve_public, 32));
    assert_int_equal(zmq_curve_public(public_text, secret_text), 0);
    assert_string_equal(public_text, expected);
}

static void what_is_no_point_has_no_curve_key(void **state)
{
    (void)state;
    uint8_t bad[32], out[32] = {7};
    memset(bad, 0xff, sizeof bad);
    assert_int_equal(keys_curve_of(bad, out), ERR_MALFORMED);
    memset(bad, 0, sizeof bad); /* of small order */
    assert_int_equal(keys_curve_of(bad, out), ERR_MALFORMED);
    assert_int_equal(out[0], 7);
}

static void saved_keys_come_back_and_are_never_replaced(void **state)
{
    (void)state;
    char dir[64], error[256] = "";
    dir_make(dir);
    struct keys keys, other, loaded;
    keys_create(&keys);
    keys_create(&other);
    assert_int_equal(keys_load(dir, &loaded, error), ERR_NOT_FOUND);
    assert_int_equal(keys_save(&keys, dir, error), 0);
    assert_int_equal(keys_save(&other, dir, error), ERR_EXISTS);
    assert_non_null(strstr(error, "exists already"));
    assert_int_equal(keys_load(dir, &loaded, error), 0);
    assert_memory_equal(&keys, &loaded, sizeof keys);
    char path[96];
    struct stat status;
    (void)snprintf(path, sizeof path, "%s/key", dir);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    dir_remove(dir);
}

static void a_key_file_that_others_may_read_is_refused(void **state)
{
    (void)state;
    char dir[64], error[256] = "", path[96];
    dir_make(dir);
    struct keys keys, loaded;
    keys_create(&keys);
    assert_int_equal(keys_save(&keys, dir, error), 0);
    (void)snprintf(path, sizeof path, "%s/key", dir);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(keys_load(dir, &loaded, error), ERR_REFUSED);
    assert_non_null(strstr(error, path));
    dir_remove(dir);
}

static void damaged_key_files_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "00",
                                        "zz00000000000000000000000000000000000000000000000000000000000000\n",
                                        "000000000000000000000000000000000000000000000000000000000000000000\n"};
    char dir[64], error[256];
    dir_make(dir);
    struct keys loaded;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        file_write(dir, texts[i], 0600);
        assert_int_equal(keys_load(dir, &loaded, error), ERR_MALFORMED);
        assert_non_null(strstr(error, "damaged"));
    }
    dir_remove(dir);
}

static void keys_need_a_directory(void **state)
{
    (void)state;
    char error[256] = "";
    struct keys keys;
    keys_create(&keys);
    assert_int_equal(keys_save(&keys, "/nonexistent/dir", error), ERR_IO);
    assert_non_null(strstr(error, "No such file"));
}

static size_t record_make(uint8_t *envelope, size_t capacity, node_id writer)
{
    static const uint8_t body[100] = "what it says";
    struct record record = {.kind = 9,
                            .writer = writer,
                            .version = {.boot = 3, .seq = 4},
                            .key = (const uint8_t *)"key",
                            .key_bytes = 3,
                            .body = body,
                            .body_bytes = sizeof body};
    size_t count = record_encode(&record, envelope, capacity);
    assert_true(count > 0);
    return count;
}

static void a_signature_holds_for_these_bytes_this_mesh_and_this_key_only(void **state)
{
    (void)state;
    struct keys keys, other;
    keys_create(&keys);
    keys_create(&other);
    mesh_id mesh = {{1}}, other_mesh = {{2}};
    uint8_t envelope[512];
    size_t count = record_make(envelope, sizeof envelope, keys.id);
    keys_sign_record(&keys, mesh, envelope, count);
    assert_int_equal(keys_verify_record(keys.sign_public, mesh, envelope, count), 0);
    assert_int_equal(keys_verify_record(keys.sign_public, other_mesh, envelope, count), ERR_AUTH);
    assert_int_equal(keys_verify_record(other.sign_public, mesh, envelope, count), ERR_AUTH);
    for (size_t i = 0; i < count; i++) {
        envelope[i] ^= 0x10;
        assert_int_equal(keys_verify_record(keys.sign_public, mesh, envelope, count), ERR_AUTH);
        envelope[i] ^= 0x10;
    }
    assert_int_equal(keys_verify_record(keys.sign_public, mesh, envelope, count - 1), ERR_AUTH);
    assert_int_equal(keys_verify_record(keys.sign_public, mesh, envelope, RECORD_SIGNATURE_BYTES), ERR_MALFORMED);
    assert_int_equal(keys_verify_record(keys.sign_public, mesh, envelope, RECORD_ENVELOPE_BYTES_MAX + 1),
                     ERR_MALFORMED);
}

static void a_next_key_is_made_once_and_takes_the_place_of_the_key(void **state)
{
    (void)state;
    char dir[64], error[256], path[96];
    dir_make(dir);
    struct keys keys, next, loaded;
    keys_create(&keys);
    assert_int_equal(keys_replace(dir, error), ERR_NOT_FOUND);
    assert_int_equal(keys_save(&keys, dir, error), 0);
    assert_int_equal(keys_next(dir, false, &next, error), 0);
    assert_false(node_id_equal(next.id, keys.id));
    assert_int_equal(keys_next(dir, false, &loaded, error), 0);
    assert_memory_equal(&loaded, &next, sizeof next);
    assert_int_equal(keys_load(dir, &loaded, error), 0);
    assert_memory_equal(&loaded, &keys, sizeof keys); /* till it is replaced */
    assert_int_equal(keys_replace(dir, error), 0);
    assert_int_equal(keys_load(dir, &loaded, error), 0);
    assert_memory_equal(&loaded, &next, sizeof next);
    assert_int_equal(keys_replace(dir, error), ERR_NOT_FOUND);
    assert_int_equal(keys_next(dir, false, &loaded, error), 0);
    assert_false(node_id_equal(loaded.id, next.id));
    for (int i = 0; i < 2; i++) {
        next = loaded;
        assert_int_equal(keys_next(dir, true, &loaded, error), 0);
        assert_false(node_id_equal(loaded.id, next.id));
    }
    (void)snprintf(path, sizeof path, "%s/key.next", dir);
    assert_int_equal(unlink(path), 0);
    dir_remove(dir);
}

static void wiped_keys_are_gone(void **state)
{
    (void)state;
    struct keys keys;
    keys_create(&keys);
    keys_wipe(&keys);
    static const struct keys zero;
    assert_memory_equal(&keys, &zero, sizeof keys);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_keys),
        cmocka_unit_test(curve_keys_are_a_pair_and_follow_from_the_public_key),
        cmocka_unit_test(what_is_no_point_has_no_curve_key),
        cmocka_unit_test(saved_keys_come_back_and_are_never_replaced),
        cmocka_unit_test(a_next_key_is_made_once_and_takes_the_place_of_the_key),
        cmocka_unit_test(a_key_file_that_others_may_read_is_refused),
        cmocka_unit_test(damaged_key_files_are_refused),
        cmocka_unit_test(keys_need_a_directory),
        cmocka_unit_test(a_signature_holds_for_these_bytes_this_mesh_and_this_key_only),
        cmocka_unit_test(wiped_keys_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
