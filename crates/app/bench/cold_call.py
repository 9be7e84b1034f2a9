"""What the prefix cache costs a call that finds nothing: a server with it and one without, in turn, each asked three prompts that begin
differently, in KV memory that earlier prompts have used. (The first use of memory is the system's work: it zeroes it.)

    cargo build --release --workspace
    python3 crates/app/bench/cold_call.py target/release/tapri examples/case_file/case_file.txt
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

program, file = sys.argv[1:]
text = open(file, encoding="utf-8").read()
CHARACTERS, ROUNDS, EACH = 40_000, 3, 3


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    begun = time.monotonic()
    with urllib.request.urlopen(request) as answer:
        answer.read()
    return time.monotonic() - begun


def times(*flags):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "serve", "--model", "gemma-3-270m", "--port", str(port), *flags]
        settings = {**os.environ, "TAPRI_LEDGER": f"{folder}/ledger.sqlite"}
        server = subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"{url}/health").close()
                    break
                except OSError:
                    time.sleep(0.1)

            def ask(prompt):
                body = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
                return post(f"{url}/v1/completions", body)

            ask("Another matter. " + text[CHARACTERS : 2 * CHARACTERS + 2000])
            found = []
            for number in range(EACH):
                post(f"{url}/cache/reset", {})
                found.append(ask(f"{number} {text[:CHARACTERS]}"))
            return found
        finally:
            server.kill()
            server.wait()


on, off = [], []
for _ in range(ROUNDS):
    on += times()
    off += times("--no-prefix-cache")
for name, found in [("with the prefix cache", on), ("without", off)]:
    print(f"{name}: {statistics.median(found):.3f} s ({min(found):.3f}-{max(found):.3f})")
print(f"ratio of the medians: {statistics.median(on) / statistics.median(off):.3f}")
