"""Images that mean harm, made from nothing: group G of the attack catalogue.

CASES is a list of Case. `refused` must leave nothing visible in the store; `inert` may be accepted, and then `check`
looks at the unpacked root. Every case runs beside a canary tree whose path `Place` knows, which nothing may change.
"""
import copy
import gzip
import json
import os
import pathlib
import stat
from dataclasses import dataclass
from typing import Callable, Optional

from image_bytes import (BLOCK, CHAR, DIR, END, FIFO, FILE, HARD, INDEX, LAYER, LAYER_OK, LINK, Layout, OTHER, all_paths,
                         digest, entry, gnu_long, header, padded, pax_block, record, tar, zstd)


@dataclass
class Place:
    """Where a case is built, and where the canary lives."""
    folder: pathlib.Path
    canary: pathlib.Path


@dataclass
class Case:
    name: str
    expect: str
    build: Callable[[Place], pathlib.Path]
    check: Optional[Callable[[pathlib.Path], None]] = None
    options: tuple = ()


CASES: list[Case] = []
UP = "/".join([".."] * 20)  # as deep as a test's folder may lie


def case(expect, name=None, check=None, options=()):
    def add(function):
        CASES.append(Case(name or function.__name__, expect, function, check, options))
        return function
    return add


def image(*layers, **bends):
    """The builder of a case that is a layout of these layers; a layer may be a function of the place."""
    def build(place):
        made = [layer(place) if callable(layer) else layer for layer in layers]
        return Layout(made, **bends).write(place.folder)
    return build


# --- G1: names that lead out ---------------------------------------------------------------------------------------

KINDS = {"file": dict(kind=FILE, data=b"evil"), "directory": dict(kind=DIR, mode=0o777), "symlink": dict(kind=LINK, link="/"),
         "fifo": dict(kind=FIFO), "device": dict(kind=CHAR, device=(1, 3)), "hardlink": dict(kind=HARD, link="etc/ok")}
UPWARD = {"up": "../evil", "up_deep": "../" * 12 + "tmp/evil", "down_up": "a/../../evil", "dot_up": "./../evil",
          "absolute_up": "/../evil", "only_up": "..", "trailing_up": "etc/..", "slashes_up": "etc//..//..//evil"}
for spelling, path in UPWARD.items():
    for kind, how in KINDS.items():
        CASES.append(Case(f"{kind}_named_{spelling}", "refused",
                          image(tar(entry("etc", DIR, mode=0o755), entry("etc/ok", data=b"ok"), entry(path, **how)))))


def inside(path, content):
    def check(root):
        assert (root / path).read_bytes() == content
    return check


@case("inert", check=None)
def absolute_name_of_the_canary(place):
    return image(tar(entry(str(place.canary / "file"), data=b"evil")))(place)


@case("inert", check=inside("etc/x", b"evil"))
def doubled_slashes(place):
    return image(tar(entry("//etc//./x", data=b"evil")))(place)


@case("refused")
def upward_name_by_pax(place):
    return image(tar(entry("harmless", data=b"evil", pax={"path": f"{UP}{place.canary}/file"})))(place)


@case("refused")
def upward_name_by_gnu_long_name(place):
    long = b"../" * 60 + bytes(place.canary)[1:] + b"/file\0"
    return image(gnu_long(b"L", long) + header(real_size=4) + padded(b"evil") + END)(place)


@case("refused")
def upward_name_by_ustar_prefix(place):
    block = bytearray(header(b"evil"))
    block[345:345 + 6] = b"../../"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return image(bytes(block) + END)(place)


# --- G2: links on the way ------------------------------------------------------------------------------------------

def through(target, child="evil", **how):
    def build(place):
        to = target.replace("CANARY", str(place.canary))
        return image(tar(entry("link", LINK, link=to), entry(f"link/{child}", **(how or KINDS["file"]))))(place)
    return build


for kind, how in KINDS.items():
    if kind == "hardlink":
        continue
    CASES.append(Case(f"{kind}_through_absolute_link", "refused", through("CANARY", **how)))
    CASES.append(Case(f"{kind}_through_upward_link", "inert", through("../" * 20, **how)))
CASES.append(Case("file_over_canary_through_link", "refused", through("CANARY", child="file")))
CASES.append(Case("file_through_root_link", "inert", through("/"), check=inside("evil", b"evil")))
CASES.append(Case("file_through_upward_canary_link", "refused", through(UP + "CANARY")))
CASES.append(Case("file_through_proc", "refused", through("/proc/self/root")))
CASES.append(Case("file_through_self_cwd", "refused", through("/proc/self/cwd")))


@case("refused")
def link_loop(place):
    return image(tar(entry("a", LINK, link="b"), entry("b", LINK, link="a"), entry("a/x", data=b"evil")))(place)


