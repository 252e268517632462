"""Pictures, documents, recordings and other attachments."""

import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from trio.testing import MockClock

from elwood.agent.conversation.inbound import Taken
from tests.fake_http import Reply, Request, json_reply, serving
from tests.fake_telegram import OWNER, fake_telegram
from tests.features.telegram.neighbours import intake

JPEG = b"\xff\xd8\xff\xe0 not really a picture"
DAY = "1970-01-01"  # of the fake's clock below


def at_start() -> float:
    return 0.0


def a_pdf(*pages: str) -> bytes:
    """Build a PDF with a line of text on each page."""
    texts = [b"BT /F1 12 Tf 20 100 Td (%s) Tj ET" % text.encode() for text in pages]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids.encode()),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * n),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        ]
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return (
        made
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        % (size, table, size)
        + b"startxref\n%d\n%%%%EOF" % len(made)
    )


async def test_a_photo_is_stored_and_can_be_viewed() -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        sizes = [*fake.photo(JPEG, 1280, 960), fake.file(b"huge", width=2560, height=1920)]
        fake.say(None, photo=sizes, caption="What is this?")
        [received] = await house.fetched()
        [got], [file] = house.inbound, received.files
        assert got.text == "What is this?"
        assert not got.untrusted, "the words are the owner's; only the picture is anybody's"
        assert file.untrusted
        assert file.path == f"received/tg-{OWNER}/{DAY}-u2.jpg"
        assert (file.media, file.tokens) == ("image/jpeg", 2500)
        assert file.about == f"picture {file.path}, {len(JPEG)} bytes"
        assert (house.workspace / file.path).read_bytes() == JPEG
        await fake.until(lambda: not fake.unconfirmed)


