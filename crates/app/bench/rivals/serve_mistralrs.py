"""Serves a GGUF file with mistral.rs's Python package, for `tapri-bench compare`.

The package has no server of its own. This one answers /health and streams /v1/completions, one call at a time. Only
chats stream there, so a template that adds nothing to the text is given. End-of-text tokens are pushed away by a bias, as the package can't be told to ignore
them: `--end ID`, for each.

    pip install mistralrs==0.9.5
    python crates/app/bench/rivals/serve_mistralrs.py MODEL.gguf --port 8080 --end 1 --end 106
"""

import argparse
import json
import os
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer

from mistralrs import ChatCompletionRequest, Runner, Which

arguments = argparse.ArgumentParser()
arguments.add_argument("model")
arguments.add_argument("--port", type=int, required=True)
arguments.add_argument("--end", type=int, action="append", default=[])
arguments = arguments.parse_args()
folder, file = os.path.split(os.path.abspath(arguments.model))
with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
    template.write("{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}")
    template.flush()
    runner = Runner(
        which=Which.GGUF(quantized_model_id=folder, quantized_filename=file),
        jinja_explicit=template.name,
    )
bias = {token: -100.0 for token in arguments.end}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def event(self, value):
        self.wfile.write(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        request = ChatCompletionRequest(
            messages=body["prompt"],
            model="default",
            max_tokens=body["max_tokens"],
            temperature=0.0,
            top_k=1,
            stream=True,
            logit_bias=bias,
        )
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        usage, parts = None, 0
        for chunk in runner.send_chat_completion_request(request):
            choice = chunk.choices[0]
            parts += 1
            self.event({"choices": [{"text": choice.delta.content or "", "finish_reason": None}]})
            usage = chunk.usage or usage
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None)
        counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        if cached is not None:
            counts["prompt_tokens_details"] = {"cached_tokens": cached}
        self.event({"choices": [], "usage": counts})
        self.event("[DONE]")
        self.close_connection = True


HTTPServer(("127.0.0.1", arguments.port), Handler).serve_forever()
