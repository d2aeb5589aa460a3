/* completion: scripts for shells, written from the table of commands, so that a new command or option is in all of them.
 *
 * A script has two parts: what the table says (names, options, operands, help), and an engine that never changes. What an
 * operand or a value is completed with follows from its name in the table (struct source). The options of shoald are read from
 * `shoald --help` when the user asks. */

#include <string.h>

#include "tools/shoal/cli.h"

#define WORD_BYTES 64

/* The first word of a command's name, and behind it the second one, or NULL. */
static const char *split(const struct command *command, char first[WORD_BYTES])
{
    size_t bytes = strcspn(command->name, " ");
    (void)snprintf(first, WORD_BYTES, "%.*s", (int)bytes, command->name);
    return command->name[bytes] == ' ' ? command->name + bytes + 1 : NULL;
}

/* True for the first command of the table with its first word. */
static bool is_first_of_group(const struct command *command)
{
    char first[WORD_BYTES], other[WORD_BYTES];
    (void)split(command, first);
    for (const struct command *before = cli_commands; before != command; before++) {
        (void)split(before, other);
        if (strcmp(first, other) == 0) {
            return false;
        }
    }
    return true;
}

/* One word of `operands`, like "EXP/TRIAL[@STEP]" or "[SLOT]...". */
struct operand {
    char name[WORD_BYTES]; /* without brackets and dots around it */
    bool is_optional, repeats;
};

/* Reads the next operand at `*at` and steps behind it; false at the end. */
static bool next_operand(const char **at, struct operand *out)
{
    *at += strspn(*at, " ");
    size_t bytes = strcspn(*at, " "), used = 0;
    if (bytes == 0) {
        return false;
    }
    memset(out, 0, sizeof *out);
    out->is_optional = **at == '[';
    for (size_t i = 0; i < bytes && used + 1 < sizeof out->name; i++) {
        char c = (*at)[i];
        out->repeats |= c == '.';
        if (c != '[' && c != ']' && c != '.') {
            out->name[used++] = c;
        }
    }
    *at += bytes;
    return true;
}

/* What operands and values are completed with, by their names. */
enum kind { KIND_NONE, KIND_EXPERIMENT, KIND_TRIAL, KIND_NODE, KIND_SLOT, KIND_INVITE, KIND_KEY, KIND_FILE, KIND_DIR, KIND_SHELL, KIND_STATE, KIND_COLUMN,
            KIND_SECRET, KIND_MODEL, KIND_WEBHOOK, KIND_WEBHOOK_EVENT, KIND_EVENT, KIND_USAGE };

#define STATE_WORDS "queued running paused completed cancelled failed"
#define WEBHOOK_EVENT_WORDS "completed failed best node_lost"
#define COLUMN_WORDS \
    "id name state trials total queued running completed failed stopped best metric best_trial coordinator term submitted " \
    "user labels description pinned archived priority waiting"
#define USAGE_WORDS "user label model node day month"
#define EVENT_WORDS "node slot experiment trial worker checkpoint"

static enum kind kind_of(const char *name)
{
    static const struct {
        const char *name;
        enum kind kind;
    } rows[] = {{"EXP", KIND_EXPERIMENT}, {"EXP/TRIAL", KIND_TRIAL}, {"EXP/TRIAL@STEP", KIND_TRIAL}, {"NODE", KIND_NODE},
                {"SLOT", KIND_SLOT},      {"ID", KIND_INVITE},       {"KEY=VALUE", KIND_KEY},        {"FILE", KIND_FILE},
                {"DIR", KIND_DIR},        {"SHELL", KIND_SHELL},     {"STATE", KIND_STATE},        {"COLUMN", KIND_COLUMN},
                {"SECRET", KIND_SECRET},  {"MODEL", KIND_MODEL}, {"WEBHOOK", KIND_WEBHOOK}, {"KIND", KIND_EVENT}, {"WHAT", KIND_USAGE}, {"EVENT", KIND_WEBHOOK_EVENT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(name, rows[i].name) == 0) {
            return rows[i].kind;
        }
    }
    return KIND_NONE;
}