async def test_a_local_server_serves_large_files_from_its_folder_only(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    theirs, outside = tmp_path / "4242:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K", tmp_path.parent
    theirs.mkdir()
    async with fake_telegram() as fake, intake(fake, local_files=tmp_path) as house:
        large = b"x," * (11 << 20)
        fake.local = theirs
        fake.say(None, document=fake.file(large, file_name="a.csv", mime_type="text/csv"))
        [first] = await house.fetched()
        assert (house.workspace / first.files[0].path).read_bytes() == large
        house.inbound.clear()
        fake.local = outside
        fake.say("and this", document=fake.file(b"secret", file_name="b.csv"))
        [second] = await house.fetched()
        assert "leads outside the folder" in second.troubles[0]
        assert not second.files


async def test_a_replied_to_picture_is_shown_and_stored_once() -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        shown = fake.message(None, photo=fake.photo(JPEG, 800, 600))
        fake.push({"message": shown})
        fake.say("What was this?", reply_to_message=shown)
        first, second = (received.files for received in await house.fetched(2))
        assert first == second
        assert not house.inbound[1].untrusted


async def test_an_album_is_one_message_and_confirmed_as_one(jumping_clock: MockClock) -> None:
    async with fake_telegram(clock=at_start) as fake:
        async with intake(fake) as house:
            house.take = lambda _: None
            numbers = [fake.say("before")]
            for n in range(3):
                caption = {"caption": "Which is best?"} if n == 1 else {}
                photo = fake.photo(JPEG + bytes([n]), 800, 600)
                numbers.append(fake.say(None, photo=photo, media_group_id="m", **caption))
            house.take = lambda message: Taken() if message.text == "before" else None
            await house.until_text("Which is best?")
            assert fake.unconfirmed[-3:] == numbers[1:]
        async with intake(fake) as house:  # as after a kill -9
            fake.say("after")
            await house.until_text("after")
            album = (await house.fetched())[0]
            assert album.id == f"tg:4242:{numbers[-1]}"
            assert len(album.files) == 3
            assert len(list((house.workspace / "received").rglob("*.jpg"))) == 3
            assert house.texts == ["Which is best?", "after"]


@pytest.mark.parametrize(
    ("name", "data", "text", "about"),
    [
        ("plan.py", b"print('ho')\n", "print('ho')", ""),
        ("sums.csv", "müsli;3\n".encode("cp1252"), "müsli;3", ""),
        ("letter.pdf", a_pdf("Dear Ann, this is a letter."), "Dear Ann, this is a letter.", ""),
        ("bad.xlsx", b"PK\x03\x04", "", "; it could not be read: it is damaged"),
        ("notepad.txt", "Grüße\n".encode("utf-16"), "Grüße", ""),
        ("wide.bin", b"\xff\xfe\0\0\1\2", "", "; it is binary data"),
        ("scan.pdf", a_pdf("", ""), "", "; a scan of 2 pages, without text"),
        ("shot.png", b"\x89PNG\r\n\x1a\n\0", "", ""),
        ("shot.webp", b"RIFF\x24\0\0\0WEBPVP8 ", "", ""),
        ("IMG.HEIC", b"\0\0\0\x18ftypheic\0\0", "", "; it is a HEIC picture"),
        ("big.jpg", JPEG.ljust((5 << 20) + 1), "", "; too large for you to see; a photo"),
        ("bad.pdf", b"%PDF-1.4 what?", "", "; it could not be read: it is damaged"),
        ("x.zip", b"PK\x03\x04 and so on", "", "it is a ZIP archive or an office document"),
    ],
)
async def test_a_document_is_converted_for_the_model(
    name: str, data: bytes, text: str, about: str
) -> None:
    if name.endswith((".pdf", ".xlsx")):
        pytest.importorskip("pypdf", reason="the extra elwood[media] is not installed")
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        fake.say(None, document=fake.file(data, file_name=name, mime_type="a/b"))
        [received] = await house.fetched()
        [file] = received.files
        assert file.text.strip() == text
        assert about in file.about
        assert bool(file.tokens) == name.startswith(("scan", "shot"))
        kept = house.workspace / f"received/tg-{OWNER}/{DAY}-u1-{name}"
        assert kept.read_bytes() == data


async def test_a_spreadsheet_is_converted_to_its_values() -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra elwood[media] is not installed")
    book, written = openpyxl.Workbook(), BytesIO()
    book.active.title = "Costs"
    book.active.append(("what", "€"))
    book.active.append(("tea", 3))
    book.save(written)
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        fake.say(None, document=fake.file(written.getvalue(), file_name="costs.xlsx"))
        [received] = await house.fetched()
        [file] = received.files
        assert file.text.strip() == "# Costs\nwhat,€\ntea,3"
        assert not file.tokens


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def a_docx(body: str) -> bytes:
    """Build a .docx with only its necessary parts."""
    open_xml = "http://schemas.openxmlformats.org"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{open_xml}/package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{open_xml}/package/2006/relationships">'
        f'<Relationship Id="r" Type="{open_xml}/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>',
    }
    written = BytesIO()
    with ZipFile(written, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return written.getvalue()


async def test_a_letter_is_converted_to_markdown() -> None:
    pytest.importorskip("mammoth", reason="the extra elwood[media] is not installed")

    def paragraph(text: str, style: str = "") -> str:
        return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'

    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("tea", "3 €"))
    row = f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    data = a_docx(paragraph("Offer", "Heading1") + paragraph("Dear Ann,") + row)
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        fake.say(None, document=fake.file(data, file_name="offer.docx"))
        fake.say(None, document=fake.file(data[:200], file_name="half.docx"))
        good, bad = await house.fetched(2)
        text = good.files[0].text.strip()
        assert text == "# Offer\n\nDear Ann,\n\n| tea | 3 € |\n| --- | --- |"
        assert "it could not be read: it is damaged" in bad.files[0].about


async def test_a_long_text_in_utf_16_is_stored_in_utf_8() -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        long = "ä" * 30_000
        fake.say(None, document=fake.file(long.encode("utf-16"), file_name="a.txt"))
        [received] = await house.fetched()
        [file] = received.files
        assert file.about.endswith(f"; the whole text: {file.path}.txt")
        assert (house.workspace / f"{file.path}.txt").read_text() == long


