#!/usr/bin/env node
'use strict';
// Turn titles into slugs that are fit for URLs.

const args = process.argv.slice(2);
let separator = '-';
let max = Infinity;
let keepCase = false;
const titles = [];

for (let i = 0; i < args.length; i++) {
  const arg = args[i];
  if (arg === '--separator' || arg === '-s') {
    separator = args[++i];
  } else if (arg === '--max') {
    max = Number(args[++i]);
  } else if (arg === '--keep-case') {
    keepCase = true;
  } else if (arg === '--help') {
    console.log('usage: slugify [--separator S] [--max N] [--keep-case] TITLE...');
    process.exit(0);
  } else {
    titles.push(arg);
  }
}

if (require.main === module) {
  if (titles.length === 0) {
    console.error('no title');
    process.exit(64);
  }
  for (const title of titles) {
    const slug = title.normalize('NFKD').replace(/[^\w\s-]/g, '').trim().replace(/[\s_-]+/g, separator).slice(0, max);
    console.log(keepCase ? slug : slug.toLowerCase());
  }
}
