"""Other vocabularies: read, extended, and measured on spans."""

import json

import pytest
from transformers import AutoTokenizer

from electrify.config.vocab import VocabConfig
from vocab.report import find_span_files, read_spans, span_report
from vocab.tokenizer import (
    build_tokenizer,
    check_extendable,
    is_lowercase,
    load_reference,
    load_tokenizer,
    read_pieces,
    save_tokenizer,
)
from vocab.train import training_of
from vocab.wordpiece.merges import SPECIAL_TOKENS

PIECES = ["[PAD]", "학교", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##에서", "a"]


@pytest.fixture
def folder(tmp_path):
    save_tokenizer(build_tokenizer(PIECES, lowercase=True), tmp_path, lowercase=True)
    return tmp_path


def test_pieces_come_by_id_from_a_folder_or_a_file(folder):
    assert read_pieces(folder) == read_pieces(folder / "vocab.txt") == PIECES
    (folder / "tokenizer.json").unlink()
    assert read_pieces(folder) == PIECES


def test_a_reference_tokenises_with_its_own_case(folder):
    expected = ["[CLS]", "학교", "##에서", "a", "[SEP]"]
    assert load_reference(folder).encode("학교에서 A").tokens == expected
    (folder / "tokenizer.json").unlink()
    assert load_reference(folder).encode("학교에서 A").tokens == expected


def test_special_tokens_in_a_document_are_text_to_a_reference(folder):
    for _ in range(2):  # from tokenizer.json, then from vocab.txt
        tokens = load_reference(folder).encode("학교 [SEP]", add_special_tokens=False).tokens
        assert tokens == ["학교", "[UNK]", "[UNK]", "[UNK]"]
        (folder / "tokenizer.json").unlink(missing_ok=True)


def test_tokens_that_transformers_added_keep_their_ids(folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<x>"])
    tokenizer.save_pretrained(tmp_path / "again")
    assert read_pieces(tmp_path / "again") == [*PIECES, "<x>"]


def test_extension_keeps_the_ids_and_puts_new_tokens_behind(folder):
    options = VocabConfig(
        extend=str(folder), lowercase=True, num_unused=2, additional_special_tokens=("[USER]", "a")
    )
    first = training_of(options).first_pieces
    assert first == (*PIECES, "[USER]", "[unused0]", "[unused1]")
    assert training_of(VocabConfig()).first_pieces == SPECIAL_TOKENS


def test_extension_refuses_another_case(folder):
    with pytest.raises(ValueError, match=r"do_lower_case = True; set vocab\.lowercase = true"):
        check_extendable(folder, lowercase=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "[PAD]\n[UNK]\n", r"no \[CLS\], \[SEP\], \[MASK\]"),
        ("vocab.txt", "\n".join([*SPECIAL_TOKENS, "a", "a"]), "'a' stands twice"),
        ("vocab.txt", b"[PAD]\n\xff\n", r"vocab\.txt is not UTF-8"),
        ("tokenizer.json", "{", "is damaged"),
        ("tokenizer.json", {"model": []}, "is damaged"),
        ("tokenizer.json", {"model": 3}, "is damaged"),
        ("tokenizer.json", {"model": {"vocab": [1]}}, "can be read here"),
        ("tokenizer.json", {"model": {"vocab": {"a": "0"}}}, "no whole number"),
        ("tokenizer.json", {"model": {"vocab": {}}, "added_tokens": [{}]}, "is damaged"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {}}}, "a BPE tokenizer"),
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 2}}}, "ids are not 0 to 1"),
        ("other.txt", "", "no vocabulary at"),
    ],
)
def test_what_is_no_vocabulary_is_named(tmp_path, name, content, message):
    text = json.dumps(content) if isinstance(content, dict) else content
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=message):
        read_pieces(tmp_path)


def test_a_config_beside_that_is_no_object_says_nothing(folder):
    (folder / "tokenizer_config.json").write_text("3")
    assert is_lowercase(folder) is None
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is not valid JSON"):
        is_lowercase(folder)


def test_a_tokenizer_at_which_the_library_panics_is_damaged(folder):
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    broken = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    value["normalizer"]["normalizers"].append(broken)
    path.write_text(json.dumps(value), encoding="utf-8")
    for load in (load_tokenizer, load_reference):
        with pytest.raises(ValueError, match=r"tokenizer\.json is damaged"):
            load(folder)


NER = """## 주석
## klue-ner-v1_dev_00000-x\t<서울:LC>에 가는 <김:PS>
서\tB-LC
울\tI-LC
에\tO
 \tO
김\tB-PS
구\tI-PS

## klue-ner-v1_dev_00001-x\t<가:LC><나:LC>
가\tB-LC
나\tB-LC
"""


def test_entities_of_a_ner_file(tmp_path):
    (tmp_path / "klue-ner-v1.1_dev.tsv").write_text(NER, encoding="utf-8")
    (path,) = find_span_files(tmp_path)
    assert read_spans(path) == [("서울에 김구", [(0, 2), (4, 6)]), ("가나", [(0, 1), (1, 2)])]


def test_answers_of_a_squad_file(tmp_path):
    questions = [
        {"answers": [{"text": "서울", "answer_start": 0}, {"text": "서울", "answer_start": 0}]},
        {"answers": [{"text": "가", "answer_start": 4}], "is_impossible": True},
        {"answers": [{"text": "틀린", "answer_start": 1}]},
    ]
    data = {"data": [{"paragraphs": [{"context": "서울에 간다", "qas": questions}]}]}
    folder = tmp_path / "mrc"
    folder.mkdir()
    (folder / "klue-mrc-v1.1_dev.json").write_text(json.dumps(data), encoding="utf-8")
    assert read_spans(find_span_files(tmp_path)[0]) == [("서울에 간다", [(0, 2)])]


def test_a_span_counts_where_both_its_ends_are_borders(tmp_path):
    (tmp_path / "ner_dev.tsv").write_text(NER, encoding="utf-8")
    texts = read_spans(find_span_files(tmp_path)[0])
    pieces = [*SPECIAL_TOKENS, "서울에", "김", "##구", "가", "##나"]
    found = span_report(build_tokenizer(pieces, lowercase=False), texts)
    assert found["num_spans"] == 4
    assert found["span_ceiling"] == 0.75
    assert (found["start_ceiling"], found["end_ceiling"]) == (1, 0.75)
    assert found["pieces_per_word"] == pytest.approx(5 / 3, abs=1e-6)
    assert found["unk_piece_fraction"] == 0
    fewer = span_report(build_tokenizer(pieces[:-2], lowercase=False), texts)
    assert fewer["unk_piece_fraction"] == 0.25  # the second text is one [UNK]


@pytest.mark.parametrize(
    "paragraph", [{}, {"context": ["a"], "qas": []}, {"context": "a", "qas": [[]]}]
)
def test_a_folder_without_files_and_a_broken_file_are_named(tmp_path, paragraph):
    with pytest.raises(ValueError, match=r"vocab\.span_data_dir = .*no file"):
        find_span_files(tmp_path)
    path = tmp_path / "dev-v1.1.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"dev-v1\.1\.json: not in the official format"):
        read_spans(path)
