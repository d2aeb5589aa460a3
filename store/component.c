#include "store/component.h"

/* ".." after a name is refused: the name may itself be a link, and ".." then means the parent of an unknown directory. Leading
 * ".."s climb real directories only, and each further link on the way has passed this same test. */
bool component_link_stays(const char *path, const char *target)
{
    if (target[0] == '\0' || target[0] == '/') {
        return false;
    }
    size_t names = 0; /* in the path, including the link's own name; "." and "//" do not climb and do not count */
    struct component component = {.next = path};
    while (component_next(&component)) {
        names++;
    }
    bool named = false;
    component = (struct component){.next = target};
    while (component_next(&component)) {
        if (!component_is_up(&component)) {
            named = true;
        } else if (named || names <= 1) {
            return false;
        } else {
            names--;
        }
    }
    return true;
}
