"""Names of places: which are URLs, and what is not shown of them."""

import pytest

from pinprof.urls import is_url, redacted, shown


@pytest.mark.parametrize(
    "path", ["s3://bucket/a.json", "HTTPS://host/a", "simplecache::s3://b/a", "zip://a.json::s3://b/a"]
)
def test_urls_are_told(path: str) -> None:
    assert is_url(path)


@pytest.mark.parametrize(
    "path",
    [
        "trace.json",
        "C:\\runs\\a.json",
        "C:/a.json",
        "C://a.json",
        "12:30.json",
        "a:b",
        "./s3://x",
        "-",
        "",
        "://a",
        "a//b",
    ],
)
def test_names_with_colons_and_drives_are_paths(path: str) -> None:
    assert not is_url(path)
    assert shown(path) == ("standard input" if path == "-" else path)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("s3://bucket/run/rank?.json", "s3://bucket/run/rank?.json"),
        ("s3://bucket/a@b.json", "s3://bucket/a@b.json"),
        ("http://host:8080/a@b.json", "http://host:8080/a@b.json"),
        ("https://user:secret@host/a.json", "https://***@host/a.json"),
        ("https://secret@host:80/a@b.json", "https://***@host:80/a@b.json"),
        ("https://user:sec@ret@host/a.json", "https://***@host/a.json"),
        ("s3://KEY:sec/ret@bucket/a.json", "s3://***@bucket/a.json"),
        ("https://user:123@host/a.json", "https://***@host/a.json"),
        ("https://host/a.json?X-Amz-Signature=secret&b=c", "https://host/a.json?***"),
        ("simplecache::https://user:secret@host/a?sig=secret", "simplecache::https://***@host/a?***"),
        ("zip://a.json::https://u:secret@host/a.zip?secret", "zip://a.json::https://***@host/a.zip?***"),
    ],
)
def test_secrets_are_not_shown(url: str, text: str) -> None:
    assert shown(url) == text
    assert shown(text) == text  # once is enough
    assert redacted(f"{url}: no such file") == f"{text}: no such file"


def test_secrets_in_a_sentence_are_not_shown() -> None:
    text = "404, url='https://u:secret@host/a?sig=secret', and s3://k:secret@b/c; train.py:12"
    assert redacted(text) == "404, url='https://***@host/a?***', and s3://***@b/c; train.py:12"
