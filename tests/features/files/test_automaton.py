"""The linear search finds what `re` finds, and no expression makes it slow."""

import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elwood.features.files.automaton import OutOfBudget, Search
from elwood.features.files.regex import BadExpression, read

LETTERS = "abB_1 é-"
ONE = st.sampled_from([
    "a", "b", "B", "1", "é", ".", r"\d", r"\w", r"\s", r"\W", r"\D", r"\S", r"\.", r"\x61",
    "[ab]", "[^a]", "[a-z1]", r"[\d_]", r"[^\w-]", "[]a]", "[a-]", "-", "_", " ",
])  # fmt: skip
PLACE = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\Z"])
TIMES = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{0}", "{1,}", "*?", "+?", "??"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = inner.map("(?:{})".format) | inner.map("({})".format)
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("|".join)
        | st.tuples(group, TIMES).map("".join)
    )


EXPRESSIONS = st.recursive(ONE | PLACE | st.tuples(ONE, TIMES).map("".join), _grown, max_leaves=8)


# Not the empty line: until Python 3.14 \B does not find itself there.
LINES = st.lists(st.text(LETTERS, min_size=1, max_size=12), min_size=1, max_size=6)


@settings(max_examples=600, deadline=None)
@given(EXPRESSIONS, LINES, st.booleans())
@example("B[^a]", ["Ba - _"], True)
def test_it_finds_what_re_finds(expression: str, lines: list[str], ignore_case: bool) -> None:
    flags = re.IGNORECASE if ignore_case else 0
    model = re.compile(expression, flags)
    search = Search(expression, ignore_case=ignore_case)
    for line in lines:
        found = search.find(line)
        assert (found is not None) is (model.search(line) is not None), (expression, line)
        if found is not None:
            ends = [m.end() for at in range(len(line) + 1) if (m := model.match(line, at))]
            assert found <= min(ends)


# Of "[[]" Python warns that it may mean something else one day.
@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@settings(max_examples=500, deadline=None)
@given(st.text("ab(|)*+?{}[]^$.\\-,:12dPi<>", max_size=14))
def test_what_can_be_read_means_what_it_means_to_re(expression: str) -> None:
    try:
        search = Search(expression)
    except BadExpression:
        return
    model = re.compile(expression)
    for line in ("", "a", "ab", "aab1", "{1}", "b,a:b", "a-b"):
        assert (search.find(line) is not None) is (model.search(line) is not None)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (r"(a)\1", "back-references"),
        ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"),
        ("a(?i)b", "look-around, and flags"),
        ("(a", r"a \) is missing"),
        ("a)", r"a \) too many"),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("*a", "nothing to repeat"),
        ("a**", "is repeated"),
        ("a++", "not supported"),
        ("a{3,2}", "the smaller one"),
        ("a{1001}", "more than 1000"),
        ("[z-a]", "no range"),
        ("[[:space:]]", r"write \\s"),
        (r"\q", "not known"),
        (r"\x1", "2 hexadecimal"),
        ("(" * 60 + ")" * 60, "nested"),
        ("((a{100}){100}){100}", "too large"),
        ("((a{0}){1000}){1000}", "too large"),
    ],
)
def test_what_is_refused_says_why(expression: str, why: str) -> None:
    with pytest.raises(BadExpression, match=why):
        Search(expression)


def test_what_looks_like_a_count_and_is_none_is_text() -> None:
    assert Search("{").find("a{") == 2
    assert Search("a{x}").find("a{x}") == 4
    assert Search("${HOME}").find("x") is None


def test_case_is_ignored_by_flag_and_by_sign() -> None:
    assert read("(?i)a").ignore_case
    assert Search("(?i)straße").find("STRAßE") == 6
    assert Search("[a-f]x", ignore_case=True).find("DX") == 2


@pytest.mark.parametrize(
    "expression",
    [
        "(a+)+$", "(a|a)*b", "(a*)*c", "a*a*a*a*a*a*a*a*b", ".*.*.*.*=.*", "(.?){30}b{30}",
        "(a|b)*a(a|b){9}c", r"(\w+\s?)*!", "^(([a-z])+.)+[A-Z]([a-z])+$",
    ],
)  # fmt: skip
def test_no_expression_makes_it_slow(expression: str) -> None:
    """What it costs grows as the line does; `re` would need years for some of these."""
    costs = []
    for size in (2_000, 20_000):
        search = Search(expression)
        search.find("ab" * (size // 4) + "a" * (size // 2))
        costs.append(search.spent)
    short, long = costs
    assert long <= 12 * short


def test_what_costs_too_much_ends_in_the_middle_of_a_line() -> None:
    search = Search("((a|b|c)*a(a|b|c){30}){5}[de]", budget=100_000)
    with pytest.raises(OutOfBudget):
        search.find("abcaabbcca" * 5_000)
    assert search.spent < 200_000
    with pytest.raises(OutOfBudget):
        Search("a.c", budget=10).find("abd" * 10)


def test_states_without_end_are_forgotten_and_cost_what_they_cost() -> None:
    """Each state of this one knows which of the last 15 characters were an a."""
    search = Search("(a|b)*a(a|b){14}c")
    line = "".join("ab"[int(bit)] for number in range(2000) for bit in f"{number:012b}")
    assert search.find(line) is None
    assert search.find(f"{line}c") == (len(line) + 1 if line[-15] == "a" else None)
    assert search.spent > 10 * len(line)


def test_all_printable_characters_match_themselves() -> None:
    for character in string.printable.strip():
        assert Search(re.escape(character)).find(f"x{character}") == (1 if character == "x" else 2)
