/** How Python classes characters; written by tests/sdk/javascript_words.py. */
import { CharacterClass } from "../tokenizer/character_class.js";

/** Letters. */
export const LETTERS = /* @__PURE__ */ CharacterClass.ofSteps(
  "5c n 1 v 1 cq 4 c q 1 1 1 3l 4 2 2 3 5 6 5 1 1 1 k 1 29 3 3v 8 4m 1 12 2 1 6 15 1z r 4 4 19 " +
  "17 z 2t 2 1 f 2 7 f 2 1 g 1 1 u t 2h b 1 o x 9 2 4 1 5 m 4 1 9 1 3 1 n p 7 b 5 o 1 6 h 16 1m " +
  "1i 3 1 i 1 f 2 f g 4 8 2 2 2 m 1 7 1 1 3 4 3 1 g 1 h 2 e 2 a 1 8 6 4 2 2 m 1 7 1 1 2 1 2 2 y " +
  "1 l 3 g 9 1 3 1 m 1 7 1 2 1 5 3 1 i 1 f 2 n 1 b 8 2 2 2 m 1 7 1 2 1 5 3 1 x 3 f 1 h 1 1 6 3 " +
  "3 1 4 3 2 1 1 1 2 3 2 3 3 3 c m 1 1g 8 1 3 1 n 1 g 3 1 q 3 2 1 2 2 u 1 4 8 1 3 1 n 1 a 1 5 3 " +
  "1 v 2 1 2 f 2 h 9 1 3 1 15 2 1 g 1 5 3 8 3 o 6 5 i 3 o 1 9 1 1 2 7 8p 1 1r 8 1 10 r 5 7n 12 " +
  "1 1 5 1 2 17 2 3 74 21 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 11 g g " +
  "2e 2 6 3 h8 2 h 1 q 5 23 6 8 7 i d j e i e d 1 3 2u 1 4 1 1v 2h 7 5 2 y 1 1 5 1y a v 1d u 2 " +
  "5 b 18 4 q 1i n 9 1h 2a 1 2l 1b h 8 1i u d 1k q 10 15 1d 2 9 7 17 2 3 15 4 1 6 1 2 3 1 5 4b " +
  "2t 7q 2 6 2 12 2 6 2 8 1 1 1 1 1 1 1 u 3 1h 1 f 1 d 3 5 5 d 5 3 1 7 8l 1 r 1 1g 2 22j 6d 6 4 " +
  "3 2 c 12 1 1 5 1 2 1k o n 9 7 1 7 1 7 1 7 1 7 1 7 1 7 1 7 28 1 ej 2 m2r wd 1v 1a 2 7h 3 s k " +
  "1b g t 4 1y 1d 9 2 2v 2 1s 5 2 1 1 1 5 r d 1 3 1 4 1 n t 1g e 1e 1q 6 3 1 1 2 b s a n p t 7 " +
  "1b s 1 1c 15 n 3 1 8 1g 1c 1 1 3 2 2 5 2 1 1 1 o 3 2 b 7 3 c 6 2 6 2 6 9 7 1 7 1 17 5 9 7 37 " +
  "8nh n 4 1d 7lj 1 b0 c 1 q 1 j 1 2 1 f 2 e y 3f at t 3 1d 1b w d k 1 8 6 12 a u 2 10 4 8 1c " +
  "4e i 10 4 10 4 14 8 1g c b 1 f 1 7 1 2 1 b 1 f 1 7 1 2 1v 8n 9 m a 8 o 1 3j 6 2 1 1 18 1 2 3 " +
  "1 2 n a n 9 v 1t j 1 2 a m a q 1y 1k 6 2 1s 1 f 4 1 3 1 t 16 t 3 t z 8 1 s r 1i a m a j d i " +
  "32 21 1j 1f d 1f d 10 9o 16 6 2 26 t a 1 8 m 16 i 1a l r n c 1h 1l 2 2 1 d 19 w p q 10 t 1 2 " +
  "1 8 z 3 1 c 1c e 4 l 1 1 1 z i 1 p 2c 7 1 1 1 4 1 f 1 a 7 1b 12 8 2 2 2 m 1 7 1 2 1 5 3 1 i " +
  "1 c 5 4e 1h i 4 k 3 u 1c k 2 1 1 54 1b 15 4 10 1c k 1 1n 17 d 1 1z r 11 7 55 18 38 1s v 8 2 " +
  "1 2 8 1 2 1 o f 1 1 1 2m 8 2 13 g 1 1 1 s 1 a 14 7 1 l 1 b 1a j 1 i 21 7b 9 1 11 h 1 1d u 34 " +
  "7 1 2 1 12 l 1 p 6 1 2 1 w e 1 93 j 59 1 27 pm 6e 5g 218 2p f tr 34h g7 6nt ft 7 v h 27 h u " +
  "i 1c g 4 v l 5 j j4 1s 3k 23 5 1 1u d 1s 2 1 1 s 4qg 8 ye 16 9 6w7 4 1 7 1 2 a9 b0 1s4 2z 5 " +
  "d 3 9 7 a 6sm v dd 19 a 7 g 1 8x u i 18 z8 7 1 4 1 2 1 f 1 5h 1n 1w 7 1",
);