@case("refused")
def chain_of_links_to_the_canary(place):
    return image(tar(entry("a", LINK, link="b"), entry("b", LINK, link="c"), entry("c", LINK, link=str(place.canary)),
                     entry("a/file", data=b"evil")))(place)


@case("refused")
def directory_swapped_for_a_link(place):
    return image(tar(entry("d", DIR, mode=0o755), entry("d/one", data=b"1"), entry("d", LINK, link=str(place.canary)),
                     entry("d/file", data=b"evil")))(place)


@case("inert")
def parent_swapped_in_a_later_layer(place):
    return image(tar(entry("d", LINK, link=str(place.canary))), tar(entry("d", DIR, mode=0o777), entry("d/file", data=b"evil")),
                 tar(entry("d/.wh.file")))(place)


for name, made in {"symlink": entry(".", LINK, link="/tmp"), "file": entry(".", data=b"evil"), "fifo": entry("./", FIFO),
                   "slash_symlink": entry("/", LINK, link="/tmp"), "hardlink": entry(".", HARD, link="etc/ok"),
                   "device": entry("./.", CHAR, device=(1, 3))}.items():
    CASES.append(Case(f"root_as_{name}", "refused", image(tar(entry("etc/ok", data=b"ok"), made))))


# --- G3: hard links ------------------------------------------------------------------------------------------------

for name, target in {"absolute": "CANARY/file", "upward": UP + "CANARY/file", "missing": "not/there",
                     "dot": ".", "root": "/", "directory": "d", "working_directory": "file"}.items():
    def build(place, target=target):
        to = target.replace("CANARY", str(place.canary))
        return image(tar(entry("d", DIR, mode=0o755), entry("evil", HARD, link=to), entry("evil", data=b"evil", mode=0o777)))(place)
    CASES.append(Case(f"hardlink_to_{name}", "refused", build))


def stays_a_link(root):
    assert (root / "hard").is_symlink() or (root / "hard").read_bytes() == b"evil"


@case("inert", check=stays_a_link)
def hardlink_to_a_link_to_the_canary(place):
    return image(tar(entry("soft", LINK, link=str(place.canary / "file")), entry("hard", HARD, link="soft", mode=0o4777)))(place)


@case("inert", check=stays_a_link)
def hardlink_to_a_link_then_written(place):
    return image(tar(entry("soft", LINK, link=str(place.canary / "file")), entry("hard", HARD, link="soft"),
                     entry("hard", data=b"evil", mode=0o777)))(place)


@case("refused")
def hardlink_through_a_link(place):
    return image(tar(entry("soft", LINK, link=str(place.canary)), entry("hard", HARD, link="soft/file")))(place)


@case("refused")
def hardlink_with_data(place):
    return image(header(b"a", real_size=4) + padded(b"good") + pax_block(record(b"mtime", b"1")) +
                 header(b"b", kind=b"1", link=b"a", real_size=4) + padded(b"evil") + END)(place)


@case("refused")
def hardlink_to_a_whiteout(place):
    return image(tar(entry(".wh.gone"), entry("evil", HARD, link="gone")))(place)


@case("refused")
def hardlink_by_pax_linkpath(place):
    return image(tar(entry("ok", data=b"ok"), entry("evil", HARD, link="ok", pax={"linkpath": f"{UP}{place.canary}/file"})))(place)


@case("refused")
def hardlink_by_gnu_long_link(place):
    return image(gnu_long(b"K", b"../" * 50 + b"etc/passwd\0") + header(b"evil", kind=b"1") + END)(place)


# --- G4: whiteouts -------------------------------------------------------------------------------------------------

for name, path in {"nothing": ".wh.", "dot": ".wh..", "up": ".wh...", "deep_up": "d/.wh...", "up_child": ".wh.../../x",
                   "opaque_up": "../.wh..wh..opq", "whiteout_up": "../../.wh.x"}.items():
    CASES.append(Case(f"whiteout_of_{name}", "refused", image(tar(entry("d", DIR, mode=0o755), entry(path)))))
CASES.append(Case("opaque_through_link", "refused", through("CANARY", child=".wh..wh..opq", data=b"")))
CASES.append(Case("whiteout_through_link", "refused", through("CANARY", child=".wh.file", data=b"")))


def check_own_files_survive(root):
    assert (root / "one").read_bytes() == b"1" and (root / "two").read_bytes() == b"2"
    assert (root / "d/in").read_bytes() == b"3" and os.getxattr(root / "d", "user.overlay.opaque") == b"y"


CASES.append(Case("whiteout_and_file_in_one_layer", "inert", image(tar(
    entry("one", data=b"1"), entry(".wh.one"), entry(".wh.two"), entry("two", data=b"2"), entry("d", DIR, mode=0o755),
    entry("d/in", data=b"3"), entry(".wh.d"))), check=check_own_files_survive))
