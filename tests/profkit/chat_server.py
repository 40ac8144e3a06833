"""A server on loopback that speaks the chat-completions protocol and misbehaves on request.

The model's id says how: a list of steps joined by "+", one a request; the last repeats. Steps: ok, 429, 500,
401, empty, cut (the connection dies in the middle), stop (a stream ends without finish_reason), garbage.
"""

from __future__ import annotations

import json
import socket
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
            self.reply(step, body)
        finally:
            with server.lock:
                server.busy -= 1

    def reply(self, step, body):
        if step.isdigit():
            headers = {"Retry-After": "0.01"}
            self.whole(int(step), {"error": {"message": f"told to say {step}"}}, headers)
        elif step == "garbage":
            self.raw(200, b"<html>not what you asked for</html>", "text/html")
        else:
            self.stream(step, "" if step == "empty" else self.server.answer)

    def stream(self, step, text):
        self.head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})
        half = len(text) // 2
        for part in (text[:half], text[half:]):
            self.event({"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]})
            if step == "cut":
                self.drop()
                return
        if step != "stop":
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self.event({"choices": [], "usage": usage(text)})
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        data = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", **data}
        self.chunk(f"data: {json.dumps(data)}\n\n".encode())

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def drop(self):
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def whole(self, code, data, headers=None):
        self.raw(code, json.dumps(data).encode(), "application/json", headers)

    def raw(self, code, payload, kind, headers=None):
        self.head(code, kind, {"Content-Length": str(len(payload)), **(headers or {})})
        self.wfile.write(payload)

    def head(self, code, kind, headers):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


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
