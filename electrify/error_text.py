"""Errors of other libraries in a line of ours."""


def first_line(error: BaseException) -> str:
    """Of the message; where there is none, what kind of error it is."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
