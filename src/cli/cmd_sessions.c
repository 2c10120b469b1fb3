/* ingot sessions: the named sessions of a cache folder, without an engine. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "engine/session_file.h"
#include "engine/session_folder.h"

static const struct option rows[] = {
    OPT_TEXT("--cache-dir", "FOLDER", NULL, "the folder that they are kept in"),
    OPT_FLAG("--json", "off", "list and show: print JSON"),
};
static const struct option_group sessions_options = OPTION_GROUP("sessions", "Sessions", rows);

struct listing {
    const char *cache;
    char *folder;
    json_t *list;
};

static void describe(void *user, const char *name)
{
    struct listing *l = user;
    struct session_file file;
    struct error err = { 0 };
    json_t *value;
    if (session_file_read(&file, l->folder, name, &err) == STATUS_OK) {
        value = session_file_describe(&file, l->cache, name);
        session_file_release(&file);
    } else {
        value = json_pack("{s:s,s:s}", "name", name, "damaged", err.message);
    }
    size_t i = 0; /* sorted by name */
    while (i < json_array_size(l->list) &&
           str_compare(json_str(json_object_get(json_array_get(l->list, i), "name")),
                       str_of(name)) < 0)
        i++;
    json_array_insert_new(l->list, i, value);
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

static void list(const struct options *o, const char *cache, const char *folder)
{
    struct listing l = { cache, mem_string(folder, strlen(folder)), json_array() };
    session_folder_list(folder, describe, &l);
    size_t i;
    json_t *session;
    if (options_flag(o, "json")) {
        cli_print_json(json_incref(l.list));
    } else {
        json_array_foreach(l.list, i, session) print_row(session);
    }
    json_decref(l.list);
    mem_free(l.folder);
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

static enum status show(const struct options *o, const char *cache, const char *folder,
                        const char *name, struct error *err)
{
    struct session_file file;
    TRY(session_name_check(str_of(name), err));
    TRY(session_file_read(&file, folder, name, err));
    json_t *value = session_file_describe(&file, cache, name);
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

static enum status change(const char *what, const char *cache, const char *name, const char *to,
                          struct error *err)
{
    if (strcmp(what, "fork") == 0)
        return session_folder_fork(cache, name, to, err);
    if (strcmp(what, "rename") == 0)
        return session_folder_rename(cache, name, to, err);
    return session_folder_delete(cache, name, err);
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

static int run_sessions(const struct options *o)
{
    const char *what = options_argument(o, 0), *cache = options_text(o, "cache-dir");
    const char *name = options_argument(o, 1);
    size_t i = 0;
    while (i < ARRAY_SIZE(actions) && strcmp(actions[i].name, what) != 0)
        i++;
    if (i == ARRAY_SIZE(actions))
        return cli_usage("sessions: expected list, show, fork, rename or delete, found \"%s\"",
                         what);
    if (o->n_arguments != actions[i].n_arguments + 1)
        return cli_usage("sessions: expected: ingot sessions %s --cache-dir FOLDER",
                         actions[i].usage);
    if (!cache)
        return cli_usage("sessions: expected --cache-dir FOLDER, where they are kept");
    if (!file_is_directory(cache))
        return cli_usage("sessions: %s: there is no such folder", cache);
    struct error err = { 0 };
    struct strbuf folder;
    enum status status = STATUS_OK;
    strbuf_init(&folder, PATH_MAX);
    strbuf_printf(&folder, "%s/" SESSION_FOLDER, cache);
    if (strcmp(what, "list") == 0)
        list(o, cache, folder.ptr);
    else if (strcmp(what, "show") == 0)
        status = show(o, cache, folder.ptr, name, &err);
    else
        status = change(what, cache, name, options_argument(o, 2), &err);
    strbuf_release(&folder);
    return status == STATUS_OK ? CLI_OK : cli_fail(&err);
}

static const struct option_group *const groups[] = { &sessions_options, NULL };

const struct cli_command cmd_sessions = {
    .name = "sessions",
    .summary = "named sessions on disk: list, show, fork, rename, delete",
    .usage = "list|show|fork|rename|delete [NAME [NEW]] --cache-dir FOLDER",
    .groups = groups,
    .min_arguments = 1,
    .max_arguments = 3,
    .run = run_sessions,
    .example = "ingot sessions list --cache-dir ~/.cache/ingot",
};
