"""What stands in documents for personal data: words that are never split.

They are text, not special tokens: they are masked and predicted like any other, and decoding keeps
them. Only documents hold them; whoever types `<email>` means the same.
"""

MASK_KINDS = ("email", "phone", "rrn", "card", "business", "account", "ip", "plate")
MASK_WORDS = tuple(f"<{kind}>" for kind in MASK_KINDS)
