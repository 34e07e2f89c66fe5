"""What stands in documents for personal data: words that are never split.

They are text, not special tokens: they are masked and predicted like any other, and decoding keeps
them. Only documents hold them; whoever types `<email>` means the same.
"""

from electrify.config import RunConfig

MASK_KINDS = ("email", "phone", "rrn", "card", "business", "account", "ip", "plate")
MASK_WORDS = tuple(f"<{kind}>" for kind in MASK_KINDS)


def mask_words_of(config: RunConfig) -> tuple[str, ...]:
    """Those that the run's documents can hold: all, or none if no language's are masked."""
    languages = {source.language for source in config.clean.sources}
    masked = any(config.clean.rules_for(language).mask_pii for language in languages)
    return MASK_WORDS if masked else ()
