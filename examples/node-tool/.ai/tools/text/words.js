// Words of a language, as people see them.
export function wordsOf(text, language) {
  const segments = new Intl.Segmenter(language, { granularity: "word" }).segment(text);
  return [...segments].filter((each) => each.isWordLike).map((each) => each.segment);
}
