"""A server of one's own and a browser for each test.

Everything that a page says to the console as an error fails the test: a broken script, a refused style, a policy that
was hurt.
"""

import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

REPOSITORY = pathlib.Path(os.environ["TAPRI_REPOSITORY"])
SCREENSHOTS = REPOSITORY / "docs" / "screenshots" if os.environ.get("TAPRI_SCREENSHOTS") else None

#: The machine may be busy: what is waited for is waited for long, and comes at once where it is not.
PATIENCE = 1000 * int(os.environ.get("TAPRI_TEST_PATIENCE", "60"))
expect.set_options(timeout=PATIENCE)

#: The sizes and schemes that every page is looked at in.
LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
}


class Server:
    """`tapri serve` on a free port, with a data folder that outlives it."""

    def __init__(self, folder, *arguments, model=None):
        self.folder = folder
        self.arguments = arguments
        self.model = model or os.environ["TAPRI_TEST_MODEL"]
        self.port = 0
        self.process = None
        self.start()

    def start(self):
        command = [os.environ["TAPRI_BINARY"], "serve", "--model", self.model, "--port", str(self.port), *self.arguments]
        environment = {**os.environ, "TAPRI_DATA": str(self.folder)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        for line in self.process.stdout:
            found = re.search(r" on http://[^:]+:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            raise AssertionError("the server ended before it listened")
        # What it says later has to go somewhere.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def kill(self):
        """Ends it as the system does when memory is short."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0

    def end(self):
        if self.process.poll() is None:
            self.kill()


@pytest.fixture
def serve(tmp_path):
    """Starts servers, and ends them with the test."""
    servers = []

    def start(*arguments, **more):
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        servers.append(Server(folder, *arguments, **more))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # Root has no sandbox in Chromium.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=os.environ["TAPRI_TEST_CHROMIUM"], args=flags)
        yield browser
        browser.close()


@pytest.fixture
def window(browser):
    """Opens windows, each like a person of its own; what they complain about fails the test."""
    contexts, complaints = [], []

    def open_window(look="light", **more):
        context = browser.new_context(locale=more.pop("locale", "en-IN"), reduced_motion="reduce", **{**LOOKS[look], **more})
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.allowed = []

        def heard(text):
            if not any(re.search(allowed, text) for allowed in page.allowed):
                complaints.append(text)

        page.on("console", lambda message: heard(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: heard(str(error)))
        return page

    yield open_window
    for context in contexts:
        context.close()
    assert not complaints, complaints


@pytest.fixture
def look_at(browser):
    """Looks at a page of a server in every size and scheme: accessible, and no wider than its window."""

    def look(url, name, prepare=None, cookies=()):
        for label, settings in LOOKS.items():
            context = browser.new_context(locale="en-IN", reduced_motion="reduce", **settings)
            context.add_cookies(list(cookies))
            page = context.new_page()
            page.goto(url)
            if prepare:
                prepare(page)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{name} is {wide} pixels too wide in {label}"
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
            bad = [f"{it['id']}: {it['help']}: {it['nodes'][0]['html']}" for it in found if it["impact"] in ("serious", "critical")]
            assert not bad, f"{name} in {label}: {bad}"
            if SCREENSHOTS:
                SCREENSHOTS.mkdir(parents=True, exist_ok=True)
                # A window as high as the page, so that what sticks to its edge is where a person sees it.
                height = page.evaluate("document.documentElement.scrollHeight")
                page.set_viewport_size({"width": settings["viewport"]["width"], "height": height})
                page.screenshot(path=SCREENSHOTS / f"{name}-{label}.png")
            context.close()

    return look