/* What the daemon, or shoal itself, lists: the name of the shell's function, a request, and the awk program that finds the
 * candidates in the answer. Those of names without blanks; none without a daemon. */
struct source {
    const char *function, *request, *awk;
};

static const struct source sources[] = {
    {"experiments", "ls", "NR > 1 { print $1; print $2 }"},
    {"nodes", "nodes", "NR > 1 { print $1 }"},
    {"slots", "slots", "NR > 1 { print $2 }"},
    {"invites", "invite --list", "NR > 1 { print $1 }"},
    {"secrets", "secret ls", "NR > 1 { print $1 }"},
    {"models", "model ls", "NR > 1 { print $1 }"},
    {"webhooks", "webhook ls", "NR > 1 { print $1 }"},
    {"keys", "submit --help-config", "/^[a-z_.]+  [(]/ { print $1 }"},
};

/* The trials of an experiment; its name is the variable e of awk. */
#define TRIALS_AWK "$1 ~ /^[*]?[0-9]+$/ { sub(/[*]/, \"\", $1); print e \"/\" $1 }"

/* Writes a shell's function for each source. */
static void write_sources(FILE *out, void (*write)(FILE *out, const struct source *source))
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        write(out, &sources[i]);
    }
}

/* Writes a text inside single quotes; `escaped` are the characters that get a backslash. A single quote becomes `quote`. */
static void write_quoted(FILE *out, const char *text, const char *escaped, const char *quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            (void)fputs(quote, out);
        } else {
            (void)fprintf(out, "%s%c", strchr(escaped, *text) != NULL ? "\\" : "", *text);
        }
    }
}

/* ---- bash -------------------------------------------------------------------------------------------------------------- */

static const char bash_engine[] =
    "_shoal_trials() {\n"
    "    timeout 1 shoal \"${dir[@]}\" show --all \"${current%%/*}\" 2>/dev/null | awk -v e=\"${current%%/*}\" '" TRIALS_AWK "'\n"
    "}\n"
    "\n"
    "_shoal_words() {\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
    "}\n"
    "\n"
    "# Candidates for an operand or a value, by its name in the help texts.\n"
    "_shoal_offer() {\n"
    "    case ${1//[\\[\\].]/} in\n"
    "    EXP) _shoal_words \"$(_shoal_experiments)\" ;;\n"
    "    EXP/*)\n"
    "        if [[ $current == */* ]]; then\n"
    "            _shoal_words \"$(_shoal_trials)\"\n"
    "        else\n"
    "            _shoal_words \"$(_shoal_experiments)\"\n"
    "            [[ $1 == EXP\\[* ]] || COMPREPLY=(\"${COMPREPLY[@]/%//}\")\n"
    "            compopt -o nospace 2>/dev/null\n"
    "        fi\n"
    "        ;;\n"
    "    NODE) _shoal_words \"$(_shoal_nodes)\" ;;\n"
    "    SLOT) _shoal_words \"$(_shoal_slots)\" ;;\n"
    "    ID) _shoal_words \"$(_shoal_invites)\" ;;\n"
    "    SECRET) _shoal_words \"$(_shoal_secrets)\" ;;\n"
    "    MODEL) _shoal_words \"$(_shoal_models)\" ;;\n"
    "    WEBHOOK) _shoal_words \"$(_shoal_webhooks)\" ;;\n"
    "    EVENT) _shoal_words '" WEBHOOK_EVENT_WORDS "' ;;\n"
    "    KEY=VALUE)\n"
    "        _shoal_words \"$(_shoal_keys)\"\n"
    "        COMPREPLY=(\"${COMPREPLY[@]/%/=}\")\n"
    "        compopt -o nospace 2>/dev/null\n"
    "        ;;\n"
    "    SHELL) _shoal_words 'bash zsh fish' ;;\n"
    "    STATE) _shoal_words '" STATE_WORDS "' ;;\n"
    "    COLUMN) _shoal_words '" COLUMN_WORDS "' ;;\n"
    "    KIND) _shoal_words '" EVENT_WORDS "' ;;\n"
    "    WHAT) _shoal_words '" USAGE_WORDS "' ;;\n"
    "    DIR)\n"
    "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    FILE)\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        ;;\n"
    "    esac\n"
    "    return 0\n"
    "}\n"
    "\n";

