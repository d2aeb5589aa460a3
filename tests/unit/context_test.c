/* What of a directory travels: compared with git's own answer on random repositories; .shoalignore; the built-in list; odd files;
 * links that lead out; git's file formats. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "base/visible.h"
#include "store/archive.h"
#include "store/component.h"
#include "store/context.h"
#include "store/git_format.h"

#define TEXT_BYTES (64u * 1024)

struct place {
    char dir[64];
    char error[CONTEXT_ERROR_BYTES];
    char text[TEXT_BYTES];
};

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return -1;
    }
    (void)snprintf(place->dir, sizeof place->dir, "/tmp/shoal-context-test-XXXXXX");
    *state = place;
    return mkdtemp(place->dir) != NULL ? 0 : -1;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    char command[192];
    (void)snprintf(command, sizeof command, "chmod -R u+rwX %s; rm -rf %s", place->dir, place->dir);
    int rc = system(command);
    free(place);
    return rc;
}

/* Runs a shell script in the place, with a home of its own, so that no configuration of git's counts but the test's. */
static void script(const struct place *place, const char *text)
{
    char *command;
    assert_true(asprintf(&command,
                         "cd %s && export HOME=$PWD/home XDG_CONFIG_HOME= GIT_CONFIG_NOSYSTEM=1 LC_ALL=C && { %s; }",
                         place->dir, text) > 0);
    if (system(command) != 0) {
        fail_msg("the script failed: %s", text);
    }
    free(command);
}

/* What a script writes. */
static char *output(struct place *place, const char *text)
{
    char *whole;
    assert_true(asprintf(&whole, "{ %s; } >%s/output", text, place->dir) > 0);
    script(place, whole);
    free(whole);
    char path[96];
    (void)snprintf(path, sizeof path, "%s/output", place->dir);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t count = fread(place->text, 1, TEXT_BYTES - 1, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(unlink(path), 0);
    place->text[count] = '\0';
    return place->text;
}

static bool has_git(void)
{
    return system("git --version >/dev/null 2>&1") == 0;
}

static struct context_list *list_with(struct place *place, const char *name, enum context_links links, int *rc)
{
    char path[256], home[96];
    (void)snprintf(path, sizeof path, "%s/%s", place->dir, name);
    (void)snprintf(home, sizeof home, "%s/home", place->dir);
    const struct context_options options = {.links = links, .git = {.home = home}};
    struct context_list *list = NULL;
    place->error[0] = '\0';
    *rc = context_list(path, &options, &list, place->error);
    assert_true((*rc == 0) == (place->error[0] == '\0'));
    assert_true(strchr(place->error, '\n') == NULL && strlen(place->error) < CONTEXT_ERROR_BYTES - 1);
    return list;
}

/* The files and links that travel, "a b/c ", by the order of their paths. */
static const char *files_of(const struct context_list *list, char *out)
{
    out[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        if (!S_ISDIR(list->entries[i].mode)) {
            (void)strcat(strcat(out, list->entries[i].path), " ");
        }
    }
    return out;
}

static void assert_files(struct place *place, const char *name, const char *expected)
{
    int rc;
    struct context_list *list = list_with(place, name, CONTEXT_LINKS_REFUSE, &rc);
    if (rc != 0) {
        fail_msg("%s", place->error);
    }
    assert_string_equal(files_of(list, place->text), expected);
    context_list_free(&list);
}

static void assert_refused(struct place *place, const char *name, int expected, const char *part)
{
    int rc;
    (void)list_with(place, name, CONTEXT_LINKS_REFUSE, &rc);
    assert_int_equal(rc, expected);
    if (strstr(place->error, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, place->error);
    }
}

static const struct context_left *left_of(const struct context_list *list, const char *path)
{
    for (size_t i = 0; i < list->left_count; i++) {
        if (strcmp(list->left[i].path, path) == 0) {
            return &list->left[i];
        }
    }
    fail_msg("%s is not told to stay behind", path);
    return NULL;
}

/* ---- git's answer -------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"a",   "b",    "ab",   "A",     "a.b", "x y", "d",  "e",       "[a]", "a*",
                                    "-",   "a ",   "#a",   "!a",    "dd",  "Dd",  "\\", "\xc3\xa4", "a\v", "z.json",
                                    "a\tb", "d.py", "logs", "build"};
static const char *const parts[] = {"a",     "b",     "ab",   "A",      "d",  "e",         "dd", "*",           "*",  "**", "?",
                                    "/",     "/",     "/",    "!",      "\\", " ",         ".",  "\n",          "\n", "\n", "\n",
                                    "[ab]",  "[!a]",  "[a-",  "]",      "-",  "[]-]",      "#",  "[[:alpha:]]", "[",  ":",  "***",
                                    "/**/",  "**/",   "/**",  "*.json", "!d", "[[:space:]]", "\\ ", "logs",     "\r", "x y", "*/",
                                    "[[:upper:]]", "[A-D]", "\xc3\xa4", "[^\\]]", "\\*", "[a-c-e]"};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void write_rules(const struct place *place, struct random *random, const char *name)
{
    char path[192], rules[512];
    size_t used = 0;
    for (uint64_t i = 1 + random_below(random, 16); i > 0; i--) {
        const char *part = parts[random_below(random, COUNT(parts))];
        /* A run of stars that is no whole name of a path is left out: git up to 2.40 compares unrelated pointers there
         * (wildmatch.c, prev_p < text), and takes the run now for one star, as documented, now for a component. */
        bool begins = used == 0 || rules[used - 1] == '/' || rules[used - 1] == '\n';
        if (part[0] == '*' && !begins) {
            part = rules[used - 1] == '*' ? "a" : "?";
        }
        memcpy(rules + used, part, strlen(part));
        used += strlen(part);
    }
    rules[used++] = '\n';
    (void)snprintf(path, sizeof path, "%s/%s", place->dir, name);
    FILE *file = fopen(path, "we");
    if (file != NULL) { /* the directory may not be there in this round */
        assert_int_equal(fwrite(rules, 1, used, file), used);
        assert_int_equal(fclose(file), 0);
    }
}

