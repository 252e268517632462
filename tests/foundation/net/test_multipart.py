"""Forms with files, read back by a parser with the manners of the Bot API's server."""

from email.parser import BytesParser

from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.foundation.net.multipart import MAX_NAME, encode, sendable
from tests.fake_http import Request

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.dictionaries(st.sampled_from(["chat_id", "caption", "reply_markup"]), TEXT),
    st.text(),
    st.binary() | st.just(b"\r\n--") | st.just(b"--\r\n--x--\r\n\r\n"),
)
@settings(max_examples=100)
def test_what_went_in_comes_out(fields: dict[str, str], name: str, data: bytes) -> None:
    kind, body = encode(fields, "document", name, data)
    got, files = Request("POST", "/", {"content-type": kind.decode()}, body).form()
    assert got == fields
    assert files == {"document": (sendable(name), data)}


@given(st.text())
def test_a_name_stays_in_its_line_and_shows_what_it_is(name: str) -> None:
    safe = sendable(name)
    assert 0 < len(safe) <= MAX_NAME
    assert not set(safe) & set('\r\n";/\\\u202e\0')
    assert safe.strip(". ")
    assert sendable(safe) == safe


def test_a_long_name_keeps_its_ending() -> None:
    assert sendable("x" * 500 + ".tar.gz").endswith("x.gz")
    assert len(sendable("." + "x" * 500)) == MAX_NAME


def test_another_parser_reads_the_same() -> None:
    kind, body = encode({"caption": "Grüße"}, "document", "a b.txt", b"text")
    message = BytesParser().parsebytes(b"Content-Type: " + kind + b"\r\n\r\n" + body)
    _, caption, document = message.walk()
    assert caption.get_payload(decode=True) == "Grüße".encode()
    assert document.get_filename() == "a b.txt"
    assert document.get_payload(decode=True) == b"text"


def test_a_file_cannot_hold_the_boundary_of_another() -> None:
    kind, body = encode({}, "document", "a", b"one")
    other, _ = encode({}, "document", "a", body)
    assert kind != other
    assert other.partition(b"=")[2] not in body
