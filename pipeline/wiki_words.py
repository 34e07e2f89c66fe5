"""Words that a wiki's language decides: namespaces of pictures and categories, closing sections."""

from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip().casefold() for word in text.split("|"))


# MediaWiki's names and old aliases (languages/messages/Messages*.php); a dump's own names come from
# its siteinfo, which lacks the aliases
MEDIA = _words("""
    file|image|media|파일|그림|미디어|ファイル|画像|メディア|文件|档案|檔案|图像|圖像|图片|圖片|媒体|媒體
    |datei|bild|medium|archivo|imagen|medio|fichier|média|файл|изображение|медиа|ملف|صورة|وسائط
    |चित्र|छवि|मीडिया|tập tin|hình|phương tiện|ficheiro|imagem|immagine|plik|grafika|bestand
    |afbeelding|fil|soubor|dosya|resim|berkas|gambar
""")
CATEGORY = _words("""
    category|분류|カテゴリ|分类|分類|kategorie|categoría|catégorie|категория|تصنيف|श्रेणी|thể loại
    |categoria|kategoria|categorie|kategori|kategória
""")
# titles of sections of notes, sources and links, without text of their own
CLOSING = _words("""
    각주|주석|주해|참고 문헌|참고문헌|참고 자료|참고자료|외부 링크|외부링크|바깥 고리|출처|같이 보기
    |더 읽기|더 읽을거리|각주 및 참고 문헌|각주와 참고 문헌|주석 및 참고 문헌|내용주
    |references|notes|footnotes|citations|sources|bibliography|external links|see also
    |further reading|notes and references|references and notes|works cited|explanatory notes
    |脚注|注釈|出典|参考文献|外部リンク|関連項目|関連文献|注|注釈・出典|脚注・出典|参考資料
    |参考资料|參考資料|外部链接|外部連結|參考文獻|注释|註釋|注脚|參見|参见|延伸阅读|延伸閱讀|参看|相关条目
    |einzelnachweise|weblinks|literatur|siehe auch|anmerkungen|quellen|fußnoten|belege
    |anmerkungen und einzelnachweise
    |referencias|enlaces externos|véase también|bibliografía|notas|notas y referencias|fuentes
    |références|notes et références|liens externes|voir aussi|bibliographie|annexes|sources
    |примечания|ссылки|литература|см. также|источники|комментарии
    |مراجع|المراجع|وصلات خارجية|انظر أيضا|انظر أيضًا|هوامش|ملاحظات|المصادر|مصادر
    |सन्दर्भ|संदर्भ|बाहरी कड़ियाँ|इन्हें भी देखें|टिप्पणी|टिप्पणियाँ|स्रोत
    |tham khảo|chú thích|liên kết ngoài|xem thêm|đọc thêm|ghi chú|nguồn
    |note|collegamenti esterni|voci correlate|referências|ligações externas|ver também|przypisy
    |linki zewnętrzne|noten|referenties|externe links|zie ook
""")


@dataclass(frozen=True)
class WikiWords:
    """What a wiki calls the namespaces whose links show no words of the text, in small letters."""

    media: frozenset[str] = MEDIA
    category: frozenset[str] = CATEGORY

    def hides(self, namespace: str) -> bool:
        """Whether a link into the namespace is a picture or a category."""
        name = namespace.strip().replace("_", " ").casefold()
        return name in self.media or name in self.category
