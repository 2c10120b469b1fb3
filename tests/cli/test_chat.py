"""ingot chat: from a pipe, and at a terminal of its own. Answers are replayed (--script)."""
import glob
import json
import os
import pty
import re
import select
import signal
import stat
import tempfile
import time

from cases import INGOT, case, finish, not_run, run

MODEL = os.environ.get("INGOT_SMOLLM2")
COMMANDS = ["help", "reset", "system", "set", "thinking", "stats", "tokens", "save", "load",
            "regen", "edit", "undo", "quit"]
LONG = "one two three four five six seven eight nine ten " * 40


def chat(folder, turns, text, *flags):
    script = os.path.join(folder, "script.json")
    with open(script, "w") as f:
        json.dump(turns, f)
    return run("chat", MODEL, "--script", script, *flags, stdin=text)


def test_pipe(folder):
    code, out, err = chat(folder, ["First.", "Second\nline."], "hello\nagain\n")
    case("one message a line", code == 0 and out == "First.\nSecond\nline.\n", out + err)
    code, out, err = chat(folder, ["A."], "no line end")
    case("the last line needs no end", code == 0 and out == "A.\n", out + err)
    code, out, err = chat(folder, [], "")
    case("nothing in, nothing out", code == 0 and out == "", out + err)
    code, out, err = chat(folder, ["A."], "/nonsense\n")
    case("an unknown command", code == 1 and "/help lists them" in err and out == "", out + err)
    code, out, err = chat(folder, ["A.", "B."], "hello\n/quit\nnever\n")
    case("/quit", code == 0 and out == "A.\n", out + err)


def test_conversation(folder):
    saved = os.path.join(folder, "saved.json")
    code, out, err = chat(folder, ["A.", "B.", "C."], "one \\\ntwo\n//slash\n/system Be brief.\n"
                          f"/save {saved}\n")
    with open(saved) as f:
        value = json.load(f)
    case("/save keeps roles and texts", code == 0 and value["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "one \ntwo"},
        {"role": "assistant", "content": "A."}, {"role": "user", "content": "/slash"},
        {"role": "assistant", "content": "B."}], value)
    case("a saved conversation is private", stat.S_IMODE(os.stat(saved).st_mode) == 0o600)
    code, out, err = chat(folder, ["X.", "Y.", "C."], f"/load {saved}\n/system\nmore\n"
                          f"/undo\n/undo\n/save {saved}\n")
    with open(saved) as f:
        value = json.load(f)
    case("/load goes on, /undo drops turns", code == 0 and out == "Be brief.\nC.\n" and
         [m["role"] for m in value["messages"]] == ["system", "user", "assistant"], out + err)
    code, out, err = chat(folder, ["A.", "B."], f"hi\n/reset\n/regen\n/save {saved}\n")
    with open(saved) as f:
        value = json.load(f)
    case("/reset and /regen without an answer", code == 1 and value["messages"] == [] and
         "no answer yet" in err, out + err)
    code, out, err = chat(folder, ["A."], "hi\n/regen\n")
    case("/regen answers again", code == 0 and out == "A.\nA.\n", out + err)
    code, out, err = chat(folder, ["A.", "B."], "hi\nmore\n/edit other\n/edit\n//last\n"
                          f"/save {saved}\n")
    with open(saved) as f:
        value = json.load(f)
    case("/edit replaces the last message", code == 0 and out == "A.\nB.\nB.\nB.\n" and
         [m["content"] for m in value["messages"]] == ["hi", "A.", "/last", "B."], out + err)
    code, out, err = chat(folder, ["A."], f"/edit\n/edit x\nhi\n/edit {'word ' * 200}\n"
                          f"/save {saved}\n", "--context", "100")
    with open(saved) as f:
        value = json.load(f)
    case("an /edit that fails changes nothing", code == 1 and err.count("no message yet") == 2 and
         [m["content"] for m in value["messages"]] == ["hi", "A."], out + err)
    with open(saved, "w") as f:
        f.write('{"messages": [3]}')
    code, out, err = chat(folder, [], f"/load {saved}\n")
    case("/load of nonsense", code == 1 and "messages[0]" in err, err)


