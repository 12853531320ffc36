"""Secrets of logged requests: what is removed before anything is kept, and counted."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from urllib.parse import unquote

from benchkit.models.request import VALUE, is_secret

HEADERS = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "User-Agent")
"""Headers that requests keep."""

DIGEST = 12
"""Characters of a digest: with 11 hexadecimal digits, two of a million values share one in 3 of 100 logs."""

_SECRET_PARAMETER = re.compile(
    r"auth|token|secret|passw|pwd|api_?-?key|access_?-?key|session|^sid$|^sig$|signature|credential|jwt|^code$|^key$"
    r"|e-?mail|^hmac$|^otp$|^pin$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"eyJ[\w-]+\.[\w-]*\.?[\w-]*"  # JSON Web Token (RFC 7519): base64url of `{"`
    r"|[^@/\s]+@[^@/\s]+\.[a-z]{2,}"  # address
    r"|(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_+=~-]{24,}",  # random: 24 characters of letters and digits
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Cleaner:
    """Removes secrets from requests, and counts what it removed by kind."""

    def __init__(self, *, drop_queries: bool = False) -> None:
        self._drops_queries = drop_queries
        self._headers = {name.lower(): name for name in HEADERS}
        self.removed: Counter[str] = Counter()
        """Requests or values that lost something, by what that was."""

    def target(self, target: str) -> str:
        """Return a path and query without secrets."""
        path, mark, query = target.partition("?")
        cleaned = "/".join(self._segment(segment) for segment in path.split("/"))
        if mark and self._drops_queries:
            self.removed["query strings"] += 1
        if not mark or self._drops_queries:
            return cleaned
        parameters = [each for each in query.split("&") if not self._is_secret_parameter(each)]
        return f"{cleaned}?{'&'.join(parameters)}" if parameters else cleaned

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that are kept, by their usual names."""
        kept = {}
        for name, value in headers.items():
            if is_secret(name):
                self.removed[f"headers {name.title()}"] += 1
            elif name.lower() in self._headers and re.fullmatch(VALUE, value) and not _looks_secret(value):
                kept[self._headers[name.lower()]] = value
        return kept

    def _segment(self, segment: str) -> str:
        if not _looks_secret(segment):
            return segment
        self.removed["secrets in paths"] += 1
        # Equal for equal secrets; the leading digit makes it an id in any class.
        return f"0{hashlib.sha256(segment.encode()).hexdigest()}"[:DIGEST]

    def _is_secret_parameter(self, parameter: str) -> bool:
        name, _, value = parameter.partition("=")
        is_secret_one = bool(_SECRET_PARAMETER.search(unquote(name))) or _looks_secret(value) or _looks_secret(name)
        if is_secret_one:
            self.removed["secrets in queries"] += 1
        return is_secret_one


def _looks_secret(text: str) -> bool:
    """Return whether a value looks random or names somebody; a UUID is an id."""
    plain = unquote(text)
    return _UUID.fullmatch(plain) is None and _SECRET_VALUE.fullmatch(plain) is not None
