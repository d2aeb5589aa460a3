#include "gossip/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/record.h"

#define SEED_BYTES 32
#define SEED_TEXT_BYTES (2 * SEED_BYTES + 1) /* with the newline */
#define SIGN_CONTEXT_BYTES (sizeof RECORD_SIGN_CONTEXT - 1)
#define ERROR_BYTES 256

_Static_assert(crypto_sign_SEEDBYTES == SEED_BYTES, "a seed is 32 bytes");
_Static_assert(crypto_sign_BYTES == RECORD_SIGNATURE_BYTES, "an Ed25519 signature fits its place");

int keys_start(void)
{
    return sodium_init() < 0 ? ERR_IO : 0;
}

int keys_from_seed(const uint8_t seed[32], struct keys *out)
{
    struct keys keys = {0};
    if (crypto_sign_seed_keypair(keys.sign_public, keys.sign_secret, seed) != 0 ||
        crypto_sign_ed25519_pk_to_curve25519(keys.curve_public, keys.sign_public) != 0 ||
        crypto_sign_ed25519_sk_to_curve25519(keys.curve_secret, keys.sign_secret) != 0) {
        keys_wipe(&keys);
        return ERR_MALFORMED;
    }
    (void)crypto_generichash(keys.id.bytes, NODE_ID_BYTES, keys.sign_public, sizeof keys.sign_public, NULL, 0);
    *out = keys;
    keys_wipe(&keys);
    return 0;
}

void keys_create(struct keys *out)
{
    uint8_t seed[SEED_BYTES];
    randombytes_buf(seed, sizeof seed);
    CHECK(keys_from_seed(seed, out) == 0);
    sodium_memzero(seed, sizeof seed);
}

static int refuse(char error[ERROR_BYTES], int code, const char *path, const char *what)
{
    (void)snprintf(error, ERROR_BYTES, "The key file %.150s %s.", path, what);
    return code;
}

static int refuse_errno(char error[ERROR_BYTES], const char *verb, const char *path)
{
    char what[80];
    (void)snprintf(what, sizeof what, "could not be %s: %.50s", verb, strerror(errno));
    return refuse(error, ERR_IO, path, what);
}

/* Writes and syncs a new file, readable by the owner only. */
static bool write_file(const char *path, const char *text, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return false;
    }
    ssize_t written = write(fd, text, count);
    bool done = written == (ssize_t)count && fsync(fd) == 0;
    int saved = written >= 0 && written < (ssize_t)count ? ENOSPC : errno;
    if (close(fd) != 0) {
        saved = errno;
        done = false;
    }
    errno = saved;
    return done;
}

static void sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

#define NEXT ".next"

static int save(const struct keys *keys, const char *dir, const char *suffix, char error[ERROR_BYTES])
{
    char path[PATH_MAX];
    char draft[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/key%s", dir, suffix);
    int draft_length = snprintf(draft, sizeof draft, "%s/key.new.%ld", dir, (long)getpid());
    if (length < 0 || length >= PATH_MAX || draft_length < 0 || draft_length >= PATH_MAX) {
        return refuse(error, ERR_IO, dir, "has a name that is too long");
    }
    char text[SEED_TEXT_BYTES + 1];
    bytes_to_hex(text, keys->sign_secret, SEED_BYTES); /* libsodium's secret key begins with the seed */
    text[SEED_TEXT_BYTES - 1] = '\n';
    (void)unlink(draft); /* left by a process that died with our process id */
    bool written = write_file(draft, text, SEED_TEXT_BYTES);
    sodium_memzero(text, sizeof text);
    if (!written) {
        int result = refuse_errno(error, "written", draft);
        (void)unlink(draft);
        return result;
    }
    /* link() never replaces a file: of two processes that make a key one wins, and the file is complete at any time. */
    int linked = link(draft, path);
    int saved = errno;
    (void)unlink(draft);
    if (linked != 0) {
        errno = saved;
        return saved == EEXIST ? refuse(error, ERR_EXISTS, path, "exists already; this directory has a node's key")
                               : refuse_errno(error, "put in place", path);
    }
    sync_dir(dir);
    return 0;
}

int keys_save(const struct keys *keys, const char *dir, char error[256])
{
    return save(keys, dir, "", error);
}

static int read_seed(int fd, const char *path, uint8_t seed[SEED_BYTES], char error[ERROR_BYTES])
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return refuse_errno(error, "examined", path);
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(error, ERR_MALFORMED, path, "is not a regular file");
    }
    if ((status.st_mode & 077) != 0) {
        return refuse(error, ERR_REFUSED, path,
                      "can be read by other users; if the key is still secret, run chmod 600 on it");
    }
    char text[SEED_TEXT_BYTES + 2] = {0};
    ssize_t count = read(fd, text, sizeof text - 1);
    int result = 0;
    if (count < 0) {
        result = refuse_errno(error, "read", path);
    } else {
        if (count == SEED_TEXT_BYTES && text[count - 1] == '\n') {
            text[count - 1] = '\0';
        }
        if (bytes_from_hex(seed, SEED_BYTES, text) != 0) {
            result = refuse(error, ERR_MALFORMED, path, "is damaged: it should hold 64 hexadecimal digits");
        }
    }
    sodium_memzero(text, sizeof text);
    return result;
}

