// People label one answer at a time, blind to its model, its category and what judges say of it.
const Labelling = (() => {
  const { element, box } = Texts;
  const $ = (id) => document.getElementById(id);
  // What is to be labelled: [hash of prompt and answer, row]. What two models answered alike is asked once.
  let data, queue = [], place = 0, labels = {};

  // Labels of each annotator by that hash, so that they outlive a page that is made anew.
  const unsaved = {};
  const item = (who) => "refract labels of " + who;
  function read(who) {
    let stored = {};
    try { stored = JSON.parse(localStorage.getItem(item(who))) || {}; } catch { /* a browser that keeps nothing */ }
    // Hashes had no letter before them in earlier releases.
    const named = Object.entries(stored).map(([pair, label]) => [pair.startsWith("h") ? pair : "h" + pair, label]);
    return { ...Object.fromEntries(named), ...unsaved[who] };
  }
  function keep(who, pair, label) {
    labels = { ...read(who), [pair]: label };
    try { localStorage.setItem(item(who), JSON.stringify(labels)); delete unsaved[who]; } catch { unsaved[who] = labels; }
  }

  const pairOf = (draw, rank) => draw.cells[rank][draw.columns.indexOf("pair_sha256")];
  const ofSuite = () => data.draws.filter((draw) => draw.suite === $("room-suite").value);
  const chosen = () => ofSuite().filter((draw) => ["", draw.model].includes($("room-model").value));
  // The answers of all models in turn, in the order of each draw; within a turn the hash decides.
  function queued(draws, count) {
    const rows = new Map();
    for (let rank = 0; rank < count; rank++) {
      const turn = draws.filter((draw) => rank < draw.rows.length).map((draw) => [pairOf(draw, rank), draw.rows[rank]]);
      for (const [pair, row] of turn.sort()) if (!rows.has(pair)) rows.set(pair, row);
    }
    return [...rows];
  }

  const fill = (id, options) => $(id).replaceChildren(...options.map(([text, value]) => Object.assign(element("option", "", text), { value })));
  function fillModels() {
    const models = ofSuite().map((draw) => draw.model);
    fill("room-model", [...(models.length > 1 ? [["all models, mixed", ""]] : []), ...models.map((model) => [model, model])]);
    plan();
  }
  // What there is to label, and what is labelled so far.
  function plan() {
    const draws = chosen(), who = $("room-who").checkValidity() ? $("room-who").value : "";
    queue = queued(draws, Number($("room-many").value));
    labels = who ? read(who) : {};
    $("room-done").textContent = who ? queue.filter(([pair]) => labels[pair]).length + " of " + queue.length + " answers labelled by " + who + "." : "";
    $("room-first").textContent = draws.length === 1 ? draws[0].plan.map((text) => text + ".").join(" ") : "";
    $("room-files").replaceChildren(...draws.map((draw) => fileOf(draw, who)).filter(Boolean));
  }
  // The file of a run's labels, and the command that takes it.
  function fileOf(draw, who) {
    const gap = draw.rows.findIndex((_, rank) => !labels[pairOf(draw, rank)]), count = gap < 0 ? draw.rows.length : gap;
    if (!count) return null;
    const file = [draw.file, who, "csv"].join("."), link = element("a", "", file), made = element("li", "", "Download " + count + (count === 1 ? " label: " : " labels: "));
    link.download = file;
    link.href = URL.createObjectURL(new Blob([csv(draw, who, count)], { type: "text/csv" }));
    made.append(link, element("code", "command", "refract correct " + file + " " + draw.options));
    return made;
  }
  // The labels of a draw up to the first answer without one: with a gap they would be no random sample.
  function csv(draw, who, count) {
    const quoted = (cell) => /[",\n\r]/.test(cell) ? '"' + cell.replaceAll('"', '""') + '"' : cell;
    const lines = draw.cells.map((cells, rank) => [...cells, ...(rank < count ? [labels[pairOf(draw, rank)], who] : ["", ""])]);
    return [[...draw.columns, "label", "annotator"], ...lines].map((line) => line.map(quoted).join(",") + "\n").join("");
  }

  function next() {
    place = queue.findIndex(([pair]) => !labels[pair]);
    if (place < 0) leave();
    else show();
  }
  function show() {
    const [pair, row] = queue[place], parts = [];
    for (const key of ["prompt", "answer"]) {
      const text = data.texts[data.columns[key][row]];
      parts.push(element("h3", "", key === "prompt" ? "Prompt" : "Answer"), text ? box(text) : element("p", "small", "empty"));
    }
    $("room-texts").replaceChildren(...parts);
    for (const button of $("room-keys").children) if (button.value) button.setAttribute("aria-pressed", labels[pair] === button.value);
    turnTo("Answer " + (place + 1) + " of " + queue.length, true);
  }
  function leave() {
    plan();
    $("room-texts").replaceChildren();
    turnTo("Label answers", false);
  }
  function turnTo(title, reading) {
    $("room-plan").hidden = reading;
    $("room-reading").hidden = !reading;
    $("room-h").textContent = title;
    $("room-h").focus();
    $("room").scrollTop = 0;
  }
  // A label of the answer that is shown; without one, back to the answer before.
  function press(label) {
    if (label) {
      keep($("room-who").value, queue[place][0], label);
      next();
    } else if (place > 0) {
      place--;
      show();
    }
  }

  // `opened` and `closed` take away what the page shows of answers, and show it again.
  function start(pageData, opened, closed) {
    data = pageData;
    const room = $("room");
    if (!room) return;
    fill("room-suite", [...new Set(data.draws.map((draw) => draw.suite))].map((suite) => [suite, suite]));
    $("label").addEventListener("click", () => { opened(); room.showModal(); fillModels(); leave(); });
    room.addEventListener("close", closed);
    $("room-close").addEventListener("click", () => room.close());
    $("room-stop").addEventListener("click", leave);
    $("room-suite").addEventListener("change", fillModels);
    for (const id of ["room-model", "room-many"]) $(id).addEventListener("change", plan);
    $("room-who").addEventListener("input", plan);
    $("room-form").addEventListener("submit", (event) => { event.preventDefault(); plan(); next(); });
    $("room-keys").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      // The second click of a double one would label an answer that nobody has read.
      if (button && button.id !== "room-stop" && event.detail < 2) press(button.value);
    });
    room.addEventListener("keydown", (event) => {
      const button = $("room-keys").querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
      if (button && !$("room-reading").hidden && !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey) button.click();
    });
    $("label").disabled = false;
  }
  return { start };
})();
