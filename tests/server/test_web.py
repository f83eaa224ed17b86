"""Files of the page: types, headers, tags. tests/server/page drives the page in a browser."""
import re

import server_support
from server_support import ROOT, TestCase

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
NAMES = sorted(path.name for path in (ROOT / "src/server/web").iterdir() if path.suffix != ".h")


class Page(TestCase):
    config = {"keys": "a-key-of-tests-1", "models": {}}

    def get(self, path, **headers):
        return self.server.ask("GET", path, headers=headers)

    def test_browsers_get_the_page_and_others_a_line(self):
        status, headers, body = self.get("/", **HTML)
        self.assertEqual((status, headers["Content-Type"], headers["Vary"]), (200, "text/html; charset=utf-8", "Accept"))
        self.assertEqual(body, (ROOT / "src/server/web/index.html").read_bytes())
        self.assertEqual(self.get("/")[2], b"Ollama is running")
        self.assertEqual(self.get("/", Accept="*/*")[2], b"Ollama is running")
        status, headers, body = self.server.ask("HEAD", "/", headers=HTML)
        self.assertEqual((status, body, headers["Content-Type"]), (200, b"", "text/html; charset=utf-8"))

    def test_each_file_as_it_is_and_without_a_key(self):
        types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "html": "text/html; charset=utf-8", "svg": "image/svg+xml"}
        for name in NAMES:
            status, headers, body = self.get("/page/" + name)
            self.assertEqual((status, headers["Content-Type"]), (200, types[name.rsplit(".")[-1]]), name)
            self.assertEqual(body, (ROOT / "src/server/web" / name).read_bytes(), name)

    def test_headers(self):
        headers = self.get("/", **HTML)[1]
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        self.assertEqual((policy["default-src"], policy["script-src"], policy["connect-src"], policy["frame-ancestors"]), ("'none'", "'self'", "'self'", "'none'"))
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])
        self.assertEqual((headers["X-Content-Type-Options"], headers["Referrer-Policy"], headers["Cross-Origin-Opener-Policy"]),
                         ("nosniff", "no-referrer", "same-origin"))

    def test_a_known_file_is_not_sent_again(self):
        for path in ("/", "/page/app.js"):
            tag = self.get(path, **HTML)[1]["ETag"]
            self.assertRegex(tag, r'^"[0-9a-f]{16}"$')
            for known in (tag, "W/" + tag, f'"other", {tag}', "*"):
                status, headers, body = self.server.ask("GET", path, headers={**HTML, "If-None-Match": known})
                self.assertEqual((status, body, headers["ETag"]), (304, b"", tag), known)
                self.assertNotIn("Content-Length", headers)
            self.assertEqual(self.server.ask("GET", path, headers={**HTML, "If-None-Match": '"other"'})[0], 200)

    def test_other_paths(self):
        for path in ("/page/", "/page/none.js", "/page/../app.js", "/page/%2e%2e/server.h", "/page/page_files.h", "/page/app.js/"):
            self.assertEqual(self.get(path)[0], 404, path)

    def test_nothing_inline_and_nothing_from_elsewhere(self):
        html = (ROOT / "src/server/web/index.html").read_text()
        self.assertNotRegex(html, r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=")
        for name in NAMES:
            text = (ROOT / "src/server/web" / name).read_text()
            addresses = set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}
            self.assertEqual(addresses, set(), name)
            for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
                self.assertNotIn(banned, text, name)


if __name__ == "__main__":
    server_support.main()
