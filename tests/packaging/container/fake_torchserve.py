"""Stands for TorchServe: FIRST_PORT DIRECTORY. Describes one model; its worker works until the file `busy` is gone.

The file `queued` holds how many requests wait; `orphan` asks for a process without a parent; `end` ends it with the
exit code in it.
"""

import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FIRST_PORT, DIRECTORY = int(sys.argv[1]), Path(sys.argv[2])
WORKER = """
import pathlib, sys
while pathlib.Path(sys.argv[1], "busy").exists():
    pass
sys.stdin.read()
"""
# Its own child ends at once, so that the grandchild has no parent.
ORPHAN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'pass'])"

worker = subprocess.Popen([sys.executable, "-c", WORKER, str(DIRECTORY)], stdin=subprocess.PIPE)
if (DIRECTORY / "orphan").exists():
    subprocess.run([sys.executable, "-c", ORPHAN], check=True)


class Management(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        queued = DIRECTORY / "queued"
        described = {
            "modelName": "slow",
            "minWorkers": 1,
            "workers": [{"pid": worker.pid, "status": "READY"}],
            "jobQueueStatus": {"pendingRequests": int(queued.read_text()) if queued.exists() else 0},
        }
        listed = {"models": [{"modelName": "slow"}]}
        body = json.dumps(listed if self.path.startswith("/models?") else [described]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", FIRST_PORT + 1), Management)
threading.Thread(target=server.serve_forever, daemon=True).start()
(DIRECTORY / "started").touch()
while not (DIRECTORY / "end").exists():
    time.sleep(0.02)
worker.kill()
sys.exit(int((DIRECTORY / "end").read_text()))
