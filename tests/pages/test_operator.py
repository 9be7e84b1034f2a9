"""The pages of calls, caches, savings and comparisons, on calls that were made over the APIs."""

import json
import re
import urllib.request

from playwright.sync_api import expect

from test_access import ADMIN, BLUE, RED, sign_in, two_tenants

RULES = "Answer from the file alone, in one sentence, and name the clause. " * 12


def call(server, system, question, key=None, **more):
    """Asks over OpenAI's API."""
    body = {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
        "max_tokens": 3,
        "temperature": 0,
        **more,
    }
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def post(server, path, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def rows(page):
    return page.locator("#calls tr")


def open_calls(page, server, query=""):
    page.goto(f"{server.url}/calls{query}")
    expect(page.locator("#live[data-connected]")).to_be_attached()


def recorded(page, server, count, query=""):
    """Loads the list until the ledger has written so many calls."""
    for _ in range(100):
        page.goto(f"{server.url}/calls{query}")
        if rows(page).count() >= count:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{rows(page).count()} of {count} calls were recorded")


def written(page, server, count):
    """Waits until the ledger has written so many calls, more than a page of the list shows."""
    for _ in range(100):
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            metrics = answer.read().decode()
        # Labels of the whole server stand before it.
        found = int(re.search(r'tapri_ledger_records_total{.*outcome="written"} (\d+)', metrics).group(1))
        if found >= count:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{found} of {count} calls were written")


def test_calls_come_live_and_a_miss_is_explained(serve, window, look_at):
    server = serve()
    page = window()
    open_calls(page, server)
    expect(page.get_by_text("No call was answered yet")).to_be_visible()
    look_at(f"{server.url}/calls", "calls-empty")
    call(server, f"It is 10:41:55. {RULES}", "Who signed?")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_text("No call was answered yet")).to_have_count(0)
    expect(page.locator("#live")).to_contain_text("New calls since this page was opened: 1")
    call(server, f"It is 10:41:55. {RULES}", "When is the rent paid?")
    expect(rows(page)).to_have_count(2)
    expect(rows(page).first).to_contain_text("Partly from the cache")
    # A time at the top: the forced miss.
    call(server, f"It is 10:42:07. {RULES}", "Who signed?")
    expect(rows(page)).to_have_count(3)
    expect(rows(page).first).to_contain_text("A time of day changed")
    # Paused, nothing comes.
    page.get_by_role("button", name="Pause").click()
    call(server, f"It is 10:41:55. {RULES}", "Who keeps the roof?")
    recorded(page, server, 4)
    # Filters are in the address.
    page.get_by_label("Reason").select_option("time_changed")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile(r"reason=time_changed"))
    expect(rows(page)).to_have_count(1)
    # What comes and doesn't match isn't shown.
    expect(page.locator("#live[data-connected]")).to_be_attached()
    call(server, f"It is 10:41:55. {RULES}", "Who owns the well?")
    call(server, f"It is 11:11:11. {RULES}", "Who signed?")
    expect(rows(page)).to_have_count(2)
    look_at(f"{server.url}/calls", "calls")
    # A call opens to its prompt.
    rows(page).first.get_by_role("link").click()
    expect(page.locator("svg.strip line.mark")).to_be_attached()
    strip = page.locator("svg.strip")
    assert re.search(r"first difference .* is at token \d+", strip.get_attribute("aria-label"))
    expect(page.locator("#reason")).to_contain_text("A time of day changed")
    expect(page.get_by_text("messages[0].content, character")).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("Computed for this call")
    expect(page.get_by_role("heading", name="Parts of the prompt")).to_be_visible()
    look_at(page.url, "call")
    # The nearest call is a link, and that call was the first.
    page.get_by_role("link", name=re.compile("with call")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Call ")
    page.allowed = ["status of 404"]
    page.goto(f"{server.url}/calls/0000")
    expect(page.get_by_text("There is no call of this name")).to_be_visible()


def test_a_list_is_paged_and_a_wrong_address_is_said(serve, window):
    server = serve()
    for n in range(52):
        call(server, "Be brief.", f"{n}?", max_tokens=1)
    page = window()
    written(page, server, 52)
    page.goto(f"{server.url}/calls")
    expect(rows(page)).to_have_count(50)
    page.get_by_role("link", name="Older calls").click()
    expect(rows(page)).to_have_count(2)
    expect(page.locator("#live")).to_have_count(0)
    page.get_by_role("link", name="Newest calls").click()
    expect(rows(page)).to_have_count(50)
    page.goto(f"{server.url}/calls?reason=%3Cb%3E&status=nonsense")
    expect(page.get_by_text("Reason can’t be “<b>”")).to_be_visible()
    expect(page.get_by_text("What came of it can’t be “nonsense”")).to_be_visible()
    expect(rows(page)).to_have_count(50)


def test_html_in_a_prompt_is_text(serve, window):
    server = serve("--ledger-text", "--explain-values")
    page = window()
    page.on("dialog", lambda dialog: (_ for _ in ()).throw(AssertionError("a script of a prompt ran")))
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    call(server, f"{RULES} Password {evil}. {RULES}", "Who?")
    call(server, f"{RULES} Password other. {RULES}", "Who?")
    call(server, f"{RULES} Password {evil}. {RULES}", "Who?")
    recorded(page, server, 3)
    rows(page).first.get_by_role("link").click()
    expect(page.get_by_role("heading", name="The request, as it was kept")).to_be_visible()
    expect(page.locator("pre")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img[src=x]").count() == 0


def test_the_memory_is_shown_and_erased(serve, window, look_at):
    # 91 blocks of 16 tokens: less than two of these prompts, which push each other out.
    server = serve("--kv-memory", "32MiB", "--exact-cache", "always")
    page = window()
    page.goto(f"{server.url}/cache")
    expect(page.get_by_text("Nothing is stored yet")).to_be_visible()
    expect(page.locator("#twice")).to_contain_text("No prompt was looked up yet")
    files = [f"{name} {RULES * 5}" for name in ["Lease.", "Will."]]
    # Only an answer that ends of itself is kept.
    ended = {"max_tokens": 32, "stop": [" "]}
    for n in range(4):
        call(server, files[n % 2], f"Question {n}?", **ended)
    page.get_by_role("link", name="Look again").click()
    twice = page.locator("#twice")
    expect(twice).to_contain_text("With twice the memory")
    shares = [float(it.get_attribute("data-percent")) for it in twice.locator("[data-percent]").all()]
    assert shares[0] > shares[1] + 0.2, shares
    assert page.locator("svg.map rect").count() > 1
    expect(page.get_by_role("region", name="Who shares what")).to_contain_text("default")
    page.get_by_text("By prefix", exact=True).click()
    assert page.locator("#prefixes tbody tr").count() >= 1
    expect(page.locator("section", has=page.get_by_role("heading", name="Evictions")).locator("svg.columns")).to_be_visible()
    exact = page.locator("section", has=page.get_by_role("heading", name="Exact cache"))
    expect(exact).to_contain_text("4 answers")
    expect(exact).to_contain_text("ago")
    expect(page.get_by_text("It is off. It is turned on per route")).to_be_visible()
    # A question that was asked before is answered by its stored answer.
    call(server, files[1], "Question 3?", **ended)
    page.get_by_role("link", name="Look again").click()
    expect(exact.locator("div", has_text="Answered by a stored answer").last).to_contain_text("1")
    look_at(f"{server.url}/cache", "cache")
    # Erasing asks first.
    page.get_by_role("button", name="Erase …").click()
    expect(page.get_by_text("Erase everything that the caches hold of all tenants?")).to_be_visible()
    page.get_by_role("button", name="Yes, erase it").click()
    expect(page.locator("#purge")).to_contain_text("Erased: 4 stored answers and")
    page.locator("#purge").get_by_role("link", name="Look again").click()
    expect(page.get_by_text("Nothing is stored yet")).to_be_visible()
    expect(exact).to_contain_text("0 answers")
    again = call(server, files[1], "Question 4?")
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    # By age, answers alone go.
    page.get_by_label("How old").select_option("1d")
    page.get_by_role("button", name="Erase …").click()
    expect(page.get_by_text("Blocks of prompts stay")).to_be_visible()
    page.get_by_role("button", name="Yes, erase it").click()
    expect(page.locator("#purge")).to_contain_text("Erased: 0 stored answers.")


def test_pins_are_shown_with_whose_they_are(serve, window, look_at):
    server = serve("--pin-limit", "0.5")
    page = window()
    page.goto(f"{server.url}/cache")
    expect(page.get_by_text("Nothing is pinned")).to_be_visible()

    def pin(text):
        body = {"messages": [{"role": "system", "content": text}]}
        return post(server, "/cache/pins", body)

    first = pin(f"The lease of Anna. {RULES}")
    page.get_by_role("link", name="Look again").click()
    pins = page.locator("section", has=page.get_by_role("heading", name="Pins", exact=True))
    expect(pins).to_contain_text(re.compile(rf"1 pin holds {first['blocks']} blocks? "))
    second = pin(f"The lease of Bela. {RULES}")
    page.get_by_role("link", name="Look again").click()
    expect(pins).to_contain_text(f"2 pins hold {first['blocks'] + second['blocks']} blocks")
    for made in [first, second]:
        cells = pins.get_by_role("row", name=made["id"]).locator("td")
        expect(cells).to_have_text(["default", str(made["tokens"]), str(made["blocks"]), re.compile("MiB|KiB")])
    look_at(f"{server.url}/cache", "cache-pins")
    request = urllib.request.Request(f"{server.url}/cache/pins/{first['id']}", method="DELETE")
    urllib.request.urlopen(request)
    page.get_by_role("link", name="Look again").click()
    expect(pins).to_contain_text("1 pin holds")


def test_a_hit_rate_that_falls_is_an_alert(serve, window, look_at, tmp_path):
    config = tmp_path / "tapri.toml"
    # A false alarm in 2,000 calls is allowed, so that a fall is found within a few dozen.
    config.write_text("[alerts]\nfalse_alarm_every = 2000\n")
    server = serve("--config", str(config))
    page = window()
    page.goto(f"{server.url}/savings")
    expect(page.get_by_text("Hit rates of tenants and routes are watched")).to_be_visible()

    def ask(first):
        # Prompts of fewer than 64 tokens are not watched.
        post(server, "/v1/completions", {"prompt": [first, *range(1000, 1080)], "max_tokens": 1, "temperature": 0})

    for _ in range(500):
        ask(2000)
    page.reload()
    alerts = page.locator("section", has=page.get_by_role("heading", name="Alerts"))
    expect(alerts).to_contain_text("Hit rates of tenants and routes are watched")
    # From here on each prompt begins with another token: a counter before everything else.
    for n in range(400):
        ask(3000 + n)
        if n % 20 == 19:
            page.reload()
            if alerts.locator("p.warning").count() >= 1:
                break
    expect(alerts.locator("p.warning", has_text="tenant default")).to_contain_text("its hit rate fell")
    expect(alerts.locator("ul.said li", has_text="tenant default")).to_contain_text(re.compile(r"fell from \d+% "))
    look_at(f"{server.url}/savings", "savings-alerts")


def test_what_was_saved_adds_up(serve, window, look_at):
    server = serve()
    page = window()
    page.goto(f"{server.url}/savings")
    expect(page.get_by_text("No call with a counted prompt in this time")).to_be_visible()
    cached = 0
    for time in ["10:41:55", "10:41:55", "10:42:07", "10:42:07", "10:42:07"]:
        for question in ["Who signed?", "When is the rent paid?"]:
            usage = call(server, f"It is {time}. {RULES}", question)["usage"]
            cached += usage["prompt_tokens_details"]["cached_tokens"]
    recorded(page, server, 10)
    page.goto(f"{server.url}/savings")
    figures = page.locator(".figures-grid").first
    assert int(figures.locator("div", has_text="Tokens not read").locator("[data-number]").get_attribute("data-number")) == cached
    expect(figures).to_contain_text("Waiting saved")
    expect(page.locator("svg.columns").first).to_be_visible()
    assert page.locator("polyline.curve").count() == 2
    causes = page.locator("section", has=page.get_by_role("heading", name="Why calls missed"))
    expect(causes).to_contain_text("A time of day changed")
    expect(page.get_by_text("Hit rates of tenants and routes are watched")).to_be_visible()
    look_at(f"{server.url}/savings", "savings")
    causes.get_by_role("link", name="A time of day changed").click()
    expect(page).to_have_url(re.compile("/calls\\?reason=time_changed"))
    expect(rows(page)).to_have_count(1)


def test_two_prompts_side_by_side(serve, window, look_at):
    server = serve()
    page = window()
    page.allowed = ["status of 4"]
    page.goto(f"{server.url}/compare")

    def request(time):
        return json.dumps(
            {
                "model": "anything",
                "messages": [
                    {"role": "system", "content": f"The time is {time}.\n{RULES}<b>bold</b>"},
                    {"role": "user", "content": "Who signed?"},
                ],
            }
        )

    def compare(on, first, second):
        on.get_by_role("textbox", name="Earlier prompt").fill(first)
        on.get_by_role("textbox", name="Later prompt").fill(second)
        on.get_by_role("button", name="Compare").click()

    compare(page, request("10:41:55"), request("10:42:07"))
    expect(page.locator("#reason")).to_contain_text("A time of day changed")
    expect(page.locator("mark").first).to_have_text("1:55")
    expect(page.locator("mark").nth(1)).to_have_text("2:07")
    expect(page.locator("#reuse")).to_contain_text("Counted as the model of this server reads them")
    expect(page.locator("#result")).to_contain_text("One line that changes was moved")
    page.get_by_text("The later request in this order").click()
    expect(page.locator("pre")).to_contain_text("The time is 10:42:07.")
    assert page.locator("#result b").count() == 0
    # Anthropic's form, and plain text.
    messages = json.dumps({"model": "claude", "max_tokens": 5, "system": RULES, "messages": [{"role": "user", "content": "Who?"}]})
    compare(page, messages, messages.replace("Who?", "When?"))
    expect(page.locator("#reason")).to_contain_text("Only the last message differs")
    expect(page.get_by_text("There is nothing to move")).to_be_visible()
    compare(page, "One text of some words", "One text of other words")
    expect(page.locator("mark").first).to_have_text("some")
    expect(page.get_by_text("For plain text there is no order to suggest")).to_be_visible()
    # What is no prompt is said, and the fields keep what they have.
    compare(page, '{"messages": [', "text")
    expect(page.get_by_role("alert")).to_contain_text("it begins like JSON and is none")
    expect(page.get_by_role("textbox", name="Later prompt")).to_have_value("text")
    look_at(f"{server.url}/compare", "compare-empty")
    look_at(
        f"{server.url}/compare",
        "compare",
        lambda on: (compare(on, request("10:41:55"), request("10:42:07")), on.locator("#reason").wait_for()),
    )


def test_tenants_see_their_own_calls_alone(serve, window, look_at, tmp_path):
    server = serve("--config", str(two_tenants(tmp_path)))
    people = {}
    for name, key in {"red": RED, "blue": BLUE, "operator": ADMIN}.items():
        people[name] = window()
        people[name].allowed = ["status of 4"]
        people[name].goto(f"{server.url}/calls")
        sign_in(people[name], key)
        expect(people[name].locator("#live[data-connected]")).to_be_attached()
    red, blue, operator = people["red"], people["blue"], people["operator"]
    call(server, f"Secret of red. {RULES}", "Who?", key=RED)
    for page in [red, operator]:
        expect(rows(page)).to_have_count(1)
    call(server, f"Secret of blue. {RULES}", "Who?", key=BLUE)
    expect(rows(operator)).to_have_count(2)
    expect(rows(blue)).to_have_count(1)
    expect(rows(red)).to_have_count(1)
    recorded(operator, server, 2)
    expect(operator.get_by_label("Tenant")).to_be_visible()
    look_at(f"{server.url}/calls", "calls-of-tenants", cookies=operator.context.cookies())
    # Asked for by name, by its address, by its reason: another's call is not there.
    recorded(red, server, 1)
    theirs = rows(red).first.get_by_role("link").get_attribute("href")
    own = rows(blue).first.get_by_role("link").get_attribute("href")
    for address in ["/calls?tenant=red", "/calls?reason=other_scope"]:
        blue.goto(f"{server.url}{address}")
        expect(rows(blue).get_by_role("link")).to_have_attribute("href", own)
    blue.goto(f"{server.url}/savings?tenant=red")
    expect(blue.get_by_role("rowheader", name="blue")).to_be_visible()
    expect(blue.get_by_role("rowheader", name="red")).to_have_count(0)
    blue.goto(f"{server.url}{theirs}")
    expect(blue.get_by_text("There is no call of this name that you may see")).to_be_visible()
    operator.goto(f"{server.url}{theirs}")
    expect(operator.get_by_role("heading", name="Figures")).to_be_visible()
    # The memory of all is the operator's; a tenant isn't led there.
    expect(blue.get_by_role("link", name="Cache")).to_have_count(0)
    blue.goto(f"{server.url}/cache")
    expect(blue.get_by_text("for the operator alone")).to_be_visible()
    token = blue.locator("body").get_attribute("hx-headers")
    status = blue.evaluate(
        """async (headers) => (await fetch("/cache/purge", {method: "POST", headers: {...JSON.parse(headers), "hx-request": "true",
        "content-type": "application/x-www-form-urlencoded"}, body: "sure=yes"})).status""",
        token,
    )
    assert status == 403
    operator.goto(f"{server.url}/cache")
    shares = operator.get_by_role("region", name="Who shares what")
    expect(shares).to_contain_text("red")
    expect(shares).to_contain_text("blue")
    operator.get_by_label("Whose", exact=True).select_option("red")
    operator.get_by_role("button", name="Erase …").click()
    operator.get_by_role("button", name="Yes, erase it").click()
    expect(operator.locator("#purge")).to_contain_text("Erased: 0 stored answers and")
    assert call(server, f"Secret of red. {RULES}", "Who?", key=RED)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert call(server, f"Secret of blue. {RULES}", "Who?", key=BLUE)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_the_list_goes_on_when_the_server_is_back(serve, window):
    server = serve()
    page = window()
    page.allowed = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_"]
    open_calls(page, server)
    server.stop()
    expect(page.locator("#live")).to_contain_text("The connection to Tapri is lost")
    server.start()
    expect(page.locator("#live[data-connected]")).to_be_attached()
    call(server, RULES, "Who?")
    expect(rows(page)).to_have_count(1)


def test_what_the_apis_hide_is_hidden_here(serve, window, tmp_path):
    server = serve("--config", str(two_tenants(tmp_path)), "--hide-cached-tokens")
    call(server, RULES, "Who?", key=RED)
    red, operator = window(), window()
    for page, key in [(red, RED), (operator, ADMIN)]:
        page.allowed = ["status of 4"]
        page.goto(f"{server.url}/savings")
        sign_in(page, key)
    expect(operator.get_by_role("heading", name="Savings")).to_be_visible()
    expect(red.get_by_text("does not tell its tenants what its caches had")).to_be_visible()
    red.goto(f"{server.url}/calls")
    expect(red.get_by_text("does not tell its tenants what its caches had")).to_be_visible()
    status = red.evaluate("async () => (await fetch('/calls/events')).status")
    assert status == 403
    # Two prompts of one's own tell nothing of a cache.
    red.goto(f"{server.url}/compare")
    expect(red.get_by_role("heading", name="Compare")).to_be_visible()
