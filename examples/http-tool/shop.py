"""A shop to try the tool with: prints its address, and answers until it is ended."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "a token of the example"
ORDERS = {"A-17": {"item": "a kettle", "EUR": "24.90", "USD": "28.10"}}


class Shop(BaseHTTPRequestHandler):
    """Answers GET /orders/NUMBER?currency=EUR for who has the token."""

    def do_GET(self):
        address = urlsplit(self.path)
        number = unquote(address.path.removeprefix("/orders/"))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "who are you?"})
        if number not in ORDERS:
            return self.answer(404, {"error": f"no order {number}"})
        order = ORDERS[number]
        [currency] = parse_qs(address.query)["currency"]
        return self.answer(200, {"item": order["item"], "price": f"{order[currency]} {currency}"})

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