static const char bash_walk[] =
    "_shoal() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} options='' operands='' command='' first='' word='' name i\n"
    "    local -a dir=() places=() found=()\n"
    "    local -i at=0\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ $word == -* ]]; then\n"
    "            if [[ \" $_shoal_common $options \" == *\" $word=\"* ]]; then\n"
    "                [[ ${COMP_WORDS[i + 1]} != '=' ]] || ((i++))\n"
    "                [[ $word != --dir ]] || dir=(--dir \"${COMP_WORDS[i + 1]}\")\n"
    "                ((i++))\n"
    "            fi\n"
    "        elif [[ $word == '=' ]]; then # of --set KEY=VALUE, which bash cuts\n"
    "            ((i++))\n"
    "        elif [[ -n $command ]]; then\n"
    "            ((at++))\n"
    "        elif [[ -z $first ]] && _shoal_table \"$word\"; then\n"
    "            command=$word\n"
    "        elif [[ -z $first ]]; then\n"
    "            first=$word\n"
    "        elif [[ $first != help ]] && _shoal_table \"$first $word\"; then\n"
    "            command=\"$first $word\"\n"
    "        else\n"
    "            return 0\n"
    "        fi\n"
    "    done\n"
    "    if ((i > COMP_CWORD)); then # the value of the option before\n"
    "        [[ $current != '=' ]] || current=''\n"
    "        for name in $_shoal_common $options; do\n"
    "            [[ $name != \"$word=\"* ]] || _shoal_offer \"${name#*=}\"\n"
    "        done\n"
    "    elif [[ $current == -* ]]; then\n"
    "        for name in $_shoal_common $options; do\n"
    "            found+=(\"${name%%=*}\")\n"
    "        done\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"${found[*]}\" -- \"$current\")\n"
    "    elif [[ -z $command ]]; then\n"
    "        [[ -n $first ]] || found=(help)\n"
    "        for name in \"${_shoal_commands[@]}\"; do\n"
    "            if [[ -z $first || $first == help ]]; then\n"
    "                found+=(\"${name%% *}\")\n"
    "            elif [[ $name == \"$first \"* ]]; then\n"
    "                found+=(\"${name#* }\")\n"
    "            fi\n"
    "        done\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"${found[*]}\" -- \"$current\" | sort -u)\n"
    "    else\n"
    "        read -r -a places <<<\"$operands\"\n"
    "        if ((at >= ${#places[@]} && ${#places[@]} > 0)) && [[ ${places[-1]} == *... ]]; then\n"
    "            at=${#places[@]}-1\n"
    "        fi\n"
    "        _shoal_offer \"${places[at]-}\"\n"
    "    fi\n"
    "}\n"
    "\n"
    "_shoald() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    COMPREPLY=()\n"
    "    if [[ $previous == --dir ]]; then\n"
    "        _shoal_offer DIR\n"
    "    elif [[ $current == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$(shoald --help | grep -oE -- '--[a-z][a-z-]+' | sort -u)\" -- \"$current\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _shoal shoal\n"
    "complete -F _shoald shoald\n";

static void bash_options(FILE *out, const struct option_rule *rule)
{
    for (const char *before = ""; rule->name != NULL; rule++, before = " ") {
        (void)fprintf(out, "%s--%s%s%s", before, rule->name, rule->value != NULL ? "=" : "",
                      rule->value != NULL ? rule->value : "");
    }
}