static void make_tree(const struct place *place, struct random *random, const char *dir, unsigned depth)
{
    for (uint64_t i = 2 + random_below(random, 6); i > 0; i--) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[random_below(random, COUNT(names))]);
        if (depth < 3 && random_below(random, 2) == 0) {
            if (mkdir(path, 0755) == 0) {
                make_tree(place, random, path, depth + 1);
            }
        } else {
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
            if (fd >= 0) {
                close(fd);
            }
        }
    }
}

/* Compares with `git ls-files`; the paths come with a NUL behind each, in the order of their bytes. */
static unsigned compare(struct place *place, const char *context, int round)
{
    char command[512];
    int rc;
    (void)snprintf(command, sizeof command,
                   "(cd %s && git ls-files -co --exclude-standard -z | sort -zu) && rm -f nothing", context);
    const char *git = output(place, command);
    struct context_list *list = list_with(place, context, CONTEXT_LINKS_REFUSE, &rc);
    if (rc != 0) {
        fail_msg("round %d: %s", round, place->error);
    }
    size_t file_count = 0;
    unsigned count = 0;
    const char **ours = calloc(list->count + 1, sizeof *ours);
    assert_non_null(ours);
    for (size_t i = 0; i < list->count; i++) {
        if (!S_ISDIR(list->entries[i].mode)) {
            ours[file_count++] = list->entries[i].path;
        }
    }
    for (; *git != '\0'; git += strlen(git) + 1, count++) {
        bool found = false;
        for (size_t i = 0; i < file_count; i++) {
            found = found || strcmp(ours[i], git) == 0;
        }
        if (!found) {
            fail_msg("round %d, in %s/%s: %s travels with git, and not here", round, place->dir, context, git);
        }
    }
    if (count != file_count) {
        for (size_t i = 0; i < file_count; i++) {
            print_message("here: %s\n", ours[i]);
        }
        fail_msg("round %d, in %s/%s: %u files with git, %zu here", round, place->dir, context, count, file_count);
    }
    free(ours);
    context_list_free(&list);
    return count;
}

