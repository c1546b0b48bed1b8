"""The report of `nearwise evaluate`: one HTML page that fetches nothing.

`markup` makes elements and escapes whatever is in them, `charts` draws in SVG, `sections` shows the measurements one
after the other, and `page` puts them together.
"""

from nearwise.cli.report.page import page

__all__ = ["page"]
