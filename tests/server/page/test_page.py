#!/usr/bin/env python3
"""The page in headless Chromium, on scripted models: test_page.py [--pictures FOLDER].

Needs Debian's chromium and chromium-driver, and what requirements.txt lists. `./test page` runs it.
"""
import json
import pathlib
import re
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import answers  # noqa: E402
from browser import Browser  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from server_support import Server  # noqa: E402

MODEL, OTHER = "smollm2-1.7b-instruct-q4_k_m", "qwen3-8b-q4_k_m"
HELLO = "Hello world!"
KEY = "a-key-of-the-page-1"


class PageTest(unittest.TestCase):
    config = {}

    @classmethod
    def setUpClass(cls):
        models = {MODEL: answers.script(), OTHER: answers.script(load_ms=800)}
        cls.server = Server(models=models, load=[MODEL], **cls.config)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.downloads = pathlib.Path(folder.name)
        self.page = self.open_page()

    def open_page(self, **options):
        page = Browser(f"http://127.0.0.1:{self.server.port}/", downloads=self.downloads, **options)
        self.addCleanup(page.close)
        return page

    def tearDown(self):
        here = f"http://127.0.0.1:{self.server.port}/"
        for url in self.page.requested():
            self.assertTrue(url.startswith((here, f"blob:{here}", "data:", "chrome:")), f"a request to elsewhere: {url}")
        # Chromium lists answers of the server with an error status here too: tests that cause them read the list.
        self.assertEqual(self.page.complaints(), [])

    def menu_of(self, index, label):
        """The button of one message, as a selector."""
        return f".message:nth-child({index}) [aria-label='{label}']"

    def wait_idle(self):
        self.page.wait(lambda: not self.page.is_writing(), "the answer ends")


