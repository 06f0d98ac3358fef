"""Images by their bytes: layouts and tars, sound or bent."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile
import zlib
from dataclasses import dataclass, field
from typing import Callable, Optional

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass
class Layout:
    """An OCI layout in the making; every document can be bent before it is written."""
    layers: list[bytes] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    diff_ids: Optional[list[str]] = None
    config: Optional[dict] = None
    bend_config: Callable = lambda value: value
    bend_manifest: Callable = lambda value: value
    bend_index: Callable = lambda value: value
    raw_config: Optional[bytes] = None
    raw_manifest: Optional[bytes] = None
    raw_index: Optional[bytes] = None

    def write(self, folder: pathlib.Path) -> pathlib.Path:
        root = folder / "layout"
        blobs = root / "blobs/sha256"
        blobs.mkdir(parents=True)

        def put(data):
            (blobs / digest(data)[7:]).write_bytes(data)
            return {"digest": digest(data), "size": len(data)}

        ids = self.diff_ids or [digest(plain(layer)) for layer in self.layers]
        config = self.config or {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/sh"]},
                                 "rootfs": {"type": "layers", "diff_ids": ids}}
        config = self.raw_config or json.dumps(self.bend_config(config)).encode()
        types = self.types or [LAYER + ("+gzip" if layer[:2] == b"\x1f\x8b" else "") for layer in self.layers]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": {"mediaType": CONFIG, **put(config)},
                    "layers": [{"mediaType": kind, **put(layer)} for kind, layer in zip(types, self.layers)]}
        manifest = self.raw_manifest or json.dumps(self.bend_manifest(manifest)).encode()
        index = {"schemaVersion": 2, "manifests": [
            {"mediaType": MANIFEST, **put(manifest), "annotations": {"org.opencontainers.image.ref.name": "hostile"}}]}
        (root / "index.json").write_bytes(self.raw_index or json.dumps(self.bend_index(index)).encode())
        (root / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        return root


def plain(layer: bytes) -> bytes:
    if layer[:2] == b"\x1f\x8b":
        try:
            return gzip.decompress(layer)
        except (EOFError, OSError, zlib.error):
            return layer
    if layer[:4] == b"\x28\xb5\x2f\xfd":
        done = subprocess.run(["zstd", "-dcq", "--long=31"], input=layer, capture_output=True)
        return done.stdout
    return layer


FILE, HARD, LINK, CHAR, BLOCK, DIR, FIFO = (tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE,
                                           tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)


def entry(name, kind=FILE, data=b"", link="", mode=0o644, uid=0, gid=0, pax=None, device=(0, 0), mtime=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid, info.gid, info.mtime = kind, link, mode, uid, gid, mtime
    info.size = len(data)
    info.devmajor, info.devminor = device
    info.pax_headers = pax or {}
    return info, data


def tar(*entries, format=tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, encoding="utf-8", errors="surrogateescape") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def header(name=b"x", size=b"%011o\0", kind=b"0", link=b"", mode=b"0000644\0", uid=b"0000000\0", magic=b"ustar\x0000",
           real_size=0, checksum=None) -> bytes:
    """A header by its bytes, for what tarfile wouldn't write."""
    block = bytearray(512)
    block[0:len(name)] = name[:100]
    block[100:108], block[108:116], block[116:124] = mode, uid, b"0000000\0"
    value = size % real_size if b"%" in size else size
    block[124:124 + len(value)] = value
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[157:157 + len(link)] = link[:100]
    block[257:265] = magic
    block[148:156] = b" " * 8
    block[148:156] = checksum or (b"%06o\0 " % sum(block))
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 512)


END = b"\0" * 1024


def pax_block(records: bytes, kind=b"x", size=None) -> bytes:
    return header(b"pax", kind=kind, real_size=len(records) if size is None else size) + padded(records)


def record(key: bytes, value: bytes) -> bytes:
    body = b" " + key + b"=" + value + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def gnu_long(kind: bytes, data: bytes, size=None) -> bytes:
    return header(b"././@LongLink", kind=kind, real_size=len(data) if size is None else size,
                  magic=b"ustar  \0") + padded(data)


def all_paths(root: pathlib.Path):
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            yield pathlib.Path(folder) / name


def zstd(data, *options):
    return subprocess.run(["zstd", "-cq", *options], input=data, capture_output=True, check=True).stdout


OTHER = "sha256:" + "ab" * 32
LAYER_OK = tar(entry("etc", DIR, mode=0o755), entry("etc/ok", data=b"ok"))
