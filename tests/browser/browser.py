"""A report in real headless Chromium: what it shows, what it says on the console and what it asks of the network."""

import base64
import contextlib
import json

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE_SECONDS = 20


class Browser:
    def __init__(self, scripts=True):
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(flag)
        if not scripts:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.scripts = scripts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def size(self, width, height=900):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def prefer(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, file, width=1280, scheme="light"):
        self.size(width)
        self.prefer(scheme)
        self.driver.get(f"file://{file}")
        if self.scripts:
            WebDriverWait(self.driver, PATIENCE_SECONDS).until(lambda _: self.run("return document.documentElement.dataset.charts") == "drawn")

    def run(self, script, *arguments):
        """JavaScript of the debugger's: works where the page itself may run none."""
        if self.scripts:
            return self.driver.execute_script(script, *arguments)
        call = f"(function() {{ {script} }}).apply(null, {json.dumps(arguments)})"
        answer = self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": call, "returnByValue": True})
        return answer["result"].get("value")

    def console(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """Addresses of everything that was fetched, the page itself included."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def box(self, selector):
        return self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect();"
                        "return {x: b.x, y: b.y + scrollY, width: b.width, height: b.height}", selector)

    def screenshot(self, selector=None, height=None):
        """PNG of an element, or of the whole page, `height` pixels from its top."""
        if selector:
            clip = self.box(selector)
        else:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 8000)}
        answer = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {**clip, "scale": 1}})
        return base64.b64decode(answer["data"])

    def print_to_pdf(self):
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])

    def element(self, selector):
        return self.driver.find_element("css selector", selector)

    def hover(self, selector, dx=0, dy=0):
        element = self.element(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element_with_offset(element, dx, dy).perform()

    def drag(self, selector, start, end):
        """With the mouse from one offset of the element's middle to another."""
        element = self.element(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        chain = ActionChains(self.driver).move_to_element_with_offset(element, *start).click_and_hold()
        chain.move_by_offset((end[0] - start[0]) // 2, 0).move_by_offset((end[0] - start[0]) - (end[0] - start[0]) // 2, 0).release().perform()

    def double_click(self):
        """Where the mouse is."""
        ActionChains(self.driver).double_click().perform()

    def keys(self, text):
        ActionChains(self.driver).send_keys(text).perform()

    def wait(self, condition, what):
        with contextlib.suppress(Exception):
            return WebDriverWait(self.driver, PATIENCE_SECONDS).until(lambda _: condition())
        raise AssertionError(f"never came: {what}")