class Chat(PageTest):
    def test_chat(self):
        page = self.page
        self.assertTrue(page.is_shown("#welcome"))
        self.assertEqual(page.ask("Hi there"), HELLO)
        self.assertFalse(page.is_shown("#welcome"))
        self.assertIn("5 tokens", page.text(".stats"))
        self.assertIn("tokens/s", page.text(".stats"))
        self.assertEqual(page.texts(".chat-title"), ["Hi there"])
        self.assertEqual(page.js("return document.title"), "Hi there · Gabbro")
        meter = "return document.getElementById('context').getAttribute('aria-valuetext')"
        page.wait(lambda: re.fullmatch(r"[1-9]\d* of 4096 tokens", page.js(meter)), "the context meter follows")
        # A second message has the first ones before it.
        page.ask("And again")
        self.assertEqual(page.answers(), [HELLO, HELLO])

    def test_stop(self):
        page = self.page
        page.send("slow")
        page.wait(lambda: page.answers() and "word word" in page.answers()[-1], "the answer begins")
        self.assertFalse(page.is_shown("#send"))
        page.click("#stop")
        self.wait_idle()
        self.assertEqual(page.text(".state"), "Stopped")
        self.assertTrue(page.is_shown("#send"))
        self.server.wait_until(0)
        text = page.answers()[-1]
        page.driver.refresh()
        page.wait(lambda: page.answers() == [text], "the text is kept")

    def test_thoughts_are_folded(self):
        page = self.page
        page.ask("ponder")
        self.assertEqual(page.answers()[-1], "It is 42.")
        self.assertRegex(page.text(".thoughts summary"), r"Thought for \d\.\d s")
        self.assertFalse(page.js("return document.querySelector('.thoughts').open"))
        page.click(".thoughts summary")
        self.assertIn("Six times seven", page.text(".thought-text"))
        self.assertTrue(page.is_shown(".thought-text"))

    def test_edit_makes_a_branch(self):
        page = self.page
        page.ask("First question")
        page.click(self.menu_of(1, "Edit message"))
        page.keys(Keys.CONTROL, "a")
        page.keys("Second question ponder")
        page.chord(Keys.CONTROL, Keys.ENTER)
        page.wait(lambda: page.answers() == ["It is 42."], "the other answer")
        self.wait_idle()
        self.assertEqual(page.text(".versions span"), "2 / 2")
        page.click(".message.user [aria-label='Previous version']")
        page.wait(lambda: page.answers() == [HELLO], "the first branch")
        self.assertEqual(page.text(".message.user .text"), "First question")
        page.driver.refresh()
        page.wait(lambda: page.answers() == [HELLO], "the branch stays after a reload")
        page.click(".message.user [aria-label='Next version']")
        page.wait(lambda: page.answers() == ["It is 42."], "the second branch")

    def test_edit_of_an_answer(self):
        page = self.page
        page.ask("Hi")
        page.click(self.menu_of(2, "Edit answer"))
        page.keys(Keys.CONTROL, "a")
        page.keys("My **own** words")
        page.chord(Keys.CONTROL, Keys.ENTER)
        page.wait(lambda: page.answers() == ["My own words"], "the edited answer")
        self.assertEqual(page.text(".message.assistant .versions span"), "2 / 2")
        # An edit that is left by Esc changes nothing.
        page.click(self.menu_of(2, "Edit answer"))
        page.keys("zzz")
        page.keys(Keys.ESCAPE)
        self.assertEqual(page.answers(), ["My own words"])

    def test_regenerate(self):
        page = self.page
        page.ask("Hi")
        page.click(self.menu_of(2, "Regenerate"))
        page.wait(lambda: page.text(".message.assistant .versions span") == "2 / 2", "a second answer")
        self.wait_idle()
        page.click(self.menu_of(2, "Regenerate"))
        page.wait(lambda: page.text(".message.assistant .versions span") == "3 / 3", "a third answer")
        self.wait_idle()
        page.click(".message.assistant [aria-label='Previous version']")
        page.wait(lambda: page.text(".message.assistant .versions span") == "2 / 3", "the second of three")
        self.assertEqual(page.answers(), [HELLO])

    def test_reload_in_the_middle_of_an_answer(self):
        page = self.page
        page.send("slow")
        page.wait(lambda: page.answers() and page.answers()[-1].count("word") > 40, "a part of the answer")
        before = page.answers()[-1].count("word")
        page.driver.refresh()
        page.wait(lambda: page.answers(), "the chat is there again")
        self.assertEqual(page.text(".state"), "Cut by a reload")
        # The text of the last third of a second may be missing.
        self.assertGreater(page.answers()[-1].count("word"), before - 40)
        self.server.wait_until(0)
        page.click(self.menu_of(2, "Regenerate"))
        page.wait(lambda: page.is_writing(), "a new answer")
        page.click("#stop")
        self.wait_idle()

    def test_failure_in_the_middle(self):
        page = self.page
        page.send("broken")
        page.wait(lambda: page.is_shown(".state.error"), "the error")
        self.assertEqual(page.text(".state.error"), "Failed: the script fails")
        self.assertEqual(page.answers(), ["so far"])

    def test_answers_of_two_chats_at_once(self):
        page = self.page
        page.send("slow")
        page.wait(lambda: page.answers() and "word" in page.answers()[-1], "the first chat writes")
        page.click("#new-chat")
        self.assertEqual(page.ask("Hi"), HELLO)
        page.wait(lambda: len(page.all(".chat-link")) == 2, "two chats")
        page.click("section li:nth-child(2) .chat-link")
        page.wait(lambda: page.is_writing(), "the first goes on")
        count = page.answers()[-1].count("word")
        page.wait(lambda: page.answers()[-1].count("word") > count, "and grows")
        page.click("#stop")
        self.wait_idle()

    def test_follows_the_end_until_the_reader_scrolls(self):
        page = self.page
        page.ask("long")
        position = "const s = document.getElementById('scroller'); return s.scrollHeight - s.scrollTop - s.clientHeight"
        page.wait(lambda: page.js(position) < 5, "the end is shown")
        page.js("document.getElementById('scroller').scrollTop = 0")
        page.wait(lambda: page.is_shown("#to-end"), "the button to the end")
        page.click("#to-end")
        page.wait(lambda: page.js(position) < 5, "the end again")


