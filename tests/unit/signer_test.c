#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/facts/facts.h"
#include "node/signer.h"

#define PATIENCE_MS 20000

/* A mesh of a founder and members, of which the signer knows nothing yet; it is itself `self`. */
struct mesh {
    struct keys founder, member, late, self;
    uint8_t nonce[16];
    mesh_id id;
    struct signer *signer;
};

struct list {
    uint8_t bytes[4096];
    size_t count;
};

static void mesh_open(struct mesh *mesh)
{
    memset(mesh, 0, sizeof *mesh);
    keys_create(&mesh->founder);
    keys_create(&mesh->member);
    keys_create(&mesh->late);
    keys_create(&mesh->self);
    mesh->nonce[3] = 9;
    mesh->id = mesh_id_of_founder(mesh->founder.sign_public, mesh->nonce);
    assert_int_equal(signer_open(&mesh->self, mesh->id, &mesh->signer), 0);
}

/* Appends a record that `by` signs. */
static void add(const struct mesh *mesh, struct list *list, const struct keys *by, uint16_t kind, const void *key,
                uint8_t key_bytes, const uint8_t *body, size_t body_bytes, uint64_t seq)
{
    struct record record = {.kind = kind,
                            .writer = by->id,
                            .version = {.boot = 1, .seq = seq},
                            .key = key,
                            .key_bytes = key_bytes,
                            .body = body,
                            .body_bytes = (uint16_t)body_bytes};
    size_t count = record_encode(&record, list->bytes + list->count, sizeof list->bytes - list->count);
    assert_true(count > 0);
    keys_sign_record(by, mesh->id, list->bytes + list->count, count);
    list->count += count;
}

static void add_plain(const struct mesh *mesh, struct list *list, const struct keys *by, uint64_t seq)
{
    add(mesh, list, by, FACT_CONTROL, "12345678", 8, (const uint8_t *)"any body", 8, seq);
}

static void add_member(const struct mesh *mesh, struct list *list, const struct keys *by, const struct keys *whom,
                       node_id named)
{
    struct fact_member fact = {.name = "ws"};
    memcpy(fact.public_key, whom->sign_public, PUBLIC_KEY_BYTES);
    if (by == whom) {
        memcpy(fact.nonce, mesh->nonce, sizeof fact.nonce);
    }
    uint8_t body[512];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_member_pack(&writer, &fact);
    assert_false(writer.failed);
    add(mesh, list, by, FACT_MEMBER, named.bytes, NODE_ID_BYTES, body, writer.used_bytes, 1);
}

static void add_founder(const struct mesh *mesh, struct list *list)
{
    add_member(mesh, list, &mesh->founder, &mesh->founder, mesh->founder.id);
}

static size_t filter(struct mesh *mesh, const struct list *in, struct list *out)
{
    out->count = signer_filter(mesh->signer, in->bytes, in->count, out->bytes);
    return out->count;
}

static void the_founder_and_whom_members_name_are_known(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, out;
    mesh_open(&mesh);
    /* In the worst order: everything comes before what makes it credible. */
    add_plain(&mesh, &in, &mesh.late, 1);
    add_member(&mesh, &in, &mesh.member, &mesh.late, mesh.late.id);
    add_plain(&mesh, &in, &mesh.member, 1);
    add_member(&mesh, &in, &mesh.founder, &mesh.member, mesh.member.id);
    add_founder(&mesh, &in);
    assert_int_equal(filter(&mesh, &in, &out), in.count);
    assert_memory_equal(in.bytes, out.bytes, in.count);
    signer_close(&mesh.signer);
    assert_null(mesh.signer);
}

