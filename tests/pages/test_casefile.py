"""The case-file page: files in, questions asked, what it took shown; stopping, deleting, taking along."""

import re

from case_page import LEASE, agree, ask, cached_share, ended, instruct, put_in, send, write
from files import docx, pdf
from playwright.sync_api import expect


def test_the_second_question_finds_the_file_in_the_cache(serve, window, look_at, tmp_path):
    server = serve("--answer-tokens", "24")
    page = window()
    put_in(page, server.url, write(tmp_path, "lease.txt", LEASE))
    expect(page.get_by_role("heading", level=1)).to_have_text("lease.txt")
    expect(page.get_by_text("This is a small model")).to_be_visible()
    first = ask(page, "When is the rent paid?")
    assert cached_share(first) < 5
    expect(first.locator(".why")).to_contain_text("not read before")
    # A follow-up: the first question and its answer stand behind the file, and nothing before them is read again.
    second = ask(page, "Who keeps the roof in repair?")
    assert cached_share(second) > 60
    expect(second.locator(".legend")).to_contain_text("from the cache")
    expect(second.locator(".why")).to_have_count(0)
    expect(second).to_contain_text("First word after")
    expect(second).to_contain_text("Saved")
    look_at(page.url, "case")
    look_at(f"{page.url}/print", "case-print")
    look_at(server.url, "home")
    # Other instructions stand before the file: a miss, with its reason and what to do.
    instruct(page, "Answer in one word.")
    expect(page.locator("article.turn")).to_have_count(2)
    missed = ask(page, "Who owns the well?")
    assert cached_share(missed) < 50
    expect(missed.locator(".why")).to_contain_text("instructions were changed")
    expect(missed.locator(".why")).to_contain_text("Settle the instructions before you ask")
    # Taken along, as Markdown.
    with page.expect_download() as download:
        page.get_by_role("link", name="Markdown").click()
    text = download.value.path().read_text()
    assert text.startswith("# lease.txt") and "> When is the rent paid?" in text and "tokens of the prompt came from" in text


#: Notes what the page shows of the running question, at each change of it: the bar's value and end (none where there is
#: no bar, or where it doesn't know), and how long the answer is.
WATCH = """() => {
    window.seen = [];
    const look = () => {
        const turn = document.querySelector("[data-running]");
        if (!turn) return;
        const bar = turn.querySelector("progress");
        const drawn = !bar.hidden && bar.hasAttribute("value");
        window.seen.push([drawn ? bar.value : null, drawn ? bar.max : null, turn.querySelector("[data-answer]").textContent.length]);
    };
    const all = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(look).observe(document.getElementById("turns"), all);
}"""


def test_a_bar_grows_while_a_file_is_read_and_then_the_answer_comes(serve, window, tmp_path):
    server = serve("--answer-tokens", "24")
    page = window()
    put_in(page, server.url, write(tmp_path, "leases.txt", "\n\n".join(f"Lease {n}. {LEASE}" for n in range(4))))
    page.evaluate(WATCH)
    turn = send(page, "When is the rent paid?")
    expect(turn.get_by_role("progressbar")).to_be_visible()
    expect(turn.locator("[data-words]")).to_contain_text(re.compile(r"The model reads: [\d,]+ of [\d,]+ tokens"))
    ended(turn)
    seen = page.evaluate("window.seen")
    bars = [(value, most) for value, most, _ in seen if value is not None]
    values = [value for value, _ in bars]
    prompt = int(turn.locator("dl.facts div", has_text="Prompt").locator("[data-number]").get_attribute("data-number"))
    assert {most for _, most in bars} == {prompt}, bars
    assert values == sorted(values) and len(set(values)) >= 3 and values[-1] > values[0], values
    # No word before the file is read; then no bar, and the answer word by word.
    last = max(at for at, it in enumerate(seen) if it[0] is not None)
    assert all(length == 0 for _, _, length in seen[: last + 1])
    lengths = [length for _, _, length in seen[last + 1 :]]
    assert lengths == sorted(lengths) and len(set(lengths)) >= 4, lengths
    expect(page.get_by_role("progressbar")).to_have_count(0)
    # The second question reads no file: whatever bar there was began at its end.
    page.evaluate("window.seen = []")
    second = ask(page, "Who keeps the roof in repair?")
    assert cached_share(second) > 90
    assert all(value > 0.9 * most for value, most, _ in page.evaluate("window.seen") if value is not None)


def test_several_files_keep_their_order_and_markup_is_text(serve, window, tmp_path):
    server = serve("--answer-tokens", "8")
    page = window()
    evil = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)> **bold** &amp;"
    paths = [
        write(tmp_path, "b.md", f"# Notes\n\n{evil}\n"),
        write(tmp_path, "a.docx", docx("The lease runs for five years.", "It ends in March.")),
        write(tmp_path, "c <b>.pdf", pdf(["The first page.", "The second page."])),
    ]
    put_in(page, server.url, *paths)
    expect(page.locator(".file .name")).to_have_text(["b.md", "a.docx", "c <b>.pdf"])
    expect(page.locator(".file").nth(2)).to_contain_text("2 pages")
    expect(page.locator(".file .about").first).to_contain_text("tokens")
    turn = ask(page, f"What is {evil}?")
    expect(turn.locator(".question")).to_have_text(f"What is {evil}?")
    assert page.locator("script:not([src]), main img").count() == 0 and "broken" not in page.title()
    text = page.request.get(f"{page.url}/export.md").text()
    assert "<script" not in text and "<img" not in text
    # Another one comes behind them, by keyboard alone.
    page.locator("details.add summary").focus()
    page.keyboard.press("Enter")
    page.locator("details.add input[type=file]").set_input_files(str(write(tmp_path, "d.txt", "The fourth.")))
    page.locator("details.add button").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".file .name")).to_have_text(["b.md", "a.docx", "c <b>.pdf", "d.txt"])


