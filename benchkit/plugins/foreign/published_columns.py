"""Columns of published tables: which figure a heading names, in its words, and how its cells are read. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchkit.plugins.foreign import published_numbers as numbers
from benchkit.plugins.foreign.published_numbers import PER_SECOND, SECONDS, Decimal

_NAMES = re.compile(
    r"(?:test )?(?:column|name|framework|server|library|lib|implementation|impl|框架|名称|服务器?)s?", re.IGNORECASE
)
_TESTS = re.compile(
    r"test(?: ?case)?|benchmark|quer(?:y|ies)|profile|scenario|endpoint|route|workload|path|case|cell(?: id)?|测试|场景|接口",
    re.IGNORECASE,
)
_REPETITION = re.compile(
    r"(?:run|rep(?:etition|eat)?|trial|iteration|iter|round|try|attempt|measurement|r|#|第)\s?#?\d{1,3}\s?(?:次|轮|回)?"
    r"|\d{1,3}(?:st|nd|rd|th) (?:run|try|attempt|round)",
    re.IGNORECASE,
)
_INDEX = re.compile(r"#|no\.?|run|rep(?:etition|eat)?|trial|iteration|round|attempt|次数|序号|轮次?", re.IGNORECASE)
_RATE_AT = re.compile(
    r"(?:rps|qps|speed|req(?:uest)?s?\s*/\s*s(?:ec)?)?\s*[(\[@]?\s*(?:c\s*=\s*)?(\d+)\s*[)\]]?", re.IGNORECASE
)
_BYTES = re.compile(
    r"(?:throughput|transfer|bandwidth|吞吐|传输速率)(?: rate)?(?:\s*/\s*s(?:ec)?)?\s*"
    r"(?:[(\[]?\s*((?:[kmg]i?)?)b(?:ytes)?(?:\s*/\s*s(?:ec)?)?\s*[)\]]?)?|bytes\s*/\s*s(?:ec)?",
    re.IGNORECASE,
)
_BETTER = re.compile(
    r"[(\[]?\b(?:higher|lower|more|less|bigger|smaller)\b[^)\]]*\bbetter\b[)\]]?|[<>▲▼⇧⇩]", re.IGNORECASE
)
_AT_CONNECTIONS = re.compile(
    r"(?:c\s*=\s*)?(\d{1,3}(?:[ ,.'\u2019]\d{3})+|\d+)\s*(?:(?:concurrent )?(?:connections?|conns?|clients?|users?|vus?|"
    r"connexions?|verbindungen|conex(?:iones|ão|ões))|并发(?:连接)?数?|连接数?)",
    re.IGNORECASE,
)
_MEAN = {"mean", "avg", "average", "平均", "durchschnitt", "mittel", "mittlere", "moyenne", "moyen"}
_MEAN |= {"평균", "média", "médio", "media", "medio", "durchschnittliche", "среднее", "средняя"}
_MEDIAN = {"median", "med", "中位数", "mediana", "médiane", "медиана"}
_MAX = {"max", "maximum", "slowest", "longest", "worst", "máximo", "massimo", "макс", "максимум"}
_MAX |= {"最大", "최대", "最长", "最慢"}
_SUMMARIES = {"min", "total", "sum", "stdev", "std dev", "std", "range"}
_ABOUT_TIME = {
    *("latency", "latencies", "lat", "time", "times", "response", "resp", "request", "requests", "req", "per", "rt"),
    *("of", "the", "duration", "delay", "percentile", "pct", "延迟", "时延", "响应时间", "响应", "耗时", "时间"),
    *("tail", "タイル", "パーセンタイル", "응답시간", "응답", "시간", "지연", "지연시간"),
    *("latenz", "antwortzeit"),
    *(
        "latence",
        "latência",
        "latencia",
        "latenza",
        "задержка",
        "задержки",
        "分位",
        "分位数",
        "レイテンシ",
        "応答時間",
        "レスポンス",
        "レスポンスタイム",
    ),
    *("время", "времени", "ответа", "отклика", "запроса", "перцентиль", "процентиль", "percentil"),
    *("temps", "tempo", "tiempo", "réponse", "resposta", "respuesta", "risposta", "de", "da", "di", "du"),
}
_COUNTS = {
    "connections": r"(?:concurrent )?(?:connections?|conns?|clients?|users?)|connexions|verbindungen|conexiones|conexões|conc|concurrency|(?:vus|virtual users)|c|并发(?:用户|连接)?数?|连接数?|同時(?:接続|ユーザー)数?",
    "requests": r"(?:total |completed? |# ?)?(?:requests?|reqs?)(?: total| count)?|total requests|请求总?数|总请求数?",
    "failures": r"(?:total |failed )?(?:err(?:or)?s?|failures?|failed|failed (?:requests?|reqs?))(?: count)?|erreurs|échecs|fehler|erros|errores|errori|ошибок|ошибки|错误数?|失败数?|错误请求数?",
    "errors_connect": r"(?:socket )?(?:connect(?:ion)?|conn) errors?",
    "errors_part_read": r"(?:socket )?read errors?",
    "errors_part_write": r"(?:socket )?write errors?",
    "errors_part_socket": r"socket errors?",
    "errors_part_timeout": r"(?:request |socket )?time ?outs?|超时数?",
    "errors_part_http": r"http errors?|non ?2xx(?: or 3xx)?(?: responses)?",
    "status_1xx": r"(?:status |http |responses )?1xx",
    "status_2xx": r"(?:status |http |responses )?2xx",
    "status_3xx": r"(?:status |http |responses )?3xx",
    "status_4xx": r"(?:status |http |responses )?4xx",
    "status_5xx": r"(?:status |http |responses )?5xx",
    "streams": r"pipeline|pipelining|pipeline depth|streams|max ?concurrent streams|streams per connection|m",
    "reconnects": r"reconnects?|reconnections",
    "dropped": r"dropped(?: iterations| requests)?",
    "rate_ratio": r"rate ratio",
}
_COUNT_PATTERNS = {field: re.compile(pattern, re.IGNORECASE) for field, pattern in _COUNTS.items()}
_PERCENT = r"\s?[(\[]?(?:%|pct|percent(?:age)?)[)\]]?"
_SHARES = {
    "failure_share": re.compile(
        rf"(?:http )?(?:err(?:or)?s?|fail(?:ed|ures?)?)(?:(?: rate| ratio)({_PERCENT})?|({_PERCENT}))"
        r"|错误率|失败率|fehlerrate|taux d'erreurs?|taxa de erros?",
        re.IGNORECASE,
    ),
    "success_share": re.compile(
        rf"success(?:ful)?(?:(?: rate| ratio)({_PERCENT})?|({_PERCENT}))|成功率", re.IGNORECASE
    ),
}
_TARGET = re.compile(r"(?:target|offered|requested|held) (?:rate|rps|qps|throughput|load)(?: rps)?", re.IGNORECASE)
_RATE = re.compile(
    r"(?:achieved |actual |total |mean |avg |average |平均)?(?:throughput|speed|rate|吞吐量?|每秒(?:请求|处理)(?:数|量)?|请求速率|性能|tps)|best performance",
    re.IGNORECASE,
)
_OTHER_RATE = re.compile(
    r"\b(?:max(?:imum)?|min(?:imum)?|peak|std ?dev|stdev|target|delta|diff|ratio|vs)\b|[%Δ±]"
    r"|(?:\bper |/ ?)(?:v?cpu|core|thread|worker|process|connection|client|watt|dollar)\b",
    re.IGNORECASE,
)
_OTHER_UNIT = re.compile(r"/|\bper\b|\b[kmg]?i?(?:b|bps|bits?|bytes)\b|\bm(?:in|s)\b", re.IGNORECASE)
"""Units of throughputs that are not of requests per second."""
_WINDOW = re.compile(
    r"(?:test |total |run )?(?:duration|elapsed|time taken(?: for tests?)?)|total time|持续时间|测试时长|时长",
    re.IGNORECASE,
)
_UNIT_AT_END = re.compile(r"(?:^|[\s(\[,:/])\s*(" + "|".join(map(re.escape, SECONDS)) + r")\s*[)\]]?$", re.IGNORECASE)
_WORD = re.compile(r"t?p\s?\d[\d.]*|\d[\d.]*\s?(?:%|(?:th|e|й)\b|分位)?|[^\W\d_]+", re.IGNORECASE)


@dataclass(frozen=True)
class PublishedColumn:
    """A column that is used: the field that it fills, and how its cells are read."""

    field: str
    """Field of `PublishedResult`, a percentile as `p99`, `test`, or a count of one kind of error or status."""
    connections: int | None = None
    """Of a rate: the connections that its heading names."""
    kind: Literal["number", "rate", "time", "size", "share", "text"] = "number"
    scale: float | None = None
    """Seconds, bytes, requests/s or share of a figure without a unit; None: its heading names none."""
    repeats: bool = False
    """True for one of several columns that are repetitions of each row."""

    def read(self, cell: str, decimal: Decimal) -> float | None:
        """Return the figure in a plain cell, times in seconds and sizes in bytes; None where there is none."""
        if self.kind == "time":
            return numbers.read_time(cell, self.scale, decimal)
        if self.kind == "size":
            return numbers.read_size(cell, self.scale, decimal)
        if self.kind == "share":
            return numbers.read_share(cell, self.scale, decimal)
        bare = re.sub(r" ?/ ?s(?:ec)?$" if self.kind == "rate" else r" (?:time ?outs?|errors?)$", "", cell)
        number = numbers.read_number(bare, decimal, self.scale)
        if number is None and self.field == "connections":
            return connections_of(cell)  # `50 VUs`
        return numbers.read_rate(cell, decimal) if number is None and self.kind == "rate" else number


def words_of(head: str) -> str:
    """Return a heading as plain words: `` `p99_latency` `` and `P99 latency (lower is better)` are `p99 latency`."""
    text = _BETTER.sub("", numbers.plain(head))
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text)  # camelCase
    return " ".join(re.sub(r"[_\-]", " ", text).replace("()", "").split())


def is_name(head: str) -> bool:
    """Return whether a heading stands above names of servers."""
    return any(_NAMES.fullmatch(part) for part in re.split(r"\s*/\s*", words_of(head)))


def is_test(head: str) -> bool:
    """Return whether a heading stands above names of tests."""
    return _TESTS.fullmatch(words_of(head)) is not None


def is_repetition(head: str) -> bool:
    """Return whether a heading, or the first cell of a row, numbers a repetition: `Run 2`, `第3次`, `#1`."""
    return _REPETITION.fullmatch(_without_brackets(words_of(head))) is not None


def is_sweep(head: str) -> bool:
    """Return whether a heading may name a target rate: `Rate (req/s)`."""
    return (
        re.fullmatch(r"(?:(?:arrival|request) )?rate|load", _without_brackets(words_of(head)), re.IGNORECASE)
        is not None
    )


def _without_brackets(words: str) -> str:
    return re.sub(r"\s*[(\[].*[)\]]", "", words)


def is_bare_number(head: str) -> bool:
    """Return whether a heading is only a number: of connections, or a cell of a file without headings."""
    return re.fullmatch(r"\d+(?: #\d+)?", head) is not None


def is_mean(label: str) -> bool:
    """Return whether the label of a row names a mean: `avg`."""
    return words_of(label).lower() in _MEAN


def is_summary(label: str) -> bool:
    """Return whether the label of a row, or a heading, names a mean, total or extreme of others."""
    return words_of(label).lower() in _MEAN | _MEDIAN | _MAX | _SUMMARIES


def is_index(head: str) -> bool:
    """Return whether a heading stands above numbers of rows or repetitions."""
    return not words_of(head) or _INDEX.fullmatch(words_of(head)) is not None


def column_of(head: str, cells: Sequence[str]) -> PublishedColumn | None:
    """Return how the column with this heading and these plain cells is read; None where it is no figure."""
    if is_repetition(head):
        return None
    words = words_of(re.sub(r" #\d+$", "", head))
    bare, scale = _without_unit(words)
    return (
        _bytes_column(words, cells)
        or _count_column(words)
        or (None if PER_SECOND.search(words) else _time_column(bare, scale))  # `Mean requests per second`
        or (PublishedColumn("duration_s", kind="time", scale=scale) if _WINDOW.fullmatch(bare) else None)
        or (PublishedColumn("rps", kind="rate", scale=numbers.scale_of(words)) if _is_rate(words) else None)
    )


def _count_column(words: str) -> PublishedColumn | None:
    for field, shares in _SHARES.items():
        if match := shares.fullmatch(words):
            return PublishedColumn(field, kind="share", scale=0.01 if any(match.groups()) else None)
    if match := _RATE_AT.fullmatch(words):
        return PublishedColumn("rps", connections=int(match[1]), kind="rate")
    if _TARGET.fullmatch(_without_brackets(words)):
        return PublishedColumn("target_rate", kind="rate", scale=numbers.scale_of(words))
    return next(
        (PublishedColumn(field) for field, pattern in _COUNT_PATTERNS.items() if pattern.fullmatch(words)), None
    )


def owner_of(head: str) -> str:
    """Return the words of a heading beside those of its rate: `nginx` of `nginx (req/s)`; empty for `Avg RPS`."""
    if PER_SECOND.search(words_of(head)) is None and not _is_rate(words_of(head)):
        return head
    words = re.sub(r"[()\[\],:]", " ", PER_SECOND.sub(" ", numbers.SCALE.sub(" ", words_of(head))))
    return " ".join(word for word in words.split() if word.lower() not in _MEAN | {"rate", "throughput", "speed", "in"})


def connections_of(head: str) -> int | None:
    """Return the number of connections in a heading such as `1 000 connections`; None for others."""
    match = _AT_CONNECTIONS.fullmatch(words_of(head))
    return int(re.sub(r"\D", "", match[1])) if match else None


def has_time_unit(head: str) -> bool:
    """Return whether a heading names a unit of time, as `Run 1 (ms)` does."""
    return PER_SECOND.search(head) is None and _without_unit(words_of(head))[1] is not None


def _is_rate(words: str) -> bool:
    """Return whether a heading names rates, and no extreme, spread or rate per core."""
    if _OTHER_RATE.search(words):
        return False
    if PER_SECOND.search(words) is not None:
        return True
    return not _OTHER_UNIT.search(words) and _RATE.fullmatch(_without_brackets(words)) is not None


def _bytes_column(words: str, cells: Sequence[str]) -> PublishedColumn | None:
    """Return how a column of bytes per second is read; None for others, such as a throughput in requests."""
    match = _BYTES.fullmatch(words)
    if match is None:
        return None
    unit = "" if words.lower().startswith("bytes") else match[1]
    scale = None if unit is None else numbers.bytes_in(unit)
    return (
        PublishedColumn("bytes_per_s", kind="size", scale=scale)
        if scale is not None or any(map(numbers.is_size, cells))
        else None
    )


def _without_unit(words: str) -> tuple[str, float | None]:
    match = _UNIT_AT_END.search(words)
    if match is None:
        return words, None
    return words[: match.start()].strip(" ,:(["), SECONDS[match[1].lower()]


def _time_column(bare: str, scale: float | None) -> PublishedColumn | None:
    """Return the column of a mean, a longest time or a percentile; None for words that say anything else."""
    unit = next(
        (SECONDS[each.lower()] for each in re.findall(r"[^\W\d_]+", bare) if each.lower() in {"us", "ms", "ns", "μs"}),
        None,
    )
    bare = re.sub(r"(?i)%ile", "percentile", re.sub(r"(?i)\bp\(([\d.]+)\)?", r"p\1", bare))  # 95th %ile, k6's p(95)
    bare = re.sub(r"(?<=p\d\d) (?=\d\b)", ".", re.sub(r"(?i)\bpercentile? ?(?=\d)", "p", bare))  # p99_9, percentile99
    fields: set[str] = set()
    for word in _WORD.findall(
        re.sub("(平均|最大|最长|最慢|中位数|延迟|时延|响应时间|耗时|时间|レイテンシ)", r" \1 ", bare)
    ):
        lower = word.lower().replace(" ", "")
        if lower in _MEAN:
            fields.add("mean_s")
        elif lower in _MAX:
            fields.add("max_s")
        elif lower in _MEDIAN:
            fields.add("p50")
        elif percentile := _percentile(lower):
            fields.add(percentile)
        elif lower not in _ABOUT_TIME and lower not in SECONDS:
            return None
    return PublishedColumn(fields.pop(), kind="time", scale=scale or unit) if len(fields) == 1 else None


def _percentile(word: str) -> str | None:
    """Return `p99.9` of `p99.9`, `p999`, `99.9%` and `99.9th`; None for other words."""
    match = re.fullmatch(r"t?p(\d{2,6}(?:\.\d+)?)|(\d{2}(?:\.\d+)?)(?:%|th|e|й|分位)", word)
    if match is None:
        return None
    digits = match[1] or match[2]
    return f"p{digits}" if "." in digits or len(digits) == 2 else f"p{digits[:2]}.{digits[2:]}"  # noqa: PLR2004 - 99
