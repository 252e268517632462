"""The visible text of a page; no page is slow or hides text."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.text.characters import SLICE
from elwood.foundation.text.readable import (
    MAX_ELEMENTS,
    Readable,
    UnreadablePage,
    article,
    decode,
    readable,
)
from elwood.foundation.text.words import fold

URL = "https://site.example/dir/page"
MANY = 10_000


def read(html: str) -> Readable:
    found = article(html, URL)
    assert found is not None
    return found


def text(html: str) -> str:
    return read(html).text


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>A<br>b</h2><p>c<p>d", "## A b\n\nc\n\nd"),
        ("<ul><li>a<li>b<ol><li>c<li>d</ol><li>e</ul>", "- a\n- b\n  1. c\n  2. d\n- e"),
        (
            "<table><tr><th>A<th>B<tr><td>1|2<td>3</table>",
            "| A | B |\n| --- | --- |\n| 1\\|2 | 3 |",
        ),
        ("<table><tr><td><p>laid out</table>", "laid out"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("use <code>ls</code>", "use `ls`"),
        ("<blockquote>a<p>b</blockquote>c", "> a\n\n> b\n\nc"),
        ("<a href='../x y'>t</a>", "t (https://site.example/x%20y)"),
        ("<base href=//o.example/><a href=x>t</a>", "t (https://o.example/x)"),
        ("<a href=javascript:x>a</a> <a href=#top>b</a> <a href='http://[x'>c</a>", "a b c"),
        ("<a href=/c><h3>Card</h3><p>Body</p></a>", "### Card (https://site.example/c)\n\nBody"),
        ("a<img src=x alt=picture>b", "ab"),
        ("1 &lt; 2 &amp;&#x41;&#99999999999999;", "1 < 2 &A\ufffd"),
        ("a<!-- b -->c<!--->d<![CDATA[e]]>f", "acdf"),
        ("<p title='>'>a</p>", "a"),
    ],
)
def test_html_becomes_markdown(html: str, expected: str) -> None:
    assert text(html) == expected


@pytest.mark.parametrize(
    "html",
    [
        "<p hidden>EVIL</p>",
        "<p HIDDEN=until-found>EVIL</p>",
        "<div aria-hidden='true'><p>EVIL</div>",
        "<div style='color:red; DISPLAY : none'><div></div>EVIL</div>",
        "<div style='visibility:hidden'>EVIL</div>",
        "<span style='font-size:0.0em'>EVIL</span>",
        "<span style='opacity:0'>EVIL</span>",
        "<span style='position:absolute;left:-9999px'>EVIL</span>",
        "<script>'</p>EVIL'</script>",
        "<style>EVIL</style>",
        "<template><p>EVIL</template>",
        "<noscript>EVIL</noscript>",
        "<nav><ul><li>EVIL</ul></nav>",
        "<aside>EVIL</aside>",
        "<div role=navigation>EVIL</div>",
        "<div hidden><p></span></section>EVIL</div>",
        "<table hidden><tr><td></div>EVIL</table>",
        "<svg><text>EVIL</text></svg>",
        "<select><option>EVIL</select>",
        "<dialog>EVIL</dialog>",
        "<!-- EVIL -->",
    ],
)
def test_only_invisible_content_is_dropped(html: str) -> None:
    assert text(f"<p>before</p>{html}<p>after</p>") == "before\n\nafter"


@pytest.mark.parametrize(
    "html",
    [
        "<p style='font-size:0.9em;opacity:0.5;left:-2px'>seen",
        "<p hidden>x<div>seen",
        "<p>seen</x>",
        "<a class='hidden sm:block' style='color:red'>seen",
    ],
)
def test_visible_content_is_kept(html: str) -> None:
    assert text(html) == "seen"


def test_the_main_element_is_the_page() -> None:
    long = "word " * 60
    page = f"<header>Site</header><main><h1>T</h1>{long}</main><div>Cookies?</div>"
    assert text(page) == f"# T\n\n{long.strip()}"
    assert "Cookies" in text("<main>short</main><div>Cookies?</div>")
    marked = f"<div role=main><div>{long}</div>x</div>rest"
    assert text(marked) == f"{long.strip()}\n\nx"


@pytest.mark.parametrize(
    "shape",
    [
        "<div>", "<b><p>x", "<ul><li>x", "<table><tr><td>x", "<a href=x>y", "<a ", '<a ="', "<",
        "</p>", "<!--", "&", "&#9", "</div>", "<p style='/*", "<pre>`", "<base href=/", "<dl><dd>",
        "<svg/>", "<script>", "<blockquote>", "<title>", "<i></b>", "x<br>",
    ],
)  # fmt: skip
def test_a_hostile_page_is_read_in_linear_time_or_refused(shape: str) -> None:
    """Quadratic time would be minutes."""
    found = article(shape * MANY, URL)
    assert found is None or len(found.text) <= len(shape) * MANY * 8


def test_a_tag_with_thousands_of_attributes_is_refused() -> None:
    many = "".join(f" a{n}=b" for n in range(60_000))
    for page in (f"<p{many}>x", f"<script{many}></script>x", f"<p{many}", f"<p a='>'{many}>x"):
        assert readable(page.encode(), "text/html", URL) == UnreadablePage(
            "a page with implausible tags"
        )
    assert text(f"a<img src='data:image/png;base64,{'A' * 300_000}'>b") == "ab"
    assert text(f"<script>{many}</script>a") == "a"


def test_a_large_page_is_cut() -> None:
    found = read("<div>x</div>" * (3_000_000 // 12))
    assert found.is_cut
    assert MAX_ELEMENTS - 2 <= found.text.count("x") <= MAX_ELEMENTS
    found = read("<div>x" * 500_000)
    assert found.is_cut
    assert found.text.startswith("x")


WORDS = (
    "< > / </ p div ul li td tr table <table> <td> href= \" ' x <pre> </pre> <li> </ul> </table> "
    "<main> <title> <blockquote> </blockquote> <!-- --> hidden = &amp <h1> <b> </b> <a </a>"
)


@given(st.lists(st.sampled_from([" ", *WORDS.split()])).map("".join))
def test_any_html_is_read(html: str) -> None:
    article(html, URL)


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        ("ä€".encode(), "text/html", "ä€"),
        ("ä€".encode(), "text/html; charset=windows-1252", "ä€"),
        ("ä€".encode("cp1252"), "text/html", "ä€"),
        ("Привет".encode("cp1251"), 'text/html; charset="Windows-1251"', "Привет"),
        ("<meta charset='shift_jis'>日本".encode("cp932"), "", "<meta charset='shift_jis'>日本"),
        ("日本".encode("iso2022-jp"), "text/plain;charset=iso-2022-jp", "日本"),
        ("é".encode("utf-16"), "text/html; charset=utf-8", "é"),
        (b"\xe4", "text/html; charset=punycode", "ä"),
        ("a€".encode()[:-1], "text/plain", "a\ufffd"),
        (b"\xff", "text/html; charset=utf-8", "\ufffd"),
    ],
)
def test_the_encoding_is_detected(body: bytes, content_type: str, expected: str) -> None:
    assert decode(body, content_type) == expected


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"%PDF-1.7 x", "text/html", "a PDF document"),
        (
            b"PK\x03\x04",
            "application/vnd.oasis.opendocument.text",
            "a ZIP archive or an office document",
        ),
        (gzip.compress(b"x", mtime=0), "application/octet-stream", "a gzip archive"),
        (b"a\0b", "text/plain", "binary data"),
        (b"abc", "application/octet-stream", "neither a page nor text"),
        (b"abc", "image/svg", "neither a page nor text"),
    ],
)
def test_binary_content_is_named(body: bytes, content_type: str, why: str) -> None:
    assert readable(body, content_type, URL) == UnreadablePage(why)


@pytest.mark.parametrize("content_type", ["text/plain", "application/ld+json; x", "text/csv", ""])
def test_other_text_is_unchanged(content_type: str) -> None:
    assert readable(b'{"a": "<b>"}', content_type, URL) == Readable("", '{"a": "<b>"}')


def test_only_invisible_characters_are_dropped() -> None:
    smuggled = "".join(chr(0xE0000 + ord(char)) for char in "ignore")
    body = f"a\u200b{smuggled}b\u202ec \u0645\u06cc\u200c\u0634\u0648\u062f".encode()
    assert readable(body, "text/plain", URL) == Readable(
        "", "abc \u0645\u06cc\u200c\u0634\u0648\u062f"
    )


def test_a_long_text_reads_like_a_short_one() -> None:
    """At each cut: spaces stay single, lines stay lines, and invisible text is removed."""
    words = "one  two\u200b\t three\r\nfour &nbsp; five "
    body = words * (3 * SLICE // len(words))
    page = readable(f"<title>{body}</title><p>{body}</p>".encode(), "text/html", URL)
    assert isinstance(page, Readable)
    assert page.text == ("one two three four five " * (3 * SLICE // len(words))).strip()
    assert page.title.startswith("one two three four five one")
    assert len(page.title) < SLICE
    plain = readable(("a \r\n" * SLICE).encode(), "text/plain", URL)
    assert isinstance(plain, Readable)
    assert plain.text == "a \n" * SLICE


def test_any_number_of_marks_is_removed() -> None:
    """Normalizing all of these in one call takes minutes."""
    assert fold("a" + "\u0301\u0316" * 200_000 + "É") == "ae"
