// Runs a tool: `run_node.cjs TOOL PROJECT`, with the parameters on standard input.
//
// When the tool exports `execute`, that is called with the parameters and `{projectPath}`. What it returns, or
// promises, is written as JSON to the descriptor that RYE_RESULT_FD names, else to standard output, and then the
// process ends, whatever still waits in it. Without that export the tool is a script: it has been run by then,
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
// The packages of an approved project come through one link in the copy.
const copy = path.dirname(__dirname) + path.sep;

function keepInside() {
  fs.writeFileSync(path.join(copy, "package.json"), "{}\n");
  const pathsAbove = Module._nodeModulePaths;
  Module._nodeModulePaths = (from) => {
    const paths = pathsAbove(from);
    return `${from}${path.sep}`.startsWith(copy) ? paths.filter((each) => each.startsWith(copy)) : paths;
  };
  // Modules need a thread for that, which takes its time.
  const above = pathsAbove(path.dirname(path.dirname(copy)));
  if (above.some((each) => fs.existsSync(each))) {
    const data = [copy, projectWithPackages()].filter(Boolean).map((each) => pathToFileURL(each).href);
    Module.register(`data:text/javascript,${encodeURIComponent(HOOK)}`, { data });
  }
}

function projectWithPackages() {
  const link = path.join(copy, "node_modules");
  return fs.existsSync(link) && path.dirname(fs.realpathSync(link)) + path.sep;
}

const HOOK = `
let copy, allowed;
export function initialize(given) { [copy] = allowed = given; }
export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  const isPackage = !/^([./#]|[a-z]+:)/i.test(specifier) && found.url.startsWith("file:");
  if (!isPackage || !context.parentURL?.startsWith(copy)) return found;
  if (allowed.some((each) => found.url.startsWith(each))) return found;
  const what = \`Cannot find package '\${specifier}' imported from \${new URL(context.parentURL).pathname}\`;
  throw Object.assign(new Error(what), { code: "ERR_MODULE_NOT_FOUND" });
}
`;

async function run(tool, projectPath) {
  if (tool.startsWith(copy)) keepInside();
  const { execute } = await load(tool);
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

async function load(tool) {
  process.argv.splice(1, Infinity, tool);
  if (path.extname(tool) === ".ts" && !process.features.typescript) return loadWithTsx(tool);
  const loaded = path.extname(tool) === ".cjs" ? require(tool) : await import(pathToFileURL(tool).href);
  return loaded.execute ? loaded : (loaded.default ?? loaded);
}

async function loadWithTsx(tool) {
  const tsx = findTsx();
  if (tsx === undefined) {
    const found = `found Node.js ${process.version} without tsx`;
    fail(`expected tsx, or a Node.js that reads TypeScript (22.18), for ${tool}, ${found}: npm install --global tsx`);
  }
  // Neither code that was kept elsewhere, nor a tsconfig.json that sends imports elsewhere.
  process.env.TSX_DISABLE_CACHE = "1";
  const { tsImport } = await import(pathToFileURL(tsx).href);
  return tsImport(pathToFileURL(tool).href, { parentURL: pathToFileURL(__filename).href, tsconfig: false });
}

// What loads TypeScript in the package that the command on the PATH belongs to.
function findTsx() {
  const directories = (process.env.PATH ?? "").split(path.delimiter).filter((each) => path.isAbsolute(each));
  const command = directories.map((each) => path.join(each, "tsx")).find((each) => fs.existsSync(each));
  return command && path.join(path.dirname(fs.realpathSync(command)), "esm", "api", "index.mjs");
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
  const text = lines.filter((line) => !line.includes(__filename)).join("\n");
  return error instanceof SyntaxError && !text.includes(tool) ? `${tool}\n${text}` : text;
}

const [tool, projectPath = ""] = process.argv.slice(2);
run(tool, projectPath).catch((error) => fail(shown(error, tool)));
