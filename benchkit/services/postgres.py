"""The PostgreSQL of the host, with a data folder of its own that is fresh at each start.

PostgreSQL refuses to run as root. Where root starts it, it runs as the user of its package, `postgres`, who may not
enter benchkit's work directory. So the data folder is mounted at another place, in a mount namespace of this process
alone, which ends with it. Without root it runs as the login user, in the folder itself.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

from benchkit.agent.operations import StopSignal
from benchkit.errors import FieldError
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.service import Service, ServiceFile, ServiceProcess

PROGRAM = "postgres"
USER = "postgres"
"""User that the packages create, and the only user of the database."""
READY_S = 60.0
"""Time for initdb and the start; initdb takes 1 to 3 s."""
STOP = StopSignal(signal.SIGINT, 10.0)
"""Fast shutdown (Shutting Down the Server, PostgreSQL documentation): connections are closed, and it ends."""
MOUNT = PurePosixPath("/mnt")
"""Place of the data folder in the mount namespace of a process of root's: every Linux has it (FHS 3.0)."""

START = f"""\
set -eu
postgres=$(readlink -f "$1") data=$2 as_user=
shift 2
mkdir -p "$data"
chmod 700 "$data"
if [ "$(id -u)" = 0 ]; then
  chown {USER} "$data"
  mount --bind "$data" {MOUNT}
  cd {MOUNT}
  data={MOUNT} as_user="setpriv --reuid={USER} --regid={USER} --init-groups --"
fi
$as_user "$(dirname "$postgres")/initdb" -D "$data" --username=postgres --auth=trust --no-sync --locale=C --encoding=UTF8 >&2
exec $as_user "$postgres" -D "$data" "$@"
"""
"""Script that starts it. Its arguments: the program, the data folder, then PostgreSQL's own."""

Setting = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_.]*$")]


class PostgresOptions(ServiceOptions):
    """Options of a PostgreSQL; its user and its database are `postgres`, without a password."""

    settings: Mapping[Setting, StrictBool | StrictInt | StrictFloat | StrictStr] = Field(
        default_factory=dict,
        description="settings of PostgreSQL, which override its initdb's",
        examples=[{"shared_buffers": "256MB", "synchronous_commit": False}],
    )


class PostgresBackend(Backend[PostgresOptions]):
    """One PostgreSQL on a TCP port, whose data folder is emptied before each start."""

    name = "postgres"
    options = PostgresOptions
    own_protocol = "postgres"
    needs = (PROGRAM,)

    def render(self, request: RenderRequest[PostgresOptions]) -> Service:
        """Return one PostgreSQL. Raises FieldError for a unix socket, whose path its user may not enter."""
        options, place, endpoint = request.options, request.place, request.endpoint
        if endpoint.port is None:
            raise FieldError("listen", "PostgreSQL needs a port", hint="write 127.0.0.1:5432")
        cpus, data, script = place.select_cpus(options.cpus, "cpus"), place.folder / "data", place.folder / "start.sh"
        shell = ("unshare", "--mount", "--propagation", "private", "sh") if place.root else ("sh",)
        argv = (*shell, str(script), place.program(PROGRAM).path, str(data), *_arguments(request))
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=(ServiceFile(script, START.encode()),),
            process=ServiceProcess(argv, cpus, place.nofile),
            endpoint=endpoint,
            scratch_folders=(data,),
            ready_timeout_s=READY_S,
            stop=STOP,
            forks_per_request=True,  # a process for each connection; its background workers come and go
        )


def _arguments(request: RenderRequest[PostgresOptions]) -> Iterator[str]:
    endpoint = request.endpoint
    yield from ("-h", str(endpoint.address), "-p", str(endpoint.port))
    # No socket in the folder of the host's own database, and no shared memory that outlives a kill.
    settings: dict[str, object] = {"unix_socket_directories": "", "dynamic_shared_memory_type": "mmap"}
    for name, value in (settings | dict(request.options.settings)).items():
        yield from ("-c", f"{name}={_text(value)}")


def _text(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


POSTGRES = PostgresBackend()
