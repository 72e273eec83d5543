"""The exception for errors that users can fix, and the one-line form of any exception."""


class HeedError(ValueError):
    """An error the user can fix: its message says what is wrong, where, and what to do.

    Entry points print the message without a traceback and exit with status 2.
    """


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type where the message is empty."""
    return (str(error).splitlines() or [type(error).__name__])[0]
