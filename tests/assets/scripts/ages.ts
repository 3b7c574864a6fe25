// Say how long a number of milliseconds is.
import { parseArgs } from "node:util";
import ms from "ms";

enum Style {
  Short,
  Long,
}

interface Entry {
  given: string;
  shown: string;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    long: { type: "boolean", short: "l", default: false },
    unit: { type: "string", short: "u" }, // what stands behind it
  },
});

function entry(given: string, style: Style): Entry {
  const value: number = Number(given);
  if (Number.isNaN(value)) {
    throw new Error(`not a number: ${given}`);
  }
  return { given, shown: ms(value, { long: style === Style.Long }) };
}

const style = values.long ? Style.Long : Style.Short;
for (const each of positionals.map((given: string) => entry(given, style))) {
  console.log(`${each.given}${values.unit ?? ""} is ${each.shown}`);
}
