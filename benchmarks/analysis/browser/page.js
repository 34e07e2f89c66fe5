// The page: what is typed goes to the detector, what it says to the reader.
"use strict";

const settings = electrify.settings;
const $ = (id) => document.getElementById(id);
const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

let say = WORDS[navigator.language.startsWith("ko") ? "ko" : "en"];
let detector = null; // until the network is there
let verdict = null;
let chosen = null; // a word of the verdict
let isReading = false;

async function start() {
  $("text").addEventListener("input", read);
  $("close").addEventListener("click", close);
  $("language").addEventListener("click", () => {
    say = say === WORDS.ko ? WORDS.en : WORDS.ko;
    translate();
  });
  $("detail").addEventListener("keydown", (event) => event.key === "Escape" && close());
  $("text").value ||= settings.examples[0].text; // so that the page opens with a marked word
  $("model").textContent = settings.model;
  translate();
  detector = await load();
  await read();
}

// Reads until the verdict is that of the text in the field.
async function read() {
  if (!detector || isReading) return;
  isReading = true;
  let text;
  do {
    text = $("text").value;
    verdict = await detector.read(text);
  } while (text !== $("text").value);
  isReading = false;
  close();
  show();
}

function threshold() {
  return settings.thresholds[scriptOf($("text").value)] ?? null;
}

function limit() {
  return threshold()?.probability ?? 0.5;
}

function isMarked(word) {
  return word.probability > limit();
}

// A screen reader hears it when the typing pauses.
let announcement = 0;
function announce(text) {
  clearTimeout(announcement);
  announcement = setTimeout(() => ($("status").textContent = text), 400);
}

function show() {
  const about = say.aboutText(settings, threshold()).map((text) => element("p", text));
  $("about").replaceChildren(...about);
  if (!verdict) return;
  const { words } = verdict;
  const marked = words.filter(isMarked).length;
  announce(words.length ? say.status(marked, words.length) : say.empty);
  const lang = scriptOf($("text").value) === "Hangul" ? "ko" : "en";
  $("text").lang = $("result").lang = $("all").tBodies[0].lang = $("effects").tBodies[0].lang = lang;
  $("result").replaceChildren(
    ...words.flatMap((word) => [word.gap, isMarked(word) ? button(word, "marked") : word.text]),
  );
  $("all").tBodies[0].replaceChildren(
    ...words.map((word) => {
      const row = element("tr", "", isMarked(word) ? { class: "marked" } : {});
      const cell = element("th", "", { scope: "row" });
      cell.append(button(word, "word"));
      row.append(cell, element("td", percent(word.probability)), element("td", pieces(word)));
      return row;
    }),
  );
}

function button(word, kind) {
  const made = element("button", word.text, { type: "button", class: kind, "aria-controls": "detail" });
  if (kind === "marked") {
    made.append(element("span", ` (${say.marked}, ${percent(word.probability)})`, { class: "hidden" }));
  }
  made.addEventListener("click", () => explain(word, made));
  return made;
}

function pieces(word) {
  return word.pieces.map(({ token, logit }) => `${token} ${percent(sigmoid(logit))}`).join(", ");
}

// Shows what is known of a word; the focus goes there, and back to the word when it is closed.
async function explain(word, from) {
  chosen = { word, from };
  const asked = chosen;
  const effects = await detector.effects(verdict, word);
  const proposals = detector.generator && (await detector.propose(verdict, word));
  if (chosen !== asked) return; // something else was chosen or typed meanwhile
  Object.assign(chosen, { effects, proposals });
  describe();
  $("detail").hidden = false;
  $("detail-title").focus();
}

function describe() {
  const { word, effects, proposals } = chosen;
  $("detail-title").textContent = say.chosen(word.text, word.probability);
  $("pieces").textContent = `${say.limit(limit())} ${say.pieces(pieces(word))}`;
  $("proposals-note").textContent = proposals
    ? say.proposalsNote(word.worst.token, proposals.own)
    : say.noGenerator;
  $("proposals").replaceChildren(
    ...(proposals?.others ?? []).map(({ word: other, probability }) => {
      const item = element("li", "");
      const choice = element("button", other, { type: "button", lang: $("result").lang });
      choice.addEventListener("click", () => replace(word, other));
      item.append(choice, ` ${percent(probability)}`);
      return item;
    }),
  );
  const largest = effects.slice(0, 5);
  const widest = Math.max(...largest.map(([, effect]) => Math.abs(effect)), 0.01);
  $("effects").tBodies[0].replaceChildren(
    ...largest.map(([number, effect]) => {
      const row = element("tr", "");
      const sign = effect < 0 ? "−" : "+";
      const bar = element("td", `${sign}${Math.abs(effect).toFixed(2)}`, {
        class: effect < 0 ? "less" : "more",
      });
      bar.style.setProperty("--share", Math.abs(effect) / widest);
      row.append(element("th", verdict.words[number].text, { scope: "row" }), bar);
      return row;
    }),
  );
}

function replace(word, other) {
  const { words } = verdict;
  $("text").value = words.map((each) => each.gap + (each === word ? other : each.text)).join("");
  $("text").focus();
  read();
}

function close() {
  const { from } = chosen ?? {};
  const hadFocus = $("detail").contains(document.activeElement);
  chosen = null;
  $("detail").hidden = true;
  if (hadFocus && from?.isConnected) from.focus();
}

function translate() {
  const language = say === WORDS.ko ? "ko" : "en";
  document.documentElement.lang = language;
  for (const part of document.querySelectorAll("[data-say]")) part.textContent = say[part.dataset.say];
  document.title = `${say.title}: ${settings.model}`;
  $("language").textContent = say.other;
  $("language").lang = language === "ko" ? "en" : "ko";
  $("examples").replaceChildren(
    ...settings.examples.map(({ text, lang }) => {
      const made = element("button", text, { type: "button", lang });
      made.addEventListener("click", () => {
        $("text").value = text;
        read();
      });
      return made;
    }),
  );
  if (!detector) announce(say.loading);
  show();
  if (chosen?.effects) describe();
}

// The files of data/ are scripts, because a page that was opened by a double click may fetch none.
async function load() {
  const [wasm, glue] = await Promise.all([file("wasm"), file("glue")]);
  ort.env.wasm.numThreads = 1; // more need headers that a static host does not send
  ort.env.wasm.wasmBinary = wasm;
  ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(new Blob([glue], { type: "text/javascript" })) };
  const json = JSON.parse(new TextDecoder().decode(await file("tokenizer")));
  const tokenizer = new tokenizers.Tokenizer(json, {});
  const network = async (name) => ort.InferenceSession.create(new Uint8Array(await file(name)));
  const discriminator = await network("discriminator");
  const generator = settings.files.includes("generator") ? await network("generator") : null;
  return new Detector(settings, tokenizer, discriminator, generator);
}

// The bytes of a file: its script puts them into `electrify`, packed by gzip and base64.
async function file(name) {
  await new Promise((resolve, reject) => {
    const script = element("script", "", { src: `data/${name}.js` });
    script.onload = resolve;
    script.onerror = () => reject(new Error(`data/${name}.js`));
    document.head.append(script);
  });
  const { body } = await fetch(`data:;base64,${electrify[name]}`);
  delete electrify[name];
  return new Response(body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

start().catch((error) => {
  announce(say.failed(error.message));
  throw error;
});