static void random_repositories_agree_with_git(void **state)
{
    struct place *place = *state;
    if (!has_git()) {
        print_message("skipped: no git to compare with\n");
        skip();
    }
    struct random random;
    random_init(&random, 20817);
    unsigned count = 0;
    for (int round = 0; round < 120; round++) {
        char tree[96];
        script(place, "rm -rf r home && mkdir -p r home/.config/git r/d r/d/e && cd r && git init -q . 2>/dev/null");
        (void)snprintf(tree, sizeof tree, "%s/r", place->dir);
        make_tree(place, &random, tree, 0);
        if (random_below(&random, 3) == 0) {
            script(place, "cd r && git add . 2>/dev/null; touch new"); /* tracked before the rules are written */
        }
        if (random_below(&random, 6) == 0) {
            script(place, "cd r && git update-index --index-version 4");
        }
        static const char *const files[] = {"r/.gitignore", "r/d/.gitignore", "r/d/e/.gitignore", "r/e/.gitignore",
                                            "r/.git/info/exclude"};
        for (size_t i = 0; i < COUNT(files); i++) {
            if (random_below(&random, 2) == 0) {
                write_rules(place, &random, files[i]);
            }
        }
        if (random_below(&random, 3) == 0) {
            write_rules(place, &random, "home/.config/git/ignore");
        }
        if (random_below(&random, 4) == 0) {
            script(place, "cd r && git config core.ignorecase true");
        }
        if (random_below(&random, 4) == 0) {
            write_rules(place, &random, "home/mine");
            script(place, "printf '[core]\\n\\texcludesFile = \"~/mi\\\\\nne\" ; mine\\n' >home/more && printf "
                          "'[include]\\npath = more\\n' >home/.gitconfig");
        }
        count += compare(place, "r", round);
        /* The rules of the directories above count; not where they leave out the directory itself, which git then calls empty. */
        if (random_below(&random, 2) == 0) {
            char *ignored = output(place, "cd r && git check-ignore --no-index d d/e; true");
            if (ignored[0] == '\0') {
                count += compare(place, "r/d", round);
                count += compare(place, "r/d/e", round);
            }
        }
    }
    assert_in_range(count, 500, 100000);
}

static void a_work_tree_of_its_own_has_the_rules_of_all(void **state)
{
    struct place *place = *state;
    if (!has_git()) {
        skip();
    }
    script(place, "mkdir home && git init -q r 2>/dev/null && cd r && git config user.name n && git config user.email e && "
                  "echo '*.log' >.gitignore && mkdir sub && touch a sub/b kept.log && git add -f . && git commit -qm x && "
                  "git worktree add -q ../w 2>/dev/null && echo big.bin >.git/info/exclude && cd ../w && touch big.bin new.log "
                  "sub/new.log sub/c");
    assert_int_equal(compare(place, "w", 0), 5);
    assert_files(place, "w", ".gitignore a kept.log sub/b sub/c ");
    assert_files(place, "w/sub", "b c ");
}

static void a_submodule_travels_by_its_own_rules(void **state)
{
    struct place *place = *state;
    if (!has_git()) {
        skip();
    }
    script(place, "mkdir home && export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e && "
                  "git init -q lib 2>/dev/null && (cd lib && touch x.py y.log && echo '*.o' >.gitignore && git add . && git "
                  "commit -qm x) && git init -q r 2>/dev/null && cd r && printf '*.log\\nthird/\\n' >.gitignore && touch a b.log && "
                  "git -c protocol.file.allow=always submodule --quiet add -f ../lib third/lib 2>/dev/null && touch "
                  "third/lib/z.o third/lib/z.log third/other");
    assert_files(place, "r", ".gitignore .gitmodules a third/lib/.gitignore third/lib/x.py third/lib/y.log third/lib/z.log ");
}

static void a_directory_that_is_named_travels_though_it_is_ignored(void **state)
{
    struct place *place = *state;
    if (!has_git()) {
        skip();
    }
    script(place, "mkdir home && git init -q r 2>/dev/null && mkdir -p r/runs/one && cd r/runs/one && echo runs/ >../../.gitignore && "
                  "touch train.py x.log && echo '*.log' >.gitignore");
    assert_files(place, "r/runs/one", ".gitignore train.py ");
}

static void without_a_repository_the_files_inside_count(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p in/src in/.git && cd in && touch a.log src/a.log src/b .git/config && echo '*.log' >.gitignore && "
                  "echo '!a.log' >src/.gitignore");
    assert_files(place, "in", ".gitignore src/.gitignore src/a.log src/b ");
}

/* ---- the built-in list and .shoalignore ------------------------------------------------------------------------------ */

