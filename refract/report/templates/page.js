(() => {
  const { element, plain, put, box, difference } = Texts;
  const ROW = 52;
  const $ = (id) => document.getElementById(id);
  const list = $("list"), space = $("space"), detail = $("detail");
  const FILTERS = ["model", "suite", "category", "outcome", "perturbation"];
  const ENDED = { stop: "by itself", length: "cut off at the token limit", loop: "in a loop", content_filter: "stopped by a content filter" };
  // Several outcomes, or categories, at once, as the rates count them.
  const GROUPS = {
    outcome: { refused: (name) => data.refused.includes(name), "not judged": (name) => !data.judged.includes(name) },
    category: { harmless: (name) => name !== "harmful" },
  };
  let data, columns, names, texts, lowered, query = "", shown = [], active = 0, open = -1, blind = false;
  let answersTo = []; // by model, the row of its answer to each prompt

  const name = (column, row) => names[column][columns[column][row]];
  const words = (text) => text.replaceAll("_", " ");
  const hashOf = (row) => "#/" + [name("model", row), name("suite", row), columns.id[row]].map(encodeURIComponent).join("/");
  const folded = (row) => name("category", row) === "harmful" && !$("unfold").checked;
  // Whether an answer refuses; null where it was not judged.
  const refused = (row) => data.judged.includes(name("outcome", row)) ? data.refused.includes(name("outcome", row)) : null;
  const differ = (one, two) => one >= 0 && two >= 0 && refused(one) !== null && refused(two) !== null && refused(one) !== refused(two);
  const answerBy = (model, row) => answersTo[model].get(columns.suite[row] + " " + columns.id[row]) ?? -1;

  // Which values of a column the filter lets through; null for all.
  function allowed(key) {
    const value = $("f-" + key).value, group = GROUPS[key]?.[value];
    return value === "" ? null : names[key].map((name, place) => group ? group(name) : place === Number(value));
  }
  // Where the query is in a row's texts, or in its id.
  function hitIn(row) {
    for (const where of ["prompt", "answer"]) {
      const at = lowered[columns[where][row]].indexOf(query);
      if (at >= 0) return { where, at, text: texts[columns[where][row]] };
    }
    const at = columns.id[row].toLowerCase().indexOf(query);
    return at < 0 ? null : { where: "id", at, text: columns.id[row] };
  }
  function filter() {
    const other = $("f-differs").value, only = columns[$("f-only").value];
    const wanted = FILTERS.map((key) => [columns[key], allowed(key)]).filter(([, held]) => held);
    query = $("search").value.toLowerCase();
    if (query) lowered ??= texts.map((text) => text.toLowerCase());
    const total = columns.id.length;
    shown = [];
    for (let row = 0; row < total && !blind; row++) {
      const kept = wanted.every(([column, held]) => held[column[row]]) && (!only || only[row] === 1);
      if (kept && (other === "" || differ(row, answerBy(other, row))) && (!query || hitIn(row))) shown.push(row);
    }
    if (open >= 0 && !shown.includes(open)) close();
    active = Math.max(0, shown.indexOf(open));
    space.style.height = shown.length * ROW + "px";
    $("count").textContent = shown.length.toLocaleString("en") + " of " + total.toLocaleString("en") + " answers";
    list.scrollTop = active * ROW;
    draw();
  }
  // While answers are labelled, nothing else is shown of them.
  function hide(hidden) {
    if (hidden) close();
    blind = $("panes").hidden = hidden;
    filter();
  }

  // A hit with what stands around it.
  function excerpt(parent, hit) {
    const line = (start, end) => hit.text.slice(start, end).replaceAll("\n", " ");
    const start = Math.max(0, hit.at - 20), end = hit.at + query.length;
    parent.append(element("i", "", hit.where + ": "), start ? "…" : "");
    put(parent, line(start, hit.at).replace(/^[\udc00-\udfff]/, ""));
    parent.append(put(element("mark"), line(hit.at, end)));
    put(parent, line(end, end + 160));
  }
  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 9);
    const made = [];
    for (let place = first; place < last; place++) {
      const row = shown[place], line = element("div", "row");
      line.id = "row-" + place;
      line.setAttribute("role", "option");
      line.setAttribute("aria-selected", String(place === active));
      line.setAttribute("aria-setsize", shown.length);
      line.setAttribute("aria-posinset", place + 1);
      line.style.top = place * ROW + "px";
      const what = element("span", "what"), text = element("span", "text");
      what.append(element("span", "badge", words(name("outcome", row))));
      if (columns.flipped[row]) what.append(element("span", "badge fail", "flipped"));
      else if (columns.changed[row]) what.append(element("span", "badge fail", "changed"));
      what.append(put(element("span", "id"), columns.id[row]), element("span", "model", name("model", row)));
      what.title = plain(columns.id[row]) + ", " + name("model", row);
      const hit = query ? hitIn(row) : null;
      if (folded(row) && hit?.where !== "id") text.append(element("i", "", hit ? "hit in the folded " + hit.where + " (unfold to read)" : "harmful prompt, folded"));
      else if (hit) excerpt(text, hit);
      else put(text, texts[columns.prompt[row]].slice(0, 200).replaceAll("\n", " "));
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

  function listed(pairs) {
    const made = element("dl");
    for (const [key, value] of pairs) if (value !== null && value !== "") made.append(element("dt", "", key), put(element("dd"), String(value)));
    return made;
  }
  function inDetails(title, ...content) {
    const made = element("details");
    made.append(element("summary", "", title), ...content);
    return made;
  }
  // An answer with its outcome, its verdicts and their evidence; `changes` are words that another has not.
  function card(row, title, changes = []) {
    const answer = texts[columns.answer[row]], judged = JSON.parse(data.verdicts[columns.verdict[row]]);
    const textAt = (place) => place === null ? "" : texts[place];
    const pairs = [["Outcome", words(name("outcome", row))], ["Answer ended", ENDED[columns.finish[row]] ?? columns.finish[row]], ["Error", textAt(columns.error[row])]];
    for (const verdict of judged) {
      const said = [verdict.label ?? "no label", verdict.score === null ? "" : "score " + verdict.score, textAt(verdict.reason), verdict.error !== null && "error: " + textAt(verdict.error)];
      pairs.push(["Judge " + verdict.judge + (verdict.reads ? " of the " + verdict.reads : ""), said.filter(Boolean).join(", ")]);
    }
    // Evidence is counted in characters, texts here in UTF-16 units.
    const units = (text, count) => [...text].slice(0, count).join("").length;
    const marks = (text, reads) => judged.filter((verdict) => verdict.reads === reads).flatMap((verdict) => verdict.evidence.map((hit) => ({ start: units(text, hit.start), end: units(text, hit.end), tag: "mark", says: verdict.judge + ": " + hit.says })));
    const thought = textAt(columns.thinking[row]), evidence = marks(answer, undefined), inThought = marks(thought, "thinking");
    const found = new Set([...evidence, ...inThought].map((hit) => hit.says));
    pairs.push(["Marked", [...found].join("; ")]);
    const made = element("div");
    made.append(element("h4", "", title), listed(pairs), answer ? box(answer, [...changes, ...evidence]) : element("p", "small", "empty"));
    if (thought) {
      const thinking = inDetails("Thinking", box(thought, inThought));
      thinking.open = judged.some((verdict) => verdict.reads);
      made.append(thinking);
    }
    return made;
  }
  function sideBySide(...parts) {
    const made = element("div", "sides");
    made.append(...parts);
    return made;
  }
  // A perturbed prompt's answer beside that to the clean one; a model's beside that of the model it is to differ from.
  function answerParts(row) {
    const clean = columns.clean[row], filtered = $("f-differs").value;
    const model = filtered === "" ? -1 : answerBy(filtered, row), other = model >= 0 ? model : clean ?? -1;
    if (other < 0 || other === row) return [card(row, "Answer")];
    const ofClean = other === clean, pair = ofClean ? [other, row] : [row, other];
    const titles = ofClean ? ["Answer to the clean prompt", "Answer to the perturbed prompt"] : pair.map((one) => name("model", one));
    const said = pair.map((one) => texts[columns.answer[one]]);
    const changes = difference(...said, ofClean ? ["del", "ins"] : ["u", "u"]);
    const sides = sideBySide(...pair.map((one, place) => card(one, titles[place], changes[place])));
    const link = element("a", "", ofClean ? "Open the clean answer" : "Open that answer");
    link.href = hashOf(other);
    return [sides, ...(said[0] === said[1] ? [element("p", "small", "The two answers are the same.")] : []), link];
  }
  function promptParts(row) {
    const prompt = texts[columns.prompt[row]], clean = columns.clean[row];
    const part = (title, text, spans) => {
      const made = element("div");
      made.append(element("h4", "", title), box(text, spans));
      return made;
    };
    if (clean === null) return part("Prompt", prompt);
    const [gone, added] = difference(texts[columns.prompt[clean]], prompt, ["del", "ins"]);
    return sideBySide(part("Clean prompt", texts[columns.prompt[clean]], gone), part("Perturbed prompt", prompt, added));
  }
  function show(row, focus) {
    open = row;
    const heading = put(element("h3"), columns.id[row]), buttons = element("div", "buttons");
    heading.id = "detail-h";
    const back = element("button", "", "Back to the list"), link = element("a", "", "Link to this answer");
    back.type = "button";
    back.addEventListener("click", () => list.focus());
    link.href = hashOf(row);
    buttons.append(back, link);
    const about = ["model", "suite", "category", "perturbation"].map((key) => [key[0].toUpperCase() + key.slice(1), name(key, row)]);
    if (columns.clean[row] !== null) about.push(["Answer changed", ["no", "yes"][columns.changed[row]] ?? "not tested"]);
    const content = [promptParts(row), ...answerParts(row)];
    if (name("category", row) === "harmful") {
      const fold = inDetails("Texts of a harmful prompt", ...content);
      fold.open = !folded(row);
      content.splice(0, content.length, fold);
    }
    detail.replaceChildren(heading, buttons, listed(about), ...content);
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
    history.replaceState(null, "", hashOf(shown[active]));
    show(shown[active], focus);
  }

  // A link to an answer, or from a number to the answers that it counts.
  function follow() {
    if (location.hash.startsWith("#filter?")) return followFilter(new URLSearchParams(location.hash.slice("#filter?".length)));
    const parts = location.hash.slice(2).split("/");
    if (!location.hash.startsWith("#/") || parts.length !== 3) return;
    let wanted;
    try { wanted = parts.map(decodeURIComponent); } catch { return; }
    const row = columns.id.findIndex((id, i) => id === wanted[2] && name("model", i) === wanted[0] && name("suite", i) === wanted[1]);
    if (row < 0) return;
    if (!shown.includes(row)) $("filters").reset(), filter();
    moveTo(shown.indexOf(row));
    show(row, true);
    detail.scrollIntoView();
  }
  function followFilter(wanted) {
    $("filters").reset();
    for (const key of [...FILTERS, "differs"]) {
      const value = wanted.get(key), all = names[key === "differs" ? "model" : key];
      if (value !== null) $("f-" + key).value = GROUPS[key]?.[value] ? value : all.indexOf(value);
    }
    // The same link works again after the filters are set otherwise.
    history.replaceState(null, "", "#answers");
    filter();
    $("answers").scrollIntoView();
    list.focus({ preventScroll: true });
  }

  function start() {
    data = JSON.parse($("data").textContent);
    ({ columns, names, texts } = data);
    const key = (row, id) => columns.suite[row] + " " + id;
    answersTo = names.model.map(() => new Map());
    columns.id.forEach((id, row) => answersTo[columns.model[row]].set(key(row, id), row));
    columns.clean = columns.clean.map((id, row) => id === null ? null : answersTo[columns.model[row]].get(key(row, id)) ?? null);
    // An answer that refuses where the one to the clean prompt did not, or the other way round.
    columns.flipped = columns.clean.map((clean, row) => clean !== null && differ(clean, row) ? 1 : 0);
    columns.cut = columns.finish.map((reason) => reason === "length" ? 1 : 0);
    for (const key of [...FILTERS, "differs"]) {
      const select = $("f-" + key), option = (text, value) => select.append(Object.assign(element("option", "", key === "outcome" ? words(text) : text), { value }));
      for (const group of Object.keys(GROUPS[key] ?? {})) option(group === "refused" ? "refused, fully or in part" : group, group);
      names[key === "differs" ? "model" : key].forEach(option);
    }
    $("filters").addEventListener("change", () => { filter(); if (open >= 0) show(open, false); });
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    let waiting, asked = false;
    $("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 30); });
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
    addEventListener("resize", draw);
    Labelling.start(data, () => hide(true), () => hide(false));
    addEventListener("hashchange", follow);
    filter();
    follow();
    document.documentElement.dataset.ready = performance.now();
  }
  // After the first paint: the tables and figures stand before the answers are read.
  requestAnimationFrame(() => setTimeout(start));
})();
