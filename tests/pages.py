"""A parser of the pages that are written."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Checks that every element is closed, and stores elements, text, style, data and script."""

    VOID = frozenset({"meta", "link", "input", "img", "br", "path", "polyline"})

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text, self.raw = [], [], "", {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open[-1:] in (["style"], ["script"]):
            self.raw[dict(self.seen[-1][1]).get("type", self.open[-1])] = text
        else:
            self.text += text

    def all(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]
