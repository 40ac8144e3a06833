"""A server on loopback that speaks the chat-completions protocol and misbehaves on request.

The model's id says how: a list of steps joined by "+", one a request; the last repeats. Steps: ok, 429, 500,
401, empty, cut (the connection dies in the middle), garbage.
"""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked = Counter()
        self.requests = []
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        """Dropped connections are what we are here for."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        """Quiet."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            steps = body["model"].split("+")
            step = steps[min(server.asked[body["model"]], len(steps) - 1)]
            server.asked[body["model"]] += 1
            server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
        try:
            self.reply(step)
        finally:
            with server.lock:
                server.busy -= 1

    def reply(self, step):
        if step.isdigit():
            self.send(int(step), json.dumps({"error": {"message": f"told to say {step}"}}).encode())
        elif step == "garbage":
            self.send(200, b"<html>not what you asked for</html>", "text/html")
        else:
            text = "" if step == "empty" else self.server.answer
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            data = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            payload = json.dumps(data | {"usage": usage(text)}).encode()
            self.send(200, payload[:20] if step == "cut" else payload, length=len(payload))

    def send(self, code, payload, kind="application/json", length=None):
        self.send_response(code)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": length or len(payload),
            "Retry-After": 0.01,
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(payload)
        self.close_connection = length not in (None, len(payload))


def usage(text):
    return {"prompt_tokens": 100, "completion_tokens": len(text) // 4, "total_tokens": 100 + len(text) // 4}


@contextmanager
def serving(answer):
    """A running server that answers everything with `answer`."""
    server = Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
