"""A web page to try the programs with: prints its address, and answers until it is ended."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = "<h1>Releases</h1><p>1.1 fixes the till. 1.0 was the first one.</p>"


class Site(BaseHTTPRequestHandler):
    """Answers GET /releases."""

    def do_GET(self):
        content = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
