"""The interactive chat, through a pseudo-terminal."""
import json
import re

import support
from pseudo_terminal import Terminal
from support import TINY_F16, TestCase


class Chat(TestCase):
    def start(self, *arguments):
        terminal = Terminal("run", TINY_F16, "-n", "6", "--temperature", "0", *arguments,
                            environment={"GABBRO_HOME": str(self.folder)})
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"/help lists the commands")
        terminal.wait_for(rb"> ")
        return terminal

    def test_talks_and_leaves(self):
        terminal = self.start()
        terminal.type("Hello\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/help\n")
        terminal.wait_for(rb"/save FILE")
        terminal.wait_for(rb"> ")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_end_of_input_leaves(self):
        terminal = self.start()
        terminal.type("\x04")
        self.assertEqual(terminal.leave(), 0)

    def test_a_prompt_says_that_keys_are_heard(self):
        for _ in range(10):
            self.assertTrue(self.start().is_raw())

    def test_saves_and_forgets(self):
        path = self.folder / "chat.json"
        terminal = self.start("--system", "Be brief.")
        for line in ("Hello", "caf\u00e9?", f"/save {path}"):
            terminal.type(line + "\n")
            terminal.wait_for(rb"\n> " if not line.startswith("/") else rb"saved to .*\n")
        messages = json.loads(path.read_text())
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual([m["content"] for m in messages][::2], ["Be brief.", messages[2]["content"], messages[4]["content"]])
        self.assertEqual((messages[1]["content"], messages[3]["content"]), ("Hello", "café?"))
        terminal.type(f"/reset\n/save {path}\n")
        terminal.wait_for(rb"forgotten")
        terminal.wait_for(rb"saved to .*\n")
        self.assertEqual(json.loads(path.read_text()), messages[:1])
        terminal.type("/save /no/such/folder/x\n")
        terminal.wait_for(rb"gabbro: error: .*/no/such/folder")
        terminal.type("/frob\n")
        terminal.wait_for(rb"unknown command /frob")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_several_lines(self):
        path = self.folder / "chat.json"
        terminal = self.start()
        terminal.type("one\\\n")
        terminal.wait_for(rb"\.\.\. ")
        terminal.type("two\n")
        terminal.wait_for(rb"\n> ")
        terminal.type('"""three\n')
        terminal.wait_for(rb"\.\.\. ")
        terminal.type("\n")
        terminal.wait_for(rb"\.\.\. ")
        terminal.type('four"""\n')
        terminal.wait_for(rb"\n> ")
        terminal.type(f"/save {path}\n")
        terminal.wait_for(rb"saved to .*\n")
        said = [m["content"] for m in json.loads(path.read_text()) if m["role"] == "user"]
        self.assertEqual(said, ["one\ntwo", "three\n\nfour"])
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_interrupts_at_the_prompt(self):
        terminal = self.start()
        terminal.type("half a li")
        terminal.interrupt()
        terminal.wait_for(rb"Ctrl-C again")
        terminal.wait_for(rb"> ")
        terminal.type("Hello\n")  # in between: restarts the count
        terminal.wait_for(rb"\n> ")
        terminal.interrupt()
        terminal.wait_for(rb"Ctrl-C again")
        terminal.wait_for(rb"> ")
        terminal.interrupt()
        self.assertEqual(terminal.leave(), 130)

    def test_a_second_turn_reuses_the_first(self):
        terminal = self.start("--stats")
        terminal.type("Hello\n")
        terminal.wait_for(rb"\(0 cached\)")
        terminal.wait_for(rb"> ")
        terminal.type("Hello\n")
        said = terminal.wait_for(rb"\((\d+) cached\)")
        first_turn = len("<|im_start|>user\nHello") // 4
        self.assertGreater(int(re.search(rb"\((\d+) cached\)", said)[1]), first_turn)
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_survives_a_prompt_that_is_too_long(self):
        terminal = self.start("--ctx", "48")
        terminal.type("word " * 60 + "\n")
        terminal.wait_for(rb"gabbro: error: .*context")
        terminal.wait_for(rb"> ")
        terminal.type("Hi\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def test_goes_on_when_the_context_is_full(self):
        path = self.folder / "chat.json"
        terminal = self.start("--ctx", "160", "--system", "Be brief.")
        full = []
        for i in range(6):
            terminal.type(f"Question {i}: what is the name of the brown dog?\n")
            said = terminal.wait_for(rb"cut off after 6 tokens.*\n> ")
            self.assertNotIn(b"error", said)
            full.append(b"oldest messages are left out" in said)
        self.assertEqual((full[0], full[-2:]), (False, [True, True]))
        terminal.type(f"/save {path}\n")
        terminal.wait_for(rb"saved to .*\n")
        self.assertEqual(len(json.loads(path.read_text())), 13)  # all that was said
        terminal.type("word " * 60 + "\n")  # this alone is too long
        terminal.wait_for(rb"hint: shorten")
        terminal.type("/help\n")
        terminal.wait_for(rb"/reset .*oldest turns")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)

    def messages_after(self, terminal):
        path = self.folder / "chat.json"
        terminal.type(f"/save {path}\n")
        terminal.wait_for(rb"saved to .*\n")
        return json.loads(path.read_text())

    def said(self, terminal):
        return [message["content"] for message in self.messages_after(terminal) if message["role"] == "user"]

    def paste(self, terminal, text):
        """As a terminal sends it, and Enter after it."""
        terminal.type(b"\x1b[200~" + (text if isinstance(text, bytes) else text.encode()) + b"\x1b[201~\n")
        terminal.wait_for(rb"\n> ")

    def test_a_paste_is_one_message(self):
        for text in ("one\ntwo\nthree", "one\rtwo\rthree", "one\rtwo\rthree\r"):
            terminal = self.start()
            self.paste(terminal, text)
            self.assertEqual(self.said(terminal), ["one\ntwo\nthree"])

    def test_odd_pastes(self):
        for text, expected in (("a\nb\x1b[201~c\nd", "a\nbc\nd"), ("a\x1b[200~b\nc", "ab\nc"),
                               ("/exit\nis a command", "/exit\nis a command"), ("caf\u00e9\n\U0001f98a", "caf\u00e9\n\U0001f98a"),
                               (b"bad \xff\nbyte", "bad \ufffd\nbyte"), ("ends in \\\nand goes on", "ends in \\\nand goes on")):
            terminal = self.start()
            self.paste(terminal, text)
            self.assertEqual(self.said(terminal), [expected])

    def test_a_paste_longer_than_any_buffer(self):
        text = "\n".join(f"line {i}" for i in range(40))  # of the editor: 1024 characters at first
        text += "\n" + "x" * 1500
        terminal = self.start("--ctx", "8")  # the answer is an error: what counts is the message
        terminal.type("\x1b[200~" + text + "\x1b[201~\n")
        terminal.wait_for(rb"gabbro: error: ")
        history = self.folder / "history"
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)
        kept = history.read_text().replace("\\012", "\n").replace("\\040", " ")
        self.assertIn(text, kept)

    def test_a_paste_within_typed_text_and_a_stray_end(self):
        terminal = self.start()
        terminal.type("before \x1b[200~x\ny\x1b[201~ after\x1b[201~\n")
        terminal.wait_for(rb"\n> ")
        self.assertEqual(self.said(terminal), ["before x\ny after"])

    def test_terminals_are_asked_for_marks_around_a_paste(self):
        terminal = Terminal("run", TINY_F16, environment={"GABBRO_HOME": str(self.folder), "TERM": "xterm"}, columns=80)
        self.addCleanup(terminal.close)
        terminal.wait_for(rb"\x1b\[\?2004h")
        terminal.type("/bye\n")
        terminal.wait_for(rb"\x1b\[\?2004l")
        self.assertEqual(terminal.leave(), 0)
        dumb = self.start()
        dumb.type("/bye\n")
        self.assertEqual(dumb.leave(), 0)
        self.assertNotIn(b"2004", dumb.seen)

    def test_commands_of_other_programs(self):
        terminal = self.start()
        terminal.type("Hello\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/?\n")
        terminal.wait_for(rb"/set parameter")
        terminal.wait_for(rb"> ")
        self.assertEqual(len(self.said(terminal)), 1)
        terminal.type("/clear\n")
        terminal.wait_for(rb"forgotten")
        self.assertEqual(self.said(terminal), [])
        terminal.type("/rest\n")
        terminal.wait_for(rb"unknown command /rest; did you mean /reset\?")
        terminal.type("/bye\n")
        self.assertEqual(terminal.leave(), 0)

    def test_settings(self):
        terminal = self.start("--stats")
        for setting, answer in (("parameter num_predict 3", rb"num_predict is 3"), ("parameter temperature 9e9", rb"error: "),
                                ("parameter temprature 1", rb"did you mean --temperature\?"), ("parameter num_ctx 5", rb"error: the context"),
                                ("system Be brief.", rb"system message is changed"), ("parameter", rb"/set parameter NAME VALUE")):
            terminal.type(f"/set {setting}\n")
            terminal.wait_for(answer)
            terminal.wait_for(rb"> ")
        terminal.type("Hello\n")
        terminal.wait_for(rb"generated 3 in")
        terminal.wait_for(rb"> ")
        self.assertEqual(self.messages_after(terminal)[0], {"role": "system", "content": "Be brief."})

    def test_history_outlives_the_program(self):
        terminal = self.start()
        terminal.type("Hello there\n")
        terminal.wait_for(rb"\n> ")
        terminal.type("/exit\n")
        self.assertEqual(terminal.leave(), 0)
        history = self.folder / "history"
        self.assertIn("Hello", history.read_text())
        self.assertEqual(history.stat().st_mode & 0o077, 0)


if __name__ == "__main__":
    support.main()
