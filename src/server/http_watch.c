#include "server/http_watch.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "server/exchange.h"
#include "server/live_row.h"
#include "server/server_state.h"

#define TICK_MS 250

struct watched_connection {
    int fd;
    double deadline; /* 0: none */
    struct watched_connection *next, *previous;
};

struct http_watch {
    struct server *server;
    pthread_t thread;
    int epoll, wake; /* wake: an eventfd in the set with data.ptr NULL */
    pthread_mutex_t lock;
    bool stop;
    struct watched_connection *connections;
    struct exchange **retired; /* their reference is dropped by the watch thread alone */
    size_t n_retired, retired_capacity;
};

/* An event for an exchange may have been fetched just before its removal: the reference lives
 * until the batch of events that could hold it has been handled. */
static void drop_retired(struct http_watch *w)
{
    pthread_mutex_lock(&w->lock);
    struct exchange **retired = w->retired;
    size_t n = w->n_retired;
    w->retired = NULL;
    w->n_retired = w->retired_capacity = 0;
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < n; i++)
        exchange_drop(retired[i]);
    mem_free(retired);
}

static void close_late_connections(struct http_watch *w, double now)
{
    pthread_mutex_lock(&w->lock);
    for (struct watched_connection *c = w->connections; c; c = c->next) {
        if (c->deadline > 0 && now > c->deadline) {
            c->deadline = 0;
            shutdown(c->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

/* Wakes streams that owe their client a keep-alive frame or have outlived their time. */
static void tick_exchanges(struct http_watch *w, double now)
{
    struct server *s = w->server;
    double interval = s->options.keep_alive_interval;
    pthread_mutex_lock(&s->lock);
    for (struct exchange *x = s->live; x; x = x->next) {
        pthread_mutex_lock(&x->lock);
        bool silent = interval > 0 && x->last_byte > 0 && now - x->last_byte >= interval;
        bool late = x->deadline > 0 && now > x->deadline;
        bool wake = late || (x->suspended && silent);
        if (late && !x->stop)
            x->stop = EXCHANGE_TIMEOUT;
        if (late)
            x->deadline = 0;
        pthread_mutex_unlock(&x->lock);
        if (wake)
            exchange_wake(x);
    }
    pthread_mutex_unlock(&s->lock);
}

static void *watch_main(void *argument)
{
    struct http_watch *w = argument;
    struct epoll_event events[64];
    double next_tick = 0;
    for (;;) {
        int n = epoll_wait(w->epoll, events, 64, TICK_MS);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                exchange_gone(events[i].data.ptr);
            else {
                uint64_t count;
                if (read(w->wake, &count, sizeof count) < 0 && errno != EAGAIN)
                    continue;
            }
        }
        drop_retired(w);
        double now = clock_seconds();
        if (now >= next_tick) {
            next_tick = now + TICK_MS / 1000.0;
            close_late_connections(w, now);
            tick_exchanges(w, now);
            live_row_draw(w->server);
        }
        pthread_mutex_lock(&w->lock);
        bool stop = w->stop;
        pthread_mutex_unlock(&w->lock);
        if (stop)
            return NULL;
    }
}

static void poke(struct http_watch *w)
{
    uint64_t one = 1;
    if (write(w->wake, &one, sizeof one) < 0)
        return; /* the counter is full: the thread wakes anyway */
}

enum status http_watch_new(struct server *server, struct http_watch **out, struct error *err)
{
    struct http_watch *w = mem_new(struct http_watch);
    w->server = server;
    pthread_mutex_init(&w->lock, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN };
    int failed =
        w->epoll < 0 || w->wake < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->wake, &event) != 0
            ? errno
            : thread_start(&w->thread, watch_main, w);
    if (failed) {
        if (w->epoll >= 0)
            close(w->epoll);
        if (w->wake >= 0)
            close(w->wake);
        pthread_mutex_destroy(&w->lock);
        mem_free(w);
        return error_set(err, STATUS_IO, "http: cannot start the watch thread: %s",
                         strerror(failed));
    }
    *out = w;
    return STATUS_OK;
}

void http_watch_free(struct http_watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    poke(w);
    pthread_join(w->thread, NULL);
    drop_retired(w);
    while (w->connections)
        http_watch_connection_closed(w, w->connections);
    close(w->epoll);
    close(w->wake);
    pthread_mutex_destroy(&w->lock);
    mem_free(w);
}

void http_watch_add(struct http_watch *w, struct exchange *x)
{
    exchange_hold(x);
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLONESHOT,
                                 .data.ptr = x };
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, x->fd, &event) != 0)
        exchange_gone(x); /* the socket is no longer open */
}

void http_watch_remove(struct http_watch *w, struct exchange *x)
{
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, x->fd, NULL);
    pthread_mutex_lock(&w->lock);
    mem_reserve((void **)&w->retired, &w->retired_capacity, w->n_retired + 1, sizeof *w->retired);
    w->retired[w->n_retired++] = x;
    pthread_mutex_unlock(&w->lock);
    poke(w);
}

struct watched_connection *http_watch_connection(struct http_watch *w, int fd)
{
    struct watched_connection *c = mem_new(struct watched_connection);
    c->fd = fd;
    pthread_mutex_lock(&w->lock);
    c->deadline = clock_seconds() + w->server->options.body_timeout;
    c->next = w->connections;
    if (c->next)
        c->next->previous = c;
    w->connections = c;
    pthread_mutex_unlock(&w->lock);
    return c;
}

static void set_deadline(struct http_watch *w, struct watched_connection *c, double deadline)
{
    pthread_mutex_lock(&w->lock);
    c->deadline = deadline;
    pthread_mutex_unlock(&w->lock);
}

void http_watch_connection_body(struct http_watch *w, struct watched_connection *c)
{
    double limit = clock_seconds() + w->server->options.body_timeout;
    pthread_mutex_lock(&w->lock);
    c->deadline = c->deadline > 0 ? MIN(c->deadline, limit) : limit;
    pthread_mutex_unlock(&w->lock);
}

void http_watch_connection_busy(struct http_watch *w, struct watched_connection *c)
{
    set_deadline(w, c, 0);
}

void http_watch_connection_idle(struct http_watch *w, struct watched_connection *c, double seconds)
{
    set_deadline(w, c, clock_seconds() + seconds);
}

void http_watch_connection_closed(struct http_watch *w, struct watched_connection *c)
{
    pthread_mutex_lock(&w->lock);
    if (c->previous)
        c->previous->next = c->next;
    else
        w->connections = c->next;
    if (c->next)
        c->next->previous = c->previous;
    pthread_mutex_unlock(&w->lock);
    mem_free(c);
}