static void unknown_writers_are_dropped_until_they_are_named(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, roster = {.count = 0}, out;
    struct signer_statistics counts;
    mesh_open(&mesh);
    add_plain(&mesh, &in, &mesh.member, 1);
    assert_int_equal(filter(&mesh, &in, &out), 0);
    signer_statistics(mesh.signer, &counts);
    assert_int_equal(counts.unknown, 1);
    add_founder(&mesh, &roster);
    add_member(&mesh, &roster, &mesh.founder, &mesh.member, mesh.member.id);
    assert_int_equal(filter(&mesh, &roster, &out), roster.count);
    assert_int_equal(filter(&mesh, &in, &out), in.count);
    signer_close(&mesh.signer);
}

static void our_own_records_are_known_from_the_start(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, out;
    mesh_open(&mesh);
    add_plain(&mesh, &in, &mesh.self, 1);
    assert_int_equal(filter(&mesh, &in, &out), in.count);
    signer_close(&mesh.signer);
}

static void another_founder_is_not_believed(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, out;
    mesh_open(&mesh);
    add_member(&mesh, &in, &mesh.member, &mesh.member, mesh.member.id); /* with the right nonce, but its own key */
    assert_int_equal(filter(&mesh, &in, &out), 0);
    signer_close(&mesh.signer);
}

static void forgeries_are_dropped_and_their_neighbours_kept(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, good = {.count = 0}, out;
    struct signer_statistics counts;
    mesh_open(&mesh);
    add_founder(&mesh, &in);
    size_t at = in.count; /* of the next record */
    add_plain(&mesh, &in, &mesh.founder, 1);
    in.bytes[at + RECORD_HEAD_BYTES + 8 + 2] ^= 1; /* its body */
    add_plain(&mesh, &in, &mesh.founder, 2);
    add_plain(&mesh, &in, &mesh.founder, 3);
    in.bytes[in.count - 1] ^= 1;                                       /* its signature */
    add_member(&mesh, &in, &mesh.founder, &mesh.member, mesh.late.id); /* a key that is not that node's */
    struct mesh elsewhere = mesh;
    elsewhere.id.bytes[0] ^= 1;
    add_plain(&elsewhere, &in, &mesh.founder, 4); /* signed for another mesh */
    add_founder(&mesh, &good);
    add_plain(&mesh, &good, &mesh.founder, 2);
    assert_int_equal(filter(&mesh, &in, &out), good.count);
    assert_memory_equal(out.bytes, good.bytes, good.count);
    signer_statistics(mesh.signer, &counts);
    assert_int_equal(counts.forged, 4);
    struct list late = {.count = 0};
    add_plain(&mesh, &late, &mesh.member, 1); /* the lying member record taught nothing */
    assert_int_equal(filter(&mesh, &late, &out), 0);
    signer_close(&mesh.signer);
}

static void what_follows_no_record_is_lost(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, out;
    mesh_open(&mesh);
    add_founder(&mesh, &in);
    size_t whole = in.count;
    add_plain(&mesh, &in, &mesh.founder, 1);
    for (size_t count = whole; count < in.count; count++) {
        struct list part = in;
        part.count = count;
        assert_int_equal(filter(&mesh, &part, &out), whole);
    }
    in.bytes[0] = 2;
    assert_int_equal(filter(&mesh, &in, &out), 0);
    signer_close(&mesh.signer);
}

static void what_was_verified_lately_is_remembered_to_the_byte(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list in = {.count = 0}, out;
    struct signer_statistics counts;
    mesh_open(&mesh);
    add_founder(&mesh, &in);
    add_plain(&mesh, &in, &mesh.founder, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(filter(&mesh, &in, &out), in.count);
    }
    signer_statistics(mesh.signer, &counts);
    assert_int_equal(counts.verified, 2);
    assert_int_equal(counts.cached, 4);
    in.bytes[in.count - 1] ^= 1;
    assert_true(filter(&mesh, &in, &out) < in.count);
    signer_close(&mesh.signer);
}

/* Blocks for the next result. */
static void take(struct mesh *mesh, struct signer_result *result)
{
    while (signer_next(mesh->signer, result) != 0) {
        struct pollfd item = {.fd = signer_fd(mesh->signer), .events = POLLIN};
        assert_int_equal(poll(&item, 1, PATIENCE_MS), 1);
    }
}

