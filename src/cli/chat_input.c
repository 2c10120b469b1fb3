#include "cli/chat_input.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/state_folder.h"

#define HISTORY_SIZE 1000
#define CTRL_D 4
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

struct chat_input {
    EditLine *editor; /* NULL: plain lines */
    History *history;
    char *history_path;
    bool continues;   /* the prompt of a line that goes on */
    char bytes[4096]; /* read from the terminal and not yet handed on */
    size_t first, count;
    bool in_paste, pending_newline;
};

static void make_folders(char *path)
{
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        (void)mkdir(path, 0700);
        *c = '/';
    }
}

/* NULL where no home is known. */
static char *find_history_path(void)
{
    char *path = state_folder_path("history");
    if (path)
        make_folders(path);
    return path;
}

/* Waits for input; false: interrupted. SIGINT is let in only while ppoll() sleeps, so one that
 * comes before is seen by the check and one that comes later ends the wait. */
static bool wait_for_input(void)
{
    sigset_t interrupt, outside;
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &outside);
    bool ready = false;
    while (!ready && !cli_interrupted())
        ready = ppoll(&input, 1, NULL, &outside) > 0 || errno != EINTR;
    pthread_sigmask(SIG_SETMASK, &outside, NULL);
    return ready;
}

static bool fill(struct chat_input *in)
{
    ssize_t n;
    do {
        if (!wait_for_input())
            return false;
        n = read(STDIN_FILENO, in->bytes, sizeof in->bytes);
    } while (n < 0 && errno == EINTR); /* another signal, a changed window, goes on */
    if (n < 0)
        return false;
    in->first = 0;
    in->count = (size_t)n;
    return n > 0;
}

static int next_byte(struct chat_input *in)
{
    if (in->first == in->count && !fill(in))
        return -1;
    unsigned char byte = (unsigned char)in->bytes[in->first++];
    /* libedit shows the prompt before it takes the terminal out of line mode: a Ctrl-D typed in
     * between is an end mark of that mode, which becomes a NUL when it is left. */
    return in->editor && byte == 0 ? CTRL_D : byte;
}

/* Takes ESC[200~ and ESC[201~, which enclose a paste, out of the stream. */
static bool take_paste_mark(struct chat_input *in)
{
    struct str rest = { in->bytes + in->first, in->count - in->first };
    if (str_starts(rest, STR("\033[200~")))
        in->in_paste = true;
    else if (str_starts(rest, STR("\033[201~")))
        in->in_paste = false;
    else
        return false;
    in->first += 6;
    return true;
}

static wint_t next_character(struct chat_input *in)
{
    char bytes[4];
    size_t n = 0;
    uint32_t code_point;
    do {
        if (n == 0)
            while (in->first < in->count && take_paste_mark(in))
                ;
        int byte = next_byte(in);
        if (byte < 0)
            return WEOF;
        if (n == 0 && byte == '\033') {
            in->first--;
            if (take_paste_mark(in))
                continue;
            in->first++;
        }
        bytes[n++] = (char)byte;
    } while (n == 0 || utf8_complete((struct str){ bytes, n }) == 0);
    utf8_decode(bytes, n, &code_point);
    return code_point == UTF8_BAD ? 0xFFFD : code_point;
}

/* For the editor, a line end within a paste is a backslash and a line end. */
static int read_character(EditLine *editor, wchar_t *out)
{
    struct chat_input *in;
    el_get(editor, EL_CLIENTDATA, &in);
    if (in->pending_newline) {
        in->pending_newline = false;
        *out = L'\n';
        return 1;
    }
    wint_t c = next_character(in);
    if (c == WEOF)
        return cli_interrupted() ? -1 : 0;
    in->pending_newline = in->in_paste && (c == L'\n' || c == L'\r');
    *out = in->pending_newline ? L'\\' : (wchar_t)c;
    return 1;
}

static char *show_prompt(EditLine *editor)
{
    static char first[] = "> ", next[] = ". ";
    struct chat_input *in;
    el_get(editor, EL_CLIENTDATA, &in);
    return in->continues ? next : first;
}

