// /// rye
// version: 1.0.0
// description: Estimate how long it takes to read a text, in any language, also one without blanks between words.
// executor_id: rye/core/runtimes/node_runtime
// tags: [text, reading, words]
// annotations: {title: Reading time, readOnlyHint: true, openWorldHint: false}
// config_schema:
//   type: object
//   properties:
//     text: {type: string, description: The text itself.}
//     language: {type: string, default: en, description: "Such as en, de or ja."}
//     words_a_minute: {type: integer, minimum: 1, default: 230}
//   required: [text]
//   additionalProperties: false
// examples:
//   - parameters: {text: "To be, or not to be", words_a_minute: 6}
//     expect: {data: {words: 6, seconds: 60}}
//   - description: Japanese has no blanks.
//     parameters: {text: 吾輩は猫である, language: ja}
//     expect: {contains: {seconds: 1}}
// ///
import { wordsOf } from "./words.js";

export function execute({ text, language, words_a_minute }) {
  const words = wordsOf(text, language).length;
  return { words, seconds: Math.round((words / words_a_minute) * 60) };
}