/** What else is of words. */
export const OTHERS = /* @__PURE__ */ CharacterClass.ofSteps(
  "lc 34 7n 5 i1 1 44 b 1m 9 9 1 o 4 1 9 1 3 1 5 17 3 1o 8 16 1m 1i 2 2 i 1 7 a 2 t 3 1k 1 1 7 " +
  "2 2 2 3 9 1 a 2 g 6 4 1 2 3 1k 1 1 5 4 2 2 3 3 1 u 2 3 1 b 3 1k 1 1 8 1 3 1 3 k 2 m 6 1 3 1k " +
  "1 1 7 2 2 2 3 7 3 a 2 e 6 a 1 1n 5 3 3 1 4 9 1 o 3 d 5 1j 1 1 7 1 3 1 4 7 2 b 2 k 7 2 3 1k 1 " +
  "1 7 1 3 1 4 7 2 b 2 s 4 1j 2 1 7 1 3 1 4 9 8 3 2 c 9 8 3 1y 1 4 6 1 1 1 8 i 2 84 2 g a 1 1 1 " +
  "1 1 1 4 2 1d k 1 2 5 b 1 10 9 1 5v 4 jj 3 9 k oh 3 x 4 s 3 t 2 u 2 2x 1 i a 3v 2 y 1 3a c 4 " +
  "c 4e 1 1o 5 1l a 1 t 2 1 1c v 1d 5 1b h 12 9 c 3 u d 1k e 1c k 48 3 1 l 4 1 6 1 2 3 5i 1s k0 " +
  "x 3z 3 2 4 o2 l hi u 123 3 b 1 3l 1 2o w fe 6 ew 8 mxr 1 4 a w 2 1y c 7k 1 3 1 4 1 n 5 4 1 3 " +
  "6 22 2 1e i q i d 1 12 8 p d 18 4 1b e 2w e c 1 8 2 2q 1 1 3 2 2 5 2 1 1 15 5 5 2 6k 8 1 2 " +
  "aaa 4xs f2 1 ld g k7 19 c 1l h 2 35 1 6a s 10 4 t 1 8 1 17 5 2e 5 w2 8 p 7 13 9 23 5 m 6 4g " +
  "2 2 g 2 1a 1 3 1 2 5 4 14 3 4 a 1g 2 u 3 1x 2 4 5 2w 8 o 8 15 7 96 6 10 4 8o v 18 2 34 a v f " +
  "19 4 1r 7 1g 3 1h f b v 2 2 a 4 19 b 7 1 1p 3 10 e g 2 18 1 c 3 1c e 8 4 1 2 h k 1j c 6 1 4g " +
  "c l 4 1j 2 1 7 2 2 2 3 9 1 a 2 2 7 3 5 5c i n 1 29 k 6j 7 2 9 r 2 2a h 2y d 2t f e 2 6o f 4v " +
  "9 1p 6 1 2 2 4 1 1 1 2 3x 7 2 7 3 1 s a 14 7 1 4 8 1 9 b 1a g b9 8 1 8 q j 11 m 1 e 3e 6 3 1 " +
  "1 2 1 7 1 1 1u 5 1 2 1 5 9n 4 5l l tn 33 dxd 5 1n 7 10 7 m6 n 54 1 1 1j 7 4 29 1 b 2 f57 2 " +
  "3mp 1a 2 n f2 5 3 m 2 7 u 4 44 3 4b k 30 p 1af 1j 4 1e 8 1 e 1 m 5 1 f 11s 7 1 h 2 7 1 2 1 5 " +
  "79 7 af 1 1p 4 15j g 31 7 me 1n 1 3 1 4 24 19 1 f r1 2 icc3 1eke 2 1eke",
);

