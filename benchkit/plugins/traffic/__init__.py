"""Traffic from what people have: access logs and HAR files as the requests of a load."""

from typing import Literal

Queries = Literal["keep", "hash", "drop"]
"""Treatment of query strings: kept but for secret values, each value as a digest, or dropped."""

DEFAULT_HEADERS = ("Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "User-Agent")
"""Headers that requests keep unless others are named."""
