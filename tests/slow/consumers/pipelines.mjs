// transformers.js on local folders: node pipelines.mjs MODULES ROOT TASK FOLDER DTYPE, texts on stdin, an answer a line.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, root, task, folder, dtype] = process.argv.slice(2);
const path = createRequire(`${modules}/`).resolve("@huggingface/transformers");
const { pipeline, env } = await import(pathToFileURL(path));
env.allowRemoteModels = false;
env.localModelPath = root;
const run = await pipeline(task, folder, { dtype });
const options = {
  "token-classification": { ignore_labels: [] },
  "feature-extraction": { pooling: "mean" },
  "text-classification": { top_k: null },
}[task];
for (const line of readFileSync(0, "utf-8").split("\n").filter(Boolean)) {
  const answer = await run(JSON.parse(line), options);
  console.log(JSON.stringify(task === "feature-extraction" ? answer.tolist()[0] : answer));
}
