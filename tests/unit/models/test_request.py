"""Headers: values of secret ones are stored and shown nowhere, whatever the form in which they are given."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from benchkit.models.load import Load
from benchkit.models.request import NOT_STORED, SecretValue, is_secret
from benchkit.models.trial import ProbeRecord

VALUE = "Bearer 7d41-very-secret"


def _load(**fields: object) -> Load:
    return Load.model_validate({"tool": "wrk", "connections": 4, "duration_s": 1, **fields})


PRIVATE_NAMES = (
    "Authorization proxy-authorization Cookie Set-Cookie X-Api-Key X-APIKEY X-Auth-Key X-Auth-Token X-CSRF-Token "
    "Client-Secret X-Password X-Amz-Security-Token Mcp-Session-Id Authentication-Info"
)
PUBLIC_NAMES = "Accept Host Author X-Authority Content-Type Key X-Request-Id Idempotency-Key Passenger User-Agent"


def test_known_secret_headers() -> None:
    assert [name for name in f"{PRIVATE_NAMES} {PUBLIC_NAMES}".split() if is_secret(name)] == PRIVATE_NAMES.split()


def test_the_value_of_a_secret_header_is_only_sent() -> None:
    secret = SecretValue(env="TOKEN").with_value(VALUE)
    load = _load(headers={"Authorization": secret, "Accept": "text/html"}, requests=[{"headers": {"X-Own": secret}}])
    assert VALUE not in load.model_dump_json() + repr(load) + str(load.request_mix)
    assert load.model_dump(mode="json")["headers"] == {"Authorization": {"env": "TOKEN"}, "Accept": "text/html"}
    sent = load.revealed.request_mix[0].headers
    assert sent == {"Authorization": VALUE, "Accept": "text/html", "X-Own": VALUE}
    stored = Load.model_validate_json(load.model_dump_json())
    assert not any(secret.is_read for _, secret in stored.secrets)


@pytest.mark.parametrize("value", [VALUE, "", 5, None, [VALUE]])
def test_a_secret_header_takes_no_text(value: object) -> None:
    with pytest.raises(ValidationError) as failure:
        _load(headers={"Authorization": value})
    (detail,) = failure.value.errors()
    message = "Authorization may hold a secret, which is not stored: write {env: NAME} or {file: PATH}"
    assert detail["msg"] == f"Value error, {message}"


def test_values_of_secret_headers_of_responses_are_not_stored() -> None:
    probe = ProbeRecord(
        status=200,
        header_bytes=60,
        headers=(("Set-Cookie", "sid=7d41"), ("Content-Type", "text/plain"), ("set-cookie", "b=c")),
        body_bytes=0,
        body_sha256="0" * 64,
    )
    assert probe.headers == (("Set-Cookie", NOT_STORED), ("Content-Type", "text/plain"), ("set-cookie", NOT_STORED))
