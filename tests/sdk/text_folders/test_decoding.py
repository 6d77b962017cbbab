from __future__ import annotations

import codecs
import sys

import pytest

from pocketquery.sdk.text_folders.decoding import decode
from pocketquery.sdk.text_folders.outline import UnreadError

RUSSIAN = "Насос перезапускается после отключения питания. Проверьте клапан.\n"
TEXTS = {
    "cp1252": "Die Größe der Öfen „überprüfen“ wir später – für 5 €.",
    "latin-1": "El niño comió piñas en la mañana, ¿verdad?",
    "iso8859-15": "A plain note with one caf\xe9 in it.",
    "cp1251": RUSSIAN,
    "koi8-r": RUSSIAN,
    "shift_jis": "ポンプを再起動するには、電源を切ってから十秒待ってください。",
    "euc_jp": "ポンプを再起動するには、電源を切ってから十秒待ってください。",
    "gb18030": "春天我们在院子里种了三棵苹果树，每天早上都要浇水。",
    "big5": "重新啟動水泵之前請關閉電源，等待十秒鐘。",
    "euc_kr": "펌프를 다시 시작하려면 전원을 끄고 십 초 동안 기다리십시오.",
    "cp1253": "Η αντλία ξεκινά ξανά μετά από διακοπή ρεύματος.",
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_old_encodings(encoding: str) -> None:
    pytest.importorskip("chardet")
    assert decode(TEXTS[encoding].encode(encoding)) == TEXTS[encoding]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_unicode(encoding: str) -> None:
    assert decode(RUSSIAN.encode(encoding)) == RUSSIAN
    assert decode(codecs.BOM_UTF16_BE + RUSSIAN.encode("utf-16-be")) == RUSSIAN


def test_a_declaration_is_believed() -> None:
    page = '<meta charset="{}"><p>Příliš žluťoučký kůň'
    assert "Příliš" in decode(page.format("windows-1250").encode("cp1250"))
    assert "Příliš" in decode(page.format("no such thing").encode())
    assert "Größe" in decode('<meta charset="utf-16"><p>Die Größe der Öfen'.encode("cp1252"))


@pytest.mark.parametrize(
    "data",
    [
        "Příliš žluťoučký kůň úpěl ďábelské ódy.".encode("iso8859_2"),
        bytes(range(128, 256)),
        b"\x1f\x8b\x08\x08\xc3\xa9\xff" * 9,
        b"a\0b\0\0\0c",
        codecs.BOM_UTF16_LE + b"\0\xd8\0\0",
    ],
)
def test_what_cannot_be_told_is_skipped(data: bytes) -> None:
    with pytest.raises(UnreadError):
        decode(data)


def test_without_the_extra_western_texts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chardet", None)
    assert decode(TEXTS["cp1252"].encode("cp1252")) == TEXTS["cp1252"]
    with pytest.raises(UnreadError, match=r'pip install "pocketquery\[files\]"'):
        decode(RUSSIAN.encode("cp1251"))