static void what_is_never_code_stays_behind(void **state)
{
    struct place *place = *state;
    int rc;
    script(place, "mkdir -p c/.venv/bin c/myenv/bin c/src/__pycache__ c/node_modules/x c/.ipynb_checkpoints c/wandb/run c/mlruns c/shoal-runs && "
                  "cd c && ln -s /usr/bin/python3 .venv/bin/python && ln -s /usr/bin/python3 myenv/bin/python && echo home >myenv/pyvenv.cfg "
                  "&& touch src/a.py src/__pycache__/a.pyc node_modules/x/y wandb/run/z shoal-runs/metrics.jsonl && echo file >mlruns/meta && touch notes && "
                  "mkdir venv && touch venv/module.py && mkfifo node_modules/pipe && chmod 0 .ipynb_checkpoints");
    struct context_list *list = list_with(place, "c", CONTEXT_LINKS_REFUSE, &rc);
    assert_int_equal(rc, 0);
    assert_string_equal(files_of(list, place->text), "notes src/a.py venv/module.py ");
    assert_int_equal(list->left_count, 8);
    assert_string_equal(left_of(list, "shoal-runs")->why, "never code"); /* where the Python package writes outside Shoal */
    assert_true(left_of(list, "myenv")->is_standard && left_of(list, "myenv")->is_directory);
    assert_string_equal(left_of(list, ".venv")->why, "never code");
    assert_true(left_of(list, "mlruns")->has_bytes);
    assert_int_equal(left_of(list, "mlruns")->bytes, 5);
    context_list_free(&list);
    script(place, "printf '!__pycache__/\\n!/mlruns/meta\\n!wandb\\n' >c/.shoalignore");
    assert_files(place, "c", ".shoalignore mlruns/meta notes src/__pycache__/a.pyc src/a.py venv/module.py wandb/run/z ");
}

