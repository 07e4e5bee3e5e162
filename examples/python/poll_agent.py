#!/usr/bin/env python3
"""An agent in plain Python: attaches by long poll, receives, answers receipts. Standard library only.

    poll_agent.py URL TOKEN [COUNT]

URL is the server's, TOKEN the agent's (`at_…`). Each message is printed and answered in its thread. After COUNT
messages it ends; without COUNT it goes on until it is released or interrupted.
"""

import json
import signal
import sys
import time
import urllib.error
import urllib.request

# How long a question waits for work, in seconds. The server allows up to 60.
WAIT_S = 20


class Problem(Exception):
    """What the server answered instead: RFC 9457, with a stable code."""

    def __init__(self, problem):
        super().__init__(f"{problem.get('code')}: {problem.get('detail')}")
        self.code = problem.get("code")
        self.retryable = problem.get("retryable", False)


class Relay:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/"), token
        # An environment's proxy has no business between an agent and its server.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if method != "GET":
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body or {}).encode()
        try:
            with self.opener.open(request, timeout=WAIT_S + 30) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise Problem(json.loads(error.read())) from None


class Session:
    """One body of an agent. It survives lost connections and restarts of the server by its resume token."""

    def __init__(self, relay, agent):
        self.relay, self.agent, self.resume = relay, agent, None
        # A delivery may be offered again; its id tells. A program that restarts keeps these in a file.
        self.seen = set()
        self.attach()

    def attach(self):
        body = {
            "agent": self.agent,
            "harness": "python-example",
            "link": {"kind": "poll"},
            "capabilities": {
                "messaging": {"receive": True, "send": True, "attachments": ["text"]},
                "delivery": {"modes": ["immediate"]},
                "events": {"emits": ["status.changed"]},
                "lifecycle": {"release": True},
            },
        }
        if self.resume:
            body["resume"] = self.resume
        attached = self.relay.call("POST", "/v1/sessions", body)
        self.id, self.resume = attached["sessionId"], attached["resumeToken"]

    def poll(self):
        """What came: deliveries and operations. Comes back by itself after a loss."""
        try:
            return self.relay.call("GET", f"/v1/sessions/{self.id}/deliveries?wait={WAIT_S}")
        except Problem as problem:
            # The server did not hear of us for too long, or was started again.
            if problem.code != "session_unreachable":
                raise
            self.attach()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(1)
        return {"deliveries": []}

    def receive(self, due, handle):
        """Surfaces a delivery once and says what happened, whatever happens."""
        delivery_id = due["context"]["id"]
        receipt = {"status": "delivered", "deliveryId": delivery_id, "metadata": {"door": "poll"}}
        if delivery_id not in self.seen:
            try:
                handle(due)
                self.seen.add(delivery_id)
            except Exception as error:  # the sender has to learn of it
                receipt = {"status": "failed", "deliveryId": delivery_id, "reason": repr(error)}
        epoch = due["context"].get("metadata", {}).get("epoch")
        body = {"receipt": receipt} if epoch is None else {"receipt": receipt, "epoch": epoch}
        self.relay.call("POST", f"/v1/deliveries/{delivery_id}/receipt", body)

    def control(self, control):
        """Answers an operation; True when the session is to end."""
        is_release = control["op"] == "release"
        result = {"controlId": control["controlId"], "ok": is_release}
        if not is_release:
            result["problem"] = {
                "type": "urn:relay:problem:unsupported_operation",
                "title": "Not supported",
                "status": 501,
                "detail": "this session can only be released",
                "code": "unsupported_operation",
                "retryable": False,
                "operation": control["op"],
            }
        self.relay.call("POST", f"/v1/sessions/{self.id}/control", result)
        return is_release


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    relay = Relay(sys.argv[1], sys.argv[2])
    left = int(sys.argv[3]) if len(sys.argv) == 4 else None
    agent = relay.call("GET", "/v1/me")["agent"]["name"]
    session = Session(relay, agent)
    print(f"attached {agent}", flush=True)

    def handle(due):
        message = due["message"]
        print(f"received {message['text']}", flush=True)
        reply = {"text": f"{agent} got: {message['text']}"}
        relay.call("POST", f"/v1/messages/{message['id']}/replies", reply)

    while left is None or left > 0:
        polled = session.poll()
        for due in polled["deliveries"]:
            session.receive(due, handle)
            left = None if left is None else left - 1
        for control in polled.get("controls", []):
            if session.control(control):
                print("released", flush=True)
                return


if __name__ == "__main__":
    main()