static void jobs_come_back_in_order(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list roster = {.count = 0}, strange = {.count = 0};
    mesh_open(&mesh);
    add_founder(&mesh, &roster);
    add_plain(&mesh, &strange, &mesh.late, 1);
    struct list own = {.count = 0};
    add_plain(&mesh, &own, &mesh.self, 5);
    memset(own.bytes + own.count - RECORD_SIGNATURE_BYTES, 0, RECORD_SIGNATURE_BYTES);
    uint8_t invite[32] = {3}, join[JOIN_REQUEST_BYTES_MAX];
    size_t join_bytes = join_request_encode(&mesh.member, mesh.id, invite, "ws-9", join);
    struct message message = {.kind = MESSAGE_RECORDS,
                              .boot = 77,
                              .want_stored = true,
                              .bytes = roster.bytes,
                              .byte_count = (uint32_t)roster.count};
    struct message unwanted = message;
    unwanted.bytes = strange.bytes;
    unwanted.byte_count = (uint32_t)strange.count;

    assert_int_equal(signer_verify(mesh.signer, mesh.founder.id, &message), 0);
    assert_int_equal(signer_verify(mesh.signer, mesh.founder.id, &unwanted), 0); /* leaves nothing */
    assert_int_equal(signer_sign(mesh.signer, 31, own.bytes, own.count), 0);
    assert_int_equal(signer_join(mesh.signer, 8, invite, join, join_bytes), 0);
    join[join_bytes - 1] ^= 1;
    assert_int_equal(signer_join(mesh.signer, 9, invite, join, join_bytes), 0);
    assert_int_equal(signer_sign(mesh.signer, 32, own.bytes, own.count - 1), ERR_MALFORMED);
    uint8_t long_join[JOIN_REQUEST_BYTES_MAX + 1] = {0};
    assert_int_equal(signer_join(mesh.signer, 9, invite, long_join, sizeof long_join), ERR_MALFORMED);

    struct signer_result result;
    take(&mesh, &result);
    assert_int_equal(result.kind, SIGNER_VERIFIED);
    assert_true(node_id_equal(result.from, mesh.founder.id));
    assert_int_equal(result.message.boot, 77);
    assert_true(result.message.want_stored);
    assert_int_equal(result.message.byte_count, roster.count);
    assert_memory_equal(result.message.bytes, roster.bytes, roster.count);
    take(&mesh, &result);
    assert_int_equal(result.kind, SIGNER_SIGNED);
    assert_int_equal(result.ticket, 31);
    assert_int_equal(keys_verify_record(mesh.self.sign_public, mesh.id, result.bytes, result.byte_count), 0);
    take(&mesh, &result);
    assert_int_equal(result.kind, SIGNER_JOIN);
    assert_int_equal(result.code, 0);
    assert_int_equal(result.client, 8);
    assert_memory_equal(result.invite_key, invite, 32);
    assert_string_equal(result.request.name, "ws-9");
    take(&mesh, &result);
    assert_int_equal(result.client, 9);
    assert_int_equal(result.code, ERR_AUTH);
    assert_int_equal(signer_next(mesh.signer, &result), ERR_AGAIN);
    struct pollfd item = {.fd = signer_fd(mesh.signer), .events = POLLIN};
    assert_int_equal(poll(&item, 1, 0), 0);
    signer_close(&mesh.signer);
}

