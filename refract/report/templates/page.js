(() => {
  const { element, drawn, ending, plain, put, putParts, box, difference } = Texts;
  const ROW = 52;
  const $ = (id) => document.getElementById(id);
  const list = $("list"), space = $("space"), detail = $("detail");
  const FILTERS = ["model", "suite", "category", "outcome", "perturbation"];
  const FLAGS = ["flipped", "changed", "disagree", "cut"];
  const ENDED = { stop: "by itself", length: "cut off at the token limit", loop: "in a loop", content_filter: "stopped by a content filter" };
  let data, columns, names, texts, shown = [], active = 0, open = -1, toUnfold = false;

  const name = (column, row) => names[column][columns[column][row]];
  const hashOf = (row) => "#/" + [name("model", row), name("suite", row), columns.id[row]].map(encodeURIComponent).join("/");
  const folded = (row) => name("category", row) === "harmful" && !toUnfold;
  const badgeOf = (outcome) => element("span", "badge", outcome.replaceAll("_", " "));

  // What is searched, in lower case: prompts and answers, then ids. Made in idle time, a part at a time;
  // whoever searches before that waits for the rest.
  let lowered = [], ids = [];
  const BATCH = 1000;
  const lower = (count) => {
    const end = Math.min(texts.length, lowered.length + count);
    while (lowered.length < end) lowered.push(texts[lowered.length].toLowerCase());
    return end < texts.length;
  };
  const lowerIdly = (deadline) => {
    let more = true;
    do more = lower(BATCH); while (more && deadline && deadline.timeRemaining() > 4);
    if (more) idly(lowerIdly);
  };
  const idly = window.requestIdleCallback ? (work) => requestIdleCallback(work, { timeout: 200 }) : (work) => setTimeout(work, 10);

  // Which texts and ids hold the query; of a query that grew, only the ones that held it before.
  let searched = null;
  function search(query) {
    if (!query) return (searched = null);
    if (searched && searched.query === query) return searched;
    lower(Infinity);
    const last = searched && query.includes(searched.query) ? searched : null;
    const held = (all, before) => {
      const hits = new Uint8Array(all.length);
      for (let i = 0; i < all.length; i++) if ((!before || before[i]) && all[i].includes(query)) hits[i] = 1;
      return hits;
    };
    return (searched = { query, texts: held(lowered, last && last.texts), ids: held(ids, last && last.ids) });
  }

  // Several outcomes at once, as the rates count them.
  const outcomes = (key) => $("f-outcome").dataset[key].split(" ");
  const GROUPS = { refused: (name) => outcomes("refused").includes(name), "not judged": (name) => !outcomes("judged").includes(name) };
  // Which values of a column the filter lets through; null for all.
  function allowed(key) {
    const value = $("f-" + key).value;
    if (value === "") return null;
    return names[key].map((name, place) => GROUPS[value] ? GROUPS[value](name) : place === Number(value));
  }

  function filter() {
    const wanted = FILTERS.map((key) => [columns[key], allowed(key)]).filter(([, held]) => held);
    const flags = FLAGS.filter((key) => $("f-" + key).checked).map((key) => columns[key]);
    const hits = search($("search").value.toLowerCase());
    const total = columns.id.length;
    const found = [];
    next: for (let row = 0; row < total; row++) {
      for (const [column, value] of wanted) if (!value[column[row]]) continue next;
      for (const column of flags) if (column[row] !== 1) continue next;
      if (hits && !hits.texts[columns.prompt[row]] && !hits.texts[columns.answer[row]] && !hits.ids[row]) continue;
      found.push(row);
    }
    shown = found;
    if (open >= 0 && !shown.includes(open)) close();
    active = Math.max(0, shown.indexOf(open));
    space.style.height = shown.length * ROW + "px";
    $("count").textContent = shown.length.toLocaleString("en") + " of " + total.toLocaleString("en") + " answers";
    list.scrollTop = active * ROW;
    draw();
  }

  // Where the query is in a row's texts, or in its id; null where none is searched.
  function hitIn(row) {
    if (!searched) return null;
    const length = searched.query.length;
    for (const [where, column] of [["prompt", columns.prompt], ["answer", columns.answer]])
      if (searched.texts[column[row]]) return { where, text: texts[column[row]], at: lowered[column[row]].indexOf(searched.query), length };
    return { where: "id", text: columns.id[row], at: ids[row].indexOf(searched.query), length };
  }
  // What stands before a hit leaves room for it, on a telephone too.
  function excerpt(parent, hit) {
    const line = (text) => text.replaceAll("\n", " ");
    const end = hit.at + hit.length;
    const before = ending(drawn(line(hit.text.slice(0, hit.at))), Math.min(40, Math.max(6, Math.floor(list.clientWidth / 32))));
    parent.append(element("i", "", hit.where + ": "), before.cut ? "…" : "");
    putParts(parent, before.kept);
    parent.append(put(element("mark"), line(hit.text.slice(hit.at, end))));
    put(parent, line(hit.text.slice(end)), 160);
  }

  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 9);
    const made = [];
    for (let place = first; place < last; place++) {
      const row = shown[place];
      const line = element("div", "row");
      line.id = "row-" + place;
      line.setAttribute("role", "option");
      line.setAttribute("aria-selected", String(place === active));
      line.setAttribute("aria-setsize", shown.length);
      line.setAttribute("aria-posinset", place + 1);
      line.style.top = place * ROW + "px";
      const what = element("span", "what");
      what.append(badgeOf(name("outcome", row)));
      if (columns.flipped[row]) what.append(element("span", "badge fail", "flipped"));
      else if (columns.changed[row]) what.append(element("span", "badge fail", "changed"));
      // What tells the variants of a prompt apart comes first: where the rest is cut, it stays.
      const id = columns.id[row], clean = columns.clean[row] === null ? id : columns.id[columns.clean[row]];
      if (id !== clean) what.append(put(element("b", "variant"), id.slice(id.lastIndexOf("/") + 1)));
      what.append(put(element("span", "id"), clean), element("span", "model", name("model", row)));
      what.title = plain(id) + ", " + name("model", row);
      const text = element("span", "text"), hit = hitIn(row);
      if (folded(row) && hit?.where !== "id") text.append(element("i", "", hit ? "hit in the folded " + hit.where + " (unfold to read)" : "harmful prompt, folded"));
      else if (hit) excerpt(text, hit);
      else put(text, texts[columns.prompt[row]].replaceAll("\n", " "), 200);
      line.append(what, text);
      made.push(line);
    }
    if (!shown.length) made.push(element("p", "nothing", "No answer matches. Fewer filters or other words find more."));
    space.replaceChildren(...made);
    if (shown.length) list.setAttribute("aria-activedescendant", "row-" + active);
    else list.removeAttribute("aria-activedescendant");
  }

  function moveTo(place) {
    if (!shown.length) return;
    active = Math.min(shown.length - 1, Math.max(0, place));
    const top = active * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
  }

  const fold = (row, title, content) => {
    const made = element("details");
    made.open = !folded(row);
    made.append(element("summary", "", title), content);
    return made;
  };

  function show(row, focus) {
    open = row;
    const heading = element("h3");
    heading.id = "detail-h";
    put(heading, columns.id[row]);
    const buttons = element("div", "buttons");
    const back = element("button", "", "Back to the list");
    back.type = "button";
    back.addEventListener("click", () => list.focus());
    const link = element("a", "", "Link to this answer");
    link.href = hashOf(row);
    buttons.append(back, link);
    const parts = [heading, buttons];
    const details = element("dl");
    const entry = (key, value) => { if (value !== null && value !== "") details.append(element("dt", "", key), put(element("dd"), String(value))); };
    entry("Model", name("model", row));
    entry("Suite", name("suite", row));
    entry("Category", name("category", row));
    entry("Outcome", name("outcome", row).replaceAll("_", " "));
    entry("Answer ended", ENDED[columns.finish[row]] ?? columns.finish[row]);
    const clean = columns.clean[row];
    if (clean !== null) {
      entry("Perturbation", name("perturbation", row));
      entry("Repetitions used", columns.repetitions[row]);
      entry("Similarity", columns.similarity[row]);
      entry("Answer changed", columns.changed[row] === null ? "not tested" : columns.changed[row] ? "yes" : "no");
    }
    const textAt = (place) => place === null ? "" : texts[place];
    entry("Error", textAt(columns.error[row]));
    const judged = JSON.parse(data.verdicts[columns.verdict[row]]);
    for (const verdict of judged) {
      const said = [verdict.label ?? "no label", verdict.score === null ? "" : "score " + verdict.score, textAt(verdict.reason), verdict.error !== null && "error: " + textAt(verdict.error)];
      entry("Judge " + verdict.judge, said.filter(Boolean).join(", "));
    }
    parts.push(details);
    const answer = texts[columns.answer[row]];
    // Evidence is counted in characters, texts here in UTF-16 units.
    const units = (count) => [...answer].slice(0, count).join("").length;
    const evidence = judged.flatMap((verdict) => verdict.evidence.map((hit) => ({ start: units(hit.start), end: units(hit.end), tag: "mark", says: verdict.judge + ": " + hit.says })));
    const content = element("div");
    const side = (title, badge, body) => {
      const made = element("div");
      made.append(element("h4", "", title), ...badge, body);
      return made;
    };
    // The clean text and the perturbed one side by side, the words that only one of them has marked.
    const sides = (title, before, after, badges) => {
      const [gone, added] = difference(before, after);
      const made = element("div", "sides");
      made.append(side("Clean " + title, badges.slice(0, 1), box(before, gone)), side("Perturbed " + title, badges.slice(1), box(after, added)));
      return made;
    };
    const prompt = texts[columns.prompt[row]];
    if (clean === null) content.append(element("h4", "", "Prompt"), box(prompt));
    else content.append(sides("prompt", texts[columns.prompt[clean]], prompt, []));
    content.append(element("h4", "", "Answer"));
    content.append(answer ? box(answer, evidence) : element("p", "small", "empty"));
    if (evidence.length) content.append(put(element("p", "small"), "Marked: " + [...new Set(evidence.map((hit) => hit.says))].join("; ")));
    if (columns.thinking[row] !== null) {
      const thinking = element("details");
      thinking.append(element("summary", "", "Thinking"), box(texts[columns.thinking[row]]));
      content.append(thinking);
    }
    if (clean !== null) {
      const before = texts[columns.answer[clean]];
      const other = element("a", "", "Open the clean answer");
      other.href = hashOf(clean);
      if (before === answer) content.append(element("p", "small", "The clean prompt's answer is the same."));
      else content.append(element("h4", "", "Before and after"), sides("answer", before, answer, [badgeOf(name("outcome", clean)), badgeOf(name("outcome", row))]));
      content.append(other);
    }
    parts.push(name("category", row) === "harmful" ? fold(row, "Texts of a harmful prompt", content) : content);
    detail.replaceChildren(...parts);
    detail.scrollTop = 0;
    if (focus) detail.focus();
  }

  // What is filtered out is no longer open.
  const unopened = [...detail.childNodes];
  function close() {
    open = -1;
    detail.replaceChildren(...unopened);
    if (location.hash.startsWith("#/")) history.replaceState(null, "", "#answers");
  }

  function choose(place, focus) {
    if (!shown.length) return;
    moveTo(place);
    const row = shown[active];
    history.replaceState(null, "", hashOf(row));
    show(row, focus);
  }

  function followHash() {
    const parts = location.hash.slice(2).split("/");
    if (!location.hash.startsWith("#/") || parts.length !== 3) return;
    let wanted;
    try { wanted = parts.map(decodeURIComponent); } catch { return; }
    const model = names.model.indexOf(wanted[0]), suite = names.suite.indexOf(wanted[1]);
    const row = columns.id.findIndex((id, i) => id === wanted[2] && columns.model[i] === model && columns.suite[i] === suite);
    if (row < 0) return;
    if (!shown.includes(row)) { $("filters").reset(); toUnfold = false; filter(); }
    moveTo(shown.indexOf(row));
    show(row, true);
    detail.scrollIntoView();
  }

  // A link from the results: the answers that it counts.
  function followFilter() {
    if (!location.hash.startsWith("#filter?")) return;
    const wanted = new URLSearchParams(location.hash.slice("#filter?".length));
    $("filters").reset();
    toUnfold = false;
    for (const key of FILTERS) {
      const value = wanted.get(key);
      if (value !== null) $("f-" + key).value = value in GROUPS ? value : names[key].indexOf(value);
    }
    // The same link works again after the filters are set otherwise.
    history.replaceState(null, "", "#answers");
    filter();
    $("answers").scrollIntoView();
    list.focus({ preventScroll: true });
  }

  // What is wider than its place says that it scrolls.
  const scrolling = document.querySelectorAll(".scroll");
  function mark() {
    const wide = [...scrolling].map((part) => part.clientWidth > 0 && part.scrollWidth > part.clientWidth + 1);
    scrolling.forEach((part, index) => part.classList.toggle("cut", wide[index]));
  }
  for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", mark);
  mark();

  function start() {
    data = JSON.parse($("data").textContent);
    ({ columns, names, texts } = data);
    ids = columns.id.map((id) => id.toLowerCase());
    const key = (row, id) => columns.model[row] + " " + columns.suite[row] + " " + id;
    const places = new Map(columns.id.map((id, row) => [key(row, id), row]));
    columns.clean = columns.clean.map((id, row) => id === null ? null : places.get(key(row, id)) ?? null);
    // An answer that refuses where the one to the clean prompt did not, or the other way round.
    columns.flipped = columns.clean.map((clean, row) => {
      if (clean === null) return 0;
      const pair = [name("outcome", clean), name("outcome", row)];
      const [before, after] = pair.map((outcome) => outcomes("refused").includes(outcome));
      return before !== after && pair.every((outcome) => outcomes("judged").includes(outcome)) ? 1 : 0;
    });
    columns.cut = columns.finish.map((reason) => reason === "length" ? 1 : 0);
    for (const key of FILTERS) {
      const select = $("f-" + key), all = element("option", "", "all");
      all.value = "";
      select.append(all);
      if (key === "outcome") for (const group of Object.keys(GROUPS)) select.append(element("option", "", group + (group === "refused" ? ", fully or in part" : ""))), (select.lastChild.value = group);
      names[key].forEach((text, index) => {
        const option = element("option", "", key === "outcome" ? text.replaceAll("_", " ") : text);
        option.value = index;
        select.append(option);
      });
      select.addEventListener("change", filter);
    }
    for (const key of FLAGS) $("f-" + key).addEventListener("change", filter);
    $("unfold").addEventListener("change", (event) => { toUnfold = event.target.checked; draw(); if (open >= 0) show(open, false); });
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    let waiting;
    $("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 30); });
    let asked = false;
    list.addEventListener("scroll", () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } });
    list.addEventListener("click", (event) => {
      const line = event.target.closest(".row");
      if (line) { choose(Number(line.id.slice(4)), false); if (innerWidth <= 800) detail.scrollIntoView(); }
    });
    list.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
      const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: shown.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") choose(active, true);
      else if (to !== undefined) moveTo(to);
      else return;
      event.preventDefault();
    });
    detail.addEventListener("keydown", (event) => { if (event.key === "Escape") list.focus(); });
    addEventListener("resize", () => { draw(); mark(); });
    addEventListener("hashchange", () => { followHash(); followFilter(); });
    filter();
    followHash();
    followFilter();
    document.documentElement.dataset.ready = performance.now();
    idly(lowerIdly);
  }
  // After the first paint: the tables and figures stand before the answers are read.
  requestAnimationFrame(() => setTimeout(start));
})();
