"""Sockets on a host, checked from the host itself: listeners, their owners, and answers to HTTP requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchkit.agent import operations as ops
from benchkit.agent.common import with_port
from benchkit.agent.frames import pack_datagrams
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.files import HostPath
from benchkit.hosts.http2 import Http2Request, Http2Response
from benchkit.hosts.http3 import Http3Request
from benchkit.hosts.processes import HostProcess
from benchkit.models.protocol import Alpn, HttpProtocol, Negotiated, alpn, is_http2, is_tls

MAX_TOTAL = 64 << 20
"""Bytes of content after which a response over HTTP/1.1 is incomplete."""

MAX_HTTP2 = 16 << 20
"""Bytes after which an HTTP/2 response is incomplete; all of them are sent to the controller, which decodes them."""

MAX_AUTHORITY = 1 << 20
"""Most bytes read of a file with certificates."""

IPV4_MAPPED = "::ffff:"
"""Prefix of an IPv4 address of an IPv6 socket (RFC 4291, section 2.5.5.2)."""


@dataclass(frozen=True)
class Tcp:
    """A TCP address on a host."""

    address: str
    port: int

    def __str__(self) -> str:
        """Return `10.0.0.1:8080` or `[::1]:8080`."""
        return with_port(self.address, self.port)


@dataclass(frozen=True)
class Udp:
    """A UDP address on a host, where QUIC is spoken."""

    address: str
    port: int

    def __str__(self) -> str:
        """Return `UDP 10.0.0.1:8443`."""
        return f"UDP {Tcp(self.address, self.port)}"


@dataclass(frozen=True)
class Unix:
    """A unix socket on a host."""

    path: HostPath

    def __str__(self) -> str:
        """Return `unix:/path`."""
        return f"unix:{self.path}"


Address = Tcp | Udp | Unix
"""A socket of a server."""


@dataclass
class HttpAnswer(ops.HttpHead):
    """An HTTP response, with every byte counted (terms of RFC 9110)."""

    body: bytes = b""
    """Start of the content."""
    negotiated: Negotiated = field(default_factory=lambda: Negotiated(protocol="http1"))
    """Protocol of the response, and parameters of the TLS session."""


@dataclass(frozen=True)
class HttpHop:
    """The protocol that a client speaks with a server."""

    protocol: HttpProtocol = "http1"
    ca_file: HostPath | None = None
    """File on the client's host with the certificates that verify the server's; None without TLS."""
    server_name: str | None = None
    """Name or address that the server's certificate must be valid for; None without TLS."""


PLAIN = HttpHop()
"""HTTP/1.1 without TLS."""


class PortTakenError(HostStateError):
    """A service's port that another program's socket uses."""

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        why: str | None = None,
        hint: str | None = None,
        owners: Iterable[ops.PortOwner] = (),
    ) -> None:
        super().__init__(what, where=where, why=why, hint=hint)
        self.owners = tuple(owners)


