"""The tree for path_traversal.jsonl: a root, and files outside that must stay unreachable.

In the rows ``{ROOT}`` is the root ``ws``, and ``{BASE}`` is its parent folder.
"""

import hashlib
import os
import socket
from pathlib import Path

# The content of every file that must not be read.
SENTINEL = "OUT-OF-BOUNDS-7f3a"

INSIDE = (
    "a.txt", "dir/b.txt", "dir/sub/c.txt", "sp ace.txt", "..hidden.txt", "...", "a..b.txt", "-rf",
    "%2e%2e", "back\\slash.txt", "line\nbreak.txt", "\u00fcn\u00ef.txt", "\u2026.txt",
    "c:", "NUL", "~", "$HOME", "semi;colon.txt",
)  # fmt: skip
LINKS = {
    "link_in": "a.txt", "link_dir_in": "dir", "link_out": "../outside/secret.txt",
    "link_dir_out": "../outside", "link_loop": "link_loop", "chain1": "chain2",
    "chain2": "../outside/secret.txt", "link_dangling_out": "../outside/new.txt", "link_up": "..",
    "link_root": "/", "link_proc": "/proc/self/root", "link_fd": "/proc/self/fd",
    "link_cwd": "/proc/self/cwd", "dir/link_parent": "../..", "link_out_and_back": "../ws/a.txt",
    "link_env": ".env",
}  # fmt: skip


def build_tree(base: Path) -> Path:
    """Create the tree in *base* and return the root."""
    root, outside = base / "ws", base / "outside"
    for folder in (
        root / "dir/sub", root / ".git/hooks", root / "deep" / "/".join("d" * 40),
        outside / "dir", base / "ws-evil", base / "WS2",
    ):  # fmt: skip
        folder.mkdir(parents=True)
    for path in (
        outside / "secret.txt", outside / "dir/inner.txt", base / "ws-evil/x.txt", base / ".env",
        root / ".env",
    ):  # fmt: skip
        path.write_text(f"{SENTINEL}\n")
    for name in INSIDE:
        (root / name).write_text("inside\n")
    (root / ".git/config").write_text("[core]\n")
    links = LINKS | {
        "link_abs_out": str(outside / "secret.txt"),
        "link_abs_in": str(root / "a.txt"),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.link(outside / "secret.txt", root / "hard_out")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        # The path of a socket must be short.
        fd = os.open(root, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{fd}/sock")
        os.close(fd)
    return root


def snapshot(base: Path) -> dict[str, str]:
    """Return everything outside the root, with hashes of the files."""
    seen = {}
    for top in ("outside", "ws-evil", "WS2"):
        for path in [base / top, *sorted((base / top).rglob("*"))]:
            seen[str(path)] = (
                "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
            )
    return seen
