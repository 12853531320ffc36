from __future__ import annotations

import tempfile

from benchkit.hosts.files import hint_at_private_folder


def test_only_paths_that_this_machine_has_in_such_a_folder_get_the_hint() -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        for text in (f"{file.name} -listen 1", f'open() "{file.name}" failed', f"x={file.name}: not found"):
            assert f"{file.name} is on this machine; a host of a lab has a /tmp of its own" in str(
                hint_at_private_folder("", text)
            )
        assert hint_at_private_folder(f"/srv{file.name}", None) is None
        assert hint_at_private_folder(file.name, is_on_host={file.name}.__contains__) is None
    assert hint_at_private_folder(file.name) is None
    assert hint_at_private_folder("/usr/bin/env") is None
