from __future__ import annotations

from tests.support.lab.fixtures import _traces, in_host, lab_name, loopback
