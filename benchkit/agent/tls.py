"""TLS of a connection that the agent opens, and what was negotiated."""

from __future__ import annotations

import socket
import ssl

from benchkit.agent.frames import Json

PARTIAL_CHAIN = 0x80000
"""X509_V_FLAG_PARTIAL_CHAIN (OpenSSL): a certificate in the file is trusted though nothing there has signed it. Python
names it from 3.10 on."""


def wrapped(connection: socket.socket, tls: Json) -> ssl.SSLSocket:
    """Return a connection after its handshake; `tls`: {"ca_file", "server_name", "alpn": […]}. Raises OSError.

    The certificate is verified: it must be signed by one in the file, and valid for the name or address. All versions
    of TLS that this Python allows are offered, so that the server chooses.
    """
    context = ssl.create_default_context(cafile=tls["ca_file"])
    context.verify_flags |= PARTIAL_CHAIN
    context.set_alpn_protocols(tls["alpn"])
    return context.wrap_socket(connection, server_hostname=tls["server_name"])


def negotiated(connection: ssl.SSLSocket) -> Json:
    """Return what the two ends agreed on; the certificate is DER in hexadecimal digits."""
    cipher = connection.cipher()
    return {
        "alpn": connection.selected_alpn_protocol(),
        "version": connection.version(),
        "cipher": cipher[0] if cipher else None,
        "certificate": (connection.getpeercert(binary_form=True) or b"").hex(),
    }