class Text(PageTest):
    def test_markdown(self):
        page = self.page
        page.ask("table")
        count = lambda selector: len(page.all(f".message.assistant .text {selector}"))
        for selector, expected in (("strong", 1), ("em", 2), ("del", 1), ("h4", 1), ("ol > li", 3), ("ul > li", 2), ("input[type=checkbox]", 1),
                                   ("table", 1), ("tbody tr", 2), ("td.align-right", 2), ("td.align-center", 2), (".code pre", 1), ("blockquote", 1),
                                   ("a[href^='https://example.org']", 2), (".hl-k", 7), (".hl-c", 1)):
            self.assertEqual(count(selector), expected, selector)
        for link in page.all(".text a"):
            self.assertEqual((link.get_attribute("rel"), link.get_attribute("target")), ("noopener noreferrer", "_blank"))
        page.click("[aria-label='Show the text as written']")
        self.assertEqual(page.answers()[-1], answers.RICH, "the text as written")
        page.click("[aria-label='Show the text as written']")
        self.assertEqual(count("table"), 1)

    def test_code_is_copied(self):
        page = self.page
        page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        page.ask("table")
        page.click(".code-head button")
        page.wait(lambda: page.text("#notice") == "The code was copied", "the notice")
        copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))")
        self.assertTrue(copied.startswith("def tokens_per_second") and copied.endswith("else 0.0"), copied)

    def test_text_of_a_model_never_runs(self):
        page = self.page
        page.ask("hostile")
        time.sleep(0.3)
        self.assertIsNone(page.js("return window.hacked ?? null"))
        self.assertEqual(page.js("return [...document.querySelectorAll('#messages *')].filter((e) => "
                                 "['SCRIPT', 'IFRAME', 'IMG', 'I'].includes(e.tagName) || [...e.attributes].some((a) => a.name.startsWith('on'))).length"), 0)
        links = page.js("return [...document.querySelectorAll('#messages a')].map((a) => a.href)")
        self.assertEqual(links, ["https://example.org/steal.png?secret", "https://example.org/"], "a picture is a link only")
        self.assertIn("<script>window.hacked = 1</script>", page.answers()[-1])

    def test_long_and_strange_markdown_is_read_in_time(self):
        page = self.page
        seconds = page.driver.execute_async_script("""
          const done = arguments[0];
          import('/page/markdown.js').then(({ MarkdownView }) => {
            const cases = { stars: '*a '.repeat(30000), brackets: '['.repeat(50000), ticks: '` `` '.repeat(20000), quotes: '> '.repeat(20000) + 'x',
              lists: Array.from({ length: 200 }, (_, i) => ' '.repeat(i * 2) + '- x').join('\\n'), bars: '|'.repeat(20000) + '\\n' + '|-'.repeat(20000),
              spaces: '|\\n' + ' '.repeat(50000) + 'x', hashes: '# ' + '# '.repeat(30000) + 'x', links: '[a](b '.repeat(20000), aitches: 'http'.repeat(30000) };
            const slow = {};
            for (const [name, text] of Object.entries(cases)) {
              const start = performance.now();
              const root = document.createElement('div');
              new MarkdownView(root).update(text);
              const seconds = (performance.now() - start) / 1000;
              if (seconds > 2) slow[name] = seconds;
            }
            done(slow);
          });""")
        self.assertEqual(seconds, {})


