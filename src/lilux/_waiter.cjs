// What a waiting Node.js does: it reads its call, becomes what that says, and runs the script as its main module.
//
// This text is given to `node -e`, of any version from 18 on. From its call on everything is as if it had been
// started as `node SCRIPT ARGUMENT…`, but for the innermost frames of Node.js in a stack trace.
(() => {
  const CALL = 20;
  const fs = require("node:fs");
  const Module = require("node:module");
  const load = require; // which is a global here, and goes with the others

  const textOf = (value) => (typeof value === "string" ? value : Buffer.from(value.b64, "base64").toString());

  // What Node.js gives to a text that it evaluates, and to no script.
  function hideEvaluation() {
    const own = ["process", "console", "performance"];
    const given = [...Module.builtinModules, "module", "require", "exports", "__filename", "__dirname"];
    for (const name of given) {
      if (!own.includes(name) && Object.getOwnPropertyDescriptor(globalThis, name)?.configurable) delete globalThis[name];
    }
    const get = () => load("node:crypto").webcrypto;
    Object.defineProperty(globalThis, "crypto", { configurable: true, enumerable: true, get, set: undefined });
    delete process._eval;
    process.execArgv = process.execArgv.slice(0, process.execArgv.indexOf("-e"));
  }

  function takeOn(call) {
    if (!call.stdin) {
      fs.closeSync(0);
      fs.openSync("/dev/null", "r"); // the lowest number that is free
    }
    for (const [name, value] of Object.entries(call.env)) process.env[name] = textOf(value);
    if (call.cwd !== null) enter(textOf(call.cwd));
    process.argv.splice(1, Infinity, ...call.args.map(textOf));
    Module._initPaths(); // of NODE_PATH
  }

  function enter(directory) {
    try {
      process.chdir(directory);
    } catch (error) {
      fs.writeSync(2, `lilux: cannot change to the working directory: ${error.message}\n`);
      process.exit(1);
    }
  }

  function begin() {
    hideEvaluation();
    const text = fs.readFileSync(CALL, "utf8");
    fs.closeSync(CALL);
    if (!text) process.exit(0);
    takeOn(JSON.parse(text));
    Module.runMain();
  }

  // Older ones start a thread for the first of them, and need this text for it.
  if (!Module.registerHooks) Module.register("data:text/javascript,");
  import("data:text/javascript,").then(begin); // what imports modules is ready then
})();
