"""Patterns of wording that does not help a reader, each with what to write in its place.

Searched are docstrings, comments, string literals and pages, and the names that a module binds.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

MAX_WORDS = 30
"""In a sentence. 20 is the aim; what is longer than this is found."""
START = r"(?:\A|(?<=[.;] ))"
"""The beginning of a sentence."""
WORDS = {
    "told, tell: write send, report, print": r"\b(?:told|tells?|telling)\b",
    "whoever: name the person or the process": r"\bwhoever\b",
    "hang on: write depend on": r"\bh[au]ngs? on\b",
    "hold against: write compare with": r"\b(?:held|holds?) (?:[\w']+ ){0,4}against\b",
    "bear out: write confirm": r"\b(?:bears?|borne) out\b",
    "as made: write what makes it": r"\bas made\b",
    "would do: write suffices": r"\bwould do\b",
    "let go: write release": r"\blet(?:s|ting)? go\b",
    "spoil: write what goes wrong": r"\bspoil(?:s|ed|t|ing)?\b",
    "strangers: write other processes": r"\bstrangers\b",
    "remarks: write notes": r"\bremarks\b",
    "foresee: write expect": r"\bfores(?:ee|ees|een|aw)\b",
    "us: write µs": r"(?<=[\d}]) us\b",
}
"""In all texts."""
SENTENCES = {
    "a relative clause as a subject": rf"{START}(?:Who|What|Whoever)\b(?![^.;:]*\?)",
    "a sentence without a subject": rf"{START}(?:Of|As (?!soon|long|far)|The same,? (?:again|as|for|of|with|in))\b",
}
"""In texts of whole sentences: docstrings, comments and pages."""
DOCSTRINGS = {"a docstring that begins with no verb and no noun": r"\A(?:Both|Whether|How|Where|When|If|That)\b"}
LITERALS = {"a code in brackets": r" \[[a-z]+(?:_[a-z0-9-]+)+\]\Z"}
PAGES = {
    "a date": r"\b20\d\d-\d\d-\d\d\b|\b\d{1,2} (?:January|February|March|April|June|July|August|September|October|"
    r"November|December)\b",
    "a commit": r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])(?:[0-9a-f]{7,9}|[0-9a-f]{40})\b",
}
NAMES = {
    "told, tell: write send, report, print": r"(?:\A|_)(?:told|tells?)(?:_|\Z)",
    "a phrase of the list for texts": r"(?:\A|_)(?:whoever|strangers|remarks|foreseen|spoil(?:ed|s)?|would_do|as_made|"
    r"borne_out|let_go|held_against)(?:_|\Z)",
    "an adverb: name what it limits": r"\A_?(?:HARDLY|COARSELY|CLOSELY)\Z",
    "a preposition, or `own`, in place of a noun": r"\A_?(?:OF|own)_",
}
EXCEPTIONS = {"own_share": "a column of results files and a key of JSON documents"}
"""Names that a rule for names would refuse, each with the reason to keep it."""
COMMENT = re.compile(r"^(?:.*?\S {2}| *)# (.*)$")
ITEM = re.compile(r"\s*(?:[-*] |\||#+ |> |\d+\. )\s*")
"""What begins a paragraph of its own."""
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|<!--.*?-->|\]\([^)]*\)", re.M | re.S)

Patterns = Mapping[str, re.Pattern[str]]


def _compiled(*kinds: Mapping[str, str], flags: int = re.I) -> Patterns:
    return {rule: re.compile(pattern, flags) for kind in kinds for rule, pattern in kind.items()}


PATTERNS = {
    "docstring": _compiled(WORDS, SENTENCES, DOCSTRINGS),
    "comment": _compiled(WORDS, SENTENCES),
    "literal": _compiled(WORDS, LITERALS),
    "page": _compiled(WORDS, SENTENCES, PAGES),
    "name": _compiled(NAMES, flags=0),
}


def broken_rules(kind: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield where a text of a kind breaks a rule, and the rule, once for each place."""
    for rule, pattern in PATTERNS[kind].items():
        for match in pattern.finditer(text):
            yield match.start(), rule
    if kind in {"docstring", "page"}:
        for sentence in re.finditer(r"[^.;:|]+(?:[.;:|](?!\s)[^.;:|]*)*", text):
            words = len(sentence.group().split())
            if words > MAX_WORDS:
                yield sentence.start(), f"a sentence of {words} words"


def of_source(text: str, nodes: Sequence[ast.AST]) -> list[str]:
    """Return what is found in a module with these nodes: a line number, the rule and the words around."""
    found = [
        (line, rule, _around(part, at))
        for kind, line, part in (*_strings(nodes), *_comments(text, nodes))
        for at, rule in broken_rules(kind, part)
    ]
    for name, line in names(nodes).items():
        if name not in EXCEPTIONS:
            found += [(line, rule, name) for _, rule in broken_rules("name", name)]
    return [f"{line}: {rule}: {shown}" for line, rule, shown in sorted(found)]


def of_page(text: str) -> list[str]:
    """Return what is found in a page: a line number, the rule and the words around."""
    found = []
    for line, part in _paragraphs(CODE.sub(lambda match: re.sub(r"[^\n]", "-", match.group()), text)):
        found += [f"{line}: {rule}: {_around(part, at)}" for at, rule in broken_rules("page", part)]
    return found


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, items, titles and rows of a page, each with its first line, on one line."""
    block: list[str] = []
    for number, line in enumerate((*text.splitlines(), ""), 1):
        starts = ITEM.match(line)
        if block and (starts or not line.strip()):
            yield number - len(block), " ".join(block)
            block = []
        if line.strip():
            block.append(line[starts.end() if starts else 0 :].strip())


def names(nodes: Sequence[ast.AST]) -> dict[str, int]:
    """Return the names that a module binds, each once, with a line."""
    found: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.setdefault(name, node.lineno)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.setdefault(name, node.lineno)
    return found


def _strings(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int, str]]:
    """Yield the texts of a module, from nodes of which a parent comes before its parts."""
    parts: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text) as constant):
                parts.add(id(constant))
                yield "docstring", node.lineno, " ".join(text.split())
            case ast.JoinedStr(values=values):
                parts |= set(map(id, values))
                pieces = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values]
                yield "literal", node.lineno, "".join(pieces)
            case ast.Constant(value=str() as text) if id(node) not in parts and " " in text:
                yield "literal", node.lineno, text


def _comments(text: str, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int, str]]:
    """Yield the comments; those on lines that follow one another are one text."""
    inside = {
        line
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    block: list[str] = []
    for number, line in enumerate((*text.splitlines(), ""), 1):
        match = COMMENT.match(line) if "#" in line else None
        follows_code = match is not None and not line.lstrip().startswith("#")
        if block and (match is None or follows_code):
            yield "comment", number - len(block), " ".join(block)
            block = []
        if match is not None and follows_code:
            yield "comment", number, match[1]
        elif match is not None and number not in inside:
            block.append(match[1])


def _around(text: str, at: int) -> str:
    return textwrap.shorten(text[max(0, at - 30) :], 90, placeholder=" …")