class Models(PageTest):
    def test_choice_and_load_state(self):
        page = self.page
        page.wait(lambda: page.texts("#model option") == [MODEL, OTHER], "both models")
        self.assertEqual(page.text("#model-state-text"), "loaded")
        self.assertEqual(page.js("return [...document.querySelectorAll('#model optgroup')].map((g) => g.label)"), ["Loaded", "Not loaded"])
        page.js("const m = document.getElementById('model'); m.value = arguments[0]; m.dispatchEvent(new Event('change'))", OTHER)
        self.assertEqual(page.text("#model-state-text"), "not loaded")
        page.click("#load")
        self.assertEqual(page.text("#model-state-text"), "loading…")
        page.wait(lambda: page.text("#model-state-text") == "loaded", "the model is loaded")
        page.ask("Hi")
        self.assertIn(OTHER, page.text(".stats"))
        page.driver.refresh()
        page.wait(lambda: page.js("return document.getElementById('model').value") == OTHER, "the choice is kept")

    def test_settings_go_into_requests(self):
        page = self.page
        page.click("#settings-button")
        page.fill("#set-system", "Be brief.")
        page.fill("#set-temperature", "0.5")
        page.fill("#set-max_tokens", "2")
        page.fill("#set-seed", "7")
        page.find("#settings button[value=save]").click()
        self.assertEqual(page.ask("Hi"), "Hello", "two tokens")
        self.assertIn("ended by its length", page.text(".stats"))
        body = json.loads(next(json.loads(e["message"])["message"]["params"]["request"]["postData"] for e in page.driver.get_log("performance")
                               if "/v1/chat/completions" in e["message"] and "postData" in e["message"]))
        self.assertEqual((body["temperature"], body["max_tokens"], body["seed"], body["messages"][0]), (0.5, 2, 7, {"role": "system", "content": "Be brief."}))
        self.assertNotIn("top_p", body)
        page.driver.refresh()
        page.wait(lambda: page.find("body.ready"), "the page starts")
        page.click("#settings-button")
        self.assertEqual(page.find("#set-temperature").get_attribute("value"), "0.5")
        # A number out of range is not taken.
        page.fill("#set-temperature", "9")
        page.find("#settings button[value=save]").click()
        self.assertTrue(page.is_shown("#settings"))
        page.click("#settings-reset")
        page.find("#settings button[value=save]").click()
        self.assertEqual(page.ask("Hi"), HELLO)

    def test_status(self):
        page = self.page
        page.ask("Hi")
        page.click("#status-button")
        page.wait(lambda: MODEL in page.texts("#status h3"), "the model's card")
        text = page.text("#status-content")
        for fact in ("cpu", "3.2 GiB", "4096 tokens", "tokens/s", "Waiting", "Connections"):
            self.assertIn(fact, text)
        page.keys(Keys.ESCAPE)
        self.assertFalse(page.is_shown("#status"))


class Kept(PageTest):
    def test_search_rename_and_delete(self):
        page = self.page
        for text in ("About apples", "About pears table", "Something else"):
            page.click("#new-chat")
            page.ask(text)
        self.assertEqual(len(page.all(".chat-link")), 3)
        page.fill("#search", "apples")
        page.wait(lambda: page.texts(".chat-title") == ["About apples"], "one title")
        page.fill("#search", "rumor")
        page.wait(lambda: page.texts(".chat-title") == ["About pears table"], "one text of an answer")
        self.assertIn("rumor", page.text(".chat-link small"))
        page.fill("#search", "nothing of this")
        page.wait(lambda: "Nothing was found" in page.text("#chats"), "nothing")
        page.find("#search").send_keys(Keys.ESCAPE)
        page.wait(lambda: len(page.all(".chat-link")) == 3, "all again")
        page.click("[aria-label='Rename Something else']")
        page.keys("Renamed", Keys.ENTER)
        page.wait(lambda: "Renamed" in page.texts(".chat-title"), "the new name")
        page.click("[aria-label='Delete Renamed']")
        page.click("#confirm [data-close]")
        self.assertEqual(len(page.all(".chat-link")), 3)
        page.click("[aria-label='Delete Renamed']")
        page.click("#confirm-yes")
        page.wait(lambda: len(page.all(".chat-link")) == 2, "one chat fewer")
        self.assertTrue(page.is_shown("#welcome"))

    def test_export_and_import(self):
        page = self.page
        page.ask("Keep this table")
        page.click("#export")
        file = page.wait(lambda: next(self.downloads.glob("gabbro-chats-*.json"), None), "the file")
        content = page.wait(lambda: json.loads(file.read_text()), "the whole file")
        self.assertEqual([message["role"] for message in content["chats"][0]["messages"]], ["user", "assistant"])
        other = self.open_page()
        chooser = other.find("#import-file")
        chooser.send_keys(str(file))
        other.wait(lambda: other.texts(".chat-title") == ["Keep this table"], "the imported chat")
        other.click(".chat-link")
        other.wait(lambda: len(other.all(".text table")) == 1, "its answer")
        other.find("#import-file").send_keys(str(file))
        other.wait(lambda: other.text("#notice").startswith("0 "), "nothing twice")
        circle = json.loads(file.read_text())
        circle["chats"][0]["id"] = "other"
        first, second = circle["chats"][0]["messages"]
        first["id"], second["id"], first["parent"], second["parent"] = "a", "b", "b", "a"
        for text in ("{}", "not json", json.dumps({**content, "version": 9}), json.dumps(circle)):
            bad = self.downloads / "bad.json"
            bad.write_text(text)
            other.js("document.getElementById('notice').textContent = ''")
            other.find("#import-file").send_keys(str(bad))
            other.wait(lambda: other.text("#notice").startswith("bad.json cannot be imported"), f"the refusal of {text[:30]}")
        self.assertEqual(len(other.all(".chat-link")), 1)


