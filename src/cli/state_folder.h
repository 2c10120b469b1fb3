/* state_folder: where a person's own files lie that no flag gives a place: $XDG_STATE_HOME/ingot,
 * else ~/.local/state/ingot. */
#ifndef CLI_STATE_FOLDER_H
#define CLI_STATE_FOLDER_H

/* The path of `name` in it, which the caller frees; NULL: no home is known. Nothing is made. */
char *state_folder_path(const char *name);

#endif
