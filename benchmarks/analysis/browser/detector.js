// The discriminator's verdict on a text, as benchmarks/analysis/inspect.py has it. It knows no document.
"use strict";

const GAPS = /[^\t\n\r\p{Z}]+/gu; // what stands between them is a chunk
const NUM_PROPOSALS = 5;
const MAX_LEFT_OUT = 40; // words nearest to the marked one

class Detector {
  // sessions are of onnxruntime; the generator may be null
  constructor(settings, tokenizer, discriminator, generator) {
    Object.assign(this, { settings, tokenizer, discriminator, generator });
    this.added = [...tokenizer.get_added_tokens_decoder().values()].map((token) => token.content);
  }

  // Words of a text: {text, gap: what stands before it, ids, tokens}. The gaps and texts join to
  // the text, but for characters that the normaliser changes and a gap at the end.
  words(text) {
    const words = [];
    let end = 0;
    for (const { 0: chunk, index } of text.matchAll(GAPS)) {
      let gap = text.slice(end, index);
      for (const word of this.#parts(chunk)) {
        words.push({ ...word, gap });
        gap = "";
      }
      end = index + chunk.length;
    }
    return words;
  }

  #parts(chunk) {
    const { normalizer, pre_tokenizer, model } = this.tokenizer;
    if (this.added.some((token) => chunk.includes(token))) {
      return joined(this.tokenizer.encode(chunk, { add_special_tokens: false }));
    }
    const parts = pre_tokenizer(normalizer ? normalizer(chunk) : chunk);
    const raw = pre_tokenizer(chunk.normalize("NFC")); // without lower case, for the reader
    return parts.map((part, i) => {
      const tokens = model([part]); // a part by itself might be normalised otherwise
      const ids = tokens.map((token) => this.tokenizer.token_to_id(token));
      return { text: raw.length === parts.length ? raw[i] : part, ids, tokens };
    });
  }

  // The words with the logit and the place of each piece, and the windows of ids they were read in.
  async read(text) {
    const words = this.words(text);
    const pieces = words.flatMap((word, number) => word.ids.map((id) => ({ id, word: number })));
    const windows = windowsOf(pieces.length, this.settings.maxPieces);
    const { before, after } = this.settings;
    const rows = windows.starts.map((start) => {
      const shown = pieces.slice(start, start + windows.size);
      return {
        ids: [...before, ...shown.map((piece) => piece.id), ...after],
        words: [...before.map(() => -1), ...shown.map((piece) => piece.word), ...after.map(() => -1)],
      };
    });
    const logits = [];
    for (const row of rows) logits.push(await this.#logits(row.ids));
    for (const word of words) word.pieces = [];
    pieces.forEach((piece, index) => {
      const window = windowOf(index, windows);
      const position = before.length + index - windows.starts[window];
      const word = words[piece.word];
      const token = word.tokens[word.pieces.length];
      word.pieces.push({ token, window, position, logit: logits[window][position] });
    });
    for (const word of words) {
      word.worst = word.pieces.reduce((a, b) => (b.logit > a.logit ? b : a), { logit: -Infinity });
      word.probability = sigmoid(word.worst.logit);
    }
    return { words, rows };
  }

  // What the generator would write for the worst piece of a word, that piece alone hidden: the
  // probability of the piece itself, and the likeliest others with the word that each makes.
  async propose({ rows }, word) {
    const { window, position } = word.worst;
    const ids = rows[window].ids.with(position, this.settings.mask);
    const { logits: found } = await this.generator.run(this.#feeds(ids));
    const size = found.dims[2];
    const logits = found.data.subarray(position * size, (position + 1) * size);
    const top = logits.reduce((a, b) => Math.max(a, b));
    const sum = logits.reduce((total, logit) => total + Math.exp(logit - top), 0);
    const own = rows[window].ids[position];
    const excluded = new Set([own, ...this.settings.special]);
    const probability = (id) => Math.exp(logits[id] - top) / sum;
    const others = [...logits.keys()]
      .filter((id) => !excluded.has(id))
      .sort((a, b) => logits[b] - logits[a])
      .slice(0, NUM_PROPOSALS)
      .map((id) => {
        const at = word.pieces.indexOf(word.worst);
        const tokens = word.tokens.with(at, this.tokenizer.id_to_token(id));
        return { word: spelled(tokens), probability: probability(id) };
      });
    return { own: probability(own), others };
  }

  // By how much each other word raises the logit of a word's worst piece: the logit of the text less
  // that of the text without the other word. Pairs of a word's number and a logit, the largest first.
  async effects({ words, rows }, word) {
    const { window, position, logit } = word.worst;
    const { ids, words: numbers } = rows[window];
    const own = words.indexOf(word);
    const near = [...new Set(numbers)]
      .filter((number) => number >= 0 && number !== own)
      .sort((a, b) => Math.abs(a - own) - Math.abs(b - own))
      .slice(0, MAX_LEFT_OUT);
    const effects = [];
    for (const number of near) {
      const kept = ids.filter((_, i) => numbers[i] !== number);
      const place = position - numbers.slice(0, position).filter((n) => n === number).length;
      effects.push([number, logit - (await this.#logits(kept))[place]]);
    }
    return effects.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  }

  // One row at a time: int8 scales what stands in a batch together, so rows would change each other.
  async #logits(ids) {
    const { logits } = await this.discriminator.run(this.#feeds(ids), ["logits"]);
    return ids.map((_, i) => logits.data[2 * i + 1] - logits.data[2 * i]); // of replaced and of original
  }

  #feeds(ids) {
    const filled = (value) => new BigInt64Array(ids.length).fill(value);
    const all = {
      input_ids: BigInt64Array.from(ids, BigInt),
      attention_mask: filled(1n),
      token_type_ids: filled(0n),
    };
    const tensor = (name) => new ort.Tensor("int64", all[name], [1, ids.length]);
    return Object.fromEntries(this.settings.inputs.map((name) => [name, tensor(name)]));
  }
}

// Where windows of `size` pieces begin that overlap by half.
function windowsOf(numPieces, size) {
  const overlap = Math.floor(size / 2);
  const step = size - overlap;
  const starts = [0];
  while (starts.at(-1) + size < numPieces) starts.push(starts.at(-1) + step);
  return { starts, size, step, overlap };
}

// The window of a piece: the first half of an overlap belongs to the earlier one.
function windowOf(index, { starts, step, overlap }) {
  const number = Math.floor(Math.max(index - Math.floor(overlap / 2), 0) / step);
  return Math.min(number, starts.length - 1);
}

// Tokens joined to words where one continues the other.
function joined({ ids, tokens }) {
  const words = [];
  tokens.forEach((token, i) => {
    if (!token.startsWith("##") || !words.length) words.push({ ids: [], tokens: [] });
    words.at(-1).ids.push(ids[i]);
    words.at(-1).tokens.push(token);
  });
  return words.map((word) => ({ ...word, text: spelled(word.tokens) }));
}

function spelled(tokens) {
  return tokens.map((token) => token.replace(/^##/, "")).join("");
}

function sigmoid(logit) {
  return 1 / (1 + Math.exp(-logit));
}

// Hangul where the text has a letter of it, else Latin where it has one without accents.
function scriptOf(text) {
  if (/[가-힣ㄱ-ㆎ\u1100-\u11ff\uffa1-\uffdc]/.test(text)) return "Hangul";
  return /[A-Za-zＡ-Ｚａ-ｚ]/.test(text) ? "Latin" : "";
}