class Reach(PageTest):
    def test_keys_only(self):
        page = self.page
        page.wait(lambda: page.focus() == "Message", "the message has the focus")
        page.keys("One", Keys.SHIFT, Keys.ENTER, Keys.NULL, "Two", Keys.ENTER)
        page.wait(lambda: page.answers() == [HELLO], "the answer")
        self.wait_idle()
        self.assertEqual(page.text(".message.user .text"), "One\nTwo")
        page.chord(Keys.ALT, "r")
        page.wait(lambda: page.text(".message.assistant .versions span") == "2 / 2", "another answer")
        self.wait_idle()
        page.chord(Keys.ALT, "e")
        page.keys(Keys.CONTROL, "a")
        page.keys("slow")
        page.chord(Keys.CONTROL, Keys.ENTER)
        page.wait(lambda: page.is_writing() and "word" in page.answers()[-1], "the edited question is answered")
        page.keys(Keys.ESCAPE)
        self.wait_idle()
        self.assertEqual(page.text(".state"), "Stopped")
        page.chord(Keys.CONTROL, "k")
        self.assertEqual(page.focus(), "Search in conversations")
        page.keys(Keys.ARROW_DOWN)
        self.assertIn("One", page.focus())
        page.keys(Keys.ENTER)
        page.chord(Keys.ALT, "n")
        page.wait(lambda: page.is_shown("#welcome"), "a new chat")
        page.chord(Keys.ALT, "i")
        page.wait(lambda: page.is_shown("#status"), "the status")
        page.keys(Keys.ESCAPE)
        page.chord(Keys.ALT, "s")
        page.wait(lambda: page.is_shown("#settings"), "the settings")
        page.keys(Keys.ESCAPE)
        page.wait(lambda: not page.is_shown("#settings"), "the settings are closed")
        page.find("#scroller").send_keys("?")
        page.wait(lambda: page.is_shown("#keys"), "the list of keys")
        page.keys(Keys.ENTER)
        page.wait(lambda: not page.is_shown("#keys"), "the list is closed")

    def test_each_control_is_reached_by_tab(self):
        page = self.page
        page.ask("table")
        page.js("document.body.focus(); document.activeElement.blur()")
        names = []
        for _ in range(60):
            page.keys(Keys.TAB)
            names.append(page.focus())
        for name in ("Skip to the message", "New chat", "Search in conversations", "Export", "Import", "Keys", "Model", "Server status", "Settings", "Messages",
                     "Copy", "Edit message", "Copy answer", "Regenerate", "Message"):
            self.assertIn(name, names)

    def test_answers_are_read_by_sentence(self):
        page = self.page
        page.ask("long")
        spoken = page.texts("#spoken p")
        self.assertTrue(spoken and all(text == "A line of a long answer." for text in spoken), spoken)

    def test_axe_finds_nothing(self):
        page = self.page
        found = {}

        def look(where):
            for scheme in ("light", "dark"):
                page.color(scheme)
                time.sleep(0.25)
                found[f"{where}, {scheme}"] = page.axe()

        look("empty")
        page.ask("ponder")
        page.ask("table")
        page.click(".thoughts summary")
        page.click(self.menu_of(4, "Regenerate"))
        self.page.wait(lambda: page.text(".message:nth-child(4) .versions span") == "2 / 2", "two versions")
        self.wait_idle()
        look("chat")
        page.click(self.menu_of(1, "Edit message"))
        look("editing")
        page.keys(Keys.ESCAPE)
        page.click("#status-button")
        page.wait(lambda: page.texts("#status h3"), "the status")
        look("status")
        page.click("#status-close")
        page.click("#settings-button")
        look("settings")
        page.keys(Keys.ESCAPE)
        page.resize(360, 740)
        look("phone")
        page.click("#menu")
        time.sleep(0.3)
        look("phone, conversations")
        self.assertEqual({where: rows for where, rows in found.items() if rows}, {})

    def test_360_pixels(self):
        page = self.page
        page.resize(360, 740)
        page.wait(lambda: not page.is_shown("#sidebar"), "the conversations are out of the way")
        self.assertEqual(page.ask("table").count("tokens/s"), 1)
        self.assertEqual(page.width(), [360, 360], "the table scrolls, the page does not")
        page.click("#menu")
        page.wait(lambda: page.is_shown("#chats"), "the conversations")
        self.assertTrue(page.js("return document.getElementById('main').inert"))
        self.assertEqual(page.width()[0], 360)
        page.keys(Keys.ESCAPE)
        page.wait(lambda: not page.is_shown("#sidebar"), "they are closed")
        page.click("#settings-button")
        self.assertEqual(page.width()[0], 360)
        self.assertTrue(page.js("const d = document.getElementById('settings').getBoundingClientRect(); return d.left >= 0 && d.right <= 360"))
        page.keys(Keys.ESCAPE)
        page.click("#status-button")
        page.wait(lambda: page.texts("#status h3"), "the status")
        self.assertEqual(page.width()[0], 360)
        page.click("#status-close")
        for selector in ("#menu", "#send", "#settings-button", ".message-foot .icon-button"):
            size = page.find(selector).size
            self.assertGreaterEqual(min(size["width"], size["height"]), 24, f"{selector} can be touched")

    def test_dark_and_light(self):
        page = self.page
        ground = "return getComputedStyle(document.body).backgroundColor"
        light = page.js(ground)
        page.color("dark")
        dark = page.js(ground)
        self.assertNotEqual(light, dark)
        page.click("#settings-button")
        page.js("document.getElementById('set-theme').value = 'light'")
        page.find("#settings button[value=save]").click()
        self.assertEqual(page.js(ground), light)
        page.driver.refresh()
        page.wait(lambda: page.find("body.ready"), "the page starts")
        self.assertEqual(page.js(ground), light, "the choice is kept")


