"""URLs parse in one way, addresses have one verdict, and rules have one order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.net.egress import Windows, destination, is_public
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import MAX_URL, RefusedUrl, Url, follow, parse

HERE = Url("https", "a.example", 443, "/dir/page?q")
WORDS = (
    "http https :// // / \\ @ : 80 8080 [ ] ::1 . ? # % %41 127 0x7f 1.1.1.1 a b.example xn-- - _ "
    "* ä ß \u3002 \u0131 \u200b \ud800 \0"
)
PIECES = st.lists(st.sampled_from([" ", "\n", *WORDS.split()])).map("".join)


@given(st.one_of(st.text(), PIECES, PIECES.map("https://a.example/".__add__)))
def test_any_text_is_refused_or_parsed_in_one_way(text: str) -> None:
    url = parse(text)
    if isinstance(url, Url):
        assert parse(url.text) == url
        assert url.text.isascii()
        assert len(url.text) <= MAX_URL


@given(st.one_of(st.text(), PIECES))
def test_a_redirect_leads_to_a_valid_url(location: str) -> None:
    led = follow(HERE, location, 0)
    assert isinstance(led, RefusedUrl) or parse(led.text) == led


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("https://straße.example/", "https://xn--strae-oqa.example/"),
        ("https://good.example./x", "https://good.example/x"),
        ("http://a.example:80?b c".replace(" ", "%20"), "http://a.example/?b%20c"),
        ("http://[2606:4700:0:0::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("https://a.example/日本|x", "https://a.example/%E6%97%A5%E6%9C%AC%7Cx"),
    ],
)
def test_the_canonical_form_is_sent(text: str, canonical: str) -> None:
    url = parse(text)
    assert isinstance(url, Url)
    assert url.text == canonical


@pytest.mark.parametrize(
    "text",
    [
        "http://BÜCHER.example/",  # needs mapping
        "http://a\u0308.example/",  # not normalized
        "http://\uff11.example/",
        "http://intranet/",
        "http://a..example/",
        "http://-a.example/",
        "http://a.example:080/",
        "http://a.example:/",
        "http://1.2.3.4.5/",
        "http://1.2.3.04/",
        "http://a.0x/",
        "https://a.example/" + "x" * MAX_URL,
        "https://a.example/" + "ä" * (MAX_URL // 4),
    ],
)
def test_an_irregular_host_is_refused(text: str) -> None:
    assert isinstance(parse(text), RefusedUrl)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("168.63.129.16", False),
        ("168.63.129.17", True),
        ("2001:4860::1", True),
        ("2001:1ff::1", False),
        ("2606:4700::5efe:7f00:1", False),
        ("2606:4700::200:5efe:101:101", False),
        ("4000::1", False),
        ("::", False),
        ("01.1.1.1", False),
        ("", False),
    ],
)
def test_public_addresses_match_our_list(address: str, expected: bool) -> None:
    assert is_public(address) is expected


def test_blocked_precedes_asked_precedes_allowed() -> None:
    rules = EgressRules(
        allowed=("example.org",),
        always_ask=("*.Mail.example.org.",),
        blocked=("b.mail.example.org", "bücher.example", "93.184.215.14", "2606:4700:0::7"),
    )
    verdicts = {
        "example.org": "allowed",
        "x.example.org": "allowed",
        "mail.example.org": "ask",
        "a.b.mail.example.org": "blocked",
        "xn--bcher-kva.example": "blocked",
        "93.184.215.14": "blocked",
        "2606:4700::7": "blocked",
        "badexample.org": "open",
        "org": "open",
    }
    assert {host: destination(rules, host) for host in verdicts} == verdicts


@pytest.mark.parametrize("name", ["", "a b", "http://a.example", "1.2.3", "a/b"])
def test_a_rule_without_a_domain_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a domain name"):
        EgressRules(blocked=(name,))


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from("abc")), max_size=80))
def test_no_minute_exceeds_its_limit(steps: list[tuple[float, str]]) -> None:
    windows, now = Windows(per_host=3, total=5), 0.0
    went: list[tuple[float, str]] = []
    for pause, host in steps:
        now += pause
        if (wait := windows.wait(host, now)) > 0:
            now += wait
            assert windows.wait(host, now) == 0
        went.append((now, host))
        recent = [name for at, name in went if now - at < 60 - 1e-3]
        assert len(recent) <= 5
        assert recent.count(host) <= 3