CASES.append(Case("whiteout_that_is_a_directory", "inert", image(tar(entry(".wh.d", DIR, mode=0o777)))))
CASES.append(Case("whiteout_that_is_a_link", "inert", lambda place: image(tar(
    entry(".wh.d", LINK, link=str(place.canary)), entry("d/file", data=b"evil")))(place)))
CASES.append(Case("notes_of_aufs", "inert", image(tar(entry(".wh..wh.plnk", DIR, mode=0o700), entry(".wh..wh.aufs")))))


# --- G5, G6, G7: devices, modes, attributes ------------------------------------------------------------------------

def check_no_devices(root):
    for path in all_paths(root):
        mode = path.lstat().st_mode
        assert not stat.S_ISBLK(mode) and not stat.S_ISSOCK(mode) and not stat.S_ISCHR(mode), path


for name, (kind, device) in {"null": (CHAR, (1, 3)), "mem": (CHAR, (1, 1)), "disk": (BLOCK, (8, 0)), "zero_zero": (CHAR, (0, 0)),
                             "console": (CHAR, (5, 1)), "loop": (BLOCK, (7, 0)), "huge": (CHAR, (2097151, 2097151))}.items():
    CASES.append(Case(f"device_{name}", "inert", image(tar(entry("dev/evil", kind, device=device, mode=0o4777))),
                      check=check_no_devices))
CASES.append(Case("fifo", "inert", image(tar(entry("pipe", FIFO, mode=0o666))), check=check_no_devices))


def check_no_setid(root):
    for path in all_paths(root):
        state = path.lstat()
        assert stat.S_ISDIR(state.st_mode) or not state.st_mode & 0o6000, path
        if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode):
            left = [name for name in os.listxattr(path, follow_symlinks=False) if not name.startswith("user.")]
            assert left == [] and not any(name.startswith("user.overlay.") for name in os.listxattr(path)), path


for name, mode in {"setuid": 0o4755, "setgid": 0o2755, "both": 0o6777, "sticky": 0o1777}.items():
    CASES.append(Case(f"mode_{name}", "inert", image(tar(entry("bin/su", data=b"#!", mode=mode))), check=check_no_setid))
for name, key in {"capability": "security.capability", "selinux": "security.selinux", "opaque": "user.overlay.opaque",
                  "trusted": "trusted.overlay.redirect", "acl": "system.posix_acl_access", "metacopy": "user.overlay.metacopy",
                  "ima": "security.ima", "odd": "nonsense", "empty_space": "user.overlay."}.items():
    CASES.append(Case(f"attribute_{name}", "inert", image(tar(entry("f", data=b"x", pax={f"SCHILY.xattr.{key}": "y"}),
                                                              entry("d", DIR, mode=0o755, pax={f"SCHILY.xattr.{key}": "y"}))),
                      check=check_no_setid))
CASES.append(Case("attribute_name_too_long", "refused", image(tar(entry("f", data=b"x", pax={"SCHILY.xattr.user." + "n" * 300: "y"})))))
CASES.append(Case("attribute_value_too_large", "refused", image(tar(entry("f", data=b"x", pax={"SCHILY.xattr.user.n": "y" * 70000})))))
CASES.append(Case("attribute_without_a_name", "inert", image(tar(entry("f", data=b"x", pax={"SCHILY.xattr.": "y"})))))
CASES.append(Case("attributes_by_the_hundred", "refused", image(tar(entry(
    "f", data=b"x", pax={f"SCHILY.xattr.user.{i}": "y" for i in range(400)})))))


# --- G8: twice the same name ---------------------------------------------------------------------------------------

def check_last_wins(root):
    assert (root / "x").read_bytes() == b"last" and not (root / "x").is_symlink()


FLIPS = {"file": entry("x", data=b"first"), "directory": entry("x", DIR, mode=0o755), "fifo": entry("x", FIFO)}
for name, first in FLIPS.items():
    CASES.append(Case(f"{name}_becomes_file", "inert", image(tar(first, entry("x", data=b"last"))), check=check_last_wins))
CASES.append(Case("link_to_canary_becomes_file", "inert", lambda place: image(tar(
    entry("x", LINK, link=str(place.canary / "file")), entry("x", data=b"last", mode=0o777)))(place), check=check_last_wins))
CASES.append(Case("link_to_canary_becomes_directory", "inert", lambda place: image(tar(
    entry("x", LINK, link=str(place.canary)), entry("x", DIR, mode=0o777), entry("x/file", data=b"evil")))(place),
    check=inside("x/file", b"evil")))