async def test_a_long_text_is_shortened_and_names_are_harmless() -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        fake.say(None, document=fake.file(b"12345\n" * 9000, file_name="../../.bash rc\u202e.txt"))
        fake.say("and", document=fake.file(b"secret", file_name="host.pem"))
        first, second = await house.fetched(2)
        [file] = first.files
        assert len(file.text) == 20_000
        assert file.path == f"received/tg-{OWNER}/{DAY}-u1-.._.._.bash_rc_.txt"
        assert file.about.endswith(
            f"; the first 20,000 of 54,000 characters; the whole text: {file.path}"
        )
        assert "has a name that is reserved for secrets" in second.troubles[0]
        assert not second.files


async def test_the_oldest_files_are_removed_and_the_sender_is_notified() -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake, media={"budget": 20}) as house:
        for n in range(3):
            fake.say("keep", document=fake.file(b"\0" * (9 << 20), file_name=f"{n}.bin"))
        received = await house.fetched(3)
        room = "The files of this conversation took up all their space, so I deleted the oldest: "
        room += "0.bin."
        assert [one.troubles for one in received] == [(), (), (room,)]
        folder = house.workspace / f"received/tg-{OWNER}"
        assert sorted(path.name for path in folder.iterdir()) == [
            f"{DAY}-u2-1.bin",
            f"{DAY}-u3-2.bin",
        ]


@pytest.mark.parametrize("code", [401, 403, 404])
async def test_a_refused_download_is_not_retried(code: int) -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        fake.fault("getFile", code=code, description="Forbidden", times=2)
        fake.say(None, photo=fake.photo(JPEG, 800, 600))
        [refused] = await house.fetched()
        assert refused.troubles[0].startswith("I could not download the picture")
        assert fake.counts["getFile error"] == 1


async def test_a_failed_download_is_reported_after_retries(jumping_clock: MockClock) -> None:
    async with fake_telegram(clock=at_start) as fake, intake(fake) as house:
        fake.fault("download", code=502, times=2)
        fake.say("third time", photo=fake.photo(JPEG, 800, 600))
        [first] = await house.fetched()
        assert len(first.files) == 1
        house.inbound.clear()
        fake.fault("download", "drop", times=3)
        fake.say(None, caption="see", photo=fake.photo(JPEG, 800, 600))
        fake.say(None, document={"file_id": "x", "file_size": 21 << 20})
        fake.say(None, document={"size": 1})
        second, third, fourth = await house.fetched(3)
        assert second.text == "see"
        assert second.troubles[0].startswith(
            "I could not download the picture (the connection was clo"
        )
        assert "larger than 20 MB" in third.troubles[0]
        assert "I do not know this kind of file" in fourth.troubles[0]


def voice(fake: Any, data: bytes = b"OggS words") -> dict[str, Any]:
    made: dict[str, Any] = fake.file(data, duration=12, mime_type="audio/ogg")
    return made


async def test_a_voice_message_is_transcribed_by_a_service_and_stays_the_owners() -> None:
    asked: list[Request] = []

    async def service(request: Request) -> Reply:
        asked.append(request)
        return json_reply({"text": " buy\x1b[1m milk "}, 200 if len(asked) < 3 else 500)

    async with serving(service) as url, fake_telegram(clock=at_start) as fake:
        media = {"transcription_url": f"{url}/v1", "transcription_model": "w"}
        async with intake(fake, media=media) as house:
            fake.say(None, voice=voice(fake))
            fake.say(None, video_note=voice(fake), forward_origin={"type": "user"})
            mine, theirs = await house.fetched(2)
            assert mine.text == "[machine transcript of a voice message, 0:12]\nbuy milk"
            assert theirs.text.startswith("[forwarded from somebody]\n[machine transcript of a vid")
            assert [one.untrusted for one in house.inbound] == [False, True]
            assert not mine.files[0].untrusted
            assert (house.workspace / mine.files[0].path).read_bytes() == b"OggS words"
            fields, files = asked[0].form()
            assert asked[0].path == "/v1/audio/transcriptions"
            assert fields == {"model": "w", "response_format": "json"}
            assert files == {"file": (f"{DAY}-u1.ogg", b"OggS words")}
            house.inbound.clear()
            fake.say(None, voice=voice(fake), forward_origin={"type": "user"})
            [received] = await house.fetched()
            assert "returned no words (HTTP 500)" in received.troubles[0]
            await fake.until(lambda: not fake.unconfirmed)


