"""The options of the corpus stage: sources, rules, deduplication, decontamination."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from electrify.config.names import check_language, runner_name
from electrify.config.section import Count, Fraction, Section
from electrify.config.tasks import check_texts

# The limits of the quality rules, which a config may set for all languages or for one.

Limit = Annotated[float, Field(ge=0.0)] | None


class QualityLimits(Section):
    """One number a rule; the profile's where it is not given. Shares are from 0 to 1."""

    min_words: Limit = None
    max_words: Limit = None
    min_mean_word_length: Limit = None  # characters
    max_mean_word_length: Limit = None
    max_word_length: Limit = None
    min_script_letters: Limit = None  # of the letters, in the script of the language
    min_alphabetic_words: Limit = None  # of the words, with a letter in them
    max_symbols_per_word: Limit = None  # # and ellipses
    min_function_words: Limit = None  # different ones
    min_particles: Limit = None  # of the words, ending in a Korean particle
    max_top_word: Limit = None  # of the words, the most frequent one
    max_bullet_lines: Limit = None  # of the lines
    max_ellipsis_lines: Limit = None
    min_punctuated_lines: Limit = None  # ending in punctuation
    max_short_lines: Limit = None  # 30 characters or less
    max_newlines_per_word: Limit = None
    max_policy_lines: Limit = None  # javascript, cookies, terms of use
    max_lorem_ipsum: Limit = None  # times
    max_duplicate_lines: Limit = None  # of the lines
    max_duplicate_line_characters: Limit = None
    max_duplicate_paragraphs: Limit = None
    max_top_2gram: Limit = None  # of the characters, in the most frequent pair of words
    max_top_3gram: Limit = None
    max_top_4gram: Limit = None
    max_duplicate_5gram: Limit = None  # of the characters, in runs of words seen before
    max_duplicate_6gram: Limit = None
    max_duplicate_7gram: Limit = None
    max_duplicate_8gram: Limit = None
    max_duplicate_9gram: Limit = None
    max_duplicate_10gram: Limit = None


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
    "quoted": ("csv", "tsv"),
    "document": ("text",),
    "encoding": ("jsonl", "text", "csv", "tsv", "wikipedia"),
}


def check_encoding(name: str) -> str:
    """The name itself; `ValueError` for one that is no codec of Python for text."""
    try:
        b"a\0".decode(name, "replace")
    except (LookupError, ValueError) as error:
        raise ValueError(
            f"{name!r} is no text encoding; write a codec of Python, such as utf-8, cp949, euc-kr, "
            "shift_jis, gb18030, utf-16"
        ) from error
    return name


class Source(Section):
    """One input of the corpus stage: files of one kind and one language."""

    kind: Kind
    language: Language
    # a glob, local or any fsspec address (gs://...); huggingface: a name on the hub, or a folder
    # that `save_to_disk` wrote
    path: Annotated[str, Field(min_length=1)]
    # the `source` of its documents where the rows name none; huggingface: the data set's subset
    name: str | None = None
    split: str = "train"  # huggingface
    # the next three: jsonl, csv, tsv, parquet, huggingface
    text_field: str = "text"
    # rows that follow one another with the same value are one document
    thread_field: str | None = None
    # the id that the source gives a row, a string or an integer; none: `id`, where the rows have it
    id_field: str | None = None
    # csv, tsv: quotation marks around a cell are not part of it, and it may hold line breaks
    quoted: bool = True
    # text: a document is the whole file, a line, or a block between blank lines
    document: Literal["file", "line", "block"] = "block"
    # jsonl, text, csv, tsv and wikipedia: any codec of Python
    encoding: Annotated[str, AfterValidator(check_encoding)] = "utf-8"
    profile: Profile = "none"  # which quality rules a document must pass
    licence: str | None = None  # where the rows have no `licence` of their own
    max_documents: Count | None = None  # the first N of each file, or of a hub data set

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> Self:
        for option, kinds in _KINDS_OF.items():
            # a default is let through: reports print a config with all its values, to be read again
            is_default = getattr(self, option) == Source.model_fields[option].default
            if self.kind not in kinds and not is_default:
                raise ValueError(
                    f"{option} = {getattr(self, option)!r} is not for kind = {self.kind!r}, only "
                    f"for {', '.join(kinds)}; leave it out"
                )
        return self


