#!/usr/bin/env python3
"""Packs root filesystems as an image archive, as `docker save` writes it: no engine is needed.

The archive is an OCI layout (`oci-layout`, `index.json`, `blobs/`), in which Docker's
`manifest.json` names the same blobs. A layer is a tar file or a directory. Files of later layers
hide those of earlier ones.
"""

import argparse
import hashlib
import json
import os
import platform
import tarfile
import tempfile
import typing

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PIECE_BYTES = 1 << 20
# Images with the same content are the same image, whenever they are made.
CREATED = "1970-01-01T00:00:00Z"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


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
        layers = [Blob.of(as_tar(layer, folder)) for layer in arguments.layers]
        image = describe([layer.sum for layer in layers], arguments)
        config = Blob.write(image, folder)
        manifest = Blob.write(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config.descriptor(CONFIG),
                "layers": [layer.descriptor(LAYER) for layer in layers],
            },
            folder,
        )
        texts = {
            "oci-layout": {"imageLayoutVersion": "1.0.0"},
            "index.json": index(manifest, image, arguments.name),
            "manifest.json": [
                {
                    "Config": config.member,
                    "RepoTags": [arguments.name],
                    "Layers": [layer.member for layer in layers],
                }
            ],
        }
        whole = os.path.join(folder, "image.tar")
        with tarfile.open(whole, "w") as tar:
            # The same layer may be there twice.
            for blob in {blob.sum: blob for blob in (*layers, config, manifest)}.values():
                tar.add(blob.path, arcname=blob.member, filter=anonymous)
            for member, content in texts.items():
                text = Blob.write(content, folder)
                tar.add(text.path, arcname=member, filter=anonymous)
        os.replace(whole, archive)


class Blob(typing.NamedTuple):
    """A file of the archive that is named by its checksum."""

    path: str
    sum: str
    bytes: int

    @classmethod
    def of(cls, path):
        return cls(path, checksum(path), os.path.getsize(path))

    @classmethod
    def write(cls, content, folder):
        """A new one, of JSON."""
        text = json.dumps(content).encode()
        path = os.path.join(folder, hashlib.sha256(text).hexdigest())
        with open(path, "wb") as file:
            file.write(text)
        return cls.of(path)

    @property
    def member(self):
        return f"blobs/sha256/{self.sum}"

    def descriptor(self, media_type):
        return {"mediaType": media_type, "digest": f"sha256:{self.sum}", "size": self.bytes}


def index(manifest, image, name):
    """The list of the archive's images, with the name under which clusters look for this one."""
    full = full_name(name)
    return {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            {
                **manifest.descriptor(MANIFEST),
                "platform": {"architecture": image["architecture"], "os": image["os"]},
                "annotations": {
                    "io.containerd.image.name": full,
                    "org.opencontainers.image.ref.name": full.rsplit(":", 1)[1],
                },
            }
        ],
    }


def full_name(name):
    """A name with its registry and its tag, as Docker completes it."""
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif first != "localhost" and not {".", ":"} & set(first):
        name = f"docker.io/{name}"
    return name if ":" in name.rsplit("/", 1)[1] else f"{name}:latest"


def describe(sums, arguments):
    """The configuration of an image with layers of these checksums."""
    config = {
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "WorkingDir": arguments.directory,
    }
    if arguments.entrypoint:
        config["Entrypoint"] = [arguments.entrypoint]
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


if __name__ == "__main__":
    main()
