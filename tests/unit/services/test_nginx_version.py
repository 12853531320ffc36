"""Recorded output of `-v` of nginx and its forks, and the features that follow from it."""

from __future__ import annotations

import pytest

from benchkit.services.nginx import NginxVersion, Reuseport, parse_version_output


@pytest.mark.parametrize(
    ("output", "expected", "reuseport", "error_log_option"),
    [
        ("nginx version: nginx/1.22.1\n", NginxVersion("nginx", (1, 22, 1), (1, 22, 1)), "listen", True),
        ("nginx version: nginx/1.18.0 (Ubuntu)\n", NginxVersion("nginx", (1, 18, 0), (1, 18, 0)), "listen", False),
        ("nginx version: nginx/1.9.0\n", NginxVersion("nginx", (1, 9, 0), (1, 9, 0)), None, False),
        ("Tengine version: Tengine/2.1.0 (nginx/1.6.2)\n", NginxVersion("Tengine", (2, 1, 0), (1, 6, 2)), "events", False),
        ("Tengine version: Tengine/2.3.2\nnginx version: nginx/1.17.3\n", NginxVersion("Tengine", (2, 3, 2), (1, 17, 3)), "listen", False),
        ("Tengine version: Tengine/2.3.3 nginx version: nginx/1.18.0", NginxVersion("Tengine", (2, 3, 3), (1, 18, 0)), "listen", False),
        ("Tengine version: Tengine/2.2.9\n", NginxVersion("Tengine", (2, 2, 9), ()), "events", False),
        ("nginx version: openresty/1.27.1.1\n", NginxVersion("openresty", (1, 27, 1, 1), (1, 27, 1)), "listen", True),
        ("nginx version: openresty/1.7.10.1\n", NginxVersion("openresty", (1, 7, 10, 1), (1, 7, 10)), None, False),
        ("nginx version: freenginx/1.27.4 (w/GeoIP2)\n", NginxVersion("freenginx", (1, 27, 4), (1, 27, 4)), "listen", True),
        ("Angie version: Angie/1.7.0\n", NginxVersion("Angie", (1, 7, 0), (1, 23, 4)), "listen", True),
        ("Angie version: Angie/1.12.1\nnginx version: nginx/1.31.2\n", NginxVersion("Angie", (1, 12, 1), (1, 31, 2)), "listen", True),
    ],
)  # fmt: skip
def test_version_and_features_of_a_binary(
    output: str,
    expected: NginxVersion,
    reuseport: Reuseport | None,
    error_log_option: bool,  # noqa: FBT001
) -> None:
    assert parse_version_output(output) == expected
    assert expected.reuseport == reuseport
    assert expected.has_error_log_option is error_log_option


@pytest.mark.parametrize(
    "output", [None, "", "Apache/2.4.57 (Debian)", "lighttpd version: lighttpd/1.4", "nginx: not found"]
)
def test_output_of_other_programs_is_no_nginx_version(output: str | None) -> None:
    assert parse_version_output(output) is None


def test_a_version_names_its_core() -> None:
    assert str(parse_version_output("nginx version: nginx/1.22.1")) == "nginx 1.22.1"
    assert str(parse_version_output("Tengine version: Tengine/2.1.0 (nginx/1.6.2)")) == "Tengine 2.1.0 (nginx 1.6.2)"