static void bash_source(FILE *out, const struct source *source)
{
    (void)fprintf(out, "_shoal_%s() {\n    timeout 1 shoal \"${dir[@]}\" %s 2>/dev/null | awk '%s' | sort -u\n}\n\n",
                  source->function, source->request, source->awk);
}

static void write_bash(FILE *out)
{
    (void)fputs("# bash completion for shoal and shoald, as `shoal completion bash` writes it.\n\n_shoal_common='", out);
    bash_options(out, options_common);
    (void)fputs("'\n_shoal_commands=(\n", out);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        (void)fprintf(out, "    '%s'\n", command->name);
    }
    (void)fputs(")\n\n# Sets the options and operands of a command; fails if there is no such command.\n_shoal_table() {\n"
                "    case $1 in\n",
                out);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        (void)fprintf(out, "    '%s') options='", command->name);
        bash_options(out, command->options);
        (void)fprintf(out, "' operands='%s' ;;\n", command->operands);
    }
    (void)fputs("    *) return 1 ;;\n    esac\n}\n\n", out);
    write_sources(out, bash_source);
    (void)fputs(bash_engine, out);
    (void)fputs(bash_walk, out);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------------- */

#define ZSH_QUOTE "'\\''"

static const char zsh_head[] =
    "#compdef shoal shoald\n"
    "# zsh completion for shoal and shoald, as `shoal completion zsh` writes it.\n"
    "\n";

static const char zsh_engine[] =
    "_shoal_trials() {\n"
    "    local -a found\n"
    "    if [[ $PREFIX == */* ]]; then\n"
    "        found=(${(f)\"$(timeout 1 shoal ${opt_args[--dir]:+--dir=${opt_args[--dir]}} show --all ${PREFIX%%/*} 2>/dev/null |\n"
    "            awk -v e=${PREFIX%%/*} '" TRIALS_AWK "')\"})\n"
    "        compadd -a found\n"
    "    else\n"
    "        _shoal_experiments -S /\n"
    "    fi\n"
    "}\n"
    "\n"
    "_shoal() {\n"
    "    local curcontext=$curcontext state line command\n"
    "    local -a common specs names\n"
    "    typeset -A opt_args\n";

static const char zsh_tail[] =
    "\n"
    "_shoald() {\n"
    "    local -a found\n"
    "    if [[ $PREFIX == -* ]]; then\n"
    "        found=(${(f)\"$(shoald --help | grep -oE -- '--[a-z][a-z-]+' | sort -u)\"})\n"
    "        compadd -a found\n"
    "    else\n"
    "        _files\n"
    "    fi\n"
    "}\n"
    "\n"
    "if [[ $funcstack[1] == _shoal ]]; then # found in $fpath\n"
    "    case $service in\n"
    "    shoald) _shoald ;;\n"
    "    *) _shoal \"$@\" ;;\n"
    "    esac\n"
    "else # sourced\n"
    "    compdef _shoal shoal\n"
    "    compdef _shoald shoald\n"
    "fi\n";

static void zsh_source(FILE *out, const struct source *source)
{
    (void)fprintf(out,
                  "_shoal_%s() {\n    local -a found\n"
                  "    found=(${(f)\"$(timeout 1 shoal ${opt_args[--dir]:+--dir=${opt_args[--dir]}} %s 2>/dev/null |\n"
                  "        awk '%s' | sort -u)\"})\n    compadd $@ -a found\n}\n\n",
                  source->function, source->request, source->awk);
}