/* With the key of a node another one could speak in its name. */
static void data_of_a_node_never_travels(void **state)
{
    struct place *place = *state;
    int rc;
    script(place, "mkdir -p c/.local/lab/state c/notes/state c/elsewhere && cd c && touch train.py .local/lab/lock .local/lab/key "
                  ".local/lab/state/data.mdb notes/state/data.mdb && printf '!lab/\n!key\n' >.shoalignore && { git init -q . && "
                  "git add -f .local/lab/key || true; } && ln -s ../.local/lab elsewhere/lab && mkdir ../d && ln -s ../c/.local/lab ../d/lab");
    struct context_list *list = list_with(place, "c", CONTEXT_LINKS_REFUSE, &rc);
    assert_int_equal(rc, 0);
    assert_string_equal(files_of(list, place->text), ".shoalignore elsewhere/lab notes/state/data.mdb train.py ");
    assert_string_equal(left_of(list, ".local/lab")->why, "a node's data and private key");
    context_list_free(&list);
    list = list_with(place, "d", CONTEXT_LINKS_FOLLOW, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(list->count, 0);
    assert_string_equal(left_of(list, "lab")->why, "a node's data and private key");
    context_list_free(&list);
    assert_refused(place, "c/.local/lab", ERR_REFUSED, "is the data directory of a node, with its private key");
}

static void shoalignore_adds_and_brings_back(void **state)
{
    struct place *place = *state;
    int rc;
    script(place, "mkdir -p c/build/deep c/data/raw c/secret && cd c && touch build/gen.py build/other build/deep/keep.bin data/x "
                  "data/raw/y secret/key a.json b.json t.py && printf '/build/\\n*.json\\nsecret/\\n' >.gitignore");
    assert_files(place, "c", ".gitignore data/raw/y data/x t.py ");
    script(place, "printf '!build/gen.py\\n!/a.json\\ndata/raw/\\n!key\\n' >c/.shoalignore");
    struct context_list *list = list_with(place, "c", CONTEXT_LINKS_REFUSE, &rc);
    assert_int_equal(rc, 0);
    assert_string_equal(files_of(list, place->text), ".gitignore .shoalignore a.json build/gen.py data/x t.py ");
    assert_string_equal(left_of(list, "data/raw")->why, ".shoalignore:3");
    assert_string_equal(left_of(list, "b.json")->why, ".gitignore:2");
    assert_string_equal(left_of(list, "build")->why, ".gitignore:1, in part");
    assert_true(left_of(list, "build")->is_directory); /* and nothing of what is in it */
    context_list_free(&list);
    script(place, "printf '!build/**/*.bin\\n!secret/\\n*.py\\n' >c/.shoalignore && echo '!t.py' >c/build/.shoalignore");
    assert_files(place, "c", ".gitignore .shoalignore build/deep/keep.bin data/raw/y data/x secret/key ");
    script(place, "printf 'build/\\n!build/gen.py\\n' >c/.shoalignore"); /* as with git, in one file of rules */
    assert_files(place, "c", ".gitignore .shoalignore data/raw/y data/x t.py ");
    script(place, "mkdir c/data/sub && touch c/data/sub/n && printf '*\\n!*.json\\n' >c/data/.shoalignore && touch c/data/q.json");
    assert_files(place, "c", ".gitignore .shoalignore data/q.json t.py ");
}

static void tracked_files_travel_though_they_are_ignored(void **state)
{
    struct place *place = *state;
    if (!has_git()) {
        skip();
    }
    script(place, "mkdir home && git init -q c 2>/dev/null && cd c && mkdir -p wandb/sdk out && touch wandb/sdk/a.py out/log && git add "
                  "-f . && echo 'out/' >.gitignore && touch wandb/new out/new");
    assert_files(place, "c", ".gitignore out/log wandb/sdk/a.py ");
    script(place, "echo out/ >c/.shoalignore");
    assert_files(place, "c", ".gitignore .shoalignore wandb/sdk/a.py ");
    script(place, "echo garbage >c/.git/index");
    int rc;
    struct context_list *list = list_with(place, "c", CONTEXT_LINKS_REFUSE, &rc);
    assert_int_equal(rc, 0);
    assert_true(list->is_index_unreadable);
    assert_string_equal(files_of(list, place->text), ".gitignore .shoalignore ");
    context_list_free(&list);
}

/* ---- odd files ------------------------------------------------------------------------------------------------------ */

static void odd_names_arrive_byte_for_byte(void **state)
{
    struct place *place = *state;
    int rc;
    script(place, "mkdir -p c/empty out && cd c && touch \"$(printf 'caf\\351.txt')\" \"$(printf 'a\\nb')\" ./-rf \"$(printf "
                  "'\\360\\237\\220\\237')\" \"$(printf 'e\\033[31m')\" && echo 1 >one && ln one two && ln -s b a && ln -s a b && ln -s "
                  "nowhere dangling && truncate -s 300M sparse && mkfifo pipe && : >gone");
    struct context_list *list = list_with(place, "c", CONTEXT_LINKS_REFUSE, &rc);
    assert_int_equal(rc, 0);
    assert_string_equal(left_of(list, "pipe")->why, "a pipe");
    /* Files change while they are packed: one grows, one becomes shorter, one vanishes. */
    script(place, "cd c && rm gone && echo more >>one && truncate -s 1M sparse");
    int fd = memfd_create("archive", MFD_CLOEXEC);
    char out[96];
    (void)snprintf(out, sizeof out, "%s/out/c", place->dir);
    if (archive_pack(list, fd, NULL, place->error, sizeof place->error) != 0) {
        fail_msg("%s", place->error);
    }
    context_list_free(&list);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fd, out, 0, ARCHIVE_LINKS_INSIDE, place->error, sizeof place->error), 0);
    close(fd);
    script(place, "rm c/pipe; echo 1 >c/one; diff -r --no-dereference c out/c");
}

/* Directories with names of 240 bytes, one in the other: more than a shell can enter. */
static void make_deep(const struct place *place, const char *name, unsigned depth)
{
    char path[128], long_name[241];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    (void)snprintf(path, sizeof path, "%s/%s", place->dir, name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(fd, long_name, 0755), 0);
        int next = openat(fd, long_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
}

static void a_refusal_is_one_sentence_with_the_path(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p l deep long && ln -s /srv/data \"$(printf 'l/a\\nb')\" && cd deep && for i in $(seq 70); do mkdir d && "
                  "cd d; done; cd ../../long 2>/dev/null || true");
    assert_refused(place, "l", ERR_REFUSED, "/l/a\\nb leads out of the directory, to /srv/data");
    assert_refused(place, "deep", ERR_FULL, "more than 64 directories deep");
    assert_refused(place, "absent", ERR_NOT_FOUND, "absent");
    script(place, "mkdir n");
    make_deep(place, "n", 18);
    assert_refused(place, "n", ERR_FULL, "longer than 4095 bytes");
    script(place, "mkdir -p s && head -c 1100000 /dev/zero >s/.gitignore");
    assert_refused(place, "s", ERR_FULL, "s/.gitignore is larger than");
    if (geteuid() != 0) {
        script(place, "mkdir -p u/d && touch u/secret && chmod 0 u/d");
        assert_refused(place, "u", ERR_IO, "u/d: Permission denied");
        script(place, "echo d/ >u/.shoalignore");
        assert_files(place, "u", ".shoalignore secret ");
    }
}

