"""What a text holds: its web addresses, and the headings of a Markdown document."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_URL = re.compile(r"https?://[^\s<>\"'`{}|\\^\[\]]+", re.I)
_AFTER = ".,;:!?*_~"
_DEFAULT_PORT = {"http": 80, "https": 443}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\Z")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*\Z")


def urls_in(text: str) -> list[str]:
    """The http and https addresses, without punctuation that follows them, in their order."""
    return [url for found in _URL.findall(text) if (url := _trimmed(found)) and _split(url)]


def url_within(url: str, wanted: str) -> bool:
    """Whether `url` is `wanted` or lies under it.

    `wanted` is a host (`example.com`, which includes its subdomains), a host and a path (`example.com/docs`), or a
    whole address, whose scheme, host, port and, if it has one, query must be the same. A path includes the paths
    under it, segment by segment: `/docs` includes `/docs/a`, not `/docs2`.
    """
    given = _split(url)
    scheme = "://" in wanted
    base = _split(wanted if scheme else f"https://{wanted}")
    if given is None or base is None:
        return False
    host, base_host = given.hostname or "", base.hostname or ""
    if scheme:
        same = (given.scheme, host, _port(given)) == (base.scheme, base_host, _port(base))
    else:
        same = (host == base_host or host.endswith(f".{base_host}")) and base.port in (None, _port(given))
    path, base_path = given.path.rstrip("/"), base.path.rstrip("/")
    return same and f"{path}/".startswith(f"{base_path}/") and base.query in ("", given.query)


def headings_in(text: str) -> list[str]:
    """The headings of a Markdown text (`## Title`, or a line underlined with = or -), outside fenced code."""
    headings: list[str] = []
    fence = ""
    before = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            # A fence is closed by one of the same character that is at least as long.
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        elif heading := _HEADING.match(line):
            headings.append(heading[1] or "")
        elif before and _UNDERLINE.match(line):
            headings.append(before)
        else:
            before = line.strip()
            continue
        before = ""
    return headings


def heading_key(heading: str) -> str:
    """What two headings are compared by: no emphasis, no final colon, one space, no case."""
    return " ".join(re.sub(r"[*_`]", "", heading).rstrip(": \t").split()).casefold()


def _trimmed(url: str) -> str:
    while url and (url[-1] in _AFTER or (url[-1] == ")" and url.count(")") > url.count("("))):
        url = url[:-1]
    return url


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and _port(parts) is not None else None
    except ValueError:
        return None


def _port(parts: SplitResult) -> int | None:
    return parts.port or _DEFAULT_PORT.get(parts.scheme)
