"""Files of tasks, one target a kind; what a loader lets through must also become token ids."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Form, Make, Reader, of_file

_FEATURIZED = 8  # one input of so many: it costs more than reading
_WORDS = ("학교", "에", "##서", "a", "##b", "b", "1", ".", ",", "x", "남", "##자", "서울", "관광")
_COLA = b"gj04\t1\t\tOur friends won't buy this.\ngj04\t0\t*\ta b\x0c c\n"
_MRPC = (
    '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe said "a\tb c\r\n'
    "0\t9\t10\ta\tb\r\n".encode()
)
_STSB = b"index\tsentence1\tsentence2\tscore\n0\ta b\ta\t5.000\n1\tx\ty\t0.2\n2\tq\tr\t3\n"
_QQP = b"id\tquestion1\tquestion2\tis_duplicate\n1\ta?\tb?\t0\n2\tx\n3\tc?\td?\t1\n"
_PAIRS = 'id,qid1,question1,question2,is_duplicate\n1,2,"가, 나",다,1\n2,3,"a""b\nc",d,0\n'.encode()
_NSMC = "id\tdocument\tlabel\n1\t재밌다 ㅋㅋ\t1\n2\t\t0\n3\t별로\t0\n".encode()
_YNAT = json.dumps(
    [
        {"guid": "ynat-v1_0", "title": "국회 a", "label": "정치", "date": "2020"},
        {"guid": "ynat-v1_1", "title": "증시 b", "label": "경제", "n": [1, None]},
    ]
).encode()
_STS = json.dumps(
    [
        {
            "guid": f"s{i}",
            "sentence1": "가",
            "sentence2": "나",
            "labels": {"label": 3.7, "real-label": value, "binary-label": 1},
        }
        for i, value in enumerate((3.714, 0, 5.0))
    ]
).encode()
_RE = json.dumps(
    [
        {
            "guid": "re-0",
            "sentence": "서울에서 a가 b를",
            "label": "no_relation",
            "subject_entity": {"word": "서울", "start_idx": 0, "end_idx": 1, "type": "LOC"},
            "object_entity": {"word": "a", "start_idx": 5, "end_idx": 5, "type": "PER"},
        },
    ]
).encode()
_NER = (
    "## klue-ner-v1_0\t<학교:LC>에 a\n학\tB-LC\n교\tI-LC\n에\tO\n \tO\na\tO\n\n"
    "## klue-ner-v1_1\t가\n가\tB-PS\n"
).encode()
_WORD_TAGS = "학교에 a 1\tORG-B O NUM-B\n서울 b\tLOC-B LOC-I\n".encode()
_DP = (
    "## a comment\n## klue-dp-v1_0\t학교에 a b\n1\t학교에\t학교 에\tNNG+JKB\t3\tNP_AJT\n"
    "2\ta\ta\tSL\t3\tNP\n3\tb\tb\tVV+EF\t0\tVP\n\n## klue-dp-v1_1\tx\n1\tx\tx\tSL\t0\tNP\n"
).encode()
_WOS = json.dumps(
    [
        {
            "guid": "wos-v1_0",
            "domains": ["관광"],
            "dialogue": [
                {
                    "role": "user",
                    "text": "서울 a",
                    "state": ["관광-지역-서울 중앙", "관광-종류-박물관"],
                },
                {"role": "sys", "text": "b."},
                {"role": "user", "text": "1", "state": ["관광-지역-서울 중앙", "관광-이름-a-b"]},
            ],
        },
    ]
).encode()
_MRC = json.dumps(
    {
        "version": "1",
        "data": [
            {
                "title": "t",
                "paragraphs": [
                    {
                        "context": "학교에서 a b. 1 서울, x",
                        "qas": [
                            {
                                "guid": "m0",
                                "id": "q0",
                                "question": "a?",
                                "is_impossible": False,
                                "question_type": 1,
                                "answers": [{"text": "서울", "answer_start": 12}],
                            },
                            {
                                "guid": "m1",
                                "id": "q1",
                                "question": "b?",
                                "is_impossible": True,
                                "question_type": 3,
                                "answers": [],
                                "plausible_answers": [],
                            },
                        ],
                    }
                ],
            }
        ],
    }
).encode()
_SQUAD = _MRC.replace(b'"is_impossible": true', b'"x": 1').replace(
    b'"answers": []', b'"answers": [{"text": "b", "answer_start": 7}]'
)


def _tokenizer() -> Any:
    import transformers

    from vocab.tokenizer import build_tokenizer
    from vocab.wordpiece.learn import SPECIAL_TOKENS

    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokenizer_class: Any = transformers.PreTrainedTokenizerFast
    return tokenizer_class(
        tokenizer_object=build_tokenizer([*SPECIAL_TOKENS, *_WORDS], lowercase=False),
        model_max_length=32,
        **dict(zip(names, SPECIAL_TOKENS, strict=True)),
    )


def _task(name: str, file: str, seeds: Sequence[bytes], form: Form = "bytes", *words: str) -> Make:
    def make(folder: Path) -> Reader:
        from benchmarks.tasks.registry import TASKS

        task, tokenizer = TASKS[name], _tokenizer()
        tokenizer.add_special_tokens({"additional_special_tokens": list(task.added_tokens)})
        turn = iter(range(1 << 60))

        def read(path: Path) -> object:
            number = next(turn)
            split = "train" if number % 4 else task.reported
            examples = list(task.read(split, path))
            for example in examples:
                assert isinstance(example.id, str), example
                "".join((example.id, *example.texts)).encode()  # can be written to a file
            if examples and not number % _FEATURIZED:
                train = number % 16 == 0  # then questions whose answer is not there are left out
                features = task.featurize(examples[:4], tokenizer, 32, train)
                assert train or len(features.input_ids) >= min(len(examples), 4)
                assert all(0 < len(row) <= 32 for row in features.input_ids)
            return len(examples)

        known = (*task.labels, *task.text_fields, task.label_field, task.id_field or "id", *words)
        return of_file(
            folder / file, read, seeds, words=[f"{word}".encode() for word in known], form=form
        )

    return make


def _publishing(folder: Path) -> Reader:
    """A file of scores that were published elsewhere."""
    from benchmarks.pages.references import FOLDER, published

    seeds = [path.read_bytes()[:200_000] for path in sorted(FOLDER.glob("*.json"))]
    smallest = sorted(seeds, key=len)[:2]

    def read(path: Path) -> object:
        published.cache_clear()
        return published(path.parent)

    return of_file(folder / "tables.json", read, smallest, form="json")


READERS: dict[str, Make] = {
    "task-cola": _task("glue-cola", "train.tsv", [_COLA]),
    "task-mrpc": _task("glue-mrpc", "train.tsv", [_MRPC]),
    "task-stsb": _task("glue-stsb", "train.tsv", [_STSB], "bytes", "nan", "inf", "1e5"),
    "task-qqp": _task("glue-qqp", "train.tsv", [_QQP]),
    "task-question-pair": _task("korean-question-pair", "a.csv", [_PAIRS], "bytes", '"'),
    "task-nsmc": _task("korean-nsmc", "ratings_train.txt", [_NSMC]),
    "task-ynat": _task("klue-ynat", "ynat.json", [_YNAT], "json"),
    "task-klue-sts": _task("klue-sts", "sts.json", [_STS], "json"),
    "task-klue-re": _task("klue-re", "re.json", [_RE], "json", "start_idx"),
    "task-klue-ner": _task("klue-ner", "ner.tsv", [_NER], "bytes", "## ", "\tB-"),
    "task-naver-ner": _task("korean-naver-ner", "ner.tsv", [_WORD_TAGS]),
    "task-klue-dp": _task("klue-dp", "dp.tsv", [_DP], "bytes", "## ", "\t0\t", "²"),
    "task-klue-wos": _task("klue-wos", "wos.json", [_WOS], "json"),
    "task-klue-mrc": _task("klue-mrc", "mrc.json", [_MRC], "json"),
    "task-squad-1.1": _task("squad-1.1", "train.json", [_SQUAD], "json"),
    "task-squad-2.0": _task("squad-2.0", "train.json", [_MRC, _SQUAD], "json"),
    "published-tables": _publishing,
}
