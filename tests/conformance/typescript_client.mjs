// A client of the official SDKs for TypeScript: does once what clients do, and prints what came of it as JSON.
//
// node typescript_client.mjs PACKAGES ASKED
//   PACKAGES  a directory with node_modules
//   ASKED     {"sdk": "v1" | "v2", "mode": "legacy" | "auto", "server": {"command", "args", "cwd", "env"} | {"url", "token"}}

import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, asked] = [process.argv[2], JSON.parse(process.argv[3])];
const load = createRequire(join(packages, "package.json"));

function sdk() {
  if (asked.sdk === "v1") {
    const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const call = (client, params, options) => client.callTool(params, undefined, options);
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, call };
  }
  const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
  const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");
  const call = (client, params, options) => client.callTool(params, options);
  return { Client, StdioClientTransport, StreamableHTTPClientTransport, call };
}

function transport({ StdioClientTransport, StreamableHTTPClientTransport }) {
  const { url, token, ...program } = asked.server;
  if (url === undefined) return new StdioClientTransport(program);
  const headers = { Authorization: `Bearer ${token}` };
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
}

const { Client, call, ...transports } = sdk();
const options = asked.mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "typescript", version: "1.0.0" }, options);
await client.connect(transport(transports));

const execute = (item_id, parameters, more) =>
  call(client, { name: "execute", arguments: { item_id, parameters } }, more);

// Ends a call as soon as the tool has said something, and tells what.
async function cancelled() {
  const control = new AbortController();
  const told = [];
  const onprogress = ({ message }) => {
    told.push(message);
    control.abort();
  };
  const outcome = await execute("demo/wait", {}, { onprogress, signal: control.signal }).then(
    () => "answered",
    () => "ended",
  );
  return { outcome, told };
}

const progress = [];
const found = {
  era: client.getProtocolEra?.() ?? null,
  server: client.getServerVersion(),
  tools: (await client.listTools()).tools.map(({ name }) => name),
  search: await call(client, { name: "search", arguments: { query: "greets" } }),
  native: await call(client, { name: "demo_greet", arguments: { name: "Ada" } }),
  program: await execute("demo/all", { names: ["Ada", "Leo"] }),
  execute: await execute("demo/slow", {}, { onprogress: ({ message }) => progress.push(message) }),
  progress,
  refused: await execute("demo/nothing", {}),
  cancelled: await cancelled(),
  after: await execute("demo/greet", { name: "Grace" }),
  prompt: await client.getPrompt({ name: "review", arguments: { language: "python" } }),
  resource: await client.readResource({ uri: "rye://item/knowledge/notes" }),
};
await client.close();
console.log(JSON.stringify(found));
