"""A headless Chromium on the page of a scripted server, with waits in place of pauses."""
import importlib.resources
import json
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

LIMIT = 15.0


class Browser:
    def __init__(self, url, width=1280, height=860, dark=False, downloads=None):
        options = webdriver.ChromeOptions()
        # Containers run it as root, which its sandbox refuses, and have a small /dev/shm.
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--lang=en"):
            options.add_argument(flag)
        if dark:
            options.add_argument("--force-dark-mode")
        if downloads:
            options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        service = webdriver.ChromeService("/usr/bin/chromedriver")
        self.driver = webdriver.Chrome(options=options, service=service)
        self.url = url
        self.resize(width, height)
        self.color("dark" if dark else "light")
        self.driver.get(url)
        self.wait(lambda: self.find("body.ready"), "the page starts")

    def close(self):
        self.driver.quit()

    def resize(self, width, height, scale=1):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500})

    def color(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def wait(self, condition, what, limit=LIMIT):
        end = time.monotonic() + limit
        while True:
            try:
                value = condition()
            except Exception as error:  # an element that was drawn again
                value, failure = None, error
            else:
                failure = None
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {limit} s: {what} {failure or ''}")
            time.sleep(0.03)

    def find(self, selector):
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found[0] if found else None

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def is_shown(self, selector):
        element = self.find(selector)
        return element is not None and element.is_displayed()

    def click(self, selector):
        self.wait(lambda: self.is_shown(selector), f"{selector} is shown")
        self.find(selector).click()

    def fill(self, selector, text):
        element = self.wait(lambda: self.find(selector), f"{selector} is there")
        element.clear()
        element.send_keys(text)

    # Keys go to the element that has the focus, as a person's do.
    def keys(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def chord(self, modifier, key):
        from selenium.webdriver import ActionChains
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def focus(self):
        """The name of the element with the focus."""
        return self.js("const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent.trim() || e.id")

    def send(self, text):
        self.fill("#input", text)
        self.find("#input").send_keys(Keys.ENTER)

    def answers(self):
        return self.texts(".message.assistant .text")

    def is_writing(self):
        return self.find(".message.writing") is not None

    def ask(self, text, count=None):
        """Sends a message and waits for the whole answer, whose text it returns."""
        self.send(text)
        self.wait(lambda: self.answers() and self.texts(".message.user .text")[-1] == text and not self.is_writing(), f"the answer to {text}")
        return self.answers()[-1]

    def requested(self):
        """Addresses of all requests since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def complaints(self):
        """Errors of the console, and of the content policy."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def axe(self):
        """What axe-core finds against WCAG 2.2 A and AA and its own best practices, one line each."""
        script = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self.js(script)
        result = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done, (e) => done({violations: [{id: String(e), nodes: []}]}))")
        return [f"{found['id']}: {found.get('help')}: {[node['html'][:160] for node in found['nodes'][:3]]}" for found in result["violations"]]

    def width(self):
        """Of the page and of the window: a page that is wider scrolls sideways."""
        return self.js("return [document.documentElement.scrollWidth, innerWidth]")

    def picture(self, path):
        self.driver.save_screenshot(str(path))
