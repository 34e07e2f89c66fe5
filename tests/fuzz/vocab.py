"""WordPiece training and encoding, tokenizer files, token shards."""

import json
import random
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Make, Reader, of_file
from tests.vocab.shard_files import write_shards

_TEXTS = (
    "학교에서 학생들이 3명의 선생님을 만났다. 학교는 크다.\nHello, world! hello\tworlds\n".encode(),
    "[MASK] [SEP] [UNK] ##ing ingㅋㅋㅋ e\u0301 \u1112\u119e\u11ab ｆｕｌｌ　ｗｉｄｔｈ 漢字"
    " \u318d ﾊﾝｸﾞﾙ".encode(),
    ("a" * 300 + " " + "가" * 120 + " \u200b\ufeff\u2028 \U0001f469\u200d\U0001f4bb").encode(),
)
_VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] 학 교 ##교 에 ##에 ##서 a ##a b ##b ab ##ab 1 ##1 . , [ ] ! "
    "h ##e ##l ##o"
)
_PIECES = _VOCABULARY.split()
_WORDS = tuple(word.encode() for word in (" ", "\n", "\u3000", "\u00a0", "##", "[MASK]", "\u119e"))


def _text(data: bytes) -> str:
    """As a document holds it: UTF-8, and NUL is removed by the corpus stage."""
    return data.decode("utf-8", "replace")


def _encoding(folder: Path) -> Reader:
    """Texts to ids by way of distinct words are those of the tokenizer itself."""
    import numpy as np

    from vocab.shards.word_encoder import WordEncoder
    from vocab.tokenizer import build_tokenizer

    direct = build_tokenizer(_PIECES, lowercase=False)
    direct.encode_special_tokens = True
    encoder = WordEncoder(build_tokenizer(_PIECES, lowercase=False))

    def read(data: bytes) -> object:
        text = _text(data)[:2000]
        ids = np.frombuffer(encoder.encode([text])[0], encoder.dtype).tolist()
        assert ids == direct.encode(text, add_special_tokens=False).ids, (text, ids)
        return min(8, len(ids))

    return Reader(_TEXTS, read, _WORDS, errors=())