CASES.append(Case("link_to_canary_becomes_fifo", "inert", lambda place: image(tar(
    entry("x", LINK, link=str(place.canary / "file")), entry("x", FIFO, mode=0o777)))(place)))
CASES.append(Case("link_to_canary_becomes_device", "inert", lambda place: image(tar(
    entry("x", LINK, link=str(place.canary / "file")), entry("x", CHAR, device=(1, 3))))(place)))
CASES.append(Case("full_directory_becomes_file", "inert", image(tar(
    entry("x/a/b/c", data=b"1"), entry("x", data=b"last"))), check=check_last_wins))
CASES.append(Case("file_below_a_file", "refused", image(tar(entry("x", data=b"1"), entry("x/y", data=b"evil")))))
CASES.append(Case("twins_in_case_and_form", "inert", image(tar(entry("A", data=b"1"), entry("a", data=b"2"),
                                                               entry("e\u0301", data=b"3"), entry("\u00e9", data=b"4")))))
CASES.append(Case("cached_parent_swapped", "refused", lambda place: image(tar(
    entry("p/d", DIR, mode=0o755), entry("p/d/one", data=b"1"), entry("p", LINK, link=str(place.canary)),
    entry("p/d/two", data=b"evil")))(place)))


LEADING_OUT = len(CASES)  # those so far: an unpacker that believes names and links changes what is outside

# --- G9, G10: headers that disagree --------------------------------------------------------------------------------

GOOD = header(b"good", real_size=4) + padded(b"good")
NESTED = header(b"../evil", real_size=4) + padded(b"evil")
for name, data in {
    "pax_size_larger": pax_block(record(b"size", b"2048")) + header(b"a", real_size=0) + GOOD + END,
    "pax_size_negative": pax_block(record(b"size", b"-1")) + header(b"a") + END,
    "pax_size_not_a_number": pax_block(record(b"size", b"4x")) + header(b"a", real_size=4) + padded(b"good") + END,
    "pax_size_exabytes": pax_block(record(b"size", b"9223372036854775807")) + header(b"a") + END,
    "pax_size_overflows": pax_block(record(b"size", b"99999999999999999999999")) + header(b"a") + END,
    "pax_record_too_long": pax_block(b"999 path=x\n") + header(b"a") + END,
    "pax_record_without_equals": pax_block(b"8 pathx\n") + header(b"a") + END,
    "pax_record_zero": pax_block(b"0 path=x\n") + header(b"a") + END,
    "pax_header_huge": pax_block(b"", size=8 << 30) + header(b"a") + END,
    "pax_header_at_the_end": pax_block(record(b"path", b"x")),
    "gnu_name_huge": gnu_long(b"L", b"", size=8 << 30) + header(b"a") + END,
    "gnu_link_huge": gnu_long(b"K", b"", size=7 << 30) + header(b"a", kind=b"2") + END,
    "gnu_name_at_the_end": gnu_long(b"L", b"x" * 200),
    "base256_negative": header(b"a", size=b"\xff" * 12) + END,
    "base256_exabytes": header(b"a", size=b"\x80\0\0\0\x7f" + b"\xff" * 7) + END,
    "octal_junk": header(b"a", size=b"0000zz00000\0") + padded(b"evil") + END,
    "checksum_wrong": header(b"a", checksum=b"000001\0 ") + END,
    "truncated_header": GOOD + header(b"b")[:300],
    "truncated_data": header(b"a", real_size=5000) + b"x" * 700,
    "truncated_before_data": header(b"a", real_size=5000),
    "size_beyond_the_layer": header(b"a", real_size=0o77777777777) + padded(b"x") + END,
    "uid_minus_one": tar(entry("a", pax={"uid": "-1"})),
    "uid_all_ones": tar(entry("a", pax={"uid": "4294967295"})),
    "gid_beyond_32_bits": tar(entry("a", pax={"gid": "4294967296"})),
    "name_empty": header(b"") + END,
    "random_bytes": bytes((i * 7919) % 251 for i in range(4096)),
    "zip_archive": b"PK\x03\x04" + b"\0" * 600,
    "symlink_without_target": header(b"a", kind=b"2") + END,
    "unknown_kind": header(b"a", kind=b"Q", real_size=4) + padded(b"evil") + END,
    "sparse_beyond_its_size": pax_block(record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0") +
                                        record(b"GNU.sparse.realsize", b"100") + record(b"GNU.sparse.name", b"s")) +
    header(b"a", real_size=1024) + padded(b"1\n4096\n512\n") + b"x" * 512 + END,
    "sparse_exabytes": pax_block(record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0") +
                                 record(b"GNU.sparse.realsize", b"9000000000000000000") + record(b"GNU.sparse.name", b"s")) +
    header(b"a", real_size=1024) + padded(b"1\n8000000000000000000\n512\n") + b"x" * 512 + END,
    "sparse_upward_name": pax_block(record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0") +
                                    record(b"GNU.sparse.realsize", b"512") + record(b"GNU.sparse.name", b"../evil")) +
    header(b"a", real_size=1024) + padded(b"1\n0\n512\n") + b"x" * 512 + END,
}.items():
    CASES.append(Case(f"tar_{name}", "refused", image(data)))

