// Writes cdplugin/unicode_data.json from the Unicode tables of the running Node (process.versions.unicode).
// Usage: node tests/data/make_unicode_data.mjs ALIASES.json > cdplugin/unicode_data.json
// ALIASES.json: {"scripts": [["greek", "grek"], ...], "binary": [["alphabetic", "alpha"], ...]} in loose spelling (UAX44-LM3).
// A set is written as "gap-length" per range in base 32: gap since the end of the last range, length - 1 (left out when 0).
import fs from 'node:fs';
const names = JSON.parse(fs.readFileSync(process.argv[2]));
const text = (pattern) => {
  let regex;
  try { regex = new RegExp(pattern, 'u'); } catch { return null; }
  const out = [];
  let end = 0, start = -1;
  for (let c = 0; c <= 0x110000; c++) {
    const hit = c < 0x110000 && !(c >= 0xd800 && c < 0xe000) && regex.test(String.fromCodePoint(c));
    if (hit && start < 0) start = c;
    if (!hit && start >= 0) {
      out.push((start - end).toString(32) + (c - start > 1 ? '-' + (c - start - 1).toString(32) : ''));
      end = c;
      start = -1;
    }
  }
  return out.join(' ');
};
const categories = {}, scripts = {}, extensions = {}, binary = {}, aliases = {scripts: {}, binary: {}, categories: {}};
for (const gc of 'Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn'.split(' ')) categories[gc.toLowerCase()] = text(`^\\p{gc=${gc}}$`);
// General categories by their long names, and those that are groups of others. Cs holds surrogates only, which no text contains.
const long = {
  lc: 'casedletter l&',
  l: 'letter',
  lu: 'uppercaseletter',
  ll: 'lowercaseletter',
  lt: 'titlecaseletter',
  lm: 'modifierletter',
  lo: 'otherletter',
  m: 'mark combiningmark',
  mn: 'nonspacingmark',
  mc: 'spacingmark',
  me: 'enclosingmark',
  n: 'number',
  nd: 'decimalnumber digit',
  nl: 'letternumber',
  no: 'othernumber',
  p: 'punctuation punct',
  pc: 'connectorpunctuation',
  pd: 'dashpunctuation',
  ps: 'openpunctuation',
  pe: 'closepunctuation',
  pi: 'initialpunctuation',
  pf: 'finalpunctuation',
  po: 'otherpunctuation',
  s: 'symbol',
  sm: 'mathsymbol',
  sc: 'currencysymbol',
  sk: 'modifiersymbol',
  so: 'othersymbol',
  z: 'separator',
  zs: 'spaceseparator',
  zl: 'lineseparator',
  zp: 'paragraphseparator',
  c: 'other',
  cc: 'control cntrl',
  cf: 'format',
  cs: 'surrogate',
  co: 'privateuse',
  cn: 'unassigned',
};
for (const [short, all] of Object.entries(long)) for (const name of all.split(' ')) aliases.categories[name] = short;
const groups = {'lc': 'lu ll lt', 'l': 'lu ll lt lm lo', 'm': 'mn mc me', 'n': 'nd nl no', 'p': 'pc pd ps pe pi pf po', 's': 'sm sc sk so', 'z': 'zs zl zp', 'c': 'cc cf co cn', 'cs': ''};
for (const group of names.scripts) {
  const code = group.find((n) => n.length === 4);
  if (!code || code === 'zzzz') continue;
  const proper = code[0].toUpperCase() + code.slice(1);
  const set = text(`^\\p{sc=${proper}}$`);
  if (set === null) continue;
  const key = group[0];
  scripts[key] = set;
  const extended = text(`^\\p{scx=${proper}}$`);
  if (extended !== set) extensions[key] = extended;
  for (const other of group.slice(1)) aliases.scripts[other] = key;
}
const proper = ('Alphabetic ASCII_Hex_Digit Bidi_Control Bidi_Mirrored Case_Ignorable Cased Changes_When_Casefolded Changes_When_Casemapped ' +
  'Changes_When_Lowercased Changes_When_NFKC_Casefolded Changes_When_Titlecased Changes_When_Uppercased Dash Default_Ignorable_Code_Point ' +
  'Deprecated Diacritic Emoji Emoji_Component Emoji_Modifier Emoji_Modifier_Base Emoji_Presentation Extended_Pictographic Extender ' +
  'Grapheme_Base Grapheme_Extend Hex_Digit IDS_Binary_Operator IDS_Trinary_Operator ID_Continue ID_Start Ideographic Join_Control ' +
  'Logical_Order_Exception Lowercase Math Noncharacter_Code_Point Pattern_Syntax Pattern_White_Space Quotation_Mark Radical ' +
  'Regional_Indicator Sentence_Terminal Soft_Dotted Terminal_Punctuation Unified_Ideograph Uppercase Variation_Selector White_Space ' +
  'XID_Continue XID_Start').split(' ');
for (const name of proper) {
  const key = name.toLowerCase().replaceAll('_', '');
  const set = text(`^\\p{${name}}$`);
  if (set === null) { console.error('no', name); continue; }
  binary[key] = set;
  for (const other of names.binary.find((g) => g.includes(key)) || []) if (other !== key) aliases.binary[other] = key;
}
// Orbits of simple case folding (ECMA-262 Canonicalize with the u and i flags): every code point that matches another one.
const cased = [];
for (let c = 0; c < 0x110000; c++) {
  if (c >= 0xd800 && c < 0xe000) continue;
  const s = String.fromCodePoint(c);
  if (s.toLowerCase() !== s || s.toUpperCase() !== s || /\p{CWCM}|\p{CWCF}/u.test(s)) cased.push(s);
}
const all = cased.join(''), done = new Set(), orbits = [];
for (const s of cased) {
  if (done.has(s)) continue;
  const orbit = all.match(new RegExp(`\\u{${s.codePointAt(0).toString(16)}}`, 'iug'));
  for (const t of orbit) done.add(t);
  if (orbit.length > 1) orbits.push(orbit.join(''));
}
const source = 'Unicode Character Database, https://www.unicode.org/license.txt (Unicode License v3)';
const lines = Object.entries({source, unicode: process.versions.unicode, categories, scripts, extensions, binary, groups, aliases, orbits: orbits.join(' ')});
console.log('{\n' + lines.map(([k, v]) => `${JSON.stringify(k)}: ${JSON.stringify(v, null, k === 'aliases' || k === 'groups' || typeof v === 'string' ? 0 : 1)}`).join(',\n') + '\n}');
