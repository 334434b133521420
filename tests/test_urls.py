"""Names of places: which are URLs, and what is not shown of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinprof.ground.urls import has_secret_of, is_url, redacted, shown


@pytest.mark.parametrize(
    "path", ["s3://bucket/a.json", "HTTPS://host/a", "simplecache::s3://b/a", "zip://a.json::s3://b/a"]
)
def test_urls_are_told(path: str) -> None:
    assert is_url(path)


@pytest.mark.parametrize(
    "path",
    [
        *("trace.json", "C:\\runs\\a.json", "C:/a.json", "C://a.json", "12:30.json", "a:b", "./s3://x", "-", ""),
        *("://a", "a//b"),
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
        ("https://host/a.json#token=secret", "https://host/a.json#***"),
        ("https://host/a.json?a=1;token=secret#b", "https://host/a.json?***"),
        ("https://host/a.json?a='1'&token=secret", "https://host/a.json?***"),
        ("s3://bucket/a.json?X-Amz-Signature=secret", "s3://bucket/a.json?***"),
        ("https://host/a.json?to=b::https://secret/c", "https://host/a.json?***"),
        ("zip://a.json::https://u:secret@host/a.zip?secret", "zip://a.json::https://***@host/a.zip?***"),
    ],
)
def test_secrets_are_not_shown(url: str, text: str) -> None:
    assert shown(url) == text
    assert shown(text) == text  # once is enough
    assert redacted(f"{url}: no such file") == f"{text}: no such file"


SECRET = "S3CRETtoken"
AROUND = st.text(st.sampled_from("ab1.:;,#?/&='\"+%!$*()~ _-[]"), max_size=6)
"""What may stand next to a secret."""
IN_USER = st.text(st.sampled_from("ab1.;,&='\"+%!$*()~ _-"), max_size=6)


@st.composite
def urls_with_secrets(draw: st.DrawFn) -> str:
    """Return a URL with a secret in the user, a path parameter, the query or the fragment."""
    scheme = draw(st.sampled_from(["http://", "https://", "HTTPS://", "simplecache::https://"]))
    secret = f"{draw(AROUND)}{SECRET}{draw(AROUND)}"
    user = draw(st.sampled_from(["", "{0}@", "name:{0}@", "{0}:word@"])).format(
        f"{draw(IN_USER)}{SECRET}{draw(IN_USER)}"
    )
    parameter = draw(st.sampled_from(["", f";{secret.replace('/', '')}"]))
    ending = draw(st.sampled_from(["", f"?{secret}", f"#{secret}", f"?a=1&b={secret}", f"?a=1;b={secret}#c"]))
    return f"{scheme}{user}host:80/run{parameter.replace('?', '').replace('#', '')}/a.json{ending}"


@given(urls_with_secrets())
def test_a_secret_anywhere_in_a_url_is_not_shown(url: str) -> None:
    assert SECRET not in shown(url)
    assert "host:80/run" in shown(url)
    assert shown(shown(url)) == shown(url)
    assert SECRET not in redacted(f"{shown(url)}: no such file")


@given(urls_with_secrets())
def test_an_error_that_quotes_a_secret_in_any_form_is_known(url: str) -> None:
    for word in re.findall(rf"\w*{SECRET}\w*", url):
        assert has_secret_of(f"cannot connect to host with password {word}", url)
    assert not has_secret_of("404 Not Found", url)


@given(urls_with_secrets().map(lambda url: url.replace(" ", "")))
def test_a_secret_is_not_shown_in_a_sentence(url: str) -> None:
    for sentence in (url, f"url='{url}'", f'404, "{url}", and more', f"see <{url}>."):
        assert SECRET not in redacted(sentence)
