#include "cli/state_folder.h"

#include <limits.h>
#include <stdlib.h>

#include "base/strbuf.h"

char *state_folder_path(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct strbuf path;
    strbuf_init(&path, PATH_MAX);
    if (state && *state == '/')
        strbuf_printf(&path, "%s/ingot/%s", state, name);
    else if (home && *home == '/')
        strbuf_printf(&path, "%s/.local/state/ingot/%s", home, name);
    if (path.len > 0 && !path.overflow)
        return strbuf_detach(&path);
    strbuf_release(&path);
    return NULL;
}
