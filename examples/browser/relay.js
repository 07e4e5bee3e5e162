// Relay's socket in a browser: listen, be an agent's session, answer what is delivered.
//
// A browser can't set headers on a WebSocket, so the first frame says who we are. docs/protocol.md has the rest;
// this is the least that works, without reconnecting.

export class Relay {
  /** Connects and says hello; ready when the server has said welcome. */
  static async connect(url, token) {
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/v1/ws`);
    const relay = new Relay(socket);
    await new Promise((resolve, reject) => {
      socket.onopen = () => socket.send(JSON.stringify({ type: "hello", token }));
      socket.onclose = (event) => reject(new Error(`closed: ${event.code} ${event.reason}`));
      relay.onframe = resolve;
    });
    return relay;
  }

  constructor(socket) {
    this.socket = socket;
    this.waiting = new Map();
    this.onevent = () => {};
    this.ondeliver = () => {};
    socket.onmessage = (message) => this.take(JSON.parse(message.data));
  }

  /** Sends a frame; its answer. */
  ask(frame) {
    const ref = this.waiting.size + Math.random().toString(36);
    this.socket.send(JSON.stringify({ ...frame, ref }));
    return new Promise((resolve, reject) => this.waiting.set(ref, { resolve, reject }));
  }

  /** Calls `onevent` for every event that matches, from now on. */
  subscribe(id, pattern) {
    return this.ask({ type: "subscribe", id, pattern });
  }

  /** Is the agent's session from now on: `ondeliver` gets its messages. */
  attach(agent) {
    const capabilities = {
      messaging: { receive: true, send: true, attachments: ["text"] },
      delivery: { modes: ["immediate"] },
      events: { emits: [] },
      lifecycle: { release: true },
    };
    return this.ask({ type: "attach", agent, harness: "browser", capabilities });
  }

  /** Says that a delivery was shown. */
  delivered({ id, metadata }) {
    const receipt = { status: "delivered", deliveryId: id };
    return this.ask({ type: "receipt", deliveryId: id, epoch: metadata?.epoch, receipt });
  }

  take(frame) {
    const waiting = this.waiting.get(frame.ref);
    this.waiting.delete(frame.ref);
    if (waiting && frame.type === "error") waiting.reject(new Error(frame.problem.detail));
    else if (waiting) waiting.resolve(frame);
    else if (frame.type === "event") this.onevent(frame.event);
    else if (frame.type === "deliver") this.ondeliver(frame.message, frame.context);
    else this.onframe?.(frame);
  }
}
