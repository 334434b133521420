"""Reads pages back: their tags, their words, and the figures packed in them."""

import base64
import json
import zlib
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "br", "link", "img", "hr", "input", "wbr"}


class Page(HTMLParser):
    """A page's tags and text; code of scripts and styles is kept apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.misnested: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop()[0] != tag:
            self.misnested.append(tag)

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script":
            self.scripts.append((attributes, data))
        elif tag == "style":
            self.styles.append(data)
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """What a person reads, with single spaces."""
        return " ".join(" ".join(self.words).split())

    @property
    def figures(self) -> list[dict[str, Any]]:
        """What the page's timelines are drawn from: the header of each, without its columns."""
        packed = [code for attributes, code in self.scripts if attributes.get("type") == "application/x-deflate"]
        blocks = [zlib.decompress(base64.b64decode(code)) for code in packed]
        return [json.loads(block[4 : 4 + int.from_bytes(block[:4], "little")]) for block in blocks]
