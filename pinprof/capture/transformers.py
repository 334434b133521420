"""The callback of Hugging Face's transformers, under the name that programs import it by."""

from pinprof.capture.integrations.transformers import PinprofCallback

__all__ = ["PinprofCallback"]