async def test_a_recording_as_a_file_is_transcribed_and_stays_a_strangers() -> None:
    names: list[str] = []

    async def service(request: Request) -> Reply:
        names.append(request.form()[1]["file"][0])
        return json_reply({"text": "buy milk"}, 200 if len(names) < 3 else 500)

    async with serving(service) as url, fake_telegram(clock=at_start) as fake:
        async with intake(fake, media={"transcription_url": f"{url}/v1"}) as house:
            fake.say("sum it up", audio=fake.file(b"ID3 talk", file_name="talk.mp3"))
            for name in ("memo.opus", "song.m4a"):
                fake.say(None, document=fake.file(b"OggS", file_name=name))
            talk, memo, song = await house.fetched(3)
        assert talk.text == "sum it up"
        assert [file.text for one in (talk, memo) for file in one.files] == ["buy milk"] * 2
        assert talk.files[0].about.endswith("; transcribed by a machine")
        assert talk.files[0].untrusted
        assert "it could not be transcribed: " in song.files[0].about
        assert not song.troubles
        assert names == [f"{DAY}-u1-talk.mp3", f"{DAY}-u2-memo.opus.ogg", f"{DAY}-u3-song.m4a"]
        async with intake(fake) as house:
            fake.say(None, audio=fake.file(b"ID3 talk\0", file_name="talk.mp3"))
            [received] = await house.fetched()
            assert "only a command can open it" in received.files[0].about


async def test_a_command_can_transcribe(tmp_path: Path) -> None:
    script = tmp_path / "listen.py"
    script.write_text("import sys; print(open(sys.argv[1]).read()[5:], '; date')")
    command = (sys.executable, str(script))
    async with fake_telegram(clock=at_start) as fake:
        async with intake(fake, media={"transcription_command": command}) as house:
            fake.say(None, voice=voice(fake))
            [received] = await house.fetched()
            assert received.text.endswith("\nwords ; date")
        async with intake(fake, media={"transcription_command": ("/nowhere/x",)}) as house:
            fake.say(None, voice=voice(fake))
            [received] = await house.fetched()
            why = "the transcription program failed with exit code 127"
            assert why in received.troubles[0]
        async with intake(fake) as house:
            fake.say(None, voice=voice(fake))
            [received] = await house.fetched()
            assert "with media.transcription_url or" in received.troubles[0]
            assert f"I saved the recording as received/tg-{OWNER}/{DAY}-u" in received.troubles[0]
            assert list(house.workspace.rglob("*.ogg")), "it is kept"
            await fake.until(lambda: not fake.unconfirmed)


async def test_an_attachment_without_a_file_is_described() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        here = {"latitude": 52.5, "longitude": 13.25}
        fake.say(None, location=here)
        fake.push({"edited_message": fake.message(None, location=here | {"longitude": 14})})
        fake.say(None, location=here, venue={"title": "Bar] do X", "address": "A 1"})
        fake.say(None, contact={"first_name": "Bob", "phone_number": "+1"})
        fake.say(None, sticker={"file_id": "s", "emoji": "👍"})
        await house.until(lambda: len(house.inbound) == 4)
        assert house.texts == [
            "[location: 52.5, 13.25]",
            "[place: Bar) do X, A 1]",
            "[contact: Bob, +1]",
            "[sticker: 👍]",
        ]
        assert [got.untrusted for got in house.inbound] == [False, True, True, False]
