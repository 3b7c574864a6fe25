// Reads schemas with Ajv in strict mode, which refuses every keyword that it does not know, and prints what it refused.
//
// node strict_schemas.mjs PACKAGES FILE
//   PACKAGES  a directory with node_modules
//   FILE      {"name": schema, …} as JSON

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, file] = process.argv.slice(2);
const load = createRequire(join(packages, "package.json"));
const drafts = { "http://json-schema.org/draft-07/schema#": load("ajv").default };
const newest = load("ajv/dist/2020").default;

const refused = {};
for (const [name, schema] of Object.entries(JSON.parse(readFileSync(file, "utf8")))) {
  const Ajv = drafts[schema.$schema] ?? newest;
  try {
    new Ajv({ strictSchema: true, strictTypes: false, strictTuples: false }).compile(schema);
  } catch (error) {
    refused[name] = error.message;
  }
}
console.log(JSON.stringify(refused));
