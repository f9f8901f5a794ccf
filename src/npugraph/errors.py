"""Errors that a user can act on: each message is one sentence that says what to do."""


class NpugraphError(Exception):
    """Base of every error raised on purpose; the command line prints it and exits 2."""


class DataError(NpugraphError):
    """The input cannot be used as it is: the message names the file, the line and the value."""


class SettingsError(NpugraphError):
    """A setting is unknown or out of range: the message names it and the nearest right one."""


class RunError(NpugraphError):
    """A run folder cannot be used: missing, broken, or made by other settings."""


def nearest(name: str, names: "list[str] | tuple[str, ...]") -> str:
    """Return a hint such as `` Did you mean 'fb15k'?``, or nothing where no name is close.

    >>> nearest("fb15", ["fb15k", "wn18"])
    " Did you mean 'fb15k'?"
    >>> nearest("zzz", ["fb15k"])
    ''
    """
    import difflib

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
