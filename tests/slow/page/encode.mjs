// node encode.mjs PAGE < LINES > IDS: lines of JSON strings to lines of JSON lists, cut by the very
// scripts of the page.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import vm from "node:vm";
import { gunzipSync } from "node:zlib";

const page = process.argv[2];
const scripts = ["vendor/tokenizers.js", "data/settings.js", "data/tokenizer.js", "detector.js"];
const code = scripts.map((name) => readFileSync(`${page}/${name}`, "utf8")).join("\n");
const { electrify, tokenizers, Detector } = vm.runInThisContext(
  `${code}\n({ electrify, tokenizers, Detector })`,
);
const tokenizer = new tokenizers.Tokenizer(
  JSON.parse(gunzipSync(Buffer.from(electrify.tokenizer, "base64"))),
  {},
);
const detector = new Detector(electrify.settings, tokenizer, null, null);
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  console.log(JSON.stringify(detector.words(JSON.parse(line)).flatMap((word) => word.ids)));
}
