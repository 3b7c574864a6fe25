// /// rye
// version: "1.0.0"
// description: |
//   Run a program that you write: JavaScript that computes and calls tools, so that only its result comes back.
//   The program can do nothing else: it has no network, no files but a private directory, and no secrets. calls
//   names the tools that it may call, by id or as directory/*. Inside, await call(id, {name: value}) is the data of a
//   tool, search(words) and describe(id) say what there is, and tools.demo_greet({name: "Ada"}) is call("demo/greet",
//   {name: "Ada"}). input is the parameter of that name. The result is the value of the last expression or of the
//   variable result; a program that awaits at its top level returns it. With stubs, nothing runs: the answer has typed
//   stubs of what the program may call.
// category: rye/code
// tags: [code, program, javascript, node, calls, join, batch]
// executor_id: rye/core/runtimes/node_runtime
// permissions: {require: walls, calls: ["rye/*"]}
// limits: {calls: 500}
// runs_given_code: true
// config_schema:
//   type: object
//   properties:
//     source:
//       type: string
//       maxLength: 65536
//       description: The program, in JavaScript. await works at its top level, too.
//     calls:
//       type: array
//       items: {type: string, maxLength: 300, pattern: "^[A-Za-z0-9_][A-Za-z0-9_./-]*(?:/\\*)?$"}
//       maxItems: 100
//       default: []
//       description: "The tools that it may call: ids, or directory/*."
//     input: {description: What the program finds as input.}
//     stubs: {type: boolean, default: false, description: "Return typed stubs of what it may call, and run nothing."}
//   required: [source]
//   additionalProperties: false
// config: {max_output: 4194304}
// examples:
//   - description: >-
//       Compute something in JavaScript; the last expression is the result. Call several tools from one
//       JavaScript program. Combine the answers of many tool calls without reading each.
//     parameters: {source: "const total = input.reduce((a, b) => a + b, 0); ({total})", input: [1, 2, 3]}
//     expect: {code: code_switched_off}
// ///

// What a run may call is what its caller names in calls, and nothing of the list above.
"use strict";

const vm = require("node:vm");

const NAME = "<program>";
const TYPES = { integer: "number", array: "unknown[]", object: "object" };

exports.execute = async ({ source, calls, input, stubs }) => {
  if (stubs) return (await Promise.all((await named(calls)).map(stub))).join("\n\n");
  Object.assign(globalThis, { input, require }, clients(calls));
  return ran(source);
};

/** The value of the program: of its last expression, or of `result`; what awaits at its top level is a function. */
async function ran(source) {
  const script = compiled(source) ?? compiled(`(async () => {\n${source}\n})()`, -1);
  if (script === null) return new vm.Script(source, { filename: NAME }); // throws what is wrong with it
  const value = await script.runInThisContext();
  return value === undefined ? await new vm.Script("typeof result === 'undefined' ? undefined : result").runInThisContext() : value;
}

function compiled(source, lineOffset = 0) {
  try {
    return new vm.Script(source, { filename: NAME, lineOffset });
  } catch {
    return null;
  }
}

/** What a program that may call finds under its names. */
function clients(calls) {
  if (!process.env.RYE_CALL_FD) return {};
  const { CallError, call, describe, handle, keep, search } = require("rye");
  const ids = calls.filter((each) => !each.endsWith("/*"));
  const tools = Object.fromEntries(ids.map((id) => [nameOf(id), (parameters) => call(id, parameters)]));
  return { CallError, call, describe, handle, keep, search, tools };
}

/** What a tool is called in JavaScript. */
function nameOf(itemId) {
  const name = itemId.replace(/\W/g, "_");
  return /^\d/.test(name) ? `_${name}` : name;
}

/** The ids of all tools that may be called, as far as they are found. */
async function named(calls) {
  const { search } = clients(calls);
  const ids = new Set(calls.filter((each) => !each.endsWith("/*")));
  if (ids.size < calls.length) for (const { id } of await search("", 100)) ids.add(id);
  return [...ids].sort();
}

/** What a tool is as a function of TypeScript. */
async function stub(itemId) {
  const { config_schema: schema = {}, output_schema: output = {}, description } = await require("rye").describe(itemId);
  const required = schema.required ?? [];
  const properties = Object.entries(schema.properties ?? {});
  const lines = properties.map(([name, each]) => `  ${argument(name, each, required.includes(name))}`);
  const words = String(description ?? "").split(/\s+/).join(" ").replaceAll("*/", "* /");
  const parameters = lines.length ? `parameters: {\n${lines.join("\n")}\n}` : "";
  return `/** ${words} call("${itemId}", …) */\ndeclare function ${nameOf(itemId)}(${parameters}): Promise<${typed(output)}>;`;
}

function argument(name, schema, isRequired) {
  const shown = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
  const about = typeof schema?.description === "string" ? ` // ${schema.description.split(/\s+/).join(" ")}` : "";
  return `${shown}${isRequired ? "" : "?"}: ${typed(schema)};${about}`;
}

/** The type that a schema says. */
function typed(schema) {
  if (Array.isArray(schema?.enum)) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const kinds = [schema?.type ?? []].flat();
  if (kinds.length === 1 && kinds[0] === "array" && schema.items) return `Array<${typed(schema.items)}>`;
  return kinds.map((each) => TYPES[each] ?? each).join(" | ") || "unknown";
}