/** Marks in scripts without spaces, which belong to the letter before. */
export const MARKS = /* @__PURE__ */ CharacterClass.ofSteps(
  "2sx 1 2 7 c 8 2q 1 2 9 b 6 9p k n 4 4 3 1 3 2 7 3 4 d c 1 1 1es w 4w5 2 nyi 1 45 3",
);

/** What is dropped. */
export const DROPPED = /* @__PURE__ */ CharacterClass.ofSteps(
  "4t 1 ip 1 8o 2 7b 19 1 1 1 2 1 2 1 1 1k 6 a b 1 1 z 1 a l g 1 2t 8 1 6 2 2 1 4 x 1 w r 91 2 " +
  "1t 19 1o 1 1lu 2 1be 5 j2 1 11o 5 q 5 1d 5 1 a 31 4 1 3 39b 1 n4b 3 hal g 6n 1 6x 3 3b5 1 f " +
  "1 6zm 9 qxz 4 43z 8 h406 1 u 2o 3k 6o",
);

/** Decimal digits, and ASCII's; for `mapOfRuns`. */
export const DIGITS =
  "19c a 1 -180 40 a 1 -1c0 5s a 1 -1hs bq a 1 -1ti 3k a 1 -1x2 3k a 1 -20m 3k a 1 -246 3k a 1 " +
  "-27q 3k a 1 -2ba 3k a 1 -2eu 3k a 1 -2ie 3k a 1 -2ly 3k a 1 -2pi 2y a 1 -2sg 3k a 1 -2w0 28 " +
  "a 1 -2y8 80 a 1 -368 28 a 1 -38g 1g0 a 1 -4og 1c a 1 -4ps 8m a 1 -4ye 3u a 1 -528 4w a 1 " +
  "-574 g a 1 -57k 5c a 1 -5cw 2o a 1 -5fk 40 a 1 -5jk g a 1 -5k0 r80 a 1 -ws0 j4 a 1 -xb4 1c a " +
  "1 -xcg 5s a 1 -xi8 w a 1 -xj4 2o a 1 -xls bk a 1 -xxc gf4 a 1 -1ecg 13k a 1 -1fg0 1ow a 1 " +
  "-1h4w mu a 1 -1hrq 3u a 1 -1hvk 1y a 1 -1hxi 4a a 1 -1i1s 80 a 1 -1i9s 9s a 1 -1ijk 3k a 1 " +
  "-1in4 ao a 1 -1ixs 34 a 1 -1j0w 34 a 1 -1j40 c0 a 1 -1jg0 34 a 1 -1jj4 lc a 1 -1k4g 74 a 1 " +
  "-1kbk 28 a 1 -1kds f5s a 1 -1zjk 2o a 1 -1zm8 40 a 1 -1zq8 lfi a 1 -2l5q a a 1 -2l60 a a 1 " +
  "-2l6a a a 1 -2l6k a a 1 -2l6u 1u2 a 1 -2n0w c0 a 1 -2ncw 19c a 1 -2om8 3og a 1 -2sao";

