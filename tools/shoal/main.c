/* shoal: the command line. Reads the environment; the rest is in cli.c and the files of the commands. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "tools/shoal/cli.h"

/* By the variables that choose the characters, as setlocale reads them: a locale that is not installed here still says what the
 * terminal understands. */
static bool is_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value != NULL && value[0] != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    if (descriptors_fill_standard() != 0) {
        return CLI_REFUSED; /* silently: there is no descriptor to write a sentence to */
    }
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    struct cli cli = {
        .in = stdin,
        .out = stdout,
        .err = stderr,
        .in_is_terminal = isatty(STDIN_FILENO) == 1,
        .out_is_terminal = isatty(STDOUT_FILENO) == 1 && terminal != NULL && strcmp(terminal, "dumb") != 0,
        .err_is_terminal = isatty(STDERR_FILENO) == 1,
        .utf8 = is_utf8(),
        .shoal_dir = getenv("SHOAL_DIR"),
        .home = getenv("HOME"),
        .tmpdir = getenv("TMPDIR"),
    };
    const char *system_config = getenv("GIT_CONFIG_SYSTEM");
    cli.git = (struct git_places){
        .home = cli.home,
        .config_home = getenv("XDG_CONFIG_HOME"),
        .global_config = getenv("GIT_CONFIG_GLOBAL"),
        .system_config = getenv("GIT_CONFIG_NOSYSTEM") != NULL ? NULL
                         : system_config != NULL               ? system_config
                                                               : "/etc/gitconfig",
    };
    cli.colours = cli.out_is_terminal && (no_colour == NULL || no_colour[0] == '\0');
    return cli_run(&cli, argc, argv);
}
