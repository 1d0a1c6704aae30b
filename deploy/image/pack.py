#!/usr/bin/env python3
"""Packs root filesystems as an image archive, as `docker save` writes it: no engine is needed.

A layer is a tar file or a directory. Files of later layers hide those of earlier ones.
"""

import argparse
import hashlib
import json
import os
import platform
import tarfile
import tempfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PIECE_BYTES = 1 << 20
# Images with the same content are the same image, whenever they are made.
CREATED = "1970-01-01T00:00:00Z"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", help="the file to write")
    parser.add_argument("name", help="the image's name and tag")
    parser.add_argument("layers", nargs="+", metavar="layer", help="a tar file or a directory")
    parser.add_argument("--entrypoint", help="the program that containers run")
    parser.add_argument("--directory", default="/", help="where it runs")
    arguments = parser.parse_args()
    pack(arguments)


def pack(arguments):
    """Writes the archive, which appears complete."""
    archive = arguments.archive
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(archive))) as folder:
        paths = [as_tar(layer, folder) for layer in arguments.layers]
        sums = [checksum(path) for path in paths]
        config = json.dumps(describe(sums, arguments)).encode()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        members = [f"{sum}/layer.tar" for sum in sums]
        manifest = [{"Config": config_name, "RepoTags": [arguments.name], "Layers": members}]
        whole = os.path.join(folder, "image.tar")
        with tarfile.open(whole, "w") as tar:
            for path, member in zip(paths, members, strict=True):
                tar.add(path, arcname=member, filter=anonymous)
            for member, data in ((config_name, config), ("manifest.json", json.dumps(manifest))):
                add_text(tar, member, data, folder)
        os.replace(whole, archive)


def describe(sums, arguments):
    """The configuration of an image with layers of these checksums."""
    config = {
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "WorkingDir": arguments.directory,
        "Entrypoint": [arguments.entrypoint] if arguments.entrypoint else None,
    }
    return {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "created": CREATED,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sum}" for sum in sums]},
        "history": [{"created": CREATED} for _ in sums],
    }


def as_tar(layer, folder):
    """The path of a layer as a tar file."""
    if not os.path.isdir(layer):
        return layer
    path = os.path.join(folder, f"layer-{len(os.listdir(folder))}.tar")
    with tarfile.open(path, "w") as tar:
        for name in sorted(os.listdir(layer)):
            tar.add(os.path.join(layer, name), arcname=name, filter=anonymous)
    return path


def anonymous(entry):
    """The same member, owned by root, without a date."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    return entry


def checksum(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def add_text(tar, member, data, folder):
    path = os.path.join(folder, os.path.basename(member))
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    tar.add(path, arcname=member, filter=anonymous)


if __name__ == "__main__":
    main()
