"""The callback of PyTorch Lightning, under the name that programs import it by."""

from pinprof.capture.integrations.lightning import PinprofCallback

__all__ = ["PinprofCallback"]
