"use strict";
const site = window.profkit, lang = document.documentElement.lang;
const say = (key, values = {}) => site.words[key][lang === "zh" ? 1 : 0].replace(/\{(\w+)\}/g, (_, name) => values[name]);
const told = (text) => (lang === "zh" && site.chinese[text]) || text;
const rows = site.rows;
const devices = [...new Set(rows.map((row) => row.device))].sort();
for (const row of rows) row.text = `${row.sample} ${row.impl}`.toLowerCase();
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const key in attributes) { if (key in made) made[key] = attributes[key]; else made.setAttribute(key, attributes[key]); }
  made.append(...children);
  return made;
};
const digits = (value) => (value === null ? "-" : value >= 999.5 ? value.toFixed(0) : value.toPrecision(3));
const seconds = (value) => {
  if (value === null) return "-";
  const [unit, name] = value >= 1 ? [1, "s"] : value >= 1e-3 ? [1e-3, "ms"] : [1e-6, "us"];
  return `${(value / unit).toPrecision(3)} ${name}`;
};
const percent = (value) => (value === null ? "-" : `${(100 * value).toPrecision(3)}%`);
const pace = (row) => row.speedup === null ? "-" : `${digits(row.speedup)}x [${digits(row.low)}, ${digits(row.high)}]${row.word === "faster" && !row.wins ? " *" : ""}`;
const word = (row) => (row.word ? say(row.word) : row.status);
// name, whether larger is better, text, left
const columns = [
  ["place", null, (row) => row.place ?? ""], ["sample", false, (row) => row.sample, true], ["impl", false, (row) => row.impl, true],
  ["device", false, (row) => row.device, true], ["verdict", false, word, true], ["speedup", true, pace], ["share", true, (row) => percent(row.share)],
  ["lower_bound", false, (row) => digits(row.lower_bound)], ["time", false, (row) => seconds(row.time)], ["bound", false, (row) => told(row.bound), true],
  ["created", true, (row) => row.created, true], ["caveats", false, (row) => row.caveats.length || ""],
];
const state = { sort: "speedup", down: true, find: "", device: "", word: "", newest: true, count: 200 };
const STEP = 200;

const value = (row, name) => (name === "verdict" ? row.word : name === "caveats" ? row.caveats.length : row[name]);
const chosen = () => rows.filter((row) => (!state.newest || row.newest) && (!state.device || row.device === state.device)
  && (!state.word || row.word === state.word) && (!state.find || row.text.includes(state.find)));
