"""Lines of navigation and read-more links by language; lower case, `|` between them.

Spaces do not count. Words that are sentences or answers too ("좋아요", "teilen") are not here.
"""

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
