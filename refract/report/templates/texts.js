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
  const symbol = (text) => "U+" + text.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
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

  // What only one of two texts has, as a span of each: all between the words that both begin and end with.
  const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  function difference(one, two, tags) {
    const a = words(one), b = words(two), most = Math.min(a.length, b.length);
    let head = 0, tail = 0;
    while (head < most && a[head] === b[head]) head++;
    while (tail < most - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
    return [a, b].map((all, place) => {
      const start = all.slice(0, head).join("").length, end = all.slice(0, all.length - tail).join("").length;
      return start < end ? [{ start, end, tag: tags[place] }] : [];
    });
  }

  return { element, plain, put, box, difference };
})();
