"""The corpus of credentials, with three random values each, whole and in pieces."""

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from elwood.foundation.secrets.redaction import Credential, Masked, Redactor, Secret, redact, screen
from tests.corpora.gen_secrets import (
    AN,
    FILTERS,
    HARMLESS,
    LABELS,
    TOKENS,
    Case,
    Maker,
    cases,
    leaks,
    pieces,
)

SEEDS = (7, 8, 9)
ALL = [case for seed in SEEDS for case in cases(seed)]
TO_REDACT = [case for case in ALL if case.expected == "redact"]
TO_KEEP = [case for case in ALL if case.expected == "keep"]
# Names of forms that are recognized, and of harmless lookalikes.
PEMS = [name for name in LABELS if name.startswith("pem_")]
KNOWN_FORMS = [*TOKENS, "telegram", "discord_bot", "jwt", *PEMS]
LOOKALIKES = [*HARMLESS, "cert", "pempub", "js"]


def known_secrets(case: Case) -> list[Secret]:
    return [Secret(value) for value in case.known]


def survives(name: str, value: str, text: str) -> bool:
    return any(piece in text for piece in pieces(name, value))


def test_nothing_leaks() -> None:
    assert len(TO_REDACT) == 3 * 115
    left = {case.id: leaks(case, redact(case.text, known_secrets(case))) for case in TO_REDACT}
    assert not {id_: what for id_, what in left.items() if what}


def test_harmless_text_is_unchanged() -> None:
    assert len(TO_KEEP) == 3 * 79
    hurt = [
        case.id for case in TO_KEEP if redact(case.text, [Secret("hunter2-hunter3")]) != case.text
    ]
    assert not hurt


def test_json_stays_valid_and_leaks_nothing() -> None:
    """A log line is redacted in its encoded form, with quotes and escapes."""
    for case in ALL:
        for line in (json.dumps({"e": case.text}), json.dumps([json.dumps({"e": case.text})])):
            redacted = redact(line, known_secrets(case))
            assert json.loads(redacted), case.id
            if case.expected == "redact":
                assert not leaks(case, redacted), case.id
            elif case.expected == "keep":
                assert redacted == line, case.id


def test_redaction_is_idempotent() -> None:
    once = [(redact(case.text, known_secrets(case)), known_secrets(case)) for case in TO_REDACT]
    assert not [text for text, secrets in once if redact(text, secrets) != text]


@pytest.mark.parametrize(
    "around",
    ["{}", "key: {}", "export TOKEN={}", "'{}'", "| {} |", "<{}>", "q%3D{}", "a\\n{}\\nb",
     "key_{}.", "https://x.example/?q={}", "say {}, please", "`{}`", 'curl -H "x-api-key: {}" x'],
)  # fmt: skip
def test_each_form_is_recognized_in_all_contexts(around: str) -> None:
    left = []
    for seed in range(3):
        maker = Maker(f"{seed}{around}")
        for name in KNOWN_FORMS:
            value = maker.make(name)
            if survives(name, value, redact(around.format(value), [])):
                left.append((name, value))
    assert not left


@pytest.mark.parametrize("word", ["token", "TOKEN", "myKey2", "the_secret", "x", "_", "key-"])
def test_a_token_is_recognized_after_a_word(word: str) -> None:
    left = []
    for seed in range(9):
        maker = Maker(f"{seed}{word}")
        for name in sorted({*KNOWN_FORMS} - {*PEMS}):
            if name == "mailgun" and word[-1].islower():
                continue  # monkey-, cachekey-
            value = maker.make(name)
            texts = (f"it is {word}{value}!", f'{{"e":"{word}{value}"}}', f"{word}{value}")
            left += [(name, text) for text in texts if survives(name, value, redact(text, []))]
    assert not left


