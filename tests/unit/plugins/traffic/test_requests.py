"""Traffic of logs: classes, shares, secrets, and the load that sends it."""

from __future__ import annotations

from collections import Counter

import pytest

from benchkit.loadtools.load_shares import unsupported_fields
from benchkit.loadtools.registry import TOOLS
from benchkit.models.load import Load
from benchkit.models.request import Traffic
from benchkit.plugins.traffic.cleaning import Cleaner
from benchkit.plugins.traffic.logs import Log, LoggedRequest
from benchkit.plugins.traffic.requests import MANY_NAMES, kinds_of, traffic_of

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"  # noqa: S105 - of nobody


def make_traffic(*requests: LoggedRequest, paths: int = 20) -> Traffic:
    return traffic_of(Log("combined", list(requests)), Cleaner(), "a.log", paths=paths)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/", "GET /"),
        ("/items/17?page=2", "GET /items/{}?"),
        ("/u/0e2b8d5c-8c11-4c3f-9d2e-1f6f6d9a7b10/cart", "GET /u/{}/cart"),
        ("/static/app.6ec9d28663ca828d.js", "GET /static/app.{}.js"),
        ("/about/team", "GET /about/team"),
    ],
)
def test_ids_are_left_out_of_a_class(target: str, kind: str) -> None:
    assert kinds_of([("GET", target)]) == [kind]


def test_a_place_with_many_names_has_ids() -> None:
    few = [("GET", f"/page/{'x' * (number + 1)}") for number in range(MANY_NAMES)]
    many = [*few, ("GET", "/page/one-more")]
    assert len(set(kinds_of(few))) == MANY_NAMES
    assert set(kinds_of(many)) == {"GET /page/{}"}


def test_shares_are_those_of_the_log_whatever_paths_are_kept() -> None:
    logged = [LoggedRequest("GET", f"/items/{number}", float(number)) for number in range(300)]
    logged += [LoggedRequest("GET", "/", 300.0 + number) for number in range(100)]
    traffic = make_traffic(*logged, paths=7)
    shares: Counter[str] = Counter()
    for request in traffic.requests:
        shares[request.kind] += request.weight  # type: ignore[assignment]  # weights are whole only in sum
    assert shares == pytest.approx({"GET /items/{}": 300, "GET /": 100})
    assert len(traffic.requests) == 8
    sent = Counter(traffic.requests[place].kind for place in traffic.order)
    assert sent == {"GET /items/{}": 300, "GET /": 100}
    assert traffic.times[0] == 0
    assert "8 of 301 different requests are sent: a cache answers more of them than in the log" in traffic.notes


@pytest.mark.parametrize(
    ("target", "cleaned"),
    [
        (f"/a?x=1&access_token={TOKEN}", "/a?x=1"),
        ("/a?api_key=abc", "/a"),
        (f"/a?q={TOKEN}", "/a"),
        ("/a?mail=bob%40example.org", "/a"),
        ("/search?q=shoes&page=2", "/search?q=shoes&page=2"),
        ("/u/0e2b8d5c-8c11-4c3f-9d2e-1f6f6d9a7b10", "/u/0e2b8d5c-8c11-4c3f-9d2e-1f6f6d9a7b10"),
    ],
)
def test_secrets_are_removed_from_targets(target: str, cleaned: str) -> None:
    cleaner = Cleaner()
    assert cleaner.target(target) == cleaned
    assert bool(cleaner.removed) is (target != cleaned)


def test_queries_are_dropped_where_asked() -> None:
    assert Cleaner(drop_queries=True).target("/a?q=shoes") == "/a"


def test_a_secret_in_a_path_is_an_id_of_its_class() -> None:
    traffic = make_traffic(*(LoggedRequest("GET", f"/reset/{TOKEN}{number}") for number in range(5)))
    assert {each.kind for each in traffic.requests} == {"GET /reset/{}"}
    assert not any("eyJ" in each.path for each in traffic.requests)
    assert "removed, secrets in paths: 5" in traffic.notes


def test_headers_with_secrets_are_never_kept() -> None:
    headers = {"Cookie": "sid=1", "Authorization": "Bearer x", "accept": "text/html", "X-Other": "a"}
    cleaner = Cleaner()
    assert cleaner.headers(headers) == {"Accept": "text/html"}
    assert cleaner.removed == {"headers Cookie": 1, "headers Authorization": 1}


def test_bodies_have_the_sizes_of_the_log_and_one_without_the_largest() -> None:
    sizes = (10, 10, 900, None)
    traffic = make_traffic(*(LoggedRequest("POST", "/cart", request_bytes=size) for size in sizes))
    assert {each.body_bytes: each.weight for each in traffic.requests} == {10: 2, 900: 2}
    assert Counter(traffic.order) == {0: 2, 1: 2}
    assert traffic.requests[0].request.content == b"x" * 10
    assert "the log has no bodies: theirs have the right size and one letter" in traffic.notes


def test_a_class_has_the_sizes_of_its_usual_answers() -> None:
    sizes = ((200, 90), (200, 110), (200, 100), (500, 7), (200, None))
    logged = [LoggedRequest("GET", f"/a/{number}", None, *answer) for number, answer in enumerate(sizes)]
    traffic = make_traffic(*logged, LoggedRequest("GET", "/b", status=204))
    by_kind = {each.kind: each for each in traffic.requests}
    assert (by_kind["GET /a/{}"].size, by_kind["GET /b"].size) == ((90, 110), None)
    request = by_kind["GET /a/{}"].request
    assert (request.class_name, request.expect.status, request.expect.size) == ("GET /a/{}", 200, (90, 110))


def test_times_of_whole_seconds_are_spread_in_order() -> None:
    logged = [LoggedRequest("GET", "/", 1000.0 + number // 10) for number in range(100)]
    times = make_traffic(*logged).times
    assert list(times) == sorted(times)
    assert len(set(times)) == 100
    assert times[-1] == pytest.approx(9.5, abs=1.5)
    assert make_traffic(*logged).times == times, "the same in every run"


def test_a_load_sends_traffic_at_its_pace() -> None:
    traffic = make_traffic(*(LoggedRequest("GET", f"/{name}", at) for at, name in enumerate("abab")))
    load = Load(tool="openloop", connections=2, duration_s=1, traffic="a.json", pace="recorded", speed=4)
    sent = load.with_traffic(Traffic.model_validate_json(traffic.model_dump_json(exclude_defaults=True)))
    assert [sent.request_mix[place].path for place in sent.order] == [f"/{name}" for name in "abab"]
    assert len(sent.due_ns) == 4
    assert all(at_ns < 1e9 for at_ns in sent.due_ns)
    assert sent.rate == 4
    paced = load.model_copy(update={"pace": "poisson"}).with_traffic(traffic)
    assert (paced.arrivals, paced.due_ns) == ("poisson", ())
    assert paced.rate == pytest.approx(4 * traffic.lines / (traffic.period_s or 0))
    assert not unsupported_fields(TOOLS["openloop"], sent, 1)
    assert [each.why for each in unsupported_fields(TOOLS["vegeta"], sent, 1)] == [
        "vegeta cannot send at recorded times"
    ]
    assert [each.field for each in unsupported_fields(TOOLS["openloop"], sent, 2)] == ["pace"]


def test_traffic_without_times_has_no_pace() -> None:
    traffic = make_traffic(LoggedRequest("GET", "/"))
    load = Load(tool="openloop", connections=2, duration_s=1, traffic="a.json", pace="constant")
    with pytest.raises(ValueError, match="states no times of its requests"):
        load.with_traffic(traffic)