def _training(folder: Path) -> Reader:
    """Text to counts to pieces; every word of covered characters can be written with them."""
    import pyarrow as pa

    from vocab.counts.counter import WordCounter
    from vocab.counts.words import WordBatch
    from vocab.tokenizer import build_tokenizer
    from vocab.wordpiece.learn import SPECIAL_TOKENS, Training, train_wordpiece

    def read(data: bytes) -> object:
        counter = WordCounter(lowercase=False, split_digits=False)
        counter.add(pa.array([_text(data)[:1500]]))
        table = counter.words()
        words, counts = table["word"].to_pylist(), table["count"].to_numpy()
        if not words or len("".join(words)) < 40:  # too short to learn from
            return "short"
        batch = WordBatch(words, counts, [""] * len(words))
        training = Training(24, 1, 8, max_words=1000)
        vocabulary = train_wordpiece(lambda: iter([batch]), training)
        assert len(vocabulary.pieces) == training.size == len(set(vocabulary.pieces))
        assert tuple(vocabulary.pieces[:5]) == SPECIAL_TOKENS
        build_tokenizer(vocabulary.pieces, lowercase=False).encode(_text(data)[:200])
        return vocabulary.num_pruned > 0, min(8, vocabulary.num_characters // 5)

    return Reader(_TEXTS, read, _WORDS)


def _tokenizer_folder(folder: Path) -> Any:
    from vocab.tokenizer import build_tokenizer, save_tokenizer

    folder.mkdir(exist_ok=True)
    tokenizer = build_tokenizer(_PIECES, lowercase=False)
    save_tokenizer(tokenizer, folder, lowercase=False)
    return tokenizer


def _tokenizer_file(folder: Path) -> Reader:
    from vocab.tokenizer import load_tokenizer

    _tokenizer_folder(folder)
    path = folder / "tokenizer.json"

    def load(path: Path) -> object:
        return load_tokenizer(path.parent).get_vocab_size()

    words = (b'"type":"WordPiece"', b'"BPE"', b'"##"', b'"[UNK]"', b'"Sequence"', b"null")
    return of_file(path, load, (path.read_bytes(),), words=words, form="json")


def _vocab_file(folder: Path) -> Reader:
    from vocab.compare import check_extendable, load_reference

    def read(path: Path) -> object:
        load_reference(path)
        return len(check_extendable(path, False))

    text = "".join(f"{piece}\n" for piece in _PIECES).encode()
    return of_file(folder / "vocab.txt", read, (text, text.replace(b"\n", b"\r\n")))


def _reference(folder: Path) -> Reader:
    """A folder of somebody else's tokenizer, and the case that its config says."""
    from vocab.compare import check_extendable, load_reference

    _tokenizer_folder(folder)

    def read(path: Path) -> object:
        load_reference(path.parent)
        return len(check_extendable(path.parent, False))

    seeds = ((folder / "tokenizer.json").read_bytes(),)
    return of_file(folder / "tokenizer.json", read, seeds, form="json", named=folder.name)


def _tokenizer_config(folder: Path) -> Reader:
    from vocab.compare import is_lowercase

    _tokenizer_folder(folder)
    path = folder / "tokenizer_config.json"
    return of_file(path, lambda p: is_lowercase(p.parent), (path.read_bytes(),), form="json")


def _spans(folder: Path) -> Reader:
    from vocab.compare import read_spans, span_report

    tokenizer = _tokenizer_folder(folder / "tokenizer")
    answers = [{"text": "에서", "answer_start": 2}, {"text": "a", "answer_start": 99}]
    data = {"data": [{"paragraphs": [{"context": "학교에서 a", "qas": [{"answers": answers}]}]}]}

    def read(path: Path) -> object:
        return span_report(tokenizer, read_spans(path))["num_spans"]

    return of_file(folder / "dev-v1.json", read, (json.dumps(data).encode(),), form="json")


def _spans_ner(folder: Path) -> Reader:
    from vocab.compare import read_spans

    text = "## a-1\t<학교:LC>\n학\tB-LC\n교\tI-LC\n \tO\na\tO\n\n## a-2\n에\tB-OG\n".encode()
    return of_file(folder / "ner_dev.tsv", read_spans, (text,), words=(b"\tB-", b"\tI-", b"## "))


def shard_folder(folder: Path) -> Path:
    special = {piece: number for number, piece in enumerate(_PIECES[:5])}
    documents = [[[5, 6, 7], [8, 9, 10, 3]], [[5, 6, 7, 8, 3]]]
    write_shards(folder, {("train", "ko"): documents}, len(_PIECES), "0" * 64, special)
    return folder


def _open(folder: Path) -> object:
    from model.train.data import special_tokens
    from vocab.shards.files import TokenShards

    shards = TokenShards(folder)
    shards.verify()
    special_tokens(shards)
    return shards.stream("train").num_tokens


def _index(folder: Path) -> Reader:
    path = shard_folder(folder) / "index.json"
    return of_file(path, lambda p: _open(p.parent), (path.read_bytes(),), form="json", named="")


def _arrays(folder: Path) -> Reader:
    """Array files that the index's checksums do not know: opened only."""
    from vocab.shards.files import TokenShards

    place = shard_folder(folder) / "train" / "ko"
    sound = {path.name: path.read_bytes() for path in sorted(place.iterdir())}
    rng = random.Random(0)

    def read(data: bytes) -> object:
        name = rng.choice(list(sound))
        (place / name).write_bytes(data)
        try:
            return TokenShards(folder).stream("train").num_tokens
        finally:
            (place / name).write_bytes(sound[name])

    words = (b"\x93NUMPY", b"'descr'", b"'|O'", b"'<i8'", b"'shape': (12,)", b"True", b"'<u2'")
    return Reader(tuple(sound.values()), read, words, named=".npy")


def _mask_units(folder: Path) -> Reader:
    from vocab.shards.mask_units import read_unit_starts

    _tokenizer_folder(folder)
    text = json.dumps({"morpheme_starts": [5, 6, 9], "num_pieces": len(_PIECES)}).encode()
    path = folder / "mask_units.json"
    return of_file(path, lambda p: read_unit_starts(p.parent, "morpheme"), (text,), form="json")


READERS: dict[str, Make] = {
    "wordpiece-encoding": _encoding,
    "wordpiece-training": _training,
    "tokenizer.json": _tokenizer_file,
    "vocab.txt": _vocab_file,
    "reference-tokenizer": _reference,
    "tokenizer-config": _tokenizer_config,
    "spans": _spans,
    "spans-ner": _spans_ner,
    "shard-index": _index,
    "shard-arrays": _arrays,
    "mask-units": _mask_units,
}
