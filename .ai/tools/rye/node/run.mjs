// /// rye
// version: 1.0.0
// name: run
// description: Run JavaScript code with Node.js in a fresh process and return its output, exit code and whether it succeeded.
// category: rye/node
// tags: [node, javascript, code, script, snippet]
// executor_id: rye/core/runtimes/node_runtime
// permissions: {project: write, net: any, uses: [git, cache, terminal]}
// runs_given_code: true
// config_schema:
//   type: object
//   properties:
//     code:
//       type: string
//       minLength: 1
//       maxLength: 1048576
//       description: JavaScript code. What it prints is what comes back.
//     module:
//       type: boolean
//       default: false
//       description: The code is an ES module, with import and top-level await; else it is CommonJS, with require.
//     arguments:
//       type: array
//       items: {type: string, maxLength: 65536, pattern: "^[^\\u0000]*$"}
//       maxItems: 100
//       default: []
//       description: What process.argv holds behind its first two elements.
//     timeout:
//       type: number
//       exclusiveMinimum: 0
//       maximum: 3600
//       default: 120
//       description: Seconds until the code is ended.
//   required: [code]
//   additionalProperties: false
// output_schema:
//   type: object
//   properties:
//     stdout: {type: string}
//     stderr: {type: string}
//     exit_code: {type: integer}
//     success: {type: boolean}
//     truncated: {const: true, description: There only when output was left out.}
//   required: [stdout, stderr, exit_code, success]
// config: {timeout: 3630, max_output: 4194304}
// annotations:
//   title: Run JavaScript code
//   readOnlyHint: false
//   destructiveHint: true
//   idempotentHint: false
//   openWorldHint: true
// examples:
//   - description: >-
//       Calculate something with JavaScript. Run a snippet with Node. Try out an npm package. Evaluate an
//       expression in JavaScript.
//     parameters: {code: console.log(6 * 7)}
//     expect: {data: {stdout: "42\n", stderr: "", exit_code: 0, success: true}}
//   - description: Read a file of the project from an ES module.
//     parameters: {code: "import { readFileSync } from 'node:fs'; console.log(await readFileSync('a.txt', 'utf8'))", module: true}
//     files: {a.txt: hello}
//     expect: {contains: {stdout: "hello\n"}}
//   - description: Throw an exception in JavaScript, and see the failure.
//     parameters: {code: throw new Error('no')}
//     expect: {code: tool_failed}
// ///

// The code comes to a new process on its standard input, which is at its end then. The working directory is the
// project, whose packages can be imported once a person has approved it. Until then the code stands in a file of the
// private copy, where nothing else is found. It is over when that process is, whoever still holds its output open.
// Output that is too long loses its middle. What ran out of time, or was ended by a signal, has a negative exit
// code: -1, or minus the signal.

import { spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const KEPT_BYTES = 256 * 1024; // of each stream, half of it from the beginning and half from the end
const LATE_MS = 50; // how long what was written before the end may take to arrive
const NO_EXIT_CODE = -1;

/** The beginning and the end of what comes through one pipe. */
class Output {
  #head = [];
  #tail = [];
  #headBytes = 0;
  #tailBytes = 0;
  omitted = 0;

  take(chunk) {
    const room = KEPT_BYTES / 2 - this.#headBytes;
    const first = chunk.subarray(0, room);
    if (first.length > 0) {
      this.#head.push(first);
      this.#headBytes += first.length;
    }
    const rest = chunk.subarray(first.length);
    if (rest.length > 0) {
      this.#tail.push(rest);
      this.#tailBytes += rest.length;
      this.#dropSurplus();
    }
  }

  #dropSurplus() {
    let surplus = this.#tailBytes - KEPT_BYTES / 2;
    while (surplus > 0) {
      const dropped = Math.min(surplus, this.#tail[0].length);
      this.#tail[0] = this.#tail[0].subarray(dropped);
      if (this.#tail[0].length === 0) this.#tail.shift();
      this.#tailBytes -= dropped;
      this.omitted += dropped;
      surplus -= dropped;
    }
  }

  get text() {
    if (this.omitted === 0) return Buffer.concat([...this.#head, ...this.#tail]).toString("utf8");
    const [head, tail] = [this.#head, this.#tail].map((kept) => Buffer.concat(kept).toString("utf8"));
    return `${head}\n[… ${this.omitted} bytes omitted …]\n${tail}`;
  }
}

/** How a process ended, as a shell counts; what is left in its pipes has arrived. */
function ending(process) {
  return new Promise((resolve, reject) => {
    process.once("error", reject);
    process.once("exit", (code, signal) => {
      const exitCode = signal === null ? code : -constants.signals[signal];
      // Behind the next look at the pipes: a process that was held up meanwhile has not read them yet.
      const late = setTimeout(() => setImmediate(() => resolve(exitCode)), LATE_MS);
      process.once("close", () => {
        clearTimeout(late);
        resolve(exitCode);
      });
    });
  });
}

function endGroup(pid) {
  if (pid === undefined) return; // it could not be started
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

export async function execute({ code, module = false, arguments: given = [], timeout = 120 }) {
  const { RYE_RESULT_FD, ...env } = process.env;
  const file = env.RYE_WORKING_DIRECTORY && fileURLToPath(new URL(module ? "code.mjs" : "code.cjs", import.meta.url));
  if (file) writeFileSync(file, code, { flag: "wx" });
  const start = file ? [file] : [`--input-type=${module ? "module" : "commonjs"}`, "-"];
  const child = spawn(process.execPath, [...start, ...given], { env, detached: true, stdio: "pipe" });
  const stdout = new Output();
  const stderr = new Output();
  child.stdout.on("data", (chunk) => stdout.take(chunk));
  child.stderr.on("data", (chunk) => stderr.take(chunk));
  child.stdin.on("error", () => {}); // it may end before it has read all of its code
  child.stdin.end(file ? "" : code);
  let timedOut = false;
  const clock = setTimeout(() => {
    timedOut = true;
    endGroup(child.pid);
  }, timeout * 1000);
  // Who gives the call up expects no result any more: it gets what the code had said by now, as it is.
  let givenUp = false;
  const giveUp = () => {
    givenUp = true;
    endGroup(child.pid);
  };
  process.once("SIGTERM", giveUp);
  let exitCode;
  try {
    exitCode = await ending(child);
  } finally {
    clearTimeout(clock);
    process.off("SIGTERM", giveUp);
  }
  if (givenUp) {
    await new Promise((written) => process.stdout.write(stdout.text, written));
    await new Promise((written) => process.stderr.write(stderr.text, written));
    process.exit(128 + constants.signals.SIGTERM);
  }
  child.stdout.destroy();
  child.stderr.destroy();
  let words = stderr.text;
  if (timedOut) {
    const between = words === "" || words.endsWith("\n") ? "" : "\n";
    words += `${between}Code timed out after ${timeout} seconds`;
    exitCode = NO_EXIT_CODE;
  }
  const result = { stdout: stdout.text, stderr: words, exit_code: exitCode, success: exitCode === 0 };
  return stdout.omitted || stderr.omitted ? { ...result, truncated: true } : result;
}
