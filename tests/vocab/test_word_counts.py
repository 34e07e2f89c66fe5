import re
import subprocess
import sys
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.run import BeamConfig
from electrify.config.vocab import VocabConfig
from tests.vocab.conftest import count_words, write_pairs
from vocab import word_counts
from vocab.pretokenize import CUT, PlainWords, normalizer, pre_tokenizer
from vocab.word_counts import write_word_counts
from vocab.words import read_batches


def count(paths, output, work_dir=None):
    write_word_counts(paths, output, VocabConfig(), {}, BeamConfig(work_dir=work_dir))
    return output


def test_counts_equal_a_brute_force_counter(documents, tmp_path):
    odd = [("ja", "ガラス"), ("en", "🙂 Ⅷ 12345 ꦱ")]
    documents = [*documents * 3, *odd, ("ko", "먹었습니다")]
    paths = write_pairs(tmp_path / "clean", documents, num_files=4)
    (batch,) = read_batches(count(paths, tmp_path / "counts.parquet"))
    keys = [*zip(batch.languages, batch.words, strict=True)]
    assert ("ko", f"학교{CUT}에서") in keys  # Korean words are cut before their particles
    expected = Counter()
    for language, text in documents:
        # enough for these sentences: words and single marks
        expected.update((language, word) for word in re.findall(r"\w+|[^\w\s]", text))
    words = [(language, word.replace(CUT, "")) for language, word in keys]
    assert dict(zip(words, batch.counts.tolist(), strict=True)) == expected


def test_bytes_do_not_depend_on_where_documents_lie(documents, tmp_path):
    one = write_pairs(tmp_path / "one", documents, 1, 10**6)
    many = write_pairs(tmp_path / "many", documents, 5, 150)
    first = count(one, tmp_path / "a.parquet")
    second = count(many[::-1], tmp_path / "b.parquet", "memory://counts")
    assert first.read_bytes() == second.read_bytes()


def test_a_stopped_count_resumes_with_what_was_counted(documents, tmp_path, monkeypatch):
    paths = write_pairs(tmp_path / "clean", documents)
    whole = count(paths, tmp_path / "whole.parquet").read_bytes()
    counted, write, calls = word_counts._packed_counts, word_counts._write_shard, []

    def noted(group, options):
        calls.append(group.number)
        return counted(group, options)

    def stopped(words, *rest):
        if words[0] == 40 and not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            raise OSError("stopped here")
        return write(words, *rest)

    monkeypatch.setattr(word_counts, "_packed_counts", noted)
    monkeypatch.setattr(word_counts, "_write_shard", stopped)
    with pytest.raises(OSError, match="stopped here"):
        count(paths, tmp_path / "again.parquet", "memory://stopped")
    assert calls
    calls.clear()
    again = count(paths, tmp_path / "again.parquet", "memory://stopped")
    assert again.read_bytes() == whole
    assert calls == []


# Plain strings, and all that is none: other spaces, controls, accents, jamo, ligatures, emoji
PARTS = [
    *"aZß학교에ㅋ가각9漢か.,·“[",
    *("\u0301", "\u3099", "ᄒ", "ᅡ", "ᆨ", "ﬁ", "！", "・", "ㆍ", "\u3164", "\xa0", "\u3000", "\t"),
    *("\r\n", "\x1c", "\x85", "\u200b", "😀", "²", "क", "\u093c", "x" * 101, " ", " ", "\n"),
]


@settings(max_examples=75)
@given(st.lists(st.sampled_from(PARTS), max_size=25).map("".join), st.booleans())
def test_words_are_what_normaliser_and_pretokenizer_make_of_the_whole_text(text, lower):
    normalized = normalizer(lower).normalize_str(text)
    parts = pre_tokenizer().pre_tokenize_str(normalized)
    expected = Counter(word for word, _ in parts if len(word) <= 100)
    assert count_words([text], lower) == expected


@pytest.mark.parametrize("lowercase", [False, True])
def test_every_plain_character_is_left_as_it_is(lowercase):
    plain = PlainWords(lowercase)
    normalize, cut = normalizer(lowercase).normalize_str, pre_tokenizer()
    characters = [c for c in map(chr, range(0x10000)) if plain.is_plain(c)]
    strings = [f"a{character}b" for character in characters]
    assert len(strings) > 30_000
    listed = re.sub(plain.mark_re2, r" \g<0> ", " ".join(strings)).split(" ")
    listed = [word for word in listed if word]
    assert [w for w, _ in cut.pre_tokenize_str(normalize(" ".join(strings)))] == listed
    # no two of them are one character under NFC
    pairs = (unicodedata.decomposition(chr(point)).split() for point in range(0x30000))
    seconds = {chr(int(pair[1], 16)) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"}
    assert not seconds & set(characters)


def test_training_imports_neither_beam_nor_pandas():
    code = "import sys, vocab.train; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"apache_beam", "pandas", "torch"} & set(said.stdout.split())
