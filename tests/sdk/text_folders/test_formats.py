from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from pathlib import Path
from random import Random

import pytest

from pocketquery import sdk
from tests.sdk.text_folders.reading import passages, seen, skipped, write

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
T = 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'


def archive(**parts: str | bytes) -> bytes:
    """A zip file; ``__`` in a name stands for ``/``, the last ``_`` for ``.``."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(re.sub("_(xml|rels)$", r".\1", name.replace("__", "/")), text)
    return data.getvalue()


def paragraph(text: str, style: str = "") -> str:
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'


STYLES = f"""<w:styles {W}><w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="Eigene"><w:name w:val="Eigene"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr>
</w:style></w:styles>"""
DOCX = (
    f"<w:document {W} {MC}><w:body>{paragraph('Pumpe', 'Titel')}{paragraph('Am Anfang.')}"
    f"{paragraph('Start', 'berschrift1')}<w:p><w:ins><w:r><w:t>Neu</w:t><w:tab/></w:r></w:ins>"
    "<w:del><w:r><w:delText>alt</w:delText></w:r></w:del><w:hyperlink><w:r><w:t>hier.</w:t></w:r>"
    "</w:hyperlink></w:p><w:sdt><w:sdtContent><w:tbl><w:tr><w:tc>"
    f"{paragraph('Zelle')}</w:tc></w:tr></w:tbl></w:sdtContent></w:sdt>"
    f"{paragraph('Tiefer', 'Eigene')}<w:p><w:r><mc:AlternateContent><mc:Choice>"
    f"{paragraph('Kasten')}</mc:Choice><mc:Fallback>{paragraph('Kasten')}</mc:Fallback>"
    "</mc:AlternateContent><w:t>Ende</w:t></w:r></w:p></w:body></w:document>"
)


def test_docx(tmp_path: Path) -> None:
    write(tmp_path, "Pumpe.docx", archive(word__document_xml=DOCX, word__styles_xml=STYLES))
    assert passages(tmp_path) == [
        ("Pumpe.docx#1", "Pumpe", "Am Anfang."),
        ("Pumpe.docx#start", "Pumpe: Start", "Neu hier.\nZelle"),
        ("Pumpe.docx#start/tiefer", "Pumpe: Start: Tiefer", "Kasten\nEnde"),
    ]


def slide(title: str, body: str) -> str:
    def shape(kind: str, text: str) -> str:
        words = f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"
        return f'<sp><nvPr><ph type="{kind}"/></nvPr><txBody>{words}</txBody></sp>'

    return f"<sld {A}>{shape('title', title)}{shape('body', body)}{shape('sldNum', '7')}</sld>"


def relations(**targets: str) -> str:
    ids = "".join(f'<Relationship Id="{one}" Target="{to}"/>' for one, to in targets.items())
    return f'<Relationships xmlns="http://x">{ids}</Relationships>'


def test_pptx_has_pages_in_the_order_they_are_shown(tmp_path: Path) -> None:
    data = archive(
        ppt__presentation_xml=f'<p {R} xmlns="http://x"><sldId r:id="b"/><sldId r:id="a"/></p>',
        **{
            "ppt/_rels/presentation.xml_rels": relations(
                a="slides/slide1.xml", b="/ppt/slides/slide2.xml"
            ),
            "ppt/slides/slide1_xml": slide("One", "Text one."),
            "ppt/slides/slide2_xml": slide("Two", "Text two."),
            "ppt/slides/_rels/slide2.xml_rels": relations(n="../notesSlides/n.xml"),
            "ppt/notesSlides/n_xml": slide("", "Said."),
        },
    )
    write(tmp_path, "talk.pptx", data)
    assert passages(tmp_path) == [
        ("talk.pptx#two", "talk: Two", "Text two.\nSaid."),
        ("talk.pptx#one", "talk: One", "Text one."),
    ]
    assert [one.metadata["page"] for one in sdk.read_folder(tmp_path)] == [1, 2]


def test_odt(tmp_path: Path) -> None:
    text = (
        f"<office {T}><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Garten</text:h><text:p>Ein<text:s/>Satz<text:note>'
        "<text:p>Fußnote</text:p></text:note>.</text:p></office>"
    )
    write(tmp_path, "Garten.odt", archive(content_xml=text))
    assert passages(tmp_path) == [("Garten.odt#garten", "Garten", "Fußnote\nEin Satz.")]


def test_epub(tmp_path: Path) -> None:
    package = (
        '<package xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns="http://x"><dc:title>Book'
        '</dc:title><dc:creator>A. Writer</dc:creator><item id="a" href="c%20a.html"/>'
        '<item id="b" href="b.html"/><itemref idref="b"/><itemref idref="a"/></package>'
    )
    data = archive(
        **{
            "META-INF/container_xml": '<c xmlns="http://x"><rootfile full-path="o/p.opf"/></c>',
            "o/p.opf": package,
            "o/c a.html": "<h1>Later</h1><p>Two.",
            "o/b.html": "<h1>First</h1><p>One.<h2 id='s'>Sub</h2><p>More.",
        }
    )
    write(tmp_path, "Book.epub", data)
    assert passages(tmp_path) == [
        ("Book.epub#first", "Book: First", "One."),
        ("Book.epub#first/sub", "Book: First: Sub", "More."),
        ("Book.epub#later", "Book: Later", "Two."),
    ]
    assert next(sdk.read_folder(tmp_path)).metadata["author"] == "A. Writer"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (archive(word__document_xml=b" " * (300 << 20)), "too large"),
        (archive(word__document_xml=b" " * (20 << 20)), "too large"),
        (archive(word__document_xml=DOCX[:300]), "damaged"),
        (archive(word__document_xml=DOCX)[:300], "damaged"),
        (archive(word__document_xml=DOCX).replace(b"PK\x01\x02", b"PK\x01\x03"), "damaged"),
        (archive(word__document_xml="<a>" * 200_000 + "</a>" * 200_000), "without text"),
        (archive(other_xml="x"), "without text"),
        (b"\xd0\xcf\x11\xe0" * 100, "encrypted"),
        (
            archive(
                word__document_xml='<!DOCTYPE a [<!ENTITY b "xxxxxxxxxx">'
                + "".join(f'<!ENTITY b{n} "{f"&b{n - 1 or str()};" * 10}">' for n in range(1, 10))
                + f"]><w:document {W}>{paragraph('&b9;')}</w:document>"
            ),
            "damaged",
        ),
    ],
)
def test_hostile_archives_are_skipped(tmp_path: Path, data: bytes, kind: str) -> None:
    write(tmp_path, "a.docx", data)
    assert skipped(tmp_path)[1] == f"skipped 1 file: 1 {kind}"


def test_docx_that_does_not_describe_its_styles(tmp_path: Path) -> None:
    body = paragraph("Pump", "Title") + paragraph("Start", "Heading1") + paragraph("Press.")
    body += paragraph("Deeper", "heading 2") + paragraph("Wait.", "ListParagraph")
    data = archive(word__document_xml=f"<w:document {W}><w:body>{body}</w:body></w:document>")
    write(tmp_path, "a.docx", data)
    assert passages(tmp_path) == [
        ("a.docx#start", "Pump: Start", "Press."),
        ("a.docx#start/deeper", "Pump: Start: Deeper", "Wait."),
    ]


def pdf(*pages: str, extra: str = "") -> bytes:
    pytest.importorskip("pypdfium2")
    kids = " ".join(f"{3 * n + 4} 0 R" for n in range(len(pages)))
    objects = [
        "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
        f"2 0 obj<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>endobj",
        "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
    ]
    for n, text in enumerate(pages):
        lines = "".join(f"({line}) Tj 0 -14 Td " for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 72 720 Td {lines}ET"
        objects += [
            f"{3 * n + 4} 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents "
            f"{3 * n + 5} 0 R/Resources<</Font<</F1 3 0 R>>>>>>endobj",
            f"{3 * n + 5} 0 obj<</Length {len(stream)}>>stream\n{stream}\nendstream endobj",
        ]
    return "\n".join(["%PDF-1.4", *objects, f"trailer<</Root 1 0 R{extra}>>\n%%EOF"]).encode()


def test_pdf_has_pages(tmp_path: Path) -> None:
    pages = ("The pump is re-\nstarted by the red button on its back.\nThen wait.", "Of valves.")
    write(tmp_path, "pump.pdf", pdf(*pages))
    assert passages(tmp_path) == [
        (
            "pump.pdf#page-1",
            "pump",
            "The pump is restarted by the red button on its back. Then wait.",
        ),
        ("pump.pdf#page-2", "pump", "Of valves."),
    ]
    assert [one.metadata["page"] for one in sdk.read_folder(tmp_path)] == [1, 2]


def test_a_pdf_has_the_headings_of_its_table_of_contents(tmp_path: Path) -> None:
    pages = ("Before.\n1.2 Valves\nOf valves.\nHoses\nOf hoses.", "More of hoses.")
    contents = pdf(*pages).replace(b"/Pages 2 0 R", b"/Pages 2 0 R/Outlines 90 0 R")
    contents = contents.replace(
        b"trailer",
        b"90 0 obj<</First 91 0 R/Last 92 0 R/Count 2>>endobj\n"
        b"91 0 obj<</Title(Valves)/Parent 90 0 R/Next 92 0 R/Dest[4 0 R/Fit]>>endobj\n"
        b"92 0 obj<</Title(Hoses)/Parent 90 0 R/Prev 91 0 R/Dest[4 0 R/Fit]>>endobj\ntrailer",
    )
    write(tmp_path, "pump.pdf", contents)
    assert passages(tmp_path) == [
        ("pump.pdf#page-1", "pump", "Before."),
        ("pump.pdf#1.2-valves", "pump: 1.2 Valves", "Of valves."),
        ("pump.pdf#hoses", "pump: Hoses", "Of hoses."),
        ("pump.pdf#hoses:2", "pump: Hoses", "More of hoses."),
    ]
    assert [one.metadata["page"] for one in sdk.read_folder(tmp_path)] == [1, 1, 1, 2]


def test_a_pdf_with_bookmarks_without_number(tmp_path: Path) -> None:
    count = 3_000
    contents = pdf("Before.\nOf valves.").replace(b"/Pages 2", b"/Outlines 90000 0 R/Pages 2")
    marks = [f"90000 0 obj<</First 90001 0 R/Last {90000 + count} 0 R/Count {count}>>endobj"]
    for n in range(1, count + 1):
        after = f"/Next {90001 + n} 0 R" * (n < count)
        place = f"/Parent 90000 0 R{after}/Dest[4 0 R/Fit]"
        marks.append(f"{90000 + n} 0 obj<</Title(Valve {n}){place}>>endobj")
    contents = contents.replace(b"trailer", "\n".join([*marks, "trailer"]).encode())
    write(tmp_path, "pump.pdf", contents)
    found = passages(tmp_path)
    assert len(found) < 200
    assert "Of valves." in "\n".join(text for *_, text in found)


def test_a_pdf_that_ends_its_reader_does_not_end_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.pdf", pdf("The pump."))
    write(tmp_path, "b.txt", "another")
    crash = write(tmp_path, ".crash", "#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(crash))
    reasons, line = skipped(tmp_path)
    assert line == "skipped 1 file: 1 damaged"
    assert "its reader failed: it crashed, or took more than" in reasons["a.pdf"]
    assert [text for *_, text in passages(tmp_path)] == ["another"]


def test_pdf_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = f"<{'ab' * 32}>"
    locked = f"/ID[{key}{key}]/Encrypt<</Filter/Standard/V 1/R 2/O{key}/U{key}/P -4>>"
    write(tmp_path, "scan.pdf", pdf(""))
    write(tmp_path, "locked.pdf", pdf("secret", extra=locked))
    write(tmp_path, "broken.pdf", "%PDF-1.4 no more")
    reasons, line = skipped(tmp_path)
    assert sorted(line.partition(": ")[2].split(", ")) == [
        "1 damaged",
        "1 encrypted",
        "1 without text",
    ]
    assert reasons["scan.pdf"] == "a PDF without text, of pictures alone; OCR it first"
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    reasons, line = skipped(tmp_path)
    hint = 'pip install "pocketquery[files]" reads more of them'
    assert line == f"skipped 3 files: 3 .pdf; {hint}"
    assert 'pip install "pocketquery[files]"' in reasons["scan.pdf"]


def test_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Nb\n", "Hello **you**"]},
        {
            "cell_type": "code",
            "source": "# no heading\nprint(x)",
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n", "y" * 50_000_000]},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
            ],
        },
        {"cell_type": "markdown", "source": "## Next\nMore"},
    ]
    write(tmp_path, "nb.ipynb", json.dumps({"nbformat": 4, "cells": cells}))
    first, *others, last = passages(tmp_path)
    assert first[2].startswith("Hello you\n# no heading\nprint(x)\nred\nyyy")
    assert sum(len(text) for *_, text in [first, *others]) < 2_100
    assert last == ("nb.ipynb#nb/next", "Nb: Next", "More")
    for text in ('{"cells": [1]}', "[]", "{", '{"cells": [{"outputs": [3]}]}'):
        write(tmp_path, "nb.ipynb", text)
        assert "skipped 1 file" in skipped(tmp_path)[1]


def test_mail(tmp_path: Path) -> None:
    head = "From: =?utf-8?q?J=C3=BCrgen?= <j@a.org>\nSubject: =?utf-8?b?UHVtcGU=?= mail\n"
    head += "Date: Tue, 5 Mar 2024 10:11:12 +0100\nMIME-Version: 1.0\n"
    plain = "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit\n\n"
    write(tmp_path, "mail.eml", f"{head}{plain}Sie läuft\nnicht.\n\nGruß".encode("latin-1"))
    ((identifier, title, text),) = passages(tmp_path)
    assert (identifier, title, text) == ("mail.eml#1", "Pumpe mail", "Sie läuft nicht.\nGruß")
    fields = next(sdk.read_folder(tmp_path)).metadata
    assert fields["author"] == "Jürgen <j@a.org>"
    assert fields["date"] == "2024-03-05T10:11:12+01:00"
    html = "Content-Type: text/html\n\n<title>x</title><h2>Hi</h2><p>There"
    write(tmp_path, "mail.eml", head + html)
    assert passages(tmp_path) == [("mail.eml#hi", "Pumpe mail: Hi", "There")]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.csv",
            'name;city\nBob;"Oslo\nNorway"\n;Rome',
            "name: Bob; city: Oslo Norway\ncity: Rome",
        ),
        ("a.csv", "word\nalpha\nbeta, gamma\n", "word\nalpha\nbeta, gamma"),
        ("a.tsv", "x\ty\n1\t2\t3\n", "x: 1; y: 2; 3"),
        ("a.csv", 'x,y\n1,"' + "z" * 140_000, 'x,y 1,"'),
        ("a.csv", "", ""),
    ],
)
def test_tables(tmp_path: Path, name: str, text: str, expected: str) -> None:
    assert seen(tmp_path, name, text)[: len(expected) or None] == expected


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".odt", ".epub", ".pdf", ".ipynb", ".eml"])
def test_damaged_files_are_read_or_skipped(tmp_path: Path, suffix: str) -> None:
    parts = {
        "word/document_xml": DOCX,
        "ppt/presentation_xml": f'<p {R} xmlns="http://x"><sldId r:id="a"/></p>',
        "ppt/_rels/presentation.xml_rels": relations(a="slides/s.xml"),
        "ppt/slides/s_xml": slide("One", "Text one."),
        "content_xml": f"<o {T}><text:h>Garden</text:h><text:p>One</text:p></o>",
        "META-INF/container_xml": '<c xmlns="http://x"><rootfile full-path="p.opf"/></c>',
        "p.opf": '<p xmlns="http://x"><item id="a" href="a.html"/><itemref idref="a"/></p>',
        "a.html": "<h1>One</h1><p>Text.",
    }
    others: dict[str, str | bytes] = {
        ".pdf": pdf("One.", "Two."),
        ".ipynb": json.dumps({"cells": [{"cell_type": "code", "source": ["x"], "outputs": []}]}),
        ".eml": "Subject: =?utf-8?b?UHVtcGU=?=\nDate: Tue, 5 Mar 2024 10:11:12 +0100\n"
        "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/html\n\n<p>a\n--x--",
    }
    whole = others.get(suffix, archive(**parts))
    data = whole.encode() if isinstance(whole, str) else whole
    random = Random(0)
    for _ in range(40 if suffix == ".pdf" else 400):  # a process each
        damaged = bytearray(data[: random.randrange(len(data))] if random.random() < 0.2 else data)
        for _ in range(random.randrange(1, 6)):
            if damaged:
                damaged[random.randrange(len(damaged))] = random.randrange(256)
        write(tmp_path, f"a{suffix}", bytes(damaged))
        list(sdk.read_folder(tmp_path))
