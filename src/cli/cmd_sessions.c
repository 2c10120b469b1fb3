/* ingot sessions: the named sessions of a folder, without an engine. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/state_folder.h"
#include "engine/session_file.h"
#include "engine/session_folder.h"

static const struct option rows[] = {
    OPT_TEXT("--session-dir --slot-save-path", "FOLDER", NULL,
             "the folder that they are kept in (~/.local/state/ingot/sessions)"),
    OPT_TEXT("--cache-dir", "FOLDER", NULL, "the folder of a disk cache that has them"),
    OPT_FLAG("--json", "off", "list and show: print JSON"),
};
static const struct option_group sessions_options = OPTION_GROUP("sessions", "Sessions", rows);

/* Where sessions are: `sessions` is a folder of their own, else they are in the disk cache `cache`;
 * their files and manifests follow from that. */
struct place {
    const char *cache, *sessions, *files;
    char *manifests;
};

struct names {
    char **name;
    size_t n, room;
};

static void take_name(void *user, const char *name)
{
    struct names *all = user;
    mem_reserve((void **)&all->name, &all->room, all->n + 1, sizeof(*all->name));
    all->name[all->n++] = mem_string(name, strlen(name));
}

static int compare(const void *a, const void *b)
{
    const char *const *p = a, *const *q = b;
    return strcmp(*p, *q);
}

static json_t *describe(const struct place *place, const char *name)
{
    struct session_file file;
    struct error err = { 0 };
    if (session_file_read(&file, place->manifests, name, &err) != STATUS_OK)
        return json_pack("{s:s,s:s}", "name", name, "damaged", err.message);
    json_t *value = session_file_describe(&file, place->files, name);
    session_file_release(&file);
    return value;
}

static const char *date(char *out, size_t n, int64_t seconds)
{
    time_t when = (time_t)seconds;
    struct tm local;
    if (!localtime_r(&when, &local) || strftime(out, n, "%Y-%m-%d %H:%M", &local) == 0)
        snprintf(out, n, "%" PRId64, seconds);
    return out;
}

static int64_t number(const json_t *session, const char *key)
{
    return json_integer_value(json_object_get(session, key));
}

static void print_row(const json_t *session)
{
    char when[32];
    const char *name = json_string_value(json_object_get(session, "name"));
    const json_t *damage = json_object_get(session, "damaged");
    if (damage) {
        printf("%-24s damaged: %s\n", name, json_string_value(damage));
        return;
    }
    printf("%-24s %8" PRId64 " tokens %9.1f MiB  %s  %s\n", name, number(session, "tokens"),
           (double)number(session, "bytes") / 1048576.0,
           date(when, sizeof(when), number(session, "updated")),
           json_string_value(json_object_get(session, "model")));
}

static void list(const struct options *o, const struct place *place)
{
    struct names all = { 0 };
    session_folder_list(place->manifests, take_name, &all);
    if (all.n > 0)
        qsort(all.name, all.n, sizeof(*all.name), compare);
    json_t *list = json_array(), *session;
    size_t i;
    for (i = 0; i < all.n; i++) {
        json_array_append_new(list, describe(place, all.name[i]));
        mem_free(all.name[i]);
    }
    mem_free(all.name);
    if (options_flag(o, "json")) {
        cli_print_json(list);
        return;
    }
    json_array_foreach(list, i, session) print_row(session);
    json_decref(list);
}

static void print_transcript(const json_t *client)
{
    size_t i;
    json_t *message;
    json_array_foreach(json_object_get(client, "messages"), i, message)
    {
        struct str role = json_str(json_object_get(message, "role"));
        struct str text = json_str(json_object_get(message, "content"));
        if (!role.ptr || !text.ptr)
            continue;
        printf("\n[%.*s]\n", STR_ARG(role));
        cli_print(text);
        putchar('\n');
    }
}

static enum status show(const struct options *o, const struct place *place, const char *name,
                        struct error *err)
{
    struct session_file file;
    TRY(session_name_check(str_of(name), err));
    TRY(session_file_read(&file, place->manifests, name, err));
    json_t *value = session_file_describe(&file, place->files, name);
    if (options_flag(o, "json")) {
        if (file.client)
            json_object_set(value, "client", file.client);
        cli_print_json(json_incref(value));
    } else {
        print_row(value);
        print_transcript(file.client);
    }
    json_decref(value);
    session_file_release(&file);
    return STATUS_OK;
}

static enum status change(const char *what, const struct place *at, const char *name,
                          const char *to, struct error *err)
{
    if (strcmp(what, "fork") == 0)
        return session_folder_fork(at->cache, at->sessions, name, to, err);
    if (strcmp(what, "rename") == 0)
        return session_folder_rename(at->cache, at->sessions, name, to, err);
    return session_folder_delete(at->cache, at->sessions, name, err);
}

static const struct {
    const char *name;
    size_t n_arguments;
    const char *usage;
} actions[] = {
    { "list", 0, "list" },          { "show", 1, "show NAME" },
    { "fork", 2, "fork NAME NEW" }, { "rename", 2, "rename NAME NEW" },
    { "delete", 1, "delete NAME" },
};

static int act(const struct options *o, const struct place *place)
{
    const char *what = options_argument(o, 0), *name = options_argument(o, 1);
    struct error err = { 0 };
    enum status status = STATUS_OK;
    if (strcmp(what, "list") == 0)
        list(o, place);
    else if (strcmp(what, "show") == 0)
        status = show(o, place, name, &err);
    else
        status = change(what, place, name, options_argument(o, 2), &err);
    return status == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static int run_sessions(const struct options *o)
{
    const char *what = options_argument(o, 0);
    size_t i = 0;
    while (i < ARRAY_SIZE(actions) && strcmp(actions[i].name, what) != 0)
        i++;
    if (i == ARRAY_SIZE(actions))
        return cli_usage("sessions: expected list, show, fork, rename or delete, found \"%s\"",
                         what);
    if (o->n_arguments != actions[i].n_arguments + 1)
        return cli_usage("sessions: expected: ingot sessions %s [--session-dir FOLDER]",
                         actions[i].usage);
    struct place place = { options_text(o, "cache-dir"), options_text(o, "session-dir"), NULL,
                           NULL };
    char *own = NULL;
    if (!place.cache && !place.sessions)
        place.sessions = own = state_folder_path("sessions");
    place.files = place.sessions ? place.sessions : place.cache;
    if (!place.files)
        return cli_usage("sessions: expected --session-dir FOLDER, where they are kept");
    if (!own && !file_is_directory(place.files))
        return cli_usage("sessions: %s: there is no such folder", place.files);
    struct strbuf manifests;
    strbuf_init(&manifests, PATH_MAX);
    strbuf_printf(&manifests, place.sessions ? "%s" : "%s/" SESSION_FOLDER, place.files);
    place.manifests = manifests.ptr;
    int state = act(o, &place);
    strbuf_release(&manifests);
    mem_free(own);
    return state;
}

static const struct option_group *const groups[] = { &sessions_options, NULL };

const struct cli_command cmd_sessions = {
    .name = "sessions",
    .summary = "named sessions on disk: list, show, fork, rename, delete",
    .usage = "list|show|fork|rename|delete [NAME [NEW]] [--session-dir FOLDER]",
    .groups = groups,
    .min_arguments = 1,
    .max_arguments = 3,
    .run = run_sessions,
    .example = "ingot sessions list --session-dir ~/sessions",
};