static void a_link_stays_if_it_climbs_no_higher_than_the_root(void **state)
{
    (void)state;
    static const struct {
        const char *path, *target;
        bool stays;
    } cases[] = {{"a", "b", true},          {"a", "b/c", true},     {"a", "../b", false},      {"a", "/b", false},
                 {"a", "", false},          {"a/b", "../c", true},  {"a/b", "../../c", false}, {"a/b", "./..//c", true},
                 {"a//./b", "../../c", false}, {"a/b", "c/../d", false}, {"a/b/c", "../../d", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(component_link_stays(cases[i].path, cases[i].target), cases[i].stays);
    }
}

static void links_out_are_kept_or_followed_by_key(void **state)
{
    struct place *place = *state;
    int rc;
    script(place, "mkdir -p c srv/data/v3 && echo 3 >srv/data/v3/x && ln -s v3 srv/data/latest && echo f >srv/file && cd c && ln -s "
                  "../srv/data data && ln -s $(dirname $PWD)/srv/file file && mkdir in && touch in/y && ln -s in/y inside");
    assert_refused(place, "c", ERR_REFUSED, "c/data leads out of the directory, to ../srv/data");
    struct context_list *list = list_with(place, "c", CONTEXT_LINKS_KEEP, &rc);
    assert_int_equal(rc, 0);
    assert_string_equal(files_of(list, place->text), "data file in/y inside ");
    int fd = memfd_create("archive", MFD_CLOEXEC);
    char out[96];
    (void)snprintf(out, sizeof out, "%s/out", place->dir);
    assert_int_equal(archive_pack(list, fd, NULL, place->error, sizeof place->error), 0);
    context_list_free(&list);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fd, out, 0, ARCHIVE_LINKS_INSIDE, place->error, sizeof place->error), ERR_REFUSED);
    script(place, "rm -rf out");
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fd, out, 0, ARCHIVE_LINKS_ANY, place->error, sizeof place->error), 0);
    close(fd);
    script(place, "test \"$(readlink out/data)\" = ../srv/data && test \"$(readlink out/file)\" = $PWD/srv/file");
    list = list_with(place, "c", CONTEXT_LINKS_FOLLOW, &rc);
    assert_int_equal(rc, 0);
    assert_string_equal(files_of(list, place->text), "data/latest data/v3/x file in/y inside ");
    fd = memfd_create("archive", MFD_CLOEXEC);
    script(place, "rm -rf out");
    assert_int_equal(archive_pack(list, fd, NULL, place->error, sizeof place->error), 0);
    context_list_free(&list);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fd, out, 0, ARCHIVE_LINKS_INSIDE, place->error, sizeof place->error), 0);
    close(fd);
    script(place, "test -d out/data && test \"$(cat out/data/latest/x)\" = 3 && test \"$(cat out/file)\" = f");
    script(place, "ln -s $PWD c/up");
    (void)list_with(place, "c", CONTEXT_LINKS_FOLLOW, &rc);
    assert_int_equal(rc, ERR_REFUSED);
    assert_non_null(strstr(place->error, "leads back"));
}

/* ---- pieces --------------------------------------------------------------------------------------------------------- */

static void text_of_strangers_is_made_visible(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } rows[] = {{"plain", "plain"},
                {"a\nb\t\r\x1b[1m\\", "a\\nb\\t\\r\\x1b[1m\\\\"},
                {"caf\xc3\xa9 \xf0\x9f\x90\x9f", "caf\xc3\xa9 \xf0\x9f\x90\x9f"},
                {"caf\xe9.txt", "caf\\xe9.txt"},
                {"\xc2\x9b\xc0\xaf\xed\xa0\x80", "\\xc2\\x9b\\xc0\\xaf\\xed\\xa0\\x80"},
                {"\xe2\x80\xae", "\\xe2\\x80\\xae"}, /* turns the direction of text */
                {"\xc3", "\\xc3"},
                {"", ""}};
    char out[64];
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(visible_text(out, sizeof out, rows[i].bytes), strlen(rows[i].text));
        assert_string_equal(out, rows[i].text);
    }
    assert_int_equal(visible_text(out, 16, "0123456789abcde"), 15);
    (void)visible_text(out, 16, "0123456789abcdef");
    assert_string_equal(out, "01234 ... bcdef");
    for (size_t size = 16; size < 40; size++) {
        char long_text[256];
        memset(long_text, 0xe9, sizeof long_text - 1);
        long_text[sizeof long_text - 1] = '\0';
        assert_in_range(visible_text(out, size, long_text), 4, size - 1);
    }
}

