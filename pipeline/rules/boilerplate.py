"""Lines that say nothing: copyright, bylines, read-more, cookie banners, navigation.

A line goes only if it is one of the known phrases, a row of them, or taken whole by a pattern.
"""

import re

# Lines of navigation and read-more links by language; lower case, `|` between them.
#
# Spaces do not count. Words that are sentences or answers too ("좋아요", "teilen") are not here.

_EVERYWHERE = """
skip to content | skip to main content | skip to navigation | skip to search | jump to content
jump to navigation | jump to search | read more | see more | show more | view more | load more
learn more | click here to read more | read more articles | load more comments
show more comments | continue reading | related articles | related posts | related stories
related topics | you may also like | see all comments | leave a comment | leave a reply
post a comment | add a comment | login | log in | sign in | sign up | sign out
log in or register | log in or sign up | my account | main menu | toggle navigation
back to top | previous post | next post | advertisement | sponsored content
table of contents | terms of use | terms of service | privacy policy | cookie policy
contact us | about us | subscribe | subscribe now | subscribe today
subscribe to our newsletter | share this article | share this page | share this post
share this | share on facebook | share on twitter | share via email | accept cookies
accept all cookies | reject all cookies | manage cookies | all rights reserved
"""
_BRANDS = """
share | tweet | pin it | email | e-mail | print | facebook | twitter | x | instagram | youtube
linkedin | whatsapp | telegram | kakaotalk | pinterest | reddit | rss | 페이스북 | 트위터
카카오톡 | 카카오스토리 | 네이버 블로그 | 밴드 | 인스타그램 | 유튜브 | url 복사 | 공유 | 微信
微博 | はてなブックマーク
"""
_BY_LANGUAGE = {
    "ko": """
더 보기 | 더 읽기 | 기사 더 보기 | 관련 기사 | 관련 뉴스 | 추천 기사 | 추천 뉴스 | 인기 기사
인기 뉴스 | 많이 본 기사 | 많이 본 뉴스 | 주요 뉴스 | 최신 뉴스 | 최신 기사
이 시각 주요 뉴스 | 관련 기사 더 보기 | 관련 뉴스 더 보기 | 이전 글 | 다음 글 | 이전 기사
다음 기사 | 목록으로 | 댓글 쓰기 | 댓글 달기 | 댓글 보기 | 댓글 더 보기 | 맨 위로
본문 바로가기 | 본문으로 바로가기 | 메뉴 바로가기 | 로그인 | 회원가입 | 공유하기 | 구독하기
인쇄하기 | url 복사 | 글자 크기 | 글자 크기 조절 | 글자 크게 | 글자 작게 | 개인정보처리방침
개인정보 취급방침 | 이용약관 | 청소년 보호정책 | 고객센터 | 회사소개 | 광고문의 | 기사제보
제휴문의 | 이메일 무단수집거부 | 쿠키 정책 | 쿠키 설정 | 쿠키 허용
""",
    "ja": """
続きを読む | 続きを見る | もっと見る | もっと読む | 関連記事 | 関連ニュース | 関連リンク
本文へ移動 | メインコンテンツに移動 | メインコンテンツへスキップ | 前の記事 | 前の記事へ
次の記事 | 次の記事へ | ページの先頭へ | ページの先頭へ戻る | ページトップへ
ページのトップへ戻る | ログイン | 会員登録 | 新規会員登録 | シェアする | ツイートする
利用規約 | プライバシーポリシー | コメントを書く | コメントを残す
""",
    "zh": """
阅读更多 | 阅读全文 | 阅读原文 | 查看更多 | 查看全文 | 了解更多 | 加载更多 | 閱讀更多
閱讀全文 | 顯示更多 | 显示更多 | 相关文章 | 相关阅读 | 相关新闻 | 相关推荐 | 相關文章
相關新聞 | 上一篇 | 下一篇 | 上一页 | 下一页 | 返回顶部 | 返回首页 | 跳到主要内容 | 跳至内容
登录 | 注册 | 登錄 | 註冊 | 分享到微信 | 分享到微博 | 分享到朋友圈 | 隐私政策 | 隐私声明
使用条款 | 版权所有 | 版權所有 | 禁止转载 | 请勿转载
""",
    "de": """
weiterlesen | mehr lesen | mehr erfahren | mehr anzeigen | mehr laden | zum inhalt springen
zum hauptinhalt springen | zum hauptinhalt wechseln | ähnliche artikel | ähnliche beiträge
das könnte sie auch interessieren | alle rechte vorbehalten | impressum | datenschutzerklärung
nutzungsbedingungen | newsletter abonnieren | artikel teilen | kommentar schreiben | nach oben
nächster beitrag | vorheriger beitrag | cookies akzeptieren | alle cookies akzeptieren
""",
    "fr": """
lire la suite | lire aussi | lire plus | en savoir plus | voir plus | aller au contenu
aller au contenu principal | articles similaires | articles liés | articles connexes
à lire aussi | tous droits réservés | mentions légales | politique de confidentialité
se connecter | s'inscrire | s'abonner | s'abonner à la newsletter | retour en haut
partager sur facebook | laisser un commentaire | article suivant | article précédent
conditions d'utilisation | conditions générales d'utilisation | accepter les cookies
accepter tous les cookies
""",
    "es": """
leer más | seguir leyendo | ver más | saltar al contenido | ir al contenido principal
saltar al contenido principal | artículos relacionados | noticias relacionadas
te puede interesar | todos los derechos reservados | aviso legal | política de privacidad
política de cookies | términos y condiciones | términos de uso | iniciar sesión | regístrate
suscríbete | volver arriba | compartir en facebook | deja un comentario | entrada siguiente
entrada anterior | aceptar cookies | aceptar todas las cookies
""",
    "ru": """
читать далее | читать дальше | читать полностью | читать также | читать ещё | узнать больше
показать ещё | показать еще | перейти к содержимому | перейти к основному содержимому
похожие статьи | похожие записи | все права защищены | политика конфиденциальности
пользовательское соглашение | условия использования | зарегистрироваться
подписаться на рассылку | оставить комментарий | следующая запись | предыдущая запись
""",
    "vi": """
đọc thêm | xem thêm | đọc tiếp | tìm hiểu thêm | chuyển đến nội dung
chuyển đến nội dung chính | chuyển tới nội dung chính | bài viết liên quan | tin liên quan
tin cùng chuyên mục | đăng nhập | chính sách bảo mật | chính sách quyền riêng tư
điều khoản sử dụng | chia sẻ bài viết | về đầu trang | để lại bình luận | bài trước
bài tiếp theo
""",
    "ar": """
اقرأ المزيد | قراءة المزيد | شاهد المزيد | عرض المزيد | اقرأ أيضا | اقرأ أيضًا | اقرأ ايضا
شاهد أيضا | انتقل إلى المحتوى | انتقل إلى المحتوى الرئيسي | مقالات ذات صلة | أخبار ذات صلة
مواضيع ذات صلة | جميع الحقوق محفوظة | كل الحقوق محفوظة | كافة الحقوق محفوظة | سياسة الخصوصية
شروط الاستخدام | شروط الخدمة | تسجيل الدخول | اشترك الآن | اترك تعليقا | أضف تعليق
""",
    "hi": """
और पढ़ें | आगे पढ़ें | पूरा पढ़ें | और देखें | यह भी पढ़ें | यह भी देखें
मुख्य सामग्री पर जाएं | संबंधित खबरें | संबंधित लेख | संबंधित समाचार | सर्वाधिकार सुरक्षित
गोपनीयता नीति | उपयोग की शर्तें | सेवा की शर्तें | लॉग इन करें | लॉगइन करें | साइन इन करें
साझा करें | शेयर करें | सदस्यता लें
""",
}