const spoiled = (row) => state.sort === "speedup" && row.word === "faster" && !row.wins;
const ranked = (list) => {
  const name = state.sort, sign = state.down ? -1 : 1;
  const empty = (row) => value(row, name) === null || value(row, name) === "";
  return list.sort((a, b) => {
    if (empty(a) !== empty(b)) return empty(a) ? 1 : -1;
    if (spoiled(a) !== spoiled(b)) return spoiled(a) ? 1 : -1;
    const x = value(a, name), y = value(b, name);
    return x < y ? -sign : x > y ? sign : a.created < b.created ? 1 : a.created > b.created ? -1 : 0;
  });
};
// A place is shared by all whose intervals do not say that they are behind: one more than those that are ahead for sure.
const place = (list) => {
  for (const row of list) row.place = null;
  if (state.sort !== "speedup" || !state.down) return;
  const judged = list.filter((row) => row.low !== null && row.high !== null && !spoiled(row));
  const lows = judged.map((row) => row.low).sort((a, b) => a - b);
  for (const row of judged) {
    let from = 0, to = lows.length;
    while (from < to) { const middle = (from + to) >> 1; if (lows[middle] > row.high) to = middle; else from = middle + 1; }
    row.place = 1 + lows.length - from;
  }
};
const line = (row) => element("tr", {}, ...columns.map(([name, , text, left]) => {
  const cell = element("td", { "data-name": name, className: `${left ? "l" : ""} ${name === "verdict" ? row.word : ""}`.trim() });
  if (name === "sample") cell.append(element("a", { href: row.page || `#run=${encodeURIComponent(row.path)}`, textContent: row.sample }));
  else if (name === "impl") cell.append(element("a", { href: `#run=${encodeURIComponent(row.path)}&${encodeURIComponent(row.impl)}`, textContent: row.impl }));
  else cell.textContent = text(row);
  return cell;
}));
const show = () => {
  const list = ranked(chosen());
  place(list);
  document.getElementById("rows").replaceChildren(...list.slice(0, state.count).map(line));
  document.getElementById("count").textContent = say("shown", { shown: Math.min(state.count, list.length), all: list.length });
  document.getElementById("more").hidden = list.length <= state.count;
  for (const head of document.querySelectorAll("#head th")) {
    if (head.dataset.name === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
  }
};
const change = (more) => { Object.assign(state, { count: STEP }, more); show(); };
const select = (id, all, values, names, key) => element("select", { id, ariaLabel: all, onchange: (event) => change({ [key]: event.target.value }) },
  element("option", { value: "", textContent: all }), ...values.map((one, at) => element("option", { value: one, textContent: names[at] })));
const controls = () => {
  const words = [...new Set(rows.map((row) => row.word))].filter(Boolean).sort();
  document.getElementById("controls").append(
    element("input", { type: "search", id: "find", placeholder: say("find"), ariaLabel: say("find"), size: 30, oninput: (event) => change({ find: event.target.value.trim().toLowerCase() }) }),
    select("device", say("every_device"), devices, devices, "device"),
    select("word", say("every_verdict"), words, words.map((one) => say(one)), "word"),
    element("label", {}, element("input", { type: "checkbox", id: "newest", checked: true, onchange: (event) => change({ newest: event.target.checked }) }), ` ${say("newest")}`));
  document.getElementById("head").append(...columns.map(([name, better, , left]) => {
    const head = element("th", { className: left ? "l" : "" });
    head.dataset.name = name;
    if (better === null) head.textContent = say(name);
    else head.append(element("button", { type: "button", textContent: say(name), onclick: () => change({ sort: name, down: state.sort === name ? !state.down : better }) }));
    return head;
  }));
  Object.assign(document.getElementById("more"), { textContent: say("more"), onclick: () => { state.count += STEP; show(); } });
};
// The run that the address names, in a dialog: #run=PATH&IMPLEMENTATION.
const detail = () => {
  const box = document.getElementById("run");
  box.close();
  if (!location.hash.startsWith("#run=")) return;
  const [path, impl] = location.hash.slice(5).split("&").map(decodeURIComponent);
  const row = rows.find((one) => one.path === path && (impl === undefined || one.impl === impl));
  if (!row) return;
  const facts = [["sample", row.sample], ["impl", row.impl], ["verdict", told(row.line) || word(row)], ["time", `${seconds(row.time)} (${row.method || "-"})`],
    ["speedup", pace(row)], ["share", percent(row.share)], ["lower_bound", digits(row.lower_bound)], ["bound", told(row.bound) || "-"], ["device", row.device],
    ["created", row.created], ["status", `${row.path} (${row.status})`], ["caveats", row.caveats.map((at) => told(site.caveats[at])).join(" · ") || "-"]];
  box.replaceChildren(element("h2", { textContent: `${row.sample} ${row.impl}` }),
    element("dl", {}, ...facts.flatMap(([name, text]) => [element("dt", { textContent: say(name) }), element("dd", { textContent: text })])),
    element("p", { className: "note" }, row.page ? element("a", { href: row.page, textContent: say("whole") }) : say("unmade", { path: row.path })),
    element("button", { type: "button", textContent: say("close"), onclick: () => box.close() }));
  box.showModal();
};
document.getElementById("run").addEventListener("close", () => { if (location.hash.startsWith("#run=")) history.replaceState(null, "", location.pathname); });
window.addEventListener("hashchange", detail);
controls();
show();
detail();
document.documentElement.dataset.ready = "1";
