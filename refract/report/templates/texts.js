"use strict";
// Texts as the page shows them, put in with textContent or createTextNode: none is markup.
const Texts = (() => {
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // Characters that a reader would not see, or that would move what stands beside them.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]|[\u0300-\u036f]{3,}/g;
  // Names, not the characters of the block Control Pictures, which few fonts have.
  const CONTROLS = "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");
  const symbol = (text) => {
    const code = text.codePointAt(0);
    if (code < 0x20) return CONTROLS[code];
    if (code === 0x7f) return "DEL";
    return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
  };
  // A text in parts: what shows, and signs of what does not, runs of one counted.
  function drawn(text) {
    const parts = [];
    let at = 0, last = null;
    for (const found of text.matchAll(HIDDEN)) {
      if (found.index > at) { parts.push({ text: text.slice(at, found.index) }); last = null; }
      const sign = symbol(found[0]), count = /^[\u0300-\u036f]/.test(found[0]) ? found[0].length : 1;
      if (last?.sign === sign) last.count += count;
      else parts.push((last = { sign, count }));
      at = found.index + found[0].length;
    }
    if (at < text.length) parts.push({ text: text.slice(at) });
    for (const part of parts) part.text ??= part.sign + (part.count > 1 ? "×" + part.count : "");
    return parts;
  }
  const plain = (text) => drawn(text).map((part) => part.text).join("");
  function put(parent, text) {
    for (const part of drawn(text)) parent.append(part.sign ? element("span", "ctl", part.text) : document.createTextNode(part.text));
    return parent;
  }
  // A text in a box with marked spans: [{start, end, tag, says}]; where two overlap, one stands in the other.
  function box(text, spans = []) {
    const made = element("div", "text-box");
    const ends = [...new Set([0, text.length, ...spans.flatMap((span) => [span.start, span.end])])].sort((a, b) => a - b);
    for (let i = 0; i + 1 < ends.length; i++) {
      let into = made;
      for (const span of spans) {
        if (span.start > ends[i] || span.end < ends[i + 1] || into.localName === span.tag) continue;
        into = into.appendChild(element(span.tag));
        if (span.says) into.title = plain(span.says);
      }
      put(into, text.slice(ends[i], ends[i + 1]));
    }
    return made;
  }

  // Words that only one of two texts has, as spans of each: a longest common subsequence, after the
  // words that both begin and end with; where the rest is long, all of it counts as changed.
  const words = (text) => [...text.matchAll(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu)].map((m) => ({ text: m[0], start: m.index, end: m.index + m[0].length }));
  const MOST = 4e6;
  function difference(one, two, tags) {
    const a = words(one), b = words(two);
    let head = 0, tail = 0;
    while (head < a.length && head < b.length && a[head].text === b[head].text) head++;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail].text === b[b.length - 1 - tail].text) tail++;
    const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
    const keptX = new Set(), keptY = new Set();
    if (x.length * y.length <= MOST) {
      const width = y.length + 1, table = new Uint16Array((x.length + 1) * width);
      for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--)
        table[i * width + j] = x[i].text === y[j].text ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
      for (let i = 0, j = 0; i < x.length && j < y.length;) {
        if (x[i].text === y[j].text) { keptX.add(i++); keptY.add(j++); }
        else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++;
        else j++;
      }
    }
    const spans = (all, kept, tag) => {
      const found = [];
      all.forEach((word, i) => {
        // Blanks between two changed words are changed with them.
        if (kept.has(i) && !(/^\s/.test(word.text) && i > 0 && i + 1 < all.length && !kept.has(i - 1) && !kept.has(i + 1))) return;
        const last = found.at(-1);
        if (last?.end === word.start) last.end = word.end;
        else found.push({ start: word.start, end: word.end, tag });
      });
      return found;
    };
    return [spans(x, keptX, tags[0]), spans(y, keptY, tags[1])];
  }

  return { element, plain, put, box, difference };
})();
