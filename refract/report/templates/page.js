(() => {
  const { element, put, box, difference } = Texts;
  const MORE = 200; // rows that the list shows at first, and more of them at a time
  const $ = (id) => document.getElementById(id);
  const list = $("list"), detail = $("detail");
  const FILTERS = ["model", "suite", "category", "outcome", "perturbation"];
  const ENDED = { stop: "by itself", length: "cut off at the token limit", loop: "in a loop", content_filter: "stopped by a content filter" };
  // Several outcomes at once, as the rates count them.
  const GROUPS = { refused: (name) => data.refused.includes(name), "not judged": (name) => !data.judged.includes(name) };
  let data, columns, names, texts, lowered, shown = [], open = -1, blind = false;
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
    const value = $("f-" + key).value, group = GROUPS[value];
    return value === "" ? null : names[key].map((name, place) => group ? group(name) : place === Number(value));
  }
  function filter() {
    const query = $("search").value.toLowerCase(), other = $("f-differs").value, only = columns[$("f-only").value];
    const wanted = FILTERS.map((key) => [columns[key], allowed(key)]).filter(([, held]) => held);
    if (query) lowered ??= texts.map((text) => text.toLowerCase());
    const found = (row) => [lowered[columns.prompt[row]], lowered[columns.answer[row]], columns.id[row].toLowerCase()].some((text) => text.includes(query));
    const total = columns.id.length;
    shown = [];
    for (let row = 0; row < total && !blind; row++) {
      const kept = wanted.every(([column, held]) => held[column[row]]) && (!only || only[row] === 1);
      if (kept && (other === "" || differ(row, answerBy(other, row))) && (!query || found(row))) shown.push(row);
    }
    if (open >= 0 && !shown.includes(open)) close();
    $("count").textContent = shown.length.toLocaleString("en") + " of " + total.toLocaleString("en") + " answers";
    draw(MORE);
  }
  // While answers are labelled, nothing else is shown of them.
  function hide(hidden) {
    if (hidden) close();
    blind = $("panes").hidden = hidden;
    filter();
  }
  function draw(count) {
    const made = shown.slice(0, count).map((row) => {
      const line = element("a", "row"), what = element("span", "what"), text = element("span", "text");
      line.href = hashOf(row);
      what.append(element("span", "badge", words(name("outcome", row))));
      if (columns.flipped[row]) what.append(element("span", "badge fail", "flipped"));
      else if (columns.changed[row]) what.append(element("span", "badge fail", "changed"));
      what.append(put(element("span", "id"), columns.id[row]), element("span", "model", name("model", row)));
      if (folded(row)) text.append(element("i", "", "harmful prompt, folded"));
      else put(text, texts[columns.prompt[row]].slice(0, 200).replaceAll("\n", " "));
      line.append(what, text);
      return line;
    });
    if (!shown.length) made.push(element("p", "nothing", "No answer matches. Fewer filters or other words find more."));
    if (shown.length > count) {
      const more = element("button", "", "More");
      more.addEventListener("click", () => { draw(count + MORE); list.children[count].focus(); });
      made.push(more);
    }
    list.replaceChildren(...made);
    mark();
  }
  // The open answer is marked in the list.
  function mark() {
    for (const line of list.querySelectorAll("a")) line.ariaCurrent = open >= 0 && line.getAttribute("href") === hashOf(open) ? "true" : null;
  }
  const toList = () => (list.querySelector("[aria-current]") ?? list.querySelector("a"))?.focus();

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
  // An answer with its outcome, its verdicts and their evidence; `changes` are what another has not.
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
  function show(row) {
    open = row;
    const heading = put(element("h3"), columns.id[row]), back = element("button", "", "Back to the list");
    heading.id = "detail-h";
    back.addEventListener("click", toList);
    const about = ["model", "suite", "category", "perturbation"].map((key) => [key[0].toUpperCase() + key.slice(1), name(key, row)]);
    if (columns.clean[row] !== null) about.push(["Answer changed", ["no", "yes"][columns.changed[row]] ?? "not tested"]);
    const content = [promptParts(row), ...answerParts(row)];
    if (name("category", row) === "harmful") {
      const fold = inDetails("Texts of a harmful prompt", ...content);
      fold.open = !folded(row);
      content.splice(0, content.length, fold);
    }
    detail.replaceChildren(heading, back, listed(about), ...content);
    detail.scrollTop = 0;
    mark();
  }
  // What is filtered out is no longer open.
  const unopened = [...detail.childNodes];
  function close() {
    open = -1;
    detail.replaceChildren(...unopened);
    if (location.hash.startsWith("#/")) history.replaceState(null, "", "#answers");
  }
  // A link to an answer.
  function follow() {
    const parts = location.hash.slice(2).split("/");
    if (!location.hash.startsWith("#/") || parts.length !== 3) return;
    let wanted;
    try { wanted = parts.map(decodeURIComponent); } catch { return; }
    const row = columns.id.findIndex((id, i) => id === wanted[2] && name("model", i) === wanted[0] && name("suite", i) === wanted[1]);
    if (row < 0) return;
    if (!shown.includes(row)) $("filters").reset(), filter();
    show(row);
    detail.focus({ preventScroll: true });
    detail.scrollIntoView({ block: "nearest" });
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
      const option = (text, value) => $("f-" + key).append(Object.assign(element("option", "", key === "outcome" ? words(text) : text), { value }));
      if (key === "outcome") for (const group of Object.keys(GROUPS)) option(group, group);
      names[key === "differs" ? "model" : key].forEach(option);
    }
    $("filters").addEventListener("change", () => { filter(); if (open >= 0) show(open); });
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    let waiting;
    $("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 30); });
    detail.addEventListener("keydown", (event) => { if (event.key === "Escape") toList(); });
    Labelling.start(data, () => hide(true), () => hide(false));
    addEventListener("hashchange", follow);
    filter();
    follow();
    document.documentElement.dataset.ready = performance.now();
  }
  // After the first paint: the tables and figures stand before the answers are read.
  requestAnimationFrame(() => setTimeout(start));
})();
