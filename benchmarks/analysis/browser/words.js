// What the page says, in each language of its interface.
"use strict";

function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1\u00a0%";
  return `${Number((100 * share).toPrecision(2))}\u00a0%`;
}

const WORDS = {
  en: {
    other: "한국어",
    title: "Replaced words",
    intro:
      "An ELECTRA discriminator reads what you type and marks the words that it takes for replaced. It runs in this page. What you type stays on this computer.",
    label: "Your text",
    examples: "Examples:",
    loading: "The network is being loaded …",
    failed: (reason) => `The network could not be loaded: ${reason}`,
    empty: "Type a sentence.",
    status: (marked, all) =>
      `${marked} of ${all} ${all === 1 ? "word" : "words"} ${marked === 1 ? "looks" : "look"} replaced.`,
    result: "Result",
    marked: "marked",
    chosen: (word, probability) => `“${word}”: ${percent(probability)} probability of being replaced`,
    pieces: (pieces) => `Its tokens: ${pieces}`,
    limit: (probability) => `Words are marked above ${percent(probability)}.`,
    proposals: "What the generator would write",
    proposalsNote: (token, own) =>
      `In place of the token ${token}, hidden from it; choose one to put it in. It gives ${token} itself ${percent(own)}.`,
    noGenerator: "This page has no generator.",
    effects: "What the verdict rests on",
    effectsNote:
      "Leave-one-out: each other word, at most the 40 nearest, is left out in turn. A positive number: with this word in the text the token looks more replaced (difference of the logit). Words that matter only together are not seen this way.",
    word: "Word",
    effect: "Effect on the logit",
    probability: "Probability",
    tokens: "Tokens",
    close: "Close",
    all: "All words and their probabilities",
    allNote: "A word is as suspicious as its worst token.",
    about: "What the numbers mean",
    aboutText: (s, threshold) => [
      `The network is ${s.model}, in int8. It gives each token the probability that a generator replaced it. It was trained for that and for nothing else: a marked word need not be wrong, and a wrong word need not be marked. Rare words are suspicious wherever they stand.`,
      threshold
        ? `A word is marked above ${percent(threshold.probability)}. Of the words of ${threshold.num_sentences} plain sentences, ${percent(threshold.false_alarms)} are above it though nothing was replaced in them` +
          (threshold.found_fraction === null
            ? "."
            : `, and of the words that the generator replaced in them, ${percent(threshold.found_fraction)}. On text of another kind both are different.`)
        : "A word is marked above 50 %: the page has no plain sentences in this script to set a threshold on.",
    ],
  },
  ko: {
    other: "English",
    title: "바뀐 단어 찾기",
    intro:
      "ELECTRA 판별자가 입력한 글을 읽고, 다른 말로 바뀐 것 같은 단어를 표시합니다. 판별자는 이 페이지 안에서 돌아갑니다. 입력한 글은 이 컴퓨터를 떠나지 않습니다.",
    label: "글 입력",
    examples: "예문:",
    loading: "신경망을 불러오는 중입니다 …",
    failed: (reason) => `신경망을 불러오지 못했습니다: ${reason}`,
    empty: "문장을 입력하세요.",
    status: (marked, all) =>
      marked
        ? `단어 ${all}개 가운데 ${marked}개가 바뀐 것 같습니다.`
        : `단어 ${all}개 가운데 바뀐 것 같은 단어가 없습니다.`,
    result: "결과",
    marked: "표시됨",
    chosen: (word, probability) => `‘${word}’: 바뀌었을 확률 ${percent(probability)}`,
    pieces: (pieces) => `토큰: ${pieces}`,
    limit: (probability) => `${percent(probability)}보다 큰 단어를 표시합니다.`,
    proposals: "생성기라면 이렇게 씁니다",
    proposalsNote: (token, own) =>
      `생성기에게 토큰 ‘${token}’만 가리고 물었습니다. 하나를 고르면 그 말로 바꿉니다. 생성기가 ‘${token}’에 준 확률은 ${percent(own)}입니다.`,
    noGenerator: "이 페이지에는 생성기가 없습니다.",
    effects: "판정의 근거가 된 단어",
    effectsNote:
      "하나씩 빼기(leave-one-out): 다른 단어를, 가까운 것부터 많아야 40개까지, 하나씩 빼 봅니다. 값이 양수이면 그 단어가 있을 때 이 토큰이 더 바뀐 것처럼 보입니다(로짓의 차이). 여럿이 함께라야 작용하는 단어는 이 방법으로 보이지 않습니다.",
    word: "단어",
    effect: "로짓에 미친 영향",
    probability: "바뀌었을 확률",
    tokens: "토큰",
    close: "닫기",
    all: "모든 단어와 확률",
    allNote: "단어의 확률은 가장 의심스러운 토큰의 확률입니다.",
    about: "숫자의 뜻",
    aboutText: (s, threshold) => [
      `신경망은 int8로 줄인 ${s.model}입니다. 토큰마다 생성기가 바꾸어 놓았을 확률을 줍니다. 오직 그 일만 배웠습니다. 표시된 단어가 틀린 말이라는 뜻은 아니며, 틀린 말이 표시되지 않을 수도 있습니다. 드문 단어는 어디에 있든 의심을 받습니다.`,
      threshold
        ? `확률이 ${percent(threshold.probability)}보다 큰 단어를 표시합니다. 아무것도 바꾸지 않은 평범한 문장 ${threshold.num_sentences}개에서는 단어의 ${percent(threshold.false_alarms)}가 이보다 큽니다.` +
          (threshold.found_fraction === null
            ? ""
            : ` 그 문장에서 생성기가 바꾼 단어는 ${percent(threshold.found_fraction)}가 이보다 큽니다. 다른 종류의 글에서는 두 비율이 다릅니다.`)
        : "확률이 50 %보다 큰 단어를 표시합니다. 이 문자로 쓴 평범한 문장이 페이지에 없어서 기준을 따로 정하지 못했습니다.",
    ],
  },
};
