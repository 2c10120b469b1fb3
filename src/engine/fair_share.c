#include "engine/fair_share.h"

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"

#define IDLE_MOST 256

static void forget(struct fair_share *f, bool all)
{
    struct fair_account **link = &f->first;
    while (*link) {
        struct fair_account *a = *link;
        if (a->n_requests > 0 || (!all && f->n_idle <= IDLE_MOST / 2)) {
            link = &a->next;
            continue;
        }
        *link = a->next;
        f->n_idle--;
        mem_free(a->client);
        mem_free(a);
    }
}

void fair_share_release(struct fair_share *f)
{
    forget(f, true);
    CHECK(!f->first);
}

static int64_t least_served(const struct fair_share *f)
{
    int64_t least = -1;
    for (const struct fair_account *a = f->first; a; a = a->next)
        if (a->n_requests > 0 && (least < 0 || a->served < least))
            least = a->served;
    return MAX(least, 0);
}

struct fair_account *fair_share_join(struct fair_share *f, const char *client)
{
    const char *name = client ? client : "";
    struct fair_account *a = f->first;
    while (a && strcmp(a->client, name) != 0)
        a = a->next;
    if (!a) {
        a = mem_new(struct fair_account);
        a->client = mem_string(name, strlen(name));
        a->next = f->first;
        f->first = a;
        f->n_idle++;
    }
    if (a->n_requests == 0) {
        a->served = MAX(a->served, least_served(f));
        f->n_idle--;
    }
    a->n_requests++;
    return a;
}

void fair_share_leave(struct fair_share *f, struct fair_account *a)
{
    CHECK(a->n_requests > 0);
    if (--a->n_requests > 0)
        return;
    f->n_idle++;
    if (f->n_idle > IDLE_MOST)
        forget(f, false);
}

void fair_share_charge(struct fair_account *a, int32_t n_rows)
{
    a->served += n_rows;
}
