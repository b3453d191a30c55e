"""Small PDFs with text at known places, drawn by PyMuPDF."""

from collections.abc import Callable

import pymupdf

Draw = Callable[[pymupdf.Page], None]
WIDTH, HEIGHT = 612, 792


def pdf_bytes(*pages: Draw, rotation: int = 0, title: str = "", password: str = "") -> bytes:
    """A PDF with a page for each function that draws one."""
    with pymupdf.open() as pdf:
        for draw in pages:
            page = pdf.new_page(width=WIDTH, height=HEIGHT)
            draw(page)
            page.set_rotation(rotation)
        pdf.set_metadata({"title": title, "modDate": "D:20240229120000+02'00'"})
        if password:
            encryption = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": password, "owner_pw": password}
            return bytes(pdf.tobytes(**encryption))
        return bytes(pdf.tobytes())


def write(page: pymupdf.Page, x: float, y: float, text: str, size: float = 10, bold: bool = False) -> None:
    page.insert_text((x, y), text, fontsize=size, fontname="hebo" if bold else "helv")


def write_lines(page: pymupdf.Page, x: float, y: float, lines: list[str], size: float = 10) -> None:
    for number, line in enumerate(lines):
        write(page, x, y + 12 * number, line, size)