static int load(const char *dir, const char *suffix, struct keys *out, char error[ERROR_BYTES])
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/key%s", dir, suffix);
    if (length < 0 || length >= PATH_MAX) {
        return refuse(error, ERR_IO, dir, "has a name that is too long");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT ? refuse(error, ERR_NOT_FOUND, path, "does not exist; make a mesh or join one first")
                               : refuse_errno(error, "opened", path);
    }
    uint8_t seed[SEED_BYTES];
    int result = read_seed(fd, path, seed, error);
    (void)close(fd);
    if (result == 0 && keys_from_seed(seed, out) != 0) {
        result = refuse(error, ERR_MALFORMED, path, "holds a seed that gives no valid key");
    }
    sodium_memzero(seed, sizeof seed);
    return result;
}

int keys_load(const char *dir, struct keys *out, char error[256])
{
    return load(dir, "", out, error);
}

void keys_say_gone(const char *dir, const char *mesh, char error[256])
{
    (void)snprintf(error, 256,
                   "The key %.95s/key is gone, and the node in mesh %.12s with it: put the file back, or join with a new --dir and "
                   "let a member evict the old node.",
                   dir, mesh);
}

int keys_next(const char *dir, bool afresh, struct keys *out, char error[256])
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/key" NEXT, dir);
    if (afresh && length > 0 && length < PATH_MAX && unlink(path) != 0 && errno != ENOENT) {
        return refuse_errno(error, "removed", path);
    }
    int result = load(dir, NEXT, out, error);
    if (result != ERR_NOT_FOUND) {
        return result;
    }
    struct keys keys;
    keys_create(&keys);
    result = save(&keys, dir, NEXT, error);
    if (result == 0) {
        *out = keys;
    }
    keys_wipe(&keys);
    return result;
}

int keys_replace(const char *dir, char error[256])
{
    char next[PATH_MAX], path[PATH_MAX];
    int next_length = snprintf(next, sizeof next, "%s/key" NEXT, dir);
    int length = snprintf(path, sizeof path, "%s/key", dir);
    if (next_length < 0 || next_length >= PATH_MAX || length < 0 || length >= PATH_MAX) {
        return refuse(error, ERR_IO, dir, "has a name that is too long");
    }
    if (rename(next, path) != 0) {
        int result = errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
        (void)refuse_errno(error, "put in place", next);
        return result;
    }
    sync_dir(dir);
    return 0;
}

int keys_curve_of(const uint8_t sign_public[32], uint8_t out[32])
{
    uint8_t curve[32];
    if (crypto_sign_ed25519_pk_to_curve25519(curve, sign_public) != 0) {
        return ERR_MALFORMED;
    }
    memcpy(out, curve, sizeof curve);
    return 0;
}

/* Ed25519 needs its message in one piece: the context, the mesh id and the signed part of the envelope, end to end. */
struct signed_part {
    uint8_t bytes[SIGN_CONTEXT_BYTES + MESH_ID_BYTES + RECORD_ENVELOPE_BYTES_MAX];
    size_t count;
};

static void signed_part_fill(struct signed_part *part, mesh_id mesh, const uint8_t *envelope, size_t count)
{
    size_t before = count - RECORD_SIGNATURE_BYTES;
    memcpy(part->bytes, RECORD_SIGN_CONTEXT, SIGN_CONTEXT_BYTES);
    memcpy(part->bytes + SIGN_CONTEXT_BYTES, mesh.bytes, MESH_ID_BYTES);
    memcpy(part->bytes + SIGN_CONTEXT_BYTES + MESH_ID_BYTES, envelope, before);
    part->count = SIGN_CONTEXT_BYTES + MESH_ID_BYTES + before;
}

void keys_sign_record(const struct keys *keys, mesh_id mesh, uint8_t *envelope, size_t count)
{
    CHECK(count > RECORD_SIGNATURE_BYTES && count <= RECORD_ENVELOPE_BYTES_MAX);
    struct signed_part part;
    signed_part_fill(&part, mesh, envelope, count);
    CHECK(crypto_sign_detached(envelope + count - RECORD_SIGNATURE_BYTES, NULL, part.bytes, part.count,
                               keys->sign_secret) == 0);
}

int keys_verify_record(const uint8_t sign_public[32], mesh_id mesh, const uint8_t *envelope, size_t count)
{
    if (count <= RECORD_SIGNATURE_BYTES || count > RECORD_ENVELOPE_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    struct signed_part part;
    signed_part_fill(&part, mesh, envelope, count);
    return crypto_sign_verify_detached(envelope + count - RECORD_SIGNATURE_BYTES, part.bytes, part.count,
                                       sign_public) == 0
               ? 0
               : ERR_AUTH;
}

void keys_wipe(struct keys *keys)
{
    sodium_memzero(keys, sizeof *keys);
}
