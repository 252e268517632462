"""The parser of server-sent events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.net.http import EventParser, Interrupted


def parse(*chunks: bytes) -> list[bytes]:
    parser = EventParser()
    return [data for chunk in chunks for data in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\r\n\r\ndata: b\n\r\n", [b"a", b"b"]),
        (b"event: ping\ndata: {}\n\n", [b"{}"]),
        (b": a comment\n\ndata: a\n:\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\ndata:  b\ndata\n\n", [b"a\n b\n"]),
        (b"event: x\n\ndata: a\n\n", [b"a"]),
        (b"id: 4\nretry: 10\nunknown: 1\ndata: a\n\n", [b"a"]),
        (b"data: a\n", []),
        (b"data: a", []),
        ("data: \u2028\u0085\x0b\x0c\x1e\n\n".encode(), ["\u2028\u0085\x0b\x0c\x1e".encode()]),
    ],
)
def test_events_are_parsed_by_the_standard(stream: bytes, expected: list[bytes]) -> None:
    assert parse(stream) == expected
    assert parse(*(bytes([byte]) for byte in stream)) == expected


LINES = st.lists(
    st.one_of(
        st.sampled_from([b"", b"data: x", b"data:", b"event: ping", b": note", b'data: {"a": 1}']),
        st.binary(max_size=12).map(lambda line: line.replace(b"\r", b"").replace(b"\n", b"")),
    ),
    max_size=12,
)
ENDINGS = st.sampled_from([b"\n", b"\r\n"])


@given(st.data(), LINES)
def test_chunks_and_line_endings_do_not_matter(data: st.DataObject, lines: list[bytes]) -> None:
    expected = parse(b"".join(line + b"\n" for line in lines))
    ending = data.draw(ENDINGS)
    stream = b"".join(line + ending for line in lines)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    chunks = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    assert parse(*chunks) == expected


@pytest.mark.parametrize(
    "piece", [b"data: xxxxxxxx", b"data: xxxxxxxx\n", b"data\n", b"\r\ndata: xx"]
)
def test_an_endless_event_is_refused(piece: bytes) -> None:
    parser = EventParser(limit=1000)

    def feed_for_ever() -> None:
        for _ in range(2000):
            parser.feed(piece)

    with pytest.raises(Interrupted, match="longer than 1000 bytes"):
        feed_for_ever()
