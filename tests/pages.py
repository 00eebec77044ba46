"""Pages as a browser reads them, for tests: tags and text, and nothing that could run."""

from html.parser import HTMLParser

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "h1", "h2", "h3", "p", "ul", "li"),
    *("table", "thead", "tbody", "tr", "th", "td", "div", "span", "small", "b", "pre", "details", "summary", "wbr"),
    *("svg", "g", "rect", "line", "circle", "path", "text"),
}
"""What templates write; whatever else is found came from a candidate."""


class Page(HTMLParser):
    """A parsed page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.words += data

    def says(self, text: str) -> bool:
        """Whether a reader sees this text, however it is broken into lines; code has another font in place of ticks."""
        return " ".join(text.replace("`", "").split()) in " ".join(self.words.split())

    @property
    def foreign(self) -> set[str]:
        """Tags and attributes that no template writes."""
        return (self.tags - TAGS) | {
            name for name in self.attributes if name.startswith("on") or name in {"src", "href"}
        }