static const char *zsh_action(const char *value)
{
    static const char *const actions[] = {
        [KIND_NONE] = " ",          [KIND_EXPERIMENT] = "_shoal_experiments", [KIND_TRIAL] = "_shoal_trials",
        [KIND_NODE] = "_shoal_nodes", [KIND_SLOT] = "_shoal_slots",           [KIND_INVITE] = "_shoal_invites",
        [KIND_KEY] = "_shoal_keys -S =", [KIND_FILE] = "_files",              [KIND_DIR] = "_files -/",
        [KIND_SHELL] = "(bash zsh fish)",  [KIND_STATE] = "(" STATE_WORDS ")", [KIND_COLUMN] = "(" COLUMN_WORDS ")",
        [KIND_SECRET] = "_shoal_secrets",  [KIND_MODEL] = "_shoal_models",  [KIND_WEBHOOK] = "_shoal_webhooks", [KIND_EVENT] = "(" EVENT_WORDS ")",
        [KIND_USAGE] = "(" USAGE_WORDS ")",
        [KIND_WEBHOOK_EVENT] = "(" WEBHOOK_EVENT_WORDS ")"};
    return actions[kind_of(value)];
}

static void zsh_options(FILE *out, const struct option_rule *rule)
{
    for (; rule->name != NULL; rule++) {
        bool repeats = strstr(rule->help, "repeated") != NULL;
        (void)fprintf(out, " '%s--%s%s[", repeats ? "*" : "", rule->name, rule->value != NULL ? "=" : "");
        write_quoted(out, rule->help, "[]:\\", ZSH_QUOTE);
        (void)fputs("]", out);
        if (rule->value != NULL) {
            (void)fprintf(out, ":%s:%s", rule->value, zsh_action(rule->value));
        }
        (void)fputs("'", out);
    }
}

static void zsh_operands(FILE *out, const struct command *command)
{
    const char *at = command->operands;
    struct operand operand;
    for (unsigned place = 1; next_operand(&at, &operand); place++) {
        if (operand.repeats) {
            (void)fputs(" '*:", out);
        } else {
            (void)fprintf(out, " '%u:%s", place, operand.is_optional ? ":" : "");
        }
        (void)fprintf(out, "%s:%s'", operand.name, zsh_action(operand.name));
    }
}

/* The descriptions of first words (`group` NULL), or of the second words of a group, as _describe takes them. */
static void zsh_names(FILE *out, const char *group)
{
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        char first[WORD_BYTES];
        const char *second = split(command, first);
        if (group != NULL ? second == NULL || strcmp(first, group) != 0 : !is_first_of_group(command)) {
            continue;
        }
        (void)fprintf(out, " '%s:", group != NULL ? second : first);
        write_quoted(out, group == NULL && second != NULL ? "more commands" : command->summary, ":\\", ZSH_QUOTE);
        (void)fputs("'", out);
    }
}

static void write_zsh(FILE *out)
{
    (void)fputs(zsh_head, out);
    write_sources(out, zsh_source);
    (void)fputs(zsh_engine, out);
    (void)fputs("    common=(", out);
    zsh_options(out, options_common);
    (void)fputs(" )\n    _arguments -C $common '1: :->command' '*:: :->arguments' && return\n"
                "    if [[ $state == command ]]; then\n        names=('help:explain a command'",
                out);
    zsh_names(out, NULL);
    (void)fputs(" )\n        _describe command names\n        return\n    fi\n    command=$line[1]\n"
                "    if [[ $command == help ]]; then\n        names=(",
                out);
    zsh_names(out, NULL);
    (void)fputs(" )\n        _describe command names\n        return\n    fi\n    case $command in\n", out);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        char first[WORD_BYTES];
        if (split(command, first) != NULL && is_first_of_group(command)) {
            (void)fprintf(out, "    %s)\n        names=(", first);
            zsh_names(out, first);
            (void)fputs(" )\n        if ((CURRENT == 2)); then\n            _describe command names\n            return\n"
                        "        fi\n        command=\"$command $words[2]\"\n        shift words\n        ((CURRENT--))\n"
                        "        ;;\n",
                        out);
        }
    }
    (void)fputs("    esac\n    case $command in\n", out);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        (void)fprintf(out, "    '%s') specs=(", command->name);
        zsh_options(out, command->options);
        zsh_operands(out, command);
        (void)fputs(" ) ;;\n", out);
    }
    (void)fputs("    esac\n    _arguments $common $specs\n}\n", out);
    (void)fputs(zsh_tail, out);
}