def key(line: str) -> str:
    """What two spellings of a phrase have in common."""
    return line.lower().replace(" ", "").replace("’", "'")


def _keys(phrases: str) -> frozenset[str]:
    return frozenset(key(phrase) for phrase in phrases.replace("\n", "|").split("|")) - {""}


BRANDS = _keys(_BRANDS)
EVERYWHERE = _keys(_EVERYWHERE)
PHRASES = {language: EVERYWHERE | _keys(own) for language, own in _BY_LANGUAGE.items()}


_MAX_LINE = 160  # characters; longer lines are prose
_MAX_PHRASES = 90  # of a row of phrases
# what frames such a line: marks of lists, headings and arrows
_FRAME = " \t*#>|·•-–—▶▷►→←↑»«[]<>【】▲△■□◆※:：…"
_BETWEEN = re.compile(r"\s*[|/·,•]\s*")

_ANY = r"[^.!?。]{0,80}"
# (words of which one stands in the lower-case document, pattern of the lower-case line)
_RULES: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "": (
        # a year or a name must follow: ⓒ and (c) also number the items of lists
        (
            ("©", "copyright", "ⓒ", "(c)", "all right"),
            rf"©{_ANY}|(?:copyrights?|\(c\)|ⓒ)\s*(?:ⓒ|©|\(c\)|by |\d{{4}}){_ANY}"
            r"|ⓒ\s?[^\s.!?ⓐ-ⓩ][^\s.!?]{1,15}"
            r"|(?:ⓒ|©|\(c\)|copyright)[^!?]{0,90}all rights? reserved[^!?]{0,30}"
            rf"|(?:\w+ ){{0,6}}all rights? reserved{_ANY}",
        ),
        (
            ("cookies",),
            r"(?:we use|(?:this|our) (?:web)?site uses) cookies[^.]{0,120}(?:\.[^.]{0,60})?"
            r"|by (?:continuing|using) [^.]{0,60}cookies[^.]{0,40}",
        ),
        (
            ("javascript",),
            r"(?:please )?enable javascript[^.]{0,80}"
            r"|javascript is (?:disabled|required)[^.]{0,80}",
        ),
    ),
    "ko": (
        (
            ("무단", "저작권"),
            rf"{_ANY}무단 ?(?:전재|복제|배포|도용|사용)[^.!?]{{0,40}}(?:금지|금합니다|불허){_ANY}"
            rf"|저작권자\s*(?:ⓒ|©|\(c\)|:|：){_ANY}"
            r"|본 ?(?:기사|콘텐츠|게시물)의? ?저작권은[^!?]{0,80}",
        ),
        # "[서울=뉴스] 홍길동 기자 =", "홍길동 기자 gd@a.kr": a sentence about a 기자 has neither
        (
            ("기자", "특파원", "논설위원"),
            r"(?:\(?[가-힣a-z·]{2,10}\s*=\s*[가-힣a-z0-9·]{2,12}\)?\]?\s*[가-힣]{2,4}\s?WHO\s*=?"
            r"|(?:[가-힣]{2,8}(?:신문|일보|뉴스|경제|타임즈|투데이|방송)\s)?[가-힣]{2,4}\s?WHO\s*"
            r"(?:=|[(/|·]?\s*(?:<?email>?|[\w.+-]+@[\w.-]+)\s*\)?))".replace(
                "WHO", "(?:선임|수습|인턴|전문)?\\s?(?:기자|특파원|논설위원)"
            ),
        ),
        (
            ("사진", "영상", "그래픽", "자료"),
            r"(?:사진|영상|그래픽|자료)\s*(?:=|(?:제공|출처)\s*[=:|])\s*[가-힣a-z0-9 ·/]{2,24}",
        ),
        (
            ("구독",),
            r"구독(?:과|와|,| )+(?:좋아요|알림)[^.!?]{0,30}|좋아요(?:와|,| )+구독[^.!?]{0,30}",
        ),
        (
            ("tensorflow.org", "colab", "github", "노트북"),
            r"(?:tensorflow\.org|(?:google )?colab|github|구글 코랩\(colab\)|깃허브\(github\))"
            r"(?:에서)? ?(?:소[스그] ?)?(?:코드 ?)?(?:보기|실행|실행하기|열기)"
            r"|노트북 ?다운[로론]드(?:하기)?",
        ),
        (("쿠키",), r"(?:이|본|저희|당) ?(?:웹)?사이트[^.!?]{0,40}쿠키를 ?사용[^!?]{0,60}"),
    ),
    "ja": (
        (("無断",), rf"{_ANY}無断(?:転載|複製|使用)[^。]{{0,20}}(?:禁|お断り){_ANY}"),
        (
            ("cookie", "クッキー"),
            r"(?:当|この|本)(?:web|ウェブ)?サイト[^。]{0,30}(?:cookie|クッキー)[^。]{0,50}",
        ),
    ),
    "zh": (
        (
            ("转载", "轉載", "复制", "摘编", "版权所有", "版權所有"),
            rf"(?:{_ANY}未经[^。]{{0,12}}(?:许可|授权|允许)[^。]{{0,8}}(?:不得|禁止)[^。]{{0,6}}"
            r"(?:转载|轉載|复制|摘编)"
            rf"|{_ANY}转载请注明|(?:版权所有|版權所有)){_ANY}",
        ),
        (("责任编辑", "icp备"), r"责任编辑[:：]\s*\S{2,8}|\S{1,2}icp备\S{4,30}"),
        (("cookie",), r"(?:本|我们的)?网站使用\s?cookies?[^。]{0,50}"),
    ),
    "de": (
        (
            ("cookies",),
            r"(?:diese|unsere) (?:web)?(?:site|seite) (?:verwendet|benutzt|nutzt) cookies[^.]{0,80}"
            r"|wir verwenden cookies[^.]{0,100}",
        ),
    ),
    "fr": ((("cookies",), r"(?:ce site|nous) utilis(?:e|ons) des cookies[^.]{0,100}"),),
    "es": (
        (
            ("cookies",),
            r"(?:este sitio(?: web)?|esta (?:web|página)) (?:utiliza|usa) cookies[^.]{0,100}"
            r"|(?:utilizamos|usamos) cookies[^.]{0,100}",
        ),
    ),
    "ru": (
        (
            ("cookie",),
            r"(?:(?:этот|наш) сайт использует|мы используем) (?:файлы )?cookies?[^.]{0,100}",
        ),
        (
            ("перепечатка", "копирование"),
            r"(?:перепечатка|копирование)[^.]{0,60}(?:запрещен|запрещается)[^.]{0,60}",
        ),
    ),
    "vi": (
        (("cookie",), r"(?:trang web này|chúng tôi) sử dụng cookies?[^.]{0,100}"),
        (("bản quyền",), r"bản quyền thuộc về[^.]{0,60}"),
    ),
    "ar": (
        (
            ("محفوظة",),
            r"(?:(?:جميع|كل|كافة) الحقوق|حقوق (?:النشر|الطبع)[^.]{0,60}) ?محفوظة[^.]{0,60}",
        ),
        (("تعريف الارتباط",), r"يستخدم (?:هذا )?(?:الموقع|موقعنا) ملفات تعريف الارتباط[^.]{0,80}"),
    ),
    "hi": ((("कुकी",), r"(?:यह|हमारी) (?:वेब)?साइट कुकीज़? का उपयोग[^।]{0,80}"),),
}
# what a moderator's tool adds to the end of a text
_MODERATED = re.compile(
    r"\s*\[본 (?:게시물|게시글|댓글)[^\[\]\n]{0,60}관리자에 의해 (?:수정|삭제)[^\[\]\n]{0,12}\]$",
    re.MULTILINE,
)
_Rule = tuple[tuple[str, ...], re.Pattern[str]]
_COMPILED: dict[str, tuple[_Rule, ...]] = {
    language: tuple(
        (words, re.compile(rf"(?:{pattern})[.。!]?\s*"))
        for words, pattern in (*_RULES[""], *(rules if language else ()))
    )
    for language, rules in _RULES.items()
}
_ANY_WORD = {
    language: re.compile("|".join(re.escape(word) for words, _ in rules for word in words))
    for language, rules in _COMPILED.items()
}
_SHORT = 400  # characters, of which one search of all words is the fastest
_CASED = frozenset(["ru", "vi", "zh"])  # whose words have capitals beyond ASCII, or both ("icp备")
_WORDS = {
    language: (
        tuple(word.encode() for word in words if word.isascii()),
        re.compile("|".join(re.escape(word) for word in words if not word.isascii())),
    )
    for language, rules in _COMPILED.items()
    for words in [[word for words, _ in rules for word in words]]
}
# first two characters of a line that may be a phrase, or a row of them
_BEGINNINGS = frozenset(
    beginning
    for known in (BRANDS, *PHRASES.values())
    for phrase in known
    for beginning in (phrase[:2], phrase[0] + " ")
)


