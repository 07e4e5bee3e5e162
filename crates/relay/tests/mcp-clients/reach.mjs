// How a client gets to Relay: `http URL TOKEN`, or `stdio PROGRAM ARGUMENT…`.

import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

/** A transport of the official SDK. */
export function reach([way, target, ...rest]) {
  if (way === "http") {
    const headers = { Authorization: `Bearer ${rest[0]}` };
    return new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
  }
  // The SDK hands down few variables by itself.
  return new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: "inherit" });
}
