"""The limits of the quality rules, which a config may set for all languages or for one."""

from typing import Annotated

from pydantic import Field

from electrify.config_section import Section

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
