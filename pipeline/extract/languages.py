"""Names of the languages that {{lang-xx}} templates put before foreign words."""

_NAMES = """
af Afrikaans; am Amharic; ang Old English; ar Arabic; az Azerbaijani; be Belarusian; bg Bulgarian;
bn Bengali; br Breton; bs Bosnian; ca Catalan; cs Czech; cy Welsh; da Danish; de German; el Greek;
eo Esperanto; es Spanish; et Estonian; eu Basque; fa Persian; fi Finnish; fr French; ga Irish;
gd Scottish Gaelic; gl Galician; got Gothic; grc Ancient Greek; he Hebrew; hi Hindi; hr Croatian;
hu Hungarian; hy Armenian; id Indonesian; is Icelandic; it Italian; ja Japanese; ka Georgian; kk Kazakh;
ko Korean; ku Kurdish; la Latin; lb Luxembourgish; lt Lithuanian; lv Latvian; mk Macedonian; ml Malayalam;
mn Mongolian; mr Marathi; ms Malay; mt Maltese; nah Nahuatl; ne Nepali; nl Dutch; no Norwegian;
non Old Norse; oc Occitan; pa Punjabi; pl Polish; ps Pashto; pt Portuguese; ro Romanian; ru Russian;
sa Sanskrit; sk Slovak; sl Slovene; sq Albanian; sr Serbian; sv Swedish; sw Swahili; syr Syriac; ta Tamil;
te Telugu; th Thai; tr Turkish; tt Tatar; uk Ukrainian; ur Urdu; uz Uzbek; vi Vietnamese; yi Yiddish;
zh Chinese
"""
LANGUAGES = dict(entry.strip().split(" ", 1) for entry in _NAMES.replace("\n", " ").split(";"))
"""ISO 639 code -> English name."""
