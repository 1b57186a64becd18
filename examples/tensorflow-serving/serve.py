"""Answers every POST with the sum of the numbers in it, added up on the GPU."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer

import tensorflow as tf


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with tf.device("/GPU:0"):
            total = float(tf.reduce_sum(tf.constant(body, dtype=tf.float32)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(total).encode())


HTTPServer(("", 8501), Handler).serve_forever()