class CleanRules(Section):
    """What is changed in a text and what a text must have; may differ by language."""

    repair_mojibake: bool = True
    remove_html: bool = True
    remove_markdown: bool = True
    normalise_hangul: bool = True
    remove_urls: bool = True
    mask_pii: bool = True
    remove_boilerplate: bool = True
    max_repeats: Annotated[int, Field(ge=0, le=10_000)] = 4  # of one character in a row; 0: any
    hanja: Literal["keep", "drop"] = "keep"
    # share of a document's letters that must be in lines of its language; 0: not looked at
    min_language_fraction: Fraction = 0.5
    remove_foreign_lines: bool = False
    # KcELECTRA's: a shorter comment is mostly one word ("굿", "최고"). Of film reviews it drops
    # one in eleven, and under 2 % of their characters
    min_characters: Annotated[int, Field(ge=0)] = 10
    quality: QualityLimits = QualityLimits()  # instead of those of the source's profile


class LanguageRules(Section):
    """`CleanRules` of one language; what is not given is as in `[clean]`."""

    repair_mojibake: bool | None = None
    remove_html: bool | None = None
    remove_markdown: bool | None = None
    normalise_hangul: bool | None = None
    remove_urls: bool | None = None
    mask_pii: bool | None = None
    remove_boilerplate: bool | None = None
    max_repeats: Annotated[int, Field(ge=0, le=10_000)] | None = None
    hanja: Literal["keep", "drop"] | None = None
    min_language_fraction: Fraction | None = None
    remove_foreign_lines: bool | None = None
    min_characters: Annotated[int, Field(ge=0)] | None = None
    quality: QualityLimits | None = None


class LineDedupConfig(Section):
    """Lines that stand in many documents of the corpus (menus, notices, licences)."""

    enabled: bool = True
    min_characters: Count = 20  # shorter lines repeat by chance
    max_documents: Count = 20  # the line stays in the first N documents that hold it


class NearDedupConfig(Section):
    """Documents that are nearly equal, by MinHash."""

    enabled: bool = True
    similarity: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.7  # Jaccard of the shingles
    num_bands: Annotated[int, Field(ge=1, le=64)] = 25
    rows_per_band: Annotated[int, Field(ge=1, le=32)] = 5


class CleanConfig(CleanRules):
    """Raw text to documents (pipeline/)."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    # [clean.language.ko]
    language: Annotated[dict[Language, LanguageRules], Field(default_factory=dict)]
    exact_dedup: bool = True
    line_dedup: LineDedupConfig = LineDedupConfig()
    near_dedup: NearDedupConfig = NearDedupConfig()
    # suites or tasks ("klue", "glue-sst2") read from `decontaminate_data_dir`, or files of texts
    decontaminate_against: tuple[Annotated[str, AfterValidator(check_texts)], ...] = ()
    decontaminate_data_dir: str | None = None  # a folder or "hub"; none: evaluate.data_dir
    max_line_bytes: Count = 20_000_000  # a longer input line is counted as malformed and skipped
    strict: bool = False  # a malformed row stops the run
    # a file that is damaged from some place on (a .gz cut short, a table without its footer), so
    # that nobody knows what is lost; keep: what comes before the damage
    damaged_files: Literal["stop", "keep"] = "stop"
    # the folder in which workers share files while they work, local or any fsspec address
    # (gs://bucket/tmp); none: in the output folder. Runners other than local need one.
    work_dir: str | None = None
    # "local" or any Beam runner name; options follow `--` on the CLI
    runner: Annotated[str, AfterValidator(runner_name)] = "local"

    def rules_for(self, language: str) -> CleanRules:
        """The rules of one language."""
        common = {name: getattr(self, name) for name in CleanRules.model_fields}
        if own := self.language.get(language):
            common |= own.model_dump(exclude_none=True, exclude={"quality"})
            if own.quality:
                changes = own.quality.model_dump(exclude_none=True)
                common["quality"] = self.quality.model_copy(update=changes)
        return CleanRules(**common)
