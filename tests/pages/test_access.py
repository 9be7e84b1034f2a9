"""Who may look, and what the browser is held to."""

import http.client
import json
import urllib.request

from playwright.sync_api import expect

RED = "tapri_red_red_red_red_red"
BLUE = "tapri_blue_blue_blue_blue"
ADMIN = "tapri_admin_admin_admin_admin"


def answer(server, path="/", method="GET", headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, body=body, headers=headers or {})
    response = connection.getresponse()
    return response, response.read().decode()


def token(server, headers=None):
    _, page = answer(server, headers=headers)
    return page.split('"x-tapri-csrf": "', 1)[1].split('"', 1)[0]


def test_headers_and_forged_requests(serve):
    server = serve()
    response, page = answer(server)
    assert response.status == 200 and "Case file" in page
    policy = response.getheader("content-security-policy")
    assert policy.startswith("default-src 'none'; script-src 'self'") and "unsafe" not in policy
    assert response.getheader("x-content-type-options") == "nosniff"
    assert response.getheader("referrer-policy") == "no-referrer"
    assert response.getheader("cache-control") == "no-store"
    # A name that points here and isn't ours: DNS rebinding.
    response, _ = answer(server, headers={"host": f"evil.example:{server.port}"})
    assert response.status == 421
    # Without the token, from elsewhere, with a wrong token.
    own = f"http://127.0.0.1:{server.port}"
    right = token(server)
    for headers in [
        {"origin": own},
        {"origin": own, "x-tapri-csrf": "0" * 64},
        {"origin": "http://evil.example", "x-tapri-csrf": right},
        {"sec-fetch-site": "cross-site", "x-tapri-csrf": right},
        {"origin": "null", "x-tapri-csrf": right},
    ]:
        response, _ = answer(server, "/casefile", "POST", headers)
        assert response.status == 403, headers
    # The APIs are as they were.
    request = urllib.request.Request(
        f"{server.url}/v1/completions",
        json.dumps({"prompt": "The capital of France is", "max_tokens": 2}).encode(),
        {"content-type": "application/json"},
    )
    assert urllib.request.urlopen(request).status == 200


def test_pages_can_be_switched_off(serve):
    server = serve("--no-pages")
    response, body = answer(server)
    assert response.status == 404 and json.loads(body)["error"]["code"] == "path_not_found"


def two_tenants(tmp_path):
    for name, key in {"red": RED, "blue": BLUE, "admin": ADMIN}.items():
        (tmp_path / name).write_text(key)
    config = tmp_path / "tapri.toml"
    config.write_text(
        '[server]\nsecret_file = "scope.secret"\n[admin]\nkey = "file:admin"\n'
        '[[tenant]]\nname = "red"\nkeys = ["file:red"]\n[[tenant]]\nname = "blue"\nkeys = ["file:blue"]\n'
    )
    return config


def sign_in(page, key):
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_a_sign_in_outlives_the_server_and_ends_with_its_key(serve, window, tmp_path):
    config = two_tenants(tmp_path)
    server = serve("--config", str(config))
    people = {}
    for name, key in {"red": RED, "blue": BLUE}.items():
        people[name] = window()
        people[name].allowed = ["status of 4", "net::ERR"]
        people[name].goto(server.url)
        sign_in(people[name], key)
        expect(people[name].get_by_text("Put in the files")).to_be_visible()
    red, blue = people["red"], people["blue"]
    cookie = next(it for it in red.context.cookies() if it["name"] == "tapri_session")
    for path in server.folder.iterdir():
        if path.is_file():
            content = path.read_bytes()
            assert cookie["value"].encode() not in content and RED.encode() not in content, path.name

    def again():
        server.stop()
        server.start()

    again()
    red.goto(f"{server.url}/savings")
    expect(red.get_by_role("heading", level=1)).to_have_text("Savings")
    # Signed out on a page that was open while the server was not there; and that outlives it too.
    again()
    red.get_by_role("button", name="Sign out").click()
    expect(red.get_by_label("API key")).to_be_visible()
    again()
    red.context.add_cookies([cookie])
    red.goto(server.url)
    expect(red.get_by_label("API key")).to_be_visible()
    # A key that is taken out takes its sign-ins along: they don't come back with it.
    blue.goto(server.url)
    expect(blue.get_by_text("Put in the files")).to_be_visible()
    written = config.read_text()
    config.write_text(written.replace('["file:blue"]', '["file:other"]'))
    (tmp_path / "other").write_text("tapri_other_other_other_other")
    again()
    blue.goto(server.url)
    expect(blue.get_by_label("API key")).to_be_visible()
    config.write_text(written)
    again()
    blue.goto(server.url)
    expect(blue.get_by_label("API key")).to_be_visible()
    sign_in(blue, BLUE)
    expect(blue.get_by_text("Put in the files")).to_be_visible()


def test_tenants_sign_in_and_see_their_own_files_alone(serve, window, look_at, tmp_path):
    server = serve("--config", str(two_tenants(tmp_path)))
    path = tmp_path / "red lease.txt"
    path.write_text("The tenant pays the rent on the first day of each month.")
    red = window()
    red.allowed = ["status of 4"]
    red.goto(server.url)
    expect(red).to_have_url(f"{server.url}/sign-in?next=/")
    look_at(server.url, "sign-in")
    sign_in(red, "tapri_wrong_wrong_wrong")
    expect(red.get_by_role("alert")).to_contain_text("not known here")
    sign_in(red, RED)
    expect(red.get_by_text("Put in the files")).to_be_visible()
    cookie = next(it for it in red.context.cookies() if it["name"] == "tapri_session")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and RED not in cookie["value"]
    red.locator("#files").set_input_files(str(path))
    red.get_by_role("button", name="Open these files").click()
    red.wait_for_url("**/casefile/*")
    case = red.url
    blue = window()
    blue.allowed = ["status of 4"]
    blue.goto(case)
    sign_in(blue, BLUE)
    expect(blue.get_by_text("There is nothing at this address")).to_be_visible()
    blue.goto(server.url)
    expect(blue.get_by_text("Put in the files")).to_be_visible()
    expect(blue.get_by_text("red lease.txt")).to_have_count(0)
    # The operator has no case files, and can sign out.
    operator = window()
    operator.allowed = ["status of 4"]
    operator.goto(server.url)
    sign_in(operator, ADMIN)
    expect(operator.get_by_text("signed in as the operator")).to_be_visible()
    operator.get_by_role("button", name="Sign out").click()
    expect(operator.get_by_label("API key")).to_be_visible()
    # A sign-in is a name that the server keeps: it ends there too.
    red.get_by_role("button", name="Sign out").click()
    expect(red.get_by_label("API key")).to_be_visible()
    red.context.add_cookies([cookie])
    red.goto(case)
    expect(red.get_by_label("API key")).to_be_visible()
