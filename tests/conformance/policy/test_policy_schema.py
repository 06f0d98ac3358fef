"""The reader and the published schema agree on what a policy is.

POLICY_CHECK names the program policy_check of the build. The cases are in corpus.py; where the two are meant to
differ, it says why.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import jsonschema
import pytest

import corpus

ROOT = pathlib.Path(__file__).resolve().parents[3]
CASES = list(corpus.cases())


@pytest.fixture(scope="session")
def validator() -> Any:
    schema = json.loads((ROOT / "policy/schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the reader says about each case, from one run of the program."""
    folder = tmp_path_factory.mktemp("policies")
    folder.chmod(0o700)
    for case in CASES:
        path = folder / f"{case.name}.json"
        path.write_bytes(case.text)
        path.chmod(0o600)
    names = "".join(f"{folder}/{case.name}.json\n" for case in CASES)
    run = subprocess.run([os.environ["POLICY_CHECK"]], input=names, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return {pathlib.Path(line["file"]).stem: line for line in lines}


def schema_accepts(validator: Any, text: bytes) -> bool:
    """Python's json is laxer than the reader (it takes NaN, BOMs are a decoding matter); that is no concern of the
    schema's."""
    try:
        value = json.loads(text.decode("utf-8-sig" if text.startswith(b"\xef\xbb\xbf") else "utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    try:
        return bool(validator.is_valid(value))
    except (RecursionError, OverflowError, ValueError):
        return False


def test_the_corpus_is_large_and_its_names_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert sum(case.good for case in CASES) >= 200
    assert sum(not case.good for case in CASES) >= 400


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reader_says_what_the_corpus_says(case: corpus.Case, verdicts: dict[str, dict[str, Any]]) -> None:
    verdict = verdicts[case.name]
    assert verdict["ok"] == case.good, (case.text[:300], verdict["findings"])
    assert bool(verdict["findings"]) != case.good
    for finding in verdict["findings"]:
        assert finding["message"] and finding["hint"], finding
        assert f"{case.name}.json:" in finding["pointer"] or "..." in finding["pointer"], finding


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_schema_says_the_same_or_the_reason_is_listed(case: corpus.Case, validator: Any) -> None:
    accepted = schema_accepts(validator, case.text)
    if case.reason is None:
        assert accepted == case.good, case.text[:300]
    else:
        assert case.reason in corpus.REASONS
        assert not case.good


def test_every_reason_is_needed(validator: Any) -> None:
    used = {case.reason for case in CASES if case.reason and schema_accepts(validator, case.text)}
    assert used == set(corpus.REASONS)


@pytest.mark.parametrize("case", [case for case in CASES if case.good], ids=lambda case: case.name)
def test_what_the_reader_writes_is_good_by_the_schema(
        case: corpus.Case, verdicts: dict[str, dict[str, Any]], validator: Any) -> None:
    errors = [error.message for error in validator.iter_errors(verdicts[case.name]["canonical"])]
    assert not errors


@pytest.mark.parametrize("name", ["strict", "tool", "build", "oci"])
def test_the_built_in_profiles_are_good_by_the_schema(name: str, validator: Any) -> None:
    validator.validate(json.loads((ROOT / f"policy/profiles/{name}.json").read_text()))


def objects(schema: Any, pointer: str = "") -> Any:
    for key, value in schema.get("properties", {}).items():
        yield f"{pointer}/{key}"
        if isinstance(value, dict) and value.get("type") == "object":
            yield from objects(value, f"{pointer}/{key}")


def test_the_schema_has_every_field_of_the_reader_and_no_other(
        verdicts: dict[str, dict[str, Any]], validator: Any) -> None:
    def pointers(value: Any, pointer: str = "") -> Any:
        for key, below in value.items():
            yield f"{pointer}/{key}"
            if isinstance(below, dict) and f"{pointer}/{key}" != "/environment/set":
                yield from pointers(below, f"{pointer}/{key}")

    written = set(pointers(verdicts["text-least"]["canonical"]))
    assert set(objects(validator.schema)) - {"/name", "/description", "/extends"} == written
