"""The networks, most of them other people's: torchvision, timm and transformers build them, with random weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  torch's own name for it

from scripts.pair_programs.parts import Gpt, mlp

CLASSES = 1000
VOCABULARY = 16000


@dataclass(frozen=True)
class Parts:
    """A network whose output is the loss, and one batch for it in host memory."""

    model: nn.Module
    batch: tuple[Tensor, ...]


@dataclass(frozen=True)
class Program:
    """One training program.

    `looked_at`: the prediction may be developed with it. The others are for scoring alone.
    `compiled`: it is measured under torch.compile too.
    """

    name: str
    what: str
    build: Callable[[], Parts]
    optimizer: str
    dtype: torch.dtype | None = None
    """Of autocast; None: float32 throughout."""
    looked_at: bool = False
    compiled: bool = False
    looped: bool = False
    """Whether it is also measured with an optimizer that loops over the parameters."""
    steps: int = 3
    """That are recorded."""


class WithLoss(nn.Module):
    """A network and its loss, with autocast inside of it, as a graph of both needs it."""

    def __init__(self, model: nn.Module, loss: Callable[..., Tensor], dtype: torch.dtype | None) -> None:
        super().__init__()
        self.model, self.loss, self.dtype = model, loss, dtype

    def forward(self, inputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        with torch.autocast(inputs.device.type, self.dtype, enabled=self.dtype is not None):
            return self.loss(self.model(inputs), target)


def _images(count: int, size: int = 224) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, size, size), torch.randint(CLASSES, (count,))


def vision(name: str, count: int, **options: Any) -> Callable[[], Parts]:
    """Return a network of torchvision, and batches of `count` images."""

    def build() -> Parts:
        import torchvision  # noqa: PLC0415  only where it is used

        return Parts(torchvision.models.get_model(name, weights=None, **options), _images(count))

    return build


def from_timm(name: str, count: int) -> Callable[[], Parts]:
    """Return a network of timm, and batches of `count` images."""

    def build() -> Parts:
        import timm  # noqa: PLC0415  only where it is used

        return Parts(timm.create_model(name, num_classes=CLASSES), _images(count))

    return build


class Output(nn.Module):
    """The one output of a network of transformers that the loss is of."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.model(tokens, **self.options).logits
        return logits


def _texts(count: int, length: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(VOCABULARY, (count, length + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def gpt2(count: int, length: int, layers: int) -> Callable[[], Parts]:
    """Return GPT-2 of transformers with this number of layers."""

    def build() -> Parts:
        from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415  only where it is used

        config = GPT2Config(n_layer=layers, n_embd=512, n_head=8, vocab_size=VOCABULARY, n_positions=length)
        return Parts(Output(GPT2LMHeadModel(config), use_cache=False), _texts(count, length))

    return build


def bert(count: int, length: int, layers: int) -> Callable[[], Parts]:
    """Return BERT of transformers that classifies texts."""

    def build() -> Parts:
        from transformers import BertConfig, BertForSequenceClassification  # noqa: PLC0415  only where it is used

        config = BertConfig(num_hidden_layers=layers, hidden_size=512, num_attention_heads=8, intermediate_size=2048)
        config.num_labels = CLASSES
        batch = torch.randint(VOCABULARY, (count, length)), torch.randint(CLASSES, (count,))
        return Parts(Output(BertForSequenceClassification(config)), batch)

    return build


class Recurrent(nn.Module):
    """Two layers of LSTM over words."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.cells = nn.Embedding(VOCABULARY, width), nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.head(self.cells(self.words(tokens))[0])
        return logits


class GptLogits(nn.Module):
    """A small GPT without its loss."""

    def __init__(self, width: int, depth: int, length: int) -> None:
        super().__init__()
        self.gpt = Gpt(VOCABULARY, length, width, depth)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        hidden = self.gpt.tokens(tokens) + self.gpt.positions(places)
        logits: Tensor = self.gpt.head(self.gpt.blocks(hidden))
        return logits


def loss_of(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of classes, or of words."""
    return F.cross_entropy(logits.flatten(0, -2).float(), target.flatten())


BF16 = torch.bfloat16
PROGRAMS = (
    Program("resnet18", "ResNet-18, 8 images", vision("resnet18", 8), "sgd", None, True, True, True),
    Program("vit", "ViT-B/16, 8 images, bf16", vision("vit_b_16", 8), "adamw", BF16, True, True, steps=2),
    Program(
        "mobilenet", "MobileNetV3 small, 16 images", vision("mobilenet_v3_small", 16), "adam", None, True, looped=True
    ),
    Program("gpt2", "GPT-2 of 8 layers, 4 texts of 256, bf16", gpt2(4, 256, 8), "adamw", BF16, True, True, steps=2),
    Program(
        "policy",
        "a network of 8 small layers, 64 rows",
        lambda: Parts(mlp(64, 64, 6, CLASSES), (torch.randn(64, 64), torch.randint(CLASSES, (64,)))),
        "adam",
        looked_at=True,
        looped=True,
        steps=6,
    ),
    Program("resnet50_large", "ResNet-50, 96 images, bf16", vision("resnet50", 96), "sgd", BF16, True),
    Program(
        "efficientnet", "EfficientNet-B0, 8 images", vision("efficientnet_b0", 8), "adam", None, False, True, steps=2
    ),
    Program("resnet50", "ResNet-50, 16 images, bf16", vision("resnet50", 16), "sgd", BF16, looped=True),
    Program("bert", "BERT of 6 layers, 16 texts of 128, bf16", bert(16, 128, 6), "adamw", BF16, False, True, steps=2),
    Program("convnext", "timm's ConvNeXt tiny, 8 images, bf16", from_timm("convnext_tiny", 8), "adamw", BF16, steps=2),
    Program("swin", "Swin tiny, 8 images, bf16", vision("swin_t", 8), "adamw", BF16, steps=2),
    Program(
        "lstm",
        "two layers of LSTM, 32 texts of 64",
        lambda: Parts(Recurrent(512), _texts(32, 64)),
        "adam",
        looped=True,
        steps=6,
    ),
    Program("mixer", "timm's MLP-Mixer S/16, 32 images", from_timm("mixer_s16_224", 32), "adamw", None),
    Program(
        "small_gpt",
        "a GPT of 6 layers, 8 texts of 64",
        lambda: Parts(GptLogits(384, 6, 64), _texts(8, 64)),
        "adamw",
        compiled=True,
        looped=True,
    ),
)


def program(name: str) -> Program:
    """Return the program of this name; raises StopIteration if there is none."""
    return next(program for program in PROGRAMS if program.name == name)
