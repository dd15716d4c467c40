(() => {
  const { element, drawn, ending, plain, put, putParts, box, difference } = Texts;
  const ROW = 52;
  const $ = (id) => document.getElementById(id);
  const list = $("list"), space = $("space"), detail = $("detail");
  const FILTERS = ["model", "suite", "category", "outcome", "perturbation"];
  const FLAGS = ["flipped", "changed", "disagree", "cut"];
  const ENDED = { stop: "by itself", length: "cut off at the token limit", loop: "in a loop", content_filter: "stopped by a content filter" };
  let data, columns, names, texts, shown = [], active = 0, open = -1, toUnfold = false, blind = false;
  // Rows of answers to one prompt, by model; and whose answer stands beside an opened one, once chosen.
  let answersTo = [], chosenBeside = null;

  const name = (column, row) => names[column][columns[column][row]];
  const hashOf = (row) => "#/" + [name("model", row), name("suite", row), columns.id[row]].map(encodeURIComponent).join("/");
  const folded = (row) => name("category", row) === "harmful" && !toUnfold;
  const badgeOf = (outcome) => element("span", "badge", outcome.replaceAll("_", " "));

  // Which texts and ids hold a query, in lower case.
  let lowered = null, ids = [], searched = null;
  function search(query) {
    if (!query) return (searched = null);
    if (searched?.query === query) return searched;
    lowered ??= texts.map((text) => text.toLowerCase());
    const held = (all) => all.map((text) => text.includes(query));
    return (searched = { query, texts: held(lowered), ids: held(ids) });
  }

  // Several outcomes, or categories, at once, as the rates count them.
  const outcomes = (key) => $("f-outcome").dataset[key].split(" ");
  const GROUPS = {
    outcome: { refused: (name) => outcomes("refused").includes(name), "not judged": (name) => !outcomes("judged").includes(name) },
    category: { harmless: (name) => name !== "harmful" },
  };
  // Which values of a column the filter lets through; null for all.
  function allowed(key) {
    const value = $("f-" + key).value;
    if (value === "") return null;
    const group = GROUPS[key]?.[value];
    return names[key].map((name, place) => group ? group(name) : place === Number(value));
  }

  // Whether an answer refuses; null where it was not judged.
  const refused = (row) => {
    const outcome = name("outcome", row);
    return outcomes("judged").includes(outcome) ? outcomes("refused").includes(outcome) : null;
  };
  const differ = (one, two) => one >= 0 && two >= 0 && refused(one) !== null && refused(two) !== null && refused(one) !== refused(two);
  const answerBy = (model, row) => answersTo[model][columns.prompted[row]];

  // How unsure the judge that decides is, by its score: 1 at a half, 0 where it is sure, less where it has none.
  const doubts = new Map();
  function doubt(row) {
    const key = columns.verdict[row] + " " + columns.suite[row];
    if (!doubts.has(key)) {
      const verdict = JSON.parse(data.verdicts[columns.verdict[row]]).find((one) => one.judge === data.judges[name("suite", row)]);
      doubts.set(key, typeof verdict?.score === "number" ? 1 - Math.abs(2 * verdict.score - 1) : -1);
    }
    return doubts.get(key);
  }

  function filter() {
    const other = $("f-differs").value;
    const wanted = FILTERS.map((key) => [columns[key], allowed(key)]).filter(([, held]) => held);
    const flags = FLAGS.filter((key) => $("f-" + key).checked).map((key) => columns[key]);
    const hits = search($("search").value.toLowerCase());
    const total = columns.id.length;
    const found = [];
    next: for (let row = 0; row < total && !blind; row++) {
      for (const [column, value] of wanted) if (!value[column[row]]) continue next;
      for (const column of flags) if (column[row] !== 1) continue next;
      if (other !== "" && !differ(row, answerBy(other, row))) continue;
      if (hits && !hits.texts[columns.prompt[row]] && !hits.texts[columns.answer[row]] && !hits.ids[row]) continue;
      found.push(row);
    }
    if ($("order").value) found.sort((one, two) => doubt(two) - doubt(one) || one - two);
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

  // While answers are labelled, nothing else is shown of them.
  function hide(hidden) {
    if (hidden) close();
    blind = $("panes").hidden = hidden;
    filter();
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
    const made = element("details", "folded");
    made.open = !folded(row);
    made.append(element("summary", "", title), content);
    return made;
  };

  const listed = (pairs) => {
    const made = element("dl");
    for (const [key, value] of pairs) if (value !== null && value !== "") made.append(element("dt", "", key), put(element("dd"), String(value)));
    return made;
  };

  // An answer beside its outcome, its verdicts and their evidence; `changes` are words that another has not.
  function card(row, title, changes = []) {
    const answer = texts[columns.answer[row]], judged = JSON.parse(data.verdicts[columns.verdict[row]]);
    const textAt = (place) => place === null ? "" : texts[place];
    const pairs = [["Outcome", name("outcome", row).replaceAll("_", " ")], ["Answer ended", ENDED[columns.finish[row]] ?? columns.finish[row]], ["Error", textAt(columns.error[row])]];
    for (const verdict of judged) {
      const said = [verdict.label ?? "no label", verdict.score === null ? "" : "score " + verdict.score, textAt(verdict.reason), verdict.error !== null && "error: " + textAt(verdict.error)];
      pairs.push(["Judge " + verdict.judge + (verdict.reads ? " of the " + verdict.reads : ""), said.filter(Boolean).join(", ")]);
    }
    // Evidence is counted in characters, texts here in UTF-16 units.
    const units = (text, count) => [...text].slice(0, count).join("").length;
    const marks = (text, reads) => judged.filter((verdict) => verdict.reads === reads).flatMap((verdict) => verdict.evidence.map((hit) => ({ start: units(text, hit.start), end: units(text, hit.end), tag: "mark", says: verdict.judge + ": " + hit.says })));
    const thought = texts[columns.thinking[row]] ?? "", evidence = marks(answer, undefined), inThought = marks(thought, "thinking");
    if (evidence.length + inThought.length) pairs.push(["Marked", [...new Set([...evidence, ...inThought].map((hit) => hit.says))].join("; ")]);
    const made = element("div", "card");
    made.append(element("h4", "", title), listed(pairs));
    const shown = answer ? box(answer, [...changes, ...evidence]) : element("p", "small", "empty");
    if (thought && judged.some((verdict) => verdict.reads)) {
      const sides = element("div", "sides"), beside = element("div"), own = element("div");
      beside.append(element("h4", "", "Thinking"), box(thought, inThought));
      own.append(element("h4", "", "Answer"), shown);
      sides.append(beside, own);
      made.append(sides);
      return made;
    }
    made.append(shown);
    if (thought) {
      const thinking = element("details");
      thinking.append(element("summary", "", "Thinking"), box(thought));
      made.append(thinking);
    }
    return made;
  }

  // This model's other answers to the same row of the suite: to variants of the prompt, samples, earlier turns.
  function related(row) {
    const same = (other) => ["source", "model", "suite"].every((key) => columns[key][other] === columns[key][row]);
    return columns.id.map((_, other) => other).filter((other) => other !== row && other !== columns.clean[row] && same(other));
  }

  // An answer, and beside it the one to the clean prompt or another one, what only one says marked.
  function besides(row) {
    const clean = columns.clean[row], choices = clean === null ? [] : [["clean", "the answer to the clean prompt", clean]];
    for (const other of related(row)) {
      const became = name("outcome", other).replaceAll("_", " ") + (differ(row, other) ? ", flipped" : "");
      choices.push(["answer " + columns.id[other], plain(columns.id[other]) + ": " + became, other]);
    }
    names.model.forEach((model, place) => {
      const other = answerBy(place, row);
      if (other >= 0 && other !== row) choices.push([String(place), model + ": " + name("outcome", other).replaceAll("_", " "), other]);
    });
    if (!choices.length) return [card(row, "Answer")];
    const wanted = chosenBeside ?? ($("f-differs").value || "clean");
    const [key, , other] = choices.find((choice) => choice[0] === wanted) ?? ["", "", -1];
    const select = element("select"), labelled = element("label", "check", "Compare with ");
    for (const [value, text] of [["", "no other answer"], ...choices]) select.append(Object.assign(element("option", "", text), { value }));
    select.id = "beside";
    select.value = key;
    select.addEventListener("change", () => {
      chosenBeside = select.value;
      const unfolded = detail.querySelector(".folded")?.open;
      show(row, false);
      if (unfolded) detail.querySelector(".folded").open = true;
      $("beside").focus();
    });
    labelled.append(select);
    if (other < 0) return [labelled, card(row, "Answer")];
    const link = element("a", "", key === "clean" ? "Open the clean answer" : "Open that answer");
    link.href = hashOf(other);
    const pair = key === "clean" ? [other, row] : [row, other];
    const ownModel = columns.model[row] === columns.model[other];
    const titles = key === "clean" ? ["Answer to the clean prompt", "Answer to the perturbed prompt"] : pair.map((one) => ownModel ? plain(columns.id[one]) : name("model", one));
    const said = pair.map((one) => texts[columns.answer[one]]), same = said[0] === said[1];
    const changes = same ? [[], []] : difference(...said, key === "clean" ? ["del", "ins"] : ["u", "u"]);
    const sides = element("div", "sides");
    sides.append(...pair.map((one, place) => card(one, titles[place], changes[place])));
    return [labelled, sides, ...(same ? [element("p", "small", "The two answers are the same.")] : []), link];
  }

  // The command that has the model answer this prompt again, whatever is stored.
  function again(row) {
    const command = data.commands[name("model", row)]?.[name("suite", row)];
    if (!command || !columns.again[row]) return [];
    const prompt = { id: columns.id[row], category: name("category", row), prompt: texts[columns.prompt[row]] };
    const escaped = JSON.stringify(prompt).replace(/[^ -~]|'/g, (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));
    const lines = ["mkdir -p again", "printf '%s\\n' '" + escaped + "' > " + command[0], command[1]], made = element("details");
    made.append(element("summary", "", "Make it again"), element("code", "command", lines.join("\n")));
    return [made];
  }

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
    const clean = columns.clean[row], about = [["Model", name("model", row)], ["Suite", name("suite", row)], ["Category", name("category", row)]];
    if (clean !== null) about.push(["Perturbation", name("perturbation", row)], ["Repetitions used", columns.repetitions[row]], ["Similarity", columns.similarity[row]],
      ["Answer changed", columns.changed[row] === null ? "not tested" : columns.changed[row] ? "yes" : "no"]);
    parts.push(listed(about));
    const content = element("div");
    const prompt = texts[columns.prompt[row]];
    if (clean === null) content.append(element("h4", "", "Prompt"), box(prompt));
    else {
      const [gone, added] = difference(texts[columns.prompt[clean]], prompt), sides = element("div", "sides");
      for (const [title, text, spans] of [["Clean prompt", texts[columns.prompt[clean]], gone], ["Perturbed prompt", prompt, added]]) {
        const made = element("div");
        made.append(element("h4", "", title), box(text, spans));
        sides.append(made);
      }
      content.append(sides);
    }
    content.append(...besides(row), ...again(row));
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

  const namesOf = (key) => key === "differs" ? "model" : key;
  function reset() {
    $("filters").reset();
    toUnfold = false;
    chosenBeside = null;
  }

  // The differences of the two models that are chosen, or of those that a link names.
  const pairs = [...document.querySelectorAll("#compare tbody")];
  function compare() {
    const chosen = ["first", "second"].map((key) => $("of-" + key).value);
    for (const body of pairs) body.hidden = !(chosen[0] === body.dataset.first && chosen[1] === body.dataset.second);
    const none = pairs.every((body) => body.hidden);
    $("compared").hidden = none;
    $("no-pair").hidden = !none;
    mark();
  }
  function followCompare() {
    if (!location.hash.startsWith("#compare?") || !pairs.length) return;
    const wanted = new URLSearchParams(location.hash.slice("#compare?".length));
    for (const key of ["first", "second"]) if (wanted.get(key) !== null) $("of-" + key).value = wanted.get(key);
    history.replaceState(null, "", "#compare");
    compare();
    $("compare").scrollIntoView();
    $("of-first").focus({ preventScroll: true });
  }

  function followHash() {
    const parts = location.hash.slice(2).split("/");
    if (!location.hash.startsWith("#/") || parts.length !== 3) return;
    let wanted;
    try { wanted = parts.map(decodeURIComponent); } catch { return; }
    const model = names.model.indexOf(wanted[0]), suite = names.suite.indexOf(wanted[1]);
    const row = columns.id.findIndex((id, i) => id === wanted[2] && columns.model[i] === model && columns.suite[i] === suite);
    if (row < 0) return;
    if (!shown.includes(row)) reset(), filter();
    moveTo(shown.indexOf(row));
    show(row, true);
    detail.scrollIntoView();
  }

  // A link from the results: the answers that it counts.
  function followFilter() {
    if (!location.hash.startsWith("#filter?")) return;
    const wanted = new URLSearchParams(location.hash.slice("#filter?".length));
    reset();
    for (const key of [...FILTERS, "differs"]) {
      const value = wanted.get(key);
      if (value !== null) $("f-" + key).value = GROUPS[key]?.[value] ? value : names[namesOf(key)].indexOf(value);
    }
    $("order").value = "doubt";
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
  for (const key of ["first", "second"]) $("of-" + key)?.addEventListener("change", compare);
  if (pairs.length) compare();
  // Escape closes what a number opened.
  $("results").addEventListener("keydown", (event) => {
    const opened = event.key === "Escape" && event.target.closest("details[open]");
    if (opened) { opened.open = false; opened.querySelector("summary").focus(); }
  });

  function start() {
    data = JSON.parse($("data").textContent);
    ({ columns, names, texts } = data);
    ids = columns.id.map((id) => id.toLowerCase());
    columns.source = columns.source.map((source, row) => source ?? columns.clean[row] ?? columns.id[row]);
    const key = (row, id) => columns.model[row] + " " + columns.suite[row] + " " + id;
    const places = new Map(columns.id.map((id, row) => [key(row, id), row]));
    columns.clean = columns.clean.map((id, row) => id === null ? null : places.get(key(row, id)) ?? null);
    const prompted = new Map();
    columns.prompted = columns.id.map((id, row) => {
      const prompt = columns.suite[row] + " " + id;
      return prompted.get(prompt) ?? (prompted.set(prompt, prompted.size), prompted.size - 1);
    });
    answersTo = names.model.map(() => new Int32Array(prompted.size).fill(-1));
    columns.prompted.forEach((prompt, row) => { answersTo[columns.model[row]][prompt] = row; });
    // An answer that refuses where the one to the clean prompt did not, or the other way round.
    columns.flipped = columns.clean.map((clean, row) => clean !== null && differ(clean, row) ? 1 : 0);
    columns.cut = columns.finish.map((reason) => reason === "length" ? 1 : 0);
    for (const key of [...FILTERS, "differs"]) {
      const select = $("f-" + key), all = element("option", "", key === "differs" ? "any" : "all");
      all.value = "";
      select.append(all);
      for (const group of Object.keys(GROUPS[key] ?? {})) select.append(element("option", "", group + (group === "refused" ? ", fully or in part" : ""))), (select.lastChild.value = group);
      names[namesOf(key)].forEach((text, index) => {
        const option = element("option", "", key === "outcome" ? text.replaceAll("_", " ") : text);
        option.value = index;
        select.append(option);
      });
      select.addEventListener("change", () => { chosenBeside = null; filter(); });
    }
    for (const key of FLAGS) $("f-" + key).addEventListener("change", filter);
    $("order").addEventListener("change", filter);
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
    Labelling.start(data, () => hide(true), () => hide(false));
    const follow = () => { followHash(); followFilter(); followCompare(); };
    addEventListener("hashchange", follow);
    filter();
    follow();
    document.documentElement.dataset.ready = performance.now();
  }
  // After the first paint: the tables and figures stand before the answers are read.
  requestAnimationFrame(() => setTimeout(start));
})();