@pytest.mark.parametrize(
    "text",
    [
        "TASK3f786850e387550fdab836ed7e6dc881",
        "task-3f786850e387550fdab836ed7e6dc881de23001b",
        "disk-8c7e1a9d-4b2f-4d0a-9e57-1f2a3b4c5d6e",
        "monkey-0123456789abcdef0123456789abcdef", "MSG.internal_error_code_17.not_found_in_cache",
        "risk-assessment-of-Project-2026-v2", "com.example.mysql.ConnectionPoolFactory2Impl",
        "apikey-3f786850e387550fdab836ed7e6dc881", "com.acme.NewManagerOfUsers2.create.OneByName",
        "CZECHOSLOVAKIATRANSPORTATION2", "desk-Berlin2-Room12B-Window3C",
    ],
)  # fmt: skip
def test_words_that_end_like_a_prefix_are_kept(text: str) -> None:
    assert redact(f"see {text} there", []) == f"see {text} there"


HASHES = {
    "$6$": 86, "$6$rounds=5000$": 86, "$5$": 43, "$1$": 22, "$apr1$": 22, "$y$j9T$": 43,
    "$gy$j9T$": 43, "$2b$12$": 53, "$2y$10$": 53, "$argon2id$v=19$m=65536,t=3,p=4$": 43,
}  # fmt: skip


@pytest.mark.parametrize("form", [*HASHES, "", "!"])
def test_a_shadow_hash_is_masked(form: str) -> None:
    """Also for a locked account, which has a mark before the hash, and in other files."""
    maker = Maker(form)
    salt = f"{maker.s(AN, 8)}$" if form in HASHES and not form.startswith("$2") else ""
    value = maker.s(AN, HASHES.get(form, 13))
    for line in (f"root:{form}{salt}{value}:19000:0:99999:7:::", "a:!{}{}{}:19000::::::"):
        text = line.format(form, salt, value)
        assert value not in redact(f"x:*:19000:0:99999:7:::\n{text}\n", [])
        assert value not in redact(json.dumps({"e": f"y:!:1:::::\n{text}\n"}), [])
    if form in HASHES:
        assert value not in redact(f"me:{form}{salt}{value}\n", [])


@pytest.mark.parametrize(
    "text",
    [
        "daemon:*:19000:0:99999:7:::", "nobody:!:19000::::::", "x:!!:19000:0:99999:7:::",
        "root:x:0:0:root:/root:/bin/bash", "echo $1$2 $5$6", "costs $5$6 or $6$7 a month",
        "s/(a)(b)/$1$2$internal_names_and_paths/", "std::vector<int>::iterator:::x",
    ],
)  # fmt: skip
def test_lines_without_a_hash_are_kept(text: str) -> None:
    assert redact(text, []) == text


@pytest.mark.parametrize("how", ["nl", "crlf", "indent", "b64", "json", "mail", "log", "cut"])
def test_a_private_key_is_recognized_in_each_format(how: str) -> None:
    for name in PEMS:
        key = Maker(how).make(name)
        lines = key.split("\n")
        match how:
            case "mail":
                shown = "\n".join(f"> {line}" for line in lines)
            case "log":
                shown = "\n".join(f"2026-11-22T10:00:00 host app[12]: {line}" for line in lines)
            case "cut":
                shown = "\n".join(lines[:3])
            case _:
                shown = FILTERS[how](key)
        redacted = redact(f"here: {shown}\nthat was it", [])
        assert not survives(name, key, redacted), name
        assert redacted.endswith("\nthat was it")


@pytest.mark.parametrize(
    "around",
    ["{}", "toolu_01{}", "msg_01{}", "req_011{}", "call_{}", "chatcmpl-{}", "sha256:{}", "file-{}",
     "data:image/png;base64,{}", "commit {} (HEAD)", 'etag: "{}"', '"signature":"{}"', "cursor={}",
     '"id":"{}"', "https://x.example/a/{}", '"nextPageToken": "{}"', "next_page_token={}"],
)  # fmt: skip
def test_ids_hashes_and_pictures_are_unchanged(around: str) -> None:
    for seed in range(3):
        for name in LOOKALIKES:
            text = around.format(Maker(f"{seed}{around}").make(name))
            assert redact(text, [Secret("hunter2-hunter3")]) == text
            assert screen(text) is None


