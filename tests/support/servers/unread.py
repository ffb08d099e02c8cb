"""A client that leaves responses unread."""

import socket


def unread(port: int, path: str) -> socket.socket:
    """Open a connection with more responses than the system's buffers hold, of which nothing is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 8)
    return connection
