/* status_routes: what monitors and people ask: health, readiness, version, properties. */
#ifndef SERVER_STATUS_ROUTES_H
#define SERVER_STATUS_ROUTES_H

struct exchange;
void status_health(struct exchange *);
void status_live(struct exchange *);
void status_ready(struct exchange *);
void status_version(struct exchange *);
void status_props(struct exchange *);
void status_root(struct exchange *);

#endif