def promised_forms() -> Iterator[tuple[str, str, str]]:
    for seed in range(5):
        for name in ("known", "knownsym"):
            value = Maker(str(seed)).make(name)
            for how in FILTERS.keys() - {"half", "upper", "basic"}:
                yield how, value, FILTERS[how](value)


def test_no_encoding_of_a_known_value_passes() -> None:
    """Also in outgoing data: a URL, a body, an argument."""
    for how, value, spelled in promised_forms():
        redactor = Redactor([Secret(value)])
        assert redactor.reveals(f"https://example.org/?d={spelled}&e=f"), how
        assert redactor.reveals(f'{{"body": "{spelled}"}}'), how
        assert not redactor.reveals(redactor(f"a {spelled} b")), how


def test_outgoing_requests_may_contain_other_values() -> None:
    texts = [case.text for case in TO_KEEP] + [case.text for case in TO_REDACT if not case.known]
    redactor = Redactor([Secret("q8Zr1vX0c2N4m6B8")])
    assert not any(map(redactor.reveals, texts))


@pytest.mark.parametrize("case", TO_REDACT[: len(TO_REDACT) // 3], ids=lambda case: case.id)
def test_partial_texts_only_grow_and_leak_nothing(case: Case) -> None:
    text = f"This is it: {case.text} . And that is all."
    step = 1 + len(text) // 150
    shown = [
        Redactor(known_secrets(case)).partial(text[:end]) for end in range(0, len(text) + 1, step)
    ]
    assert all(after.startswith(before) for before, after in pairwise(shown))
    assert not leaks(case, shown[-1])
    last = Redactor(known_secrets(case)).partial(text + " ")
    assert last == redact(text + " ", known_secrets(case))


def test_a_short_answer_is_streamed_by_word() -> None:
    """The stream is one word behind, and never a whole sentence."""
    text = (
        "Yes, the hunters have their token in the file of the bot. \u597d\u7684\uff0c\u5b8c\u6210"
    )
    secrets = [Secret("hunter2-hunter3"), Secret(Maker("x").make("known"))]
    shown = [Redactor(secrets).partial(text[:end]) for end in range(len(text) + 1)]
    assert max(end - len(seen) for end, seen in enumerate(shown)) <= len("hunters") + 4
    assert shown[-1] == text


def test_a_known_value_with_spaces_is_not_started() -> None:
    secrets = [Secret("correct horse battery staple")]
    text = "It says: correct horse battery staple, and more."
    shown = [Redactor(secrets).partial(text[:end]) for end in range(len(text) + 1)]
    assert Redactor(secrets).partial("It says: correct horse ") == "It says: "
    assert shown[-1] == "It says: ***, and "


@pytest.mark.parametrize("name", KNOWN_FORMS)
def test_a_pasted_credential_is_recognized(name: str) -> None:
    value = Maker("paste").make(name)
    for text in (value, f"TOKEN={value}", f"my token: {value}\n", f"`{value}`"):
        assert isinstance(screen(text), Credential), text


def test_a_credential_in_a_message_is_masked() -> None:
    value = Maker("paste").make("github_classic")
    assert screen(f"why does the API not take {value}, it did yesterday?") == Masked(
        "why does the API not take ***, it did yesterday?"
    )


@pytest.mark.parametrize(
    "text",
    [
        "what is a private key, and how long should a password be?",
        "my password: how do I change it?",
        "the token is expired, secret: none",
        "https://github.com/owner/repo/commit/3f786850e387550fdab836ed7e6dc881de23001b",
        "look at https://example.org/search?q=key&session=12 and tell me the password policy",
        "meet at 10:45, key is under the mat",
        "set `api_key = os.environ[\"API_KEY\"]` and `token = get_token(user)`",
        "API_KEY=your-key-here",
        "password=<password>",
        "def login(user: str, password: str) -> Token: ...",
        "remind me to renew the passport: 2026-12-01",
    ],
)  # fmt: skip
def test_talk_about_secrets_is_no_secret(text: str) -> None:
    assert screen(text) is None
    assert redact(text, []) == text