HIDDEN = header(b"hidden", real_size=4) + padded(b"evil")  # two blocks: content to one reader, a member to another
EMPTY = header(b"a")
SPLIT = {
    "pax_size_then_gnu_name": pax_block(record(b"size", b"1024")) + gnu_long(b"L", b"long\0") + EMPTY + HIDDEN,
    "gnu_name_then_pax_size": gnu_long(b"L", b"long\0") + pax_block(record(b"size", b"1024")) + EMPTY + HIDDEN,
    "pax_size_then_pax": pax_block(record(b"size", b"1024")) + pax_block(record(b"mtime", b"1")) + EMPTY + HIDDEN,
    "pax_size_and_none": pax_block(record(b"size", b"1024")) + EMPTY + HIDDEN,
    "pax_size_none_and_one": pax_block(record(b"size", b"0")) + header(b"a", real_size=1024) + HIDDEN,
    "global_size": pax_block(record(b"size", b"1024"), kind=b"g") + EMPTY + HIDDEN,
    "global_path": pax_block(record(b"path", b"other"), kind=b"g") + GOOD,
    "two_pax_sizes": pax_block(record(b"size", b"1024") + record(b"size", b"0")) + EMPTY + HIDDEN,
    "two_pax_paths": pax_block(record(b"path", b"one") + record(b"path", b"two")) + GOOD,
    "two_gnu_names": gnu_long(b"L", b"one\0") + gnu_long(b"L", b"two\0") + GOOD,
    "gnu_name_and_pax_path": gnu_long(b"L", b"one\0") + pax_block(record(b"path", b"two")) + GOOD,
    "pax_path_with_a_zero": pax_block(record(b"path", b"a\0b")) + GOOD,
    "pax_path_empty": pax_block(record(b"path", b"")) + GOOD,
    "hard_link_with_content": GOOD + header(b"h", kind=b"1", link=b"good", real_size=1024) + HIDDEN,
    "symlink_with_content": header(b"l", kind=b"2", link=b"x", real_size=1024) + HIDDEN,
    "symlink_with_pax_content": pax_block(record(b"size", b"1024")) + header(b"l", kind=b"2", link=b"x") + HIDDEN,
    "device_with_content": header(b"c", kind=b"3", real_size=1024) + HIDDEN,
    "directory_with_content": header(b"d", kind=b"5", real_size=1024) + HIDDEN,
    "fifo_with_content": header(b"p", kind=b"6", real_size=1024) + HIDDEN,
    "folder_of_old_with_content": header(b"d/", real_size=1024) + HIDDEN,
    "folder_by_pax_with_content": pax_block(record(b"path", b"d/")) + header(b"a", real_size=1024) + HIDDEN,
    "folder_by_gnu_with_content": gnu_long(b"L", b"d/\0") + header(b"a", real_size=1024) + HIDDEN,
    "sparse_without_a_map": pax_block(record(b"GNU.sparse.realsize", b"1024")) + EMPTY + HIDDEN,
    "sparse_of_star": pax_block(record(b"SCHILY.realsize", b"1024")) + EMPTY + HIDDEN,
    "solaris_header": header(b"X", kind=b"X", real_size=16) + padded(b"16 path=solaris\n") + GOOD,
    "volume_label": header(b"V", kind=b"V") + GOOD,
    "dump_of_a_directory": header(b"d", kind=b"D", real_size=1024) + HIDDEN,
    "rest_of_another_volume": header(b"m", kind=b"M", real_size=1024) + HIDDEN,
}
for name, data in SPLIT.items():
    CASES.append(Case(f"split_{name}", "refused", image(data + END)))
for name, data in {"size_beside_spaces": header(b"f", size=b"       2000 ") + HIDDEN, "size_in_all_of_its_field": header(b"f", size=b"000000002000") + HIDDEN,
                   "size_base256": header(b"f", size=b"\x80" + b"\0" * 9 + b"\x04\0") + HIDDEN, "contiguous_file": header(b"f", kind=b"7", real_size=1024) + HIDDEN,
                   "old_tar": header(b"f", real_size=1024, magic=b"\0" * 8) + HIDDEN, "folder_of_old": header(b"d/") + HIDDEN,
                   "sparse_of_gnu": header(b"s", kind=b"S", magic=b"ustar  \0") + HIDDEN, "global_comment": pax_block(record(b"comment", b"x"), kind=b"g") + GOOD,
                   "pax_size_of_the_header": pax_block(record(b"size", b"1024")) + header(b"f", real_size=1024) + HIDDEN,
                   "gnu_names": gnu_long(b"K", b"target\0") + gnu_long(b"L", b"name\0") + header(b"a", kind=b"2", link=b"t"), "one_zero_block": GOOD + bytes(512) + HIDDEN}.items():
    CASES.append(Case(f"plain_{name}", "inert", image(data + END)))