static void a_full_queue_drops_others_records_but_signs_ours(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list roster = {.count = 0}, own = {.count = 0};
    mesh_open(&mesh);
    add_founder(&mesh, &roster);
    add_plain(&mesh, &own, &mesh.self, 5);
    struct message message = {.kind = MESSAGE_RECORDS, .bytes = roster.bytes, .byte_count = (uint32_t)roster.count};
    uint32_t accepted = 0;
    while (signer_verify(mesh.signer, mesh.founder.id, &message) == 0) { /* results are not taken, so it fills up */
        accepted++;
        assert_true(accepted <= SIGNER_JOBS_MAX);
    }
    assert_int_equal(accepted, SIGNER_JOBS_MAX - SIGNER_SIGN_RESERVE);
    for (uint64_t ticket = 1; ticket <= SIGNER_SIGN_RESERVE; ticket++) {
        assert_int_equal(signer_sign(mesh.signer, ticket, own.bytes, own.count), 0);
    }
    assert_int_equal(signer_sign(mesh.signer, 0, own.bytes, own.count), ERR_FULL);
    struct signer_statistics counts;
    signer_statistics(mesh.signer, &counts);
    assert_int_equal(counts.overflow, 2);
    struct signer_result result;
    for (uint32_t i = 0; i < accepted; i++) {
        take(&mesh, &result);
        assert_int_equal(result.kind, SIGNER_VERIFIED);
    }
    for (uint64_t ticket = 1; ticket <= SIGNER_SIGN_RESERVE; ticket++) {
        take(&mesh, &result);
        assert_int_equal(result.ticket, ticket);
    }
    assert_int_equal(signer_next(mesh.signer, &result), ERR_AGAIN);
    assert_int_equal(signer_verify(mesh.signer, mesh.founder.id, &message), 0); /* room again; closed while it works */
    signer_close(&mesh.signer);
}

static void a_flood_of_joins_leaves_room_for_members_and_our_own(void **state)
{
    (void)state;
    struct mesh mesh;
    struct list roster = {.count = 0}, own = {.count = 0};
    mesh_open(&mesh);
    add_founder(&mesh, &roster);
    add_plain(&mesh, &own, &mesh.self, 5);
    uint8_t invite[32] = {3}, join[JOIN_REQUEST_BYTES_MAX];
    size_t join_bytes = join_request_encode(&mesh.member, mesh.id, invite, "ws-9", join);
    for (uint64_t client = 1; client <= SIGNER_JOBS_MAX; client++) { /* results are not taken, so they wait */
        assert_int_equal(signer_join(mesh.signer, client, invite, join, join_bytes), client <= SIGNER_JOINS_MAX ? 0 : ERR_FULL);
    }
    struct message message = {.kind = MESSAGE_RECORDS, .bytes = roster.bytes, .byte_count = (uint32_t)roster.count};
    assert_int_equal(signer_verify(mesh.signer, mesh.founder.id, &message), 0);
    assert_int_equal(signer_sign(mesh.signer, 1, own.bytes, own.count), 0);
    struct signer_result result;
    for (int i = 0; i < SIGNER_JOINS_MAX; i++) {
        take(&mesh, &result);
        assert_int_equal(result.kind, SIGNER_JOIN);
    }
    take(&mesh, &result);
    assert_int_equal(result.kind, SIGNER_VERIFIED);
    for (int i = 0; i < SIGNER_JOINS_MAX; i++) { /* and there is room for joins again */
        assert_int_equal(signer_join(mesh.signer, 1, invite, join, join_bytes), 0);
    }
    signer_close(&mesh.signer);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_founder_and_whom_members_name_are_known),
        cmocka_unit_test(unknown_writers_are_dropped_until_they_are_named),
        cmocka_unit_test(our_own_records_are_known_from_the_start),
        cmocka_unit_test(another_founder_is_not_believed),
        cmocka_unit_test(forgeries_are_dropped_and_their_neighbours_kept),
        cmocka_unit_test(what_follows_no_record_is_lost),
        cmocka_unit_test(what_was_verified_lately_is_remembered_to_the_byte),
        cmocka_unit_test(jobs_come_back_in_order),
        cmocka_unit_test(a_full_queue_drops_others_records_but_signs_ours),
        cmocka_unit_test(a_flood_of_joins_leaves_room_for_members_and_our_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
