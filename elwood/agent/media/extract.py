"""Reads the text of one PDF that a stranger may have made, in a process of its own with limits.

``python -m elwood.agent.media.extract`` takes it from stdin, and prints how many pages it has, then
the text.  That the library is missing is exit code 3.
"""

import sys
from io import BytesIO
from itertools import islice

# Pages that are read.
MAX_PAGES = 300
MISSING = 3

if __name__ == "__main__":
    try:
        from pypdf import PdfReader
    except ImportError:
        sys.exit(MISSING)
    pages = PdfReader(BytesIO(sys.stdin.buffer.read())).pages
    texts = (page.extract_text() for page in islice(pages, MAX_PAGES))
    text = f"{len(pages)}\n" + "\n\n".join(texts)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