def test_settings(folder):
    code, out, err = chat(folder, [], "/set top-k 7\n/set seed 5\n/set\n/set top_p 2\n/set x 1\n")
    case("/set", code == 1 and re.search(r"top_k +7\n", out) and re.search(r"seed +5\n", out) and
         "from 0 to 1, found '2'" in err and "no setting 'x'" in err, out + err)
    code, out, err = chat(folder, ["A."], "/tokens hello world\nhi\n/tokens\n/stats\n/help\n")
    case("/tokens, /stats, /help", code == 0 and out.startswith("2 tokens: ") and
         re.search(r"\n\d+ of \d+ tokens\n", out) and "last answer:" in out and
         all(f"/{c}" in out for c in COMMANDS), out + err)
    code, out, err = chat(folder, ["<think>\nhm\n</think>\n\nYes."], "/thinking hide\nhi\n")
    case("/thinking hide", code == 0 and out == "Yes.\n", out + err)
    code, out, err = run("chat", MODEL, "--session", "x", env={"HOME": "", "XDG_STATE_HOME": ""})
    case("--session without a home", code == 1 and "--session-dir" in err, err)
    code, out, err = run("chat", MODEL, "--session-strict")
    case("--session-strict alone is refused", code == 2 and "--session NAME" in err, err)
    code, out, err = run("chat", MODEL, "--session", "../x", "--cache-dir", folder)
    case("--session of a bad name", code == 2 and "--session" in err and
         not os.path.exists(os.path.join(folder, "sessions")), err)
    code, out, err = chat(folder, ["A."], "word " * 200 + "\nshort\n", "--context", "100")
    case("too long a message is refused, the next one is answered", code == 1 and out == "A.\n" and
         "100" in err, out + err)


def test_session(folder):
    cache = os.path.join(folder, "cache")
    keep = ["--session", "anna", "--cache-dir", cache]
    code, out, err = chat(folder, ["Hi Anna."], "I am Anna.\n", *keep)
    case("a session begins", code == 0 and out == "Hi Anna.\n", out + err)
    code, out, err = chat(folder, ["", "You are Anna."], "Who am I?\n/stats\n/save " +
                          os.path.join(folder, "saved.json") + "\n", *keep)
    kept = re.search(r"\((\d+) of them kept from before", out)
    case("it goes on, with its state", code == 0 and out.startswith("You are Anna.\n") and kept and
         int(kept.group(1)) > 8, out + err)
    with open(os.path.join(folder, "saved.json")) as f:
        said = [m["content"] for m in json.load(f)["messages"]]
    case("and its text", said == ["I am Anna.", "Hi Anna.", "Who am I?", "You are Anna."], said)

    def sessions(*arguments):
        return run("sessions", *arguments, "--cache-dir", cache)

    code, out, err = sessions("fork", "anna", "bea")
    case("sessions fork", code == 0, err)
    case("sessions rename", sessions("rename", "bea", "cleo")[0] == 0)
    code, out, err = sessions("list", "--json")
    case("sessions list", [s["name"] for s in json.loads(out)] == ["anna", "cleo"], out + err)
    code, out, err = sessions("show", "cleo")
    case("sessions show", code == 0 and "[assistant]\nYou are Anna.\n" in out, out + err)
    for bad in (["show", "../x"], ["show", "dan"], ["fork", "anna", "a/b"],
                ["fork", "anna", "cleo"], ["delete", "dan"], ["rename", "dan", "e"]):
        code, out, err = sessions(*bad)
        case("sessions " + " ".join(bad), code == 1 and "session" in err, out + err)
    for bad in (["zap"], ["show"], ["list", "x"], ["fork", "anna"]):
        case("sessions " + " ".join(bad), sessions(*bad)[0] == 2)
    case("sessions delete", sessions("delete", "anna")[0] == 0)
    case("the other has its files", glob.glob(cache + "/*.kv") != [])
    code, out, err = chat(folder, ["", "", "Yes."], "Sure?\n/stats\n", "--session", "cleo",
                          "--cache-dir", cache)
    case("and goes on", code == 0 and "kept from before" in out, out + err)
    path = os.path.join(cache, "sessions", "cleo.session")
    with open(path, "r+") as f:
        f.seek(200)
        f.write("~")
    code, out, err = chat(folder, ["A."], "hi\n", "--session", "cleo", "--cache-dir", cache)
    case("a damaged one is an error", code == 1 and out == "" and "damaged" in err, out + err)
    case("which can be deleted", sessions("delete", "cleo")[0] == 0)


