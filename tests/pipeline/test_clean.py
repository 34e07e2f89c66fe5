"""The whole stage: what comes out, that nothing is lost on the way, and that it is always equal."""

import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electrify.config.fields import language_code
from pipeline import clean as clean_module
from pipeline.clean import clean
from pipeline.dedup import batches, records
from pipeline.documents import list_row_groups, read_columns
from pipeline.sources import files as sources
from tests.pipeline.builders import (
    ENGLISH,
    KOREAN,
    RUSSIAN,
    clean_afresh,
    config_of,
    contents,
    documents,
    manifest,
    removed,
    report,
    sentence,
    write_texts,
)
from tests.pipeline.sources.reading import write_rows, write_zip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Three files with every kind of row; some rows repeat across files."""
    folder = tmp_path_factory.mktemp("corpus") / "raw"
    about = {"source": "첫째", "licence": "CC0-1.0"}
    write_texts(folder / "a.jsonl", map(sentence, range(300)), **about)
    texts = [f"<p>{sentence(i)}</p> https://a.kr/{i}" for i in range(250, 500)]
    write_texts(folder / "b.jsonl", [*texts, "짧다", "", "<br>", "\ufffd" * 50])
    with (folder / "b.jsonl").open("ab") as file:
        file.write(b'not json\n{"body": "x"}\n{"text": 5}\n{"text": "\xff"}\n')
    rows = (json.dumps({"text": sentence(i)}) for i in range(400, 900))
    packed = gzip.compress("\n".join(rows).encode())
    (folder / "c.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "d.jsonl").write_bytes(b"")
    return folder


@pytest.fixture(scope="module")
def cleaned(corpus):
    return clean_afresh(config_of(corpus.parent, [corpus / "*"], damaged_files="keep"))


def test_documents_removed_and_report(corpus, cleaned):
    folder = cleaned
    kept, gone, found = documents(folder), removed(folder), report(folder)
    licences = Counter(document["licence"] for document in kept)
    assert {row["licence"] or None: row["documents"] for row in found["licences"]} == licences
    # each sentence once, from the first place where it stood, in order
    first = {"id": "00-00000-000000001", "text": sentence(0), "language": "ko", "source": "첫째"}
    assert kept[0] == first | {"url": None, "licence": "CC0-1.0", "source_id": None}
    texts = [document["text"] for document in kept]
    assert texts[:500] == [sentence(i) for i in range(500)]
    assert len(set(texts)) == len(texts)
    assert (ids := [document["id"] for document in kept]) == sorted(ids)
    reasons = Counter(row["reason"] for row in gone)
    faults = ("malformed_json", "missing_field", "wrong_type", "invalid_utf8", "unreadable_file")
    once = dict.fromkeys(("too_short", "undecodable", *faults), 1)
    assert reasons == once | {"empty": 2, "duplicate": reasons["duplicate"]}

    totals = found["totals"]
    assert totals["documents_in"] == totals["documents_kept"] + totals["removed"]
    assert totals["documents_kept"] == len(kept) == manifest(folder)["counts"]["documents"]
    assert totals["removed"] + totals["malformed"] == len(gone)
    assert sum(file["documents"] for file in found["files"]) == totals["documents_in"]
    assert found["files"][3]["documents"] == 0
    assert f"{corpus}/b.jsonl:255: malformed_json: " in found["faults"][0]
    assert f"{corpus}/c.jsonl.gz:" in found["faults"][-1]
    # of the 250 with markup 50 are duplicates, and so is not kept what had markup alone
    rules = ("html_removed", "url_removed", "whitespace_squeezed")
    altered = {row["rule"]: row["documents"] for row in found["altered"]}
    assert altered == dict.fromkeys(rules, 200)
    assert "<" in found["examples"]["html_removed"]
    names = {"manifest.json", "report.html", "report.json"}
    tables = {"documents-00000.parquet", "removed-00000.parquet"}
    assert {path.name for path in folder.iterdir()} == names | tables
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert any(text in html for text in texts)


def test_an_emptied_corpus_is_an_error_that_says_why(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", ["짧다", "<b></b>", "짧다"])
    path.write_bytes(path.read_bytes() + b"broken\n")
    message = (
        r"left no document of 4 in 1 file\(s\); removed: empty 1, too_short 2, malformed_json 1"
        r"(?s:.*)a\.jsonl:4: malformed_json"
    )
    with pytest.raises(ValueError, match=message):
        clean(config_of(tmp_path, [path]), [], overwrite=False)
    assert not (tmp_path / "out" / "clean").exists()


def test_workers_and_batches_change_no_row(tmp_path, corpus, cleaned, monkeypatch):
    expected = documents(cleaned), removed(cleaned)
    monkeypatch.setattr(sources, "FILE_BATCH_BYTES", 1)
    config = config_of(tmp_path, [corpus / "*"], damaged_files="keep")
    folder = clean_afresh(config, ["--direct_num_workers=1"])
    alone = contents(folder)
    assert sum(name.startswith("documents-") for name in alone) == 3
    assert (documents(folder), removed(folder)) == expected
    assert contents(clean_afresh(config, ["--direct_num_workers=2"])) == alone
    monkeypatch.setattr(sources, "BATCH_CHARACTERS", 5000)
    monkeypatch.setattr(clean_module, "CHARACTERS_AT_ONCE", 1000)
    folder = clean_afresh(config)
    assert len([*folder.glob("documents-*")]) > 3
    assert (documents(folder), removed(folder)) == expected


def test_members_of_an_archive_are_read_by_several_workers(tmp_path, monkeypatch):
    """A forked worker opens the archive itself: the process before it has listed the members."""
    for member in range(6):
        rows = (json.dumps({"text": sentence(10 * member + n)}) for n in range(10))
        write_zip(tmp_path / "a.zip", {f"{member}.jsonl": "\n".join(rows)})
    monkeypatch.setattr(sources, "FILE_BATCH_BYTES", 1)
    config = config_of(tmp_path, [tmp_path / "a.zip::*.jsonl"])
    assert len(documents(clean_afresh(config, ["--direct_num_workers=2"]))) == 60


def test_the_id_that_the_source_gives_stays_with_kept_and_removed_rows(tmp_path):
    texts = sentence(1), sentence(1), "짧다", long_text(2), None
    rows = [{"id": f"글-{number}", "text": text} for number, text in enumerate(texts)]
    rows.append({"id": 7, "text": long_text(2)[:-9] + "\n" + sentence(1100)})
    rows += [{"text": sentence(3)}, {"id": "\ud800", "text": sentence(4)}]
    path = tmp_path / "a.jsonl"
    write_rows(path, "jsonl", rows)
    source = {"name": "책", "licence": "MIT"}
    folder = clean_afresh(config_of(tmp_path, [path], source))
    assert {(row["source"], row["licence"]) for row in documents(folder)} == {("책", "MIT")}
    kept = [(row["id"][-1], row["source_id"]) for row in documents(folder)]
    assert kept == [("1", "글-0"), ("6", "7"), ("7", None), ("8", None)]
    assert [(row["reason"], row["source_id"]) for row in removed(folder)] == [
        ("duplicate", "글-1"),
        ("too_short", "글-2"),
        ("near_duplicate", "글-3"),
        ("wrong_type", "글-4"),
    ]


def long_text(number):
    """Twelve lines that no other number has."""
    return "\n".join(f"{sentence(12 * number + i)} {sentence(1100 - i)}" for i in range(12))


def test_lines_and_documents_that_stand_elsewhere(tmp_path, monkeypatch):
    """Exact copies, a notice in every document and near copies, in three groups of files."""
    notice = "이 글의 저작권은 누리집에 있으며 옮겨 싣지 못한다."
    texts = [f"{notice}\n{long_text(i)}" for i in range(30)]
    other = texts[3].replace(sentence(36), sentence(1204))
    near = "\n".join([other, *map(sentence, range(1200, 1203))])  # the longer one
    files = [texts[:10], [*texts[10:30], texts[5].upper()], [near, f"{notice}\n{notice}"]]
    for name, of_file in zip("abc", files, strict=True):
        write_texts(tmp_path / f"{name}.jsonl", of_file)
    monkeypatch.setattr(sources, "FILE_BATCH_BYTES", 1)
    folder = clean_afresh(config_of(tmp_path, [tmp_path / "*.jsonl"]))
    assert [(r["id"], r["reason"], r["detail"]) for r in removed(folder)] == [
        ("00-00000-000000004", "near_duplicate", "of 00-00002-000000001, similarity 0.83"),
        ("00-00001-000000021", "duplicate", "of 00-00000-000000006"),
        ("00-00002-000000002", "repeated_lines", "2 lines, each in many documents"),
    ]
    kept = [document["text"] for document in documents(folder)]
    without = [text.removeprefix(f"{notice}\n") for text in [*texts[:3], *texts[4:], near]]
    assert kept == [*[f"{notice}\n{text}" for text in without[:20]], *without[20:]]
    found = report(folder)
    (row,) = [row for row in found["altered"] if row["rule"] == "repeated_lines_removed"]
    assert (row["documents"], row["characters"]) == (10, 10 * len(f"{notice}\n"))
    assert found["totals"]["documents_in"] == 33 == len(kept) + found["totals"]["removed"]

    # many shards, filled little by little: the same rows
    monkeypatch.setattr(batches, "_WAITING_HASHES", 10)
    monkeypatch.setattr(records, "SHARD_BYTES", 2_000)
    gone = removed(folder)
    folder = clean_afresh(config_of(tmp_path, [tmp_path / "*.jsonl"]))
    assert ([row["text"] for row in documents(folder)], removed(folder)) == (kept, gone)


def test_benchmark_texts_are_removed(tmp_path):
    question = "가나다 왕이 세운 절의 이름은 무엇이며 지금 어느 고을에 남아 있는가?"
    folder = write_texts(tmp_path / "texts" / "a.jsonl", [question], task="문답").parent
    texts = [long_text(1), f"{sentence(0)} {question}", long_text(2)]
    path = write_texts(tmp_path / "a.jsonl", texts)
    config = config_of(tmp_path, [path], decontaminate_against=["klue"])
    clean(config, [], overwrite=False, benchmark_texts=folder)
    out = tmp_path / "out" / "clean"
    assert [row["reason"] for row in removed(out)] == ["contaminated"]
    found = report(out)
    counts = {(row["task"], row["kind"]): row["count"] for row in found["contamination"]}
    assert counts == {("문답", "sentence"): 1, ("문답", "documents_removed"): 1}
    assert found["benchmarks"] == [{"task": "문답", "texts": 1, "too_short": 0}]
    assert "benchmark texts" in manifest(out)["inputs"]
    write_texts(folder / "a.jsonl", [sentence(0)], task="문답")
    with pytest.raises(ValueError, match="overwrite"):  # other texts, other documents
        clean(config, [], overwrite=False, benchmark_texts=folder)
    clean(config, [], overwrite=True, benchmark_texts=folder)  # at the same path, in this process
    assert [row["detail"] for row in removed(out)] == [f"문답: sentence: {sentence(0)[:-1]}"]
    # of what is scored, a later set of tasks changes nothing, and none at all does
    changes = ({"decontaminate_against": against} for against in (None, ()))
    sections = (config.clean.model_copy(update=change) for change in changes)
    scored, kept = (config.model_copy(update={"clean": section}) for section in sections)
    clean(scored, [], overwrite=True, benchmark_texts=folder)
    clean(scored, [], overwrite=False)
    with pytest.raises(ValueError, match=r"decontaminate_against changed from .*'a'.* to \[\]"):
        clean(kept, [], overwrite=False)
    clean(kept, [], overwrite=True)
    assert removed(out) == []
    clean(kept, [], overwrite=False)


_DATA = ("hong@naver.com", "kim&#64;daum.net", "010-1234-5678", "010-2345-6789", "900101-1234567")


@pytest.mark.parametrize("mask_pii", [True, False])
def test_removed_texts_and_reports_show_no_personal_data(tmp_path, mask_pii):
    """Of rows that stay, are removed by each pass, or cannot be read."""
    kept = "문의는 hong@naver.com 으로 주십시오. 이 문장은 한국어라서 남습니다."
    english = (
        "All of this is in English; write to kim&#64;daum.net or call <b>010-1234-5678</b> now."
    )
    path = write_texts(tmp_path / "a.jsonl", [kept, kept, english, f"<p>{kept}</p> 010-2345-6789"])
    path.write_bytes(path.read_bytes() + b'{"text": "900101-1234567')
    options = {"mask_pii": mask_pii, "near_dedup": {"enabled": False}}
    folder = clean_afresh(config_of(tmp_path, [path], **options))
    assert any("hong@naver.com" in row["text"] for row in documents(folder)) != mask_pii
    gone = {row["reason"]: row["text"] for row in removed(folder)}
    assert gone.keys() == {"duplicate", "foreign_language", "malformed_json"}
    assert "write to <email> or call <phone> now" in gone["foreign_language"]
    assert gone["malformed_json"] == '{"text": "<rrn>'
    assert not any(of in "".join(gone.values()) for of in _DATA)
    for name in ("report.json", "report.html"):
        text = (folder / name).read_text(encoding="utf-8")
        assert not any(of in text for of in _DATA)
    lost = {row["reason"]: row["characters"] for row in report(folder)["removed"]}
    assert lost["foreign_language"] == 86  # as it was read
    totals = report(folder)["totals"]
    assert (totals["documents_kept"], totals["removed"], totals["malformed"]) == (2, 2, 1)


def test_a_folder_of_files_of_which_most_cannot_be_read_is_refused(tmp_path):
    for number in range(9):
        encoding = "cp949" if number < 5 else "utf-8"
        (tmp_path / f"{number}.txt").write_bytes((sentence(number) * 3).encode(encoding))
    source = {"kind": "text", "document": "file"}
    config = config_of(tmp_path, [tmp_path / "*.txt"], source)
    with pytest.raises(ValueError, match="5 rows or files cannot be read of 9 in 9") as refused:
        clean(config, [], overwrite=False)
    assert "write encoding = 'cp949'" in str(refused.value)


GERMAN = "Der Bundestag hat heute den Haushalt des kommenden Jahres beschlossen."
LIMITS = {"en": {"quality": {"min_words": 40}}}


MARKUP = f"<div class='a-long-name of-a-class'><p>{GERMAN}</p></div><script>a_script = 1</script>"


def _languages_and_reasons(folder):
    return [(row["language"], row["reason"]) for row in removed(folder)]


@pytest.mark.parametrize(
    ("source", "more", "kept", "gone"),
    [
        (  # also where much markup stands round it; what is in no known language is removed
            {"language": "auto"},
            [MARKUP, "1234 5678 == x9 (12)"],
            [("ko", KOREAN), ("ru", RUSSIAN), ("ko", "좋아요"), ("de", GERMAN)],
            [("en", "few_words"), ("und", "unknown_language")],
        ),
        (
            {"other_languages": ["en"]},
            [],
            [("ko", KOREAN), ("ko", "좋아요")],
            [("en", "few_words"), ("ko", "foreign_language")],
        ),
    ],
    ids=["any language", "two languages"],
)
def test_each_document_is_cleaned_as_of_the_language_it_is_in(tmp_path, source, more, kept, gone):
    path = write_texts(tmp_path / "a.jsonl", [KOREAN, ENGLISH, RUSSIAN, "좋아요", *more])
    options = {"language": LIMITS, "min_characters": 1}
    folder = clean_afresh(config_of(tmp_path, [path], source, **options))
    assert [(row["language"], row["text"]) for row in documents(folder)] == kept
    assert _languages_and_reasons(folder) == gone


def test_a_row_may_name_its_language(tmp_path):
    """One of the source's; where it names none of them the text decides, as without the field.
    Data sets name the part of a language (`cmn_Hani`)."""
    names = ("cmn_Hani", "arb_Arab", "kor_Hang", "en-US", "yue")
    assert [language_code(name) for name in names] == ["zh", "ar", "ko", "en", "yue"]
    english, korean = "The house met today and passed the budget.", "네, 아주 잘 알겠습니다."
    named = [(english, "en-US"), (english, "kor_Hang"), (korean, "kor"), (english, "fr")]
    rows = [{"text": text, "lang": name} for text, name in [*named, (korean, "")]]
    write_rows(tmp_path / "a.jsonl", "jsonl", [*rows, {"text": korean}])
    source = {"other_languages": ["en"], "language_field": "lang"}
    options = {"exact_dedup": False, "near_dedup": {"enabled": False}, "min_characters": 1}
    folder = clean_afresh(config_of(tmp_path, [tmp_path / "a.jsonl"], source, **options))
    found = [(row["text"], row["language"]) for row in documents(folder)]
    expected = [(english, "en"), (korean, "ko"), (english, "en"), (korean, "ko"), (korean, "ko")]
    assert found == expected
    assert _languages_and_reasons(folder) == [("ko", "foreign_language")]


def test_batches_are_even_in_bytes_however_documents_lie(tmp_path):
    texts = ["가" * 10] * 500 + ["가" * 20_000] * 20  # short ones, then long ones
    path = tmp_path / "documents-00000.parquet"
    pq.write_table(pa.table({"text": texts}), path, row_group_size=len(texts))
    (group,) = list_row_groups([path])
    assert group.num_bytes > 0
    assert pq.read_metadata(path).num_row_groups == 1
    batches = list(read_columns(group, ["text"], 100_000))
    sizes = [sum(map(len, batch.column("text").to_pylist())) * 3 for batch in batches]
    assert len(batches) > 10
    assert max(sizes) < 100_000 + 60_000  # and the document that goes over
    assert [text for batch in batches for text in batch.column("text").to_pylist()] == texts