CASES.append(Case("tar_behind_its_end", "inert", image(GOOD + END + NESTED + END)))


# --- G11: compression ----------------------------------------------------------------------------------------------

def zeros(size):
    """A sound tar with one file of zeros."""
    return lambda: header(b"zeros", real_size=size) + b"\0" * size + END


GZ = gzip.compress(tar(entry("a", data=b"good" * 1000)), mtime=0)
ZSTD_TYPE = [LAYER + "+zstd"]


@case("refused")
def gzip_bomb(place):
    return image(gzip.compress(zeros(400 << 20)(), 9, mtime=0))(place)


@case("refused")
def zstd_bomb(place):
    return image(zstd(zeros(400 << 20)()), types=ZSTD_TYPE)(place)


@case("either")
def zstd_with_a_huge_window(place):
    return image(zstd(zeros(180 << 20)(), "--long=31", "--ultra", "-3"), types=ZSTD_TYPE)(place)


for name, data in {"truncated": GZ[:-20], "bad_checksum": GZ[:-8] + b"\0\0\0\0" + GZ[-4:], "only_a_header": GZ[:10],
                   "in_gzip": gzip.compress(GZ, mtime=0), "flipped": GZ[:40] + bytes([GZ[40] ^ 0x55]) + GZ[41:]}.items():
    CASES.append(Case(f"gzip_{name}", "refused", image(data)))
CASES.append(Case("gzip_of_several_members", "inert", lambda place: image(
    gzip.compress(GOOD, mtime=0) + gzip.compress(END, mtime=0))(place), check=inside("good", b"good")))
CASES.append(Case("xz_layer", "refused", lambda place: image(__import__("lzma").compress(tar(entry("a", data=b"x"))))(place)))
CASES.append(Case("bzip2_layer", "refused", lambda place: image(__import__("bz2").compress(tar(entry("a", data=b"x"))))(place)))
CASES.append(Case("zstd_truncated", "refused", lambda place: image(zstd(tar(entry("a", data=b"x" * 5000)))[:-9], types=ZSTD_TYPE)(place)))
CASES.append(Case("nothing_at_all", "inert", image(b"")))


# --- G12: too much -------------------------------------------------------------------------------------------------

CASES.append(Case("depth_of_ten_thousand", "refused", image(tar(entry("d/" * 10000 + "x", data=b"x")))))
CASES.append(Case("depth_of_three_hundred", "refused", image(tar(entry("d/" * 300 + "x", data=b"x")))))
CASES.append(Case("name_of_256_bytes", "refused", image(tar(entry("n" * 256, data=b"x")))))
CASES.append(Case("name_of_5000_bytes", "refused", image(tar(entry("n" * 5000, data=b"x")))))
CASES.append(Case("path_of_4200_bytes", "refused", image(tar(entry("/".join(["n" * 200] * 21), data=b"x")))))
CASES.append(Case("link_target_of_5000_bytes", "refused", image(tar(entry("l", LINK, link="t/" * 2500)))))
CASES.append(Case("name_not_utf8", "inert", image(header(b"\xff\xfe\x80", real_size=1) + padded(b"x") + END)))
CASES.append(Case("name_with_controls", "inert", image(tar(entry("\x1b[2J\n\r\x07", data=b"x")))))
CASES.append(Case("time_beyond_all", "either", image(tar(entry("t", data=b"x", pax={"mtime": "99999999999999999"})))))
CASES.append(Case("time_before_all", "inert", image(tar(entry("t", data=b"x", pax={"mtime": "-9999999"})))))


# --- G13, G14, G15: documents --------------------------------------------------------------------------------------



def bent_layer(**changes):
    def bend(manifest):
        manifest["layers"][0].update(changes)
        return manifest
    return bend


def bent_config(**changes):
    def bend(config):
        config = copy.deepcopy(config)
        config["config"].update(changes)
        return config
    return bend


