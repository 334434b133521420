"""The exceptions of pinprof: the library raises them, the command line prints each in one line."""

TRACEBACK_VARIABLE = "PINPROF_TRACEBACK"


class PinprofError(Exception):
    """Base of every error that pinprof raises on purpose; its text is one line for the user."""


class TraceError(PinprofError):
    """The file cannot be read as a Kineto trace, or lacks what is needed."""


class CaptureError(PinprofError):
    """The program could not be recorded."""


class TooFewSteps(CaptureError):  # noqa: N818  a reason, as the others of the library
    """The program ended before a step was recorded; `recordable` steps of it can be recorded, 0 for none."""

    def __init__(self, text: str, recordable: int) -> None:
        super().__init__(text)
        self.recordable = recordable


class UnsafeCopyError(PinprofError):
    """Host memory was used before its asynchronous copy had ended; its text is a report of several lines."""


def unexpected(error: BaseException) -> str:
    """Return the message for an unexpected error in pinprof itself, which asks the user to report it."""
    text = f"{type(error).__name__}: {error}".removesuffix(": ").replace("\n", " ")
    return f"pinprof itself failed ({text}); please report this with the output under {TRACEBACK_VARIABLE}=1"