static void configuration_is_read_as_git_writes_it(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf; c\n[core]\n\tbare\n  excludesFile = ~/a b \\\n c ; no\n[ core ]x\n";
    static const char quoted[] = "[Core] excludesfile=\"a;b\\\" \" c\n[include \"x\"]path=y\n[core.sub]k=v\n";
    struct git_config config;
    git_config_begin(&config, text, sizeof text - 1);
    assert_true(git_config_next(&config));
    assert_string_equal(config.key, "bare");
    assert_true(git_config_truth(config.value));
    assert_true(git_config_next(&config));
    assert_string_equal(config.value, "~/a b  c");
    git_config_begin(&config, quoted, sizeof quoted - 1);
    assert_true(git_config_next(&config));
    assert_string_equal(config.section, "core");
    assert_string_equal(config.value, "a;b\"  c");
    assert_true(git_config_next(&config));
    assert_true(config.has_subsection);
    assert_true(git_config_next(&config));
    assert_true(config.has_subsection);
    assert_false(git_config_next(&config));
    assert_true(git_config_truth("Yes") && !git_config_truth("no") && !git_config_truth("yess"));
}

static void a_damaged_index_is_refused(void **state)
{
    struct place *place = *state;
    if (!has_git()) {
        skip();
    }
    script(place, "mkdir home && git init -q r 2>/dev/null && cd r && mkdir d && touch a d/b d/c long-name && git add .");
    for (int version = 2; version <= 4; version += 2) {
        char command[128], path[128], name[64];
        (void)snprintf(command, sizeof command, "cd r && git update-index --index-version %d", version);
        script(place, command);
        (void)snprintf(path, sizeof path, "%s/r/.git/index", place->dir);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        uint8_t bytes[2048], damaged[2048];
        size_t count = fread(bytes, 1, sizeof bytes, file);
        assert_int_equal(fclose(file), 0);
        struct random random;
        random_init(&random, 5);
        for (int round = 0; round < 20000; round++) {
            struct git_index index;
            memcpy(damaged, bytes, count);
            for (uint64_t i = random_below(&random, 4); i > 0; i--) {
                damaged[random_below(&random, count)] = (uint8_t)random_u64(&random);
            }
            size_t cut = random_below(&random, 3) == 0 ? random_below(&random, count) : count;
            uint8_t *exact = malloc(cut + 1); /* so that the sanitizer sees a read behind the end */
            assert_non_null(exact);
            memcpy(exact, damaged, cut);
            int rc = git_index_begin(&index, exact, cut, 20, name, sizeof name);
            unsigned paths = 0;
            while (rc == 0 && git_index_next(&index, &rc)) {
                assert_true(index.path_bytes < sizeof name && name[index.path_bytes] == '\0');
                paths++;
            }
            assert_true(paths <= 2048);
            free(exact);
        }
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(random_repositories_agree_with_git),
        TEST(a_work_tree_of_its_own_has_the_rules_of_all),
        TEST(a_submodule_travels_by_its_own_rules),
        TEST(a_directory_that_is_named_travels_though_it_is_ignored),
        TEST(without_a_repository_the_files_inside_count),
        TEST(what_is_never_code_stays_behind),
        TEST(data_of_a_node_never_travels),
        TEST(shoalignore_adds_and_brings_back),
        TEST(tracked_files_travel_though_they_are_ignored),
        TEST(odd_names_arrive_byte_for_byte),
        TEST(a_refusal_is_one_sentence_with_the_path),
        TEST(a_link_stays_if_it_climbs_no_higher_than_the_root),
        TEST(links_out_are_kept_or_followed_by_key),
        cmocka_unit_test(text_of_strangers_is_made_visible),
        cmocka_unit_test(configuration_is_read_as_git_writes_it),
        TEST(a_damaged_index_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
