"""Signatures as cosign writes them: who signed what, before anything is unpacked."""
import base64
import json
import re
import subprocess

import pytest

import image_bytes
from image_store import KEYS, images, layout, make_key, push, registry, sign  # noqa: F401 (fixtures)


@pytest.mark.parametrize("kind", KEYS)
def test_a_signature_by_a_named_key_is_accepted(images, layout, tmp_path, kind):
    private, public = make_key(tmp_path, kind)
    sign(layout, private)
    done = images.json("import", "--require-signature", "--key", public, layout, "signed")
    der = subprocess.run(["openssl", "pkey", "-pubin", "-in", public, "-outform", "DER"], check=True, capture_output=True).stdout
    assert done["signed_by"] == [image_bytes.digest(der)]
    assert images.json("gc")["blobs"] == 0
    assert images.json("verify")["faults"] == []


def test_without_a_good_signature_nothing_is_unpacked(images, layout, tmp_path):
    private, public = make_key(tmp_path, "ecdsa")
    (tmp_path / "more").mkdir()
    _, other = make_key(tmp_path / "more", "ecdsa")

    def refused(*keys):
        error = images.refused("import", "--require-signature", *[part for key in keys for part in ("--key", key)], layout, "x")
        assert images.visible() == []
        return error

    assert "without signatures" in refused(public)["hint"]
    sign(layout, private, digest=image_bytes.OTHER)
    assert "without signatures" in refused(public)["hint"]
    sign(layout, private, payload_type="something else")
    assert refused(public)["kind"] == "refused"
    sign(layout, private)
    assert "by other keys" in refused(other)["hint"]
    assert images.refused("import", "--require-signature", layout, "x")["kind"] == "usage"
    private.write_text("no key")
    assert images.refused("import", "--key", private, layout, "x")["kind"] == "invalid"
    images.ok("import", "--require-signature", "--key", other, "--key", public, layout, "x")


DIGEST = re.compile('"sha256:[0-9a-f]{64}"')
ODD_PAYLOADS = {
    "two images": lambda text: text.replace('"image":', '"image": {"docker-manifest-digest": "%s"}, "image":' % image_bytes.OTHER),
    "the other order": lambda text: DIGEST.sub(lambda found: f'{found[0]}, "docker-manifest-digest": "{image_bytes.OTHER}"', text),
    "a list of digests": lambda text: DIGEST.sub(lambda found: f"[{found[0]}]", text),
    "a number": lambda text: DIGEST.sub("7", text),
    "capitals": lambda text: DIGEST.sub(lambda found: found[0].upper().replace("SHA", "sha"), text),
    "a digest that goes on": lambda text: DIGEST.sub(lambda found: found[0][:-1] + '\\u0000"', text),
    "a digest with a space": lambda text: DIGEST.sub(lambda found: found[0][:-1] + ' "', text),
    "bytes after it": lambda text: text + "{}",
    "not critical": lambda text: text.replace('"critical"', '"optional"', 1).replace('"optional": null', '"critical": {}'),
    "a list around it": lambda text: f"[{text}]",
    "the type as a list": lambda text: text.replace('"cosign container image signature"', '["cosign container image signature"]'),
    "no JSON": lambda text: text[1:],
    "larger than any": lambda text: text + " " * (8 << 20),
}
ODD_SIGNATURES = {
    "empty": lambda raw: "", "no base64": lambda raw: "!" * 96, "cut short": lambda raw: base64.b64encode(raw[:-1]).decode(),
    "a bit changed": lambda raw: base64.b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode(),
    "twice": lambda raw: base64.b64encode(raw * 2).decode(), "too long": lambda raw: "A" * 8192, "a number": lambda raw: 7,
    "a list": lambda raw: [base64.b64encode(raw).decode()], "zeros": lambda raw: base64.b64encode(bytes(len(raw))).decode(),
}


@pytest.mark.parametrize("odd", [*[{"bend": bend} for bend in ODD_PAYLOADS.values()], *[{"bend_raw": bend} for bend in ODD_SIGNATURES.values()],
                                 {"layer_type": image_bytes.LAYER}], ids=[*ODD_PAYLOADS, *(f"signature {name}" for name in ODD_SIGNATURES), "of another type"])
def test_an_odd_signature_is_none(images, layout, tmp_path, odd):
    """Signed by the right key, each of them; beside it a plain one counts."""
    private, public = make_key(tmp_path, "ecdsa")
    arguments = ["import", "--require-signature", "--key", public, layout, "x"]
    sign(layout, private, **odd)
    assert images.refused(*arguments)["kind"] == "refused"
    assert images.visible() == [] and images.leftovers() == []
    sign(layout, private)
    assert len(images.json(*arguments)["signed_by"]) == 1


def test_several_signatures_count_each_and_too_many_before_the_good_one_hide_it(images, layout, tmp_path):
    keys = {kind: make_key(tmp_path, kind) for kind in KEYS}
    for private, _ in keys.values():
        sign(layout, private)
    every = [part for _, public in keys.values() for part in ("--key", public)]
    assert len(images.json("import", *every, "--require-signature", layout, "x")["signed_by"]) == len(KEYS)
    index = json.loads((layout / "index.json").read_text())
    image, *signatures = index["manifests"]
    bogus = {**signatures[0], "digest": image_bytes.OTHER}
    (layout / "index.json").write_text(json.dumps({**index, "manifests": [image, *[bogus] * 70, *signatures]}))
    assert images.refused("import", *every, "--require-signature", layout, "y")["kind"] == "refused"


def test_a_key_that_could_be_guessed_is_not_believed(images, layout, tmp_path):
    private, public = tmp_path / "weak.key", tmp_path / "weak.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    sign(layout, private)
    error = images.refused("import", "--key", public, layout, "x")
    assert error["kind"] == "refused" and "too weak" in error["message"]


def test_kept_signatures_are_checked_later_and_travel_with_an_export(images, layout, tmp_path):
    private, public = make_key(tmp_path, "ed25519")
    (tmp_path / "more").mkdir()
    _, other = make_key(tmp_path / "more", "ed25519")
    sign(layout, private)
    assert images.json("import", layout, "x")["signed_by"] == []
    assert images.refused("verify", "--key", other, "x")["kind"] == "refused"
    images.ok("verify", "--key", public, "x")
    assert len(images.json("show", "x")["signed_by"]) == 1
    images.ok("export", "x", tmp_path / "out")
    images.ok("rm", "x")
    images.ok("gc")
    images.ok("import", "--require-signature", "--key", public, tmp_path / "out", "y")


def test_a_signed_image_is_pulled_with_its_signature(images, layout, registry, tmp_path):
    private, public = make_key(tmp_path, "ecdsa")
    push(layout, registry, "team/app:1")
    pulled = images.json("pull", "--insecure", f"{registry}/team/app:1")
    assert images.refused("pull", "--insecure", "--key", public, "--require-signature", f"{registry}/team/app:1")["kind"] == "refused"
    tag = "sha256-" + pulled["digest"][7:] + ".sig"
    sign(layout, private, digest=pulled["digest"])
    subprocess.run(["skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}:{tag}", f"docker://{registry}/team/app:{tag}"], check=True,
                   capture_output=True)
    done = images.json("pull", "--insecure", "--key", public, "--require-signature", f"{registry}/team/app:1")
    assert len(done["signed_by"]) == 1
