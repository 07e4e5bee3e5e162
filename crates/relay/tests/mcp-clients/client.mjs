// A client of the official SDK: lists the tools, hears that there are more, calls one, and reads how that ended.
// It tells what it sees as lines of JSON.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import {
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { reach } from "./reach.mjs";

const client = new Client({ name: "relay-tests", version: "1" });
const transport = reach(process.argv.slice(2));

const tell = (step, what) => console.log(JSON.stringify({ step, ...what }));

/** The names of all tools, page by page. */
async function tools() {
  const names = [];
  let pages = 0;
  let cursor;
  do {
    const page = await client.listTools(cursor ? { cursor } : {});
    names.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor);
  return { names, pages };
}

/** What a tool says. */
async function call(name, input) {
  const result = await client.callTool({ name, arguments: input });
  return { isError: result.isError === true, text: result.content[0].text, structured: result.structuredContent };
}

/** Reads messages until one holds this. */
async function message(part) {
  for (;;) {
    const { text } = await call("check", {});
    if (text.includes(part)) return text;
  }
}

const changed = new Promise((resolve) =>
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve()),
);
const updated = new Promise((resolve) =>
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (news) => resolve(news.params.uri)),
);

await client.connect(transport);
const { name, version } = client.getServerVersion();
tell("server", { name, version, instructions: client.getInstructions() });
tell("tools", await tools());
await changed;
tell("changed", await tools());
const called = await call("classify", { text: "hello" });
tell("called", called);
tell("outcome", { text: await message(called.structured.invocationId) });
tell("refused", await call("classify", { text: 7 }));

const { resources } = await client.listResources();
const { uri } = resources.find((resource) => resource.name === "#general");
await client.subscribeResource({ uri });
tell("sent", await call("send", { to: "#general", text: "from another language" }));
tell("updated", { uri: await updated });
const { contents } = await client.readResource({ uri });
tell("read", { text: contents[0].text });
if (transport.terminateSession) await transport.terminateSession();
await client.close();
tell("end", {});