/* libedit reads and shows characters of the locale: it has to be one with UTF-8. */
static void choose_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void start_editor(struct chat_input *in)
{
    HistEvent event;
    choose_locale();
    in->editor = el_init("ingot", stdin, stdout, stderr);
    if (!in->editor)
        return;
    in->history = history_init();
    in->history_path = find_history_path();
    el_set(in->editor, EL_CLIENTDATA, in);
    el_set(in->editor, EL_PROMPT, show_prompt);
    el_set(in->editor, EL_EDITOR, "emacs");
    el_set(in->editor, EL_GETCFN, read_character);
    el_set(in->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    if (in->history) {
        history(in->history, &event, H_SETSIZE, HISTORY_SIZE);
        history(in->history, &event, H_SETUNIQUE, 1);
        el_set(in->editor, EL_HIST, history, in->history);
        if (in->history_path)
            history(in->history, &event, H_LOAD, in->history_path);
    }
}

struct chat_input *chat_input_new(bool edits)
{
    struct chat_input *in = mem_new(struct chat_input);
    if (edits)
        start_editor(in);
    return in;
}

static void save_history(struct chat_input *in)
{
    HistEvent event;
    if (!in->history_path)
        return;
    int fd = open(in->history_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f)
        return;
    (void)fchmod(fd, 0600);
    history(in->history, &event, H_SAVE_FP, f);
    fclose(f);
}

void chat_input_free(struct chat_input *in)
{
    if (!in)
        return;
    if (in->editor) {
        if (in->history) {
            save_history(in);
            history_end(in->history);
        }
        el_end(in->editor);
    }
    mem_free(in->history_path);
    mem_free(in);
}

static enum chat_input_result read_edited(struct chat_input *in, struct strbuf *line)
{
    HistEvent event;
    int n = 0;
    el_resize(in->editor);
    fputs(PASTE_ON, stdout);
    const char *text = el_gets(in->editor, &n);
    fputs(PASTE_OFF, stdout);
    fflush(stdout);
    if (cli_interrupted()) {
        putchar('\n');
        return CHAT_INPUT_INTERRUPTED;
    }
    if (!text || n <= 0)
        return CHAT_INPUT_END;
    strbuf_append(line, text, (size_t)n);
    if (in->history && str_trim(strbuf_str(line)).len > 0)
        history(in->history, &event, H_ENTER, text);
    return CHAT_INPUT_MESSAGE;
}

static enum chat_input_result read_plain(struct chat_input *in, struct strbuf *line)
{
    for (;;) {
        int byte = next_byte(in);
        if (byte < 0 && cli_interrupted())
            return CHAT_INPUT_INTERRUPTED;
        if (byte < 0)
            return line->len > 0 ? CHAT_INPUT_MESSAGE : CHAT_INPUT_END;
        strbuf_putc(line, (char)byte);
        if (byte == '\n')
            return CHAT_INPUT_MESSAGE;
    }
}

/* As if typed: a line end is quoted (^V), so that it does not end the line. */
void chat_input_offer(struct chat_input *in, struct str text)
{
    struct strbuf typed;
    if (!in->editor)
        return;
    strbuf_init(&typed, SIZE_MAX / 2);
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < 32 || text.ptr[i] == 127)
            strbuf_putc(&typed, 'V' - '@');
        strbuf_putc(&typed, text.ptr[i]);
    }
    if (typed.len > 0)
        el_push(in->editor, typed.ptr);
    strbuf_release(&typed);
}

/* Moves a line to the message; true: it ends with a backslash, and the next one belongs to it. */
static bool add_line(struct strbuf *message, struct str line)
{
    while (line.len > 0 && (line.ptr[line.len - 1] == '\n' || line.ptr[line.len - 1] == '\r'))
        line.len--;
    bool goes_on = line.len > 0 && line.ptr[line.len - 1] == '\\';
    utf8_repair(message, str_slice(line, 0, line.len - goes_on));
    if (goes_on)
        strbuf_putc(message, '\n');
    return goes_on;
}

enum chat_input_result chat_input_read(struct chat_input *in, struct strbuf *out)
{
    struct strbuf line;
    enum chat_input_result result;
    strbuf_clear(out);
    strbuf_init(&line, out->max);
    in->continues = false;
    for (;;) {
        strbuf_clear(&line);
        result = in->editor ? read_edited(in, &line) : read_plain(in, &line);
        if (result != CHAT_INPUT_MESSAGE)
            break;
        in->continues = add_line(out, strbuf_str(&line));
        if (!in->continues)
            break;
    }
    strbuf_release(&line);
    if (result == CHAT_INPUT_END && out->len > 0)
        result = CHAT_INPUT_MESSAGE; /* the file ended behind a backslash */
    return result;
}
