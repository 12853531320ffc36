from __future__ import annotations

from benchkit.models.protocol import TlsOptions


def test_options_of_a_stored_trial_with_a_certificate_of_the_user_are_read_back() -> None:
    options = TlsOptions(certificate="server.pem", private_key="server.key")
    assert TlsOptions.model_validate_json(options.model_dump_json()) == options