/* ---- fish -------------------------------------------------------------------------------------------------------------- */

#define FISH_QUOTE "\\'"

static const char fish_engine[] =
    "# The words before the cursor that are no options and no values of options.\n"
    "function __shoal_words\n"
    "    set -l skip 1\n"
    "    for word in (commandline -opc)\n"
    "        if test $skip = 1\n"
    "            set skip 0\n"
    "        else if contains -- $word $__shoal_valued\n"
    "            set skip 1\n"
    "        else if not string match -q -- '-*' $word\n"
    "            echo $word\n"
    "        end\n"
    "    end\n"
    "end\n"
    "\n"
    "# __shoal_at COMMAND [N]: the command is this one, and N operands stand before the cursor (N+: at least N).\n"
    "function __shoal_at\n"
    "    set -l words (__shoal_words)\n"
    "    set -l name (string split ' ' -- $argv[1])\n"
    "    test \"$words[1..\"(count $name)\"]\" = \"$argv[1]\"; or return 1\n"
    "    set -q argv[2]; or return 0\n"
    "    set -l at (math (count $words) - (count $name))\n"
    "    if string match -q '*+' -- $argv[2]\n"
    "        test $at -ge (string trim -c + -- $argv[2])\n"
    "    else\n"
    "        test $at = $argv[2]\n"
    "    end\n"
    "end\n"
    "\n"
    "# The --dir of the line, for the requests below.\n"
    "function __shoal_dir\n"
    "    set -l words (commandline -opc)\n"
    "    set -l at (contains -i -- --dir $words); and echo -- --dir; and echo -- $words[(math $at + 1)]\n"
    "end\n"
    "\n"
    "# Experiments, and behind a / the trials of one.\n"
    "function __shoal_trials\n"
    "    set -l parts (string split / -- (commandline -ct))\n"
    "    if set -q parts[2]\n"
    "        timeout 1 shoal (__shoal_dir) show --all $parts[1] 2>/dev/null | awk -v e=$parts[1] '" TRIALS_AWK "'\n"
    "    else\n"
    "        __shoal_experiments\n"
    "    end\n"
    "end\n"
    "\n"
    "complete -c shoal -f\n"
    "complete -c shoald -f -n 'string match -q -- \"-*\" (commandline -ct)' \\\n"
    "    -a '(shoald --help | string match -ra -- \"--[a-z][a-z-]+\" | sort -u)'\n"
    "complete -c shoald -l dir -x -a '(__fish_complete_directories)'\n"
    "complete -c shoal -n 'test (count (__shoal_words)) = 0' -a help -d 'explain a command'\n";

/* How a value or an operand is completed, as arguments of `complete`. */
static const char *fish_candidates(const char *value)
{
    static const char *const candidates[] = {[KIND_NONE] = " -x",
                                             [KIND_EXPERIMENT] = " -x -a '(__shoal_experiments)'",
                                             [KIND_TRIAL] = " -x -a '(__shoal_trials)'",
                                             [KIND_NODE] = " -x -a '(__shoal_nodes)'",
                                             [KIND_SLOT] = " -x -a '(__shoal_slots)'",
                                             [KIND_INVITE] = " -x -a '(__shoal_invites)'",
                                             [KIND_KEY] = " -x -a '(__shoal_keys)='",
                                             [KIND_FILE] = " -r -F",
                                             [KIND_DIR] = " -x -a '(__fish_complete_directories)'",
                                             [KIND_SHELL] = " -x -a 'bash zsh fish'",
                                             [KIND_STATE] = " -x -a '" STATE_WORDS "'",
                                             [KIND_COLUMN] = " -x -a '" COLUMN_WORDS "'",
                                             [KIND_SECRET] = " -x -a '(__shoal_secrets)'",
                                             [KIND_MODEL] = " -x -a '(__shoal_models)'",
                                             [KIND_WEBHOOK] = " -x -a '(__shoal_webhooks)'",
                                             [KIND_WEBHOOK_EVENT] = " -x -a '" WEBHOOK_EVENT_WORDS "'",
                                             [KIND_EVENT] = " -x -a '" EVENT_WORDS "'",
                                             [KIND_USAGE] = " -x -a '" USAGE_WORDS "'"};
    return candidates[kind_of(value)];
}