/** Characters without case; for `mapOfRuns`. */
export const FOLDED =
  "5c n 1 w o 7 1 w 14 o 2 1 1g 2 2 1 5 3 2 1 8 4 2 1 9 n 2 1 1a 1 1 -3d 1 3 2 1 8 1 1 5u 1 2 2 " +
  "1 4 1 1 5q 1 1 1 1 2 2 1 5p 2 1 1 1 3 1 1 27 1 1 1 5m 1 1 1 5n 1 1 1 1 2 1 1 5p 1 1 1 5r 2 1 " +
  "1 5v 1 1 1 5t 1 1 1 1 4 1 1 5v 1 1 1 5x 2 1 1 5y 1 3 2 1 6 1 1 62 1 1 1 1 2 1 1 62 3 1 1 1 2 " +
  "1 1 62 1 1 1 1 2 2 1 61 2 2 2 1 4 1 1 63 1 1 1 1 4 1 1 1 h 8 2 1 h 9 2 1 m 1 1 1 2 1 1 -2p 1 " +
  "1 1 -1k 1 k 2 1 14 1 1 -3m 2 9 2 1 o 1 1 8bv 1 1 1 1 2 1 1 -4j 1 1 1 8bs 3 1 1 1 2 1 1 -5f 1 " +
  "1 1 1x 1 1 1 1z 1 5 2 1 73 1 1 38 17 2 2 1 6 1 1 1 9 1 1 38 7 1 1 12 2 3 1 11 4 1 1 1s 2 2 1 " +
  "1r 3 h 1 w i 9 1 w v 1 1 1 d 1 1 8 9 c 2 1 v 1 1 1 3 1 1 1 3 3 1 -3m 3 g 1 28 g w 1 w 28 h 2 " +
  "1 16 r 2 1 1i 1 1 f 1 7 2 1 f 1c 2 1 2p 12 1 1c 29b 12 1 5ls 13 1 1 5ls 6 1 1 5ls mj 6 1 -8 " +
  "1oo 1 1 -4su 1 1 1 -4st 1 1 1 -4sk 1 2 1 -4si 2 1 1 -4sj 1 1 1 -4sc 1 1 1 -4ro 1 1 1 r7n 8 " +
  "17 1 -2bk 19 3 1 -2bk 8z 23 2 1 4g 1c 2 1 2w 8 1 -8 g 6 1 -8 g 8 1 -8 g 8 1 -8 g 6 1 -8 h 4 " +
  "2 -8 f 8 1 -8 28 2 1 -8 2 1 1 -22 e 2 2 -2e g 2 1 -8 2 1 1 -2s e 2 1 -8 2 1 1 -34 2 1 1 -7 c " +
  "1 1 -3k 2 1 1 -3i 8o 1 1 s 29 1 1 1 22l 1c 1 1c 2o 1 1 1 2 1 1 -8af 1 1 1 -2xy 1 1 1 -89z 3 " +
  "3 2 1 6 1 1 -8bg 1 1 1 -8al 1 1 1 -8bj 1 1 1 -8bi 2 1 1 1 3 1 1 1 9 2 1 -8cf 2 1e 2 1 2z 2 2 " +
  "1 7 1 1 1 nym n 2 1 1s e 2 1 4i 7 2 1 g v 2 1 1z 2 2 1 4 1 1 -r9g 1 5 2 1 d 1 1 1 2 1 1 -wmg " +
  "3 2 2 1 6 a 2 1 k 1 1 -wn8 1 1 1 -wnj 1 1 1 -wnf 1 1 1 -wn5 1 1 1 -wn8 2 1 1 -wlu 1 1 1 -wmi " +
  "1 1 1 -wlx 1 1 1 ps 1 8 2 1 g 1 1 -1c 1 1 1 -wn7 1 1 1 -raw 1 2 2 1 9 1 1 1 6 2 2 1 v 1 1 1 " +
  "or 28 1 -tzk hhs 14 1 14 4w 10 1 14 5c b 1 13 c f 1 13 g 7 1 13 8 2 1 13 1d8 1f 1 1s 2e8 w 1 " +
  "w gww w 1 w o8w y 1 y";

/** Characters that become several without case, with these. */
export const UNFOLDED = "ßss İi̇ ǰǰ ΐΐ ΰΰ ẖẖ ẗẗ ẘẘ ẙẙ ẞss ὐὐ ὒὒ ὔὔ ὖὖ ᾀἀι ᾁἁι ᾂἂι ᾃἃι ᾄἄι ᾅἅι ᾆἆι ᾇἇι ᾈἀι ᾉἁι ᾊἂι ᾋἃι ᾌἄι ᾍἅι ᾎἆι ᾏἇι ᾐἠι ᾑἡι ᾒἢι ᾓἣι ᾔἤι ᾕἥι ᾖἦι ᾗἧι ᾘἠι ᾙἡι ᾚἢι ᾛἣι ᾜἤι ᾝἥι ᾞἦι ᾟἧι ᾠὠι ᾡὡι ᾢὢι ᾣὣι ᾤὤι ᾥὥι ᾦὦι ᾧὧι ᾨὠι ᾩὡι ᾪὢι ᾫὣι ᾬὤι ᾭὥι ᾮὦι ᾯὧι ᾲὰι ᾳαι ᾴάι ᾶᾶ ᾷᾶι ᾼαι ῂὴι ῃηι ῄήι ῆῆ ῇῆι ῌηι ῒῒ ῖῖ ῗῗ ῢῢ ῤῤ ῦῦ ῧῧ ῲὼι ῳωι ῴώι ῶῶ ῷῶι ῼωι";
