"""Reads the text of one PDF or office document, perhaps of a stranger, in a process of its own.

``python -m elwood.agent.media.extract`` reads it from stdin, and prints the number of pages (0 for
an office document), then the text.  Exit code 3 means that the library is missing.
"""

import csv
import sys
from io import BytesIO, StringIO
from itertools import islice
from zipfile import ZipFile

from elwood.foundation.text.readable import article

# Maximum pages that are read, and rows of each sheet.
MAX_PAGES, MAX_ROWS = 300, 5000
MISSING = 3


def read_pdf(data: bytes) -> str:
    """Return the text of a PDF, page by page.  Raises the exceptions of the library."""
    from pypdf import PdfReader

    pages = PdfReader(BytesIO(data)).pages
    texts = (page.extract_text() for page in islice(pages, MAX_PAGES))
    return f"{len(pages)}\n" + "\n\n".join(texts)


def read_spreadsheet(data: bytes) -> str:
    """Return the values of an .xlsx as CSV, sheet by sheet.  Raises those of the library."""
    from openpyxl import load_workbook

    written = StringIO()
    written.write("0\n")
    for sheet in load_workbook(BytesIO(data), read_only=True, data_only=True).worksheets:
        written.write(f"\n# {sheet.title}\n")
        rows = sheet.iter_rows(values_only=True)
        csv.writer(written, lineterminator="\n").writerows(islice(rows, MAX_ROWS))
        if next(rows, None) is not None:
            written.write(f"[only the first {MAX_ROWS:,} rows]\n")
    return written.getvalue()


def read_letter(data: bytes) -> str:
    """Return a .docx as Markdown, without its pictures.  Raises the exceptions of the library."""
    from mammoth import convert_to_html

    html = convert_to_html(BytesIO(data), convert_image=lambda image: []).value
    page = article(html, "")
    if page is None or page.is_cut:
        raise ValueError("it is too large")
    return f"0\n{page.text}"


def read_document(data: bytes) -> str:
    """Return the number of pages of a document, and its text."""
    if data.startswith(b"%PDF"):
        return read_pdf(data)
    with ZipFile(BytesIO(data)) as parts:
        is_letter = "word/document.xml" in parts.namelist()
    return read_letter(data) if is_letter else read_spreadsheet(data)


if __name__ == "__main__":
    given = sys.stdin.buffer.read()
    try:
        text = read_document(given)
    except ImportError:
        sys.exit(MISSING)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
