"""What stages leave for each other, and files of tasks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import Make, Reader, of_file
from tests.vocab.shard_files import write_shards

_VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] 학 교 ##교 에 ##에 ##서 a ##a b ##b ab ##ab 1 ##1 . , [ ] ! "
    "서울 x"
)
_PIECES = _VOCABULARY.split()
_YNAT = [
    {"guid": "ynat-v1_0", "title": "국회 a", "label": "정치", "date": "2020"},
    {"guid": "ynat-v1_1", "title": "증시 b", "label": "경제", "n": [1, None]},
]
_NER = (
    "## klue-ner-v1_0\t<학교:LC>에 a\n학\tB-LC\n교\tI-LC\n에\tO\n \tO\na\tO\n\n"
    "## klue-ner-v1_1\t가\n가\tB-PS\n"
).encode()
_DP = (
    "## a comment\n## klue-dp-v1_0\t학교에 a b\n1\t학교에\t학교 에\tNNG+JKB\t3\tNP_AJT\n"
    "2\ta\ta\tSL\t3\tNP\n3\tb\tb\tVV+EF\t0\tVP\n\n## klue-dp-v1_1\tx\n1\tx\tx\tSL\t0\tNP\n"
).encode()
_TURNS = [
    {"role": "user", "text": "서울 a", "state": ["관광-지역-서울 중앙", "관광-종류-박물관"]},
    {"role": "sys", "text": "b."},
    {"role": "user", "text": "1", "state": ["관광-지역-서울 중앙", "관광-이름-a-b"]},
]
_WOS = [{"guid": "wos-v1_0", "domains": ["관광"], "dialogue": _TURNS}]
_QUESTION = {"question": "a?", "question_type": 1, "is_impossible": False}
_ANSWERED = {"guid": "m0", "answers": [{"text": "서울", "answer_start": 12}]} | _QUESTION
_UNANSWERED = {"guid": "m1", "answers": [], "plausible_answers": []} | _QUESTION
_PARAGRAPH = {
    "context": "학교에서 a b. 1 서울, x",
    "qas": [_ANSWERED, _UNANSWERED | {"is_impossible": True}],
}
_MRC = {"version": "1", "data": [{"title": "t", "paragraphs": [_PARAGRAPH]}]}
_PREDICTIONS: Mapping[str, list[dict[str, Any]]] = {
    "klue-sts": [{"id": str(n), "gold": 1.0 + n, "prediction": 0.5 * n} for n in range(3)],
    "squad-2.0": [
        {"id": "a", "gold": ["b c", "b"], "prediction": "b", "answer": "b", "null_odds": -3.0},
        {"id": "b", "gold": [], "prediction": "", "answer": "x", "null_odds": 3.0},
    ],
    "korean-naver-ner": [{"id": "a", "gold": ["PER-B", "O"], "prediction": ["PER-B", "PER-I"]}],
}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _tokenizer_file(folder: Path) -> Reader:
    from vocab.tokenizer import build_tokenizer, load_tokenizer, save_tokenizer

    save_tokenizer(build_tokenizer(_PIECES, lowercase=False), folder, lowercase=False)
    path = folder / "tokenizer.json"

    def load(path: Path) -> object:
        return load_tokenizer(path.parent).get_vocab_size()

    words = (b'"type":"WordPiece"', b'"BPE"', b'"##"', b'"[UNK]"', b'"Sequence"', b"null")
    return of_file(path, load, [path.read_bytes()], words=words, form="json")


def shard_folder(folder: Path) -> Path:
    special = {piece: number for number, piece in enumerate(_PIECES[:5])}
    documents = [[5, 6, 7, 8, 9, 10, 3], [5, 6, 7, 8, 3]]
    write_shards(folder, {("train", "ko"): documents}, len(_PIECES), "0" * 64, special)
    return folder


def _index(folder: Path) -> Reader:
    from model.data import special_tokens
    from vocab.shards.files import TokenShards

    def read(path: Path) -> object:
        shards = TokenShards(path.parent)
        special_tokens(shards)
        return [shards.stream("train", name).num_tokens for name in shards.languages("train")]

    path = shard_folder(folder) / "index.json"
    return of_file(path, read, [path.read_bytes()], form="json", named="")


def _predictions(folder: Path) -> Reader:
    """Written by us, and changed."""
    from benchmarks.results.predictions import read_predictions, write_predictions

    seeds, path = [], folder / "a.jsonl"
    for task, lines in _PREDICTIONS.items():
        write_predictions(path, {"task": task, "split": "dev"}, lines)
        seeds.append(path.read_bytes())

    words = (b'{"header": ', b'"gold": ', b'"prediction": ', b"null", b'"PER-B"', b"[]")
    return of_file(path, read_predictions, seeds, words=words, form="lines")


def _task(name: str, file: str, seed: bytes, form: Any = "bytes") -> Make:
    """A file of a task; what its reader lets through must also become token ids."""

    def make(folder: Path) -> Reader:
        import transformers

        from benchmarks.tasks.registry import TASKS
        from vocab.tokenizer import build_tokenizer

        task = TASKS[name]
        names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        tokenizer_class: Any = transformers.PreTrainedTokenizerFast
        tokenizer = tokenizer_class(
            tokenizer_object=build_tokenizer(_PIECES, lowercase=False),
            model_max_length=32,
            **dict(zip(names, _PIECES, strict=False)),
        )
        tokenizer.add_special_tokens({"additional_special_tokens": list(task.added_tokens)})
        turn = iter(range(1 << 60))

        def read(path: Path) -> object:
            number = next(turn)
            examples = list(task.read("train" if number % 4 else task.reported, path))
            for example in examples:
                "".join((example.id, *example.texts)).encode()  # can be written to a file
            if examples and not number % 8:  # it costs more than reading
                features = task.featurize(examples[:4], tokenizer, 32, False)
                assert len(features.input_ids) >= min(len(examples), 4)
                assert all(0 < len(row) <= 32 for row in features.input_ids)
            return examples

        words = [str(w).encode() for w in (*task.labels, *task.text_fields, task.label_field)]
        return of_file(folder / file, read, [seed], words=words, form=form)

    return make


_COLA = b"gj04\t1\t\tOur friends won't buy this.\ngj04\t0\t*\ta b\x0c c\n"
READERS: dict[str, Make] = {
    "tokenizer.json": _tokenizer_file,
    "shard-index": _index,
    "predictions": _predictions,
    "task-cola": _task("glue-cola", "train.tsv", _COLA),
    "task-ynat": _task("klue-ynat", "ynat.json", _json(_YNAT), "json"),
    "task-ner": _task("klue-ner", "ner.tsv", _NER),
    "task-dp": _task("klue-dp", "dp.tsv", _DP),
    "task-wos": _task("klue-wos", "wos.json", _json(_WOS), "json"),
    "task-mrc": _task("klue-mrc", "mrc.json", _json(_MRC), "json"),
}
