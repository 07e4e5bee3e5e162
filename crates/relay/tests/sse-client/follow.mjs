// Follows a chat with a public library, which comes back by itself after every break. Arguments: URL, token. A line for each event:
// its number and its name; the last event of the chat ends it.
import { EventSource } from "eventsource";

const [url, token] = process.argv.slice(2);
const names = [
  "connected", "harness_start", "text", "reasoning", "usage", "relay", "relay_resolved",
  "tool_call", "tool_progress", "tool_result", "error", "harness_end", "resync_required",
];
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const source = new EventSource(url, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
});
for (const name of names) {
  source.addEventListener(name, (event) => {
    // A break of the connection has this name, too, and no data.
    if (event.data === undefined) return;
    const data = JSON.parse(event.data);
    if (data.type !== name) throw new Error(`an event ${name} says that it is ${data.type}`);
    tell({ id: event.lastEventId, type: name, data });
    if (name === "harness_end" && data.parentId === undefined) {
      source.close();
      tell({ type: "closed" });
    }
  });
}