for name, changes in {
    "digest_of_another": dict(digest=OTHER), "digest_sha512": dict(digest="sha512:" + "ab" * 64),
    "digest_as_path": dict(digest="sha256:../../../../etc/passwd"), "digest_upper_case": dict(digest="sha256:" + "AB" * 32),
    "digest_short": dict(digest="sha256:abcd"), "digest_a_number": dict(digest=5), "digest_empty": dict(digest=""),
    "digest_with_slash": dict(digest="sha256:/" + "ab" * 31 + "a"), "size_less": dict(size=5), "size_more": dict(size=10 ** 6),
    "size_negative": dict(size=-1), "size_a_text": dict(size="5"), "size_huge": dict(size=2 ** 63 - 1), "size_real": dict(size=1.5),
    "foreign_address": dict(urls=["https://198.51.100.7/layer"]),
    "foreign_type": dict(mediaType="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"),
    "unknown_type": dict(mediaType="application/vnd.oci.image.layer.v1.tar+lzma"), "no_type": dict(mediaType=None),
}.items():
    CASES.append(Case(f"layer_{name}", "refused", image(LAYER_OK, bend_manifest=bent_layer(**changes))))

CASES.append(Case("diff_id_of_another", "refused", image(LAYER_OK, diff_ids=[OTHER])))
CASES.append(Case("diff_id_sha512", "refused", image(LAYER_OK, diff_ids=["sha512:" + "ab" * 64])))
CASES.append(Case("diff_id_as_path", "refused", image(LAYER_OK, diff_ids=["sha256:../../evil"])))
CASES.append(Case("diff_ids_too_many", "refused", image(LAYER_OK, diff_ids=[digest(LAYER_OK)] * 2)))
CASES.append(Case("diff_ids_missing", "refused", image(LAYER_OK, bend_config=lambda c: {**c, "rootfs": {"type": "layers"}})))
CASES.append(Case("rootfs_of_another_type", "refused", image(LAYER_OK, bend_config=lambda c: {
    **c, "rootfs": {**c["rootfs"], "type": "layers+base"}})))
CASES.append(Case("layers_by_the_thousand", "refused", image(*[LAYER_OK] * 3, bend_manifest=lambda m: {
    **m, "layers": m["layers"] * 4000})))
for name, changes in {"user_a_number": dict(User=0), "env_without_equals": dict(Env=["PATH"]), "env_a_text": dict(Env="A=B"),
                      "env_empty_name": dict(Env=["=x"]), "workdir_relative": dict(WorkingDir="../x"), "cmd_a_text": dict(Cmd="sh"),
                      "entrypoint_of_numbers": dict(Entrypoint=[1]), "labels_a_list": dict(Labels=["x"]),
                      "label_a_number": dict(Labels={"x": 1}), "volumes_a_text": dict(Volumes="/x"),
                      "env_with_zero_byte": dict(Env=["A=\0B"])}.items():
    CASES.append(Case(f"config_{name}", "refused", image(LAYER_OK, bend_config=bent_config(**changes))))
CASES.append(Case("config_of_another_machine", "refused", image(LAYER_OK, bend_config=lambda c: {**c, "architecture": "s390x"})))

DEEP = b"[" * 100000 + b"]" * 100000
for document in ("index", "manifest", "config"):
    for name, data in {"duplicate_keys": b'{"schemaVersion":2,"schemaVersion":2,"manifests":[],"layers":[]}', "deep": DEEP,
                       "huge_number": b'{"schemaVersion":1e999}', "bad_utf8": b'{"schemaVersion":"\xff\xfe"}',
                       "too_large": b'{"x":"' + b"y" * (5 << 20) + b'"}', "empty": b" ", "trailing": b'{"schemaVersion":2} x',
                       "bom": b'\xef\xbb\xbf{"schemaVersion":2}', "a_list": b"[]", "null": b"null",
                       "old_schema": b'{"schemaVersion":1,"manifests":[],"layers":[],"config":{}}'}.items():
        CASES.append(Case(f"{document}_{name}", "refused", image(LAYER_OK, **{f"raw_{document}": data})))

CASES.append(Case("manifest_that_is_an_index_too", "refused", image(LAYER_OK, bend_manifest=lambda m: {**m, "manifests": []})))
CASES.append(Case("index_that_is_a_manifest_too", "refused", image(LAYER_OK, bend_index=lambda i: {**i, "layers": []})))
CASES.append(Case("manifest_with_type_of_an_index", "refused", image(LAYER_OK, bend_manifest=lambda m: {**m, "mediaType": INDEX})))
CASES.append(Case("index_without_images", "refused", image(LAYER_OK, bend_index=lambda i: {**i, "manifests": []})))
CASES.append(Case("index_of_ten_thousand", "refused", image(LAYER_OK, bend_index=lambda i: {**i, "manifests": i["manifests"] * 10000})))


