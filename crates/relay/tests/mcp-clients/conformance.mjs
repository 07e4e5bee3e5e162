// Runs the official conformance suite. The suite knows HTTP alone and brings no token, so it talks to a bridge here: to Relay's own
// HTTP the bridge only adds the token; for standard input and output it is a server that hands every message on to the program.
// `conformance.mjs EXPECTED-FAILURES http URL TOKEN`, or `… stdio PROGRAM ARGUMENT…`

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import http from "node:http";
import { fileURLToPath } from "node:url";

import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

import { reach } from "./reach.mjs";

const [expected, ...way] = process.argv.slice(2);

/** Hands requests on as they are, with a token. */
function withToken(url, token) {
  return (request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    const onward = http.request(url, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", (error) => response.destroy(error));
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  };
}

/** Gives each session of a client a program of its own. */
function toPrograms(port) {
  const sessions = new Map();
  return async (request, response) => {
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (!session) {
      session = await open(port, (id) => sessions.set(id, session));
    }
    await session.handleRequest(request, response);
  };
}

async function open(port, opened) {
  const hosts = ["localhost", "127.0.0.1"].map((name) => `${name}:${port()}`);
  const server = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: opened,
    enableDnsRebindingProtection: true,
    allowedHosts: hosts,
    allowedOrigins: hosts.map((host) => `http://${host}`),
  });
  const program = reach(way);
  server.onmessage = (message) => program.send(message);
  program.onmessage = (message) => server.send(message).catch(() => {});
  server.onclose = () => program.close();
  await program.start();
  await server.start();
  return server;
}

const answer = way[0] === "http" ? withToken(way[1], way[2]) : toPrograms(() => bridge.address().port);
const bridge = http.createServer(answer);
await new Promise((listening) => bridge.listen(0, "127.0.0.1", listening));
const suite = fileURLToPath(new URL("node_modules/.bin/conformance", import.meta.url));
const url = `http://localhost:${bridge.address().port}/mcp`;
const running = spawn(suite, ["server", "--suite", "all", "--url", url, "--expected-failures", expected], { stdio: "inherit" });
running.on("exit", (code) => process.exit(code ?? 1));
