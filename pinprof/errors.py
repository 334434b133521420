"""What can go wrong, as exceptions: the library raises them, the command line turns them into one line."""


class PinprofError(Exception):
    """Base of every error that pinprof raises on purpose; its text is one line for the user."""


class TraceError(PinprofError):
    """The file cannot be read as a Kineto trace, or holds nothing that the question needs."""


class CaptureError(PinprofError):
    """The program could not be recorded."""


class MeasureError(PinprofError):
    """Two versions of a program could not be measured against each other."""


class UnsafeCopyError(PinprofError):
    """Host memory was used before its asynchronous copy had ended; its text is a report of several lines."""
