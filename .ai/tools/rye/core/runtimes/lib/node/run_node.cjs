// Runs a tool: `run_node.cjs TOOL PROJECT`, with the parameters on standard input.
// Runs a program: `run_node.cjs TOOL PROJECT -- ARGUMENT…`, as `node TOOL ARGUMENT…` does.
//
// When the tool exports `execute`, that is called with the parameters and `{projectPath}`. What it returns, or
// promises, is written as JSON to the descriptor that RYE_RESULT_FD names, else to standard output, and then the
// process ends, whatever still waits in it. It is run in RYE_WORKING_DIRECTORY, if set. Without that export the tool is a script: it has been run by then,
// and standard input was left to it. What is thrown is shown on standard error, and the exit code is 1.
//
// By hand: echo '{"name": "Ada"}' | node run_node.cjs "$PWD/greet.js" /the/project
"use strict";

const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { pathToFileURL } = require("node:url");

// In a private copy (this file is in `lib` of it), packages are looked for in there alone. Node.js looks in every
// directory above as well, and for package.json, which says what a file is: above the copy those are anybody's.
// The packages of an approved project come through one link in the copy. All of this is there before the tool
// is: what comes into a directory above while it runs does not count either.
const copy = path.dirname(__dirname) + path.sep;

// What "rye" is for a tool that may call others. The library of a tool that may not has no such file.
const client = process.env.RYE_CALL_FD ? path.join(__dirname, "calls", "rye.cjs") : undefined;

function keepInside() {
  fs.writeFileSync(path.join(copy, "package.json"), "{}\n");
  const pathsAbove = Module._nodeModulePaths;
  Module._nodeModulePaths = (from) => {
    const paths = pathsAbove(from);
    return `${from}${path.sep}`.startsWith(copy) ? paths.filter((each) => each.startsWith(copy)) : paths;
  };
  const allowed = [copy, projectWithPackages()].filter(Boolean).map((each) => pathToFileURL(each).href);
  const data = { allowed, client: client && pathToFileURL(client).href };
  const resolve = (specifier, context, next) =>
    ofClient(specifier, data.client) ?? inside(specifier, context, next(specifier, context), allowed);
  if (client) requireClient();
  if (Module.registerHooks) Module.registerHooks({ resolve });
  else Module.register(`data:text/javascript,${encodeURIComponent(HOOK)}`, { data }); // older: takes a thread
}

function requireClient() {
  const resolveFilename = Module._resolveFilename;
  Module._resolveFilename = (request, ...rest) =>
    request === "rye" ? client : resolveFilename.call(Module, request, ...rest);
}

function ofClient(specifier, client) {
  return specifier === "rye" && client ? { url: client, format: "commonjs", shortCircuit: true } : undefined;
}

function projectWithPackages() {
  const link = path.join(copy, "node_modules");
  return fs.existsSync(link) && path.dirname(fs.realpathSync(link)) + path.sep;
}