class Sockets:
    """The sockets of one host; safe for many threads."""

    def __init__(self, link: AgentLink, host: str) -> None:
        self._link = link
        self._host = host

    def wait_open(
        self, at: Address, timeout_s: float, process: HostProcess | None = None, *, waited_s: float = 0.0
    ) -> float:
        """Wait until a socket accepts connections or answers QUIC; return the seconds it took.

        `waited_s` is the time that the caller has waited already, for messages. Raises HostError at the timeout, and
        at once where `process`, which should open the socket, has ended.
        """
        wanted = ops.ProbePort(socket_address(at), timeout_s, process=None if process is None else process.id)
        probe = self._link.request(wanted, timeout_s=timeout_s)
        if process is not None and probe.process_ended:
            ended = process.wait(0)
            raise HostError(f"{process.argv[0]} ended before it listened on {at}", where=self._host, why=str(ended))
        if not probe.reached:
            hint = "does a firewall drop UDP, or does the server speak TCP alone?" if isinstance(at, Udp) else None
            why = f"{probe.error} for {waited_s + timeout_s:g} s"
            raise HostError(f"cannot connect to {at}", where=self._host, why=why, hint=hint)
        return probe.elapsed_s

    def http(
        self,
        at: Address,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float = 10,
        max_body: int = 4096,
        hop: HttpHop = PLAIN,
    ) -> HttpAnswer:
        """Send a request over a new connection; return at most `max_body` bytes of the content.

        Headers are sent as given, over HTTP/2 without those that it forbids; the caller gives all of them, `Host` too.
        Over TLS the server chooses between the hop's version of HTTP and HTTP/1.1, as with browsers. Raises HostError.
        """
        pairs = list(headers)
        if hop.protocol == "h3":
            return self._http3(at, Http3Request(method, path, pairs, body), hop, timeout_s, max_body)
        over_http2 = (
            Http2Request(method, path, "https" if is_tls(hop.protocol) else "http", pairs, body)
            if is_http2(hop.protocol)
            else None
        )
        http2_content = b"" if over_http2 is None else over_http2.content
        wanted = ops.ProbeHttp(
            socket_address(at),
            timeout_s,
            method,
            path,
            pairs,
            max_body,
            MAX_TOTAL if over_http2 is None else MAX_HTTP2,
            http2_bytes=len(http2_content),
            http2=hop.protocol == "h2c",
            tls=_tls_client(hop) if is_tls(hop.protocol) else None,
            body=body + http2_content,
        )
        probe = self._link.request(wanted, timeout_s=timeout_s)
        agreed = _negotiated(probe.tls, "h2" if probe.head is None else "http/1.1")
        if probe.head is not None:
            return HttpAnswer(**vars(probe.head), body=probe.body, negotiated=agreed)
        if over_http2 is None:
            raise HostError(f"{at} answers in HTTP/2, which was not offered", where=self._host)
        return self._http2_answer(over_http2, probe.body, at, max_body, agreed)

    def _http2_answer(
        self, request: Http2Request, received: bytes, at: Address, max_body: int, agreed: Negotiated
    ) -> HttpAnswer:
        """Return the answer in the received bytes. Raises HostError for bytes that are no response."""
        try:
            response = request.response(received)
        except ValueError as error:
            raise HostError(f"{at} breaks the protocol of HTTP/2", where=self._host, why=str(error)) from None
        return self._answer("HTTP/2", response, at, max_body, agreed)

    def _http3(self, at: Address, request: Http3Request, hop: HttpHop, timeout_s: float, max_body: int) -> HttpAnswer:
        """Send a request over HTTP/3: this machine has the connection, and the host's agent its datagrams."""
        if hop.ca_file is None or hop.server_name is None:
            raise AssertionError("HTTP/3 without a certificate")
        authority = self._link.request(ops.ReadChunk(str(hop.ca_file), 0, MAX_AUTHORITY)).body
        session: int | None = None

        def exchange(datagrams: Sequence[bytes], wait_s: float | None) -> ops.Datagrams:
            nonlocal session
            wanted = ops.ExchangeDatagrams(
                socket_address(at), wait_s or 0.0, session, wait_s is None, pack_datagrams(datagrams)
            )
            received = self._link.request(wanted, timeout_s=wait_s or 0.0)
            session = received.session
            return received

        try:
            response, agreed = request.send(exchange, authority, hop.server_name, timeout_s)
        except ValueError as error:
            raise HostError(f"{at} does not answer over HTTP/3", where=self._host, why=str(error)) from None
        return self._answer("HTTP/3", response, at, max_body, _negotiated(agreed, "h3"))

    def _answer(self, name: str, response: Http2Response, at: Address, max_body: int, agreed: Negotiated) -> HttpAnswer:
        if not response.status:
            why = f"it ended the stream: {response.error}" if response.error else "it ended before the headers"
            raise HostError(f"{at} sent no {name} response", where=self._host, why=why)
        return HttpAnswer(
            status=response.status,
            reason="",
            header_bytes=response.header_bytes,
            headers=response.headers,
            body_bytes=len(response.body),
            body_sha256=response.body_sha256,
            body=bytes(response.body[:max_body]),
            complete=response.complete,
            closes=False,
            negotiated=agreed,
        )

    def owners(self, ports: Iterable[int], *, udp: bool = False) -> Mapping[int, Sequence[ops.PortOwner]]:
        """Return the sockets on each of these TCP or UDP ports, at any address: listeners, else connections, if any."""
        return self._link.request(ops.FindPortOwners(list(ports), udp))

    def listeners(self, process: HostProcess, *, udp: bool = False) -> tuple[Tcp | Udp, ...]:
        """Return the TCP or UDP addresses on which a process and its descendants listen. Raises HostError.

        The IPv4 address of an IPv6 socket (`::ffff:10.0.0.1`, as Java binds it) is returned as an IPv4 address.
        """
        found = self._link.request(ops.FindListeners(process.id, udp))
        return tuple((Udp if udp else Tcp)(address.removeprefix(IPV4_MAPPED), port) for address, port in found)

    def require_free(self, ports: Iterable[int], *, udp: bool = False) -> None:
        """Raise PortTakenError, naming the owners, where one of these TCP or UDP ports is taken."""
        taken = {port: owners for port, owners in self.owners(ports, udp=udp).items() if owners}
        if taken:
            raise self._taken(taken)

    def require_own_listener(self, process: HostProcess, at: Tcp | Udp, wait_s: float, older_wait_s: float) -> None:
        """Check that a process or its descendants listen on the port of an address that answers.

        Raises PortTakenError where another program listens and the process therefore ends within `wait_s` seconds. The
        time is `older_wait_s` for a program older than the process, which the process most likely did not start. A
        process that keeps running lets another program listen for it, as containers do.
        """
        port = at.port
        if any(each.port == port for each in self.listeners(process, udp=isinstance(at, Udp))):
            return
        owners = self.owners([port], udp=isinstance(at, Udp))
        is_older = any(owner.start is not None and owner.start < process.start for owner in owners[port])
        ended = process.wait(older_wait_s if is_older else wait_s)
        if ended is None:
            return
        if owners[port]:
            raise self._taken(owners)
        raise HostError(f"{process.argv[0]} ended after port {port} had opened", where=self._host, why=str(ended))

    def _taken(self, taken: Mapping[int, Sequence[ops.PortOwner]]) -> PortTakenError:
        why = "; ".join(f"port {port} by {', '.join(map(str, owners))}" for port, owners in taken.items())
        what = "a port is taken" if len(taken) == 1 else "ports are taken"
        return PortTakenError(
            what,
            where=self._host,
            why=why,
            hint="stop the program that has it, or choose another port",
            owners=[owner for each in taken.values() for owner in each],
        )


