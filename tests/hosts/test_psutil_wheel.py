from __future__ import annotations

import importlib.util
import io
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

from benchkit.hosts import psutil_wheel
from benchkit.hosts.psutil_wheel import download_command, fits, psutil_for

WHEEL = """Wheel-Version: 1.0
Generator: setuptools (75.3.3)
Root-Is-Purelib: false
Tag: cp36-abi3-manylinux_2_12_x86_64
Tag: cp36-abi3-manylinux2010_x86_64
Tag: cp36-abi3-manylinux_2_28_x86_64
"""


@pytest.mark.parametrize(
    ("wheel", "machine", "glibc", "fit"),
    [
        (WHEEL, "x86_64", "2.36", True),
        (WHEEL, "x86_64", "2.12", True),
        (WHEEL, "x86_64", "2.5", False),
        (WHEEL, "aarch64", "2.36", False),
        (WHEEL, "x86_64", None, False),
        ("Tag: cp311-cp311-linux_x86_64\n", "x86_64", "2.36", False),
        ("Tag: cp36-abi3-macosx_11_0_arm64\n", "aarch64", "2.36", False),
        ("", "x86_64", "2.36", False),
    ],
)
def test_a_package_fits_by_its_tags(wheel: str, machine: str, glibc: str | None, fit: bool) -> None:  # noqa: FBT001
    assert fits(wheel, machine, glibc) is fit


def test_pip_is_asked_for_another_platform_and_runs_nothing() -> None:
    assert download_command("7.2.2", "aarch64", "2.31", "3.9.2", Path("/cache/part")) == [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--retries", "1", "--timeout", "10", "--only-binary=:all:", "--no-deps", "--dest", "/cache/part"),
        *("--platform", "manylinux2010_aarch64", "--platform", "manylinux_2_12_aarch64"),
        *("--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_17_aarch64"),
        *("--platform", "manylinux_2_28_aarch64"),
        *("--implementation", "cp", "--abi", "abi3", "--python-version", "3.9", "psutil==7.2.2"),
    ]
    assert "musllinux_1_2_x86_64" in download_command("7.2.2", "x86_64", None, "3.12.1", Path("/x"))


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="the controller's own psutil fits no such host"
)
def test_the_controllers_own_copy_works_where_it_is_unpacked(tmp_path: Path) -> None:
    archive = psutil_for(platform.machine(), platform.libc_ver()[1], platform.python_version())
    assert archive.content is not None
    assert archive.content == psutil_for(platform.machine(), platform.libc_ver()[1], "3.8.18").content, "same bytes"
    with zipfile.ZipFile(io.BytesIO(archive.content)) as files:
        files.extractall(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import psutil; print(psutil.__version__, psutil.__file__)"
    )
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == [psutil.__version__, str(tmp_path / "psutil/__init__.py")]


@pytest.mark.system
@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="no pip in this environment")
def test_what_pip_cannot_get_is_a_reason_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    archive = psutil_for("vax", "2.36", "3.11.2")
    assert archive.content is None
    assert f"pip did not get psutil {psutil.__version__} for vax: " in str(archive.why_not)
    assert not list(tmp_path.rglob("*.whl"))


def test_a_wheel_in_the_cache_is_taken_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "benchkit" / "psutil" / f"{psutil.__version__}-vax-glibc"
    folder.mkdir(parents=True)
    (folder / f"psutil-{psutil.__version__}-cp36-abi3-manylinux_2_12_vax.whl").write_bytes(b"a wheel")
    assert psutil_for("vax", "2.36", "3.11.2") == psutil_wheel.Archive(b"a wheel")