def remove_boilerplate(text: str, language: str) -> tuple[str, int]:
    """The text without its boilerplate lines, and how many they were. Idempotent."""
    num_notices = 0
    if language == "ko" and "관리자에 의해" in text:
        text, num_notices = _MODERATED.subn("", text)
    rules = _COMPILED.get(language, _COMPILED[""])
    held: tuple[_Rule, ...] = ()
    if _may_hold(text, language if language in _COMPILED else ""):
        lower = text.lower()
        held = tuple(rule for rule in rules if any(word in lower for word in rule[0]))
    phrases = PHRASES.get(language, EVERYWHERE)
    lines = text.split("\n")
    kept = [
        line
        for line in lines
        if not line
        or len(line) > _MAX_LINE
        or not (
            (held and _is_one_of(line, held))
            or (
                # what `_is_phrase` asks first, nearly always in vain
                (line[0] in _FRAME or line[1:2] in _FRAME or line[:2].lower() in _BEGINNINGS)
                and _is_phrase(line, phrases)
            )
        )
    ]
    if len(kept) == len(lines):
        return text, num_notices
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")
    return joined, num_notices + len(lines) - len(kept)


def _may_hold(text: str, language: str) -> bool:
    """Does a word of the rules stand in the text? Lower case of ASCII is the fastest to make."""
    if len(text) < _SHORT:
        return _ANY_WORD[language].search(text.lower()) is not None
    ascii_words, others = _WORDS[language]
    lower = text.encode("utf-8", "surrogatepass").lower()
    return any(word in lower for word in ascii_words) or bool(
        others.search(text.lower() if language in _CASED else text)
    )


def _is_one_of(line: str, rules: tuple[_Rule, ...]) -> bool:
    lower = line.lower()
    for words, pattern in rules:
        for word in words:
            if word in lower:
                if pattern.fullmatch(line.strip(_FRAME).lower()):
                    return True
                break
    return False


def _is_phrase(line: str, phrases: frozenset[str]) -> bool:
    words = line.strip(_FRAME)
    if len(words) > _MAX_PHRASES or words[:2].lower() not in _BEGINNINGS:
        return False
    return key(words) in phrases or _is_row(words, phrases)


def _is_row(words: str, phrases: frozenset[str]) -> bool:
    """`Terms of use | Privacy policy`, or `Facebook Twitter Email`."""
    mark = _BETWEEN.search(words)
    if mark:  # the first part decides for nearly every line
        first = key(words[: mark.start()])
        known = phrases | BRANDS if first in phrases or first in BRANDS else frozenset()
        return bool(known) and all(key(part) in known for part in _BETWEEN.split(words))
    names = words.lower().split()
    return len(names) > 1 and all(name in BRANDS for name in names)