def test_session_folder(folder):
    os.environ["XDG_STATE_HOME"] = folder
    own = os.path.join(folder, "ingot", "sessions")
    keep = ["--session", "anna", "--session-strict"]
    code, out, err = chat(folder, ["Hi Anna."], "I am Anna.\n", *keep)
    case("a session in the state folder", code == 0 and
         stat.S_IMODE(os.stat(own).st_mode) == 0o700 and
         {stat.S_IMODE(os.stat(f).st_mode) for f in glob.glob(own + "/*")} == {0o600}, out + err)
    code, out, err = run("sessions", "show", "anna")
    case("sessions looks there, too", code == 0 and "Hi Anna." in out, out + err)
    code, out, err = chat(folder, ["", "Anna."], "Who am I?\n", *keep)
    case("strict: what extends it is answered", code == 0 and out == "Anna.\n", out + err)
    code, out, err = chat(folder, ["A."], "hi\n", *keep, "--system", "Be brief.")
    case("strict: what does not is refused", code == 1 and out == "" and "begins with" in err,
         out + err)
    link = os.path.join(folder, "link")
    os.symlink(own, link)
    for path in (link, link + "/"):
        code, out, err = chat(folder, ["A."], "hi\n", "--session", "anna", "--session-dir", path)
        case("a link is not followed", code == 1 and out == "" and "cannot be opened" in err,
             out + err)
    code, out, err = chat(folder, ["A."], "hi\n", "--session", "anna", "--session-dir", MODEL)
    case("nor is a file a folder", code == 1 and out == "" and "cannot be opened" in err, out + err)


class Terminal:
    def __init__(self, folder, turns):
        script = os.path.join(folder, "script.json")
        with open(script, "w") as f:
            json.dump(turns, f)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(XDG_STATE_HOME=folder, TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(INGOT, [INGOT, "chat", MODEL, "--script", script])
        self.seen = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def wait(self, part, seconds=60):
        """Reads until `part` was printed; what is read up to there is forgotten."""
        end = time.time() + seconds
        while part not in self.seen and time.time() < end:
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                break
        found = part in self.seen
        self.seen = self.seen.split(part, 1)[1] if found else self.seen
        return found

    def end(self, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            self.wait("\0", 0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return "still running"


def test_terminal(folder):
    t = Terminal(folder, ["Answer one.", LONG, "Answer three."])
    case("a greeting and a prompt", t.wait("/help lists the commands") and t.wait("> "), t.seen)
    t.send("hellx\x7fo\r")
    case("an edited line is answered", t.wait("Answer one.") and t.wait("> "), t.seen)
    t.send("go\r")
    case("the answer streams", t.wait("three four"), t.seen)
    t.send("\x03")
    case("Ctrl-C stops the answer only", t.wait("> "), t.seen)
    t.send("\x1b[200~first\nsecond\x1b[201~\r")
    case("a paste is one message", t.wait("Answer three.") and t.wait("> "), t.seen)
    saved = os.path.join(folder, "pasted.json")
    t.send(f"/save {saved}\r")
    t.wait("messages saved")
    with open(saved) as f:
        messages = json.load(f)["messages"]
    case("what the paste said", messages[4:5] == [{"role": "user", "content": "first\nsecond"}],
         messages)
    case("the stopped answer stays as far as it went", messages[3]["content"] and
         LONG.startswith(messages[3]["content"]) and len(messages[3]["content"]) < len(LONG) - 1,
         messages[3])
    t.wait("> ")
    t.send("/edit\r")
    case("/edit offers the last message", t.wait("> ") and t.wait("second"), t.seen)
    t.send(" third\r")
    case("and answers what became of it", t.wait("Answer three.") and t.wait("> "), t.seen)
    t.send(f"/save {saved}\r")
    t.wait("messages saved")
    with open(saved) as f:
        messages = json.load(f)["messages"]
    case("an edited message keeps its lines", [m["content"] for m in messages[4:]] ==
         ["first\nsecond third", "Answer three."], messages)
    t.wait("> ")
    t.send("\x04")
    code = t.end()
    case("Ctrl-D ends", code == 0, (code, t.seen))
    history = os.path.join(folder, "ingot", "history")
    with open(history) as f:
        lines = f.read()
    case("the history is kept", "hello" in lines and
         stat.S_IMODE(os.stat(history).st_mode) == 0o600, lines)
    t = Terminal(folder, ["A."])
    t.wait("> ")
    t.send("\0")  # what a Ctrl-D becomes that is typed before the editor reads
    code = t.end()
    case("Ctrl-D in line mode ends", code == 0, code)
    t = Terminal(folder, ["A."])
    t.wait("> ")
    t.send("\x03")
    t.wait("once more")
    t.wait("> ")
    t.send("\x03")
    code = t.end()
    case("Ctrl-C twice at the prompt quits", code == 130, code)


if MODEL:
    with tempfile.TemporaryDirectory() as temporary:
        test_pipe(temporary)
        test_conversation(temporary)
        test_settings(temporary)
    with tempfile.TemporaryDirectory() as temporary:
        test_session(temporary)
    with tempfile.TemporaryDirectory() as temporary:
        test_session_folder(temporary)
    with tempfile.TemporaryDirectory() as temporary:
        test_terminal(temporary)
else:
    not_run("ingot chat", "no package registry, so no model")
finish()
