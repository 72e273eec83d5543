"""The one exception a user may see."""


class HeedError(ValueError):
    """Something the user can mend: the message says in a sentence what is wrong, where, and what to do.

    Entry points print it without a traceback and exit with status 2.
    """
