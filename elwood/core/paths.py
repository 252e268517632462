"""Paths that files are asked for by: which spellings are refused, which names hold secrets.

Only the spelling is judged here; that a path stays inside its root is the kernel's work
(`store.files`, security.md §2).
"""

import re
from fnmatch import translate

# Of Linux: PATH_MAX and NAME_MAX, in bytes.
MAX_PATH = 4096
MAX_NAME = 255

# Marks that show a name as another one than it is (Trojan Source, CVE-2021-42574).
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSHOWABLE = re.compile(f"[\x00-\x1f\x7f-\x9f{_BIDI}\u2028\u2029\ud800-\udfff]")

# Names that hold secrets wherever they stand, in lower case.
_SECRET_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc",
    ".pypirc", ".git-credentials", ".htpasswd", ".vault-token", ".credentials",
    ".credentials.json", "credentials.json", "credentials.toml", "auth-profiles.json",
    "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "service-account*.json",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
    "*.keystore", "*.kdbx", "*.ppk", ".*_history",
    ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store",
)  # fmt: skip
# What looks like one of them and is made to be shown.
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub")
_secret = re.compile("|".join(map(translate, _SECRET_NAMES)))
_harmless = re.compile("|".join(map(translate, _HARMLESS)))


def refusal(path: str) -> str | None:
    """Say why the spelling of *path* is refused; None if it is not.

    Nothing is decoded or expanded: ``%2e``, ``~`` and ``$HOME`` are names like any other.

    >>> refusal("notes/a b.txt"), refusal("../x"), refusal("~")
    (None, None, None)
    >>> refusal("")
    'the path is empty'
    >>> refusal("a.txt\\0.png")
    'the path has a control character or an invisible one'
    >>> refusal("x" * 256)
    'a name in the path is longer than 255 bytes'
    """
    if not path:
        return "the path is empty"
    if _UNSHOWABLE.search(path):
        return "the path has a control character or an invisible one"
    if len(path.encode()) >= MAX_PATH:
        return f"the path is longer than {MAX_PATH} bytes"
    if any(len(name.encode()) > MAX_NAME for name in path.split("/")):
        return f"a name in the path is longer than {MAX_NAME} bytes"
    return None


def holds_secrets(path: str) -> bool:
    """Tell whether any name in *path* is one that secrets are kept under, in any case.

    >>> holds_secrets("sub/.env"), holds_secrets(".ENV"), holds_secrets(".ssh/config")
    (True, True, True)
    >>> holds_secrets(".env.example"), holds_secrets("id_ed25519.pub"), holds_secrets("key.txt")
    (False, False, False)
    """
    return any(_is_secret(name) for name in path.casefold().split("/"))


def _is_secret(name: str) -> bool:
    return _secret.match(name) is not None and _harmless.match(name) is None


def shown(name: str) -> str:
    r"""Write *name*, as the disk has it, so that it can be shown and cannot mislead.

    >>> shown("Straße.txt")
    'Straße.txt'
    >>> shown("line\nbreak"), shown("\udcff.txt"), shown("gnp\u202eexe")
    ('line\\nbreak', '\\udcff.txt', 'gnp\\u202eexe')
    """
    return _UNSHOWABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), name)
