#!/usr/bin/env python3
"""An agent in plain Python: attaches by long poll, receives messages, answers with receipts.

    poll_agent.py URL TOKEN [COUNT]

TOKEN is an agent's token (at_...). Prints one line per message and ends after COUNT of them, or never.
Nothing but the standard library is needed; docs/protocol.md is all one has to know.
"""

import json
import sys
import time
import urllib.error
import urllib.request

CAPABILITIES = {
    "messaging": {"receive": True, "send": True, "attachments": ["text"]},
    "delivery": {"modes": ["immediate"]},
    "events": {"emits": ["status.changed"]},
    "lifecycle": {"release": True},
}


class Relay:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=90) as answer:
            text = answer.read()
        return json.loads(text) if text else None


class Agent:
    def __init__(self, relay):
        self.relay = relay
        self.name = relay.call("GET", "/v1/me")["agent"]["name"]
        self.resume = None
        # Deliveries that were shown: the same one may be offered again.
        self.seen = set()

    def attach(self):
        body = {"agent": self.name, "harness": "python", "capabilities": CAPABILITIES, "link": {"kind": "poll"}}
        if self.resume:
            body["resume"] = self.resume
        attached = self.relay.call("POST", "/v1/sessions", body)
        self.session, self.resume = attached["sessionId"], attached["resumeToken"]
        print("attached", flush=True)

    def serve(self, count):
        """Takes what comes, until so many messages were shown."""
        self.attach()
        wait = 0.5
        while count is None or len(self.seen) < count:
            try:
                polled = self.relay.call("GET", f"/v1/sessions/{self.session}/deliveries?wait=30")
                for delivery in polled["deliveries"]:
                    self.receive(delivery)
                for control in polled.get("controls", []):
                    self.obey(control)
                wait = 0.5
            except urllib.error.HTTPError as error:
                problem = json.load(error)
                if problem["code"] == "session_unreachable":
                    self.attach()
                elif not problem["retryable"]:
                    raise SystemExit(problem["detail"])
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(wait)
                wait = min(wait * 2, 30)

    def receive(self, delivery):
        message, context = delivery["message"], delivery["context"]
        if context["id"] not in self.seen:
            print(message["from"]["name"], message["text"], flush=True)
            self.seen.add(context["id"])
        receipt = {"status": "delivered", "deliveryId": context["id"], "metadata": {"door": "poll"}}
        body = {"receipt": receipt, "epoch": context["metadata"]["epoch"]}
        self.relay.call("POST", f"/v1/deliveries/{context['id']}/receipt", body)

    def obey(self, control):
        result = {"controlId": control["controlId"], "ok": control["op"] == "release"}
        self.relay.call("POST", f"/v1/sessions/{self.session}/control", result)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    count = int(sys.argv[3]) if len(sys.argv) == 4 else None
    Agent(Relay(sys.argv[1], sys.argv[2])).serve(count)


if __name__ == "__main__":
    main()
