"""Sentences are found in benchmark files of every form that people have."""

import json
import unicodedata

import pytest

from benchmarks.tasks.file_texts import file_texts
from pipeline.decontaminate.index import read_letters

SENTENCES = [
    "화가가 시장 골목에서 슬픈 노래를 불렀다",
    "The old lighthouse at the harbour blinks three times",
    "농부가 강가에서 커다란 그림을 그렸다",
]
WORDS = [sentence.split() for sentence in SENTENCES]


def _columns(row, separator="\t", end="\n", **options):
    """A word a line with what `row` puts beside it, and a blank line behind each sentence."""
    blocks = [
        end.join(separator.join(row(n, word)) for n, word in enumerate(words, start=1))
        for words in WORDS
    ]
    before = options.get("before", "")
    return end.join(f"{before}{block}{end}" for block in blocks)


def _tags(number, word):
    return (word, "B-PER" if number == 2 else "O")


def _conllu(number, word):
    return (str(number), word, word, "NOUN", "NN", "_", "0", "nsubj", "_", "_")


SQUAD = {
    "version": "1.0",
    "data": [{"title": "항구", "paragraphs": [{"context": text, "qas": []} for text in SENTENCES]}],
}
FORMS = {
    "tokens.jsonl": "\n".join(json.dumps({"tokens": w, "ner_tags": ["O"] * len(w)}) for w in WORDS),
    "tokens.json": json.dumps([{"words": [{"form": x, "tag": "NNP"} for x in w]} for w in WORDS]),
    "list-a-line.jsonl": "[\n" + ",\n".join(json.dumps({"s": s}) for s in SENTENCES) + "\n]",
    "pretty.json": json.dumps(SQUAD, indent=4, ensure_ascii=False),
    "entities.jsonl": "\n".join(json.dumps({"s": s.replace(" ", "&nbsp;")}) for s in SENTENCES),
    "tags.txt": _columns(_tags),
    "spaces.conll": "-DOCSTART- O\n\n" + _columns(_tags, " "),
    "windows.bio": _columns(_tags, end="\r\n"),
    "universal.conllu": _columns(_conllu, before="# sent_id = 1\n"),
    "letters.tsv": "\n\n".join(
        "\n".join(f"{letter}\tO" for letter in sentence) for sentence in SENTENCES
    ),
    "comments.txt": "\n\n".join(f"## id-1\t{s}\n1\t{s.split()[0]}\tNNG\t0\tVP" for s in SENTENCES),
    "ids.tsv": "id\ttext\tlabel\n" + "".join(f"{i}\t{s}\t1\n" for i, s in enumerate(SENTENCES)),
    "quoted.tsv": "text\tn\n" + "".join(f'"{s.replace(" ", chr(10))}"\t1\n' for s in SENTENCES),
    "quoted.csv": "id,text\n"
    + "".join(f'1,"{s}, 정말"\n' for s in SENTENCES).replace(", 정말", ""),
    "semicolons.CSV": "id;text\n" + "".join(f"{i};{s}\n" for i, s in enumerate(SENTENCES)),
    "ratings.txt": "id\tdocument\tlabel\n1\t재밌다\t1\n"
    + "".join(f"{i}\t{s}\t0\n" for i, s in enumerate(SENTENCES)),
    "lines.txt": "\n".join(SENTENCES),
}


def _letters(texts):
    return {read_letters(text)[0].tobytes() for text in texts}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "NFD"])
def test_every_sentence_of_a_file_is_found(tmp_path, name, encoding):
    text = FORMS[name]
    if encoding == "NFD":
        text, encoding = unicodedata.normalize("NFD", text), "utf-8-sig"
    (tmp_path / name).write_bytes(text.encode(encoding))
    assert _letters(SENTENCES) <= _letters(file_texts(tmp_path / name))


@pytest.mark.parametrize("name", ["tags.txt", "tokens.jsonl", "tokens.json"])
def test_words_and_tags_alone_are_no_texts(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name], encoding="utf-8")
    texts = [text for text in file_texts(tmp_path / name) if text.strip()]
    assert _letters(texts) == _letters(SENTENCES)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "a.json"
    for data in (b'{"text": "a', b'{"a": 1}\n{"b": \n'):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.json"):
            list(file_texts(path))
    path = tmp_path / "a.txt"
    path.write_bytes(SENTENCES[0].encode() * 50 + b"\n" + SENTENCES[0].encode()[:-1])
    with pytest.raises(ValueError, match=r"a\.txt: line 2 is not text in utf-8"):
        list(file_texts(path))
