"""What people do on the case-file page."""

from playwright.sync_api import expect

#: Long enough for some blocks of the cache, short enough to be read in a moment.
LEASE = "\n\n".join(
    f"{n}. Clause {n}. The tenant pays the rent of {1000 + n} rupees on day {n} of each month to the landlord at his house. "
    "The landlord keeps the roof, the walls and the well in good repair and lets nobody else use the garden."
    for n in range(1, 9)
)


def put_in(page, url, *paths):
    page.goto(url)
    page.locator("#files").set_input_files([str(path) for path in paths])
    page.get_by_role("button", name="Open these files").click()
    page.wait_for_url("**/casefile/*")


def send(page, question):
    """Asks, and gives the turn while it runs."""
    before = page.locator("article.turn").count()
    page.get_by_label("Your question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("article.turn")).to_have_count(before + 1)
    return page.locator("article.turn").nth(before)


def ended(turn):
    expect(turn.locator("[data-answer]")).to_have_count(0)
    return turn


def ask(page, question):
    return ended(send(page, question))


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cached_share(turn):
    return float(turn.locator("svg.bar").get_attribute("data-cached").rstrip("%"))


def agree(page):
    """Says yes to the next question of the browser."""
    page.once("dialog", lambda dialog: dialog.accept())



def save(page):
    """Saves the instructions and tools, and agrees to what that costs."""
    agree(page)
    with page.expect_navigation():
        page.get_by_role("button", name="Save", exact=True).last.click()


def instruct(page, text):
    """Writes other instructions and saves them."""
    page.get_by_text("Instructions", exact=False).first.click()
    page.get_by_role("textbox", name="Instructions").fill(text)
    save(page)