function inside(specifier, context, found, allowed) {
  const isPackage = !/^([./#]|[a-z]+:)/i.test(specifier) && found.url.startsWith("file:");
  if (!isPackage || !context.parentURL?.startsWith(allowed[0])) return found;
  if (allowed.some((each) => found.url.startsWith(each))) return found;
  const what = `Cannot find package '${specifier}' imported from ${new URL(context.parentURL).pathname}`;
  const error = Object.assign(new Error(what), { code: "ERR_MODULE_NOT_FOUND" });
  error.stack = `Error [${error.code}]: ${what}`; // its frames are those of this hook, which nobody wrote a tool in
  throw error;
}

const HOOK = `
let allowed, client;
export function initialize(given) { ({ allowed, client } = given); }
export async function resolve(specifier, context, next) {
  const own = ofClient(specifier, client);
  if (own) return own;
  const found = await next(specifier, context).catch((error) => {
    error.stack = error.stack.split("\\n").filter((line) => !line.includes(import.meta.url)).join("\\n");
    throw error; // without the frames of this hook, whose place is all of its text
  });
  return inside(specifier, context, found, allowed);
}
${inside}
${ofClient}
`;

async function run(tool, projectPath, given) {
  if (tool.startsWith(copy)) keepInside();
  if (process.env.RYE_WORKING_DIRECTORY) process.chdir(process.env.RYE_WORKING_DIRECTORY);
  process.argv.splice(1, Infinity, tool, ...(given ?? []));
  const readsTypes = path.extname(tool) === ".ts" && !process.features.typescript;
  if (given) return runAsMain(tool, readsTypes);
  const { execute } = await (readsTypes ? loadTypeScript(tool) : load(tool));
  if (typeof execute !== "function") return;
  const params = JSON.parse(fs.readFileSync(0, "utf8") || "{}");
  const result = await execute(params, { projectPath });
  const document = JSON.stringify(result === undefined ? null : result);
  if (document === undefined) {
    throw new TypeError(`expected a result that JSON can hold from execute in ${tool}, found a ${typeof result}`);
  }
  write(document);
  process.exit();
}

// The tool is the main module, with the stack traces and exit codes that Node.js gives every program.
async function runAsMain(tool, readsTypes) {
  if (readsTypes && !readTypeScript(tool)) await loadTypeScript(tool);
  else Module.runMain();
}

async function load(tool) {
  const loaded = path.extname(tool) === ".cjs" ? require(tool) : await import(pathToFileURL(tool).href);
  return loaded.execute ? loaded : (loaded.default ?? loaded);
}

async function loadTypeScript(tool) {
  if (readTypeScript(tool)) return require(tool);
  const { tsImport } = await import(pathToFileURL(path.join(findTsx(), "esm/api/index.mjs")).href);
  return tsImport(pathToFileURL(tool).href, { parentURL: pathToFileURL(__filename).href, tsconfig: false });
}

// Have `require` read TypeScript, so that a stack trace names its file and line; false where the tool has to be
// imported: a module (its package.json says so), and a tsx that only imports.
function readTypeScript(tool) {
  // Neither code that was kept elsewhere, nor a tsconfig.json that sends imports elsewhere.
  process.env.TSX_DISABLE_CACHE = "1";
  const register = path.join(findTsx() ?? "/dev/null", "cjs/api/index.cjs");
  if (fs.existsSync(register) && !isModule(tool)) {
    if (tool.startsWith(copy)) {
      process.env.TSX_TSCONFIG_PATH = path.join(copy, "tsconfig.json");
      fs.writeFileSync(process.env.TSX_TSCONFIG_PATH, "{}\n");
    }
    require(register).register();
    return true;
  }
  if (findTsx()) return false;
  const typescript = findCompiler();
  if (typescript === undefined) {
    const found = `found Node.js ${process.version} without tsx`;
    fail(`expected tsx, or a Node.js that reads TypeScript (22.18), for ${tool}, ${found}: npm install --global tsx`);
  }
  process.setSourceMapsEnabled(true);
  Module._extensions[".ts"] = (module, file) => module._compile(compiled(typescript, file), file);
  return true;
}

function isModule(tool) {
  const beside = path.join(path.dirname(tool), "package.json");
  return fs.existsSync(beside) && JSON.parse(fs.readFileSync(beside, "utf8")).type === "module";
}

// The directory of tsx: in the packages of an approved project, else where the command on the PATH is.
function findTsx() {
  const own = path.join(copy, "node_modules/tsx/dist");
  if (fs.existsSync(own)) return own;
  const directories = (process.env.PATH ?? "").split(path.delimiter).filter((each) => path.isAbsolute(each));
  const command = directories.map((each) => path.join(each, "tsx")).find((each) => fs.existsSync(each));
  return command && path.dirname(fs.realpathSync(command));
}

// The compiler of an approved project; from 7 on it is a program, which nothing can call.
function findCompiler() {
  const own = path.join(copy, "node_modules/typescript");
  const found = fs.existsSync(own) ? require(own) : {};
  return found.transpileModule ? found : undefined;
}

function compiled(typescript, file) {
  const compilerOptions = {
    ...{ module: typescript.ModuleKind.CommonJS, target: typescript.ScriptTarget.ES2022 },
    ...{ esModuleInterop: true, inlineSourceMap: true, inlineSources: true },
  };
  return typescript.transpileModule(fs.readFileSync(file, "utf8"), { compilerOptions, fileName: file }).outputText;
}

function write(document) {
  if (process.env.RYE_RESULT_FD) fs.writeFileSync(Number(process.env.RYE_RESULT_FD), document);
  else process.stdout.write(`${document}\n`);
}

function fail(text) {
  process.stderr.write(`${text}\n`);
  process.exit(1);
}

// Node.js tells the file of a syntax error only when nobody catches it.
function shown(error, tool) {
  const lines = require("node:util").inspect(error).split("\n");
  const ours = [__filename, path.join(__dirname, "calls") + path.sep]; // what a tool calls is our client, not its code
  const text = lines.filter((line) => !ours.some((each) => line.includes(each))).join("\n");
  return error instanceof SyntaxError && !text.includes(tool) ? `${tool}\n${text}` : text;
}

const [tool, projectPath = "", marker, ...given] = process.argv.slice(2);
run(tool, projectPath, marker === "--" ? given : undefined).catch((error) => fail(shown(error, tool)));
