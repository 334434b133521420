"""Whether this machine has what the experiments need."""


def why_no_gpu() -> str | None:
    """Return what is missing, and the way out; None if nothing is."""
    try:
        import torch  # noqa: PLC0415  whether it can be imported is the question
    except ImportError:
        return "torch cannot be imported; install PyTorch with CUDA"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA; install one that has it"
    return None if torch.cuda.is_available() else "torch sees no CUDA GPU; run it on a machine with one (nvidia-smi)"