static void fish_source(FILE *out, const struct source *source)
{
    (void)fprintf(out, "function __shoal_%s\n    timeout 1 shoal (__shoal_dir) %s 2>/dev/null | awk '%s' | sort -u\nend\n\n",
                  source->function, source->request, source->awk);
}

/* `command` NULL: options of all commands. */
static void fish_options(FILE *out, const struct command *command, const struct option_rule *rule)
{
    for (; rule->name != NULL; rule++) {
        (void)fputs("complete -c shoal", out);
        if (command != NULL) {
            (void)fprintf(out, " -n '__shoal_at \"%s\"'", command->name);
        }
        (void)fprintf(out, " -l %s%s -d '", rule->name, rule->value != NULL ? fish_candidates(rule->value) : "");
        write_quoted(out, rule->help, "\\", FISH_QUOTE);
        (void)fputs("'\n", out);
    }
}

static void fish_operands(FILE *out, const struct command *command)
{
    const char *at = command->operands;
    struct operand operand;
    for (unsigned place = 0; next_operand(&at, &operand); place++) {
        (void)fprintf(out, "complete -c shoal -n '__shoal_at \"%s\" %u%s'%s\n", command->name, place,
                      operand.repeats ? "+" : "", fish_candidates(operand.name));
    }
}

static void fish_name(FILE *out, const struct command *command)
{
    char first[WORD_BYTES];
    const char *second = split(command, first);
    if (second == NULL || is_first_of_group(command)) {
        (void)fprintf(out, "complete -c shoal -n 'test (count (__shoal_words)) = 0; or __shoal_at help 0' -a %s -d '", first);
        write_quoted(out, second == NULL ? command->summary : "more commands", "\\", FISH_QUOTE);
        (void)fputs("'\n", out);
    }
    if (second != NULL) {
        (void)fprintf(out, "complete -c shoal -n '__shoal_at %s 0' -a %s -d '", first, second);
        write_quoted(out, command->summary, "\\", FISH_QUOTE);
        (void)fputs("'\n", out);
    }
}

static void fish_valued(FILE *out, const struct option_rule *rule)
{
    for (; rule->name != NULL; rule++) {
        if (rule->value != NULL) {
            (void)fprintf(out, " --%s", rule->name);
        }
    }
}

static void write_fish(FILE *out)
{
    (void)fputs("# fish completion for shoal and shoald, as `shoal completion fish` writes it.\n\nset -g __shoal_valued", out);
    fish_valued(out, options_common);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        fish_valued(out, command->options);
    }
    (void)fputc('\n', out);
    (void)fputc('\n', out);
    write_sources(out, fish_source);
    (void)fputs(fish_engine, out);
    fish_options(out, NULL, options_common);
    for (const struct command *command = cli_commands; command->name != NULL; command++) {
        fish_name(out, command);
        fish_options(out, command, command->options);
        fish_operands(out, command);
    }
}

int command_completion(struct cli *cli, const struct arguments *arguments)
{
    static const struct {
        const char *shell;
        void (*write)(FILE *out);
    } rows[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(arguments->operands[0], rows[i].shell) == 0) {
            rows[i].write(cli->out);
            return CLI_DONE;
        }
    }
    return cli_fail(cli, CLI_USAGE, "there is no completion for '%.40s'; give bash, zsh or fish", arguments->operands[0]);
}
