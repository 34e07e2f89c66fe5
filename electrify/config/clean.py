"""The options of the corpus stage: sources, rules, deduplication, decontamination."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from electrify.config.names import check_language, without_secrets
from electrify.config.section import Count, Fraction, Section
from electrify.config.tasks import check_texts
from electrify.system.outcome import UserError

# The limits of the quality rules, which a config may set for all languages or for one.

Limit = Annotated[float, Field(ge=0.0)] | None


class QualityLimits(Section):
    """Limits of the quality rules, `min_` or `max_`. The source's profile gives what is left out.
    Shares are from 0 to 1."""

    min_words: Limit = None
    """Number of words."""
    max_words: Limit = None
    """Number of words."""
    min_mean_word_length: Limit = None
    """Mean length of a word, in characters."""
    max_mean_word_length: Limit = None
    """Mean length of a word, in characters."""
    max_word_length: Limit = None
    """Length of the longest word, in characters."""
    min_script_letters: Limit = None
    """Share of the letters that are in the script of the language."""
    min_alphabetic_words: Limit = None
    """Share of the words that have a letter."""
    max_symbols_per_word: Limit = None
    """Number of `#` and ellipses for each word."""
    min_function_words: Limit = None
    """Number of different function words."""
    min_particles: Limit = None
    """Share of the words that end in a Korean particle."""
    max_top_word: Limit = None
    """Share of the words that the most frequent one makes up."""
    max_bullet_lines: Limit = None
    """Share of the lines that begin with a bullet."""
    max_ellipsis_lines: Limit = None
    """Share of the lines that end in an ellipsis."""
    min_sentence_ends: Limit = None
    """Number of sentence ends for each 100 characters."""
    max_newlines_per_word: Limit = None
    """Number of line breaks for each word, blank lines not counted."""
    max_policy_lines: Limit = None
    """Share of the lines about JavaScript, cookies or terms of use."""
    max_lorem_ipsum: Limit = None
    """Number of times that the placeholder text occurs."""
    max_duplicate_lines: Limit = None
    """Share of the lines that stand before in the text."""
    max_duplicate_line_characters: Limit = None
    """Share of the characters in such lines."""
    max_duplicate_paragraphs: Limit = None
    """Share of the paragraphs that stand before in the text."""
    max_top_2gram: Limit = None
    """Share of the characters in the most frequent pair of words."""
    max_top_3gram: Limit = None
    """Share of the characters in the most frequent run of three words."""
    max_top_4gram: Limit = None
    """Share of the characters in the most frequent run of four words."""
    max_duplicate_5gram: Limit = None
    """Share of the characters in runs of five words that stand before in the text."""
    max_duplicate_6gram: Limit = None
    """Share of the characters in runs of six words that stand before in the text."""
    max_duplicate_7gram: Limit = None
    """Share of the characters in runs of seven words that stand before in the text."""
    max_duplicate_8gram: Limit = None
    """Share of the characters in runs of eight words that stand before in the text."""
    max_duplicate_9gram: Limit = None
    """Share of the characters in runs of nine words that stand before in the text."""
    max_duplicate_10gram: Limit = None
    """Share of the characters in runs of ten words that stand before in the text."""


Language = Annotated[str, AfterValidator(check_language)]
Profile = Literal["none", "web", "comments", "encyclopaedia", "documentation", "speech"]
Kind = Literal["jsonl", "text", "csv", "tsv", "parquet", "wikipedia", "huggingface", "wet"]

DEFAULT_ID_FIELD = "id"
_OF_FIELDS: tuple[Kind, ...] = ("jsonl", "csv", "tsv", "parquet", "huggingface")
# options of a source that not every kind has
_KINDS_OF: dict[str, tuple[Kind, ...]] = {
    "split": ("huggingface",),
    "text_field": _OF_FIELDS,
    "thread_field": _OF_FIELDS,
    "id_field": _OF_FIELDS,
    "columns": ("csv", "tsv"),
    "quoted": ("csv", "tsv"),
    "document": ("text",),
    "encoding": ("jsonl", "text", "csv", "tsv", "wikipedia"),
}


def check_encoding(name: str) -> str:
    """The name itself; `ValueError` for one that is no codec of Python for text."""
    try:
        b"a\0".decode(name, "replace")
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{name!r} is no text encoding; write a codec of Python, such as utf-8, cp949, euc-kr, "
            "shift_jis, gb18030, utf-16"
        ) from error
    return name


class Source(Section):
    """One input of the corpus stage: files of one kind and one language."""

    kind: Kind
    """Kind of the files: [kinds](corpus.md#sources)."""
    language: Language
    """Language of the texts."""
    path: Annotated[str, Field(min_length=1), PlainSerializer(without_secrets, when_used="json")]
    """A glob, local or any fsspec address (`gs://...`). `huggingface`: a name on the hub, or a
    folder that `save_to_disk` wrote."""
    name: str | None = None
    """The `source` of the documents whose rows name none. `huggingface`: the data set's subset."""
    split: str = "train"
    """`huggingface`: the split."""
    text_field: str = "text"
    """Field or column of the text; `jsonl`: or a path to it, such as `document[].paragraph.form`
    ([paths](corpus.md#json)). This and the next two: `jsonl`, `csv`, `tsv`, `parquet`,
    `huggingface`."""
    thread_field: str | None = None
    """Rows that follow one another with the same value here are one document."""
    id_field: str | None = None
    """Field with the id that the source gives a row, a string or an integer. Left out: `id`, where
    the rows have it."""
    columns: tuple[str, ...] = ()
    """`csv`, `tsv`: names of the columns of a table whose first row is data. Left out: the first
    row names them."""
    quoted: bool | None = None
    """`csv`, `tsv`: quotation marks around a cell are not part of it. A quoted cell may hold line
    breaks. Left out: they are text where they are not written so."""
    document: Literal["file", "line", "block"] = "block"
    """`text`: a document is the whole file, a line, or a block between blank lines."""
    encoding: Annotated[str, AfterValidator(check_encoding)] = "utf-8"
    """`jsonl`, `text`, `csv`, `tsv`, `wikipedia`: encoding of the files, any codec of Python. A
    byte order mark, and a line that is UTF-8, count more."""
    profile: Profile = "none"
    """Which quality rules a document must pass: [profiles](corpus.md#rules)."""
    licence: str | None = None
    """Licence of the documents whose rows name none."""
    max_documents: Count | None = None
    """Only the first N documents of each file, or of a hub data set. Left out: all."""

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> Self:
        for option, kinds in _KINDS_OF.items():
            # a default is let through: reports print a config with all its values, to be read again
            is_default = getattr(self, option) == Source.model_fields[option].default
            if self.kind not in kinds and not is_default:
                raise UserError(
                    f"{option} = {getattr(self, option)!r} is not for kind = {self.kind!r}, only "
                    f"for {', '.join(kinds)}; leave it out"
                )
        if self.columns and self.text_field not in self.columns:
            names = ", ".join(self.columns)
            raise UserError(f"text_field = {self.text_field!r} is none of the columns {names}")
        return self


class CleanRules(Section):
    """What is changed in a text and what a text must have; may differ by language."""

    repair_mojibake: bool = True
    """UTF-8 read as Latin-1 or Windows-1252 is repaired (by ftfy), and older encodings of Korean,
    Japanese and Chinese read so."""
    remove_html: bool = True
    """HTML tags, entities and scripts are removed. The words stay."""
    remove_markdown: bool = True
    """Markdown and wiki markup is removed: front matter, links, emphasis, table marks, directives,
    from Korean also Namuwiki's. The words stay."""
    normalise_hangul: bool = True
    """Half-width and lone jamo, full-width letters and middle dots get one form."""
    remove_urls: bool = True
    """http, ftp and www addresses are removed. A particle at their end stays."""
    mask_pii: bool = True
    """`<email> <phone> <rrn> <card> <ip> <business> <account> <plate>` replace personal numbers and
    addresses."""
    remove_boilerplate: bool = True
    """Whole lines of notices are removed: copyright, bylines, cookie banners, read-more."""
    max_repeats: Annotated[int, Field(ge=0, le=10_000)] = 4
    """Number of times that a character or a pair of syllables stays in a row. 0: any number."""
    hanja: Literal["keep", "drop"] = "keep"
    """`drop` removes Hanja from Korean: glosses in brackets and other runs. The profile `comments`
    always does."""
    min_language_fraction: Fraction = 0.5
    """Share of a document's letters that must be in lines of its language. 0: not looked at."""
    remove_foreign_lines: bool = False
    """Long lines that are surely of another language are removed."""
    # KcELECTRA's limit. Of film reviews it drops one in eleven, and under 2 % of their characters
    min_characters: Annotated[int, Field(ge=0)] = 10
    """Number of characters that the cleaned text must have. Shorter comments are mostly one word.
    """
    quality: QualityLimits = QualityLimits()


class LanguageRules(CleanRules):
    """The rules of one language. What is left out is as in `[clean]`."""

    @model_serializer(mode="wrap")
    def _as_written(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: v for name, v in serialize(self).items() if name in self.model_fields_set}


class LineDedupConfig(Section):
    """Lines that stand in many documents of the corpus (menus, notices, licences)."""

    enabled: bool = True
    """Repeated lines are removed."""
    min_characters: Count = 20
    """Shorter lines are left alone, for they repeat by chance."""
    max_documents: Count = 20
    """The line stays in the first N documents that hold it."""


class NearDedupConfig(Section):
    """Documents that are nearly equal, by MinHash."""

    enabled: bool = True
    """Near duplicates are removed."""
    similarity: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.7
    """Jaccard similarity of the shingles from which a document is a near duplicate."""
    num_bands: Annotated[int, Field(ge=1, le=64)] = 25
    """Number of MinHash bands."""
    rows_per_band: Annotated[int, Field(ge=1, le=32)] = 5
    """Hashes of a band. Documents that share a band are compared."""


class CleanConfig(CleanRules):
    """Raw text to documents (pipeline/)."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    language: Annotated[dict[Language, LanguageRules], Field(default_factory=dict)]
    exact_dedup: bool = True
    """Documents that are equal but for case and white space are removed. The first one stays."""
    line_dedup: LineDedupConfig = LineDedupConfig()
    near_dedup: NearDedupConfig = NearDedupConfig()
    decontaminate_against: tuple[Annotated[str, AfterValidator(check_texts)], ...] = ()
    """Suites, tasks or files whose dev and test texts are removed from the corpus, such as
    `["klue", "glue-sst2", "data/mine.jsonl"]`."""
    decontaminate_data_dir: str | None = None
    """Folder with the files of these tasks, or `hub`. Left out: `evaluate.data_dir`."""
    keep_removed: bool | Literal["masked"] = "masked"
    """Whether `removed-*` holds the texts of removed rows: `true` as they were read, `"masked"`
    with personal data masked (whatever `mask_pii` says), `false` not at all."""
    max_line_bytes: Count = 20_000_000
    """A longer input line is counted as malformed and skipped."""
    strict: bool = False
    """A malformed row stops the run."""
    damaged_files: Literal["stop", "keep"] = "stop"
    """What happens to a file that is damaged from some place on, such as a `.gz` that was cut
    short, or most of whose rows cannot be read. `keep` takes the rows that can be read."""

    def rules_for(self, language: str) -> CleanRules:
        """The rules of one language."""
        common = self.model_dump(include=set(CleanRules.model_fields), exclude_none=True)
        given = self.language.get(language)
        own = given.model_dump(exclude_none=True) if given else {}
        return CleanRules(**common | own | {"quality": common["quality"] | own.get("quality", {})})
