#!/usr/bin/env python3
"""Lets programs outside the cluster's network namespace reach its API server.

A socket stays in the network namespace it was made in. `open` makes the listening socket outside,
then becomes the command that makes the namespaces. `serve`, started inside, inherits the socket and
connects each client to the same port of the inner loopback, so that one kubeconfig is right on both
sides.

    forward.py open PORT PORT_FILE COMMAND…    PORT 0 takes a free one; PORT_FILE gets the number
    forward.py serve PORT
"""

import asyncio
import contextlib
import os
import socket
import sys

LISTENER_FD = 3


def open_outside(port, port_file, command):
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        fix = "set KUBE_PORT to a free port or to 0"
        sys.exit(f"cannot listen on 127.0.0.1:{port}: {error.strerror}; {fix}")
    with open(port_file, "w") as file:
        print(listener.getsockname()[1], file=file)
    if listener.fileno() != LISTENER_FD:
        os.dup2(listener.fileno(), LISTENER_FD)
    os.set_inheritable(LISTENER_FD, True)
    os.execvp(command[0], command)


async def serve_inside(port):
    async def connected(client_reader, client_writer):
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            client_writer.close()
            return
        await asyncio.gather(copy(client_reader, server_writer), copy(server_reader, client_writer))
        client_writer.close()
        server_writer.close()

    listener = socket.socket(fileno=LISTENER_FD)
    async with await asyncio.start_server(connected, sock=listener) as server:
        await server.serve_forever()


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


if sys.argv[1] == "open":
    open_outside(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
else:
    asyncio.run(serve_inside(int(sys.argv[2])))
