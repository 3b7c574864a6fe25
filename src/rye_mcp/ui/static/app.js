// The view of a run in an MCP client: what came of it, what it wrote, what waits for a yes.
// It asks only its host, by messages. Whatever anybody says is put in as text, and characters that hide are spelled out.
"use strict";

const VERSION = "2026-01-26";
const HIDING = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\ufffc]/gu;
const WAITS = ["confirmation_required", "permissions_widened"];
const asked = new Map();
let given = {}; // the arguments of the call

// --- the host ---

function tell(method, params = {}) { parent.postMessage({ jsonrpc: "2.0", method, params }, "*"); }

function ask(method, params) {
  const id = asked.size + 1;
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject });
    parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
  });
}

const heard = {
  "ui/notifications/tool-input": (params) => { given = params.arguments || {}; },
  "ui/notifications/tool-result": (params) => show(params),
  "ui/notifications/tool-cancelled": () => show({ structuredContent: { status: "error", code: "cancelled" } }),
  "ui/notifications/host-context-changed": (params) => look_like(params),
  "ui/resource-teardown": () => ({}),
  ping: () => ({}),
};

addEventListener("message", (event) => {
  const message = event.data;
  if (event.source !== parent || !message || message.jsonrpc !== "2.0") return;
  if (message.method) {
    const is_known = Object.hasOwn(heard, message.method);
    const result = is_known ? heard[message.method](message.params || {}) : undefined;
    const answer = is_known ? { result: result || {} } : { error: { code: -32601, message: "unknown method" } };
    if (message.id !== undefined) parent.postMessage({ jsonrpc: "2.0", id: message.id, ...answer }, "*");
  } else if (asked.has(message.id)) {
    const { resolve, reject } = asked.get(message.id);
    if (message.error) reject(new Error(message.error.message)); else resolve(message.result);
  }
});

function look_like(context) {
  if (context.theme) document.documentElement.style.colorScheme = context.theme;
}

// --- elements ---

function visible(text) {
  return String(text).replace(HIDING, (each) => "\n\t".includes(each) ? each : `\\u{${each.codePointAt(0).toString(16)}}`);
}

function make(name, look, ...content) {
  const made = document.createElement(name);
  made.className = look;
  made.append(...content.filter((each) => each !== null).map((each) => each instanceof Node ? each : visible(each)));
  return made;
}

function button(text, look, act) {
  const made = make("button", look, text);
  made.onclick = () => {
    made.disabled = true;
    act().catch((error) => note(error.message)).finally(() => { made.disabled = false; });
  };
  return made;
}

function state(word, kind) {
  const sign = make("span", "sign", { good: "✓", live: "●", open: "?", bad: "✗" }[kind]);
  sign.setAttribute("aria-hidden", "true");
  return make("span", `state ${kind}`, sign, word);
}

function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return make("dl", "facts", ...known.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}

function output(title, text) { return make("section", "", make("h2", "", title), pre(text)); }

function pre(text) {
  const made = make("pre", "output", text);
  made.tabIndex = 0;
  return made;
}

function as_text(value) { return typeof value === "string" ? value : JSON.stringify(value, null, 2); }

function enforced(facts) {
  const told = ["project", "net"].filter((name) => facts[name]).map((name) => `${name} ${[facts[name]].flat().join(", ")}`);
  return [facts.level, ...told].join("; ");
}

function note(text) { document.getElementById("told").textContent = visible(text); }

// --- the views ---

function show(result) {
  const run = result.structuredContent || {};
  const view = WAITS.includes(run.code) ? question(run) : outcome(run, result._meta || {});
  document.getElementById("view").replaceChildren(...view.filter(Boolean));
}

function question(run) {
  return [
    make("p", "outcome", state("waits for your yes", "open")),
    make("h1", "id", run.item_id || given.item_id || ""),
    make("p", "", run.error || ""),
    output("It would run with", as_text(given.parameters || {})),
    make("p", "", make("span", "label", "To agree or refuse, in a terminal or on the page of rye ui: "), make("code", "", run.hint || "")),
    make("div", "row", button("Call again", "", () => call("execute", given, true))),
  ];
}

function outcome(run, meta) {
  const is_running = run.status === "running";
  const kind = is_running ? "live" : run.code || run.status === "error" ? "bad" : "good";
  const took = run.duration_ms === undefined ? "" : ` in ${Math.round(run.duration_ms).toLocaleString("en")} ms`;
  const exit = run.exit || {};
  return [
    make("p", "outcome", state(run.code || run.status || "success", kind), took),
    make("h1", "id", run.item_id || given.item_id || ""),
    run.error && make("p", "", run.error),
    run.hint && make("p", "", make("span", "label", "What helps: "), make("code", "", run.hint)),
    is_running && actions(run),
    facts([
      ["Exit", [exit.kind, exit.return_code, exit.signal].filter((each) => each !== undefined && each !== null).join(" ")],
      ["Sealed", run.sealed === undefined ? "" : run.sealed ? "yes: nothing but verified bytes could run" : "no"],
      ["Enforced", run.enforced && enforced(run.enforced)],
      ["Runtime", run.runtime],
      ["Node", run.node && as_text(run.node)],
      ["Run", run.run_id],
      ["Receipt", meta["rye/receipt"]],
    ]),
    ...[...(run.kept || []), ...(run.output ? [{ handle: run.output }] : [])].map(kept),
    run.data !== undefined && run.data !== null && output("What it returned", as_text(run.data)),
    run.stderr && output("Standard error", run.stderr),
    ...(run.notices || []).map((each) => make("p", "faint", `${each.code}: ${each.message}`)),
  ];
}

function about(run_id) {
  return given.project_path === undefined ? { run_id } : { run_id, project_path: given.project_path };
}

function actions(run) {
  const call_with = (action) => () => call("execute", { ...about(run.run_id), action });
  return make(
    "div", "row",
    button("Look again", "", call_with("status")),
    button("End this run", "grave", call_with("cancel")),
  );
}

function kept(each) {
  const place = make("section", "", make("h2", "", each.name || "stdout"));
  if (each.preview) place.append(pre(`${each.preview}…`));
  const more = button(`Read ${each.name || "all of it"}`, "plain", () => read(each.handle, more));
  more.dataset.offset = 0;
  place.append(make("div", "row", more));
  return place;
}

// Calls go through the host, which may ask its person first.
async function call(name, args, tells_the_model = false) {
  const result = await ask("tools/call", { name, arguments: args });
  note("");
  show(result);
  if (tells_the_model) ask("ui/update-model-context", { content: result.content }).catch(() => note("The model was not told of it."));
}

async function read(handle, more) {
  const offset = Number(more.dataset.offset);
  const { structuredContent: found } = await ask("tools/call", { name: "load", arguments: { ...about(handle), offset } });
  if (found.code) { note(`${found.code}: ${found.error}`); return; }
  more.parentNode.before(pre(found.content));
  if (found.next_offset === undefined || found.next_offset === null) more.remove();
  else { more.textContent = "Go on"; more.dataset.offset = found.next_offset; }
}

async function begin() {
  const appInfo = { name: "rye-mcp", version: "1" };
  const found = await ask("ui/initialize", { protocolVersion: VERSION, appInfo, appCapabilities: { availableDisplayModes: ["inline"] } });
  look_like(found.hostContext || {});
  tell("ui/notifications/initialized");
  new ResizeObserver(() => {
    const { scrollWidth: width, offsetHeight: height } = document.documentElement;
    tell("ui/notifications/size-changed", { width, height });
  }).observe(document.documentElement);
}

begin().catch((error) => note(error.message));