def _negotiated(tls: ops.TlsSession | None, spoken: Alpn) -> Negotiated:
    """Return the negotiated protocol and parameters, from the TLS session (None without TLS) and HTTP's version."""
    if tls is None:
        return Negotiated(protocol="h2c" if spoken == "h2" else "http1")
    certificate = bytes.fromhex(tls.certificate)
    return Negotiated(
        protocol="https1" if spoken == "http/1.1" else spoken,
        tls_version=tls.version.removeprefix("TLSv") if tls.version else None,
        cipher=tls.cipher,
        key=key_kind(certificate) if certificate else None,
    )


def _tls_client(hop: HttpHop) -> ops.TlsClient:
    offered: list[str] = list(dict.fromkeys([alpn(hop.protocol), "http/1.1"]))
    return ops.TlsClient(str(hop.ca_file), hop.server_name, offered)


def socket_address(at: Address) -> ops.SocketAddress:
    """Return an address as the agent takes it."""
    match at:
        case Tcp(address=address, port=port):
            return ops.SocketAddress(tcp=(address, port))
        case Udp(address=address, port=port):
            return ops.SocketAddress(udp=(address, port))
        case Unix(path=path):
            return ops.SocketAddress(unix=str(path))


def key_kind(certificate: bytes) -> str | None:
    """Return the kind of a certificate's key (DER), such as `rsa-2048` or `ecdsa-p256`; None for an unknown kind."""
    from cryptography import x509  # noqa: PLC0415 - slow, and only TLS needs it
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415

    key = x509.load_der_x509_certificate(certificate).public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return f"rsa-{key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "ecdsa-" + ("p256" if key.curve.name == "secp256r1" else key.curve.name)
    return None