@case("refused")
def indexes_nested_deep(place):
    root = Layout([LAYER_OK]).write(place.folder)
    current = json.loads((root / "index.json").read_text())
    for _ in range(8):
        data = json.dumps(current).encode()
        (root / "blobs/sha256" / digest(data)[7:]).write_bytes(data)
        current = {"schemaVersion": 2, "manifests": [{"mediaType": INDEX, "digest": digest(data), "size": len(data)}]}
    (root / "index.json").write_text(json.dumps(current))
    return root


@case("refused")
def index_that_leads_to_itself(place):
    root = Layout([LAYER_OK]).write(place.folder)
    data = json.dumps({"schemaVersion": 2, "manifests": [{"mediaType": INDEX, "digest": OTHER, "size": 150}]}).encode()
    (root / "blobs/sha256" / OTHER[7:]).write_bytes(data)
    (root / "index.json").write_bytes(data)
    return root


# --- G17: a layout whose files aren't files ------------------------------------------------------------------------

def layer_blob(root):
    return root / "blobs/sha256" / digest(LAYER_OK)[7:]


def replaced(which, by):
    def build(place):
        root = Layout([LAYER_OK]).write(place.folder)
        path = {"layer": layer_blob(root), "index": root / "index.json", "marker": root / "oci-layout"}[which]
        data = path.read_bytes()
        path.unlink()
        if by == "symlink":
            real = place.folder / "real"
            real.write_bytes(data)
            path.symlink_to(real)
        elif by == "fifo":
            os.mkfifo(path)
        elif by == "directory":
            path.mkdir()
        elif by == "device" and os.geteuid() == 0:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
        return root
    return build


for which in ("layer", "index"):
    for by in ("symlink", "fifo", "directory", "device", "nothing"):
        CASES.append(Case(f"{which}_is_a_{by}", "refused", replaced(which, by), options=("--format", "oci")))


@case("refused")
def blobs_folder_is_a_link(place):
    root = Layout([LAYER_OK]).write(place.folder)
    (root / "blobs").rename(place.folder / "elsewhere")
    (root / "blobs").symlink_to(place.folder / "elsewhere")
    return root


# --- archives of images --------------------------------------------------------------------------------------------

def docker(place, layer_path="layer.tar", config_path="config.json", extra=(), manifest=None, layer=LAYER_OK):
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": [digest(LAYER_OK)]}}).encode()
    listed = manifest if manifest is not None else json.dumps(
        [{"Config": config_path, "RepoTags": ["hostile:latest"], "Layers": [layer_path]}]).encode()
    path = place.folder / "archive.tar"
    members = [entry("manifest.json", data=listed), entry("config.json", data=config), *extra]
    if layer is not None:
        members.append(entry("layer.tar", data=layer))
    path.write_bytes(tar(*members))
    return path


DOCKER = ("--format", "docker")
for name, how in {"layer_path_upward": dict(layer_path="../../../etc/passwd"), "layer_path_absolute": dict(layer_path="/etc/passwd"),
                  "config_path_upward": dict(config_path="../../../../etc/passwd"), "layer_path_missing": dict(layer_path="gone.tar"),
                  "manifest_an_object": dict(manifest=b"{}"), "manifest_empty": dict(manifest=b"[]"),
                  "manifest_not_json": dict(manifest=b"nope"), "layer_path_a_number": dict(layer_path=5),
                  "layer_of_another": dict(layer=tar(entry("evil", data=b"evil"))),
                  "member_twice": dict(extra=[entry("layer.tar", data=b"x")]),
                  "member_upward": dict(extra=[entry("../evil", data=b"x")])}.items():
    CASES.append(Case(f"docker_{name}", "refused", lambda place, how=how: docker(place, **how), options=DOCKER))
CASES.append(Case("docker_layer_is_a_link_out", "refused", lambda place: docker(
    place, layer_path="link.tar", extra=[entry("link.tar", LINK, link=f"../../../../..{place.canary}/file")]), options=DOCKER))
CASES.append(Case("docker_layer_is_an_absolute_link", "refused", lambda place: docker(
    place, layer_path="link.tar", extra=[entry("link.tar", LINK, link=str(place.canary / "file"))]), options=DOCKER))
CASES.append(Case("docker_links_in_a_circle", "refused", lambda place: docker(
    place, layer_path="a.tar", extra=[entry("a.tar", LINK, link="b.tar"), entry("b.tar", LINK, link="a.tar")]), options=DOCKER))
CASES.append(Case("docker_layer_is_a_device", "refused", lambda place: docker(
    place, layer=None, extra=[entry("layer.tar", CHAR, device=(1, 5))]), options=DOCKER))
CASES.append(Case("docker_layer_by_an_inner_link", "inert", lambda place: docker(
    place, layer_path="id/layer.tar", extra=[entry("id/layer.tar", LINK, link="../layer.tar")]), options=DOCKER,
    check=inside("etc/ok", b"ok")))
