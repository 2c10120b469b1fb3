/* live_row: on a terminal, what runs now, redrawn in place below the log: the row of the one
 * request that runs, or one line about several. Never on a pipe.
 *
 * The line stands without a line feed; whoever writes to the log wipes it first. Threads: drawn by
 * the watch thread; wiped by any that holds the server's lock. */
#ifndef SERVER_LIVE_ROW_H
#define SERVER_LIVE_ROW_H

struct server;

void live_row_draw(struct server *); /* takes the server's lock */
void live_row_wipe(struct server *); /* with the server's lock */

#endif
