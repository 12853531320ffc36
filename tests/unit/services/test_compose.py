from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.scenario.experiment import Cell
from benchkit.services.container import ContainerOptions
from tests.support.builders import read_scenario

SHOP = """
services:
  web:
    image: me/web:1
    depends_on: {db: {condition: service_healthy}}
    environment: [POOL=5, "URL=postgres://db/{name}$$1"]
    command: serve --pool 5
    ports: ["80:80"]
    x-note: ours
  db:
    image: me/db:16
    expose: [5432]
    volumes: ["data:/var/lib/db", "./conf:/etc/db:ro"]
    healthcheck: {test: [CMD, isready, -q]}
    mem_limit: 512MB
    cpus: 0.5
volumes: {data: }
"""
APP = {"backend": "compose", "file": "compose.yaml", "entry": "web:80", "listen": 8080, "pull": "missing"}


def cells(folder: Path, text: str = SHOP, factors: object = None, **options: object) -> list[Cell]:
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "db.conf").write_text("x")
    (folder / "compose.yaml").write_text(text)
    stacks = {"one": {"entry": "app", "services": {"app": {**APP, **options}}}}
    return list(read_scenario(folder, stacks=stacks, factors=factors or {}).cells)


def containers(cell: Cell) -> dict[str, ContainerOptions]:
    found = {service.name: service.options for service in cell.services}
    return {name: options for name, options in found.items() if isinstance(options, ContainerOptions)}


def test_each_service_is_a_container_in_the_order_of_its_dependencies(tmp_path: Path) -> None:
    found = containers(cells(tmp_path, prepare={"db": "fill --rows 10"})[0])
    assert list(found) == ["app-db", "app"]
    db, app = found.values()
    assert (app.image, app.network, app.port, app.command) == ("me/web:1", "published", 80, ("serve", "--pool", "5"))
    assert app.environment == {"POOL": "5", "URL": "postgres://db/{{name}}$1"}
    assert (app.peers, db.peers) == ({"db": "app-db"}, {"web": "app"})
    assert (db.network, db.port, db.ready_command, db.prepare) == (
        *("bridge", 5432),
        *(("isready", "-q"), ("fill", "--rows", "10")),
    )
    assert (db.memory, db.quota) == ("512m", 0.5)
    assert db.mounts == ("data:/var/lib/db:rw", "./conf:/etc/db:ro")
    assert db.files == (str(tmp_path / "conf"),)


def test_levels_override_fields_of_the_file(tmp_path: Path) -> None:
    override = {"web": {"environment": {"POOL": "$pool"}}}
    found = [
        containers(cell)["app"].environment for cell in cells(tmp_path, SHOP, {"pool": [1, 20]}, override=override)
    ]
    assert [each["POOL"] for each in found] == ["1", "20"]
    assert all("URL" in each for each in found)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "ports:",
            "privileged: true\n    ports:",
            r"compose\.yaml:8: services\.web\.privileged: privileged is not supported",
        ),
        ("volumes: {data: }", "configs: {}", "configs is not supported"),
        ("5432", "$PORT", r"\$PORT needs interpolation"),
        ("service_healthy", "service_completed_successfully", "a service that ends is not supported; use `prepare`"),
        ("{db:", "{dp:", "depends_on: no service 'dp'; allowed: web, db"),
        ("expose: [5432]", "depends_on: [web]", "they depend on each other"),
        ("data:/var/lib/db", "data", r"volumes\.0: allowed: SOURCE:TARGET"),
        ("512MB", "lots", "found 'lots'"),
        ("POOL=5", "POOL", "POOL has no value"),
    ],
)
def test_what_is_not_read_is_refused_by_name(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in SHOP
    with pytest.raises(InputError, match=message):
        cells(tmp_path, SHOP.replace(before, after))


FIELD = """\
services:
  web:
    image: shop/web:1
    restart: unless-stopped
    container_name: shop-web
    networks: [front]
    volumes: [/var/cache]
    ports: ["8080:80"]
    depends_on: [db]
  db:
    image: postgres:17
    restart: always
    environment: [POSTGRES_PASSWORD=x]
    expose: [5432]
networks: {front: }
"""


def test_fields_that_change_nothing_are_ignored_with_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cell,) = cells(tmp_path, FIELD)
    web = containers(cell)["app"]
    assert web.mounts == ("anonymous-0:/var/cache:rw",)
    (note,) = caplog.messages
    assert "compose.yaml: ignored: restart, container_name, networks (benchkit starts" in note


def test_secrets_are_files_that_containers_read(tmp_path: Path) -> None:
    (tmp_path / "password.txt").write_text("x")
    text = SHOP.replace("me/db:16", "me/db:16\n    secrets: [db-password]")
    text += "secrets: {db-password: {file: password.txt}, other: {external: true}}\n"
    db = containers(cells(tmp_path, text)[0])["app-db"]
    assert db.mounts[0] == "./password.txt:/run/secrets/db-password:ro"
    assert str(tmp_path / "password.txt") in db.files
    with pytest.raises(InputError, match=r"services\.db\.secrets\.0: allowed: the name of a secret that has a `file`"):
        cells(tmp_path, text.replace("[db-password]", "[other]"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entry": "shop:80"}, "has no service 'shop'"),
        ({"override": {"wep": {}}}, "has no service 'wep'; did you mean 'web'"),
        ({"prepare": {"nobody": "x"}}, "has no service 'nobody'"),
    ],
)
def test_a_service_that_the_file_lacks_is_named(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cells(tmp_path, SHOP, None, **options)