def test_a_file_is_dropped_and_numbers_are_the_persons_own(serve, window, tmp_path):
    server = serve()
    page = window(locale="de-DE")
    page.goto(server.url)
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "eins.txt", { type: "text/plain" }));
            data.items.add(new File([text], "zwei.txt", { type: "text/plain" }));
            const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
            document.querySelector("[data-drop]").dispatchEvent(event);
        }""",
        LEASE,
    )
    expect(page.locator("[data-chosen] li")).to_have_text(["eins.txt", "zwei.txt"])
    page.get_by_role("button", name="Open these files").click()
    page.wait_for_url("**/casefile/*")
    expect(page.locator(".file .about").first).to_contain_text(re.compile(r"1\.\d{3} characters"))


def test_two_windows_on_one_case_see_one_answer(serve, window, tmp_path):
    server = serve("--answer-tokens", "400")
    first = window()
    put_in(first, server.url, write(tmp_path, "lease.txt", LEASE))
    second = window("phone")
    second.allowed = ["status of 409"]
    second.goto(first.url)
    turn = send(first, "Tell a long story about the garden.")
    other = second.locator("article.turn")
    expect(other).to_have_count(1)
    expect(other.locator("[data-answer]")).to_have_text(re.compile(r"\w+ \w+ \w+"))
    # One question at a time, whichever window asks.
    second.get_by_label("Your question").fill("And the well?")
    second.get_by_role("button", name="Ask", exact=True).click()
    expect(second.locator("#ask-trouble")).to_contain_text("being answered")
    expect(second.get_by_label("Your question")).to_have_value("And the well?")
    # Stopped in one, stopped in both; what came is kept.
    second.get_by_role("button", name="Stop").click()
    expect(ended(turn)).to_contain_text("You stopped this answer")
    expect(other).to_contain_text("You stopped this answer")
    expect(turn.locator(".answer")).to_have_text(other.locator(".answer").inner_text())


def test_a_server_that_is_killed_while_it_answers(serve, window, tmp_path):
    server = serve("--answer-tokens", "2000")
    page = window()
    page.allowed = ["ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY", "net::ERR"]
    put_in(page, server.url, write(tmp_path, "lease.txt", LEASE))
    turn = send(page, "Tell a very long story about the garden.")
    expect(turn.locator("[data-answer]")).to_have_text(re.compile(r"(\w+\W+){12}"))
    # What has come is kept each second, when a token comes.
    page.wait_for_timeout(2500)
    server.kill()
    expect(page.locator("#lost")).to_contain_text("connection to Tapri is lost")
    server.start()
    expect(page.locator("#lost")).to_be_hidden()
    expect(ended(turn)).to_contain_text("was stopped while this answer was being written")
    expect(turn.locator(".answer")).to_have_text(re.compile(r"(\w+\W+){3}"))
    # The page that was open all the time still works: its token is good after the restart.
    turn.get_by_role("button", name="Ask again").click()
    turn = page.locator("article.turn").last
    expect(turn.locator("[data-answer]")).to_have_text(re.compile(r"\w+"))
    page.get_by_role("button", name="Stop").click()
    expect(ended(turn)).to_contain_text("You stopped")
    # And the case is there after another restart, on the list of cases.
    server.stop()
    server.start()
    page.goto(server.url)
    page.get_by_role("link", name="lease.txt").click()
    expect(page.locator("article.turn")).to_have_count(1)


def test_a_server_that_is_told_to_stop_lets_the_answer_end(serve, window, tmp_path):
    server = serve("--answer-tokens", "40")
    page = window()
    page.allowed = ["net::ERR"]
    put_in(page, server.url, write(tmp_path, "lease.txt", LEASE))
    send(page, "What is paid?")
    server.stop()
    server.start()
    page.reload()
    turn = page.locator("article.turn")
    expect(turn).to_have_count(1)
    expect(turn).to_contain_text("First word after")


def test_what_is_deleted_is_gone_from_every_store(serve, window, tmp_path):
    config = tmp_path / "tapri.toml"
    config.write_text(
        '[ledger]\ntext = true\n[[route]]\nname = "all"\nmodels = ["*"]\n[route.exact]\nmode = "always"\n'
    )
    server = serve("--answer-tokens", "200", "--config", str(config))
    page = window()
    secret = "Zyzzyva Quillfeather"
    put_in(page, server.url, write(tmp_path, "secret.txt", f"{LEASE}\n\nThe tenant is called {secret}."))
    ask(page, f"Who is {secret}?")
    case = page.url
    stores = [path for path in server.folder.iterdir() if path.is_file()]
    held = [path.name for path in stores if secret.encode() in path.read_bytes()]
    assert any("casefiles" in name for name in held), held

    def kv_cached():
        metrics = page.request.get(f"{server.url}/metrics").text()
        return float(re.search(r"^tapri_kv_cached_bytes\S* (\S+)", metrics, re.M).group(1))

    assert kv_cached() > 0
    agree(page)
    page.get_by_role("button", name="Delete this case").click()
    page.wait_for_url(f"{server.url}/")
    expect(page.get_by_text("secret.txt")).to_have_count(0)
    assert page.request.get(case).status == 404
    assert kv_cached() == 0
    server.stop()
    for path in server.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"Zyzzyva" not in content and b"secret.txt" not in content, path.name