class Key(PageTest):
    config = {"keys": KEY}

    def test_the_key_is_asked_for(self):
        page = self.page
        page.wait(lambda: page.is_shown("#key"), "the dialog")
        page.fill("#key-input", "a-key-that-is-wrong")
        page.keys(Keys.ENTER)
        page.wait(lambda: page.text("#key-message") == "the API key is wrong", "the wrong key")
        page.fill("#key-input", KEY)
        page.keys(Keys.ENTER)
        page.wait(lambda: page.texts("#model option"), "the models")
        self.assertEqual(page.ask("Hi"), HELLO)
        page.driver.refresh()
        page.wait(lambda: page.texts("#model option"), "the key is kept in this tab")
        self.assertIsNone(page.js("return localStorage.getItem('gabbro-key')"))
        refused = [line for line in page.complaints() if "401" not in line]
        self.assertEqual(refused, [])


def take_pictures(folder):
    """The pictures of docs/guides/server.md."""
    folder.mkdir(parents=True, exist_ok=True)
    with Server(models={MODEL: answers.script(12), OTHER: answers.script()}, load=[MODEL], version="1.0.0") as server:
        page = Browser(f"http://127.0.0.1:{server.port}/", height=920)
        for text in ("What was that number? Please ponder", "Compare the formats in a table"):
            if text.endswith("table"):
                page.js("document.getElementById('new-chat').click()")
            page.ask(text)
        page.js("document.activeElement.blur()")
        page.picture(folder / "page_light.png")
        page.click("#status-button")
        page.wait(lambda: page.texts("#status h3"), "the status")
        page.color("dark")
        time.sleep(0.3)
        page.js("document.activeElement.blur()")
        page.picture(folder / "page_dark.png")
        page.click("#status-close")
        page.resize(360, 740, 2)
        time.sleep(0.3)
        page.js("document.activeElement.blur()")
        page.picture(folder / "page_phone.png")
        page.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pictures"]:
        take_pictures(pathlib.Path(sys.argv[2]))
    else:
        unittest.main(verbosity=2)
