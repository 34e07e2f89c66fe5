"""Sound raw files to begin with, and the words of their formats."""

JSON_LINES = (
    '{"text": "한국어 문장입니다.", "source": "news", "url": "https://a.example/1"}\n'
    '{"text": "Second \\u00e9 line", "licence": "CC0", "thread": "a"}\n'
    '{"text": "\\ud83d\\ude00 \\ud83d", "thread": "a", "n": 1e5}\n'.encode(),
    b'{"text": "a"}\r\n\r\n{"text": null}\n{"other": 1}\n[1]\n{"text": "b", "thread": 7}',
)
TEXTS = (
    "첫 줄입니다.\n둘째 줄.\n\n다음 글\n".encode(),
    b"\xef\xbb\xbfone line\r\n\r\nanother \x0c line\n\n\n\nlast",
)
DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="ko">
<siteinfo><base>https://ko.example.org/wiki/Main</base><namespaces>
<namespace key="0" /><namespace key="6">파일</namespace><namespace key="14">분류</namespace>
</namespaces></siteinfo>
<page><title>한국</title><ns>0</ns><revision><text bytes="9">'''한국'''은 [[나라|나라]]다.
{{틀|a=b}} == 역사 ==
[[분류:나라]] &lt;ref&gt;x&lt;/ref&gt;</text></revision></page>
<page><title>R</title><ns>0</ns><redirect title="한국" /><revision><text>#REDIRECT [[한국]]</text>
</revision></page><page><title>T:x</title><ns>10</ns><revision><text>no</text></revision></page>
</mediawiki>
""".encode()
DTD = b"""<?xml version="1.0"?><!DOCTYPE mediawiki [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>
<mediawiki><page><title>&b;</title><ns>0</ns><revision><text>&b; &c;</text></revision></page>
</mediawiki>"""
WIKITEXT = (
    "'''Seoul''' ({{lang|ko|서울}}) is the [[capital city|capital]] of [[Korea]].<ref>a</ref>\n"
    "{| class=x\n|-\n| a || b\n|}\n== History ==\n* one\n* two [http://a.example b]\n"
    "[[File:a.jpg|thumb|A [[b]] c]] <math>x^2</math> <!-- c -->\n\n-{zh-hans:a;zh-hant:b}-\n"
    "== References ==\n<references />\n[[Category:X]]\n".encode(),
    "{{정보|이름=[[서울]]|{{a|{{b}}}}}}\n&nbsp;__NOTOC__ ''기울임'' <nowiki>[[x]]</nowiki>"
    "".encode(),
)
WIKI_WORDS = (
    b"{{",
    b"}}",
    b"[[",
    b"]]",
    b"{|",
    b"|}",
    b"\n|}",
    b"<ref",
    b"</ref>",
    b"<ref/>",
    b"<!--",
    b"-->",
    b"<nowiki>",
    b"</nowiki>",
    b"<math>",
    b"</math>",
    b"==",
    b"\n==",
    b"'''",
    b"|",
    b"-{",
    b"}-",
    b"[http://a ",
    b"<gallery>",
    b"</gallery>",
    b"__TOC__",
    b"&#x110000;",
    b"&#99999999999;",
)
XML_WORDS = (
    b"<page>",
    b"</page>",
    b"<title>",
    b"</title>",
    b"<ns>",
    b"</ns>",
    b"<text>",
    b"</text>",
    b"<base>",
    b"</base>",
    b"<redirect/>",
    b"<mediawiki>",
    b"</mediawiki>",
    b"<namespace key='6'>",
    b"</namespace>",
    b"<!DOCTYPE a [",
    b"]>",
    b'<!ENTITY a "b">',
    b"&a;",
    b"<![CDATA[",
    b"]]>",
    b"<?xml version='1.0' encoding='utf-16'?>",
    b"<?x?>",
    b"&#xD800;",
    b"&lt;",
    b"xmlns:a=''",
)
WET = "".join(
    f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://a.example/{kind}\r\n"
    f"Content-Length: {len(text.encode())}\r\n\r\n{text}\r\n\r\n"
    for kind, text in (("warcinfo", "x: y"), ("conversion", "본문 text\n"), ("conversion", "b"))
).encode()
WET_WORDS = (
    b"WARC/1.0\r\n",
    b"WARC-Type: conversion\r\n",
    b"Content-Length: ",
    b"Content-Length: 99999\r\n",
    b"\r\n\r\n",
    b"\xc2\xb2",
    b"-1",
    b"999999999999999999",
    b"WARC/",
)
DOCUMENTS = (
    "# 제목\n\n이것은 <b>문서</b>입니다. [링크](https://a.example/x?y=1) 전화 010-1234-5678\n"
    "- 하나\n- 둘\n\n```py\nprint(1)\n```\nì•ˆë…• ｆｕｌｌ ㅋㅋㅋㅋㅋㅋ ᄒᆞᆫ글\n"
    "me@a.example.com\n".encode(),
    b"<html><body><p>Terms of use</p><a href='x'>y</a>&amp;lt;</body> Copyright (c) 2020 "
    b"All rights reserved. The quick brown fox jumps over the lazy dog. " * 2,
)
