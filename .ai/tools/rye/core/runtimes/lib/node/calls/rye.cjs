// Calls other tools from a tool whose signed file names them in permissions.calls.
//
//   import { call, keep, handle, result, search, describe, CallError } from "rye";
//   const commits = await call("rye/git/log", { limit: 5 });
//
// `call` resolves to the data of the result, and throws a CallError with a `code` when the call is refused or fails.
// `keep` leaves the data where it is, and resolves to its handle. Any number of calls may be under way at a time.
// Only the process that rye-mcp has started can call: a worker or a child has no stream of its own.
"use strict";

const net = require("node:net");

const PIECE_BYTES = 1 << 20;

/** A call that was refused, or failed: `code` says why, `facts` has everything that is known of it. */
class CallError extends Error {
  constructor(facts) {
    super(`${facts.code}: ${facts.error}`);
    this.name = "CallError";
    this.code = facts.code;
    this.hint = facts.hint;
    Object.defineProperty(this, "facts", { value: facts }); // not shown with the error
  }
}

/** A result that was kept. It is passed on, and returned, as its address. */
class Handle {
  constructor(address) {
    this.address = address;
  }

  /** So many bytes from a place on; all of the rest without a length. A negative offset is from the end. */
  async read(offset = 0, length = Infinity) {
    const found = [];
    for (let wanted = length; wanted > 0 && offset !== null; ) {
      const asked = { read: this.address, offset, length: Math.min(wanted, PIECE_BYTES), base64: true };
      const piece = await ask(asked);
      found.push(Buffer.from(piece.content, "base64"));
      wanted -= found.at(-1).length;
      offset = piece.next_offset;
    }
    return Buffer.concat(found);
  }

  /** All of it as text. */
  async text() {
    return (await this.read()).toString("utf8");
  }

  /** All of it as the value that it is in JSON. */
  async json() {
    return JSON.parse(await this.text());
  }

  toString() {
    return this.address;
  }

  toJSON() {
    return this.address;
  }
}

/** The data that a tool returns. */
async function call(itemId, parameters = {}) {
  return (await result(itemId, parameters)).data;
}

/** The handle of the data that a tool returns, which is kept: a parameter of another call, or a result. */
async function keep(itemId, parameters = {}) {
  const { kept } = await result(itemId, parameters, { asHandle: true });
  return new Handle(kept.at(-1).handle);
}

/** The whole result of a tool, as over MCP: data, run_id, kept, notices and more. `timeout` is in seconds. */
async function result(itemId, parameters = {}, { timeout, asHandle } = {}) {
  const answer = await ask({ call: itemId, parameters, timeout, as_handle: asHandle });
  if (answer.status !== "success") throw new CallError(answer);
  return answer;
}

/** The tools that this one may call, found by what they are for. */
async function search(words, limit = 10) {
  return (await ask({ search: words, limit })).results;
}

/** What a tool that this one may call does, and the schema of its parameters. */
async function describe(itemId) {
  return ask({ describe: itemId });
}

/** What was kept under an address, `rye://result/…`. */
function handle(address) {
  return new Handle(String(address));
}

let stream;
let lastId = 0;
const waiting = new Map();

async function ask(asked) {
  const answer = await answered(asked);
  if (answer.error) throw new CallError(answer.error); // behind the await, where the stack has the tool's line
  return answer.result;
}

function answered(asked) {
  stream ??= open();
  const id = ++lastId;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    stream.ref();
    stream.write(`${JSON.stringify({ id, ...asked })}\n`);
  });
}

function open() {
  const number = process.env.RYE_CALL_FD;
  if (!number) {
    const error = "expected a tool with permissions.calls, found one that may not call";
    throw new CallError({ code: "call_not_allowed", error });
  }
  const opened = new net.Socket({ fd: Number(number), readable: true, writable: true });
  let received = [];
  opened.on("data", (chunk) => {
    for (let end; (end = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(end + 1)) {
      const line = Buffer.concat([...received, chunk.subarray(0, end)]);
      received = [];
      take(JSON.parse(line.toString("utf8")));
    }
    received.push(chunk);
  });
  opened.on("error", lose);
  opened.on("close", lose);
  opened.unref();
  return opened;
}

function take(answer) {
  const resolve = waiting.get(answer.id);
  if (resolve === undefined) return; // it is about a line without an id
  waiting.delete(answer.id);
  if (waiting.size === 0) stream.unref(); // what waits for nothing keeps no process from its end
  resolve(answer);
}

function lose() {
  const error = "expected an answer, found that nobody answers any more";
  for (const resolve of waiting.values()) resolve({ error: { code: "lost", error } });
  waiting.clear();
}

module.exports = { CallError, Handle, call, describe, handle, keep, result, search };
