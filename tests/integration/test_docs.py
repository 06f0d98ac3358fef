"""The pages as a reader uses them: links and paths lead somewhere, and the commands that they show have such verbs and options."""
import functools
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PINFOLD_BUILD", ROOT / "build/ci"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "base|cmake|docs|examples|images|policy|runtime|tests|tools"


def anchors(page):
    """Those that the headings of a page get."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_every_link_leads_somewhere():
    seen, lost = 0, []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            target = (page.parent / path) if path else page
            seen += 1
            if not target.exists() or (anchor and anchor not in anchors(target)):
                lost.append(f"{page.name}: {link}")
    assert seen > 50 and lost == []


def test_every_path_that_a_page_names_is_there():
    """`tests/integration/test_engines*.py` is such a path, too; /etc/… is none, nor is the image store's images/HEX."""
    seen, lost = 0, []
    for page in PAGES:
        for path in re.findall(rf"(?<![\w/.~$-])(?!images/HEX)((?:{FOLDERS})/[\w./*-]+)", page.read_text()):
            seen += 1
            if not any(True for _ in ROOT.glob(path.rstrip("./"))):
                lost.append(f"{page.name}: {path}")
    assert seen > 150 and lost == []


def test_every_page_that_a_source_names_is_there():
    named = set()
    for file in (file for folder in FOLDERS.split("|") for file in (ROOT / folder).rglob("*.*")):
        if file.suffix in (".c", ".h", ".py", ".js", ".pl", ".cmake"):
            named |= set(re.findall(r"(?<!runc )\bdocs/[a-z/-]+\.md", file.read_text()))
    assert len(named) > 15 and {name for name in named if not (ROOT / name).exists()} == set()


def test_the_readme_leads_to_every_page():
    linked = set(re.findall(r"\]\((docs/[\w/-]+\.md)\)", PAGES[0].read_text()))
    assert {str(page.relative_to(ROOT)) for page in PAGES[1:]} == linked


@functools.cache
def help_of(program, *verb):
    done = subprocess.run([BUILD / f"tools/{program}/{program}", *verb, "--help"], capture_output=True, text=True, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def shown():
    """Every command in a block or between backquotes: where, the program, its words up to its own command."""
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^(?:```\w*\n(.*?)^```|((?:    [^\n]*\n)+))", text, re.MULTILINE | re.DOTALL)
        lines = [line for pair in blocks for block in pair for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", text)
        for line in lines:
            for program, rest in re.findall(r"(?:^|[\s$|;&(])(pinfold(?:-oci)?) +([^|&;#]*)", line):
                words = re.split(r"\s{2,}|\s--\s|\s=\s", rest.replace("[", " ").replace("]", " ").strip())[0].split()
                if words and re.fullmatch("[a-z]+", words[0]) and words[0] not in ("import", "man"):
                    yield page.name, program, words


def test_every_command_that_a_page_shows_has_that_verb_and_those_options():
    seen, unknown = 0, []
    for page, program, words in shown():
        text = help_of(program, *words[:2]) if len(words) > 1 and re.fullmatch("[a-z-]+", words[1]) else ""
        if f"usage: {program} {' '.join(words[:2])} " not in text:
            text = help_of(program, words[0])
        options = [match.group() for match in (re.match("--[a-z-]+", word) for word in words) if match]
        seen += 1
        if not text or not all(re.search(rf"{option}(?![a-z-])", text) for option in options):
            unknown.append(f"{page}: {program} {' '.join(words)}")
    assert seen > 120 and unknown == []
